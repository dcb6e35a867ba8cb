"""Row locks in one order for all transactions, so that they do not deadlock.

    a recovery, the set of children -> a child, an agent -> boots -> a parent -> server groups -> hosts

The counts of boots under way, of all projects and of one, and of a project's instances come before all of
these, in this order; the count of a parent's holds comes before the parent.

Rows of one kind are locked in order of their keys.

A transaction that moves an instance first locks its boot; one that changes a host or its use locks the host.
All locks are taken before the first write, so that rows read afterwards stay unchanged until it ends. They
are sent ahead: the next statement that waits for an answer waits for them. SQLite has one writer at a time
and needs no locks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import CLAIMING
from zonesched.store import tables as t
from zonesched.store.prepared import List, Prepared, is_in, one_of

_boot, _instance, _place, _host = t.reservations.c, t.instances.c, t.placements.c, t.hosts.c
_child = t.children.c
_OF_INSTANCES = sa.select(_instance.reservation_id, _instance.caller_id).where(one_of(_instance.uuid, "ids"))
# Does not block readers of a child's changes; blocks its removal.
_CHILDREN = Prepared(
    sa.select(_child.id)
    .where(one_of(_child.id, "ids"))
    .order_by(_child.id)
    .with_for_update(read=True, key_share=True)
)
_KEY = sa.tuple_(_boot.id, _boot.caller_id)
_KEYS = sa.func.unnest(sa.bindparam("ids", type_=List()), sa.bindparam("callers", type_=List()))
_OF_KEYS = sa.select(_KEYS.table_valued("id", "caller").render_derived())
_OF_BOOTS = sa.select(_boot.id).order_by(_boot.id, _boot.caller_id).with_for_update()
_BOOTS = Prepared(_OF_BOOTS.where(_KEY.in_(_OF_KEYS)))
_BOOTS_OF_INSTANCES = Prepared(_OF_BOOTS.where(_KEY.in_(_OF_INSTANCES)))
_GROUPS = Prepared(
    sa.select(_instance.caller_id, _instance.group_id)
    .where(one_of(_instance.uuid, "ids"), _instance.group_id != "")
    .distinct()
)
_CLAIMED = sa.select(_place.host_id).where(one_of(_place.uuid, "ids"), is_in(_place.state, CLAIMING))
# Does not block writes of rows that refer to a host.
_OF_HOSTS = sa.select(_host.id).order_by(_host.id).with_for_update(key_share=True)
_HOSTS = Prepared(_OF_HOSTS.where(one_of(_host.id, "ids")))
_CLAIMED_HOSTS = Prepared(_OF_HOSTS.where(sa.or_(_host.id.in_(_CLAIMED), one_of(_host.id, "more"))))
_promise = t.fencing_promises.c
_SERVICES = sa.select(_host.service_id)
_OF_INSTANCES_HOSTS = _SERVICES.join(t.placements, _place.host_id == _host.id)
_PROMISES = Prepared(
    sa.select(_promise.service_id)
    .where(
        sa.or_(
            _promise.service_id.in_(_SERVICES.where(one_of(_host.id, "hosts"))),
            _promise.service_id.in_(_OF_INSTANCES_HOSTS.where(one_of(_place.uuid, "uuids"))),
        )
    )
    .order_by(_promise.service_id)
    .with_for_update(key_share=True)
)
_NUMBERS = sa.func.unnest(sa.bindparam("numbers", type_=List(sa.BigInteger))).column_valued("number")
_SHARED = Prepared(
    sa.select(
        sa.func.pg_advisory_xact_lock_shared(sa.bindparam("number", type_=sa.BigInteger)).label("locked")
    )
)
_ADVISORY = Prepared(sa.select(sa.func.pg_advisory_xact_lock(_NUMBERS).label("locked")))


def children(tx: Connection, child_ids: Iterable[str]) -> None:
    """Lock children against removal until the transaction ends."""
    ids = sorted(set(child_ids))
    if ids and are_needed(tx):
        _CHILDREN.send(tx, ids=ids)


def which_zones(tx: Connection) -> None:
    """Lock the set of zones that are children."""
    if are_needed(tx):
        _advisory(tx, [("children",)])


def instances(tx: Connection, uuids: Sequence[str], more_hosts: Sequence[str] = ()) -> None:
    """Lock the boots of these instances, their server groups, and the hosts on which they have claims.

    `more_hosts`: other hosts, on which they may be placed.
    """
    if uuids and are_needed(tx):
        _BOOTS_OF_INSTANCES.send(tx, ids=uuids)
        _advisory(tx, [("group", *key) for key in _GROUPS.all(tx, ids=uuids)])
        _CLAIMED_HOSTS.send(tx, ids=uuids, more=more_hosts)


def promises(tx: Connection, *, host_ids: Sequence[str] = (), uuids: Sequence[str] = ()) -> None:
    """Lock the fencing promises of the agents of these hosts, or of those with places of these instances.

    An agent that comes back renews its promise before it asks what to run: with an evacuation under way, it
    waits for that.
    """
    if are_needed(tx):
        _PROMISES.send(tx, hosts=list(host_ids), uuids=list(uuids))


def boots(tx: Connection, keys: Sequence[tuple[str, str]]) -> None:
    """Lock boots by (reservation id, caller id)."""
    if keys and are_needed(tx):
        ids, callers = zip(*keys, strict=True)
        _BOOTS.send(tx, ids=ids, callers=callers)


def call(tx: Connection, caller_id: str, reservation_id: str) -> None:
    """Lock one of a parent's boots, which need not have a row yet."""
    if are_needed(tx):
        _advisory(tx, [("call", caller_id, reservation_id)])
        boots(tx, [(reservation_id, caller_id)])


