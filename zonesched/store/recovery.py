"""Recovery of a zone whose rows were restored from a copy: who was not heard yet, and what was found.

The rows say where instances were. Since then agents, children and parents went on, so the zone acts on none
of its rows before all of them have told what they have.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.caller import Role
from zonesched.model.named_boot import GivenBack
from zonesched.model.observed_state import NO_MOVES, MoveCounts, Observed
from zonesched.model.placement import LIVING_STATUSES, Attempt, InstanceStatus
from zonesched.model.request_spec import Flavor, RequestSpec
from zonesched.model.request_wire import flavor_from_wire, flavor_to_wire, spec_from_row, spec_to_row
from zonesched.store import claims, locks, server_history
from zonesched.store import tables as t
from zonesched.store.found_states import (
    given_back_from_text,
    given_back_text,
    observed_from_text,
    observed_text,
)
from zonesched.store.prepared import Prepared, is_in, one_of

_unheard, _found, _named = t.unheard.c, t.found_instances.c, t.named_instances.c
_INCARNATION = Prepared(sa.select(t.identity.c.incarnation))
_ANY = Prepared(sa.select(_unheard.kind).limit(1))
_PARENTS = sa.select(t.users.c.id).where(t.users.c.role == Role.PARENT.value)
_OF_HOLDER = Prepared(
    sa.select(_found.uuid, _found.number)
    .where(_found.kind == sa.bindparam("kind"), _found.holder_id == sa.bindparam("holder_id"))
    .order_by(_found.uuid, _found.number)
)
_OF_UUIDS = Prepared(
    sa.select(
        t.found_instances,
        _named.caller_id,
        _named.attempt,
        _named.reservation_id,
        _named.spec,
        _named.is_disputed,
        t.services.c.name.label("service"),
        t.children.c.name.label("child"),
        t.hosts.c.name.label("host"),
    )
    .outerjoin(t.named_instances, _named.uuid == _found.uuid)
    .outerjoin(t.services, t.services.c.id == _found.holder_id)
    .outerjoin(t.children, t.children.c.id == _found.holder_id)
    .outerjoin(t.hosts, t.hosts.c.id == _found.host_id)
    .where(one_of(_found.uuid, "uuids"))
    .order_by(_found.uuid, _found.number, _found.holder_id)
)


class Kind(enum.Enum):
    """Kind of a neighbour that is to be heard."""

    AGENT = "agent"
    CHILD = "child"
    PARENT = "parent"
    OPERATOR = "operator"


@dataclass(frozen=True)
class Neighbour:
    """A neighbour, by its id here; `name`: as operators know it."""

    kind: Kind
    id: str
    name: str = ""


@dataclass(frozen=True)
class Named:
    """A parent's word that an instance is its own: its attempt and its request."""

    caller_id: str
    attempt: int
    reservation_id: str
    spec: RequestSpec


@dataclass(frozen=True)
class Found:
    """An instance that an agent or a child has. `host_id`: its local host, "" in a child or where unknown.

    `number`: of its placement here. `named`: by the parent that names it; None where none does, or several.
    `observed`: its last report; None where there was none. `moves`: in its child. `given_back`: by a child,
    where rows here lack the instance or what was done to it. `flavor`: by an agent, None where unknown.
    `holder`, `host`: the names of who has it, where rows have them, and of its host.
    """

    kind: Kind
    holder_id: str
    uuid: str
    number: int
    host_id: str
    status: InstanceStatus
    named: Named | None = None
    observed: Observed | None = None
    moves: MoveCounts = NO_MOVES
    given_back: GivenBack | None = None
    flavor: Flavor | None = None
    holder: str = ""
    host: str = ""

    @property
    def key(self) -> tuple[str, int]:
        return (self.uuid, self.number)


OPERATOR = Neighbour(Kind.OPERATOR, "")


def begin(tx: Connection, incarnation: str) -> None:
    """Begin a recovery: all neighbours by the restored rows are to be heard, and the operator ends it."""
    # A promise of a copy may have been withdrawn since.
    for table in (t.unheard, t.found_instances, t.named_instances, t.fencing_promises):
        tx.execute(sa.delete(table))
    tx.execute(sa.update(t.identity).values(incarnation=incarnation))
    server_history.forget(tx)
    # A parent's cursor may name numbers from after the copy: all of its feed is read anew.
    tx.execute(sa.delete(t.epochs))
    tx.execute(sa.insert(t.epochs).values(after=0, id=incarnation))
    with_hosts = sa.select(t.hosts.c.service_id).distinct()
    ids = {Kind.AGENT: with_hosts, Kind.CHILD: sa.select(t.children.c.id), Kind.PARENT: _PARENTS}
    rows = [
        {"kind": kind.value, "id": id_} for kind, query in ids.items() for id_ in tx.execute(query).scalars()
    ]
    tx.execute(sa.insert(t.unheard), [*rows, {"kind": OPERATOR.kind.value, "id": OPERATOR.id}])
    # Their entries do not open any more, and the feeds are read anew.
    tx.execute(sa.update(t.inbound_builds).values(rest="[]"))
    tx.execute(sa.update(t.children).values(cursor=""))


