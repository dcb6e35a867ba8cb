"""Calls of compute agents: their hosts, heartbeats, desired instances and reports."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zonesched.conf import Conf
from zonesched.errors import NotFound
from zonesched.model.agent_claims import AgentClaims
from zonesched.model.agent_instances import AgentReport, DesiredInstance
from zonesched.model.caller import Caller
from zonesched.model.console import ConsoleAnswer
from zonesched.model.host_row import HostRow
from zonesched.model.host_totals import HostTotals
from zonesched.model.placement import Attempt
from zonesched.model.views import HostForm, HypervisorView, ResourceUse
from zonesched.seams import Clock
from zonesched.services.hosts import instance_reports
from zonesched.services.hosts.host_forms import host_rows
from zonesched.services.state.heartbeats import Heartbeats
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
    locks,
    services,
)
from zonesched.store import hosts as rows
from zonesched.store.consoles import ConsoleAsk
from zonesched.store.fencing_promises import Promise
from zonesched.store.host_instances import Placed
from zonesched.store.services import Service, Silence
from zonesched.store.store import Store, Transaction

REPORTS_PER_WRITE = 500
PAGE = 2000


@dataclass(frozen=True)
class Registered:
    """The registered hosts as (id, name), in order, and how often the service was registered."""

    hosts: Sequence[tuple[str, str]]
    registrations: int


def register(
    zone: Zone, caller: Caller, service: str, hosts: Sequence[HostForm], known: int | None = None
) -> Registered:
    """Store an agent's report of its hosts. A repeat changes nothing.

    A service belongs to the user that registered it first. `known`: how often it was registered when the
    agent wrote the report. Raises BadRequest for an impossible report, Forbidden for another user's service,
    Conflict for the service of another agent that may be up, for a host of another user's service or of one
    that may be up, and for a report that comes after a later one.
    """
    offered = host_rows(zone.conf, zone.clock, hosts)
    now, new_id = zone.clock.now(), zone.clock.new_uuid()
    new = Service(new_id, service, caller.user_id, now, agent_id=caller.agent_id)
    silence = Silence(zone.silences.seconds, zone.conf.service_down_time)

    def fn(tx: Transaction) -> tuple[Mapping[str, str], int]:
        registered = services.register(tx, new, known, silence)
        # An agent that fences promises it with its next heartbeat.
        fencing_promises.withdraw(tx, registered.id)
        ids = host_registry.register(tx, registered, offered, silence)
        return ids, registered.registrations

    ids, registrations = zone.store.write(fn)
    zone.wake.host_readers()
    return Registered([(ids[form.name], form.name) for form in hosts], registrations)


def registrations(store: Store, caller: Caller, service: str) -> int:
    """Read how often a service was registered. Raises Forbidden for another user's."""
    try:
        return store.read(lambda tx: services.own(tx, service, caller.user_id)).registrations
    except NotFound:
        return 0


def beat(zone: Zone, caller: Caller, service: str, fence_after_s: float = math.inf) -> None:
    """Note a heartbeat of an agent, which promises to end all instances so long after it, or never.

    A promise is durable when this returns. Raises NotFound, and Forbidden for another user's service.
    """
    own = _own(zone.store, zone.heartbeats, caller, service)
    if fence_after_s < math.inf:
        promise = Promise(own.id, fence_after_s, zone.clock.new_uuid())
        zone.store.write(lambda tx: fencing_promises.renew(tx, promise))
    elif zone.fences.promised(own.id):
        zone.store.write(lambda tx: fencing_promises.withdraw(tx, own.id))


