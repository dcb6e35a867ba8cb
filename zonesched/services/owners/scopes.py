"""Scope of a caller: whose instances it may see."""

from __future__ import annotations

from zonesched.model.caller import Caller, Role
from zonesched.store.server_list import Everybody, OfCaller, OfProject, Scope


def scope_of(zone_uuid: str, caller: Caller, *, all_tenants: bool) -> Scope:
    """Return whose instances a caller may see: a parent its own, an admin all, others their project's."""
    if caller.role is Role.PARENT:
        return OfCaller(caller.user_id)
    if caller.role is Role.ADMIN and all_tenants:
        return Everybody()
    return OfProject(zone_uuid, caller.project_id)
