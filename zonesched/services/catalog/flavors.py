"""Flavors of this zone's users. A request carries its whole flavor to other zones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from zonesched.errors import BadRequest, Conflict, NotFound
from zonesched.model.request_spec import RESOURCES_SCOPE, TRAIT_SCOPE, TRAITS_ANY_OF, Flavor
from zonesched.services.zone import Zone
from zonesched.store import flavors as rows
from zonesched.store.store import Transaction

MAX_AMOUNT = 2**31 - 1
MAX_EXTRA_SPECS = 128
MAX_LENGTH = 255
_CLASS = re.compile(r"[A-Z0-9_]{1,64}")
_TRAIT = re.compile(r"[A-Za-z0-9_]{1,255}")
_AMOUNT = re.compile(r"[0-9]{1,10}")

MAX_SHOWN = 255
"""Characters of an unknown reference that its refusal repeats."""


def list_flavors(zone: Zone) -> list[Flavor]:
    """List all flavors, by name."""
    return zone.store.read(rows.read_all)


def show(zone: Zone, flavor_id: str) -> Flavor:
    """Show one flavor. Raises NotFound."""
    return zone.store.read(lambda tx: _existing(tx, flavor_id))


def create(zone: Zone, flavor: Flavor) -> Flavor:
    """Add a flavor. Raises BadRequest for invalid extra specs, Conflict for an id or name in use."""
    _check(flavor)

    def fn(tx: Transaction) -> None:
        if rows.read_one(tx, flavor.id) or rows.read_by_name(tx, flavor.name):
            raise Conflict("There is a flavor of that id or name.", code="flavor_exists", field="flavor")
        rows.insert(tx, flavor)

    zone.store.write(fn)
    return flavor


def delete(zone: Zone, flavor_id: str) -> None:
    """Remove a flavor. Raises NotFound."""

    def fn(tx: Transaction) -> None:
        _existing(tx, flavor_id)
        rows.delete(tx, flavor_id)

    zone.store.write(fn)


def set_extra_specs(zone: Zone, flavor_id: str, extra_specs: Mapping[str, str]) -> Flavor:
    """Add or change extra specs, the others stay. Raises NotFound, BadRequest."""

    def fn(tx: Transaction) -> Flavor:
        found = _existing(tx, flavor_id)
        changed = replace(found, extra_specs={**found.extra_specs, **extra_specs})
        _check(changed)
        rows.set_extra_specs(tx, flavor_id, changed.extra_specs)
        return changed

    return zone.store.write(fn)


def show_extra_spec(zone: Zone, flavor_id: str, key: str) -> str:
    """Read the value of one extra spec. Raises NotFound."""
    specs = show(zone, flavor_id).extra_specs
    if key not in specs:
        raise _extra_spec_unknown()
    return specs[key]


def delete_extra_spec(zone: Zone, flavor_id: str, key: str) -> None:
    """Remove one extra spec. Raises NotFound."""

    def fn(tx: Transaction) -> None:
        specs = dict(_existing(tx, flavor_id).extra_specs)
        if specs.pop(key, None) is None:
            raise _extra_spec_unknown()
        rows.set_extra_specs(tx, flavor_id, specs)

    zone.store.write(fn)


def resolve(zone: Zone, ref: str) -> Flavor:
    """Look up the flavor that a request names by id, name or link. Raises BadRequest."""

    def fn(tx: Transaction) -> Flavor | None:
        return (
            rows.read_one(tx, ref) or rows.read_by_name(tx, ref) or rows.read_one(tx, ref.rpartition("/")[2])
        )

    found = zone.store.read(fn)
    if found is None:
        raise BadRequest(
            f"server.flavorRef names no flavor of this zone by id, name or link: {ref[:MAX_SHOWN]!r}.",
            code="flavor_unknown",
            field="server.flavorRef",
        )
    return found


def _extra_spec_unknown() -> NotFound:
    return NotFound("The flavor has no such extra spec.", code="extra_spec_unknown", field="key")


def _existing(tx: Transaction, flavor_id: str) -> Flavor:
    found = rows.read_one(tx, flavor_id)
    if found is None:
        raise NotFound("There is no such flavor.", code="flavor_not_found", field="id")
    return found


def _check(flavor: Flavor) -> None:
    for field, amount in (("vcpus", flavor.vcpus), ("ram", flavor.ram_mb), ("disk", flavor.disk_gb)):
        if not 0 <= amount <= MAX_AMOUNT:
            raise BadRequest(f"flavor.{field} must be from 0 to {MAX_AMOUNT}.", field=f"flavor.{field}")
    if len(flavor.extra_specs) > MAX_EXTRA_SPECS:
        raise BadRequest(
            f"A flavor has at most {MAX_EXTRA_SPECS} extra specs.", code="too_long", field="extra_specs"
        )
    for key, value in flavor.extra_specs.items():
        fault = _fault_of(key, value)
        if fault:
            raise BadRequest(f"extra_specs.{key} {fault}.", field=f"extra_specs.{key}")


def _fault_of(key: str, value: str) -> str:
    """Describe the fault of an extra spec; "" for a valid one."""
    if len(key) > MAX_LENGTH or len(value) > MAX_LENGTH:
        return f"is longer than {MAX_LENGTH} characters"
    if key.startswith(RESOURCES_SCOPE):
        if not _CLASS.fullmatch(key.removeprefix(RESOURCES_SCOPE)):
            return "must name a resource class: 1 to 64 of A-Z, 0-9 and _"
        if not _AMOUNT.fullmatch(value) or int(value) > MAX_AMOUNT:
            return f"must be a whole number from 0 to {MAX_AMOUNT}"
    if key.startswith(TRAIT_SCOPE):
        if not _TRAIT.fullmatch(key.removeprefix(TRAIT_SCOPE)):
            return "must name a trait: 1 to 255 letters, digits and _"
        if value not in ("required", "forbidden"):
            return "must be required or forbidden"
    if key == TRAITS_ANY_OF:
        groups = [[name.strip() for name in group.split(",")] for group in value.split(";")]
        if not all(_TRAIT.fullmatch(name) for group in groups for name in group):
            return "must be groups of traits, as in A,B;C,D"
    return ""
