"""Quotas and rate limits of the zone, of each project and of each parent, and their use.

Rates are token buckets that hold one minute's tokens, in each process. Counts are read from the database
every `COUNT_S`; in between, a process adds its own admissions, and it reads again before it refuses. So no
request is refused wrongly, and several processes exceed a limit by their admissions in `COUNT_S` at most.

The zone's options apply to all; quota overrides of projects and parents are read as often.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from zonesched.conf import Conf
from zonesched.errors import OverLimit, ZoneBusy
from zonesched.seams import Clock
from zonesched.services.state.rate_limits import COUNT_S, CachedCounts, RateLimiter
from zonesched.store import quota_overrides as own_limits
from zonesched.store import usage
from zonesched.store.quota_overrides import QuotaOverrides
from zonesched.store.store import Store, Transaction

BUSY_RETRY_S = 2
FULL_RETRY_S = 30
"""Retry-After of a full quota, which people free; `BUSY_RETRY_S`: of a busy zone, whose work ends soon."""


@dataclass(frozen=True)
class Limit:
    """Limit of a caller, and its use if `is_counted`; `unit`: "" or a unit of time."""

    name: str
    most: int
    used: int = 0
    unit: str = ""
    is_counted: bool = True


class Quotas:
    """Quotas and rate limits of one zone, enforced by one process."""

    def __init__(self, conf: Conf, zone_uuid: str, store: Store, clock: Clock) -> None:
        self._conf = conf
        self._zone_uuid = zone_uuid
        self._store = store
        self._clock = clock
        self._numbers = CachedCounts(clock)
        self._boots = RateLimiter(clock)
        self._selects = RateLimiter(clock)
        self._entries = RateLimiter(clock)
        self._own: QuotaOverrides = {}
        self._own_until = -math.inf

    def admit_boot(self, tx: Transaction, project_id: str, instances: int) -> None:
        """Admit a new boot of a project. Raises OverLimit and ZoneBusy."""
        conf, zone, me = self._conf, self._zone_uuid, project_id
        self._read_own(lambda: own_limits.read_all(tx))
        if not self._admits("open", 1, conf.max_open_boots, lambda: usage.open_boots(tx, zone)):
            raise ZoneBusy("This zone has too many boots under way.", BUSY_RETRY_S)
        most = self._most(me, "project_open_boots")
        if not self._admits(f"open {me}", 1, most, lambda: usage.open_boots(tx, zone, me)):
            message = f"The project has {most} boots under way."
            raise OverLimit(message, BUSY_RETRY_S, code="project_open_boots")
        most = self._most(me, "project_instances")
        if not self._admits(f"project {me}", instances, most, lambda: usage.instances(tx, zone, me)):
            raise OverLimit(
                f"The project may have {most} instances.",
                FULL_RETRY_S,
                code="project_instances",
                field="num_instances",
            )
        most = self._most(me, "project_boots_per_minute")
        if wait_s := self._boots.take(me, most):
            message = f"The project may boot {most} times per minute."
            raise OverLimit(message, wait_s, code="project_boots_per_minute")

    def admit_select(self, parent_id: str) -> None:
        """Admit a parent's select. Raises OverLimit."""
        self._read_own(lambda: self._store.read(own_limits.read_all))
        for code, rate, amount in (
            ("parent_selects_per_minute", self._selects, 1),
            ("parent_entries_per_minute", self._entries, 0),
        ):
            most = self._most(parent_id, code)
            if wait_s := rate.take(parent_id, most, amount):
                raise OverLimit(f"{code} is {most} here.", wait_s, code=code)

    def note_entries(self, parent_id: str, entries: int) -> None:
        """Note the number of entries in an answer to a parent."""
        self._entries.take(parent_id, self._most(parent_id, "parent_entries_per_minute"), entries)

    def admit_builds(self, tx: Transaction, parent_id: str, new_instances: int) -> None:
        """Admit a parent's builds of new instances. Raises OverLimit."""
        self._read_own(lambda: own_limits.read_all(tx))
        most = self._most(parent_id, "parent_instances")
        if new_instances and not self._admits(
            f"parent {parent_id}", new_instances, most, lambda: usage.instances(tx, parent_id)
        ):
            raise OverLimit(f"parent_instances is {most} here.", FULL_RETRY_S, code="parent_instances")

    def of_project(self, tx: Transaction, project_id: str) -> list[Limit]:
        """Read the limits of a project and their present use."""
        self.read_own_anew(tx)
        conf, zone, me = self._conf, self._zone_uuid, project_id
        rate = self._most(me, "project_boots_per_minute")
        instances, open_boots = usage.instances(tx, zone, me), usage.open_boots(tx, zone, me)
        return [
            Limit("project_instances", self._most(me, "project_instances"), instances),
            Limit("project_open_boots", self._most(me, "project_open_boots"), open_boots),
            Limit("project_boots_per_minute", rate, self._boots.used(me, rate), "MINUTE"),
            Limit("max_instances_per_request", conf.max_instances_per_request, is_counted=False),
        ]

    def of_parent(self, tx: Transaction, parent_id: str) -> list[Limit]:
        """Read the limits of a parent and their present use."""
        self.read_own_anew(tx)
        me = parent_id
        selects = self._most(me, "parent_selects_per_minute")
        entries = self._most(me, "parent_entries_per_minute")
        return [
            Limit("parent_instances", self._most(me, "parent_instances"), usage.instances(tx, me)),
            Limit("parent_selects_per_minute", selects, self._selects.used(me, selects), "MINUTE"),
            Limit("parent_entries_per_minute", entries, self._entries.used(me, entries), "MINUTE"),
            Limit("max_entries_per_select", self._conf.max_entries_per_select, is_counted=False),
        ]

    def read_own_anew(self, tx: Transaction) -> None:
        """Read the quota overrides again at the next use."""
        self._own_until = -math.inf
        self._read_own(lambda: own_limits.read_all(tx))

    def _read_own(self, read: Callable[[], QuotaOverrides]) -> None:
        now = self._clock.monotonic()
        if now >= self._own_until:
            self._own = read()
            self._own_until = now + COUNT_S

    def _most(self, subject: str, name: str) -> int:
        """Limit of a project or a parent: its override, else the option for all."""
        return int(self._own.get(subject, {}).get(name, self._conf[name]))

    def _admits(self, key: str, more: int, most: int, count: Callable[[], int]) -> bool:
        return self._numbers.add(key, more, most, count)
