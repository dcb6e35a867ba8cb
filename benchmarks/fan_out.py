"""Select over many child zones: benchmarks/fan_out.py --children 100 (see --help)."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import click

from benchmarks.boot_times.template import SqliteTemplate
from benchmarks.zone_trees.client import ZoneClient, ZoneFault
from benchmarks.zone_trees.cpu import ProcessorClock
from benchmarks.zone_trees.processes import StartFailed
from benchmarks.zone_trees.quantile import quantile
from benchmarks.zone_trees.run_folder import run_folder
from benchmarks.zone_trees.tree import SERVICE, Tree, running_tree, sites

FLAVOR = {"flavor": {"name": "small", "vcpus": 1, "ram": 512, "disk": 1}}
WARM_SELECTS = 10
CALM_S = 5.0
"""Seconds in which the parent's processor time without a select is measured."""


@dataclass(frozen=True)
class Sample:
    """One select: its seconds, the parent's processor seconds meanwhile, and the instances that fit."""

    seconds: float
    cpu_s: float
    fits: int
    complete: bool


@click.command()
@click.option("--children", type=click.IntRange(1, 500), default=100, show_default=True)
@click.option(
    "--hosts", type=click.IntRange(min=1), default=10, show_default=True, help="Hosts of each child."
)
@click.option(
    "--instances",
    multiple=True,
    type=click.IntRange(1, 10_000),
    default=(1, 1000),
    show_default=True,
    help="Of one select.",
)
@click.option("--selects", type=click.IntRange(min=1), default=200, show_default=True, help="Measured.")
@click.option("--keep", is_flag=True, help="Leave the folder with databases and logs.")
def main(children: int, hosts: int, instances: Sequence[int], selects: int, keep: bool) -> None:
    """Time a user's dry runs in a root over so many child zones, one at a time; a line of JSON each.

    The children are real processes; on few cores they take most of a select's time. `cpu_*_ms` is processor
    time of the root alone, with what it does besides (`calm_cpu_ms_per_s`).
    """
    try:
        with run_folder("fan-out", keep, _say) as folder, _tree(folder, children, hosts) as tree:
            flavor = tree.root_admin.call("POST", "/flavors", FLAVOR)["flavor"]["id"]
            clock = ProcessorClock.of_children(tree.zones[0].pid)
            calm = _calm(clock)
            for count in instances:
                samples = _measure(tree, clock, flavor, count, selects)
                asked = {"children": children, "hosts_per_child": hosts, "instances": count}
                line = {"benchmark": "fan_out", **asked, **_line(samples), **calm, "cpus": os.cpu_count()}
                click.echo(json.dumps(line))
    except (StartFailed, ZoneFault) as error:
        raise click.ClickException(str(error)) from error


def _calm(clock: ProcessorClock) -> Mapping[str, float]:
    before = clock.seconds()
    time.sleep(CALM_S)
    return {"calm_cpu_ms_per_s": round((clock.seconds() - before) / CALM_S * 1e3, 1)}


def _measure(
    tree: Tree, clock: ProcessorClock, flavor: str, instances: int, selects: int
) -> Sequence[Sample]:
    server = {"name": "vm", "flavorRef": flavor, "num_instances": instances}
    samples = []
    _say(f"{selects} selects of {instances}")
    for number in range(WARM_SELECTS + selects):
        sample = _select(tree.tenant, clock, {"server": server, "dry_run": True})
        if number >= WARM_SELECTS:
            samples.append(sample)
    tree.check()
    return samples


def _select(tenant: ZoneClient, clock: ProcessorClock, body: Mapping[str, Any]) -> Sample:
    began_at, cpu_before_s = time.monotonic(), clock.seconds()
    plan = tenant.call("POST", "/zones/boot", body)["dry_run"]
    took_s, cpu_s = time.monotonic() - began_at, clock.seconds() - cpu_before_s
    return Sample(took_s, cpu_s, plan["fits"], plan["complete"])


def _line(samples: Sequence[Sample]) -> Mapping[str, Any]:
    took_ms = sorted(sample.seconds * 1e3 for sample in samples)
    cpu_ms = sorted(sample.cpu_s * 1e3 for sample in samples)
    return {
        "selects": len(samples),
        "p50_ms": round(quantile(took_ms, 0.5), 1),
        "p99_ms": round(quantile(took_ms, 0.99), 1),
        "cpu_p50_ms": round(quantile(cpu_ms, 0.5), 1),
        "cpu_p99_ms": round(quantile(cpu_ms, 0.99), 1),
        "least_fits": min(sample.fits for sample in samples),
        "incomplete": sum(not sample.complete for sample in samples),
    }


@contextmanager
def _tree(folder: Path, children: int, hosts: int) -> Iterator[Tree]:
    template = SqliteTemplate(folder, hosts)

    def options(name: str) -> Mapping[str, str]:
        if name.startswith("zone-1-"):
            return {"database_url": template.database_for(name, folder)}
        return {"project_dry_runs_per_minute": "100000"}

    with running_tree(sites(folder, [1, children], options), _take_over, _say) as tree:
        yield tree


def _take_over(agent: ZoneClient, number: int, leaves: int) -> None:
    """The service of the hosts in the copied database, whose user is of nobody, becomes this agent's."""
    agent.call("PUT", "/hosts", {"service": SERVICE, "hosts": []})


def _say(line: str) -> None:
    click.echo(f"fan_out: {line}", err=True)


if __name__ == "__main__":
    main()
