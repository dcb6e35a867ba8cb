"""`zonesched host`: the hosts of this zone."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from zonesched.cli.group import CommandGroup
from zonesched.cli.host_drain import drain
from zonesched.cli.lookup import PAGE, find_host, whole_list
from zonesched.cli.output import by_name, check_fields, print_item, print_list
from zonesched.cli.pairs import read_pairs
from zonesched.cli.session import Session, item_options, list_options, pass_session, zone_options
from zonesched.cli.table import Column

_RANKS = {"VCPU": 1, "MEMORY_MB": 2, "DISK_GB": 3}


@click.group(cls=CommandGroup)
def host() -> None:
    """Manage the local hosts of this zone (admin)."""


@host.command("list")
@list_options
@pass_session
def list_(session: Session) -> None:
    """List all hosts by name, with used / capacity of each resource class."""
    answer = whole_list(session, "/os-hypervisors/detail", "hypervisors", {"limit": PAGE})
    hosts = by_name(answer["hypervisors"], "hypervisor_hostname")
    classes = sorted({name for found in hosts for name in found["resources"]})
    print_list(session, answer, _columns(classes), [_row(found) for found in hosts])


def _columns(classes: Sequence[str]) -> tuple[Column, ...]:
    """The columns of a list of hosts: a narrow terminal keeps the standard resource classes longest."""
    return (
        Column("name"),
        Column("state", is_status=True),
        Column("status", is_status=True),
        Column("instances"),
        *(Column(name, rank=_RANKS.get(name, 4)) for name in classes),
        Column("availability_zone", rank=5),
        Column("id", rank=6, is_id=True),
    )


def _row(found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: _use(use) for name, use in found["resources"].items()},
        "name": found["hypervisor_hostname"],
        "state": found["state"],
        "status": found["status"],
        "instances": found["running_vms"],
        "availability_zone": found["availability_zone"],
        "id": found["id"],
    }


@host.command()
@click.argument("name_or_id")
@item_options
@pass_session
def show(session: Session, name_or_id: str) -> None:
    """Show one host, by name or id."""
    _print(session, session.call("GET", f"/os-hypervisors/{find_host(session, name_or_id)['id']}"))


@host.command("set")
@click.argument("name_or_id")
@click.option("--ratio", "ratios", multiple=True, metavar="CLASS=RATIO", help="Allocation ratio; repeatable.")
@click.option(
    "--reserved", multiple=True, metavar="CLASS=AMOUNT", help="Amount that instances cannot use; repeatable."
)
@click.option(
    "--unset-ratio", "unset_ratios", multiple=True, metavar="CLASS", help="Use the reported ratio again."
)
@click.option(
    "--unset-reserved", multiple=True, metavar="CLASS", help="Use the reported reserved amount again."
)
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
    """Override allocation ratios and reserved amounts; they stay when the agent reports again."""
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
        raise click.UsageError(
            "nothing to change is named: use --ratio, --reserved, --unset-ratio or --unset-reserved"
        )
    id = find_host(session, name_or_id)["id"]
    _print(session, session.call("PUT", f"/os-hypervisors/{id}", {"hypervisor": {"resources": changes}}))


@host.command()
@click.argument("name_or_id")
@zone_options
@pass_session
def delete(session: Session, name_or_id: str) -> None:
    """Remove a host without instances; its agent registers it again when it starts."""
    id = find_host(session, name_or_id)["id"]
    session.call("DELETE", f"/os-services/{id}")


@host.command()
@click.argument("name_or_id")
@click.option(
    "--fenced", is_flag=True, help="Say that nothing can run on the host any more: it is powered off."
)
@item_options
@pass_session
def evacuate(session: Session, name_or_id: str, fenced: bool) -> None:
    """Place all instances of a host that is down anew; their disks and memory there are lost."""
    check_fields(session, ("evacuated", "moving"))
    id = find_host(session, name_or_id)["id"]
    answer = session.call("POST", f"/os-services/{id}/action", {"evacuate": {"fenced": fenced}})
    print_item(session, answer, answer)


host.add_command(drain)


def _number(option: str, text: str, kind: Callable[[str], float]) -> float:
    try:
        number = kind(text)
        if not math.isfinite(number):
            raise ValueError(text)
        return number
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise click.UsageError(f"{option}: {text!r} is not {wanted}") from None


def _print(session: Session, answer: Mapping[str, Any]) -> None:
    found = answer["hypervisor"]
    uses = {name: _explained(use) for name, use in found["resources"].items()}
    print_item(session, answer, {**{key: found[key] for key in found if key != "resources"}, **uses})


def _explained(use: Mapping[str, Any]) -> str:
    """Used / capacity of a resource class, and where the capacity comes from."""
    ratio, reserved = use["allocation_ratio"], use["reserved"]
    extra = f"; set: {', '.join(sorted(use['set']))}" if use["set"] else ""
    if use["agent_excess"]:
        extra += f"; its agent counts {use['agent_excess']:+d}"
    return f"{_use(use)} ({use['total']} - {reserved} reserved, ratio {ratio:g}{extra})"


def _use(use: Mapping[str, Any] | None) -> str:
    return f"{use['used']} / {use['capacity']}" if use else ""
