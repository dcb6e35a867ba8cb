"""Hosts and agents as services, for this zone's admin, in OpenStack's shapes, its older calls included."""

from __future__ import annotations

from typing import Any

from zonesched.api.answer import Answer, accepted, no_content, ok
from zonesched.api.call import Call
from zonesched.api.page import page_of
from zonesched.model.openstack_time import zoneless_time
from zonesched.model.views import ServiceChange, ServiceView
from zonesched.services.hosts import evacuation, services


def list_all(call: Call) -> Answer:
    """List agents and hosts as services, or a page of them as for aggregates."""
    every = services.list_services(call.zone, call.query.host, call.query.binary)
    found, _ = page_of(call, every, lambda service: service.id)
    return ok({"services": [_json(service) for service in found]})


def change(call: Call) -> Answer:
    """Enable or disable a host, or force a host or an agent down."""
    return ok({"service": _json(services.change(call.zone, call.args["id"], call.body.to_change()))})


def remove(call: Call) -> Answer:
    """Remove a host without instances, or an agent without hosts."""
    services.remove(call.zone, call.args["id"])
    return no_content()


def act(call: Call) -> Answer:
    """Evacuate a host that is down: all its instances are placed anew."""
    fenced = call.body.evacuate.fenced
    count, moving = evacuation.evacuate_host(call.zone, call.caller.user_id, call.args["id"], fenced=fenced)
    return accepted({"evacuated": count, "moving": moving})


def enable(call: Call) -> Answer:
    """Enable a host by its name."""
    return _change_named(call, ServiceChange(is_enabled=True))


def disable(call: Call) -> Answer:
    """Disable a host by its name."""
    return _change_named(call, ServiceChange(is_enabled=False))


def disable_why(call: Call) -> Answer:
    """Disable a host by its name, with a reason."""
    return _change_named(call, ServiceChange(is_enabled=False, disabled_reason=call.body.disabled_reason))


def force_down(call: Call) -> Answer:
    """Force a host or an agent down by its name, or end that."""
    return _change_named(call, ServiceChange(forced_down=call.body.forced_down))


def _change_named(call: Call, wanted: ServiceChange) -> Answer:
    changed = services.change_named(call.zone, call.body.host, call.body.binary, wanted)
    return ok({"service": _json(changed)})


def _json(service: ServiceView) -> dict[str, Any]:
    return {
        "id": service.id,
        "binary": service.binary.value,
        "host": service.host,
        "zone": service.availability_zone,
        "status": "enabled" if service.is_enabled else "disabled",
        "disabled_reason": service.disabled_reason or None,
        "state": "up" if service.is_up else "down",
        "forced_down": service.forced_down,
        "updated_at": zoneless_time(service.seen_at),
        "topic": service.topic,
        "report_count": service.report_count,
    }
