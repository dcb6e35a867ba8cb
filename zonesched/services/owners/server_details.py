"""Name, description, metadata and tags of an instance: its owner's alone, kept where the owner is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from zonesched.errors import Conflict, NotFound
from zonesched.model.caller import Caller
from zonesched.model.placement import InstanceStatus
from zonesched.services.owners.actions import check_not_locked
from zonesched.services.owners.scopes import scope_of
from zonesched.services.zone import Zone
from zonesched.store import built_times, identity, instances, locks, server_list
from zonesched.store.instances import Instance
from zonesched.store.store import Transaction


@dataclass(frozen=True)
class Details:
    """An instance's name, what else its owner keeps with it, by the names of the API, and its project."""

    name: str
    passthrough: Mapping[str, Any]
    project_id: str

    @classmethod
    def of(cls, instance: Instance) -> Details:
        """Return the details of an instance."""
        return cls(instance.name, instance.passthrough, instance.project_id)


def read(zone: Zone, caller: Caller, uuid: str) -> Details:
    """Read the details of an instance that the caller may see. Raises NotFound."""
    scope = scope_of(zone.uuid, caller, all_tenants=True)

    def fn(tx: Transaction) -> Details:
        found = server_list.find(tx, scope, uuid)
        if not found or found[0].status is InstanceStatus.DELETED:
            raise _unknown()
        return Details.of(found[0])

    return zone.store.read(fn)


def change(
    zone: Zone,
    caller: Caller,
    uuid: str,
    changed: Callable[[Details], Details],
    *,
    heeds_lock: bool = False,
) -> Details:
    """Replace the details of an instance by `changed` of the present ones; return the new ones.

    `changed` may raise a refusal, and is called again after a conflict. `heeds_lock`: a locked instance
    refuses it to all but admins. Raises NotFound, and Conflict for an instance of a parent, whose owner is in
    another zone.
    """
    scope = scope_of(zone.uuid, caller, all_tenants=True)

    def fn(tx: Transaction) -> Details:
        locks.instances(tx, [uuid])
        found = server_list.find(tx, scope, uuid)
        if not found or found[0].status is InstanceStatus.DELETED:
            raise _unknown()
        [instance] = found
        if instance.caller_id != zone.uuid:
            message = "The instance belongs to a parent: its owner changes it there."
            raise Conflict(message, code="instance_of_parent")
        if heeds_lock:
            check_not_locked(tx, caller, uuid)
        before = Details.of(instance)
        after = changed(before)
        if after != before:
            change, now = identity.next_change(tx), zone.clock.now()
            built_times.note(tx, [uuid])
            instances.set_details(tx, change, uuid, after.name, after.passthrough, now)
        return after

    return zone.store.write(fn)


def _unknown() -> NotFound:
    return NotFound("There is no such instance.", code="instance_not_found")
