"""Row locks in one order for all transactions, so that they do not deadlock.

    a recovery, the set of children -> a child, an agent -> boots -> a parent -> server groups -> hosts

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
_NUMBERS = sa.func.unnest(sa.bindparam("numbers", type_=List(sa.BigInteger))).column_valued("number")
_ADVISORY = Prepared(sa.select(sa.func.pg_advisory_xact_lock(_NUMBERS).label("locked")))


def children(tx: Connection, child_ids: Iterable[str]) -> None:
    """Lock children against removal until the transaction ends."""
    ids = sorted(set(child_ids))
    if ids and _is_needed(tx):
        _CHILDREN.send(tx, ids=ids)


def which_zones(tx: Connection) -> None:
    """Lock the set of zones that are children."""
    if _is_needed(tx):
        _advisory(tx, [("children",)])


def instances(tx: Connection, uuids: Sequence[str], more_hosts: Sequence[str] = ()) -> None:
    """Lock the boots of these instances, their server groups, and the hosts on which they have claims.

    `more_hosts`: other hosts, on which they may be placed.
    """
    if uuids and _is_needed(tx):
        _BOOTS_OF_INSTANCES.send(tx, ids=uuids)
        _advisory(tx, [("group", *key) for key in _GROUPS.all(tx, ids=uuids)])
        _CLAIMED_HOSTS.send(tx, ids=uuids, more=more_hosts)


def boots(tx: Connection, keys: Sequence[tuple[str, str]]) -> None:
    """Lock boots by (reservation id, caller id)."""
    if keys and _is_needed(tx):
        ids, callers = zip(*keys, strict=True)
        _BOOTS.send(tx, ids=ids, callers=callers)


def call(tx: Connection, caller_id: str, reservation_id: str) -> None:
    """Lock one of a parent's boots, which need not have a row yet."""
    if _is_needed(tx):
        _advisory(tx, [("call", caller_id, reservation_id)])
        boots(tx, [(reservation_id, caller_id)])


def parent(tx: Connection, caller_id: str) -> None:
    """Lock the number of a parent's instances."""
    if _is_needed(tx):
        _advisory(tx, [("parent", caller_id)])


def tombstones(tx: Connection, caller_id: str) -> None:
    """Lock the number of a parent's tombstones; the first lock of a cancel."""
    if _is_needed(tx):
        _advisory(tx, [("tombstones", caller_id)])


def owned(tx: Connection, kind: str, owner_id: str) -> None:
    """Lock the number of things of one kind that an owner has."""
    if _is_needed(tx):
        _advisory(tx, [(kind, owner_id)])


def group(tx: Connection, caller_id: str, group_id: str) -> None:
    """Lock the place of a server group."""
    if _is_needed(tx):
        _advisory(tx, [("group", caller_id, group_id)])


def hosts(tx: Connection, host_ids: Iterable[str]) -> None:
    """Lock hosts."""
    if _is_needed(tx):
        _HOSTS.send(tx, ids=list(host_ids))


def aggregates(tx: Connection) -> None:
    """Lock the aggregates, their hosts and their metadata."""
    if _is_needed(tx):
        _advisory(tx, [("aggregates",)])


def recovery(tx: Connection) -> None:
    """Lock what is known of a recovery: whether it is under way, and what its neighbours have told."""
    if _is_needed(tx):
        _advisory(tx, [("recovery",)])


def everything(tx: Connection) -> None:
    """Block all other writers of children, boots and hosts until the transaction ends; readers continue.

    Not those of agents' rows, which the checks of hosts' references lock behind the hosts.
    """
    if _is_needed(tx):
        tables = ", ".join(table.name for table in (t.children, t.reservations, t.hosts))
        tx.execute(sa.text(f"LOCK TABLE {tables} IN EXCLUSIVE MODE"))


def _is_needed(tx: Connection) -> bool:
    return tx.dialect.name == "postgresql"


def _advisory(tx: Connection, names: Iterable[Sequence[str]]) -> None:
    """Take an advisory lock per name; names with the same number wait for each other, which does no harm."""
    numbers = sorted({_number(name) for name in names})
    if numbers:
        _ADVISORY.send(tx, numbers=numbers)


def _number(name: Sequence[str]) -> int:
    text = "\0".join(name).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big", signed=True)
