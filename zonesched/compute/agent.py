"""Main loop of the agent: call the zone and the driver, and let `machine` decide.

One `step` does what is due and returns the longest pause until the next one. While the zone is unavailable no
instance is lost: the driver's events are reported once the zone is back.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from zonesched import tracing
from zonesched.compute.client import BATCH, ZoneIdentity
from zonesched.compute.connection import ZoneRefused, ZoneUnavailable
from zonesched.compute.driver import DRIVER_FAILED, Driver, HasConsole, ask
from zonesched.compute.driver_events import NextEvent, found_at_start, readable
from zonesched.compute.inventory import InventoryHost
from zonesched.compute.lease import Lease
from zonesched.compute.machine import (
    Apply,
    ConsoleAsk,
    Destroy,
    Event,
    Failed,
    Fetched,
    Instruction,
    Key,
    Leave,
    Left,
    Report,
    Reported,
    Return,
    Spawn,
    State,
    handle,
)
from zonesched.compute.restored_zone import Listed, Running, reported_again, running
from zonesched.model.console import CONSOLE_TRAIT, text_of
from zonesched.model.zone_starts import ZoneStarts
from zonesched.seams import Clock

log = logging.getLogger(__name__)

UNKNOWN_SERVICE = (404, 409)
"""Statuses of a zone that does not know this service or its hosts: the agent registers again."""

ZONE_RESTORED = "zone_restored"
"""Code of a zone whose rows were restored from a copy and are being compared."""

OF_ANOTHER_AGENT = "service_belongs_to_another_agent"
"""Code of a zone in which another agent has this one's service."""

URL_UNKNOWN = "url_unknown"
"""Code of a zone that does not know a call."""

CLONED = "two zones answer as one, whose machine was cloned with its database"

RENEWALS_PER_LEASE = 3

STUCK_S = 60.0
"""Time after which a step that was due and has not ended is said to hang."""


class Zone(Protocol):
    """Calls of the agent to its zone; `zonesched.compute.client.AgentClient` makes them over HTTP."""

    def register(self, hosts: Sequence[InventoryHost], fence_after_s: float = math.inf) -> ZoneIdentity: ...

    def beat(self, fence_after_s: float = math.inf) -> None: ...

    def fetch(self) -> Fetched: ...

    def tell(self, running: Sequence[Running]) -> None: ...

    def report(self, reports: Sequence[Report]) -> None: ...

    def bring_console(self, ask_id: str, output: str | None) -> None: ...


class LeaseUnwritten(Exception):
    """The lease has ended, and the driver cannot take another one."""


@dataclass(frozen=True)
class Rhythm:
    """Intervals in seconds: until a heartbeat without other calls, between polls, between retries."""

    heartbeat_s: float = 10.0
    poll_s: float = 2.0
    first_retry_s: float = 0.5
    longest_retry_s: float = 15.0
    fence_after_s: float = math.inf
    """Seconds without an answer of the zone after which the instances end; infinite for never."""


