"""Stop and start all servers of a boot over a tree of real zones: benchmarks/stop.py (see --help)."""

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
import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.boot_times.template import SqliteTemplate
from benchmarks.zone_trees.client import ZoneClient, ZoneFault
from benchmarks.zone_trees.cpu import ProcessorClock
from benchmarks.zone_trees.level_sizes import level_sizes
from benchmarks.zone_trees.processes import StartFailed
from benchmarks.zone_trees.quantile import quantile
from benchmarks.zone_trees.run_folder import run_folder
from benchmarks.zone_trees.tree import SERVICE, Tree, running_tree, sites

FLAVOR = {"flavor": {"name": "small", "vcpus": 1, "ram": 512, "disk": 1}}
POWER_OF = {"os-stop": "stopped", "os-start": "running"}
MOST_S = 2.0
MOST_CALLS = 40
REPORTS_AT_ONCE = 500
LOOK_PAUSE_S = 0.01
ENDS_WITHIN_S = 120.0

_WANTED = sa.text("SELECT count(*) AS n FROM instance_states WHERE power = :power")
_SEEN = sa.text(
    "SELECT count(*) AS n FROM instance_states"
    " WHERE observed_power = :power AND observed_generation = generation"
)


@dataclass(frozen=True)
class Sample:
    """One action on all servers: seconds from its call until it was answered, until the databases of all
    leaves had the desired states, and from the agents' reports until the root knew them.

    `desired_calls` tell children desired states; `calls`: all calls to children but polls of their health.
    """

    accepted_s: float
    reached_s: float
    cpu_s: float
    desired_calls: int
    calls: int
    known_s: float


