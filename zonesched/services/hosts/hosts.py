"""Calls of compute agents: their hosts, heartbeats, desired instances and reports."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from zonesched.errors import Conflict, DatabaseFull, NotFound
from zonesched.model.agent_claims import AgentClaims
from zonesched.model.agent_instances import AgentReport, DesiredInstance
from zonesched.model.caller import Caller
from zonesched.model.console import ConsoleAnswer
from zonesched.model.host_query import HostQuery
from zonesched.model.host_row import HostFacts
from zonesched.model.host_totals import HostTotals
from zonesched.model.placement import Attempt
from zonesched.model.views import HostForm, HypervisorState, HypervisorView, ResourceUse
from zonesched.services.hosts import agent_lists, instance_reports
from zonesched.services.hosts.host_forms import host_rows
from zonesched.services.hosts.services import beat_own
from zonesched.services.state.heartbeats import Heartbeats
from zonesched.services.state.listening import Listening
from zonesched.services.zone import Zone
from zonesched.store import (
    agent_claims,
    agent_work,
    capacities,
    claims,
    consoles,
    fencing_promises,
    host_instances,
    host_registry,
    host_states,
    placements,
    services,
)
from zonesched.store import hosts as rows
from zonesched.store.agent_work import Work
from zonesched.store.consoles import ConsoleAsk
from zonesched.store.fencing_promises import Promise
from zonesched.store.host_instances import Placed
from zonesched.store.host_states import HostAdminState
from zonesched.store.services import Owned, Service
from zonesched.store.silent_agents import Silence
from zonesched.store.store import Store, StoreError, Transaction

REPORTS_PER_WRITE = 500
PAGE = 2000
EVERY = HostQuery()

T = TypeVar("T")


@dataclass(frozen=True)
class Registered:
    """The registered hosts as (id, name), in order, and how often the service was registered."""

    hosts: Sequence[tuple[str, str]]
    registrations: int


def register(
    zone: Zone,
    caller: Caller,
    service: str,
    hosts: Sequence[HostForm],
    known: int | None = None,
    fence_after_s: float = math.inf,
) -> Registered:
    """Store an agent's report of its hosts. A repeat changes nothing.

    A service belongs to the user that registered it first. `known`: how often it was registered when the
    agent wrote the report. `fence_after_s`: its promise, as in `beat`, durable when this returns. Raises
    BadRequest for an impossible report, Forbidden for another user's service, Conflict for the service of
    another agent that may be up, for a host of another user's service or of one that may be up, and for a
    report that comes after a later one.
    """
    offered = host_rows(zone.conf, zone.clock, hosts)
    now, new_id = zone.clock.now(), zone.clock.new_uuid()
    new = Service(
        new_id, service, caller.user_id, now, agent_id=caller.agent_id, agent_home=caller.agent_home
    )
    silence = Silence(zone.silences.seconds, zone.conf.service_down_time)

    def fn(tx: Transaction) -> tuple[Mapping[str, str], int]:
        registered = services.register(tx, new, known, silence)
        if fence_after_s < math.inf:
            fencing_promises.renew(tx, Promise(registered.id, fence_after_s, zone.clock.new_uuid()))
        else:
            # What an earlier agent has promised, this one does not keep.
            fencing_promises.withdraw(tx, registered.id)
        ids = host_registry.register(tx, registered, offered, silence)
        return ids, registered.registrations

    try:
        ids, registrations = zone.store.write(fn)
    except Conflict:
        _count_silences(zone, silence)
        raise
    zone.wake.host_readers()
    return Registered([(ids[form.name], form.name) for form in hosts], registrations)


def _count_silences(zone: Zone, silence: Silence) -> None:
    """Count the silence of agents whose place was refused, if their heartbeats could be written."""
    if not silence.refused:
        return
    try:
        beat_own(zone)
    except (StoreError, DatabaseFull):
        for service_id, _ in silence.refused:
            zone.silences.forget(service_id)
        raise
    for service_id, heartbeat in silence.refused:
        zone.silences.note(service_id, heartbeat)
    if silence.returned:
        now = zone.clock.now()
        zone.store.write(lambda tx: services.note_returned(tx, silence.returned, now))


def registrations(store: Store, caller: Caller, service: str) -> int:
    """Read how often a service was registered. Raises Forbidden for another user's."""
    try:
        return store.read(lambda tx: services.of_user(tx, service, caller.user_id)).registrations
    except NotFound:
        return 0


