"""One instance of the libvirt driver: takes the steps of `libvirt_steps`, one at a time.

building  until its domain runs for the first time, or was found
resting   in the last state that was asked for, or in another that it came to by itself
unread    found with a marker that cannot be read: until that is written back, or it is ended
missing   stopped, as its domain is gone: until that is defined again, or it is ended with its disk
reaching  a newer desired state
left      told that it cannot move: until it returns or is ended
failed    until it is ended
ending    until nothing of it is left
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from zonesched.compute.desired_state import FIRST_DESIRED, Desired, Observed, Power
from zonesched.compute.libvirt_disks import Disks
from zonesched.compute.libvirt_domain import Domain, Machine, Marker, Refused, domain_xml, first_marker
from zonesched.compute.libvirt_domains import NOT_RESUMED, NOT_STARTED, Domains
from zonesched.compute.libvirt_steps import Step, step_to_build, step_to_end, step_to_reach
from zonesched.compute.machine import Built, Changed, Destroyed, DriverEvent, Failed, Key, Left, Wanted

log = logging.getLogger(__name__)

LOST, CHANGED_OUTSIDE, MOVE_UNSUPPORTED = "domain_lost", "domain_changed_outside", "move_unsupported"
TRIES = 2
"""Tries of a step that libvirt refuses: the domain may have changed between the look and the step."""
UNREAD = (
    "the marker in the metadata of its domain cannot be read, so it stays as it is: write that back from a"
    " copy, or delete the server"
)
MISSING = (
    "its domain is gone, and its disk is here: define the domain again from a copy, with its metadata, or"
    " delete the server"
)
WRITE_AGAIN_S = 30.0
"""Pause before a marker is written again that libvirt has refused, such as on a full disk."""


@dataclass(frozen=True)
class Surroundings:
    """Settings that all instances of a driver share. `stop_s`: how long a guest may take to shut down."""

    domains: Domains
    disks: Disks
    folder: str
    virt_type: str
    monotonic: Callable[[], float]
    stop_s: float


class LibvirtInstance:
    """An instance of this agent or, without `wanted`, one that an earlier agent has left."""

    def __init__(self, around: Surroundings, key: Key, wanted: Wanted | None = None) -> None:
        self.key = key
        self._around = around
        self._wanted = wanted
        self._phase: Callable[[Domain | None], Sequence[DriverEvent]] = self._build
        self._desired = FIRST_DESIRED
        self._generation = 0
        self._is_started = False
        self._rebuilds = 0
        self._last: Marker | None = None
        self._unwritten: Marker | None = None
        self._write_again_at = math.inf
        self._begin()

    @property
    def is_gone(self) -> bool:
        return self._phase == self._gone

    @property
    def is_waiting(self) -> bool:
        """Tell whether only a call or the domain's own doing changes anything."""
        return self.is_resting or self._phase in (self._left, self._failed, self._gone)

    @property
    def is_resting(self) -> bool:
        """Tell whether its domain is watched for what nobody has asked for."""
        return self._phase in (self._rest, self._unread, self._missing)

    @property
    def is_ending(self) -> bool:
        """Tell whether nothing of it is to stay."""
        return self._phase == self._end

    def is_as_left(self, domain: Domain | None) -> bool:
        """Tell whether nothing follows from a look at the domain of one that rests."""
        if domain is None:
            return self._phase == self._missing
        if domain.is_damaged or self._phase != self._rest:
            return domain.is_damaged and self._last is None
        if domain.is_starting:
            return True
        if self._around.monotonic() >= self._write_again_at:
            return False
        return domain.power is (self._unwritten or domain.marker).power

    def advance(self, domain: Domain | None) -> Sequence[DriverEvent]:
        """Take one step, given the domain of this uuid; return its events. Raises LibvirtAway."""
        if domain is not None and domain.is_starting and not self.is_ending:
            # By a call of an agent that was killed, or by somebody else: it may yet fail.
            return ()
        try:
            happened = self._phase(domain and self._with_marker(domain))
        except Refused as refused:
            return self._refused(refused)
        self._refusals = 0
        return happened

    def _with_marker(self, domain: Domain) -> Domain:
        """Return the domain with its marker as it was last written or read, where libvirt has another."""
        if domain.is_damaged and self._unwritten is None and self._last is not None:
            log.error("instance %s: its marker was damaged, and is written again", self.key.uuid)
            self._unwritten, self._write_again_at = self._last, self._around.monotonic()
        if self._unwritten is not None:
            return replace(domain, marker=self._unwritten, is_damaged=False)
        if not domain.is_damaged and domain.marker.key == self.key:
            self._last = domain.marker
        return domain

    def apply(self, desired: Desired) -> None:
        """Go on to a desired state that is newer than the last one."""
        if self._phase in (self._rest, self._missing) and desired.generation > self._generation:
            self._phase = self._reach
        if self._phase == self._reach and desired.generation > self._desired.generation:
            self._desired = desired
            self._begin()

    def _begin(self) -> None:
        self._asked_to_stop_at = math.inf
        self._tried: dict[Step, str] = {}
        self._refusals = 0
        self._given_up = ""

    def leave(self, leaves_for: int) -> Sequence[DriverEvent]:
        """Refuse to move: the instance goes on as it is."""
        if self._phase == self._end:
            return ()
        self._phase = self._left
        return (Left(self.key, leaves_for, MOVE_UNSUPPORTED),)

    def come_back(self, wanted: Wanted) -> None:
        """Report it again, in its present state."""
        if self._phase == self._left:
            self._wanted = wanted
            self._phase = self._build

    def end(self) -> None:
        """End it, in whatever state it is."""
        self._phase = self._end

    # -- building ------------------------------------------------------------------------------------------

    def _build(self, domain: Domain | None) -> Sequence[DriverEvent]:
        wanted = self._wanted
        if domain is None:
            if wanted is None or wanted.is_active:
                # It ran, and is not here: a new domain would not be the same instance.
                return self._miss(Built)
            if wanted.moved_from:
                return self._fail(MOVE_UNSUPPORTED)
            self._define(wanted)
            return ()
        if domain.marker.key != self.key:
            # An earlier attempt, which the agent is ending.
            return ()
        if domain.is_damaged:
            log.error("instance %s: %s", self.key.uuid, UNREAD)
            self._phase = self._unread
            return ()
        if step_to_build(domain) is Step.MAKE_AND_START:
            if wanted is None or self._is_started:
                return self._fail(domain.why or NOT_STARTED)
            self._around.disks.make(self.key, wanted.image, domain.marker.disk_gb)
            self._around.domains.start(self.key)
            self._is_started = True
            return ()
        built = Built(self.key, self._found(domain))
        self._phase = self._rest
        return (built,)

    def _define(self, wanted: Wanted) -> None:
        """Define the domain first: whatever dies from here on, the next agent finds it with its folder."""
        around, flavor = self._around, wanted.flavor
        around.disks.check(wanted.image)
        machine = Machine(
            virt_type=around.virt_type,
            vcpus=int(flavor.get("vcpus", 0)),
            ram_mb=int(flavor.get("ram", 0)),
            disk=around.disks.disk(self.key, int(flavor.get("disk", 0))),
            console=around.disks.console(self.key),
        )
        around.domains.define(self.key, domain_xml(first_marker(wanted, around.folder), machine))

    def _found(self, domain: Domain) -> Observed:
        """Write the state that a domain was found in; return it, with a reason where nobody asked for it."""
        before = domain.marker
        is_as_left = before.power is domain.power
        reason = before.reason if is_as_left else domain.why or CHANGED_OUTSIDE
        after = replace(before, power=domain.power, is_built=True, reason=reason)
        if not before.is_built:
            # A later agent would remove one that it does not know to be built.
            self._note(after)
        elif after != before:
            self._remember(after)
        self._generation, self._rebuilds = before.generation, before.rebuilds
        return Observed(before.generation, domain.power, reason, before.rebuilds)

    # -- built ---------------------------------------------------------------------------------------------

    def _rest(self, domain: Domain | None) -> Sequence[DriverEvent]:
        """Detect what it does by itself, and what is done to it behind the driver's back."""
        if domain is None or domain.marker.key != self.key:
            return self._miss(Changed)
        if domain.power is domain.marker.power:
            if self._around.monotonic() >= self._write_again_at:
                self._remember(domain.marker)
            return ()
        return (Changed(self.key, self._found(domain)),)

    def _reach(self, domain: Domain | None) -> Sequence[DriverEvent]:
        if domain is None:
            self._generation = self._desired.generation
            return self._miss(Changed)
        if self._given_up:
            return self._done(domain, self._given_up)
        desired, domains = self._desired, self._around.domains
        if desired.rebuilds > domain.marker.rebuilds:
            # Before anything is ended for it.
            self._around.disks.check(desired.image)
        step = step_to_reach(domain, desired)
        if step in self._tried and domain.power is not Power.SUSPENDED:
            # It has ended, or was paused, again before it was in that state.
            return self._done(domain, domain.why or self._tried[step])
        match step:
            case Step.DONE:
                return self._done(domain)
            case Step.SHUT_DOWN:
                self._shut_down()
            case Step.POWER_OFF:
                domains.power_off(self.key)
            case Step.DROP_SAVED:
                domains.drop_saved(self.key)
            case Step.COUNT_REBOOT:
                off = replace(domain.marker, power=Power.STOPPED, reason="")
                self._note(replace(off, reboots=desired.reboots))
            case Step.REBUILD:
                self._rebuild(domain.marker)
            case Step.PAUSE:
                domains.pause(self.key)
            case Step.RESUME:
                domains.resume(self.key)
                self._tried[step] = NOT_RESUMED
            case Step.SAVE:
                domains.save(self.key)
            case _:
                domains.start(self.key)
                self._tried[step] = NOT_STARTED
        return ()

    def _shut_down(self) -> None:
        """Ask the guest to shut down; power it off where it does not do so in time."""
        now = self._around.monotonic()
        if self._asked_to_stop_at == math.inf:
            self._asked_to_stop_at = now
            self._around.domains.shut_down(self.key)
        elif now - self._asked_to_stop_at > self._around.stop_s:
            self._around.domains.power_off(self.key)

    def _rebuild(self, marker: Marker) -> None:
        """Make the disk anew, then count that: a rebuild that was cut short is made again."""
        image, rebuilds = self._desired.image, self._desired.rebuilds
        self._around.disks.make(self.key, image, marker.disk_gb)
        off = replace(marker, power=Power.STOPPED, reason="")
        self._note(replace(off, rebuilds=rebuilds, image=str(image.get("name", ""))))

    def _done(self, domain: Domain, reason: str = "") -> Sequence[DriverEvent]:
        desired, before = self._desired, domain.marker
        # A reboot that was not done is passed over: a later state must not bring it about.
        passed = replace(before, generation=desired.generation, power=domain.power, reboots=desired.reboots)
        self._remember(replace(passed, reason=reason))
        self._generation, self._rebuilds = desired.generation, before.rebuilds
        self._begin()
        self._phase = self._rest
        return (Changed(self.key, Observed(desired.generation, domain.power, reason, before.rebuilds)),)

    def _note(self, marker: Marker) -> None:
        self._around.domains.note(marker)
        self._last = marker
        self._unwritten, self._write_again_at = None, math.inf

    def _remember(self, marker: Marker) -> None:
        """Note what has come about already; where libvirt refuses that, it is reported all the same."""
        try:
            self._note(marker)
        except Refused as refused:
            if self._unwritten is None:
                log.warning("instance %s: %s: %s", self.key.uuid, refused.reason, refused)
            self._unwritten = marker
            self._write_again_at = self._around.monotonic() + WRITE_AGAIN_S

    # -- unread and missing ---------------------------------------------------------------------------------

    def _unread(self, domain: Domain | None) -> Sequence[DriverEvent]:
        """Report nothing of one of which nobody knows what was done with it."""
        if domain is not None and domain.is_damaged:
            return ()
        self._phase = self._build
        return self._build(domain)

    def _miss(self, event: type[Built] | type[Changed]) -> Sequence[DriverEvent]:
        """Keep the disk of one whose domain is gone; it has failed only without one.

        A zone that hears of a failure lets the instance go, and its agent then removes the disk.
        """
        if not self._around.disks.has_disk(self.key):
            return self._fail(LOST)
        log.error("instance %s: %s", self.key.uuid, MISSING)
        self._begin()
        self._phase = self._missing
        return (event(self.key, Observed(self._generation, Power.STOPPED, LOST, self._rebuilds)),)

    def _missing(self, domain: Domain | None) -> Sequence[DriverEvent]:
        """Go on once its domain is defined again; what was refused until then is passed over."""
        if domain is None or domain.is_damaged or domain.marker.key != self.key:
            return ()
        if self._generation > domain.marker.generation:
            return self._done(domain, CHANGED_OUTSIDE)
        self._phase = self._rest
        return (Changed(self.key, self._found(domain)),)

    # -- failed and ending ---------------------------------------------------------------------------------

    def _refused(self, refused: Refused) -> Sequence[DriverEvent]:
        """Look again; then give up what was wanted. An end is never given up."""
        self._refusals += 1
        if self._refusals <= TRIES:
            log.warning("instance %s: %s: %s", self.key.uuid, refused.reason, refused)
        if self._refusals < TRIES:
            return ()
        if self._phase in (self._build, self._reach):
            self._given_up = refused.reason
        if self._phase == self._build:
            self._phase = self._give_up
        return ()

    def _give_up(self, domain: Domain | None) -> Sequence[DriverEvent]:
        """Power it off before it counts as failed: it may be built on another host then."""
        is_own = domain is not None and domain.marker.key == self.key
        if domain is not None and is_own and step_to_end(domain) is Step.POWER_OFF:
            self._around.domains.power_off(self.key)
            return ()
        return self._fail(self._given_up)

    def _fail(self, reason: str) -> Sequence[DriverEvent]:
        self._phase = self._failed
        return (Failed(self.key, reason),)

    def _failed(self, domain: Domain | None) -> Sequence[DriverEvent]:
        return ()

    def _left(self, domain: Domain | None) -> Sequence[DriverEvent]:
        return ()

    def _end(self, domain: Domain | None) -> Sequence[DriverEvent]:
        around = self._around
        if domain is None or domain.marker.key != self.key:
            around.disks.remove(self.key)
            self._phase = self._gone
            return (Destroyed(self.key),)
        if step_to_end(domain) is Step.POWER_OFF:
            around.domains.power_off(self.key)
        else:
            # The domain goes last: as long as anything is left, the next agent finds it.
            around.disks.remove(self.key)
            around.domains.undefine(self.key)
        return ()

    def _gone(self, domain: Domain | None) -> Sequence[DriverEvent]:
        return ()
