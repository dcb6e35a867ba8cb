"""Aggregates of this zone's hosts: metadata that its operator sets for many hosts at once.

Metadata is free text that filters and weighers read. The zone itself reads `availability_zone` and the
allocation ratios (`cpu_allocation_ratio` and its like); both take effect at once for every host in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zonesched.errors import BadRequest, Conflict, NotFound
from zonesched.model.aggregate import AVAILABILITY_ZONE
from zonesched.model.aggregate_ratios import MAX_RATIO, unusable_ratios
from zonesched.model.views import AggregateView
from zonesched.seams import Clock
from zonesched.services.state.wake import Wake
from zonesched.store import aggregates as rows
from zonesched.store import hosts, identity, locks
from zonesched.store.aggregates import StoredAggregate
from zonesched.store.store import Store, Transaction

MAX_METADATA = 128


def list_aggregates(store: Store) -> list[AggregateView]:
    """List all aggregates, oldest first."""
    found, names = store.read(lambda tx: (rows.read_all(tx), rows.host_names(tx)))
    return [_view(aggregate, names.get(aggregate.id, ())) for aggregate in found]


def show(store: Store, number: str) -> AggregateView:
    """Show one aggregate. Raises NotFound."""
    return store.read(lambda tx: _shown(tx, _existing(tx, number).id))


def create(store: Store, clock: Clock, name: str, availability_zone: str | None) -> AggregateView:
    """Add an aggregate without hosts. Raises Conflict for a name in use."""
    now, new_id = clock.now(), clock.new_uuid()
    metadata = {AVAILABILITY_ZONE: availability_zone} if availability_zone else {}

    def fn(tx: Transaction) -> AggregateView:
        locks.aggregates(tx)
        _check_name(tx, name)
        aggregate = StoredAggregate(
            new_id, identity.next_aggregate_number(tx), name, metadata, created_at=now, updated_at=now
        )
        rows.insert(tx, aggregate)
        return _view(aggregate, ())

    return store.write(fn)


def change(
    store: Store,
    clock: Clock,
    wake: Wake,
    number: str,
    *,
    name: str = "",
    metadata: Mapping[str, str | None] | None = None,
) -> AggregateView:
    """Set the name ("" keeps it), and add, change or (with None) remove metadata; the rest stays.

    Raises NotFound, BadRequest for too much metadata and for an allocation ratio that is none, Conflict for a
    name in use and for an availability zone that contradicts another aggregate's.
    """
    wanted = dict(metadata or {})
    for key in unusable_ratios({key: value for key, value in wanted.items() if value is not None}):
        field = f"set_metadata.metadata.{key}"
        raise BadRequest(f"{field}: must be a number from 0 to {MAX_RATIO:.0f}, such as 1.5.", field=field)
    view = store.write(lambda tx: _change(clock, tx, number, name, wanted))
    wake.host_readers()
    return view


def delete(store: Store, number: str) -> None:
    """Remove an aggregate. Raises NotFound, BadRequest while it has hosts."""

    def fn(tx: Transaction) -> None:
        locks.aggregates(tx)
        found = _existing(tx, number)
        if rows.hosts_of(tx, found.id):
            raise BadRequest(
                "The aggregate has hosts: remove them first.", code="aggregate_not_empty", field="id"
            )
        rows.delete(tx, found.id)

    store.write(fn)


def add_host(store: Store, wake: Wake, number: str, host_name: str) -> AggregateView:
    """Put a host into an aggregate.

    Raises NotFound, Conflict for a host that is in it or in another zone's aggregate.
    """

    def fn(tx: Transaction) -> AggregateView:
        locks.aggregates(tx)
        found, host_id = _existing(tx, number), _existing_host(tx, host_name)
        if host_id in rows.hosts_of(tx, found.id):
            raise Conflict(
                f"Host {host_name} is in the aggregate already.",
                code="host_in_aggregate",
                field="add_host.host",
            )
        _check_availability_zone(tx, found, {host_id: host_name})
        rows.add_host(tx, found.id, host_id)
        return _shown(tx, found.id)

    view = store.write(fn)
    wake.host_readers()
    return view


def remove_host(store: Store, wake: Wake, number: str, host_name: str) -> AggregateView:
    """Remove a host from an aggregate. Raises NotFound, also for a host that is not in it."""

    def fn(tx: Transaction) -> AggregateView:
        locks.aggregates(tx)
        found, host_id = _existing(tx, number), _existing_host(tx, host_name)
        if host_id not in rows.hosts_of(tx, found.id):
            raise NotFound(
                f"Host {host_name} is not in the aggregate.",
                code="host_not_in_aggregate",
                field="remove_host.host",
            )
        rows.remove_host(tx, found.id, host_id)
        return _shown(tx, found.id)

    view = store.write(fn)
    wake.host_readers()
    return view


def _change(
    clock: Clock, tx: Transaction, number: str, name: str, metadata: Mapping[str, str | None]
) -> AggregateView:
    locks.aggregates(tx)
    found = _existing(tx, number)
    both = {**found.metadata, **metadata}
    changed = replace(
        found,
        name=name or found.name,
        metadata={key: value for key, value in both.items() if value is not None},
        updated_at=clock.now(),
    )
    if len(changed.metadata) > MAX_METADATA:
        raise BadRequest(
            f"An aggregate has at most {MAX_METADATA} metadata items.", code="too_long", field="metadata"
        )
    if changed.name != found.name:
        _check_name(tx, changed.name)
    _check_availability_zone(tx, changed, rows.hosts_of(tx, found.id))
    rows.change(tx, changed)
    return _shown(tx, changed.id)


def _existing(tx: Transaction, number: str) -> StoredAggregate:
    # No row has a number with more digits.
    found = (
        rows.read_one(tx, int(number)) if number.isascii() and number.isdigit() and len(number) < 10 else None
    )
    if found is None:
        raise NotFound("There is no such aggregate.", code="aggregate_not_found", field="id")
    return found


def _existing_host(tx: Transaction, name: str) -> str:
    """Look up a host, and lock it. Raises NotFound."""
    if (found := hosts.id_of(tx, name)) is not None:
        locks.hosts(tx, [found])
    host_id = hosts.id_of(tx, name)
    if host_id is None:
        raise NotFound(f"There is no host {name} in this zone.", code="host_not_found", field="host")
    return host_id


def _check_name(tx: Transaction, name: str) -> None:
    if rows.read_by_name(tx, name):
        raise Conflict("There is an aggregate of that name.", code="aggregate_exists", field="name")


def _check_availability_zone(
    tx: Transaction, aggregate: StoredAggregate, host_names: Mapping[str, str]
) -> None:
    """Raise Conflict if aggregates would put a host into two availability zones."""
    own = aggregate.metadata.get(AVAILABILITY_ZONE)
    if not own:
        return
    for host_id, others in rows.with_hosts(tx, list(host_names)).items():
        for other in others:
            theirs = other.metadata.get(AVAILABILITY_ZONE)
            if other.id != aggregate.id and theirs and theirs != own:
                raise Conflict(
                    f"Host {host_names[host_id]} is in the availability zone {theirs} by {other.name}.",
                    code="availability_zone_conflict",
                    field=AVAILABILITY_ZONE,
                )


def _shown(tx: Transaction, aggregate_id: str) -> AggregateView:
    found = next(aggregate for aggregate in rows.read_all(tx) if aggregate.id == aggregate_id)
    return _view(found, list(rows.hosts_of(tx, aggregate_id).values()))


def _view(aggregate: StoredAggregate, host_names: Sequence[str]) -> AggregateView:
    return AggregateView(
        uuid=aggregate.id,
        number=aggregate.number,
        name=aggregate.name,
        metadata=aggregate.metadata,
        hosts=tuple(host_names),
        created_at=aggregate.created_at,
        updated_at=aggregate.updated_at,
    )
