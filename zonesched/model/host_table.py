"""Table of all hosts of a zone, in columns, updated with the rows that changed.

The table decides nothing and reads nothing by itself. Changes must not be applied while another thread reads:
the owner of a table serialises access to it.

>>> from zonesched.model.capacity import Inventory
>>> table = HostTable()
>>> facts = HostFacts(id="1f", name="host-1", service_id="agent-1")
>>> table.apply([HostRow(facts, {"VCPU": Inventory(total=8)}, HostUse({"VCPU": 2}))])
>>> table.set_services_up({"agent-1": True})
>>> row = table.row_of("1f")
>>> table.capacity("VCPU")[row] - table.used("VCPU")[row]
np.float64(6.0)
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from zonesched.model.addresses import AddressColumn
from zonesched.model.aggregate import Aggregate
from zonesched.model.arrays import Bools, Floats, Hashes, Ints
from zonesched.model.capacity import Inventory
from zonesched.model.change_log import ChangeLog
from zonesched.model.class_columns import ClassColumns
from zonesched.model.dictionary_encoded import EncodedColumn
from zonesched.model.host_counters import HostCounters
from zonesched.model.host_row import HostFacts, HostRow, HostUse, SharedFacts, digest
from zonesched.model.host_uses import HostUses
from zonesched.model.hypervisor_version import version_number
from zonesched.model.id_index import NOWHERE, IdIndex
from zonesched.model.instance_columns import InstanceColumns
from zonesched.model.metric_columns import MetricColumns
from zonesched.model.name_column import NameColumn
from zonesched.model.new_instances import NewInstances
from zonesched.model.text_hash import text_hash

__all__ = ["HostFacts", "HostRow", "HostTable", "HostUse"]

_FIRST_ROOM = 64
_NO_TRAITS: frozenset[str] = frozenset()
_FACT_COLUMNS = ("_alive", "_enabled", "_forced_down", "_up", "_host_hash", "_hypervisor_versions")


class HostTable:
    """Columns by row number. A host keeps its row until it is removed; a free row is not `alive`.

    Every column reaches from row 0 to the highest row ever used; a free row holds no capacity.
    """

    def __init__(self) -> None:
        self._size = 0
        self._room = _FIRST_ROOM
        self._index = IdIndex()
        self._free_rows: list[int] = []
        self._ids: list[str] = []
        self._ids_in_order: list[str] | None = None
        self._names = NameColumn()
        self._digests: Ints = np.zeros(_FIRST_ROOM, dtype=np.int64)
        self._classes: dict[str, ClassColumns] = {}
        self._alive: Bools = np.zeros(_FIRST_ROOM, dtype=np.bool_)
        self._enabled: Bools = np.zeros(_FIRST_ROOM, dtype=np.bool_)
        self._forced_down: Bools = np.zeros(_FIRST_ROOM, dtype=np.bool_)
        self._up: Bools = np.zeros(_FIRST_ROOM, dtype=np.bool_)
        self._host_hash: Hashes = np.zeros(_FIRST_ROOM, dtype=np.uint64)
        self._hypervisor_versions: Floats = np.zeros(_FIRST_ROOM)
        self._metrics = MetricColumns(_FIRST_ROOM)
        self._services_up: Mapping[str, bool] = {}
        self._metadata_keys: frozenset[str] | None = None
        self._instances = InstanceColumns(_FIRST_ROOM)
        self.changes = ChangeLog()
        # Values that readers of this table keep from one request to the next, by name.
        self.kept: dict[str, object] = {}
        self.addresses = AddressColumn(_FIRST_ROOM)
        self.services = EncodedColumn("", "", _FIRST_ROOM)
        self.availability_zones = EncodedColumn("", "", _FIRST_ROOM)
        self.trait_sets = EncodedColumn(_NO_TRAITS, _NO_TRAITS, _FIRST_ROOM)
        self.aggregate_sets: EncodedColumn[tuple[Aggregate, ...]] = EncodedColumn((), (), _FIRST_ROOM)
        self.shared_facts = EncodedColumn(SharedFacts(), ("", "{}", _NO_TRAITS, ()), _FIRST_ROOM)

    def apply(self, changed: Iterable[HostRow], removed: Iterable[str] = ()) -> None:
        """Remove the hosts `removed` (ids; unknown ids are ignored), then add or replace `changed`.

        Of one that differs from its row by its uses alone, only these are replaced.
        """
        for host_id in removed:
            self.changes.forget()
            self._remove(host_id)
        latest = {row.facts.id: row for row in changed}
        if not latest:
            return
        digests = np.array([digest(host) for host in latest.values()], dtype=np.int64)
        rows = self._index.rows(list(latest))
        is_same = (rows != NOWHERE) & (self._digests[rows] == digests)
        others = [host for host, same in zip(latest.values(), is_same.tolist(), strict=True) if not same]
        if others:
            self._set_all(others, digests[~is_same])
        self.apply_uses(HostUses.of({host_id: host.use for host_id, host in latest.items()}))

    def _set_all(self, hosts: Sequence[HostRow], digests: Ints) -> None:
        """Add or replace these hosts, but for their uses."""
        self.changes.forget()
        rows = self._place([host.facts.id for host in hosts])
        self._digests[rows] = digests
        for number, host in zip(rows.tolist(), hosts, strict=True):
            self._set_facts(number, host.facts)
            self._metrics.set(number, host.metrics)
        self._set_inventories(rows, hosts)
        self._refresh_up(rows)

    def apply_uses(self, changed: HostUses) -> None:
        """Replace the uses of hosts whose facts and inventories have not changed; ignore unknown hosts."""
        rows = self._index.rows(changed.ids)
        here = rows != NOWHERE
        self.changes.note(rows[here].tolist())
        if here.all():
            self._set_uses(rows, changed)
        else:
            self._set_uses(rows[here], changed.among(here))

    def place(self, new: NewInstances) -> None:
        """Add new instances to the uses of their hosts; ignore unknown hosts."""
        self._change_uses(new, 1)

    def take_off(self, placed: NewInstances) -> None:
        """Undo `place`."""
        self._change_uses(placed, -1)

    def set_services_up(self, up: Mapping[str, bool]) -> None:
        """Set which agents are up, by service id, for all agents at once: an unnamed service is down."""
        self.changes.forget()
        self._services_up = dict(up)
        self._refresh_up(np.arange(self._size, dtype=np.int64))

    def __len__(self) -> int:
        """Number of hosts."""
        return len(self._index)

    @property
    def size(self) -> int:
        """Length of every column: hosts and free rows."""
        return self._size

    def row_of(self, host_id: str) -> int:
        """Return the row of a host. Raise KeyError for an unknown id."""
        row = int(self._index.rows([host_id])[0])
        if row == NOWHERE:
            raise KeyError(host_id)
        return row

    def rows_of(self, host_ids: Iterable[str]) -> Ints:
        """Return the rows of the known hosts among `host_ids`, in no particular order."""
        rows: Ints = self._index.rows(list(host_ids))
        here: Ints = rows[rows != NOWHERE]
        return here

    def rows_named(self, names: Iterable[str]) -> Ints:
        """Return the rows of the known hosts with these names, in no particular order."""
        return self._names.rows(names)

    def host_id(self, row: int) -> str:
        return self._ids[row]

    def host_ids(self, rows: Ints) -> list[str]:
        return [self._ids[row] for row in rows.tolist()]

    def ids_between(self, after: str, last: str) -> Sequence[str]:
        """Return the ids of the hosts after one id and up to another one, "" for no limit, in order."""
        ids = self._ids_in_order
        if ids is None:
            ids = self._ids_in_order = sorted(self.host_ids(np.flatnonzero(self.alive)))
        return ids[bisect_right(ids, after) : bisect_right(ids, last) if last else len(ids)]

    def name(self, row: int) -> str:
        return self._names[row]

    @property
    def resource_classes(self) -> tuple[str, ...]:
        """Every resource class that some host has or had, sorted."""
        return tuple(sorted(self._classes))

    def columns(self, resource_class: str) -> ClassColumns:
        """Return the columns of a class, at least `size` long; columns of zeros for an unknown class."""
        columns = self._classes.get(resource_class)
        return ClassColumns(self._size) if columns is None else columns

    def capacity(self, resource_class: str) -> Floats:
        return self.columns(resource_class).capacity[: self._size]

    def used(self, resource_class: str) -> Floats:
        return self.columns(resource_class).used[: self._size]

    @property
    def alive(self) -> Bools:
        """Rows that hold a host."""
        return self._alive[: self._size]

    @property
    def enabled(self) -> Bools:
        return self._enabled[: self._size]

    @property
    def up(self) -> Bools:
        """Rows of hosts whose agent is up and that no operator has forced down."""
        return self._up[: self._size]

    @property
    def host_hash(self) -> Hashes:
        return self._host_hash[: self._size]

    @property
    def owners(self) -> HostCounters:
        """Living instances by the key of their owner."""
        return self._instances.owners

    @property
    def flavors(self) -> HostCounters:
        """Living instances by the id of their flavor."""
        return self._instances.flavors

    @property
    def images(self) -> HostCounters:
        """Living instances by the key of their image's properties."""
        return self._instances.images

    @property
    def groups(self) -> HostCounters:
        """Living instances by the key of their server group."""
        return self._instances.groups

    @property
    def num_instances(self) -> Floats:
        """Number of living instances, over all owners."""
        return self._instances.num_instances[: self._size]

    @property
    def num_building(self) -> Floats:
        """Living instances that are not built yet."""
        return self._instances.num_building[: self._size]

    @property
    def failed_builds(self) -> Floats:
        """Number of builds that failed since the last successful one."""
        return self._instances.failed_builds[: self._size]

    @property
    def hypervisor_versions(self) -> Floats:
        """`version_number` of the capability `hypervisor_version`."""
        return self._hypervisor_versions[: self._size]

    def has_metadata(self, key: str) -> bool:
        """Tell whether an aggregate of some host has this key in its metadata."""
        if self._metadata_keys is None:
            aggregates = (aggregate for some in self.aggregate_sets.distinct() for aggregate in some)
            self._metadata_keys = frozenset(key for aggregate in aggregates for key in aggregate.metadata)
        return key in self._metadata_keys

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Every metric that some host reports or reported, sorted."""
        return self._metrics.names

    def metric(self, name: str) -> Floats:
        """Return the values of one metric; NaN if a host does not report it."""
        return self._metrics.named(name, self._size)

    def _place(self, host_ids: Sequence[str]) -> Ints:
        """Return the rows of these hosts; assign rows to new hosts."""
        rows = self._index.rows(host_ids)
        new = np.flatnonzero(rows == NOWHERE).tolist()
        if new:
            self._ids_in_order = None
        for position in new:
            row = rows[position] = self._free_rows.pop() if self._free_rows else self._append_row()
            self._ids[row] = host_ids[position]
            self._alive[row] = True
            self._host_hash[row] = text_hash(host_ids[position])
        self._index.add([host_ids[position] for position in new], rows[new])
        return rows

    def _append_row(self) -> int:
        if self._size == self._room:
            self._grow(2 * self._room)
        self._ids.append("")
        self._names.append()
        self._size += 1
        return self._size - 1

    def _grow(self, room: int) -> None:
        for name in (*_FACT_COLUMNS, "_digests"):
            column = getattr(self, name)
            more = np.zeros(room - self._room, dtype=column.dtype)
            setattr(self, name, np.concatenate([column, more]))
        for columns in self._classes.values():
            columns.grow(room)
        self._metrics.grow(room)
        self._instances.grow(room)
        self.addresses.grow(room)
        self.services.grow(room)
        self.availability_zones.grow(room)
        self.trait_sets.grow(room)
        self.aggregate_sets.grow(room)
        self.shared_facts.grow(room)
        self._room = room

    def _remove(self, host_id: str) -> None:
        row = self._index.remove(host_id)
        if row == NOWHERE:
            return
        self._ids_in_order = None
        nobody = HostFacts(id="", name="", enabled=False)
        self._set_facts(row, nobody)
        self._metrics.set(row, {})
        rows = np.array([row], dtype=np.int64)
        for columns in self._classes.values():
            columns.clear(rows)
        self._set_uses(rows, HostUses.of({host_id: HostUse()}))
        self._ids[row] = ""
        self._alive[row] = self._up[row] = False
        self._free_rows.append(row)

    def _set_facts(self, row: int, facts: HostFacts) -> None:
        self._names.set(row, facts.name)
        self.addresses.set(row, facts.address)
        self._enabled[row] = facts.enabled
        self._forced_down[row] = facts.forced_down
        self.services.set(row, facts.service_id, facts.service_id)
        self.availability_zones.set(row, facts.availability_zone, facts.availability_zone)
        self.trait_sets.set(row, facts.traits, facts.traits)
        text = json.dumps(dict(facts.capabilities), sort_keys=True) if facts.capabilities else "{}"
        shared = SharedFacts(facts.availability_zone, facts.capabilities, facts.traits, facts.aggregates)
        aggregates = tuple(aggregate.key for aggregate in facts.aggregates)
        self.aggregate_sets.set(row, aggregates, facts.aggregates)
        self._metadata_keys = None
        self._hypervisor_versions[row] = version_number(facts.capabilities.get("hypervisor_version"))
        key = (facts.availability_zone, text, facts.traits, aggregates)
        self.shared_facts.set(row, key, shared)

    def _set_inventories(self, rows: Ints, hosts: Sequence[HostRow]) -> None:
        inventories: defaultdict[str, tuple[list[int], list[Inventory]]] = defaultdict(lambda: ([], []))
        for row, host in zip(rows.tolist(), hosts, strict=True):
            for resource_class, inventory in host.inventories.items():
                inventories[resource_class][0].append(row)
                inventories[resource_class][1].append(inventory)
        for columns in self._classes.values():
            columns.clear(rows)
        for resource_class, (with_class, values) in inventories.items():
            if resource_class not in self._classes and len(rows) == len(self):
                self._class(resource_class).least_max_unit = np.inf
            self._class(resource_class).set_inventories(with_class, values)
        for resource_class, columns in self._classes.items():
            if len(inventories[resource_class][0]) < len(rows):
                columns.least_max_unit = 0.0

    def _set_uses(self, rows: Ints, uses: HostUses) -> None:
        self._instances.set(rows, uses)
        for resource_class in uses.used:
            self._class(resource_class)
        nothing = np.zeros(len(rows), dtype=np.int64)
        for resource_class, columns in self._classes.items():
            columns.set_used(rows, uses.used.get(resource_class, nothing))

    def _change_uses(self, new: NewInstances, sign: int) -> None:
        if len(new.copies_by_host) == 1:
            self._change_uses_of_one(new, sign)
            return
        rows = self._index.rows(list(new.copies_by_host))
        here = rows != NOWHERE
        self.changes.note(rows[here].tolist())
        rows, copies = rows[here], sign * np.array(list(new.copies_by_host.values()), dtype=np.int64)[here]
        self._instances.add(rows, copies, new)
        for resource_class, amount in new.resources.items():
            columns = self._class(resource_class)
            columns.set_used(rows, columns.used[rows] + copies * amount)

    def _change_uses_of_one(self, new: NewInstances, sign: int) -> None:
        """Variant of `_change_uses` for instances on one host, several times as fast."""
        ((host_id, copies),) = new.copies_by_host.items()
        row = self._index.row(host_id)
        if row == NOWHERE:
            return
        self.changes.note([row])
        self._instances.add_on(row, sign * copies, new)
        for resource_class, amount in new.resources.items():
            self._class(resource_class).add_used(row, sign * copies * amount)

    def _class(self, resource_class: str) -> ClassColumns:
        columns = self._classes.get(resource_class)
        if columns is None:
            columns = self._classes[resource_class] = ClassColumns(self._room)
        return columns

    def _refresh_up(self, rows: Ints) -> None:
        agents = self.services.flags(rows, lambda service: bool(self._services_up.get(service, False)))
        self._up[rows] = agents & ~self._forced_down[rows]
