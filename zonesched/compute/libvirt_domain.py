"""A libvirt domain as the driver sees it, and as it defines one: its XML, and its marker.

The marker is the driver's own element in the domain's metadata. What must outlive the agent stands there:
whose instance it is, and what was done with it. Names of owners stand there alone. No I/O.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

# Libvirt itself has read and written what is parsed here.
from xml.etree import ElementTree  # nosec B405

from zonesched.compute.desired_state import Power
from zonesched.compute.machine import Key, Wanted

NAMESPACE = "urn:zonesched:instance:1"
PREFIX = "zonesched"


class Refused(Exception):
    """A step that cannot be taken; `reason` is a stable code, the text is for the agent's log."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class Marker:
    """Instance of a domain, and the last state that the driver has brought about or found.

    `folder`: the state folder of its agent, since several agents may use one libvirt. `is_built`: its disk is
    whole, and it has run. `name`, `flavor` and `image` are for people. `disk_gb`: of the flavor. `reason`: a
    code for why it is not in the state of that generation; "" where it is.
    """

    key: Key
    folder: str
    name: str = ""
    flavor: str = ""
    image: str = ""
    disk_gb: int = 0
    is_built: bool = False
    generation: int = 0
    power: Power = Power.RUNNING
    reboots: int = 0
    rebuilds: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Domain:
    """A domain with a marker.

    `why`: a stable code for why it is stopped, or was paused by QEMU itself; "" in any other state. Of one
    that `is_damaged` the marker cannot be read: this one says no more than whose it is. What `is_starting` is
    in no state yet, and is shown as paused.
    """

    marker: Marker
    power: Power
    why: str = ""
    is_damaged: bool = False
    is_starting: bool = False


@dataclass(frozen=True)
class Machine:
    """Parts of a domain. `virt_type`: kvm, qemu or test. `disk`: its image in qcow2, if it has one."""

    virt_type: str
    vcpus: int
    ram_mb: int
    disk: Path | None
    console: Path


def domain_uuid(key: Key) -> str:
    """Return the uuid of the domain: the instance's own. Raises Refused for one that is no UUID."""
    try:
        return str(uuid.UUID(key.uuid))
    except ValueError:
        raise Refused("uuid_not_usable", f"{key.uuid!r} is not the uuid of a domain") from None


def first_marker(wanted: Wanted, folder: str) -> Marker:
    """Return the marker of an instance that is not built yet: earlier reboots and rebuilds count as done."""
    return Marker(
        key=wanted.key,
        folder=folder,
        name=wanted.name,
        flavor=str(wanted.flavor.get("name", "")),
        image=str(wanted.image.get("name", "")),
        disk_gb=int(wanted.flavor.get("disk", 0)),
        reboots=wanted.desired.reboots,
        rebuilds=wanted.desired.rebuilds,
    )


def domain_xml(marker: Marker, machine: Machine) -> str:
    """Return the definition of the domain of an instance."""
    domain = ElementTree.Element("domain", type=machine.virt_type)
    _add(domain, "name", f"{marker.key.uuid}.{marker.key.attempt}")
    _add(domain, "uuid", domain_uuid(marker.key))
    metadata = _add(domain, "metadata")
    metadata.append(_element(marker, f"{{{NAMESPACE}}}"))
    _add(domain, "memory", str(max(1, machine.ram_mb)), unit="MiB")
    _add(domain, "vcpu", str(max(1, machine.vcpus)))
    _add(_add(domain, "os"), "type", "hvm")
    # Without ACPI a guest cannot be asked to shut down.
    _add(_add(domain, "features"), "acpi")
    _add(domain, "clock", offset="utc")
    for event, then in (("on_poweroff", "destroy"), ("on_reboot", "restart"), ("on_crash", "destroy")):
        _add(domain, event, then)
    devices = _add(domain, "devices")
    if machine.disk is not None:
        disk = _add(devices, "disk", type="file", device="disk")
        _add(disk, "driver", name="qemu", type="qcow2")
        _add(disk, "source", file=str(machine.disk))
        _add(disk, "target", dev="vda", bus="virtio")
    serial = _add(devices, "serial", type="file")
    _add(serial, "source", path=str(machine.console), append="on")
    _add(serial, "target", port="0")
    return ElementTree.tostring(domain, encoding="unicode")


def marker_xml(marker: Marker) -> str:
    """Return the marker as libvirt takes it: without its namespace, which is an argument of that call."""
    return ElementTree.tostring(_element(marker, ""), encoding="unicode")


def marker_of(xml: str) -> Marker:
    """Read a marker as libvirt returns it. Raises ValueError where somebody has changed it beyond use."""
    try:
        found = ElementTree.fromstring(xml).attrib  # nosec B314
        return Marker(
            key=Key(found["uuid"], int(found["attempt"])),
            folder=found["folder"],
            name=found["name"],
            flavor=found["flavor"],
            image=found["image"],
            disk_gb=int(found["disk_gb"]),
            is_built=found["built"] == "yes",
            generation=int(found["generation"]),
            power=Power(found["power"]),
            reboots=int(found["reboots"]),
            rebuilds=int(found["rebuilds"]),
            # An earlier version has written none.
            reason=found.get("reason", ""),
        )
    except (ElementTree.ParseError, KeyError) as error:
        raise ValueError(f"the marker cannot be read: {error!r}") from None


def key_by_files(name: str, xml: str, folder: str) -> Key | None:
    """Return whose domain it is by its name and files, where its marker does not say that.

    None for one that has no file in its instance's folder there.
    """
    uuid_, _, attempt = name.rpartition(".")
    sources = [found.attrib for found in ElementTree.fromstring(xml).iter("source")]  # nosec B314
    files = [source.get("file") or source.get("path", "") for source in sources]
    if attempt.isdecimal() and any(file.startswith(f"{folder}/{name}/") for file in files):
        return Key(uuid_, int(attempt))
    return None


def _element(marker: Marker, namespace: str) -> ElementTree.Element:
    return ElementTree.Element(
        f"{namespace}instance",
        uuid=marker.key.uuid,
        attempt=str(marker.key.attempt),
        folder=marker.folder,
        name=_printable(marker.name),
        flavor=_printable(marker.flavor),
        image=_printable(marker.image),
        disk_gb=str(marker.disk_gb),
        built="yes" if marker.is_built else "no",
        generation=str(marker.generation),
        power=marker.power.value,
        reboots=str(marker.reboots),
        rebuilds=str(marker.rebuilds),
        reason=marker.reason,
    )


def _printable(text: str) -> str:
    """Replace what XML cannot have, such as control characters."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _add(parent: ElementTree.Element, tag: str, text: str = "", **attributes: str) -> ElementTree.Element:
    child = ElementTree.SubElement(parent, tag, attributes)
    child.text = text or None
    return child
