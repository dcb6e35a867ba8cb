"""What the demo prints when its instances run: the tree, the boot, and how to go on."""

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
from zonesched.demo.run import FLAVOR, DemoRun

CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB", "PGPU")


def print_tree(run: DemoRun) -> None:
    """The zones with what is used of their own hosts' capacity, each asked itself."""
    rows = []
    for zone in run.zones:
        hosts = run.hypervisors(zone)
        instances = sum(host["running_vms"] for host in hosts)
        used = [_used(hosts, name) for name in CLASSES]
        rows.append(("  " * zone.level + zone.name, zone.url, len(hosts), instances, *used))
    columns = (
        Column("zone"),
        Column("url", rank=5),
        Column("hosts"),
        Column("instances"),
        *(Column(name, rank) for rank, name in enumerate(CLASSES, 1)),
    )
    click.echo("\nThe tree; each zone was asked for its own hosts, none tells on another:\n")
    print_table(standard_output(), columns, rows)


def _used(hosts: Sequence[Mapping[str, Any]], name: str) -> str:
    uses = [host["resources"][name] for host in hosts if name in host["resources"]]
    return f"{sum(use['used'] for use in uses)} / {sum(use['capacity'] for use in uses)}" if uses else ""


def print_outcome(found: Mapping[str, Any]) -> None:
    """The boot as the root knows it."""
    click.echo(f"\nThe boot, as the root knows it: reservation {found['id']}")
    click.echo(f"  state {found['state']}; {cell(found['counts'])}; {len(found['instances'])} instances")
    for reason in found["reasons"]:
        click.echo(
            f"  {reason['count']} failed: {reason['code']} {cell(reason.get('refused_by', []))}".rstrip()
        )


def print_audits(audits: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """What the zones' audits found."""
    if not any(audits.values()):
        click.echo(f"\nThe audit of all {len(audits)} zones finds no difference.")
    for zone, differences in audits.items():
        for found in differences:
            click.echo(
                f"The audit of {zone} finds {found['kind']}: {found['subject']} {found['detail']}", err=True
            )


def print_commands(run: DemoRun, reservation_id: str) -> None:
    """Three commands to go on with, as they can be pasted into a shell in this folder."""
    program = Path(sys.executable).with_name("zonesched")
    command = f"{_path(program)} --credentials {_path(run.admin_file(run.root))}"
    click.echo("\nGo on with, in another shell:\n")
    click.echo(f"  {command} zone list")
    click.echo(f"  {command} reservation show {reservation_id} --instances")
    click.echo(f"  {command} zone boot --flavor {FLAVOR['name']} --name more -n 100 --watch")


def _path(path: Path) -> str:
    """As short as it can be pasted: relative when it is below the working folder."""
    absolute = os.path.abspath(path)
    relative = os.path.relpath(absolute)
    return shlex.quote(absolute if relative.startswith("..") else relative)
