"""Flavors and their extra specs."""

from __future__ import annotations

from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.api.links import Links
from zonesched.model.request_spec import Flavor
from zonesched.services.catalog import flavors


def list_brief(call: Call) -> Answer:
    """All flavors, with id and name."""
    found = flavors.list_flavors(call.zone)
    return ok({"flavors": [_brief(flavor, call.links) for flavor in found]})


def list_detail(call: Call) -> Answer:
    """All flavors, in full."""
    return ok({"flavors": [_full(flavor, call.links) for flavor in flavors.list_flavors(call.zone)]})


def show(call: Call) -> Answer:
    """One flavor."""
    return ok({"flavor": _full(flavors.show(call.zone, call.args["id"]), call.links)})


def create(call: Call) -> Answer:
    """Add a flavor."""
    flavor = flavors.create(call.zone, call.body.to_flavor(call.zone.clock.new_uuid()))
    return ok({"flavor": _full(flavor, call.links)})


def delete(call: Call) -> Answer:
    """Remove a flavor; its instances stay as they are."""
    flavors.delete(call.zone, call.args["id"])
    return Answer(202)


def list_extra_specs(call: Call) -> Answer:
    """A flavor's extra specs."""
    return ok({"extra_specs": dict(flavors.show(call.zone, call.args["id"]).extra_specs)})


def set_extra_specs(call: Call) -> Answer:
    """Add or change extra specs; the others stay."""
    given = call.body.extra_specs
    flavors.set_extra_specs(call.zone, call.args["id"], given)
    return ok({"extra_specs": given})


def show_extra_spec(call: Call) -> Answer:
    """One extra spec."""
    key = call.args["key"]
    return ok({key: flavors.show_extra_spec(call.zone, call.args["id"], key)})


def delete_extra_spec(call: Call) -> Answer:
    """Remove one extra spec."""
    flavors.delete_extra_spec(call.zone, call.args["id"], call.args["key"])
    return ok(None)


def _brief(flavor: Flavor, links: Links) -> dict[str, Any]:
    return {"id": flavor.id, "name": flavor.name, "links": links.of("flavors", flavor.id)}


def _full(flavor: Flavor, links: Links) -> dict[str, Any]:
    return {
        **_brief(flavor, links),
        "vcpus": flavor.vcpus,
        "ram": flavor.ram_mb,
        "disk": flavor.disk_gb,
        "swap": 0,
        "rxtx_factor": 1.0,
        "OS-FLV-EXT-DATA:ephemeral": 0,
        "OS-FLV-DISABLED:disabled": False,
        "os-flavor-access:is_public": True,
        "extra_specs": dict(flavor.extra_specs),
    }
