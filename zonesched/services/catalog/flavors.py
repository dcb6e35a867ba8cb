"""Flavors of this zone's users. A request carries its whole flavor to other zones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from zonesched.errors import BadRequest, Conflict, NotFound
from zonesched.model.caller import Caller, Role
from zonesched.model.catalog import SEES_ALL, CatalogFlavor, SeesOfProject, Viewer
from zonesched.model.extra_specs import (
    GROUP_POLICY,
    TRAITS_ANY_OF,
    fault_of_group_policy,
    resource_class_in,
    trait_in,
)
from zonesched.model.request_spec import MAX_TEXTS_BYTES, Flavor, are_too_large
from zonesched.store import flavors as rows
from zonesched.store.store import Store, Transaction

MAX_AMOUNT = 2**31 - 1
MAX_EXTRA_SPECS = 128
MAX_LENGTH = 255
_CLASS = re.compile(r"[A-Z0-9_]{1,64}")
_TRAIT = re.compile(r"[A-Za-z0-9_]{1,255}")
_AMOUNT = re.compile(r"[0-9]{1,10}")

MAX_SHOWN = 255
"""Characters of an unknown reference that its refusal repeats."""


def viewer_of(caller: Caller) -> Viewer:
    """Return the flavors that a caller sees: an admin all, others public ones and those of their project."""
    return SEES_ALL if caller.role is Role.ADMIN else SeesOfProject(caller.project_id)


def list_flavors(store: Store, viewer: Viewer = SEES_ALL) -> list[CatalogFlavor]:
    """List all flavors that the viewer sees, by name."""
    return store.read(lambda tx: rows.read_all(tx, viewer))


def show(store: Store, flavor_id: str, viewer: Viewer = SEES_ALL) -> CatalogFlavor:
    """Show one flavor. Raises NotFound, also where the viewer does not see it."""
    return store.read(lambda tx: _existing(tx, flavor_id, viewer))


def create(store: Store, new: CatalogFlavor) -> CatalogFlavor:
    """Add a flavor. Raises BadRequest for invalid extra specs, Conflict for an id or name in use."""
    _check(new.flavor)

    def fn(tx: Transaction) -> None:
        if rows.read_one(tx, new.flavor.id) or rows.read_by_name(tx, new.flavor.name):
            raise Conflict("There is a flavor of that id or name.", code="flavor_exists", field="flavor")
        rows.insert(tx, new)

    store.write(fn)
    return new


def describe(store: Store, flavor_id: str, description: str) -> CatalogFlavor:
    """Change the description of a flavor. Raises NotFound."""

    def fn(tx: Transaction) -> CatalogFlavor:
        found = _locked(tx, flavor_id)
        rows.set_description(tx, flavor_id, description)
        return replace(found, description=description)

    return store.write(fn)


def delete(store: Store, flavor_id: str) -> None:
    """Remove a flavor. Raises NotFound."""

    def fn(tx: Transaction) -> None:
        _locked(tx, flavor_id)
        rows.delete(tx, flavor_id)

    store.write(fn)


def list_access(store: Store, flavor_id: str) -> list[str]:
    """List the projects that may use a flavor. Raises NotFound, also for a public flavor."""

    def fn(tx: Transaction) -> list[str]:
        _check_private(_existing(tx, flavor_id))
        return rows.projects(tx, flavor_id)

    return store.read(fn)


def add_access(store: Store, flavor_id: str, project_id: str) -> list[str]:
    """Let a project use a flavor; return all that may. Raises NotFound; Conflict where it may already."""

    def fn(tx: Transaction) -> list[str]:
        if _locked(tx, flavor_id).is_public or project_id in rows.projects(tx, flavor_id):
            raise Conflict("The project may use the flavor already.", code="flavor_access_exists")
        rows.add_project(tx, flavor_id, project_id)
        return rows.projects(tx, flavor_id)

    return store.write(fn)


def remove_access(store: Store, flavor_id: str, project_id: str) -> list[str]:
    """Stop a project from using a flavor; return those that still may. Raises NotFound."""

    def fn(tx: Transaction) -> list[str]:
        _check_private(_locked(tx, flavor_id))
        if not rows.remove_project(tx, flavor_id, project_id):
            raise NotFound("The project may not use the flavor.", code="flavor_access_not_found")
        return rows.projects(tx, flavor_id)

    return store.write(fn)


def set_extra_specs(store: Store, flavor_id: str, extra_specs: Mapping[str, str]) -> Mapping[str, str]:
    """Add or change extra specs, the others stay; return all. Raises NotFound, BadRequest."""

    def fn(tx: Transaction) -> Mapping[str, str]:
        found = _locked(tx, flavor_id).flavor
        changed = replace(found, extra_specs={**found.extra_specs, **extra_specs})
        _check(changed)
        rows.set_extra_specs(tx, flavor_id, changed.extra_specs)
        return changed.extra_specs

    return store.write(fn)


def show_extra_spec(store: Store, flavor_id: str, key: str, viewer: Viewer = SEES_ALL) -> str:
    """Read the value of one extra spec. Raises NotFound."""
    specs = show(store, flavor_id, viewer).flavor.extra_specs
    if key not in specs:
        raise _extra_spec_unknown()
    return specs[key]


def delete_extra_spec(store: Store, flavor_id: str, key: str) -> None:
    """Remove one extra spec. Raises NotFound."""

    def fn(tx: Transaction) -> None:
        specs = dict(_locked(tx, flavor_id).flavor.extra_specs)
        if specs.pop(key, None) is None:
            raise _extra_spec_unknown()
        rows.set_extra_specs(tx, flavor_id, specs)

    store.write(fn)


def resolve(store: Store, ref: str, viewer: Viewer = SEES_ALL, field: str = "server.flavorRef") -> Flavor:
    """Look up the flavor that a request names in this field by id, name or link.

    Raises BadRequest, also where the viewer does not see it.
    """
    found = (
        store.look_up(lambda tx: rows.read_one(tx, ref, viewer))
        or store.look_up(lambda tx: rows.read_by_name(tx, ref, viewer))
        or store.look_up(lambda tx: rows.read_one(tx, ref.rpartition("/")[2], viewer))
    )
    if found is None:
        raise BadRequest(
            f"{field} names no flavor of this zone by id, name or link: {ref[:MAX_SHOWN]!r}.",
            code="flavor_unknown",
            field=field,
        )
    return found.flavor


def _extra_spec_unknown() -> NotFound:
    return NotFound("The flavor has no such extra spec.", code="extra_spec_unknown", field="key")


def _existing(tx: Transaction, flavor_id: str, viewer: Viewer = SEES_ALL) -> CatalogFlavor:
    return _found(rows.read_one(tx, flavor_id, viewer))


def _locked(tx: Transaction, flavor_id: str) -> CatalogFlavor:
    """Read a flavor that this transaction changes. Raises NotFound."""
    return _found(rows.lock(tx, flavor_id))


def _found(flavor: CatalogFlavor | None) -> CatalogFlavor:
    if flavor is None:
        raise NotFound("There is no such flavor.", code="flavor_not_found", field="id")
    return flavor


def _check_private(flavor: CatalogFlavor) -> None:
    """Raise NotFound for a public flavor."""
    if flavor.is_public:
        message = "A public flavor is for all projects: it has no list of them."
        raise NotFound(message, code="flavor_is_public", field="id")


def _check(flavor: Flavor) -> None:
    amounts = {
        "vcpus": flavor.vcpus,
        "ram": flavor.ram_mb,
        "disk": flavor.disk_gb,
        "OS-FLV-EXT-DATA:ephemeral": flavor.ephemeral_gb,
        "swap": flavor.swap_mb,
    }
    for field, amount in amounts.items():
        if not 0 <= amount <= MAX_AMOUNT:
            raise BadRequest(f"flavor.{field} must be from 0 to {MAX_AMOUNT}.", field=f"flavor.{field}")
    if len(flavor.extra_specs) > MAX_EXTRA_SPECS:
        raise BadRequest(
            f"A flavor has at most {MAX_EXTRA_SPECS} extra specs.", code="too_long", field="extra_specs"
        )
    if are_too_large(flavor.extra_specs):
        message = f"A flavor has at most {MAX_TEXTS_BYTES} bytes of extra specs."
        raise BadRequest(message, code="too_long", field="extra_specs")
    for key, value in flavor.extra_specs.items():
        fault = _fault_of(key, value)
        if fault:
            raise BadRequest(f"extra_specs.{key} {fault}.", field=f"extra_specs.{key}")
    fault = fault_of_group_policy(flavor.extra_specs)
    if fault:
        raise BadRequest(f"extra_specs.{GROUP_POLICY} {fault}.", field=f"extra_specs.{GROUP_POLICY}")


def _fault_of(key: str, value: str) -> str:
    """Describe the fault of an extra spec; "" for a valid one."""
    if len(key) > MAX_LENGTH or len(value) > MAX_LENGTH:
        return f"is longer than {MAX_LENGTH} characters"
    name = resource_class_in(key)
    if name is not None:
        if not _CLASS.fullmatch(name):
            return "must name a resource class: 1 to 64 of A-Z, 0-9 and _"
        if not _AMOUNT.fullmatch(value) or int(value) > MAX_AMOUNT:
            return f"must be a whole number from 0 to {MAX_AMOUNT}"
    trait = trait_in(key)
    if trait is not None:
        if not _TRAIT.fullmatch(trait):
            return "must name a trait: 1 to 255 letters, digits and _"
        if value not in ("required", "forbidden"):
            return "must be required or forbidden"
    if key == TRAITS_ANY_OF:
        groups = [[name.strip() for name in group.split(",")] for group in value.split(";")]
        if not all(_TRAIT.fullmatch(name) for group in groups for name in group):
            return "must be groups of traits, as in A,B;C,D"
    return ""