def beat(zone: Zone, caller: Caller, service: str, fence_after_s: float = math.inf) -> None:
    """Note a heartbeat of an agent, which promises to end all instances so long after it, or never.

    A promise is durable when this returns. Raises NotFound, Forbidden for another user's service, and
    Conflict for one that was registered meanwhile.
    """
    own = _own(zone.store, zone.heartbeats, caller, service)
    if fence_after_s < math.inf:
        promise = Promise(own.id, fence_after_s, zone.clock.new_uuid())
        zone.store.write(lambda tx: _promise(tx, own, promise))
    elif zone.fences.promised(own.id):
        zone.store.write(lambda tx: fencing_promises.withdraw(tx, own.id))


def desired(store: Store, heartbeats: Heartbeats, caller: Caller, service: str) -> list[DesiredInstance]:
    """Read the instances that should run on the service's hosts, and note them as fetched.

    Raises NotFound, Forbidden.
    """
    return list(unknown(store, heartbeats, caller, service, ()).instances)


def unknown(
    store: Store, heartbeats: Heartbeats, caller: Caller, service: str, known: Collection[str]
) -> Work:
    """Read what `desired` does, without the parts of it whose tags the agent knows."""
    return agent_lists.read(store, _own(store, heartbeats, caller, service), known)


def releasing(store: Store, heartbeats: Heartbeats, caller: Caller, service: str) -> list[Attempt]:
    """Read the attempts that the agent must report as gone once nothing of them is left on its hosts.

    Raises NotFound, Forbidden.
    """
    own = _own(store, heartbeats, caller, service)
    return store.read(lambda tx: agent_work.releasing(tx, own.id))


def asked_consoles(
    store: Store, heartbeats: Heartbeats, caller: Caller, service: str
) -> Sequence[ConsoleAsk]:
    """Read the consoles that callers wait for. Raises NotFound, Forbidden."""
    own = _own(store, heartbeats, caller, service)
    return store.read(lambda tx: consoles.of_service(tx, own.id))


def take_console(store: Store, caller: Caller, service: str, ask_id: str, found: ConsoleAnswer) -> None:
    """Take an agent's answer; a late or repeated one changes nothing. Raises NotFound, Forbidden."""
    own = _known(store, caller, service)
    store.write(lambda tx: consoles.answer(tx, own.id, ask_id, found))


def claimed(store: Store, caller: Caller, service: str) -> AgentClaims:
    """Read the claims on the service's hosts. Raises NotFound, Forbidden."""
    own = _known(store, caller, service)
    return store.read(lambda tx: agent_claims.read(tx, own.id))


def note_excesses(store: Store, caller: Caller, service: str, amounts: Mapping[tuple[str, str], int]) -> None:
    """Record for operators an agent's excess counts, by host and resource class; the claims stay.

    Raises NotFound, Forbidden.
    """
    own = _known(store, caller, service)
    store.write(lambda tx: agent_claims.note_excesses(tx, own.id, amounts))


def report(zone: Zone, caller: Caller, service: str, reports: Sequence[AgentReport]) -> None:
    """Apply an agent's reports. A report on an instance that should not run there changes nothing.

    Raises NotFound, Forbidden, and Conflict for a service that was registered meanwhile.
    """
    own = _own(zone.store, zone.heartbeats, caller, service)
    taken = [_take(zone, own, some) for some in claims.chunks(reports, REPORTS_PER_WRITE)]
    if any(one.any_ended for one in taken):
        zone.wake.boots()
    replaced = sorted({uuid for one in taken for uuid in one.replaced})
    if replaced and zone.notifications.broker.is_there:
        zone.wake.agents(zone.store.read(lambda tx: placements.read_by_uuid(tx, replaced)))


def list_hypervisors(zone: Zone, wanted: HostQuery = EVERY) -> list[HypervisorView]:
    """List the hosts of this zone that are wanted, by id."""
    return _listed(zone, wanted, partial(_views_of, zone.listening))


def list_states(zone: Zone, wanted: HostQuery) -> list[HypervisorState]:
    """List the states of the hosts that are wanted, by id: a small part of what a view has."""
    return _listed(zone, wanted, partial(_states_of, zone.listening))


def totals(zone: Zone) -> HostTotals:
    """Sum up the hosts of this zone."""

    def fn(tx: Transaction) -> HostTotals:
        return HostTotals(rows.count(tx), host_instances.count(tx), capacities.totals(tx))

    return zone.store.read(fn)


def instances_on(store: Store, host_ids: Sequence[str]) -> Mapping[str, Sequence[Placed]]:
    """Read the instances that hold resources on these hosts, by host id."""

    def fn(tx: Transaction) -> dict[str, Sequence[Placed]]:
        found: dict[str, Sequence[Placed]] = {}
        for some in claims.chunks(host_ids):
            found |= host_instances.on_hosts(tx, some)
        return found

    return store.read(fn)


