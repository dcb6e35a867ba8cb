"""The domains of one libvirt: the only module that imports it.

Calls may take seconds. A call that libvirt refuses raises Refused with a reason of its own; one that libvirt
does not answer raises LibvirtAway, which says nothing about any domain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import libvirt

from zonesched.compute import instances_root
from zonesched.compute.desired_state import Power
from zonesched.compute.libvirt_domain import (
    NAMESPACE,
    PREFIX,
    Domain,
    Marker,
    Refused,
    domain_uuid,
    key_by_files,
    marker_of,
    marker_xml,
)
from zonesched.compute.machine import Key

ENDED, CRASHED, DESTROYED, NOT_STARTED = (
    "domain_ended",
    "domain_crashed",
    "domain_destroyed",
    "domain_not_started",
)
NOT_DEFINED, NOT_RESUMED, DISK_FAILED = "domain_not_defined", "domain_not_resumed", "domain_disk_failed"
_ENDS: Mapping[int, str] = {
    libvirt.VIR_DOMAIN_SHUTOFF_CRASHED: CRASHED,
    libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED: DESTROYED,
    libvirt.VIR_DOMAIN_SHUTOFF_FAILED: CRASHED,
}
_STOPPED = (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_CRASHED)
_STARTING = (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP)
_MARKER = libvirt.VIR_DOMAIN_METADATA_ELEMENT


class LibvirtAway(Exception):
    """Libvirt does not answer, or has failed to answer."""


class Domains:
    """The domains of one agent, found by its state folder in their markers; all others are left alone."""

    def __init__(self, uri: str, folder: str) -> None:
        self._uri = uri
        self._folder = folder
        self._connection: Any = None
        # Every error is raised; libvirt would print it as well.
        libvirt.registerErrorHandler(lambda *_: None, None)

    def node(self) -> tuple[str, str, int, int, str, int]:
        """Return the machine: name, architecture, CPUs, RAM in MB; the hypervisor's type and version."""
        connection = self._opened()
        try:
            architecture, ram_mb, cpus = connection.getInfo()[:3]
            kind, version = connection.getType(), connection.getVersion()
            return (
                str(connection.getHostname()),
                str(architecture),
                int(cpus),
                int(ram_mb),
                str(kind),
                int(version),
            )
        except libvirt.libvirtError as error:
            raise LibvirtAway(str(error)) from None

    def all(self) -> Mapping[Key, Domain]:
        """Return the agent's domains, running or not."""
        try:
            domains = [self._read(domain) for domain in self._listed()]
        except libvirt.libvirtError as error:
            raise LibvirtAway(str(error)) from None
        return {domain.marker.key: domain for domain in domains if domain is not None}

    def find(self, key: Key) -> Domain | None:
        """Return the domain of an instance, of whichever attempt; None where there is none."""
        try:
            return self._read(self._lookup(key))
        except Refused:
            return None
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return None
            raise LibvirtAway(str(error)) from None

    def define(self, key: Key, xml: str) -> None:
        """Define the domain of an instance, unless there is one of its uuid, whoever has made it."""
        if any(domain.UUIDString() == domain_uuid(key) for domain in self._listed()):
            raise Refused(NOT_DEFINED, "there is another domain of this uuid")
        self._call(NOT_DEFINED, lambda: self._opened().defineXML(xml))

    def note(self, marker: Marker) -> None:
        """Write the marker; a later agent finds it as it is when this returns."""

        def write() -> None:
            domain = self._lookup(marker.key)
            # What runs has two definitions, and one that somebody has undefined while it ran has one alone.
            flags = libvirt.VIR_DOMAIN_AFFECT_LIVE if domain.isActive() else 0
            flags |= libvirt.VIR_DOMAIN_AFFECT_CONFIG if domain.isPersistent() else 0
            domain.setMetadata(_MARKER, marker_xml(marker), PREFIX, NAMESPACE, flags)

        self._call("domain_not_written", write)

    def start(self, key: Key) -> None:
        """Start it, from its saved state where it has one."""
        self._call(NOT_STARTED, lambda: self._lookup(key).create())

    def pause(self, key: Key) -> None:
        self._call("domain_not_paused", lambda: self._lookup(key).suspend())

    def resume(self, key: Key) -> None:
        """Let a paused one go on."""
        self._call(NOT_RESUMED, lambda: self._lookup(key).resume())

    def save(self, key: Key) -> None:
        """Write its memory to a file of libvirt's, and end it."""
        self._call("domain_not_saved", lambda: self._lookup(key).managedSave(0))

    def drop_saved(self, key: Key) -> None:
        """Remove that file."""
        self._call("domain_not_stopped", lambda: self._lookup(key).managedSaveRemove(0))

    def shut_down(self, key: Key) -> None:
        """Ask the guest to shut down; whether and when it does is its own affair."""
        self._call("domain_not_stopped", lambda: self._lookup(key).shutdown())

    def power_off(self, key: Key) -> None:
        """End it at once."""
        self._call("domain_not_stopped", lambda: self._lookup(key).destroy())

    def undefine(self, key: Key) -> None:
        """Remove the definition of one that does not run, with its saved state and marks of backups."""
        flags = libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA

        def remove() -> None:
            domain = self._lookup(key)
            for checkpoint in domain.listAllCheckpoints():
                checkpoint.delete(libvirt.VIR_DOMAIN_CHECKPOINT_DELETE_METADATA_ONLY)
            domain.undefineFlags(flags)

        self._call("domain_not_removed", remove)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _opened(self) -> Any:
        """Return the connection, a new one where libvirt has closed the last."""
        connection = self._connection
        try:
            if connection is None or not connection.isAlive():
                connection = self._connection = libvirt.open(self._uri)
        except libvirt.libvirtError as error:
            self._connection = None
            raise LibvirtAway(str(error)) from None
        return connection

    def _listed(self) -> Sequence[Any]:
        try:
            return list(self._opened().listAllDomains(0))
        except libvirt.libvirtError as error:
            raise LibvirtAway(str(error)) from None

    def _lookup(self, key: Key) -> Any:
        return self._opened().lookupByUUIDString(domain_uuid(key))

    def _call(self, reason: str, call: Callable[[], Any]) -> None:
        try:
            call()
        except libvirt.libvirtError as error:
            if not self._is_alive():
                raise LibvirtAway(str(error)) from None
            raise Refused(reason, str(error)) from None

    def _is_alive(self) -> bool:
        connection = self._connection
        try:
            return bool(connection is not None and connection.isAlive())
        except libvirt.libvirtError:
            return False

    def _read(self, domain: Any) -> Domain | None:
        """Return a domain with a marker of this agent, in its present state; None for any other."""
        try:
            is_damaged, marker = False, self._marker(domain)
            if marker is None:
                is_damaged, marker = True, self._marker_by_files(domain)
            state, reason = domain.state()
            is_saved = state in _STOPPED and domain.hasManagedSaveImage()
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return None
            raise
        if marker is None or marker.folder != self._folder:
            return None
        is_starting = (state, reason) == _STARTING
        return Domain(marker, *_power(state, reason, is_saved), is_damaged, is_starting)

    @staticmethod
    def _marker(domain: Any) -> Marker | None:
        """Return the marker of whichever agent; None where there is none that can be read."""
        try:
            # The definition that it runs with, where it runs: it is there also after somebody undefined it.
            return marker_of(domain.metadata(_MARKER, NAMESPACE, 0))
        except ValueError:
            return None
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN_METADATA:
                return None
            raise

    def _marker_by_files(self, domain: Any) -> Marker | None:
        """Return whose domain it is, where somebody has changed or dropped its marker."""
        name = domain.name()
        if not instances_root.FOLDER.fullmatch(name):
            return None
        key = key_by_files(name, domain.XMLDesc(), self._folder)
        return Marker(key, self._folder) if key is not None else None


def _power(state: int, reason: int, is_saved: bool) -> tuple[Power, str]:
    """Return the power state of a domain, and why it is in that."""
    if is_saved:
        return Power.SUSPENDED, ""
    if state == libvirt.VIR_DOMAIN_CRASHED:
        return Power.STOPPED, CRASHED
    if state == libvirt.VIR_DOMAIN_SHUTOFF:
        return Power.STOPPED, _ENDS.get(reason, ENDED)
    if state == libvirt.VIR_DOMAIN_PAUSED:
        return Power.PAUSED, DISK_FAILED if reason == libvirt.VIR_DOMAIN_PAUSED_IOERROR else ""
    return Power.RUNNING, ""
