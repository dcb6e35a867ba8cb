"""Operator's settings of one host: ratio and reserved amount by class, in place of the agent's report."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from zonesched.errors import BadRequest
from zonesched.model.capacity import NOTHING_SET, InventorySetting
from zonesched.model.views import HypervisorView, SettingChange
from zonesched.services.hosts import hosts
from zonesched.services.zone import Zone
from zonesched.store import capacities, inventory_settings, locks
from zonesched.store.store import Transaction


def change(zone: Zone, host_id: str, changes: Mapping[str, SettingChange]) -> HypervisorView:
    """Set or reset settings by resource class; return the changed host.

    Raises NotFound, and BadRequest for a class that the host does not have and that has no settings.
    """
    zone.store.write(lambda tx: _change(tx, host_id, changes))
    zone.wake.host_readers()
    return hosts.show_hypervisor(zone, host_id)


def _change(tx: Transaction, host_id: str, changes: Mapping[str, SettingChange]) -> None:
    locks.hosts(tx, [host_id])
    hosts.existing(tx, host_id)
    known = capacities.settings(tx, [host_id]).get(host_id, {})
    classes = known.keys() | {row.resource_class for row in capacities.read(tx, [host_id])}
    for name in changes:
        if name not in classes:
            raise BadRequest(
                f"The host has no {name}; it has {', '.join(sorted(classes)) or 'nothing'}.",
                code="resource_class_unknown",
                field=f"hypervisor.resources.{name}",
            )
    changed = {name: _changed(known.get(name, NOTHING_SET), wanted) for name, wanted in changes.items()}
    inventory_settings.replace(tx, host_id, {**known, **changed})


def _changed(setting: InventorySetting, wanted: SettingChange) -> InventorySetting:
    return dataclasses.replace(setting, **{name: getattr(wanted.values, name) for name in wanted.named})
