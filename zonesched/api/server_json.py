"""An instance in the shape of OpenStack's Compute API."""

from __future__ import annotations

from typing import Any

from zonesched.api.links import Links, iso_time
from zonesched.model.placement import BuildState, InstanceChange, InstanceStatus
from zonesched.model.views import FailedAttempt, ServerView

RUNNING, NO_STATE = 1, 0

_VM_STATE = {
    InstanceStatus.BUILD: "building",
    InstanceStatus.ACTIVE: "active",
    InstanceStatus.ERROR: "error",
    InstanceStatus.DELETED: "deleted",
    InstanceStatus.UNKNOWN: "unknown",
}


def brief_json(view: ServerView, links: Links) -> dict[str, Any]:
    """Id, name and links."""
    return {"id": view.uuid, "name": view.name, "links": links.of("servers", view.uuid)}


def parent_json(view: ServerView) -> dict[str, Any]:
    """Status of a parent's instance, without its place (not even which instances share a host)."""
    never = InstanceChange(view.uuid, 0, view.status, BuildState.GONE)
    sent = view.sent or never
    return {
        "id": view.uuid,
        "status": view.status.value,
        "attempt": sent.attempt,
        "state": sent.state.value,
        "reason": sent.reason,
        "reservation_id": view.reservation_id,
        "created": iso_time(view.created_at),
        "updated": iso_time(view.updated_at),
    }


def server_json(view: ServerView, links: Links) -> dict[str, Any]:
    """The whole instance; the host's own name only where the view has it."""
    return {
        **brief_json(view, links),
        "status": view.status.value,
        "tenant_id": view.project_id,
        "user_id": view.user_id,
        "hostId": view.host_id_for_tenant,
        "created": iso_time(view.created_at),
        "updated": iso_time(view.updated_at),
        "flavor": _flavor(view, links),
        "image": _image(view, links),
        "progress": 100 if view.status is InstanceStatus.ACTIVE else 0,
        "reservation_id": view.reservation_id,
        "stale": view.stale,
        **_passthrough(view),
        **_extensions(view),
        **_host(view),
        **_fault(view),
    }


def _flavor(view: ServerView, links: Links) -> dict[str, Any]:
    flavor = view.flavor
    return {"id": flavor.id, "name": flavor.name, "links": links.of("flavors", flavor.id)[1:]}


def _image(view: ServerView, links: Links) -> dict[str, Any] | str:
    """OpenStack shows an empty text where no image was booted from."""
    if not view.image.id:
        return ""
    return {"id": view.image.id, "name": view.image.name, "links": links.of("images", view.image.id)[1:]}


def _passthrough(view: ServerView) -> dict[str, Any]:
    passthrough = view.passthrough
    return {
        "metadata": passthrough.get("metadata", {}),
        "key_name": passthrough.get("key_name"),
        "config_drive": str(passthrough["config_drive"]) if passthrough.get("config_drive") else "",
        "security_groups": passthrough.get("security_groups") or [{"name": "default"}],
        "description": passthrough.get("description"),
        "tags": passthrough.get("tags", []),
        "addresses": {},
        "accessIPv4": "",
        "accessIPv6": "",
    }


def _extensions(view: ServerView) -> dict[str, Any]:
    is_active = view.status is InstanceStatus.ACTIVE
    return {
        "OS-DCF:diskConfig": "MANUAL",
        "OS-EXT-AZ:availability_zone": view.availability_zone,
        "OS-EXT-STS:vm_state": _VM_STATE[view.status],
        "OS-EXT-STS:task_state": view.task_state or None,
        "OS-EXT-STS:power_state": RUNNING if is_active else NO_STATE,
        "OS-SRV-USG:launched_at": iso_time(view.updated_at)[:-1] if is_active else None,
        "OS-SRV-USG:terminated_at": None,
        "os-extended-volumes:volumes_attached": [],
    }


def _host(view: ServerView) -> dict[str, Any]:
    if view.child_name:
        return {"child_zone": view.child_name}
    if not view.host_name:
        return {}
    return {
        "OS-EXT-SRV-ATTR:host": view.host_name,
        "OS-EXT-SRV-ATTR:hypervisor_hostname": view.host_name,
        "OS-EXT-SRV-ATTR:instance_name": view.name,
    }


def _fault(view: ServerView) -> dict[str, Any]:
    if not view.fault_code:
        return {}
    fault = {
        "code": 500,
        "message": view.fault_message,
        "error_code": view.fault_code,
        "created": iso_time(view.updated_at),
        "attempts": [_attempt(failed) for failed in view.failed_attempts],
    }
    return {"fault": fault}


def _attempt(failed: FailedAttempt) -> dict[str, Any]:
    where = {"host": failed.host, "zone": failed.child}
    return {
        "attempt": failed.number,
        "reason": failed.reason,
        **{name: value for name, value in where.items() if value},
    }
