"""Plan of one seed: the shape of the tree, its hosts, and its users' requests; a pure value."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulation.restore_plan import restores_of
from tests.simulation.theme import theme_of
from tests.simulation.tree_plan import ZonePlan, with_limits, zones_of
from zonesched.compute.inventory import InventoryHost

GROUPS = ("affinity", "anti-affinity", "pairs")
MOST_IN_A_BOOT = 8
STORM_S = 16.0


@dataclass(frozen=True)
class ActionPlan:
    """One action, `after_s` after its boot was accepted, on the instance of this number, or on all."""

    after_s: float
    number: int
    body: str

    @property
    def on_all(self) -> bool:
        return self.number < 0


ACTIONS = (
    "os-stop",
    "os-start",
    "os-stop",
    "os-start",
    "pause",
    "unpause",
    "suspend",
    "resume",
    "SOFT",
    "HARD",
    "rebuild newer",
    "rebuild picky",
)
"""Keys of bodies, types of reboots, and rebuilds with the image's name."""

DELETE = "delete"
"""The one action that is a call of its own."""

DELETE_IF_TAKEN = "delete if taken"
"""The same, unless the action before it was illegal."""

FORCE_DELETE = "forceDelete"
RESTORE = "restore"

LAST_ACTIONS = (
    ("pause", "unpause"),
    ("suspend", "resume"),
    ("resize", "confirmResize"),
    ("resize", "revertResize"),
)
"""Actions on one instance, the last of which is under way when it is deleted."""

SETTLING_S = 16
"""So long users try to resize an instance and to settle that, before they delete it anyhow."""

CONFIRM_WINDOW_S = 15.0
"""After so long a resize that nobody has settled is confirmed: at rest none is left."""

RECLAIM_S = 12.0
"""So long users may restore what they have deleted, in some seeds: at rest none of it is left."""
SOFT_SHARE = 0.15


@dataclass(frozen=True)
class BootPlan:
    """One boot: `at_s` after the storm begins, in a zone, of so many; `group` is a group's name.

    `together`: all in one place, without a group or in one that is so anyhow.
    """

    at_s: float
    zone: str
    count: int
    min_count: int
    flavor: str = "small"
    together: bool = False
    group: str = ""
    delete_after_s: Sequence[float] = ()
    actions: Sequence[ActionPlan] = ()

    @property
    def least(self) -> int:
        """Final number of instances, if it is known."""
        return self.count if self.together or self.group == "affinity" else self.min_count


@dataclass(frozen=True)
class MigrationPlan:
    """A move, `at_s` after the storm begins, of one of the servers that a zone lists, by this number.

    `host`: to which it goes, "" for any.
    """

    at_s: float
    zone: str
    number: int
    host: str = ""


