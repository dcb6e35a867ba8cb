"""Aggregates of this zone's hosts, for its admin, in OpenStack's shapes."""

from __future__ import annotations

from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.api.page import page_of
from zonesched.model.aggregate import AVAILABILITY_ZONE
from zonesched.model.openstack_time import zoneless_time
from zonesched.model.views import AggregateView
from zonesched.services.hosts import aggregates


def list_all(call: Call) -> Answer:
    """All aggregates, or a page of them: openstacksdk asks for pages, which OpenStack Nova does not have."""
    found, _ = page_of(call, aggregates.list_aggregates(call.zone.store), lambda one: str(one.number))
    return ok({"aggregates": [_json(one) for one in found]})


def show(call: Call) -> Answer:
    """One aggregate."""
    return ok({"aggregate": _json(aggregates.show(call.zone.store, call.args["id"]))})


def create(call: Call) -> Answer:
    """Add an aggregate without hosts."""
    asked = call.body.aggregate
    return ok(
        {
            "aggregate": _json(
                aggregates.create(call.zone.store, call.zone.clock, asked.name, asked.availability_zone)
            )
        }
    )


def change(call: Call) -> Answer:
    """Change an aggregate's name or availability zone."""
    asked = call.body.aggregate
    names_zone = AVAILABILITY_ZONE in asked.model_fields_set
    metadata = {AVAILABILITY_ZONE: asked.availability_zone} if names_zone else {}
    changed = aggregates.change(
        call.zone.store, call.zone.clock, call.zone.wake, call.args["id"], name=asked.name, metadata=metadata
    )
    return ok({"aggregate": _json(changed)})


def delete(call: Call) -> Answer:
    """Remove an aggregate that has no hosts."""
    aggregates.delete(call.zone.store, call.args["id"])
    return ok(None)


def act(call: Call) -> Answer:
    """Put a host in, take one out, or change metadata."""
    zone, id, asked = call.zone, call.args["id"], call.body
    if asked.add_host is not None:
        found = aggregates.add_host(zone.store, zone.wake, id, asked.add_host.host)
    elif asked.remove_host is not None:
        found = aggregates.remove_host(zone.store, zone.wake, id, asked.remove_host.host)
    else:
        found = aggregates.change(zone.store, zone.clock, zone.wake, id, metadata=asked.set_metadata.metadata)
    return ok({"aggregate": _json(found)})


def _json(found: AggregateView) -> dict[str, Any]:
    is_changed = found.updated_at != found.created_at
    return {
        "id": found.number,
        "uuid": found.uuid,
        "name": found.name,
        "availability_zone": found.metadata.get(AVAILABILITY_ZONE),
        "hosts": list(found.hosts),
        "metadata": dict(found.metadata),
        "created_at": zoneless_time(found.created_at),
        "updated_at": zoneless_time(found.updated_at) if is_changed else None,
        "deleted": False,
        "deleted_at": None,
    }
