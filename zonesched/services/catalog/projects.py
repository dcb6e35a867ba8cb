"""Projects of this zone: it keeps no list of them, so they are those that its users and quotas name."""

from __future__ import annotations

from zonesched.model.caller import Caller, Role
from zonesched.store import quota_overrides, users
from zonesched.store.store import Store, Transaction


def list_projects(store: Store, caller: Caller) -> list[str]:
    """List the projects that the caller may see, by id: an admin all of them, others their own."""
    if caller.role is not Role.ADMIN:
        return [caller.project_id]

    def fn(tx: Transaction) -> list[str]:
        known = users.read_all(tx)
        parents = {user.id for user in known if user.role is Role.PARENT}
        own = {user.project_id for user in known}
        limited = set(quota_overrides.read_all(tx)) - parents
        return sorted((own | limited | {caller.project_id}) - {""})

    return store.read(fn)