def incarnation(tx: Connection) -> str:
    """Read the zone's incarnation; "" for one that was never restored."""
    return str(_INCARNATION.first(tx).incarnation)


def has_parents(tx: Connection) -> bool:
    """Tell whether any user of the zone is a parent, or was one that has not been heard."""
    # One that was deleted during the recovery has named nothing: what is its own looks like the zone's.
    unheard = sa.select(_unheard.id).where(_unheard.kind == Kind.PARENT.value)
    return any(tx.execute(query).first() is not None for query in (_PARENTS, unheard))


def is_under_way(tx: Connection) -> bool:
    """Tell whether a recovery has not ended yet."""
    return _ANY.first(tx) is not None


def unheard(tx: Connection) -> list[Neighbour]:
    """Read the neighbours that were not heard yet, but for the operator; those removed since are left out."""
    names = {
        Kind.AGENT: sa.select(t.services.c.id, t.services.c.name).where(
            t.services.c.id.in_(sa.select(t.hosts.c.service_id))
        ),
        Kind.CHILD: sa.select(t.children.c.id, t.children.c.name),
        Kind.PARENT: sa.select(t.users.c.id, t.users.c.name),
    }
    found: list[Neighbour] = []
    for kind, query in names.items():
        waiting = set(tx.execute(sa.select(_unheard.id).where(_unheard.kind == kind.value)).scalars())
        found += [Neighbour(kind, row.id, row.name) for row in tx.execute(query) if row.id in waiting]
    return sorted(found, key=lambda one: (one.kind.value, one.name))


def is_heard(tx: Connection, kind: Kind, id_: str) -> bool:
    """Tell whether a neighbour was heard."""
    this = (_unheard.kind == kind.value, _unheard.id == id_)
    return tx.execute(sa.select(_unheard.id).where(*this)).first() is None


def hear(tx: Connection, kind: Kind, id_: str) -> None:
    """Note that a neighbour has told all that it has."""
    tx.execute(sa.delete(t.unheard).where(_unheard.kind == kind.value, _unheard.id == id_))


def await_word(tx: Connection, kind: Kind, id_: str) -> None:
    """Note that a neighbour has not told all that it has; the caller has locked the recovery."""
    if is_heard(tx, kind, id_):
        tx.execute(sa.insert(t.unheard).values(kind=kind.value, id=id_))


def add(tx: Connection, kind: Kind, id_: str) -> None:
    """Note a neighbour that is added: a recovery that is under way waits for it too."""
    locks.recovery(tx)
    if is_under_way(tx):
        await_word(tx, kind, id_)
        if kind is not Kind.PARENT:
            await_parents(tx)


def await_parents(tx: Connection) -> None:
    """Note that no parent has named what was found since; the caller has locked the recovery."""
    for id_ in tx.execute(_PARENTS).scalars().all():
        await_word(tx, Kind.PARENT, id_)


def end(tx: Connection) -> None:
    """End the recovery."""
    tx.execute(sa.delete(t.unheard))
    tx.execute(sa.delete(t.named_instances))


def forget_of(tx: Connection, kind: Kind, holder_id: str) -> None:
    """Forget what a holder has told so far: it begins again."""
    tx.execute(sa.delete(t.found_instances).where(_found.kind == kind.value, _found.holder_id == holder_id))


def count_of(tx: Connection, kind: Kind, holder_id: str) -> int:
    """Count the instances that a holder has told of so far."""
    this = (_found.kind == kind.value, _found.holder_id == holder_id)
    return int(
        tx.execute(sa.select(sa.func.count()).select_from(t.found_instances).where(*this)).scalar_one()
    )


def forget_in_child(tx: Connection, child_id: str, uuids: Sequence[str]) -> int:
    """Forget what a child has told so far of these instances; return how many lines that were."""
    forgotten = 0
    for some in claims.chunks(uuids):
        this = (_found.kind == Kind.CHILD.value, _found.holder_id == child_id, _found.uuid.in_(some))
        forgotten += tx.execute(sa.delete(t.found_instances).where(*this)).rowcount
    return forgotten


