"""Quotas and rate limits of the zone, of each project and of each parent, and their use.

Rates are token buckets that hold the tokens of their minute or hour, in each process. Counts are read from
the database every `COUNT_S`; in between, a process adds its own admissions, and it reads again before it
refuses. So no request is refused wrongly, and several processes exceed a limit by their admissions in
`COUNT_S` at most. The instances of a project that has very many are counted less often, so that counting
takes `COUNTING_SHARE` of the time; such a count also refuses for up to `REFUSED_S`. Those of a parent near
its limit are counted for each call: that limit is exact.

The zone's options apply to all; quota overrides of projects and parents are read as often.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from zonesched.conf import Conf
from zonesched.errors import OverLimit, ZoneBusy
from zonesched.model.caller import Caller, Role
from zonesched.seams import Clock
from zonesched.services.state.clock_steps import STEP_S
from zonesched.services.state.rate_limits import COUNT_S, AddLock, CachedCounts, RateLimiter
from zonesched.store import idle_holds, locks, quota_overrides, usage
from zonesched.store.quota_overrides import QuotaOverrides
from zonesched.store.store import Store, Transaction

BUSY_RETRY_S = 2
FULL_RETRY_S = 30
"""Retry-After of a full quota, which people free; `BUSY_RETRY_S`: of a busy zone, whose work ends soon."""

HOUR_S = 3600

FAR = 200_000
"""Instances below `parent_instances` from which each call is counted: more than are admitted in `COUNT_S`.
A project, or the holds of a parent, with a lower limit never exceed that limit by one process."""

FAILED_BESIDE = 10_000
"""Instances in ERROR that a project may keep beside as many as it may have: each is a row until its owner
deletes it, and takes nothing of a quota."""

MANY_BOOTS = 1000
"""Limit of boots under way from which boots at the same time may exceed it by as many as there are."""

COUNTING_SHARE = 0.01
"""Share of the time in which a project's instances are counted."""

FREE_IDLE_S = 60.0
"""Seconds of the whole zone's capacity that a parent may waste before `parent_idle_percent` limits it."""

MAX_IDLE_RETRY_S = 60


PROJECT_CONSOLES_PER_MINUTE = 60
PARENT_CONSOLES_PER_MINUTE = 600
"""Console outputs that a project, or a parent with its many projects, may read."""


@dataclass(frozen=True)
class IdleShare:
    """Capacity of holds that ended without a confirm, times the seconds that they lasted.

    `local_zone_seconds`: on local hosts, in units of the zone's whole capacity. `child_seconds`: of holds in
    child zones, whose capacity is not known, in units of one instance.
    """

    local_zone_seconds: float = 0.0
    child_seconds: float = 0.0


@dataclass(frozen=True)
class Limit:
    """Limit of a caller, and its use if `is_counted`; `unit`: "" or a unit of time."""

    name: str
    value: int
    used: int = 0
    unit: str = ""
    is_counted: bool = True


def _too_many_instances(limit: int) -> OverLimit:
    return OverLimit(
        f"The project may have {limit} instances.",
        FULL_RETRY_S,
        code="project_instances",
        field="num_instances",
    )


def _lock(tx: Transaction, is_exact: bool, *name: str) -> AddLock | None:
    """Return the lock of the number of this name where several transactions may add to it."""
    if not is_exact or not locks.are_needed(tx):
        return None
    return AddLock(add=lambda: locks.add_to_count(tx, *name), count=lambda: locks.count(tx, *name))


