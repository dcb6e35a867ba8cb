"""`zonesched audit`: compare claims, instances and reservations, and repair inconsistencies."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from zonesched.cli.output import print_json
from zonesched.cli.session import Session, pass_session, zone_options
from zonesched.cli.table import plain, print_table

COLUMNS = ("kind", "subject", "detail")
REPAIR_COLUMNS = (*COLUMNS, "repaired", "action")
TREE_COLUMNS = ("child", "kind", "id")

TIMEOUT_S = 3600.0
"""Time limit of a call: an audit of 2,000,000 instances takes minutes."""


@click.command()
@click.option("--repair", is_flag=True, help="Repair inconsistencies and say how; doubtful ones are left.")
@click.option("--dry-run", is_flag=True, help="With --repair: say what would be done, and change nothing.")
@click.option(
    "--delete-unknown",
    is_flag=True,
    help="With --repair: let agents end the instances that a restored zone does not know.",
)
@click.option("--tree", is_flag=True, help="Ask all child zones too, for the instances of this zone there.")
@zone_options
@pass_session
def audit(session: Session, repair: bool, dry_run: bool, delete_unknown: bool, tree: bool) -> None:
    """Find inconsistencies of a zone, and repair them.

    It compares claims, instances and reservations; the exit code is 1 where an inconsistency is left.
    """
    if (dry_run or delete_unknown) and not repair:
        raise click.UsageError("--dry-run and --delete-unknown go with --repair.")
    if repair and tree:
        raise click.UsageError("--repair works on one zone: each zone is repaired by its own operator.")
    session.default_timeout_s = TIMEOUT_S
    if repair:
        asked = {"dry_run": dry_run} | ({"delete_unknown": True} if delete_unknown else {})
        answer = session.call("POST", "/audit", {"repair": asked})
        is_wrong = dry_run and bool(answer["inconsistencies"])
        is_wrong = is_wrong or not all(found["repaired"] for found in answer["inconsistencies"])
    else:
        answer = session.call("GET", "/audit?tree=true" if tree else "/audit")
        is_wrong = bool(answer["inconsistencies"]) or not all(map(_is_clean, answer.get("children", [])))
    if session.as_json:
        print_json(answer)
    else:
        _print(session, answer, REPAIR_COLUMNS if repair else COLUMNS, tree=tree)
    if is_wrong:
        sys.exit(1)


def _is_clean(child: Mapping[str, Any]) -> bool:
    return child["complete"] and not child["inconsistencies"]


def _print(session: Session, answer: Mapping[str, Any], columns: Sequence[str], *, tree: bool) -> None:
    inconsistencies = answer["inconsistencies"]
    if inconsistencies:
        rows = [[found[key] for key in columns] for found in inconsistencies]
        print_table(session.screen, plain(*columns), rows, wide=True)
    else:
        click.echo("no inconsistencies")
    if not tree:
        return
    for child in answer["children"]:
        if _is_clean(child):
            click.echo(f"in {child['name']}: no inconsistencies")
        elif not child["complete"]:
            click.echo(f"in {child['name']}: not all zones answered")
    lines = [
        [child["name"], found["kind"], found["id"]]
        for child in answer["children"]
        for found in child["inconsistencies"]
    ]
    if lines:
        print_table(session.screen, plain(*TREE_COLUMNS), lines, wide=True)