class Agent:
    """One service that runs (or fakes) the hosts of an inventory."""

    def __init__(
        self, zone: Zone, driver: Driver, clock: Clock, hosts: Sequence[InventoryHost], rhythm: Rhythm
    ) -> None:
        self.state = State()
        self.zone = ZoneIdentity()
        self._zone = zone
        self._driver = driver
        self._clock = clock
        self._hosts = hosts
        self._rhythm = rhythm
        self._is_registered = False
        self._is_woken = False
        self._told_to = ""
        self._starts = ZoneStarts()
        self._listed: Mapping[Key, Listed] = {}
        self._asked_consoles: Sequence[ConsoleAsk] = ()
        self._beat_at = self._fetch_at = self._call_at = self._step_at = clock.monotonic()
        self._failures, self._put_off_why = 0, ""
        self._has_lease = self._is_unwritten = False
        lease, ends_at = ask(driver, "lease", Lease), clock.monotonic() + rhythm.fence_after_s
        if ends_at < lease.until_s:
            # Before the zone hears of the promise, somebody must be there who keeps it.
            driver.hold(replace(lease, until_s=ends_at))
        is_settled = rhythm.fence_after_s == lease.until_s == math.inf
        self._renew_at = math.inf if is_settled else clock.monotonic()
        self._take([found_at_start(ask(driver, "found", Iterable))])
        ask(driver, "next_event_s", int | float)
        self._next_event = NextEvent(driver)

    @property
    def has_lapsed(self) -> bool:
        """Tell whether its lease has ended, so that nothing of its instances runs."""
        return not self._driver.lease().is_held(self._clock.monotonic())

    @property
    def is_stuck(self) -> bool:
        """Tell whether a call of its step does not return, such as on a file system that hangs."""
        return self._clock.monotonic() > self._step_at + STUCK_S

    def wake(self) -> None:
        """Poll the zone at the next step, whenever that was due."""
        self._is_woken = True

    def step(self) -> float:
        """Do what is due; return the seconds until something may be due again."""
        self._take(readable(self._driver.poll()))
        if self._clock.monotonic() >= self._call_at:
            self._call_zone()
        return self._pause_s()

    def _call_zone(self) -> None:
        try:
            self._register()
            self._renew()
            self._converge()
            self._beat()
            self._report()
            self._bring_consoles()
        except ZoneUnavailable as error:
            self._put_off(str(error))
        except ZoneRefused as error:
            if error.status in UNKNOWN_SERVICE:
                self._is_registered = False
            if error.code == OF_ANOTHER_AGENT:
                # It is in no service group any more either: there it would keep the other agent's service up.
                self.zone = ZoneIdentity()
            older = " The zone is older than its agent: upgrade it first" if error.code == URL_UNKNOWN else ""
            self._put_off(f"the zone refused ({error.status} {error.code}): {error.message}{older}")
        except LeaseUnwritten as error:
            self._put_off(f"the lease has ended and cannot be renewed: {error}; the zone hears nothing")
        else:
            if self._failures:
                log.warning("the zone is back")
            self._failures, self._put_off_why = 0, ""

    def _put_off(self, why: str) -> None:
        if why != self._put_off_why:
            log.warning("%s; retrying", why.removesuffix("."))
        self._put_off_why = why
        pause_s = min(self._rhythm.first_retry_s * 2 ** min(self._failures, 20), self._rhythm.longest_retry_s)
        self._failures += 1
        self._call_at = self._clock.monotonic() + pause_s

    def _register(self) -> None:
        if self._is_registered:
            return
        self.zone = self._zone.register(self._hosts, self._promise_s())
        self._is_registered = True
        log.info("registered %d hosts", len(self._hosts))
        self._beat_at = self._fetch_at = self._clock.monotonic()

    @property
    def _fences(self) -> bool:
        return self._rhythm.fence_after_s < math.inf

    def _promise_s(self) -> float:
        """Return what a registration promises: the fence time, once somebody is there who keeps it."""
        try:
            self._find_keeper()
        except OSError:
            # The renewal of the lease says so.
            return math.inf
        return self._rhythm.fence_after_s

    def _find_keeper(self) -> None:
        """Start who ends the instances with the lease: an earlier agent may have died with its watchdog.

        Raises OSError where that cannot be.
        """
        if self._is_unwritten or (self._fences and not self._has_lease):
            self._driver.hold(self._driver.lease())

    def _renew(self) -> None:
        """Prolong the lease where that is due.

        Where the driver cannot, such as on a full disk, the agent goes on until the lease ends, since a
        delete may make room. Then it is silent, so that the zone takes the hosts for down and evacuates them.
        """
        if self._clock.monotonic() < self._renew_at:
            return
        try:
            self._prolong()
            self._is_unwritten = False
        except OSError as error:
            if not self._driver.lease().is_held(self._clock.monotonic()):
                raise LeaseUnwritten(str(error)) from None
            if not self._is_unwritten:
                log.error("the lease cannot be renewed: %s", error)
            self._is_unwritten = True
            rhythm = self._rhythm
            pause_s = min(rhythm.longest_retry_s, rhythm.fence_after_s / RENEWALS_PER_LEASE / 2)
            self._renew_at = self._clock.monotonic() + pause_s

    def _prolong(self) -> None:
        """Prolong the lease from the moment at which a call was sent that the zone has answered.

        Where it had run out, instances may run elsewhere by now: none is started before a list that was asked
        for after that answer.
        """
        self._find_keeper()
        sent_at = self._clock.monotonic()
        if self._fences:
            self._zone.beat(self._rhythm.fence_after_s)
            self.note_heartbeat()
        term = self._driver.lease().term
        if not (self._has_lease and self._driver.lease().is_held(self._clock.monotonic())):
            term += 1
            self._fetch()
        self._driver.hold(Lease(term, sent_at + self._rhythm.fence_after_s))
        self._has_lease = True
        self._renew_at = sent_at + self._rhythm.fence_after_s / RENEWALS_PER_LEASE

    def _beat(self) -> None:
        if self._clock.monotonic() < self._beat_at:
            return
        # With the promise: a heartbeat without one withdraws it.
        self._zone.beat(self._rhythm.fence_after_s)
        self.note_heartbeat()

    def note_heartbeat(self) -> None:
        """Postpone the heartbeat: the zone has seen this agent alive, by a call or by its service group."""
        self._beat_at = self._clock.monotonic() + self._rhythm.heartbeat_s

    def _converge(self) -> None:
        if self._clock.monotonic() >= self._fetch_at or self._is_woken:
            self._fetch()

    def _fetch(self) -> None:
        # Cleared before the poll: a wake-up during the poll may be about a change that it missed.
        self._is_woken = False
        fetched = self._fetch_known()
        self._take([fetched])
        before = {key: one for key, one in self._listed.items() if key in self.state.instances}
        # A zone that was restored from a copy may tell another flavor of what was built.
        self._listed = {one.key: Listed(one.host, one.flavor) for one in fetched.wanted} | before
        self._asked_consoles = fetched.consoles
        self._fetch_at = self._clock.monotonic() + self._rhythm.poll_s
        self.note_heartbeat()
        self._take(readable(self._driver.poll()))

    def _fetch_known(self) -> Fetched:
        """Fetch from a zone that has heard what is here since it was last restored from a copy.

        A zone that still compares its rows answers with `zone_restored`, and is told at each poll.
        """
        try:
            fetched = self._zone.fetch()
        except ZoneRefused as error:
            if error.code == ZONE_RESTORED:
                self._tell()
            raise
        self._starts = self._starts.seeing(fetched.start)
        if self._starts.is_cloned(fetched.start):
            raise ZoneUnavailable(
                f"{CLONED}: nothing is built or ended until the one that stays is restarted"
            )
        if fetched.incarnation == self._told_to:
            return fetched
        self._tell()
        # An agent that has just started cannot tell whether it was before that.
        log.info("the zone was restored from a copy, now or earlier: reported what runs here to it")
        self._told_to = fetched.incarnation
        return self._zone.fetch()

    def _tell(self) -> None:
        # What its hosts have may have changed since the copy, too.
        self.zone = self._zone.register(self._hosts, self._promise_s())
        self._zone.tell(running(self.state, self._listed))
        self.state = reported_again(self.state)

    def _bring_consoles(self) -> None:
        """Send the outputs asked for; the zone asks again at the next poll for what does not arrive."""
        asked, self._asked_consoles = self._asked_consoles, ()
        driver = self._driver
        consoles = driver if isinstance(driver, HasConsole) and CONSOLE_TRAIT in driver.traits else None
        for one in asked:
            try:
                output = text_of(consoles.read_console(one.key)) if consoles else None
            except Exception:
                log.exception("the driver failed to read the console of instance %s", one.key.uuid)
                continue
            try:
                self._zone.bring_console(one.id, output)
            except ZoneRefused as error:
                if error.may_pass:
                    raise
                log.error("the zone refused a console (%s): %s", error.code, error.message)

    def _report(self) -> None:
        while self.state.unreported:
            self._send(tuple(islice(self.state.unreported.values(), BATCH)))

    def _send(self, reports: Sequence[Report]) -> None:
        """Send reports; where the zone cannot take their content, find the one at fault."""
        try:
            self._zone.report(reports)
        except ZoneRefused as error:
            if not error.is_of_content:
                raise
            if len(reports) > 1:
                middle = len(reports) // 2
                self._send(reports[:middle])
                self._send(reports[middle:])
                return
            # Sent again it would be refused again.
            log.error("the zone refused a report (%s): %s: %s", error.code, error.message, reports[0])
        self._take([Reported(tuple(reports))])

    def _take(self, events: Sequence[Event]) -> None:
        self.state, instructions = handle(self.state, events)
        failed: list[Event] = []
        for instruction in instructions:
            try:
                self._carry_out(instruction)
            except (Exception, SystemExit):
                # Instructions are given once, so all others have to be carried out now.
                log.exception("the driver failed to %s", type(instruction).__name__.lower())
                failed += _failure(instruction)
        if failed:
            self._take(failed)

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case Spawn(wanted):
                with tracing.within(wanted.trace):
                    log.info("building instance %s, attempt %d", wanted.key.uuid, wanted.key.attempt)
                self._driver.spawn(wanted)
            case Apply(key, desired):
                self._driver.apply(key, desired)
            case Destroy(key):
                self._driver.destroy(key)
            case Leave(wanted):
                with tracing.within(wanted.trace):
                    log.info("stopping instance %s, which moves to another host", wanted.key.uuid)
                self._driver.leave(wanted)
            case Return(wanted):
                with tracing.within(wanted.trace):
                    log.info("instance %s stays: its move has failed", wanted.key.uuid)
                self._driver.come_back(wanted)

    def _pause_s(self) -> float:
        now = self._clock.monotonic()
        call_at = self._call_at if self._failures else min(self._beat_at, self._fetch_at, self._renew_at)
        pause_s = max(0.0, min(call_at - now, self._next_event.in_s()))
        self._step_at = now + pause_s
        return pause_s


def _failure(instruction: Instruction) -> Sequence[Event]:
    """Return what becomes of an instruction that the driver has raised an error for."""
    match instruction:
        case Spawn(wanted) | Return(wanted):
            return [Failed(wanted.key, DRIVER_FAILED)]
        case Leave(wanted):
            return [Left(wanted.key, wanted.leaves_for, DRIVER_FAILED)]
        case Apply() | Destroy():
            # It is given again with the next list of the zone.
            return []
