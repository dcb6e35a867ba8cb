"""Drivers on libvirt's own test driver, whose domains live in this process, and other hands on the domains.

Tests with it are skipped where libvirt's bindings are not installed; where `ZONESCHED_TEST_SERVERS` is
`required`, as in .ci/run, they fail instead.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders.clock import FakeClock
from tests.builders.private_servers import leave_out
from zonesched.compute.desired_state import Desired, Power
from zonesched.compute.driver import DriverSettings, LibvirtSettings
from zonesched.compute.machine import DriverEvent, Key, Wanted

URI = "test:///default"
ROUNDS = 15
SECONDS_A_ROUND = 1.0


def bindings() -> Any:
    """The module libvirt."""
    try:
        return importlib.import_module("libvirt")
    except ImportError as error:
        leave_out(f"libvirt's bindings are not installed: {error}")


class Killed(BaseException):
    """The driver's process ends here."""


class LibvirtBench:
    """A state folder, the drivers that come and go on it, and a look at the domains beside them."""

    def __init__(self, folder: Path, uri: str = URI, virt_type: str = "test") -> None:
        self.libvirt = bindings()
        self.modules = {
            name: importlib.import_module(f"zonesched.compute.{name}")
            for name in ("libvirt", "libvirt_domains", "libvirt_disks")
        }
        self.folder = folder
        self.clock = FakeClock()
        self.outside = self.libvirt.open(uri)
        self.settings = DriverSettings(
            state_folder=str(folder), libvirt=LibvirtSettings(uri, virt_type, stop_seconds=5.0)
        )
        self._drivers: list[Any] = []

    def driver(self, **of_libvirt: Any) -> Any:
        """The agent's only one: an earlier one is gone as if it had been killed."""
        self._let_go()
        libvirt = replace(self.settings.libvirt, **of_libvirt)
        settings = replace(self.settings, libvirt=libvirt)
        self._drivers.append(self.modules["libvirt"].LibvirtDriver(settings, self.clock))
        return self._drivers[-1]

    def _let_go(self) -> None:
        for driver in self._drivers:
            os.close(driver._lock)
            driver._domains.close()
        self._drivers.clear()

    def told(self, driver: Any, rounds: int = ROUNDS) -> list[DriverEvent]:
        """Return the reports of that many rounds of work."""
        told: list[DriverEvent] = []
        for _ in range(rounds):
            driver.work()
            told += driver.poll()
            self.clock.advance(SECONDS_A_ROUND)
        return told

    def domain(self, key: Key) -> Any:
        """Libvirt's own domain of an instance."""
        return self.outside.lookupByUUIDString(key.uuid)

    def power(self, key: Key) -> Power:
        """Return the state of a domain as libvirt knows it."""
        domain, libvirt = self.domain(key), self.libvirt
        state, _ = domain.state()
        if state == libvirt.VIR_DOMAIN_SHUTOFF:
            return Power.SUSPENDED if domain.hasManagedSaveImage() else Power.STOPPED
        return {libvirt.VIR_DOMAIN_RUNNING: Power.RUNNING, libvirt.VIR_DOMAIN_PAUSED: Power.PAUSED}[state]

    def names(self) -> list[str]:
        """Names of the domains of this bench, as libvirt lists them."""
        return sorted(d.name() for d in self.outside.listAllDomains() if str(self.folder) in d.XMLDesc())

    def files(self) -> list[str]:
        """Folders of instances."""
        return sorted(path.name for path in (self.folder / "instances").iterdir() if path.is_dir())

    def end(self) -> None:
        self._let_go()
        for domain in self.outside.listAllDomains():
            if str(self.folder) in domain.XMLDesc():
                if domain.isActive():
                    domain.destroy()
                if domain in self.outside.listAllDomains() or domain.isPersistent():
                    domain.undefineFlags(self.libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE)
        self.outside.close()


def wanted(
    key: Key, *, name: str = "my-name", image: str = "", is_active: bool = False, **flavor: int
) -> Wanted:
    """An instance without a disk, unless its flavor says so."""
    named = {"name": "small", "vcpus": 1, "ram": 64, "disk": 0, **flavor}
    return Wanted(key, "h1", name, named, {"id": "image-1", "name": image}, is_active=is_active)


def dies_at(
    monkeypatch: pytest.MonkeyPatch, bench: LibvirtBench, call: int, *, is_done: bool
) -> Callable[[], int]:
    """Let the driver die at its change of that number, before it or once it `is_done`; 0 for never.

    Return a function that counts the changes so far.
    """
    domains, disks = bench.modules["libvirt_domains"].Domains, bench.modules["libvirt_disks"].Disks
    changes: Sequence[tuple[Any, str]] = [
        *((domains, name) for name in ("define", "note", "start", "pause", "resume", "save", "drop_saved")),
        *((domains, name) for name in ("shut_down", "power_off", "undefine")),
        *((disks, name) for name in ("make", "remove")),
    ]
    count = 0

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def change(*arguments: Any) -> Any:
            nonlocal count
            count += 1
            if count == call and not is_done:
                raise Killed
            result = real(*arguments)
            if count == call:
                raise Killed
            return result

        return change

    for owner, name in changes:
        monkeypatch.setattr(owner, name, wrap(getattr(owner, name)))
    return lambda: count


def desired(generation: int, power: Power = Power.RUNNING, **more: Any) -> Desired:
    """A desired state."""
    return Desired(generation, power, **more)
