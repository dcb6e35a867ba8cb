"""Services of a zone, its own processes and compute agents, with their owners and last heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.broker.contract import COMPUTE, SCHEDULER
from zonesched.errors import Conflict, Forbidden, NotFound
from zonesched.model.views import Binary
from zonesched.store import claims
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared, one_of
from zonesched.store.silent_agents import NOTHING_RUNS, Silence

COLUMNS = t.services.c
_NAMED = Prepared(
    sa.select(
        COLUMNS.id,
        COLUMNS.user_id,
        COLUMNS.registrations,
        COLUMNS.agent_id,
        COLUMNS.agent_home,
        COLUMNS.binary,
    ).where(COLUMNS.name == sa.bindparam("wanted"))
)
_KEPT = Prepared(
    sa.select(COLUMNS.registrations).where(COLUMNS.id == sa.bindparam("known_id")).with_for_update(read=True)
)
_INSERT = Prepared(sa.insert(t.services))
# Not against the checks of hosts' references, which a second change of a host in one transaction makes.
_NAMED_AND_LOCKED = Prepared(
    sa.select(t.services).where(COLUMNS.name == sa.bindparam("wanted")).with_for_update(key_share=True)
)
_REGISTER = Prepared(
    sa.update(t.services)
    .where(COLUMNS.id == sa.bindparam("known_id"))
    .values(
        {
            name: sa.bindparam(name)
            for name in ("user_id", "last_seen_at", "registrations", "agent_id", "agent_home")
        }
    )
)
_OF_IDS = Prepared(sa.select(t.services).where(one_of(COLUMNS.id, "ids")))
_LOCK = Prepared(
    sa.select(COLUMNS.id)
    .where(one_of(COLUMNS.id, "ids"))
    .order_by(COLUMNS.id)
    .with_for_update(key_share=True)
)
_NOTE_BEATS = Prepared(
    sa.update(t.services)
    .where(one_of(COLUMNS.id, "ids"))
    .values(last_seen_at=sa.bindparam("now"), report_count=COLUMNS.report_count + 1)
)
_BEATS_SINCE = Prepared(
    sa.select(COLUMNS.id, COLUMNS.last_seen_at, COLUMNS.forced_down).where(
        sa.or_(COLUMNS.last_seen_at >= sa.bindparam("moment"), COLUMNS.forced_down)
    )
)


@dataclass(frozen=True)
class Service:
    """One row. `user_id`: the compute user that owns it; the zone's uuid for the zone's own processes.

    `topic`: the address of its notifications; `report_count`: the number of heartbeats written;
    `registrations`: how often its hosts were registered; `agent_id`: the id of the agent that did so, "" for
    one that has none; `agent_home`: its state folder on that boot of its machine, "" where it names none;
    `returned_at`: when the same agent last asked for its place from another home, and has to wait for it; 0
    for never.
    """

    id: str
    name: str
    user_id: str
    last_seen_at: float
    forced_down: bool = False
    binary: str = Binary.AGENT.value
    topic: str = COMPUTE
    report_count: int = 0
    registrations: int = 0
    agent_id: str = ""
    agent_home: str = ""
    returned_at: float = 0.0


@dataclass(frozen=True)
class Owned:
    """Columns of a row that tell whose it is, with the meanings of `Service`."""

    id: str
    user_id: str
    registrations: int
    agent_id: str
    agent_home: str
    binary: str


@dataclass(frozen=True)
class LastHeartbeats:
    """Last heartbeats of services, by id, and the services that operators have forced down."""

    at: Mapping[str, float]
    forced_down: frozenset[str]


def is_up(last_seen_at: float, now: float, down_time_s: float) -> bool:
    """Tell whether an agent with this last heartbeat is up.

    A heartbeat far in the future comes from a clock that has been set back since.
    """
    return abs(now - last_seen_at) <= down_time_s


def read_all(tx: Connection) -> Mapping[str, Service]:
    """Read all services by id."""
    return {row.id: Service(*row) for row in tx.execute(sa.select(t.services).order_by(COLUMNS.name))}


def read_ids(tx: Connection, ids: Sequence[str]) -> Mapping[str, Service]:
    """Read these services by id."""
    return {row.id: Service(*row) for row in _OF_IDS.all(tx, ids=ids)}


def read_one(tx: Connection, service_id: str) -> Service | None:
    """Read one service by id."""
    row = tx.execute(sa.select(t.services).where(COLUMNS.id == service_id)).first()
    return None if row is None else Service(*row)


def ask_heartbeats_since(tx: Connection, moment: float) -> Callable[[], LastHeartbeats]:
    """Read the services with a heartbeat at `moment` or later, and all that are forced down.

    The result waits for them: its own call, or a later statement of the transaction.
    """
    sent = _BEATS_SINCE.send(tx, moment=moment)

    def found() -> LastHeartbeats:
        rows = sent.all()
        return LastHeartbeats(
            {row.id: row.last_seen_at for row in rows if row.last_seen_at >= moment},
            frozenset(row.id for row in rows if row.forced_down),
        )

    return found


def set_forced_down(tx: Connection, service_id: str, forced_down: bool) -> None:
    """Force an agent down, or judge it by its heartbeats again."""
    tx.execute(sa.update(t.services).where(COLUMNS.id == service_id).values(forced_down=forced_down))


def own(tx: Connection, name: str, user_id: str, agent_id: str, agent_home: str) -> Owned:
    """Read the row of the user's service of that name for its agent.

    Raises NotFound, Forbidden for another user's, and Conflict where an agent is not the one that registered
    it, or runs elsewhere: it has to register again.
    """
    found = of_user(tx, name, user_id)
    if agent_id != found.agent_id:
        raise _of_another_agent(name)
    if agent_home not in ("", found.agent_home):
        raise _runs_elsewhere(name)
    return found


def of_user(tx: Connection, name: str, user_id: str) -> Owned:
    """Read the row of the user's service of that name. Raises NotFound, and Forbidden for another user's."""
    row = _NAMED.first(tx, wanted=name)
    if row is None:
        raise NotFound(f"There is no service {name}.", code="service_unknown", field="service")
    found = Owned(*row)
    if found.user_id != user_id:
        raise Forbidden(
            f"The service {name} belongs to another user: give an agent a name of its own (--service).",
            code="service_belongs_to_another_user",
            field="service",
        )
    return found


def keep(tx: Connection, known: Owned) -> None:
    """Keep a service with its agent until the transaction ends.

    Raises NotFound for one that was removed, and Conflict for one that was registered since `known` was read:
    it may be another agent's by now, or that of a later process.
    """
    row = _KEPT.first(tx, known_id=known.id)
    if row is None:
        raise NotFound("There is no such service any more.", code="service_unknown", field="service")
    if row.registrations != known.registrations:
        raise Conflict(
            "The service was registered since this call came: call again.",
            code="registered_since",
            field="service",
        )


def lock(tx: Connection, service_ids: Sequence[str]) -> None:
    """Lock services, in order, against their registration and against whoever keeps them."""
    _LOCK.all(tx, ids=service_ids)


def _of_another_agent(name: str) -> Conflict:
    return Conflict(
        f"Service {name} belongs to another agent, which has another state folder. Give each agent a name of"
        " its own with --service. If this agent replaces the other, let it ask again: it gets the place once"
        f" the other has not called for service_down_time, and {NOTHING_RUNS}.",
        code="service_belongs_to_another_agent",
        field="service",
    )


def _runs_elsewhere(name: str) -> Conflict:
    return Conflict(
        f"The agent of service {name} runs elsewhere, or ran before the last start of its machine. If this"
        " machine or its state folder is a copy, stop this agent and remove that folder. Else let it ask"
        " again: it goes on by itself once the other one has not called for service_down_time.",
        code="service_belongs_to_another_agent",
        field="service",
    )


def register(tx: Connection, new: Service, known: int | None, silence: Silence) -> Service:
    """Register a service with its heartbeat; a known service of its name keeps its id.

    The service changes hands where its former user was deleted, and where its former agent, or the former
    home of this agent, has ended by its `silence`. `known`: the number of registrations that the agent read
    before it wrote this one; None where it does not say.
    Raises Forbidden for a service of another user, and Conflict for one of another agent or home, and for one
    that was registered since.
    """
    name, now = new.name, new.last_seen_at
    row = _NAMED_AND_LOCKED.first(tx, wanted=name)
    if known not in (None, 0 if row is None else row.registrations):
        raise Conflict(
            f"Service {name} was registered since: read the number of its registrations, and register again.",
            code="registered_since",
            field="registrations",
        )
    if row is None:
        service = replace(new, registrations=1)
        _INSERT.run(tx, **vars(service))
        return service
    if row.user_id != new.user_id and is_user(tx, row.user_id):
        of_user(tx, name, new.user_id)
    # One without an id is not known to be another agent than one without, and is another than one with an id.
    is_other = row.agent_id not in ("", new.agent_id)
    if is_other and not silence.is_over(tx, row.id, row.last_seen_at):
        raise _of_another_agent(name)
    is_elsewhere = "" not in (new.agent_home, row.agent_home) and new.agent_home != row.agent_home
    if is_elsewhere and not is_other and not silence.has_moved(tx, row.id, row.last_seen_at):
        raise _runs_elsewhere(name)
    values = {
        "user_id": new.user_id,
        "last_seen_at": now,
        "registrations": row.registrations + 1,
        "agent_id": new.agent_id,
        "agent_home": new.agent_home or ("" if is_other else row.agent_home),
    }
    _REGISTER.run(tx, known_id=row.id, **values)
    return replace(Service(*row), forced_down=bool(row.forced_down), **values)


def register_process(tx: Connection, name: str, zone_uuid: str, now: float, new_id: str) -> None:
    """Register a process of the zone with a heartbeat now. Raises Forbidden for the name of an agent."""
    row = _NAMED.first(tx, wanted=name)
    binary = Binary.SCHEDULER.value
    if row is None:
        one = Service(new_id, name, zone_uuid, now, binary=binary, topic=SCHEDULER, report_count=1)
        tx.execute(sa.insert(t.services).values(**vars(one)))
    elif row.binary != binary:
        raise Forbidden(f"An agent has the name {name}.", code="service_belongs_to_another_user")
    else:
        note_heartbeats(tx, [row.id], now)


def note_heartbeats(tx: Connection, service_ids: Sequence[str], now: float) -> None:
    """Write a heartbeat of these services now; removed services stay removed."""
    if len(service_ids) > 1:
        # In order: two processes may write the same services.
        lock(tx, service_ids)
    _NOTE_BEATS.run(tx, ids=service_ids, now=now)


def note_returned(tx: Connection, service_ids: Sequence[str], now: float) -> None:
    """Note that the agents of these services ask for their places from other homes."""
    tx.execute(sa.update(t.services).where(COLUMNS.id.in_(service_ids)).values(returned_at=now))


def returned_since(tx: Connection, service_ids: Sequence[str], now: float, within_s: float) -> frozenset[str]:
    """Return those of these services whose agents have asked for their places from other homes since."""
    found = read_ids(tx, service_ids)
    return frozenset(id for id, one in found.items() if abs(now - one.returned_at) <= within_s)


def last_of_processes(tx: Connection) -> float | None:
    """Read the time of the last heartbeat of any process of the zone; None without one."""
    found = sa.select(sa.func.max(COLUMNS.last_seen_at)).where(COLUMNS.binary == Binary.SCHEDULER.value)
    at: float | None = tx.execute(found).scalar()
    return at


def agents_without_heartbeat_since(tx: Connection, before: float) -> list[Service]:
    """Read the agents without a heartbeat since `before`."""
    found = tx.execute(
        sa.select(t.services).where(COLUMNS.last_seen_at < before, COLUMNS.binary == Binary.AGENT.value)
    )
    return [Service(*row) for row in found]


def addresses(tx: Connection, host_ids: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Read topic and name of the agents of these hosts."""
    found: set[tuple[str, str]] = set()
    for some in claims.chunks(host_ids):
        statement = (
            sa.select(COLUMNS.topic, COLUMNS.name)
            .join(t.hosts, t.hosts.c.service_id == COLUMNS.id)
            .where(t.hosts.c.id.in_(some))
            .distinct()
        )
        found |= {(row.topic, row.name) for row in tx.execute(statement)}
    return frozenset(found)


def is_user(tx: Connection, user_id: str) -> bool:
    """Tell whether the user exists."""
    return tx.execute(sa.select(t.users.c.id).where(t.users.c.id == user_id)).first() is not None
