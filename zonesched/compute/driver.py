"""Contract of drivers, and the choice of one by its `connection_type`."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Protocol, cast, runtime_checkable

from zonesched.compute.desired_state import Desired
from zonesched.compute.inventory import InventoryHost
from zonesched.compute.lease import Lease
from zonesched.compute.machine import DriverEvent, Key, Wanted
from zonesched.errors import ConfigError, ZoneschedError
from zonesched.plugin import ANY_ERROR, entry_point_of
from zonesched.seams import Clock

ENTRY_POINT_GROUP = "zonesched.compute_drivers"
DRIVER_FAILED = "driver_failed"
"""Reason where a driver has given none that is one, or has raised an error."""


class DriverUnknown(ConfigError):
    """There is no driver of this name; the message lists the known ones."""


class Driver(Protocol):
    """Builds, changes and ends instances. These calls return at once; `poll` later returns their results.

    One agent works with a driver, from one thread; docs/plugins.md has the rules for drivers.
    """

    @property
    def traits(self) -> Collection[str]:
        """Return the actions that not every driver can do, such as COMPUTE_SUSPEND; its hosts have them."""

    def lease(self) -> Lease:
        """Return the lease under which instances run, which an earlier agent may have had."""

    def hold(self, lease: Lease) -> None:
        """Let instances run until the end of a lease.

        Once it has run out, the driver starts nothing and ends all instances by itself, also while the agent
        is dead, stopped or stuck; `poll` reports Fenced for each. Raises OSError where nobody could do so.
        """

    def found(self) -> Sequence[Key]:
        """Return the instances of an earlier agent, once, before any other call that is about instances.

        `poll` reports their status, and Found for one that only comes to light later.
        """

    def spawn(self, wanted: Wanted) -> None:
        """Start building an instance; one that runs or is being built is left as it is.

        One with `moved_from` goes on with what that attempt's host has kept of it, in the desired state; it
        is never built anew, and fails with `folder_not_shared` where that host's folder is out of reach.
        """

    def apply(self, key: Key, desired: Desired) -> None:
        """Start bringing a built instance into a desired state.

        A newer generation replaces an older one that is not reached yet; any other call changes nothing.
        """

    def leave(self, wanted: Wanted) -> None:
        """Start stopping an instance that moves to another host, and keep what that host needs of it.

        `poll` reports Left with `wanted.leaves_for` once nothing of it runs, or with a reason where it could
        not be kept. A later call with another `leaves_for` replaces an earlier one. A new agent may be asked
        so for an instance that it has not reported yet.
        """

    def come_back(self, wanted: Wanted) -> None:
        """Start an instance again as it was before `leave`, or before it was fenced. `poll` reports Built."""

    def destroy(self, key: Key) -> None:
        """Start ending an instance; a missing one counts as ended."""

    def poll(self) -> Sequence[DriverEvent]:
        """Return the events since the last call, in order."""

    def next_event_s(self) -> float:
        """Seconds until `poll` is expected to have events; infinity if nothing is in progress."""


@runtime_checkable
class HasWork(Protocol):
    """A driver whose work blocks, so that it has `workers` threads of its own, which call nothing else."""

    workers: int

    def work(self) -> float:
        """Do what there is to do; return the seconds until it is called again."""


@runtime_checkable
class HasConsole(Protocol):
    """A driver that can read what its instances print, and says so by the trait COMPUTE_CONSOLE."""

    def read_console(self, key: Key) -> bytes:
        """Return the newest `MAX_CONSOLE_BYTES` of an instance's output; none for one that is not there.

        An output is the instance's own: nothing of the host is added to it.
        """


@runtime_checkable
class HasHost(Protocol):
    """A driver that knows the one host that it runs instances on."""

    def host(self) -> InventoryHost:
        """Describe the host, for an agent without an inventory file. Raises ConfigError."""


@dataclass(frozen=True)
class LibvirtSettings:
    """Settings of the libvirt driver.

    The URI of its libvirt, the type of its domains (kvm, qemu or test), the folder with the files of images
    ("" for disks that begin empty), and how long a guest may take to shut down.
    """

    uri: str = "qemu:///system"
    virt_type: str = "kvm"
    image_folder: str = ""
    stop_seconds: float = 60.0


@dataclass(frozen=True)
class DriverSettings:
    """Settings that every driver gets; each reads those it needs.

    For tests: how long builds and actions take, how many of each fail (0 to 1) and the `seed` that chooses
    which. For instances that are there: the folder where the driver keeps what must outlive the agent ("" for
    none), the one through which moving instances are passed to other machines ("" for none), the command that
    is an instance (the driver's own where it is empty), and how long that may take to end.
    """

    build_seconds: float = 0.0
    failure_rate: float = 0.0
    action_seconds: float = 0.0
    action_failure_rate: float = 0.0
    seed: str = ""
    state_folder: str = ""
    shared_folder: str = ""
    command: tuple[str, ...] = ()
    stop_seconds: float = 5.0
    libvirt: LibvirtSettings = LibvirtSettings()


class DriverFactory(Protocol):
    """Class of a driver, or a function that makes one."""

    def __call__(self, settings: DriverSettings, clock: Clock) -> Driver: ...


def make_driver(connection_type: str, settings: DriverSettings, clock: Clock) -> Driver:
    """Make the driver of this name. Raises DriverUnknown, and ConfigError where it cannot be made."""
    factory = load_driver(connection_type)
    try:
        driver = factory(settings, clock)
    except (ZoneschedError, OSError, ValueError):
        # The driver says itself what is wrong with its settings or its machine.
        raise
    except ANY_ERROR as error:
        raise ConfigError(f"connection_type {connection_type!r} cannot be created: {error!r}") from error
    missing = [name for name in vars(Driver) if not name.startswith("_") and not hasattr(driver, name)]
    if missing:
        raise ConfigError(
            f"connection_type {connection_type!r} is not a driver: it has no {', '.join(missing)}."
        )
    if isinstance(driver.traits, str) or not isinstance(driver.traits, Collection):
        raise ConfigError(f"connection_type {connection_type!r}: its traits must be a set of str.")
    return driver


def ask(driver: Driver, method: str, form: Any) -> Any:
    """Ask a driver what an agent cannot start without: the answer of a method, which has this type.

    Raises ConfigError, which names driver and method, where it has another one or none.
    """
    which = f"{method} of the driver {type(driver).__qualname__}"
    try:
        answer = getattr(driver, method)()
    except ZoneschedError:
        raise
    except ANY_ERROR as error:
        raise ConfigError(f"{which} failed: {error!r}") from error
    if not isinstance(answer, form):
        raise ConfigError(f"{which} gave {answer!r}, which is not what a driver returns there.")
    return answer


def load_driver(connection_type: str) -> DriverFactory:
    """Find the factory by the name of an entry point or by `package.module:Name`. Raises DriverUnknown."""
    which = f"connection_type {connection_type!r}"
    found = entry_point_of(which, ENTRY_POINT_GROUP, connection_type)
    module, separator, name = connection_type.partition(":")
    if found is None and not separator:
        names = ", ".join(sorted(entry_points(group=ENTRY_POINT_GROUP).names))
        raise DriverUnknown(f"{which} does not exist. Accepted: {names}, or package.module:Name.")
    try:
        return cast(DriverFactory, found.load() if found else getattr(importlib.import_module(module), name))
    except ANY_ERROR as error:
        # The author of the module needs to see any error that its import raises.
        message = f"{which} cannot be loaded: {type(error).__name__}: {error}"
        if found and isinstance(error, ImportError):
            message += f". It may need an extra of its package, such as zonesched[{connection_type}]."
        raise DriverUnknown(message) from error
