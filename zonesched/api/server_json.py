"""An instance in the shape of OpenStack's Compute API."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from zonesched.api.links import Links
from zonesched.api.microversion import Microversion
from zonesched.model.desired_wire import resizes_to_wire
from zonesched.model.named_boot import ImageAndFlavor
from zonesched.model.observed_state import NO_RESIZES
from zonesched.model.openstack_time import iso_time, zoneless_time
from zonesched.model.placement import BuildState, InstanceChange, InstanceStatus
from zonesched.model.request_spec import Flavor, Image
from zonesched.model.request_wire import flavor_to_wire, image_to_wire
from zonesched.model.server_hostname import hostname_of
from zonesched.model.shown_status import Status, shown_status
from zonesched.model.views import FailedAttempt, ServerView
from zonesched.model.vm_state import NO_STATE, POWER_STATE, is_built, vm_state

DISK_CONFIG = "MANUAL"
"""How the disk of a server is partitioned whose owner has not said: not at all."""

FLAVOR_INLINE, SERVER_GROUPS, IMAGE_PROPERTIES = 47, 71, 98
"""Microversions: with the flavor's sizes in place of its id, the server group, the image's properties."""

_SINCE = {
    "OS-EXT-SRV-ATTR:reservation_id": 3,
    "OS-EXT-SRV-ATTR:launch_index": 3,
    "OS-EXT-SRV-ATTR:kernel_id": 3,
    "OS-EXT-SRV-ATTR:ramdisk_id": 3,
    "OS-EXT-SRV-ATTR:root_device_name": 3,
    "locked": 9,
    "host_status": 16,
    "description": 19,
    "tags": 26,
    "trusted_image_certificates": 63,
    "locked_reason": 73,
    "OS-EXT-SRV-ATTR:hostname": 90,
    "pinned_availability_zone": 96,
}
"""Members that came with a microversion, by its minor number."""
_SINCE_FOR_ADMIN = {**_SINCE, "OS-EXT-SRV-ATTR:hostname": 3}

_PROGRESS = {
    Status.ACTIVE: 100,
    Status.VERIFY_RESIZE: 100,
    Status.BUILD: 0,
    Status.REBUILD: 0,
    Status.RESIZE: 0,
}
"""Statuses that have a progress, as in OpenStack Nova; no driver tells how far it is."""


def brief_json(view: ServerView, links: Links) -> dict[str, Any]:
    """Id, name and links."""
    return {"id": view.uuid, "name": view.name, "links": links.of("servers", view.uuid)}


def parent_json(view: ServerView) -> dict[str, Any]:
    """Status of a parent's instance, without its place.

    Times are left out too: instances that changed together are mostly in one zone below.
    """
    never = InstanceChange(view.uuid, 0, view.status, BuildState.GONE)
    sent = view.sent or never
    return {
        "id": view.uuid,
        "status": view.status.value,
        "attempt": sent.attempt,
        "state": sent.state.value,
        "reason": sent.reason,
        **observed_json(sent),
        "reservation_id": view.reservation_id,
    }


def observed_json(change: InstanceChange) -> dict[str, dict[str, Any]]:
    """Observed state of a parent's instance, and its counts of moves; nothing where it has none."""
    observed, moves = change.observed, change.moves
    if observed is None:
        return {}
    found: dict[str, dict[str, Any]] = {
        "observed": {
            "generation": observed.generation,
            "power": observed.power.value,
            "reason": observed.reason,
            "rebuilds": observed.rebuilds,
        }
    }
    if observed.resizes != NO_RESIZES:
        found["observed"]["resizes"] = resizes_to_wire(observed.resizes)
    if moves.begun:
        found["moves"] = {"begun": moves.begun, "ended": moves.ended}
    return found


def image_and_flavor_json(known: ImageAndFlavor) -> dict[str, Any]:
    """Return the image and the flavor, each only where it is not as booted."""
    found: dict[str, Any] = {}
    if isinstance(known.image, Image):
        found["image"] = image_to_wire(known.image)
    if isinstance(known.flavor, Flavor):
        found["flavor"] = flavor_to_wire(known.flavor)
    return found


def server_json(view: ServerView, links: Links, version: Microversion) -> dict[str, Any]:
    """Return the whole instance as of a microversion; the host's own name only where the view has it."""
    status = shown_status(view.status, view.state)
    found = {
        **brief_json(view, links),
        "status": status.value,
        "tenant_id": view.project_id,
        "user_id": view.user_id,
        "hostId": view.host_id_for_tenant,
        "created": iso_time(view.created_at),
        "updated": iso_time(view.updated_at),
        "flavor": _flavor_inline(view) if version.has(FLAVOR_INLINE) else _flavor(view, links),
        "image": _image(view, links, version),
        "reservation_id": view.reservation_id,
        "stale": view.stale,
        "locked": view.locked_reason is not None,
        "locked_reason": view.locked_reason or None,
        **details_json(view.passthrough),
        **_extensions(view),
        **_host(view),
        **_fault(view),
        **_progress(status),
    }
    since = _SINCE_FOR_ADMIN if view.to_admin else _SINCE
    return {name: value for name, value in found.items() if version.has(since.get(name, 1))}