def forget_removed_children(tx: Connection) -> None:
    """Forget what children have told that were removed since; the caller has locked the children."""
    removed = sa.not_(_found.holder_id.in_(sa.select(t.children.c.id)))
    tx.execute(sa.delete(t.found_instances).where(_found.kind == Kind.CHILD.value, removed))


def put(tx: Connection, found: Sequence[Found]) -> None:
    """Store instances that an agent or a child has told of; a repeated line replaces the earlier one."""
    for some in claims.chunks(found):
        for one in some:
            tx.execute(sa.delete(t.found_instances).where(*_key(one)))
        tx.execute(sa.insert(t.found_instances), [_to_row(one) for one in some])


def name(tx: Connection, uuid: str, named: Named) -> None:
    """Note that a parent names an instance as its own, by its latest attempt; of two that do, none counts."""
    this = _named.uuid == uuid
    known = tx.execute(sa.select(_named.caller_id, _named.attempt).where(this)).first()
    if known is None:
        tx.execute(sa.insert(t.named_instances).values(_named_row(uuid, named)))
    elif known.caller_id != named.caller_id:
        tx.execute(sa.update(t.named_instances).where(this).values(is_disputed=True))
    elif known.attempt < named.attempt:
        tx.execute(sa.update(t.named_instances).where(this).values(attempt=named.attempt))


def found_of(tx: Connection, uuids: Sequence[str]) -> Mapping[str, Sequence[Found]]:
    """Read what was found of these instances, by uuid, in order of their numbers."""
    by_uuid: defaultdict[str, list[Found]] = defaultdict(list)
    for row in _OF_UUIDS.all(tx, uuids=uuids):
        by_uuid[row.uuid].append(_from_row(row))
    return by_uuid


def found_uuids(tx: Connection) -> list[str]:
    """Read the uuids of all found instances, in order."""
    return list(tx.execute(sa.select(_found.uuid).distinct().order_by(_found.uuid)).scalars())


def living_uuids(tx: Connection) -> list[str]:
    """Read the uuids of all instances that run or may still run by the rows."""
    row = t.instances.c
    return list(tx.execute(sa.select(row.uuid).where(is_in(row.status, LIVING_STATUSES))).scalars())


def kept(tx: Connection, service_id: str) -> list[Attempt]:
    """Read the found instances of an agent that it keeps, though no row here has them."""
    found = _OF_HOLDER.all(tx, kind=Kind.AGENT.value, holder_id=service_id)
    return [Attempt(row.uuid, row.number) for row in found]


def forget(tx: Connection, found: Sequence[Found]) -> None:
    """Forget found instances: rows have them now, or nobody wants them."""
    for one in found:
        tx.execute(sa.delete(t.found_instances).where(*_key(one)))


def forget_children(tx: Connection) -> None:
    """Forget what children have: the audit of their edges lists what no row has."""
    tx.execute(sa.delete(t.found_instances).where(_found.kind == Kind.CHILD.value))


def _key(one: Found) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        _found.kind == one.kind.value,
        _found.holder_id == one.holder_id,
        _found.uuid == one.uuid,
        _found.number == one.number,
    )


def _to_row(one: Found) -> dict[str, Any]:
    return {
        "kind": one.kind.value,
        "holder_id": one.holder_id,
        "uuid": one.uuid,
        "number": one.number,
        "host_id": one.host_id or None,
        "status": one.status.value,
        "observed": None if one.observed is None else observed_text(one.observed),
        "moves_begun": one.moves.begun,
        "moves_ended": one.moves.ended,
        "given_back": None if one.given_back is None else given_back_text(one.given_back),
        "flavor": None if one.flavor is None else orjson.dumps(flavor_to_wire(one.flavor)).decode(),
    }


def _named_row(uuid: str, named: Named) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "caller_id": named.caller_id,
        "attempt": named.attempt,
        "reservation_id": named.reservation_id,
        "spec": orjson.dumps(spec_to_row(named.spec)).decode(),
        "is_disputed": False,
    }


def _from_row(row: Any) -> Found:
    named = None
    if row.spec is not None and not row.is_disputed:
        spec = spec_from_row(orjson.loads(row.spec))
        named = Named(row.caller_id, row.attempt, row.reservation_id, spec)
    return Found(
        Kind(row.kind),
        row.holder_id,
        row.uuid,
        row.number,
        row.host_id or "",
        InstanceStatus(row.status),
        named,
        None if row.observed is None else observed_from_text(row.observed),
        MoveCounts(row.moves_begun, row.moves_ended),
        None if row.given_back is None else given_back_from_text(row.given_back),
        None if row.flavor is None else flavor_from_wire(orjson.loads(row.flavor)),
        row.service or row.child or "",
        row.host or "",
    )