class Rows:
    """Counts rows of zones' databases."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._engines = [sa.create_engine(url) for url in urls]

    def wait(self, statement: sa.TextClause, power: str, count: int) -> float:
        """Wait until so many rows of all zones have this power; return the time (monotonic seconds)."""
        ends_at = time.monotonic() + ENDS_WITHIN_S
        while self._count(statement, power) < count:
            if time.monotonic() > ends_at:
                raise StartFailed(f"not all servers are {power} after {ENDS_WITHIN_S:.0f} s")
            time.sleep(LOOK_PAUSE_S)
        return time.monotonic()

    def close(self) -> None:
        for engine in self._engines:
            engine.dispose()

    def _count(self, statement: sa.TextClause, power: str) -> int:
        found = 0
        for engine in self._engines:
            with engine.connect() as connection:
                found += connection.execute(statement, {"power": power}).scalar_one()
        return found


class Agents:
    """Plays the agents of all leaves: each does at once what its zone wants."""

    def __init__(self) -> None:
        self._clients: list[ZoneClient] = []

    def add(self, agent: ZoneClient, _number: int, _leaves: int) -> None:
        """Take the hosts in the copied database over, whose service is of nobody."""
        agent.call("PUT", "/hosts", {"service": SERVICE, "hosts": []})
        self._clients.append(ZoneClient.like(agent))

    def report(self) -> Mapping[str, int]:
        """Report that all instances are as wanted; return how many are wanted in each power."""
        found: dict[str, int] = {}
        for client in self._clients:
            wanted = client.call("GET", f"/hosts/instances?service={SERVICE}")["instances"]
            for one in wanted:
                power = str(one["desired"]["power"])
                found[power] = found.get(power, 0) + 1
            for first in range(0, len(wanted), REPORTS_AT_ONCE):
                lines = list(map(_reached, wanted[first : first + REPORTS_AT_ONCE]))
                client.call("POST", "/hosts/reports", {"service": SERVICE, "reports": lines})
        return found


@click.command()
@click.option(
    "--tree",
    "sizes",
    metavar="1,N,M",
    callback=level_sizes,
    default="1,3,9",
    show_default=True,
    help="Zones on each level, from the root to the leaves.",
)
@click.option(
    "--hosts", type=click.IntRange(min=1), default=900, show_default=True, help="Hosts of all leaves."
)
@click.option(
    "--instances", type=click.IntRange(1, 10_000), default=1000, show_default=True, help="Of the boot."
)
@click.option(
    "--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Stops, and as many starts."
)
@click.option("--keep", is_flag=True, help="Leave the folder with databases and logs.")
def main(sizes: Sequence[int], hosts: int, instances: int, rounds: int, keep: bool) -> None:
    """Time until the desired states of a boot are where each server's agent fetches its work.

    The leaves' agents are played here. `cpu_ms` is processor time of all zones meanwhile. One line of JSON.
    """
    agents = Agents()
    try:
        with run_folder("stop", keep, _say) as folder, _tree(folder, sizes, hosts, agents) as tree:
            samples = _measure(tree, sizes, agents, instances, rounds)
    except (StartFailed, ZoneFault) as error:
        raise click.ClickException(str(error)) from error
    asked = {"tree": list(sizes), "hosts": hosts, "instances": instances}
    click.echo(json.dumps({"benchmark": "stop", **asked, **_line(samples), "cpus": os.cpu_count()}))


def _measure(
    tree: Tree, sizes: Sequence[int], agents: Agents, instances: int, rounds: int
) -> Sequence[Sample]:
    flavor = tree.root_admin.call("POST", "/flavors", FLAVOR)["flavor"]["id"]
    server = {"name": "vm", "flavorRef": flavor, "num_instances": instances}
    reservation = str(tree.tenant.call("POST", "/zones/boot", {"server": server})["reservation_id"])
    _say(f"booting {instances}")
    _await_active(tree.tenant, agents, reservation, instances)
    leaves = Rows([zone.site.database_url for zone in tree.zones[-sizes[-1] :]])
    root = Rows([tree.zones[0].site.database_url])
    try:
        return [
            _act(tree, agents, reservation, instances, action, leaves, root)
            for _ in range(rounds)
            for action in POWER_OF
        ]
    finally:
        leaves.close()
        root.close()


def _await_active(tenant: ZoneClient, agents: Agents, reservation: str, instances: int) -> None:
    ends_at = time.monotonic() + ENDS_WITHIN_S
    while True:
        agents.report()
        found = tenant.call("GET", f"/reservations/{reservation}")["reservation"]["instances"]
        if sum(one["status"] == "ACTIVE" for one in found) == instances:
            return
        if time.monotonic() > ends_at:
            raise StartFailed(f"not all {instances} servers are ACTIVE after {ENDS_WITHIN_S:.0f} s")
        time.sleep(0.1)


def _act(
    tree: Tree,
    agents: Agents,
    reservation: str,
    instances: int,
    action: str,
    leaves: Rows,
    root: Rows,
) -> Sample:
    """Take an action on the boot, and let the agents do it. Raises StartFailed."""
    power = POWER_OF[action]
    clocks = [ProcessorClock.of_children(zone.pid) for zone in tree.zones]
    calls_before, desired_before = _calls(tree)
    cpu_before_s = sum(clock.seconds() for clock in clocks)
    began_at = time.monotonic()
    told = tree.tenant.call("POST", f"/reservations/{reservation}/action", {action: None})
    accepted_at = time.monotonic()
    if told["accepted"] != instances:
        raise StartFailed(f"{action} was accepted by {told['accepted']} of {instances} servers")
    reached_at = leaves.wait(_WANTED, power, instances)
    cpu_s = sum(clock.seconds() for clock in clocks) - cpu_before_s
    calls, desired_calls = _calls(tree)
    if agents.report() != {power: instances}:
        raise StartFailed(f"the agents are not told that all servers should be {power}")
    reported_at = time.monotonic()
    known_at = root.wait(_SEEN, power, instances)
    tree.check()
    sample = Sample(
        accepted_at - began_at,
        reached_at - began_at,
        cpu_s,
        desired_calls - desired_before,
        calls - calls_before,
        known_at - reported_at,
    )
    _say(f"{action}: {sample}")
    return sample


def _calls(tree: Tree) -> tuple[int, int]:
    """Count the calls between the zones until now: all but polls, and those with desired states."""
    work = desired = 0
    for zone in tree.zones:
        text = tree.admins[zone.site.name].text("/metrics")
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == "zonesched_child_calls_total" and sample.labels["call"] == "work":
                    work += int(sample.value)
                is_request = sample.name == "zonesched_api_requests_total"
                if is_request and sample.labels["route"].endswith("/servers/desired"):
                    desired += int(sample.value)
    return work, desired


def _reached(wanted: Mapping[str, Any]) -> Mapping[str, Any]:
    desired = wanted["desired"]
    names = ("generation", "power", "rebuilds")
    line = {"uuid": wanted["uuid"], "attempt": wanted["attempt"], "state": "active", "reason": ""}
    return line | {name: desired[name] for name in names}


def _line(samples: Sequence[Sample]) -> Mapping[str, Any]:
    reached_ms = sorted(sample.reached_s * 1e3 for sample in samples)
    most_calls = max(sample.calls for sample in samples)
    return {
        "actions": len(samples),
        "accepted_p50_ms": _p50_ms([sample.accepted_s for sample in samples]),
        "reached_p50_ms": round(quantile(reached_ms, 0.5), 1),
        "reached_max_ms": round(reached_ms[-1], 1),
        "cpu_p50_ms": _p50_ms([sample.cpu_s for sample in samples]),
        "known_p50_ms": _p50_ms([sample.known_s for sample in samples]),
        "desired_calls_max": max(sample.desired_calls for sample in samples),
        "calls_max": most_calls,
        "target": {"reached_ms": MOST_S * 1e3, "calls": MOST_CALLS},
        "reached": reached_ms[-1] <= MOST_S * 1e3 and most_calls <= MOST_CALLS,
    }


def _p50_ms(seconds: Sequence[float]) -> float:
    return round(quantile(sorted(one * 1e3 for one in seconds), 0.5), 1)


@contextmanager
def _tree(folder: Path, sizes: Sequence[int], hosts: int, agents: Agents) -> Iterator[Tree]:
    """Zones whose leaves have the hosts in their databases before they start."""
    template = SqliteTemplate(folder, -(-hosts // sizes[-1]))
    leaves = f"zone-{len(sizes) - 1}-"

    def options(name: str) -> Mapping[str, str]:
        is_leaf = name.startswith(leaves)
        return {"database_url": template.database_for(name, folder)} if is_leaf else {}

    with running_tree(sites(folder, sizes, options), agents.add, _say) as tree:
        yield tree


def _say(line: str) -> None:
    click.echo(f"stop: {line}", err=True)


if __name__ == "__main__":
    main()