def filtered_json(view: ServerView) -> dict[str, Any]:
    """Return the members by which lists are filtered, as `server_json` does: most are seen for that alone."""
    return {
        "created": iso_time(view.created_at),
        **_extensions(view),
        **_host(view),
        **_progress(shown_status(view.status, view.state)),
    }


def _progress(status: Status) -> dict[str, int]:
    return {"progress": _PROGRESS[status]} if status in _PROGRESS else {}


def shown_json(view: ServerView, links: Links, version: Microversion) -> dict[str, Any]:
    """Return the whole instance and, from 2.71 on, its server group, which lists do not have."""
    found = server_json(view, links, version)
    groups = [view.group_id] if view.group_id else []
    return {**found, "server_groups": groups} if version.has(SERVER_GROUPS) else found


def _flavor_inline(view: ServerView) -> dict[str, Any]:
    flavor = view.flavor
    return {
        "original_name": flavor.name,
        "vcpus": flavor.vcpus,
        "ram": flavor.ram_mb,
        "disk": flavor.disk_gb,
        "ephemeral": flavor.ephemeral_gb,
        "swap": flavor.swap_mb,
        "extra_specs": dict(flavor.extra_specs),
    }


def _flavor(view: ServerView, links: Links) -> dict[str, Any]:
    flavor = view.flavor
    return {"id": flavor.id, "name": flavor.name, "links": links.of("flavors", flavor.id)[1:]}


def _image(view: ServerView, links: Links, version: Microversion) -> dict[str, Any] | str:
    """OpenStack shows an empty text where no image was booted from."""
    if not view.image.id:
        return ""
    found = {"id": view.image.id, "name": view.image.name, "links": links.of("images", view.image.id)[1:]}
    return {**found, "properties": dict(view.image.properties)} if version.has(IMAGE_PROPERTIES) else found


def details_json(passthrough: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that come from a server's passthrough alone."""
    return {
        "metadata": passthrough.get("metadata", {}),
        "key_name": passthrough.get("key_name"),
        "config_drive": str(passthrough["config_drive"]) if passthrough.get("config_drive") else "",
        "security_groups": passthrough.get("security_groups") or [{"name": "default"}],
        "description": passthrough.get("description"),
        "tags": passthrough.get("tags", []),
        "addresses": {},
        "accessIPv4": passthrough.get("access_ipv4", ""),
        "accessIPv6": passthrough.get("access_ipv6", ""),
        "OS-DCF:diskConfig": passthrough.get("disk_config", DISK_CONFIG),
    }


def _extensions(view: ServerView) -> dict[str, Any]:
    power_state = POWER_STATE[view.state.observed.power]
    ended_at = view.updated_at if view.status is InstanceStatus.DELETED else 0.0
    return {
        "OS-EXT-AZ:availability_zone": view.availability_zone,
        "OS-EXT-STS:vm_state": vm_state(view.status, view.state),
        "OS-EXT-STS:task_state": view.task_state or None,
        "OS-EXT-STS:power_state": power_state if is_built(view.status, view.state) else NO_STATE,
        "OS-SRV-USG:launched_at": _whole_second(view.launched_at),
        "OS-SRV-USG:terminated_at": _whole_second(ended_at),
        "OS-EXT-SRV-ATTR:hostname": hostname_of(view.name, view.passthrough),
        "os-extended-volumes:volumes_attached": [],
        "pinned_availability_zone": view.pinned_availability_zone or None,
        "trusted_image_certificates": None,
    }


def _whole_second(epoch_s: float) -> str | None:
    return zoneless_time(math.floor(epoch_s)) if epoch_s else None


def _host(view: ServerView) -> dict[str, Any]:
    """Return the place of an instance for this zone's admin; null where it is on no host of this zone."""
    if not view.to_admin:
        return {}
    return {
        **({"child_zone": view.child_name} if view.child_name else {}),
        "OS-EXT-SRV-ATTR:host": view.host_name or None,
        "OS-EXT-SRV-ATTR:hypervisor_hostname": view.host_name or None,
        "OS-EXT-SRV-ATTR:instance_name": view.instance_name,
        "OS-EXT-SRV-ATTR:launch_index": view.launch_index,
        "OS-EXT-SRV-ATTR:reservation_id": view.reservation_id,
        "OS-EXT-SRV-ATTR:kernel_id": "",
        "OS-EXT-SRV-ATTR:ramdisk_id": "",
        "OS-EXT-SRV-ATTR:root_device_name": None,
        "host_status": view.host_status,
    }


def _fault(view: ServerView) -> dict[str, Any]:
    if not view.fault_code:
        return {}
    fault = {
        "code": 500,
        "message": view.fault_message,
        "error_code": view.fault_code,
        "created": iso_time(view.ended_at),
        "attempts": [_attempt(failed) for failed in view.failed_attempts],
        **({"details": view.fault_details} if view.fault_details else {}),
    }
    return {"fault": fault}


def _attempt(failed: FailedAttempt) -> dict[str, Any]:
    where = {"host": failed.host, "zone": failed.child}
    return {
        "attempt": failed.number,
        "reason": failed.reason,
        **{name: value for name, value in where.items() if value},
    }
