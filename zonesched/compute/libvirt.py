"""The libvirt driver: an instance is a domain, with a disk over the file of its image.

What the driver knows of an instance stands in the domain's metadata, and its state is libvirt's: a restarted
agent finds everything and starts nothing twice. Libvirt's calls may take seconds, so `work` makes them, on
threads of its own; the agent's calls leave what they ask for and find events.

At most one thread is at an instance. A call may never return, where QEMU or the file system of an image
hangs: its instance waits, and all others go on. One thread is kept for those that are to end.
"""

from __future__ import annotations

import logging
import math
import shutil
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from zonesched.compute import instances_root
from zonesched.compute.desired_state import Desired, Power
from zonesched.compute.driver import DriverSettings
from zonesched.compute.inventory import InventoryHost
from zonesched.compute.lease import Lease
from zonesched.compute.libvirt_disks import GB, Disks, real_folder
from zonesched.compute.libvirt_domain import Domain, Refused
from zonesched.compute.libvirt_domains import Domains, LibvirtAway
from zonesched.compute.libvirt_instance import LOST, LibvirtInstance, Surroundings
from zonesched.compute.machine import (
    Apply,
    Destroy,
    DriverEvent,
    Failed,
    Found,
    Instruction,
    Key,
    Leave,
    Return,
    Spawn,
    Wanted,
)
from zonesched.errors import ConfigError
from zonesched.outage_lines import OutageLines
from zonesched.seams import Clock

log = logging.getLogger(__name__)

SOON_S, LOOK_S, AWAY_S = 0.1, 1.0, 5.0
"""Pauses: while something is to be done, between looks at resting domains, and while libvirt is away."""
WORKERS = 4
"""Threads: libvirtd answers five calls of a connection at a time."""
HUNG_S = 60.0
"""Time of a step after which its instance is said to hang, and its domain ended if that is asked for."""


