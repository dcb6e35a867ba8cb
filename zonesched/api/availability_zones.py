"""Availability zones, in OpenStack's shapes."""

from __future__ import annotations

from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.model.openstack_time import zoneless_time
from zonesched.model.views import ServiceView, ZoneHosts
from zonesched.services.hosts import availability_zones


def list_brief(call: Call) -> Answer:
    """List the availability zones that a boot may name."""
    return ok({"availabilityZoneInfo": [_json(found, None) for found in availability_zones.names(call.zone)]})


def list_detail(call: Call) -> Answer:
    """List the availability zones with this zone's local hosts in each."""
    found = availability_zones.with_hosts(call.zone)
    return ok({"availabilityZoneInfo": [_json(zone, _hosts(zone)) for zone in found]})


def _json(zone: ZoneHosts, hosts: dict[str, Any] | None) -> dict[str, Any]:
    return {"zoneName": zone.name, "zoneState": {"available": zone.takes}, "hosts": hosts}


def _hosts(zone: ZoneHosts) -> dict[str, Any]:
    return {service.host: {service.binary.value: _state(service)} for service in zone.hosts}


def _state(service: ServiceView) -> dict[str, Any]:
    return {
        "active": service.is_enabled,
        "available": service.is_up,
        "updated_at": zoneless_time(service.seen_at),
    }