def parent(tx: Connection, caller_id: str) -> None:
    """Lock the number of a parent's instances."""
    if are_needed(tx):
        _advisory(tx, [("parent", caller_id)])


def add_to_count(tx: Connection, *name: str) -> None:
    """Wait for whoever counts what has this name; hold off the next count until this transaction ends."""
    _SHARED.first(tx, number=_number(name))


def count(tx: Connection, *name: str) -> None:
    """Wait for whoever adds to what has this name; hold off others until this transaction ends."""
    _ADVISORY.all(tx, numbers=[_number(name)])


def tombstones(tx: Connection, caller_id: str) -> None:
    """Lock the number of a parent's tombstones; the first lock of a cancel, one of the last of a hold."""
    if are_needed(tx):
        _advisory(tx, [("tombstones", caller_id)])


def owned(tx: Connection, kind: str, owner_id: str) -> None:
    """Lock the number of things of one kind that an owner has."""
    if are_needed(tx):
        _advisory(tx, [(kind, owner_id)])


def group(tx: Connection, caller_id: str, group_id: str) -> None:
    """Lock the place of a server group."""
    if are_needed(tx):
        _advisory(tx, [("group", caller_id, group_id)])


def hosts(tx: Connection, host_ids: Iterable[str]) -> None:
    """Lock hosts."""
    if are_needed(tx):
        _HOSTS.send(tx, ids=list(host_ids))


def aggregates(tx: Connection) -> None:
    """Lock the aggregates, their hosts and their metadata."""
    if are_needed(tx):
        _advisory(tx, [("aggregates",)])


def recovery(tx: Connection) -> None:
    """Lock what is known of a recovery: whether it is under way, and what its neighbours have told."""
    if are_needed(tx):
        _advisory(tx, [("recovery",)])


def everything(tx: Connection) -> None:
    """Block all other writers of children, boots and hosts until the transaction ends; readers continue.

    Not those of agents' rows, which the checks of hosts' references lock behind the hosts.
    """
    if are_needed(tx):
        tables = ", ".join(table.name for table in (t.children, t.reservations, t.hosts))
        tx.execute(sa.text(f"LOCK TABLE {tables} IN EXCLUSIVE MODE"))


def are_needed(tx: Connection) -> bool:
    """Tell whether several transactions write at the same time."""
    return tx.dialect.name == "postgresql"


def _advisory(tx: Connection, names: Iterable[Sequence[str]]) -> None:
    """Take an advisory lock per name; names with the same number wait for each other, which does no harm."""
    numbers = sorted({_number(name) for name in names})
    if numbers:
        _ADVISORY.send(tx, numbers=numbers)


def _number(name: Sequence[str]) -> int:
    text = "\0".join(name).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big", signed=True)
