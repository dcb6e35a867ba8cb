"""A zone's processes, agents and hosts as OpenStack's services: enable, disable, force down, remove.

In OpenStack each host has a compute service. Here an agent may have thousands of hosts. Each host is a
service of the binary nova-compute, which can be enabled, disabled and forced down by itself; each agent is a
service of the binary zonesched-compute, which can be forced down with all its hosts. The zone's own
processes, of the binary nova-scheduler, are only listed.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from zonesched.errors import BadRequest, Conflict, Forbidden, NotFound
from zonesched.model.views import Binary, ServiceChange, ServiceView
from zonesched.services.state.listening import Listening
from zonesched.services.zone import Zone, process_name
from zonesched.store import host_states, identity, locks, removals
from zonesched.store import services as rows
from zonesched.store.host_states import HostAdminState
from zonesched.store.services import Service
from zonesched.store.store import Transaction

log = logging.getLogger(__name__)

NO_SUCH = "There is no such service."
OWN_BEAT_S = 10.0


def list_services(zone: Zone, host: str = "", binary: str = "") -> list[ServiceView]:
    """List services, of one `host` name or `binary` if given: processes, agents, then hosts, each by name."""

    def fn(tx: Transaction) -> list[ServiceView]:
        agents = rows.read_all(tx)
        known = [_of_row(zone.listening, row) for row in agents.values() if host in ("", row.name)]
        known.sort(key=lambda view: view.binary is not Binary.SCHEDULER)
        said = host_states.read_named(tx, host) if host else host_states.read_all(tx)
        return [*known, *(_of_host(zone.listening, one, agents[one.service_id]) for one in said)]

    return [view for view in zone.store.read(fn) if binary in ("", view.binary.value)]


def beat_own(zone: Zone) -> float:
    """Register this process or write its heartbeat; return the pause until the next one."""
    now, new_id, name = zone.clock.now(), zone.clock.new_uuid(), process_name(zone.conf)
    try:
        zone.store.write(lambda tx: rows.register_process(tx, name, zone.uuid, now, new_id))
    except Forbidden as error:
        log.error("this process is not listed as a service: %s", error.message)
    return float(min(OWN_BEAT_S, zone.conf.service_down_time / 6))


def change(zone: Zone, service_id: str, wanted: ServiceChange) -> ServiceView:
    """Change a host's or an agent's service; return the changed service.

    Raises NotFound, BadRequest for an empty change, for a reason without disabling, and for an agent that is
    to be enabled or disabled, which only its hosts can be.
    """

    def fn(tx: Transaction) -> ServiceView:
        agents = rows.read_all(tx)
        if service_id in agents:
            return _of_row(zone.listening, _change_agent(tx, agents[service_id], wanted))
        locks.hosts(tx, [service_id])
        said = host_states.read_one(tx, service_id)
        if said is None:
            raise NotFound(NO_SUCH, code="service_not_found", field="id")
        changed = _changed(said, wanted)
        host_states.write(tx, changed)
        return _of_host(zone.listening, changed, agents[said.service_id])

    if wanted == ServiceChange():
        raise BadRequest("The change must have status or forced_down.", code="missing_field", field="status")
    if wanted.disabled_reason is not None and wanted.is_enabled is not False:
        raise BadRequest("A reason is accepted only with the status disabled.", field="disabled_reason")
    changed = zone.store.write(fn)
    zone.wake.host_readers()
    return changed


def change_named(zone: Zone, host: str, binary: str, wanted: ServiceChange) -> ServiceView:
    """Variant of `change` for the service that `host` and `binary` name together."""
    found = list_services(zone, host, binary)
    if not found:
        raise NotFound(NO_SUCH, code="service_not_found", field="host")
    return change(zone, found[0].id, wanted)


def remove(zone: Zone, service_id: str) -> None:
    """Remove a host without instances, an agent without hosts, or a process; one that runs registers again.

    Raises NotFound, and Conflict while a host has claims or an agent hosts.
    """

    def fn(tx: Transaction) -> None:
        if host_states.read_one(tx, service_id) is not None:
            if not removals.remove_host(tx, identity.next_change(tx), service_id):
                raise Conflict(
                    "The host has instances, or claims of boots under way. If it is gone for good, evacuate"
                    " it first.",
                    code="host_has_instances",
                    field="id",
                )
        elif service_id in rows.read_all(tx):
            if not removals.remove_service(tx, service_id):
                raise Conflict(
                    "The agent has hosts: remove them first.", code="service_has_hosts", field="id"
                )
        else:
            raise NotFound(NO_SUCH, code="service_not_found", field="id")

    zone.store.write(fn)
    zone.wake.host_readers()


def _change_agent(tx: Transaction, agent: Service, wanted: ServiceChange) -> Service:
    if agent.binary == Binary.SCHEDULER.value:
        raise BadRequest(
            "A process of the zone cannot be disabled or forced down: stop it.",
            code="service_has_no_status",
            field="status" if wanted.forced_down is None else "forced_down",
        )
    if wanted.forced_down is None or wanted.is_enabled is not None:
        raise BadRequest(
            "An agent can only be forced down or up: enable and disable its hosts.",
            code="service_has_no_status",
            field="status",
        )
    rows.set_forced_down(tx, agent.id, wanted.forced_down)
    return replace(agent, forced_down=wanted.forced_down)


def _changed(said: HostAdminState, wanted: ServiceChange) -> HostAdminState:
    if wanted.is_enabled is not None:
        said = replace(said, enabled=wanted.is_enabled, disabled_reason=wanted.disabled_reason or "")
    if wanted.forced_down is not None:
        said = replace(said, forced_down=wanted.forced_down)
    return said


def _of_row(listening: Listening, row: Service) -> ServiceView:
    return ServiceView(
        id=row.id,
        binary=Binary(row.binary),
        host=row.name,
        availability_zone="internal",
        is_enabled=True,
        disabled_reason="",
        is_up=listening.hears(row),
        forced_down=row.forced_down,
        seen_at=row.last_seen_at,
        topic=row.topic,
        report_count=row.report_count,
    )


def _of_host(listening: Listening, said: HostAdminState, agent: Service) -> ServiceView:
    return ServiceView(
        id=said.id,
        binary=Binary.HOST,
        host=said.name,
        availability_zone=said.availability_zone,
        is_enabled=said.enabled,
        disabled_reason=said.disabled_reason,
        is_up=not said.forced_down and listening.hears(agent),
        forced_down=said.forced_down,
        seen_at=agent.last_seen_at,
        topic=agent.topic,
        report_count=agent.report_count,
    )