def show_hypervisor(zone: Zone, host_id: str) -> HypervisorView:
    """Show one host of this zone. Raises NotFound."""

    def fn(tx: Transaction) -> HypervisorView:
        return _views(zone.listening, tx, [existing(tx, host_id)])[0]

    return zone.store.read(fn)


def existing(tx: Transaction, host_id: str) -> HostFacts:
    """Read the facts of the host of that id. Raises NotFound."""
    found = rows.read_one(tx, host_id)
    if found is None:
        raise NotFound("There is no such host.", code="host_not_found", field="id")
    return found


def _promise(tx: Transaction, own: Owned, promise: Promise) -> None:
    """Store a promise of the agent that the service still has: its successor may not fence."""
    services.keep(tx, own)
    fencing_promises.renew(tx, promise)


def _own(store: Store, heartbeats: Heartbeats, caller: Caller, name: str) -> Owned:
    """Look up the caller's service; any call counts as a heartbeat. Raises NotFound, Forbidden."""
    found = _known(store, caller, name)
    heartbeats.note(found.id)
    return found


def _known(store: Store, caller: Caller, name: str) -> Owned:
    """Look up the caller's service as `_own` does, for calls that are not heartbeats."""
    return store.look_up(
        lambda tx: services.own(tx, name, caller.user_id, caller.agent_id, caller.agent_home)
    )


def _take(zone: Zone, service: Owned, reports: Sequence[AgentReport]) -> instance_reports.Taken:
    return zone.store.write(lambda tx: instance_reports.take(zone, tx, service, reports))


def _listed(zone: Zone, wanted: HostQuery, load: Callable[[Transaction, Sequence[str]], list[T]]) -> list[T]:
    """Read the hosts that are wanted: a page in one transaction, all of them `PAGE` at a time."""
    if wanted.limit:
        # A host that is removed meanwhile makes no page the last one.
        return zone.store.read(lambda tx: load(tx, rows.ids(tx, wanted)))

    def read(host_ids: Sequence[str]) -> list[T]:
        return zone.store.read(lambda tx: load(tx, host_ids))

    found = zone.store.read(lambda tx: rows.ids(tx, wanted))
    return [one for some in claims.chunks(found, PAGE) for one in read(some)]


def _states_of(listening: Listening, tx: Transaction, host_ids: Sequence[str]) -> list[HypervisorState]:
    known, states = services.read_all(tx), host_states.read_ids(tx, host_ids)
    return [
        HypervisorState(id, said.name, _is_up(listening, known[said.service_id], said), said.enabled)
        for id in host_ids
        if (said := states.get(id)) is not None
    ]


def _views_of(listening: Listening, tx: Transaction, host_ids: Sequence[str]) -> list[HypervisorView]:
    return _views(listening, tx, rows.facts_of(tx, host_ids))


def _is_up(listening: Listening, service: Service, host: HostFacts | HostAdminState) -> bool:
    return listening.hears(service) and not host.forced_down


def _views(listening: Listening, tx: Transaction, found: Sequence[HostFacts]) -> list[HypervisorView]:
    known = services.read_all(tx)
    resources: defaultdict[str, dict[str, ResourceUse]] = defaultdict(dict)
    instances: dict[str, int] = {}
    for some in claims.chunks([facts.id for facts in found]):
        instances |= host_instances.count_on(tx, some)
        for row in capacities.read(tx, some):
            resources[row.host_id][row.resource_class] = _use(row)
    reasons = host_states.disabled_reasons(tx, [facts.id for facts in found if not facts.enabled])
    return [
        _view(
            listening,
            facts,
            known[facts.service_id],
            num_instances=instances.get(facts.id, 0),
            resources=resources[facts.id],
            disabled_reason=reasons.get(facts.id, ""),
        )
        for facts in found
    ]


def _use(row: capacities.Stored) -> ResourceUse:
    return ResourceUse(
        total=row.stored.total,
        reserved=row.stored.reserved,
        allocation_ratio=row.stored.allocation_ratio,
        capacity=row.stored_capacity,
        used=row.used,
        reported=row.reported,
        setting=row.setting,
        agent_excess=row.agent_excess,
    )


def _view(
    listening: Listening,
    facts: HostFacts,
    service: Service,
    *,
    num_instances: int,
    resources: Mapping[str, ResourceUse],
    disabled_reason: str,
) -> HypervisorView:
    return HypervisorView(
        id=facts.id,
        name=facts.name,
        address=facts.address,
        availability_zone=facts.availability_zone,
        service=service.name,
        is_up=_is_up(listening, service, facts),
        is_enabled=facts.enabled,
        disabled_reason=disabled_reason,
        num_instances=num_instances,
        resources=resources,
        capabilities=facts.capabilities,
        traits=facts.traits,
        aggregates=tuple(sorted(aggregate.name for aggregate in facts.aggregates)),
    )
