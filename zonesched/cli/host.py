"""`zonesched host`: the hosts of this zone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from zonesched.cli.lookup import find, find_id
from zonesched.cli.output import print_item, print_json, print_rows
from zonesched.cli.pairs import read_pairs
from zonesched.cli.session import Session, pass_session, zone_options


@click.group()
def host() -> None:
    """The hosts of this zone (admin); other zones tell only their own admins."""


@host.command("list")
@zone_options
@pass_session
def list_(session: Session) -> None:
    """All hosts, with used / capacity of each resource class."""
    answer = session.call("GET", "/os-hypervisors/detail")
    if session.as_json:
        print_json(answer)
    else:
        hosts = sorted(answer["hypervisors"], key=lambda found: str(found["hypervisor_hostname"]))
        classes = sorted({name for found in hosts for name in found["resources"]})
        rows = [
            [
                found["id"],
                found["hypervisor_hostname"],
                found["availability_zone"],
                found["state"],
                found["status"],
                found["running_vms"],
                *(_use(found["resources"].get(name)) for name in classes),
            ]
            for found in hosts
        ]
        print_rows(("id", "name", "availability zone", "state", "status", "instances", *classes), rows)


@host.command()
@click.argument("name_or_id")
@zone_options
@pass_session
def show(session: Session, name_or_id: str) -> None:
    """One host."""
    _print(session, {"hypervisor": find(session, "/os-hypervisors/detail", "hypervisors", name_or_id)})


@host.command("set")
@click.argument("name_or_id")
@click.option("--ratio", "ratios", multiple=True, metavar="CLASS=RATIO", help="Allocation ratio; repeatable.")
@click.option("--reserved", multiple=True, metavar="CLASS=AMOUNT", help="Amount kept from instances.")
@click.option("--unset-ratio", "unset_ratios", multiple=True, metavar="CLASS", help="Take a ratio back.")
@click.option("--unset-reserved", multiple=True, metavar="CLASS", help="Take a reserved amount back.")
@zone_options
@pass_session
def set_(
    session: Session,
    name_or_id: str,
    ratios: Sequence[str],
    reserved: Sequence[str],
    unset_ratios: Sequence[str],
    unset_reserved: Sequence[str],
) -> None:
    """Set what counts in place of the agent's report; it stays when the agent reports again."""
    changes: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for name, text in read_pairs("--ratio", ratios).items():
        changes[name]["allocation_ratio"] = _number("--ratio", text, float)
    for name, text in read_pairs("--reserved", reserved).items():
        changes[name]["reserved"] = _number("--reserved", text, int)
    for name in unset_ratios:
        changes[name]["allocation_ratio"] = None
    for name in unset_reserved:
        changes[name]["reserved"] = None
    if not changes:
        raise click.UsageError("nothing to change is named: use --ratio, --reserved or their --unset-")
    id = find_id(session, "/os-hypervisors", "hypervisors", name_or_id)
    _print(session, session.call("PUT", f"/os-hypervisors/{id}", {"hypervisor": {"resources": changes}}))


@host.command()
@click.argument("name_or_id")
@zone_options
@pass_session
def delete(session: Session, name_or_id: str) -> None:
    """Remove a host without instances; an agent that still has it registers it anew when it starts."""
    id = find_id(session, "/os-hypervisors", "hypervisors", name_or_id)
    session.call("DELETE", f"/os-services/{id}")


def _number(option: str, text: str, kind: Callable[[str], float]) -> float:
    try:
        return kind(text)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise click.UsageError(f"{option}: {text!r} is not {wanted}") from None


def _print(session: Session, answer: Mapping[str, Any]) -> None:
    if session.as_json:
        print_json(answer)
    else:
        found = answer["hypervisor"]
        print_item({**found, "resources": {name: _told(use) for name, use in found["resources"].items()}})


def _told(use: Mapping[str, Any]) -> str:
    """What is used of what, and how that came about."""
    ratio, reserved = use["allocation_ratio"], use["reserved"]
    extra = f"; set: {', '.join(sorted(use['set']))}" if use["set"] else ""
    if use["agent_difference"]:
        extra += f"; its agent counts {use['agent_difference']:+d}"
    return f"{_use(use)} ({use['total']} - {reserved} reserved, ratio {ratio:g}{extra})"


def _use(use: Mapping[str, Any] | None) -> str:
    return f"{use['used']} / {use['capacity']}" if use else ""
