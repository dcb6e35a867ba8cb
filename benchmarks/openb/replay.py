"""Carry out the steps of a replay at the root of a tree, one after the other, and keep what happened."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import quote

from benchmarks.zone_trees.client import ZoneClient, ZoneFault

from .forms import flavor_form
from .history import Deleted, Event, Placed
from .order import Check, Create, Delete, Step, Trim
from .trace import Shape, Task

POLL_S = 0.004
FIRST_POLL = 0.75
"""Share of the shortest of the last boots after which is asked first: each question costs the root time.

Well below 1, or no boot could be found to be shorter than the last.
"""
RECENT = 20
DECIDED_WITHIN_S = 120.0
CLAIMED = "spawning"
"""The task_state of an instance whose place is confirmed: it waits for the agent of its host."""


@dataclass(frozen=True)
class Accepted:
    """The task has its place, as instance `uuid`."""

    uuid: str


@dataclass(frozen=True)
class Refused:
    """The task was refused; `by` are the codes of the filters that refused any host."""

    code: str
    by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Undecided:
    """Neither in time."""

    reservation_id: str


Outcome = Accepted | Refused | Undecided


@dataclass
class Record:
    """Outcomes so far. `seconds` has one entry for each boot."""

    events: list[Event] = field(default_factory=list)
    living: dict[str, Task] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    refused_by: Counter[str] = field(default_factory=Counter)
    undecided: list[str] = field(default_factory=list)

    @property
    def placed(self) -> int:
        return sum(isinstance(event, Placed) for event in self.events)

    @property
    def deleted(self) -> int:
        return len(self.events) - self.placed


class Replay:
    """One run; `record` can be read at any time."""

    def __init__(self, tenant: ZoneClient, admin: ZoneClient) -> None:
        self._tenant = tenant
        self._admin = admin
        self._flavors: dict[Shape, str] = {}
        self._uuids: dict[str, str] = {}
        self._oldest: deque[str] = deque()
        self.record = Record()

    def run(self, steps: Iterable[Step], check: Callable[[], None], look_around: Callable[[], None]) -> None:
        """Carry out all steps; `look_around` after each call. Raises ZoneFault for one that must not fail."""
        for step in steps:
            match step:
                case Create(task):
                    self._create(task)
                case Delete(task):
                    if task.name in self._uuids:
                        self._delete(self._uuids[task.name])
                case Trim(count):
                    while len(self.record.living) > count:
                        self._delete(self._oldest[0])
                        look_around()
                case Check():
                    check()
            look_around()

    def _create(self, task: Task) -> None:
        record = self.record
        flavor = self._flavor(task.shape)
        started = time.perf_counter()
        outcome = self._boot(task, flavor)
        record.seconds.append(time.perf_counter() - started)
        match outcome:
            case Accepted(uuid):
                self._uuids[task.name] = uuid
                self._oldest.append(uuid)
                record.living[uuid] = task
                record.events.append(Placed(uuid, task))
            case Refused(code, by):
                record.refused[code] += 1
                record.refused_by.update(by)
            case Undecided(reservation_id):
                record.undecided.append(f"{task.name} (reservation {reservation_id})")

    def _delete(self, uuid: str) -> None:
        self._tenant.call("DELETE", f"/servers/{uuid}")
        task = self.record.living.pop(uuid)
        del self._uuids[task.name]
        self._oldest.remove(uuid)
        self.record.events.append(Deleted(uuid))

    def _flavor(self, shape: Shape) -> str:
        if shape not in self._flavors:
            form = flavor_form(shape, f"shape-{len(self._flavors)}")
            self._flavors[shape] = str(self._admin.call("POST", "/flavors", form)["flavor"]["id"])
        return self._flavors[shape]

    def _boot(self, task: Task, flavor_id: str) -> Outcome:
        first_poll_at = time.monotonic() + self._first_poll_after_s()
        server = {"name": task.name, "flavorRef": flavor_id, "num_instances": 1}
        try:
            made = self._tenant.call("POST", "/zones/boot", {"server": server})
        except ZoneFault as fault:
            if not 400 <= fault.status < 500:
                raise
            return Refused(fault.code)
        time.sleep(max(0.0, first_poll_at - time.monotonic()))
        return self._outcome_of(str(made["reservation_id"]))

    def _first_poll_after_s(self) -> float:
        recent = self.record.seconds[-RECENT:]
        return FIRST_POLL * min(recent) if recent else 0.0

    def _outcome_of(self, reservation_id: str) -> Outcome:
        path = f"/servers/detail?limit=1&reservation_id={quote(reservation_id, safe='')}"
        ends_at = time.monotonic() + DECIDED_WITHIN_S
        while time.monotonic() < ends_at:
            (server,) = self._tenant.call("GET", path)["servers"]
            if server["OS-EXT-STS:task_state"] == CLAIMED or server["status"] == "ACTIVE":
                return Accepted(str(server["id"]))
            if server["status"] == "ERROR":
                return self._refusal(reservation_id)
            time.sleep(POLL_S)
        return Undecided(reservation_id)

    def _refusal(self, reservation_id: str) -> Refused:
        told = self._tenant.call("GET", f"/reservations/{reservation_id}")["reservation"]
        (reason,) = told["reasons"]
        return Refused(str(reason["code"]), tuple(reason["refused_by"]))
