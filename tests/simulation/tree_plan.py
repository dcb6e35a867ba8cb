"""The tree of one seed: its zones, their hosts and their agents; a pure value."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulation.theme import QUOTA_LOWERED, RESTORED_IN_MOVE, theme_of
from zonesched.compute.inventory import InventoryHost

MOST_DEEP = 4
FENCE_AFTER_S = 6.0
PARENT_INSTANCES = "parent_instances"
"""Option for all parents of a zone, in force from the start: none has to be read again before it is exact."""


@dataclass(frozen=True)
class ZonePlan:
    """One zone. `parent` is a name, "" for the root; `failure_rate` and `build_s` are its agents'.

    `action_failure_rate`: of actions and of stops for a move, which their drivers cannot do. `limits`:
    options that it alone has.

    `machines`: the hosts of each agent, by their number. `fence_after_s`: of the agents, infinite for never.
    """

    name: str
    parent: str
    depth: int
    processes: int
    hosts: tuple[InventoryHost, ...]
    failure_rate: float
    build_s: float
    machines: tuple[int, ...] = ()
    fence_after_s: float = math.inf
    action_failure_rate: float = 0.0
    limits: dict[str, Any] = field(default_factory=dict)


def zones_of(seed: int, draw: random.Random) -> list[ZonePlan]:
    """Draw the zones, parents before children."""
    return _with_machines(seed, _with_failures(seed, _with_room(seed, _zones(draw))))


def with_limits(seed: int, zones: Iterable[ZonePlan], largest: Mapping[str, int]) -> Iterator[ZonePlan]:
    """Let some zones take less in one call than their parents ask for.

    `largest`: the largest boot of each zone's own users, which it takes.
    """
    draw, quotas = random.Random(f"limits/{seed}"), random.Random(f"quotas/{seed}")
    are_quotas_low = quotas.random() < 0.04 or theme_of(seed).fault == QUOTA_LOWERED
    for zone in zones:
        limits = {
            "max_instances_per_request": largest.get(zone.name, 1),
            "max_entries_per_select": draw.choice((1, 2, 3)),
        }
        limits = limits if draw.random() < 0.15 else {}
        if are_quotas_low and zone.parent:
            limits = {**limits, PARENT_INSTANCES: quotas.choice((1, 2, 3, 5))}
        yield replace(zone, limits=limits)


def _count(draw: random.Random) -> int:
    """Draw the number of zones: mostly few, so that many seeds can be played."""
    kind = draw.random()
    if kind < 0.15:
        return 1
    if kind < 0.7:
        return draw.randint(2, 3)
    if kind < 0.95:
        return draw.randint(4, 6)
    return draw.choice((7, 8, 9, 10, 13, 20, 30))


def _zones(draw: random.Random) -> list[ZonePlan]:
    zones: list[ZonePlan] = []
    most_vcpus = draw.choice((3, 8))
    for number in range(_count(draw)):
        above = _above(draw, zones)
        hosts = draw.choice((0, 1, 2, 2, 3) if number else (0, 0, 1, 2))
        zones.append(
            ZonePlan(
                name=f"z{number}",
                parent=above.name if above else "",
                depth=above.depth + 1 if above else 1,
                processes=draw.choice((1, 1, 1, 2)),
                hosts=tuple(_host(draw, f"z{number}-h{n}", most_vcpus) for n in range(hosts)),
                failure_rate=draw.choice((0.0, 0.0, 0.0, 0.2)),
                build_s=draw.choice((0.0, 0.0, 1.0, 5.0)),
            )
        )
    return zones


def _with_room(seed: int, zones: Sequence[ZonePlan]) -> Sequence[ZonePlan]:
    """Give all zones below the root room for moves, where the seed's theme wants them."""
    if theme_of(seed).fault != RESTORED_IN_MOVE:
        return zones
    root, *below = zones
    return [root, *(replace(zone, hosts=(_roomy(zone, 0), _roomy(zone, 1))) for zone in below)]


def _roomy(zone: ZonePlan, number: int) -> InventoryHost:
    inventories = {"VCPU": {"total": 8, "ratio": 1.0}, "MEMORY_MB": {"total": 8192, "ratio": 1.0}}
    return InventoryHost(name=f"{zone.name}-h{number}", address="10.0.0.1", inventories=inventories)


def _with_failures(seed: int, zones: Iterable[ZonePlan]) -> list[ZonePlan]:
    """Let the builds of all zones fail as often as the seed's theme wants it, and actions in every fourth."""
    least, draw = theme_of(seed).failure_rate, random.Random(f"actions/failing/{seed}")
    return [
        replace(
            zone,
            failure_rate=max(zone.failure_rate, least),
            action_failure_rate=draw.choice((0.0, 0.0, 0.0, 0.3)),
        )
        for zone in zones
    ]


def _with_machines(seed: int, zones: Iterable[ZonePlan]) -> list[ZonePlan]:
    """Divide the hosts of each zone among agents: mostly each has its own, so that moves cross agents."""
    draw = random.Random(f"machines/{seed}")
    made: list[ZonePlan] = []
    for zone in zones:
        count = len(zone.hosts)
        ways = ((1,) * count, (1,) * count, (count,), (1, count - 1)) if count > 1 else ((1,) * count,)
        fence_after_s = draw.choice((math.inf, math.inf, FENCE_AFTER_S))
        made.append(replace(zone, machines=draw.choice(ways), fence_after_s=fence_after_s))
    return made


def _above(draw: random.Random, zones: Sequence[ZonePlan]) -> ZonePlan | None:
    """Whose child the next zone is: as often as not the last one's, so that few zones are deep."""
    if not zones:
        return None
    may_have = [zone for zone in zones if zone.depth < MOST_DEEP]
    return zones[-1] if zones[-1] in may_have and draw.random() < 0.5 else draw.choice(may_have)


def _host(draw: random.Random, name: str, most_vcpus: int) -> InventoryHost:
    return InventoryHost(
        name=name,
        address="10.0.0.1",
        inventories={
            "VCPU": {"total": draw.randint(2, most_vcpus), "ratio": draw.choice((0.75, 1.0, 1.5))},
            "MEMORY_MB": {"total": draw.choice((2048, 4096, 8192)), "ratio": 1.0},
        },
    )
