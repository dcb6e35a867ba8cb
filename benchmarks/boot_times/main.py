"""The command: its arguments, its tree, its line of JSON."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate
from pathlib import Path
from types import FrameType
from typing import Any

import click

from benchmarks.zone_trees.client import ZoneClient, ZoneFault
from benchmarks.zone_trees.cpu import cpu_seconds
from benchmarks.zone_trees.level_sizes import level_sizes
from benchmarks.zone_trees.postgres import Postgres
from benchmarks.zone_trees.processes import (
    StartFailed,
    ZoneProcess,
    ZoneSite,
    free_ports,
    further_processes,
)
from benchmarks.zone_trees.quantile import quantile
from benchmarks.zone_trees.run_folder import run_folder
from benchmarks.zone_trees.tree import SERVICE, Tree, running_tree, sites

from .load import Measured, measure
from .stamps import Decisions, Undecided
from .template import PostgresTemplate, SqliteTemplate

DURABILITY = {"sqlite": "WAL, synchronous=FULL", "postgresql": "fsync=on, synchronous_commit=on"}
FLAVOR = {"flavor": {"name": "small", "vcpus": 1, "ram": 512, "disk": 1}}
KEYS = ("build_plan_encryption_key", "secret_encryption_key")
"""Options that all processes of a zone share, and no other zone has."""

WARM_S = 3.0
"""Before anything is measured, and at most as long as that."""


@click.command()
@click.option(
    "--tree",
    "sizes",
    metavar="1,N,M",
    callback=level_sizes,
    default="1",
    show_default=True,
    help="Zones on each level, from the root to the leaves.",
)
@click.option(
    "--hosts",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Hosts of all leaves together.",
)
@click.option(
    "--instances", type=click.IntRange(1, 10_000), default=1, show_default=True, help="Of one boot."
)
@click.option(
    "--clients", type=click.IntRange(1, 64), default=8, show_default=True, help="Boots at one time."
)
@click.option("--database", type=click.Choice(list(DURABILITY)), default="sqlite", show_default=True)
@click.option(
    "--processes",
    type=click.IntRange(1, 8),
    default=1,
    show_default=True,
    help="Of the root, on one database; clients are dealt out to them.",
)
@click.option("--seconds", type=click.FloatRange(min=0.5), default=15.0, show_default=True, help="Measured.")
@click.option("--keep", is_flag=True, help="Leave the folder with databases and logs.")
def main(
    sizes: Sequence[int],
    hosts: int,
    instances: int,
    clients: int,
    database: str,
    processes: int,
    seconds: float,
    keep: bool,
) -> None:
    """Time boots through a tree of real zones; one line of JSON says how it went."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with (
            run_folder("boot", keep, _say) as folder,
            _tree(folder, sizes, hosts, database) as tree,
            further_processes(tree.zones[0].site, processes - 1) as further,
        ):
            line = _run(tree, sizes, further, clients, instances, seconds)
    except (StartFailed, ZoneFault, Undecided) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        _say("stopped, and all zones with it")
        raise SystemExit(128 + signal.SIGINT) from None
    asked = {"tree": list(sizes), "hosts": hosts, "instances": instances, "clients": clients}
    told = {
        "processes": processes,
        "database": database,
        "durability": DURABILITY[database],
        "cpus": os.cpu_count(),
    }
    click.echo(json.dumps({"benchmark": "boot", **asked, **told, **line}))


def _run(
    tree: Tree,
    sizes: Sequence[int],
    further: Sequence[ZoneProcess],
    clients: int,
    instances: int,
    seconds: float,
) -> Mapping[str, Any]:
    flavor = tree.root_admin.call("POST", "/flavors", FLAVOR)["flavor"]["id"]
    decisions = Decisions(tree.zones[0].site.database_url)
    first, *below = _levels(tree.zones, sizes)
    levels = [[zone.pid for zone in level] for level in ([*first, *further], *below)]
    roots = [tree.zones[0], *further]
    warm_s = min(WARM_S, seconds)
    try:
        users = [ZoneClient.like(tree.tenant, roots[n % len(roots)].site.url) for n in range(clients)]
        _say(f"{clients} clients boot {instances} each, for {seconds:g} s")
        cpu_before_s = [cpu_seconds(pids) for pids in levels]
        found = measure(users, decisions, flavor, instances, warm_s=warm_s, seconds=seconds, check=tree.check)
        cpu_s = [cpu_seconds(pids) - before for pids, before in zip(levels, cpu_before_s, strict=True)]
    finally:
        decisions.close()
    return _line(found, instances, [seconds_of / (found.seconds + warm_s) for seconds_of in cpu_s])


def _levels(zones: Sequence[ZoneProcess], sizes: Sequence[int]) -> Iterator[Sequence[ZoneProcess]]:
    """The zones of each level; `zones` has the root first."""
    for begin, size in zip(accumulate(sizes, initial=0), sizes, strict=False):
        yield zones[begin : begin + size]


def _line(found: Measured, instances: int, cpus_used: Sequence[float]) -> Mapping[str, Any]:
    times_ms = sorted(stamps.ms for stamps in found.boots)
    waits_ms = sorted(second * 1000 for second in found.waited_s)
    claimed = sum(stamps.claimed for stamps in found.boots)
    per_s = len(found.boots) / found.seconds
    return {
        "boots": len(found.boots),
        "p50_ms": round(quantile(times_ms, 0.5), 1),
        "p99_ms": round(quantile(times_ms, 0.99), 1),
        "client_p50_ms": round(quantile(waits_ms, 0.5), 1),
        "client_p99_ms": round(quantile(waits_ms, 0.99), 1),
        "boots_per_s": round(per_s, 1),
        "instances_per_s": round(claimed / found.seconds, 1),
        "unplaced": len(found.boots) * instances - claimed,
        "zone_cpu_ms_per_boot": round(sum(cpus_used) / per_s * 1000, 2),
        "zone_cpu_ms_by_level": [round(used / per_s * 1000, 2) for used in cpus_used],
    }


@contextmanager
def _tree(folder: Path, sizes: Sequence[int], hosts: int, database: str) -> Iterator[Tree]:
    """Zones whose leaves have the hosts in their databases before they start."""
    with ExitStack() as ending:
        per_leaf = -(-hosts // sizes[-1])
        _say(f"making a database with {per_leaf} hosts")
        template: SqliteTemplate | PostgresTemplate
        server = None
        if database == "postgresql":
            server = Postgres(folder / "postgres", free_ports(1)[0])
            server.start()
            ending.callback(server.stop)
            template = PostgresTemplate(folder, per_leaf, server)
        else:
            template = SqliteTemplate(folder, per_leaf)
        leaves = f"zone-{len(sizes) - 1}-"

        def options(name: str) -> Mapping[str, str]:
            return {key: os.urandom(32).hex() for key in KEYS} | database_of(name)

        def database_of(name: str) -> dict[str, str]:
            if name.startswith(leaves):
                return {"database_url": template.database_for(name, folder)}
            if server is None:
                return {"database_url": f"sqlite:///{folder / name}.sqlite"}
            server.create(name.replace("-", "_"))
            return {"database_url": server.url(name.replace("-", "_"))}

        levels: list[list[ZoneSite]] = sites(folder, sizes, options)
        yield ending.enter_context(running_tree(levels, _take_over, _say))


def _take_over(agent: ZoneClient, number: int, leaves: int) -> None:
    """The service of the hosts in the copied database, whose user is of nobody, becomes this agent's."""
    agent.call("PUT", "/hosts", {"service": SERVICE, "hosts": []})


def _say(line: str) -> None:
    click.echo(f"boot: {line}", err=True)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
