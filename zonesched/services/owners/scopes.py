"""Scope of a caller: whose instances it may see."""

from __future__ import annotations

from zonesched.errors import Forbidden
from zonesched.model.caller import Caller, Role
from zonesched.store.server_list import Everybody, OfCaller, OfProject, Scope


def scope_of(zone_uuid: str, caller: Caller, *, all_tenants: bool) -> Scope:
    """Return whose instances a caller may see: a parent its own, an admin all, others their project's."""
    if caller.role is Role.PARENT:
        return OfCaller(caller.user_id)
    if caller.role is Role.ADMIN and all_tenants:
        return Everybody()
    return OfProject(zone_uuid, caller.project_id)


def boot_scope(zone_uuid: str, caller: Caller, sender_id: str) -> Scope:
    """Return whose boots a caller may name; for an admin that gives one, those of this sender.

    Several senders may have a boot of one id: a parent sends its own zone's. Raises Forbidden.
    """
    if not sender_id:
        return scope_of(zone_uuid, caller, all_tenants=True)
    if caller.role is not Role.ADMIN:
        raise Forbidden("caller: only an admin names the sender of a boot.", field="caller")
    return OfCaller(sender_id)