class LibvirtDriver:
    """Runs each instance as a domain of one libvirt, in the machine's state folder and with its images."""

    traits = frozenset({"COMPUTE_PAUSE", "COMPUTE_SUSPEND"})
    workers = WORKERS

    def __init__(self, settings: DriverSettings, clock: Clock) -> None:
        if not settings.state_folder:
            raise ConfigError(
                "The libvirt driver needs a state folder: --state-folder.", field="state_folder"
            )
        self._root = Path(settings.state_folder).resolve() / "instances"
        of_libvirt = settings.libvirt
        images = real_folder(of_libvirt.image_folder) if of_libvirt.image_folder else None
        try:
            self._lock = instances_root.take_for_this_process(self._root)
        except BlockingIOError:
            raise ConfigError(f"The state folder {self._root} is used by another agent.") from None
        # Libvirt's own users pass through to the disks.
        self._root.chmod(0o711)
        self._clock = clock
        self._domains = Domains(of_libvirt.uri, str(self._root))
        self._around = Surroundings(
            self._domains,
            Disks(self._root, images),
            str(self._root),
            of_libvirt.virt_type,
            clock.monotonic,
            of_libvirt.stop_seconds,
        )
        self._instances: dict[Key, LibvirtInstance] = {}
        self._asked: dict[Key, list[Instruction]] = {}
        self._happened: deque[DriverEvent] = deque()
        self._looks_at = self._answers_at = clock.monotonic()
        self._guard = threading.Lock()
        self._lines = OutageLines(log, "libvirt", "leaving all instances as they are")
        self._at_work: dict[Key, float] = {}
        self._steps = 0
        self._hung: set[Key] = set()

    def lease(self) -> Lease:
        return Lease()

    def hold(self, lease: Lease) -> None:
        """Refuse any lease that ends: nobody would end the domains while the agent is dead."""
        if lease.until_s < math.inf:
            raise ConfigError("The libvirt driver cannot fence its host.", field="fence_after")

    def host(self) -> InventoryHost:
        """Describe the machine, as libvirt and the state folder's file system see it. Raises ConfigError."""
        try:
            name, architecture, cpus, ram_mb, kind, version = self._domains.node()
        except LibvirtAway as error:
            raise ConfigError(f"Libvirt does not answer: {error}") from None
        totals = {
            "VCPU": cpus,
            "MEMORY_MB": ram_mb,
            "DISK_GB": shutil.disk_usage(self._root).total // GB,
        }
        return InventoryHost(
            name=name,
            inventories={resource_class: {"total": total} for resource_class, total in totals.items()},
            capabilities={
                "hypervisor_type": kind,
                "hypervisor_version": version,
                "cpu_info": {"arch": architecture},
                "supported_instances": [[architecture, self._around.virt_type, "hvm"]],
            },
        )

    def found(self) -> Sequence[Key]:
        """Find the domains of an earlier agent, and the disks whose domains are gone.

        Domains that never ran are removed: they are built anew.

        Raises ConfigError where libvirt does not answer, and where it has none of the domains whose disks are
        here: they would all be reported as lost, and their disks removed.
        """
        # A libvirt that hangs would leave an operator without a word.
        log.info("asking libvirt for the domains of this agent")
        disks = [folder.key for folder in instances_root.complete_in(self._root)]
        try:
            domains = self._domains.all()
            if disks and not domains:
                raise ConfigError(
                    f"Libvirt has no domain of the {len(disks)} instances whose disks are in {self._root}: it"
                    " may be another one. Remove the folders of instances that are to be given up.",
                    field="libvirt_uri",
                )
            for key in {*domains, *disks}:
                if key not in domains or not self._was_removed(key, domains[key]):
                    self._instances[key] = LibvirtInstance(self._around, key)
        except LibvirtAway as error:
            raise ConfigError(f"Libvirt does not answer: {error}") from None
        return sorted(self._instances)

    def _was_removed(self, key: Key, domain: Domain) -> bool:
        if domain.marker.is_built or domain.power is not Power.STOPPED:
            return False
        try:
            self._around.disks.remove(key)
            self._domains.undefine(key)
        except Refused as refused:
            log.warning("instance %s: %s: %s", key.uuid, refused.reason, refused)
            return False
        return True

    # -- the agent's thread: two queues --------------------------------------------------------------------

    def spawn(self, wanted: Wanted) -> None:
        self._ask(Spawn(wanted))

    def apply(self, key: Key, desired: Desired) -> None:
        self._ask(Apply(key, desired))

    def leave(self, wanted: Wanted) -> None:
        self._ask(Leave(wanted))

    def come_back(self, wanted: Wanted) -> None:
        self._ask(Return(wanted))

    def destroy(self, key: Key) -> None:
        self._ask(Destroy(key))

    def _ask(self, instruction: Instruction) -> None:
        """Leave it to the threads. What is asked again with each list of the zone waits once."""
        with self._guard:
            waiting = self._asked.setdefault(_key_of(instruction), [])
            if instruction not in waiting[-1:]:
                waiting.append(instruction)

    def poll(self) -> Sequence[DriverEvent]:
        self._say_what_hangs()
        return [self._happened.popleft() for _ in range(len(self._happened))]

    def next_event_s(self) -> float:
        return 0.0 if self._happened else SOON_S

    def _say_what_hangs(self) -> None:
        with self._guard:
            late_at = self._clock.monotonic() - HUNG_S
            hung = {key for key, since in self._at_work.items() if since < late_at}
            before, self._hung = self._hung, hung
        if new := sorted(hung - before):
            log.warning(
                "libvirt, QEMU or a disk hangs: a step has taken %.0f s, of %d instances, such as %s",
                HUNG_S,
                len(hung),
                new[0].uuid,
            )

    # -- the driver's threads ------------------------------------------------------------------------------

    def work(self) -> float:
        """Take one step of each instance that has one to take; return the pause until the next call."""
        self._take_asked()
        if self._clock.monotonic() < self._answers_at:
            return SOON_S
        try:
            self._look()
            self._step()
            self._end_hung()
        except LibvirtAway as error:
            # It says nothing about the instances: they are as they were until it answers again.
            with self._guard:
                self._lines.away(error)
            self._answers_at = self._clock.monotonic() + AWAY_S
        return SOON_S

    def _take_asked(self) -> None:
        """Take what is asked for, in its order; what is asked of an instance that a thread is at waits."""
        with self._guard:
            for key in [key for key in self._asked if key not in self._at_work]:
                for instruction in self._asked.pop(key):
                    self._take(instruction)

    def _take(self, instruction: Instruction) -> None:
        match instruction:
            case Spawn(wanted):
                if wanted.key not in self._instances:
                    self._instances[wanted.key] = LibvirtInstance(self._around, wanted.key, wanted)
            case Apply(key, desired):
                if key in self._instances:
                    self._instances[key].apply(desired)
            case Leave(wanted):
                if wanted.key in self._instances:
                    self._happened += self._instances[wanted.key].leave(wanted.leaves_for)
                else:
                    self._happened.append(Failed(wanted.key, LOST))
            case Return(wanted):
                if wanted.key in self._instances:
                    self._instances[wanted.key].come_back(wanted)
            case Destroy(key):
                self._instances.setdefault(key, LibvirtInstance(self._around, key)).end()

    def _look(self) -> None:
        """Compare the domains that rest with what they were left as, and find those that nobody knows."""
        with self._guard:
            now = self._clock.monotonic()
            if now < self._looks_at:
                return
            resting = [each for each in self._instances.values() if each.is_resting]
            self._looks_at = now + LOOK_S
            known = {*self._instances, *self._asked}
        domains = self._domains.all()
        with self._guard:
            self._lines.back()
        for key in sorted(domains.keys() - known):
            self._find_late(key)
        self._advance([each for each in resting if not each.is_as_left(domains.get(each.key))])

    def _find_late(self, key: Key) -> None:
        """Take in a domain that libvirt has made after `found`, for an agent that was killed meanwhile."""
        domain = self._domains.find(key)
        with self._guard:
            if domain is None or domain.marker.key != key or key in self._instances or key in self._asked:
                return
            self._instances[key] = LibvirtInstance(self._around, key)
            self._happened.append(Found((key,)))

    def _step(self) -> None:
        with self._guard:
            instances = [each for each in self._instances.values() if not each.is_waiting]
        self._advance(instances)

    def _advance(self, instances: Sequence[LibvirtInstance]) -> None:
        """Take one step of each that no other thread is at, by its domain as it is then."""
        for instance in instances:
            with self._held(instance) as is_held:
                if is_held:
                    domain = self._domains.find(instance.key)
                    with self._guard:
                        self._lines.back()
                    self._happened += instance.advance(domain)

    @contextmanager
    def _held(self, instance: LibvirtInstance) -> Iterator[bool]:
        """Keep other threads from an instance; yield false where one is at it or must be left for an end."""
        key = instance.key
        with self._guard:
            is_mine = self._instances.get(key) is instance and key not in self._at_work
            if not is_mine or (self._steps >= WORKERS - 1 and not instance.is_ending):
                is_mine = False
            else:
                self._at_work[key] = self._clock.monotonic()
                self._steps += 1
        try:
            yield is_mine
        finally:
            if is_mine:
                with self._guard:
                    self._steps -= 1
                    del self._at_work[key]
                    if instance.is_gone:
                        del self._instances[key]

    def _end_hung(self) -> None:
        """Power off what is to end and hangs: with its QEMU the call that waits for it ends, too."""
        with self._guard:
            now = self._clock.monotonic()
            to_end = [key for key, asked in self._asked.items() if Destroy(key) in asked]
            hung = [key for key in to_end if now - self._at_work.get(key, now) > HUNG_S]
            # Not again before it had time for that.
            self._at_work.update((key, now) for key in hung)
        for key in hung:
            domain = self._domains.find(key)
            if domain is not None and domain.marker.key == key:
                with suppress(Refused):
                    self._domains.power_off(key)


def _key_of(instruction: Instruction) -> Key:
    match instruction:
        case Apply(key) | Destroy(key):
            return key
        case Spawn(wanted) | Leave(wanted) | Return(wanted):
            return wanted.key
