"""Explanations as tables: the funnel zone by zone, the scores of the best hosts, one host by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.table import Table

from zonesched.cli.output import console, table

Lines = Sequence[Mapping[str, Any]]

OUTCOMES = {
    "answered": "answered",
    "incomplete": "answered, without all that is below it",
    "not_fitting": "not asked, since it cannot hold the request",
    "not_ready": "not asked, since it is not ready",
    "silent": "gave no usable answer in time",
}


def reasons_table(reasons: Lines) -> Table:
    """Why instances are in ERROR."""
    columns = ("reason", "instances", "refused by")
    return table(columns, [(r["code"], r["count"], r.get("refused_by", [])) for r in reasons])


def print_reasons(reasons: Lines) -> None:
    """The same, on standard output; nothing where there are none."""
    if reasons:
        console().print(reasons_table(reasons))


def print_why(why: Mapping[str, Any]) -> None:
    """The account of a select: this zone, then each child."""
    own = why["own"]
    click.echo(f"\nthis zone: offered {own['offered']}")
    _print_lines(own["steps"], "removes")
    _print_lines(own["limits"], "runs out")
    if own["best"]:
        _print_scores(own["best"])
    for child in why["children"]:
        code = f" ({child['code']})" if child["code"] else ""
        told = f"offered {child['offered']}, " if child["outcome"] in ("answered", "incomplete") else ""
        click.echo(f"\n{child['name']}: {told}{OUTCOMES[child['outcome']]}{code}")
        _print_lines(child["why"], "removes")
        _print_lines(child["limits"], "runs out")


def print_dry_run(found: Mapping[str, Any]) -> None:
    """How many would fit, what runs out first, and, to an admin, zone by zone."""
    missing = "" if found["complete"] else "; not all zones have answered"
    click.echo(f"{found['fits']} of {found['num_instances']} would fit{missing}")
    if found["runs_out"]:
        rows = [(line["filter"], line["code"]) for line in found["runs_out"]]
        console().print(table(("runs out first", "code"), rows))
    if found["refused_by"]:
        click.echo(f"refused by: {', '.join(found['refused_by'])}")
    if "why" in found:
        why = found["why"]
        zones = [("this zone", why["own"]), *((child["name"], child) for child in why["children"])]
        console().print(table(("zone", "fits"), [(name, zone["fits"]) for name, zone in zones]))
        print_why(why)


def print_host(host: Mapping[str, Any]) -> None:
    """What every filter and weigher says of one host."""
    may = "may go there" if host["passes"] else "may not go there"
    click.echo(f"{host['host']}: an instance {may} now")
    rows = [(line["filter"], line["code"], line["passes"]) for line in host["filters"]]
    console().print(table(("filter", "code", "passes"), rows))
    if host["weight"] is not None:
        click.echo()
        _print_scores([host])


def _print_lines(lines: Lines, what: str) -> None:
    if lines:
        rows = [(line["filter"], line["code"], line.get("before"), line.get("after")) for line in lines]
        console().print(table((what, "code", "before", "after"), rows))


def _print_scores(hosts: Lines) -> None:
    """A line per host, a column per weigher: its part of the score, and the raw value in brackets."""
    weighers = list(dict.fromkeys(part["weigher"] for host in hosts for part in host["scores"]))
    rows = []
    for host in hosts:
        parts = {part["weigher"]: f"{part['score']:g} ({part['raw']:g})" for part in host["scores"]}
        rows.append((host["host"], host["weight"], *(parts.get(name) for name in weighers)))
    click.echo("scores of the best hosts (raw values)" if len(hosts) > 1 else "score (raw values)")
    console().print(table(("host", "weight", *weighers), rows))