class Quotas:
    """Quotas and rate limits of one zone, enforced by one process."""

    def __init__(self, conf: Conf, zone_uuid: str, store: Store, clock: Clock) -> None:
        self._conf = conf
        self._zone_uuid = zone_uuid
        self._store = store
        self._clock = clock
        self._numbers = CachedCounts(clock)
        self._of_projects = CachedCounts(clock, COUNTING_SHARE)
        self._boots = RateLimiter(clock)
        self._dry_runs = RateLimiter(clock)
        self._selects = RateLimiter(clock)
        self._hourly_selects = RateLimiter(clock, HOUR_S)
        self._entries = RateLimiter(clock)
        self._holds = RateLimiter(clock)
        self._consoles = RateLimiter(clock)
        self._overrides: QuotaOverrides = {}
        self._read_again_at = -math.inf

    def admit_boot(self, tx: Transaction, project_id: str, instances: int) -> None:
        """Admit a new boot of a project. Raises OverLimit and ZoneBusy."""
        conf, zone, me = self._conf, self._zone_uuid, project_id
        self._read_overrides(lambda: quota_overrides.read_all(tx))
        # First, since what is refused behind a count stays in that number until it is read again.
        rate = self._limit(me, "project_boots_per_minute")
        if wait_s := self._boots.take(me, rate, 0):
            message = f"The project may boot {rate} times per minute."
            raise OverLimit(message, wait_s, code="project_boots_per_minute")
        self._check_failed(tx, me)
        limit = conf.max_open_boots
        lock = _lock(tx, limit < MANY_BOOTS, "open")
        if not self._numbers.add("open", 1, limit, lambda: usage.open_boots(tx, zone), lock):
            raise ZoneBusy("This zone has too many boots under way.", BUSY_RETRY_S)
        limit = self._limit(me, "project_open_boots")
        lock = _lock(tx, limit < MANY_BOOTS, "open", me)
        if not self._numbers.add(f"open {me}", 1, limit, lambda: usage.open_boots(tx, zone, me), lock):
            message = f"The project has {limit} boots under way."
            raise OverLimit(message, BUSY_RETRY_S, code="project_open_boots")
        limit = self._limit(me, "project_instances")
        lock = _lock(tx, limit < FAR, "project", me)
        if not self._of_projects.add(me, instances, limit, lambda: usage.instances(tx, zone, me), lock):
            raise _too_many_instances(limit)

    def _check_failed(self, tx: Transaction, project_id: str) -> None:
        """Raise OverLimit for a project that keeps too many instances in ERROR."""
        most, zone = self._limit(project_id, "project_instances") + FAILED_BESIDE, self._zone_uuid
        key, count = f"failed {project_id}", partial(usage.failed_instances, tx, zone, project_id, most)
        if not self._of_projects.add(key, 0, most - 1, count):
            message = f"The project has {most} instances in ERROR: delete them first."
            raise OverLimit(message, FULL_RETRY_S, code="project_failed_instances")

    def note_boot(self, project_id: str) -> None:
        """Note a boot that was written, whose transaction may have been run more than once."""
        self._boots.charge(project_id, self._limit(project_id, "project_boots_per_minute"))

    def admit_dry_run(self, project_id: str) -> None:
        """Admit a project's dry run. Raises OverLimit."""
        self._read_overrides(lambda: self._store.read(quota_overrides.read_all))
        limit = self._limit(project_id, "project_dry_runs_per_minute")
        if wait_s := self._dry_runs.take(project_id, limit):
            message = f"The project may make {limit} dry runs per minute."
            raise OverLimit(message, wait_s, code="project_dry_runs_per_minute")

    def check_fits_quota(self, project_id: str, instances: int) -> None:
        """Raise OverLimit for more instances than the project may have: it learns of no further room.

        `admit_dry_run` has read the overrides.
        """
        limit = self._limit(project_id, "project_instances")
        if instances > limit:
            raise _too_many_instances(limit)

    def admit_console(self, caller: Caller) -> None:
        """Admit a caller that reads a console output. Raises OverLimit."""
        is_parent = caller.role is Role.PARENT
        limit = PARENT_CONSOLES_PER_MINUTE if is_parent else PROJECT_CONSOLES_PER_MINUTE
        if wait_s := self._consoles.take(caller.user_id if is_parent else caller.project_id, limit):
            message = f"Console outputs may be read {limit} times per minute."
            raise OverLimit(message, wait_s, code="consoles_per_minute")

    def admit_select(self, parent_id: str) -> None:
        """Admit a parent's select. Raises OverLimit."""
        self._read_overrides(lambda: self._store.read(quota_overrides.read_all))
        selects = (
            ("parent_selects_per_hour", self._hourly_selects),
            ("parent_selects_per_minute", self._selects),
        )
        # Nothing is taken from any of them until all of them admit it.
        for code, rate in (*selects, ("parent_entries_per_minute", self._entries)):
            limit = self._limit(parent_id, code)
            if wait_s := rate.take(parent_id, limit, 0):
                raise OverLimit(f"{code} is {limit} here.", wait_s, code=code)
        for code, rate in selects:
            rate.charge(parent_id, self._limit(parent_id, code))

    def note_entries(self, parent_id: str, entries: int) -> None:
        """Note the number of entries in an answer to a parent, with those before its page."""
        self._entries.charge(parent_id, self._limit(parent_id, "parent_entries_per_minute"), entries)

    def admit_holds(self, tx: Transaction, parent_id: str, holds: int, new_instances: int) -> None:
        """Admit a parent's new holds. Raises OverLimit.

        `new_instances`: those whose instance did not count until now, whether or not it was here before.
        """
        self._read_overrides(lambda: quota_overrides.read_all(tx))
        self._check_idle(tx, parent_id)
        rate = self._limit(parent_id, "parent_holds_per_minute")
        if wait_s := self._holds.take(parent_id, rate, 0):
            code = "parent_holds_per_minute"
            raise OverLimit(f"{code} is {rate} here.", wait_s, code=code)
        limit = self._limit(parent_id, "parent_holds")
        lock = _lock(tx, limit < FAR, "holds", parent_id)
        if not self._numbers.add(
            f"holds {parent_id}", holds, limit, lambda: usage.holds(tx, parent_id), lock
        ):
            raise OverLimit(f"parent_holds is {limit} here.", FULL_RETRY_S, code="parent_holds")
        if not self.admits_instances(tx, parent_id, new_instances):
            limit = self._limit(parent_id, "parent_instances")
            raise OverLimit(f"parent_instances is {limit} here.", FULL_RETRY_S, code="parent_instances")

    def note_holds(self, parent_id: str, holds: int) -> None:
        """Note new holds that were written, as `note_boot`."""
        self._holds.charge(parent_id, self._limit(parent_id, "parent_holds_per_minute"), holds)

    def admits_instances(self, tx: Transaction, parent_id: str, more: int) -> bool:
        """Tell whether a parent may have so many more instances; exact, by whatever process they come."""
        if not more:
            return True
        limit = self._limit(parent_id, "parent_instances")
        far = limit - FAR
        counted = f"parent {parent_id}"
        if far > 0 and self._numbers.add(counted, more, far, lambda: usage.instances(tx, parent_id)):
            return True
        locks.parent(tx, parent_id)
        return usage.instances(tx, parent_id) + more <= limit

    def note_confirmed(self, parent_id: str, holds: int) -> None:
        """Note that holds were confirmed, which the rate of holds does not count."""
        self._holds.give_back(parent_id, self._limit(parent_id, "parent_holds_per_minute"), holds)

    def admit_tombstones(self, tx: Transaction, parent_id: str, more: int) -> None:
        """Admit attempts that end before they had a place. Raises OverLimit."""
        self._read_overrides(lambda: quota_overrides.read_all(tx))
        limit = self._limit(parent_id, "parent_tombstones")
        if more and self._tombstones(tx, parent_id) + more > limit:
            raise OverLimit(f"parent_tombstones is {limit} here.", FULL_RETRY_S, code="parent_tombstones")

    def _tombstones(self, tx: Transaction, parent_id: str) -> int:
        """Count a parent's tombstones, but for those that were left by a clock that has been set back since.

        Those stay as long as an entry of that time can be opened, and fill no limit until then.
        """
        kept_s = self._conf.build_plan_ttl + self._conf.retry_window + STEP_S
        return usage.tombstones(tx, parent_id, self._clock.now() + kept_s)

    def charge_idle(self, tx: Transaction, parent_id: str, held: IdleShare) -> None:
        """Charge a parent for holds that ended without a confirm."""
        self._read_overrides(lambda: quota_overrides.read_all(tx))
        zone_seconds = held.local_zone_seconds + held.child_seconds / self._limit(parent_id, "parent_holds")
        idle_holds.add(tx, parent_id, zone_seconds, self._clock.now(), self._idle_rate(parent_id))

    def _check_idle(self, tx: Transaction, parent_id: str) -> None:
        rate = self._idle_rate(parent_id)
        left = idle_holds.read(tx, parent_id, self._clock.now(), rate) - FREE_IDLE_S
        if left > 0:
            retry_s = min(MAX_IDLE_RETRY_S, max(1, math.ceil(left / rate)))
            code = "parent_idle_percent"
            limit = self._limit(parent_id, code)
            message = f"{code} is {limit} here: too many holds ended without a confirm."
            raise OverLimit(message, retry_s, code=code)

    def _idle_rate(self, parent_id: str) -> float:
        """Share of the zone's capacity that a parent may waste on average."""
        return self._limit(parent_id, "parent_idle_percent") / 100

    def of_project(self, tx: Transaction, project_id: str, instances: int | None = None) -> list[Limit]:
        """Read the limits of a project and their present use; `instances`: its use, where it is known."""
        self.read_overrides_anew(tx)
        conf, zone, me = self._conf, self._zone_uuid, project_id
        rate = self._limit(me, "project_boots_per_minute")
        dry_runs = self._limit(me, "project_dry_runs_per_minute")
        if instances is None:
            instances = usage.instances(tx, zone, me)
        open_boots = usage.open_boots(tx, zone, me)
        return [
            Limit("project_instances", self._limit(me, "project_instances"), instances),
            Limit("project_open_boots", self._limit(me, "project_open_boots"), open_boots),
            Limit("project_boots_per_minute", rate, self._boots.used(me, rate), "MINUTE"),
            Limit("project_dry_runs_per_minute", dry_runs, self._dry_runs.used(me, dry_runs), "MINUTE"),
            Limit("max_instances_per_request", conf.max_instances_per_request, is_counted=False),
        ]

    def of_parent(self, tx: Transaction, parent_id: str) -> list[Limit]:
        """Read the limits of a parent and their present use."""
        self.read_overrides_anew(tx)
        me = parent_id
        selects = self._limit(me, "parent_selects_per_minute")
        hourly = self._limit(me, "parent_selects_per_hour")
        entries = self._limit(me, "parent_entries_per_minute")
        holds = self._limit(me, "parent_holds_per_minute")
        return [
            Limit("parent_instances", self._limit(me, "parent_instances"), usage.instances(tx, me)),
            Limit("parent_holds", self._limit(me, "parent_holds"), usage.holds(tx, me)),
            Limit("parent_holds_per_minute", holds, self._holds.used(me, holds), "MINUTE"),
            Limit("parent_idle_percent", self._limit(me, "parent_idle_percent"), is_counted=False),
            Limit("parent_tombstones", self._limit(me, "parent_tombstones"), self._tombstones(tx, me)),
            Limit("parent_selects_per_minute", selects, self._selects.used(me, selects), "MINUTE"),
            Limit("parent_selects_per_hour", hourly, self._hourly_selects.used(me, hourly), "HOUR"),
            Limit("parent_entries_per_minute", entries, self._entries.used(me, entries), "MINUTE"),
            Limit("max_entries_per_select", self._conf.max_entries_per_select, is_counted=False),
        ]

    def read_overrides_anew(self, tx: Transaction) -> None:
        """Read the quota overrides again at the next use."""
        self._read_again_at = -math.inf
        self._read_overrides(lambda: quota_overrides.read_all(tx))

    def _read_overrides(self, read: Callable[[], QuotaOverrides]) -> None:
        now = self._clock.monotonic()
        if now >= self._read_again_at:
            self._overrides = read()
            self._read_again_at = now + COUNT_S

    def _limit(self, subject: str, name: str) -> int:
        """Limit of a project or a parent: its override, else the option for all."""
        return int(self._overrides.get(subject, {}).get(name, self._conf[name]))