def desired(store: Store, heartbeats: Heartbeats, caller: Caller, service: str) -> list[DesiredInstance]:
    """Read the instances that should run on the service's hosts, and note them as fetched.

    Raises NotFound, Forbidden.
    """
    own = _own(store, heartbeats, caller, service)
    work = store.read(lambda tx: agent_work.desired(tx, own.id))
    if not work.unfetched:
        return list(work.instances)
    return store.write(lambda tx: _fetched(tx, own.id, sorted(work.unfetched)))


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

    Raises NotFound, Forbidden.
    """
    own = _own(zone.store, zone.heartbeats, caller, service)
    any_ended = False
    for some in claims.chunks(reports, REPORTS_PER_WRITE):
        ended = _take(zone, own, some)
        any_ended = any_ended or ended
    if any_ended:
        zone.wake.boots()


def list_hypervisors(zone: Zone) -> list[HypervisorView]:
    """List all hosts of this zone, by id."""
    views: list[HypervisorView] = []
    after = ""
    while page := _page(zone, after):
        views += page
        after = page[-1].id
    return views


def page_hypervisors(zone: Zone, after: str, limit: int) -> list[HypervisorView]:
    """List at most `limit` hosts of this zone by id, after the host `after` ("" for the first ones)."""
    return zone.store.read(lambda tx: _views(zone.clock, zone.conf, tx, rows.page(tx, after, limit)))


def named_hypervisors(zone: Zone, text: str) -> list[HypervisorView]:
    """List the hosts of this zone that have this text in their names, by id."""
    return zone.store.read(lambda tx: _views(zone.clock, zone.conf, tx, rows.named_like(tx, text)))


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
        return _views(zone.clock, zone.conf, tx, [existing(tx, host_id)])[0]

    return zone.store.read(fn)


def existing(tx: Transaction, host_id: str) -> HostRow:
    """Read the host of that id. Raises NotFound."""
    found = rows.read_one(tx, host_id)
    if found is None:
        raise NotFound("There is no such host.", code="host_not_found", field="id")
    return found


def _fetched(tx: Transaction, service_id: str, uuids: Sequence[str]) -> list[DesiredInstance]:
    """Note these builds as fetched before the agent gets them, so that no build that it may have is moved.

    Builds written since are left to the next call, which locks them.
    """
    locks.instances(tx, uuids)
    work = agent_work.desired(tx, service_id)
    agent_work.note_fetched(tx, sorted(work.unfetched.intersection(uuids)))
    later = work.unfetched.difference(uuids)
    return [instance for instance in work.instances if instance.uuid not in later]


def _own(store: Store, heartbeats: Heartbeats, caller: Caller, name: str) -> Service:
    """Look up the caller's service; any call counts as a heartbeat. Raises NotFound, Forbidden."""
    found = _known(store, caller, name)
    heartbeats.note(found.id)
    return found


def _known(store: Store, caller: Caller, name: str) -> Service:
    """Look up the caller's service as `_own` does, for calls that are not heartbeats."""
    return store.read(lambda tx: services.own(tx, name, caller.user_id, caller.agent_id))


def _take(zone: Zone, service: Service, reports: Sequence[AgentReport]) -> bool:
    return zone.store.write(lambda tx: instance_reports.take(zone, tx, service, reports))


def _page(zone: Zone, after: str) -> list[HypervisorView]:
    return page_hypervisors(zone, after, PAGE)


def _views(clock: Clock, conf: Conf, tx: Transaction, found: Sequence[HostRow]) -> list[HypervisorView]:
    known = services.read_all(tx)
    resources: defaultdict[str, dict[str, ResourceUse]] = defaultdict(dict)
    for some in claims.chunks([row.facts.id for row in found]):
        for row in capacities.read(tx, some):
            resources[row.host_id][row.resource_class] = _use(row)
    reasons = host_states.disabled_reasons(tx, [row.facts.id for row in found if not row.facts.enabled])
    return [
        _view(
            clock,
            conf,
            row,
            known[row.facts.service_id],
            resources=resources[row.facts.id],
            disabled_reason=reasons.get(row.facts.id, ""),
        )
        for row in found
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
    clock: Clock,
    conf: Conf,
    row: HostRow,
    service: Service,
    *,
    resources: Mapping[str, ResourceUse],
    disabled_reason: str,
) -> HypervisorView:
    facts = row.facts
    return HypervisorView(
        id=facts.id,
        name=facts.name,
        address=facts.address,
        availability_zone=facts.availability_zone,
        service=service.name,
        is_up=service.is_up(clock.now(), conf.service_down_time) and not facts.forced_down,
        is_enabled=facts.enabled,
        disabled_reason=disabled_reason,
        num_instances=sum(row.use.owners.values()),
        resources=resources,
        capabilities=facts.capabilities,
        traits=facts.traits,
        aggregates=tuple(sorted(aggregate.name for aggregate in facts.aggregates)),
    )
