"""Flavors, their extra specs, and the projects that may use those that are not public."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.api.page import page_of
from zonesched.errors import BadRequest
from zonesched.model.caller import Role
from zonesched.model.catalog import CatalogFlavor, SeesOfProject, Viewer
from zonesched.services.catalog import flavors

DESCRIBED, WITH_EXTRA_SPECS, SWAP_IS_NUMBER = 55, 61, 75
"""Microversions: with a description, with extra specs in lists, and a swap of 0 that is no empty text."""

_SORTED_BY: dict[str, Callable[[CatalogFlavor], Any]] = {
    "name": lambda found: found.flavor.name,
    "flavorid": lambda found: found.flavor.id,
    "id": lambda found: found.flavor.id,
    "memory_mb": lambda found: found.flavor.ram_mb,
    "ram": lambda found: found.flavor.ram_mb,
    "vcpus": lambda found: found.flavor.vcpus,
    "root_gb": lambda found: found.flavor.disk_gb,
    "disk": lambda found: found.flavor.disk_gb,
    "ephemeral_gb": lambda found: found.flavor.ephemeral_gb,
    "swap": lambda found: found.flavor.swap_mb,
    "is_public": lambda found: found.is_public,
    "rxtx_factor": lambda found: found.rxtx_factor,
    # All flavors have the same.
    "disabled": lambda found: False,
}


def list_brief(call: Call) -> Answer:
    """List flavors, with id and name."""
    return _list(call, _brief)


def list_detail(call: Call) -> Answer:
    """List flavors, in full."""
    return _list(call, _full)


def show(call: Call) -> Answer:
    """Show one flavor."""
    return ok({"flavor": _full(call, _seen(call))})


def create(call: Call) -> Answer:
    """Add a flavor."""
    new = flavors.create(call.zone.store, call.body.to_flavor(call.zone.clock.new_uuid()))
    return ok({"flavor": _full(call, new)})


def change(call: Call) -> Answer:
    """Change a flavor's description; its sizes never change."""
    description = call.body.flavor.description or ""
    return ok({"flavor": _full(call, flavors.describe(call.zone.store, call.args["id"], description))})


def delete(call: Call) -> Answer:
    """Remove a flavor; its instances stay as they are."""
    flavors.delete(call.zone.store, call.args["id"])
    return Answer(202)


def list_access(call: Call) -> Answer:
    """List the projects that may use a flavor that is not public."""
    return _access(call, flavors.list_access(call.zone.store, call.args["id"]))


def act(call: Call) -> Answer:
    """Let a project use a flavor that is not public, or stop it from that."""
    zone, id, asked = call.zone, call.args["id"], call.body
    if asked.add is not None:
        return _access(call, flavors.add_access(zone.store, id, asked.add.tenant))
    return _access(call, flavors.remove_access(zone.store, id, asked.remove.tenant))


def list_extra_specs(call: Call) -> Answer:
    """List a flavor's extra specs."""
    return ok({"extra_specs": dict(_seen(call).flavor.extra_specs)})


def set_extra_specs(call: Call) -> Answer:
    """Add or change extra specs; the others stay."""
    given = call.body.extra_specs
    flavors.set_extra_specs(call.zone.store, call.args["id"], given)
    return ok({"extra_specs": given})


def show_extra_spec(call: Call) -> Answer:
    """Show one extra spec."""
    key = call.args["key"]
    viewer = flavors.viewer_of(call.caller)
    return ok({key: flavors.show_extra_spec(call.zone.store, call.args["id"], key, viewer)})


def set_extra_spec(call: Call) -> Answer:
    """Add or change one extra spec, which URL and body name."""
    key, given = call.args["key"], call.body.model_dump()
    if list(given) != [key]:
        raise BadRequest(f"The body must have {key!r} alone, as the URL names it.", field="key")
    flavors.set_extra_specs(call.zone.store, call.args["id"], given)
    return ok(given)


def delete_extra_spec(call: Call) -> Answer:
    """Remove one extra spec."""
    flavors.delete_extra_spec(call.zone.store, call.args["id"], call.args["key"])
    return ok(None)


def _seen(call: Call) -> CatalogFlavor:
    return flavors.show(call.zone.store, call.args["id"], flavors.viewer_of(call.caller))


def _list(call: Call, json_of: Callable[[Call, CatalogFlavor], dict[str, Any]]) -> Answer:
    query = call.query
    seen = flavors.list_flavors(call.zone.store, _viewer(call))
    found = sorted(
        (one for one in seen if _is_asked(call, one)),
        key=_SORTED_BY[query.sort_key],
        reverse=query.sort_dir == "desc",
    )
    page, marker = page_of(call, found, lambda one: one.flavor.id)
    body: dict[str, Any] = {"flavors": [json_of(call, one) for one in page]}
    if marker:
        body["flavors_links"] = call.links.next_page(marker)
    return ok(body)


def _is_asked(call: Call, found: CatalogFlavor) -> bool:
    query = call.query
    # OpenStack Nova ignores is_public of others: they see what they may use.
    is_of_kind = call.caller.role is not Role.ADMIN or query.is_public is not False or not found.is_public
    return is_of_kind and found.flavor.ram_mb >= query.min_ram and found.flavor.disk_gb >= query.min_disk


def _viewer(call: Call) -> Viewer:
    """Return whose flavors are listed: an admin who asks for public ones gets those of their project, too."""
    is_public_only = call.query.is_public is True
    return SeesOfProject(call.caller.project_id) if is_public_only else flavors.viewer_of(call.caller)


def _access(call: Call, projects: Sequence[str]) -> Answer:
    lines = [{"flavor_id": call.args["id"], "tenant_id": project} for project in projects]
    return ok({"flavor_access": lines})


def _brief(call: Call, found: CatalogFlavor) -> dict[str, Any]:
    flavor = found.flavor
    brief = {"id": flavor.id, "name": flavor.name, "links": call.links.of("flavors", flavor.id)}
    return {**brief, "description": found.description or None} if call.version.has(DESCRIBED) else brief


def _full(call: Call, found: CatalogFlavor) -> dict[str, Any]:
    flavor = found.flavor
    full = {
        **_brief(call, found),
        "vcpus": flavor.vcpus,
        "ram": flavor.ram_mb,
        "disk": flavor.disk_gb,
        "swap": flavor.swap_mb if flavor.swap_mb or call.version.has(SWAP_IS_NUMBER) else "",
        "rxtx_factor": found.rxtx_factor,
        "OS-FLV-EXT-DATA:ephemeral": flavor.ephemeral_gb,
        "OS-FLV-DISABLED:disabled": False,
        "os-flavor-access:is_public": found.is_public,
    }
    return {**full, "extra_specs": dict(flavor.extra_specs)} if call.version.has(WITH_EXTRA_SPECS) else full
