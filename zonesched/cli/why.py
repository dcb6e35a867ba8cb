"""Explanations as tables: the funnel zone by zone, the scores of the best hosts, one host by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from zonesched.cli.screen import Screen, Unbounded
from zonesched.cli.table import Column, cell, fit, plain, print_table

Lines = Sequence[Mapping[str, Any]]

REASON_COLUMNS = (Column("reason", is_status=True), Column("instances"), Column("refused by"))
OUTCOMES = {
    "answered": "answered",
    "incomplete": "answered, without all of its child zones",
    "ineligible": "not asked: it cannot hold the request",
    "not_ready": "not asked: it is not ready",
    "unreachable": "gave no usable answer in time",
}
NOT_ASKED = {
    "child_disabled": "not asked: an admin has disabled it",
    "own_hosts_only": "not asked: an admin has named hosts",
    "zone_passed_before": "not asked: the request came through it",
    "group_elsewhere": "not asked: the affinity group is not there",
}
"""Outcomes by code of children that could hold the request."""


def _reason_rows(reasons: Lines) -> list[tuple[Any, ...]]:
    return [(reason["code"], reason["count"], reason.get("refused_by", [])) for reason in reasons]


def reason_lines(reasons: Lines) -> Sequence[str]:
    """Return the table of the reasons of ERROR, line by line; empty without reasons."""
    return fit(Unbounded(), REASON_COLUMNS, _reason_rows(reasons), wide=True).lines if reasons else ()


def print_reasons(screen: Screen, reasons: Lines) -> None:
    """Print the reasons of ERROR; nothing without any."""
    if reasons:
        print_table(screen, REASON_COLUMNS, _reason_rows(reasons), wide=True)


def print_why(screen: Screen, why: Mapping[str, Any]) -> None:
    """Print the decision trace of a select: this zone, then each child."""
    own = why["own"]
    click.echo(f"\nthis zone: offered {own['offered']}")
    _print_steps(screen, own["steps"], "removes")
    _print_steps(screen, own["runs_out"], "runs out")
    if own["best"]:
        _print_scores(screen, own["best"])
    for child in why["children"]:
        code = f" ({child['code']})" if child["code"] else ""
        offered = f"offered {child['offered']}, " if child["outcome"] in ("answered", "incomplete") else ""
        outcome = NOT_ASKED.get(child["code"]) or OUTCOMES.get(child["outcome"], child["outcome"])
        click.echo(f"\n{child['name']}: {offered}{outcome}{code}")
        _print_steps(screen, child["why"], "removes")
        _print_steps(screen, child["runs_out"], "runs out")


def print_dry_run(screen: Screen, found: Mapping[str, Any]) -> None:
    """Print how many instances would fit, the first resource to run out, and, for an admin, each zone."""
    missing = "" if found["complete"] else "; not all zones have answered"
    click.echo(f"{found['fits']} of {found['num_instances']} would fit{missing}")
    if found["runs_out"]:
        rows = [(line["filter"], line["code"]) for line in found["runs_out"]]
        print_table(screen, plain("runs out first", "code"), rows)
    if found["refused_by"]:
        click.echo(f"refused by: {cell(found['refused_by'])}")
    if "why" in found:
        why = found["why"]
        zones = [("this zone", why["own"]), *((child["name"], child) for child in why["children"])]
        print_table(screen, plain("zone", "fits"), [(name, zone["fits"]) for name, zone in zones])
        print_why(screen, why)


def print_host(screen: Screen, host: Mapping[str, Any]) -> None:
    """Print the result of every filter and weigher for one host."""
    may = "may go there" if host["passes"] else "may not go there"
    click.echo(f"{host['host']}: an instance {may} now")
    rows = [(line["filter"], line["code"], line["passes"]) for line in host["filters"]]
    print_table(screen, plain("filter", "code", "passes"), rows)
    if host["weight"] is not None:
        click.echo()
        _print_scores(screen, [host])


def _print_steps(screen: Screen, lines: Lines, what: str) -> None:
    rows = [
        (line["filter"], line["code"], line.get("before"), line.get("after"))
        for line in lines
        # Behind the filter that removed the last host, and in a zone without hosts, each line is 0 and 0.
        if line.get("before") != 0
    ]
    if rows:
        print_table(screen, plain(what, "code", "before", "after"), rows)


def _print_scores(screen: Screen, hosts: Lines) -> None:
    """Print a line for each weigher of each host: its part of the score, and the raw value."""
    rows: list[tuple[Any, ...]] = []
    for host in hosts:
        first = (host["host"], host["weight"])
        for part in host["scores"] or [{"weigher": None, "score": None, "raw": None}]:
            rows.append((*first, part["weigher"], *(_rounded(part[key]) for key in ("score", "raw"))))
            first = ("", None)
    click.echo("scores of the best hosts" if len(hosts) > 1 else "score")
    print_table(screen, plain("host", "weight", "weigher", "score", "raw value"), rows)


def _rounded(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.9g}")
