"""Types, in the OpenAPI description, of the members that the objects of answers have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OBJECT = {"type": "object"}
_OBJECTS = {"type": "array", "items": _OBJECT}

# fmt: off
MEMBERS: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(
        ("zones", "servers", "builds", "reservations", "server_groups", "flavors", "flavor_access",
         "images", "keypairs", "hypervisors", "aggregates", "services", "migrations", "users",
         "instanceActions", "interfaceAttachments", "volumeAttachments", "shares", "security_groups",
         "availabilityZoneInfo", "hosts", "events", "extensions", "inconsistencies", "tenant_usages"),
        _OBJECTS,
    ),
    **dict.fromkeys(
        ("zone", "server", "reservation", "dry_run", "server_group", "flavor", "image", "keypair", "user",
         "hypervisor", "hypervisor_statistics", "aggregate", "service", "migration", "instanceAction",
         "metadata", "meta", "addresses", "extra_specs", "limits", "quota_set", "quota_class_set",
         "tenant_usage", "instance_usage_audit_log", "instance_usage_audit_logs", "extension",
         "project"),
        _OBJECT,
    ),
    "tags": {"type": "array", "items": {"type": "string"}},
    "reservation_id": {"type": "string"},
}
# fmt: on
"""The schema of each member whose type is the same in all answers that have it."""


def object_of(names: list[str]) -> Mapping[str, Any]:
    """Return the schema of an object that has these members, and perhaps others."""
    typed = {name: MEMBERS[name] for name in names if name in MEMBERS}
    return {
        "type": "object",
        **({"required": names} if names else {}),
        **({"properties": typed} if typed else {}),
    }
