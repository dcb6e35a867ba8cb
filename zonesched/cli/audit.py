"""`zonesched audit`: whether claims, instances and reservations agree, and mending where they do not."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from zonesched.cli.output import print_json, print_rows
from zonesched.cli.session import Session, pass_session, zone_options

COLUMNS = ("kind", "subject", "detail")
REPAIR_COLUMNS = (*COLUMNS, "mended", "action")
TREE_COLUMNS = ("child", "kind", "id")


@click.command()
@click.option("--repair", is_flag=True, help="Mend what differs, and say how; what is in doubt is left.")
@click.option("--dry-run", is_flag=True, help="With --repair: say what would be done, and do nothing.")
@click.option("--tree", is_flag=True, help="Ask the zones below as well, for what this zone has there.")
@zone_options
@pass_session
def audit(session: Session, repair: bool, dry_run: bool, tree: bool) -> None:
    """Compare claims, instances and reservations of the zone; exit 1 if they differ, or are left so."""
    if dry_run and not repair:
        raise click.UsageError("--dry-run goes with --repair.")
    if repair and tree:
        raise click.UsageError("--repair mends one zone: each zone is mended by its own operator.")
    if repair:
        answer = session.call("POST", "/audit", {"repair": {"dry_run": dry_run}})
        is_wrong = dry_run and bool(answer["differences"])
        is_wrong = is_wrong or not all(found["mended"] for found in answer["differences"])
    else:
        answer = session.call("GET", "/audit?tree=true" if tree else "/audit")
        is_wrong = bool(answer["differences"]) or not all(map(_is_clean, answer.get("children", [])))
    if session.as_json:
        print_json(answer)
    else:
        _print(answer, REPAIR_COLUMNS if repair else COLUMNS, tree=tree)
    if is_wrong:
        sys.exit(1)


def _is_clean(child: Mapping[str, Any]) -> bool:
    return child["complete"] and not child["differences"]


def _print(answer: Mapping[str, Any], columns: Sequence[str], *, tree: bool) -> None:
    differences = answer["differences"]
    if differences:
        print_rows(columns, [[found[key] for key in columns] for found in differences])
    else:
        click.echo("no differences")
    if not tree:
        return
    for child in answer["children"]:
        if _is_clean(child):
            click.echo(f"below {child['name']}: no differences")
        elif not child["complete"]:
            click.echo(f"below {child['name']}: not all zones answered")
    lines = [
        [child["name"], found["kind"], found["id"]]
        for child in answer["children"]
        for found in child["differences"]
    ]
    if lines:
        print_rows(TREE_COLUMNS, lines)