@dataclass(frozen=True)
class Plan:
    """Zones, parents before children; options that all of them have; boots; moves by the zones' admins."""

    zones: tuple[ZonePlan, ...]
    boots: tuple[BootPlan, ...]
    migrations: tuple[MigrationPlan, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    storm_s: float = STORM_S


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    draw = random.Random(f"plan/{seed}")
    zones = zones_of(seed, draw)
    boots = [*_bursts(draw, zones)]
    if draw.random() < 0.6:
        boots += _rush(draw, zones)
    if draw.random() < 0.7:
        boots += _crowd(draw, zones)
    in_order = sorted(boots, key=lambda boot: boot.at_s)
    largest: dict[str, int] = {}
    for boot in boots:
        largest[boot.zone] = max(boot.count, largest.get(boot.zone, 1))
    return Plan(
        zones=tuple(with_limits(seed, zones, largest)),
        boots=tuple(
            _with_restores(
                seed,
                _as_by_theme(seed, _with_resizes(seed, _with_shelves(seed, _with_actions(seed, in_order)))),
            )
        ),
        migrations=(*_migrations(seed, zones), *_moves_since_copies(seed, zones)),
        options={
            "select_alternates": draw.choice((0, 1, 3)),
            "max_attempts": draw.choice((2, 3)),
            "boot_workers": draw.choice((1, 2, 2, 3, 3, 3)),
            "resize_confirm_window": CONFIRM_WINDOW_S,
            **_later_options(seed),
        },
    )


def _later_options(seed: int) -> dict[str, Any]:
    """Draw how zones evacuate, and how small the pages are in which they ask their children for offers."""
    draw = random.Random(f"options/{seed}")
    return {
        "evacuate_automatically": draw.random() < 0.5,
        "select_page": draw.choice((1, 1, 2, 100, 100, 100)),
        "reclaim_instance_interval": RECLAIM_S if _deletes_softly(seed) else 0.0,
    }


def _deletes_softly(seed: int) -> bool:
    return random.Random(f"soft/{seed}").random() < SOFT_SHARE


# -- boots -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Burst:
    """Boots of one moment, most of them in one zone and in one group, so that they meet each other."""

    at_s: float
    zone: str
    group: str


def _bursts(draw: random.Random, zones: Sequence[ZonePlan]) -> Iterator[BootPlan]:
    """All sorts of boots, and most of what users delete."""
    bursts = [
        _Burst(_moment(draw), _origin(draw, zones), draw.choice(("", "", "", *GROUPS))) for _ in range(3)
    ]
    for _ in range(draw.randint(2, 6 + len(zones) // 3)):
        count = draw.choice((1, 1, 2, 3, 4, 6))
        burst = draw.choice(bursts)
        group = burst.group if draw.random() < 0.8 else ""
        together = draw.random() < 0.15 and group in ("", "affinity")
        yield BootPlan(
            at_s=burst.at_s + draw.choice((0.0, draw.uniform(0, 0.05), draw.uniform(0, 2.0))),
            zone=burst.zone if draw.random() < 0.8 else _origin(draw, zones),
            count=count,
            min_count=count if together else draw.choice((count, count, 1, max(1, count // 2))),
            flavor=draw.choice(("small", "small", "big")),
            together=together,
            group=group,
            delete_after_s=tuple(draw.uniform(0.0, 12.0) for _ in range(draw.choice((0, 0, 1, count)))),
        )


def _rush(draw: random.Random, zones: Sequence[ZonePlan]) -> Iterator[BootPlan]:
    """Boots of one moment that want more than there is room for, each of them all or nearly all."""
    at_s = _moment(draw)
    scarce = [zone.name for zone in zones if 3 <= _room(zones, zone.name) <= 2 * MOST_IN_A_BOOT]
    origin = draw.choice(scarce) if scarce else zones[0].name
    room = _room(zones, origin)
    for _ in range(draw.choice((2, 3, 3))):
        count = min(MOST_IN_A_BOOT, max(2, round(room * draw.uniform(0.5, 0.95))))
        yield BootPlan(
            at_s=at_s + draw.choice((0.0, draw.uniform(0, 0.01))),
            zone=origin if draw.random() < 0.8 else zones[0].name,
            count=count,
            min_count=draw.choice((count, count, count - 1)),
        )


def _crowd(draw: random.Random, zones: Sequence[ZonePlan]) -> Iterator[BootPlan]:
    """Small boots of one moment, one zone and one group."""
    at_s = _moment(draw)
    origin = _origin(draw, zones)
    group = draw.choice(GROUPS)
    for _ in range(draw.randint(2, 4)):
        # Those that are to be together meet where the place of one has no room for the next.
        count = draw.choice((2, 2, 3) if group == "affinity" else (1, 1, 2))
        yield BootPlan(
            at_s=at_s + draw.choice((0.0, draw.uniform(0, 0.02))),
            zone=origin,
            count=count,
            min_count=draw.choice((1, count)),
            group=group,
        )


def _with_actions(seed: int, boots: Sequence[BootPlan]) -> Iterator[BootPlan]:
    """Let the users of half of the boots act on them, in runs of actions on few instances."""
    draw = random.Random(f"actions/{seed}")
    for boot in boots:
        actions: list[ActionPlan] = []
        for _ in range(draw.choice((0, 1, 2, 3))):
            number = draw.choice((-1, -1, 0, 1))
            at_s = draw.uniform(1.0, 14.0)
            for _ in range(draw.choice((2, 3, 5))):
                actions.append(ActionPlan(at_s, number, draw.choice(ACTIONS)))
                at_s += draw.choice((0.0, 0.1, 1.0, 4.0))
        yield replace(boot, actions=tuple(sorted(actions, key=lambda action: action.after_s)))


def _with_shelves(seed: int, boots: Iterable[BootPlan]) -> Iterator[BootPlan]:
    """Let the users of some boots shelve instances, most of which they unshelve again."""
    draw = random.Random(f"shelves/{seed}")
    for boot in boots:
        actions = list(boot.actions)
        for _ in range(draw.choice((0, 0, 1, 1, 2))):
            number = draw.choice((-1, 0, 1))
            at_s = draw.uniform(1.0, 12.0)
            actions.append(ActionPlan(at_s, number, "shelve"))
            for _ in range(draw.choice((0, 1, 2, 3))):
                at_s += draw.choice((0.5, 2.0, 6.0, 15.0))
                actions.append(ActionPlan(at_s, number, "unshelve"))
        yield replace(boot, actions=tuple(sorted(actions, key=lambda action: action.after_s)))


def _with_resizes(seed: int, boots: Iterable[BootPlan]) -> Iterator[BootPlan]:
    """Let the users of some boots resize instances, most of which they confirm or revert themselves."""
    draw = random.Random(f"resizes/{seed}")
    for boot in boots:
        actions = list(boot.actions)
        for _ in range(draw.choice((0, 0, 1, 1, 2, 3))):
            number, at_s = draw.choice((-1, 0, 1)), draw.uniform(1.0, 12.0)
            for _ in range(draw.choice((1, 1, 2, 3))):
                actions.append(ActionPlan(at_s, number, f"resize {draw.choice(('big', 'big', 'small'))}"))
                at_s += draw.choice((0.5, 2.0, 6.0))
                for _ in range(draw.choice((0, 1, 2, 3))):
                    actions.append(ActionPlan(at_s, number, draw.choice(("confirmResize", "revertResize"))))
                    at_s += draw.choice((0.0, 2.0, 4.0))
        yield replace(boot, actions=tuple(sorted(actions, key=lambda action: action.after_s)))


def _as_by_theme(seed: int, boots: Iterable[BootPlan]) -> Iterator[BootPlan]:
    """Let users delete and act as often as the seed's theme wants it, one action right after another."""
    draw, theme = random.Random(f"runs/{seed}"), theme_of(seed)
    every = (*ACTIONS, "shelve", "unshelve", "resize big", "resize small", "confirmResize", "revertResize")
    # A resize needs room.
    planned = list(boots)[:: 3 if theme.last_actions else 1]
    for boot in planned:
        actions = list(boot.actions)
        for _ in range(theme.runs):
            number, at_s = draw.choice((0, 1)), draw.uniform(2.0, 14.0)
            for _ in range(8):
                actions.append(ActionPlan(at_s, number, draw.choice(every)))
                at_s += draw.choice((0.0, 0.1, 1.0))
        for number in range(theme.shelves):
            at_s = draw.uniform(2.0, 10.0)
            for _ in range(2):
                actions.append(ActionPlan(at_s, number, "shelve"))
                at_s += draw.choice((1.0, 4.0, 8.0))
                actions.append(ActionPlan(at_s, number, "unshelve"))
                at_s += draw.choice((1.0, 4.0))
        for number in range(theme.last_actions):
            first, last = draw.choice(LAST_ACTIONS)
            at_s = draw.uniform(2.0, 8.0)
            then_s = at_s + draw.choice((3.0, 5.0))
            if first == "resize":
                first = "resize small" if boot.flavor == "big" else "resize big"
                # Nobody knows when it is built, nor how long the resize takes.
                for wait_s in range(SETTLING_S):
                    tried = (first, last, DELETE_IF_TAKEN)
                    actions += [ActionPlan(at_s + wait_s, number, body) for body in tried]
                then_s = at_s + SETTLING_S
            actions += [ActionPlan(at_s, number, first), ActionPlan(then_s, number, last)]
            actions.append(ActionPlan(then_s + draw.choice((0.0, 0.2, 1.0)), number, DELETE))
        deletes = (draw.uniform(0.0, STORM_S if theme.runs else 4.0) for _ in range(theme.deletes))
        in_order = tuple(sorted(actions, key=lambda action: action.after_s))
        yield replace(boot, actions=in_order, delete_after_s=(*boot.delete_after_s, *deletes))


def _with_restores(seed: int, boots: Iterable[BootPlan]) -> Iterator[BootPlan]:
    """Let the users of some boots restore what they have deleted, soon or late, and delete it again."""
    draw = random.Random(f"restores/of/servers/{seed}")
    for boot in boots:
        actions = list(boot.actions)
        for _ in range(draw.choice((1, 2, 3)) if _deletes_softly(seed) else 0):
            number, at_s = draw.choice((0, 0, 1, 2)), draw.uniform(1.0, 10.0)
            for _ in range(draw.choice((1, 1, 2, 3))):
                actions.append(ActionPlan(at_s, number, DELETE))
                at_s += draw.choice((0.0, 0.1, 1.0, 4.0, RECLAIM_S))
                actions.append(ActionPlan(at_s, number, RESTORE))
                at_s += draw.choice((0.0, 0.1, 2.0, 5.0))
            if draw.random() < 0.3:
                actions.append(ActionPlan(at_s, number, FORCE_DELETE))
        yield replace(boot, actions=tuple(sorted(actions, key=lambda action: action.after_s)))


def _migrations(seed: int, zones: Sequence[ZonePlan]) -> Iterator[MigrationPlan]:
    """Let the admins of most zones with several hosts move servers, some of them again and again."""
    draw, hosts = random.Random(f"migrations/{seed}"), random.Random(f"migrations/to/{seed}")
    for zone in zones:
        for _ in range(draw.choice((0, 3, 6, 9)) if len(zone.hosts) > 1 else 0):
            at_s, number = draw.uniform(2.0, STORM_S), draw.randint(0, 7)
            for _ in range(draw.choice((1, 1, 2, 3))):
                names = [host.name for host in zone.hosts]
                host = hosts.choice(names) if hosts.random() < 0.25 else ""
                yield MigrationPlan(at_s, zone.name, number, host)
                at_s += draw.choice((0.1, 1.0, 4.0))


def _moves_since_copies(seed: int, zones: Sequence[ZonePlan]) -> Iterator[MigrationPlan]:
    """Let servers of a zone that is put back change places between its copy and then."""
    draw, named = random.Random(f"moves/since/copies/{seed}"), {zone.name: zone for zone in zones}
    for plan in restores_of(seed, zones, beside_liar=False):
        names = [host.name for host in named[plan.zone].hosts]
        if len(names) > 1 and draw.random() < 0.6:
            for _ in range(draw.randint(4, 10)):
                at_s = draw.uniform(plan.copied_at_s, plan.restored_at_s)
                for host in draw.sample(names, 2):
                    yield MigrationPlan(at_s, plan.zone, draw.randint(0, 7), host)


def _moment(draw: random.Random) -> float:
    return draw.uniform(0, STORM_S - 4.0)


def _origin(draw: random.Random, zones: Sequence[ZonePlan]) -> str:
    return zones[0].name if draw.random() < 0.6 else draw.choice(zones).name


def _room(zones: Sequence[ZonePlan], top: str) -> int:
    """Count the instances of the small flavor that fit in a zone and its child zones."""
    room, below = 0, {top}
    for zone in zones:
        if zone.name in below or zone.parent in below:
            below.add(zone.name)
            room += sum(_room_on(host) for host in zone.hosts)
    return room


def _room_on(host: InventoryHost) -> int:
    vcpu, ram = host.inventories["VCPU"], host.inventories["MEMORY_MB"]
    return min(int(vcpu["total"] * vcpu["ratio"]), int(ram["total"]) // 512)
