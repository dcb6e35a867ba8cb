"""The demo's output once its instances run: the tree, the boot, the audits, and commands to try next.

Everything fits in 80 columns, except paths that are longer.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from zonesched.cli.screen import standard_output
from zonesched.cli.table import Column, cell, print_table
from zonesched.compute.connection import ZoneConnection
from zonesched.compute.credentials import Credentials
from zonesched.demo.run import FLAVOR, DemoRun

MIB_IN_GIB = 1024
THOUSANDS_FROM = 10_000
COLUMNS = (("VCPU", "VCPU", 1), ("RAM GiB", "MEMORY_MB", MIB_IN_GIB), ("PGPU", "PGPU", 1))
"""Title of a column, its resource class, and the units of the class in one of the column."""


def print_tree(run: DemoRun) -> None:
    """Print each zone with its local hosts, their instances and the used part of their capacity."""
    click.echo("\nEach zone was asked for its own hosts; no zone knows another one's. Used / capacity:\n")
    print_table(standard_output(), *tree_rows([(zone, run.hypervisors(zone)) for zone in run.zones]))


def tree_rows(zones: Sequence[tuple[Any, Sequence[Mapping[str, Any]]]]) -> tuple[list[Column], list[Any]]:
    """Columns and rows of the table of zones; `zones` are pairs of a zone and its local hosts."""
    names = ("zone", "port", "hosts", "instances", *(title for title, _, _ in COLUMNS))
    columns = [Column(name) for name in names]
    rows = []
    for zone, hosts in zones:
        instances = sum(host["running_vms"] for host in hosts)
        used = [_used(hosts, name, units) for _, name, units in COLUMNS]
        rows.append((f"{'-' * zone.level} {zone.name}", zone.port, len(hosts), instances, *used))
    return columns, rows


def _used(hosts: Sequence[Mapping[str, Any]], name: str, units: int) -> str:
    uses = [host["resources"][name] for host in hosts if name in host["resources"]]
    used, capacity = (sum(use[key] for use in uses) // units for key in ("used", "capacity"))
    return f"{_short(used)} / {_short(capacity)}" if uses else ""


def _short(number: int) -> str:
    return str(number) if number < THOUSANDS_FROM else f"{number // 1000}k"


def print_outcome(found: Mapping[str, Any]) -> None:
    """Print the boot as the root knows it."""
    click.echo(f"\nThe boot, as the root knows it: reservation {found['id']}")
    click.echo(f"  state {found['state']}; {cell(found['counts'])}; {len(found['instances'])} instances")
    for reason in found["reasons"]:
        click.echo(
            f"  {reason['count']} failed: {reason['code']} {cell(reason.get('refused_by', []))}".rstrip()
        )


def print_audits(audits: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Print the inconsistencies that the audits of the zones found."""
    if not any(audits.values()):
        click.echo(f"\nThe audit of all {len(audits)} zones finds no inconsistency.")
    for zone, found in audits.items():
        for one in found:
            click.echo(f"The audit of {zone} finds {one['kind']}: {one['subject']} {one['detail']}", err=True)


def print_commands(run: DemoRun, reservation_id: str) -> None:
    """Print three commands to try next, for a shell in this folder."""
    click.echo("\nGo on in another shell:\n")
    print_shell_lines(
        run.admin_file(run.root),
        "zone list",
        f"reservation show {reservation_id}",
        f"zone boot --flavor {FLAVOR['name']} --name more -n 100 --watch",
    )


def print_dashboard(who: Credentials) -> None:
    """Print the address of a zone's dashboard, with a link that signs its admin in once."""
    made = ZoneConnection(who.url, who.username, who.password).call("POST", "/sign-in-links")
    link = made["sign_in_link"]
    click.echo(
        f"\nThe dashboard, with a link that signs you in once, for {link['expires_in'] / 60:.0f} minutes:\n"
    )
    click.echo(f"  {who.url}{link['path']}")


def print_shell_lines(credentials: Path, *commands: str) -> None:
    """Print `zonesched` commands for the zone of a credentials file, ready to be pasted."""
    click.echo(f"  export ZONESCHED_CREDENTIALS={pasteable(credentials)}")
    program = pasteable(Path(sys.executable).with_name("zonesched"))
    for command in commands:
        click.echo(f"  {program} {command}")


def pasteable(path: Path) -> str:
    """The path as a shell reads it: relative where it is inside the working folder."""
    absolute = os.path.abspath(path)
    relative = os.path.relpath(absolute)
    return shlex.quote(absolute if relative.startswith("..") else relative)
