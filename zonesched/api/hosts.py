"""Calls of compute agents: register hosts, send heartbeats, read and report instances."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from zonesched.api.answer import Answer, no_content, ok
from zonesched.api.call import Call
from zonesched.api.schemas.fields import UUID
from zonesched.errors import BadRequest
from zonesched.model.agent_instances import DesiredInstance
from zonesched.model.caller import AGENT_HEADER, AGENT_HOME_HEADER, Caller
from zonesched.model.desired_state import Desired
from zonesched.model.observed_state import Observed
from zonesched.services.hosts import hosts
from zonesched.services.recovery import told_by_agents


def register(call: Call) -> Answer:
    """Register hosts of this agent with their inventories."""
    body = call.body
    forms = [host.to_form() for host in body.hosts]
    made = hosts.register(
        call.zone, _agent(call), body.service, forms, body.registrations, body.fence_after_s
    )
    listed = [{"id": id, "name": name} for id, name in made.hosts]
    return ok({"hosts": listed, "zone": _zone_json(call), "registrations": made.registrations})


def registrations(call: Call) -> Answer:
    """Tell which zone this is, and how often this agent's hosts were registered."""
    found = hosts.registrations(call.zone.store, call.caller, call.query.service)
    return ok({"zone": _zone_json(call), "registrations": found})


def beat(call: Call) -> Answer:
    """Record a heartbeat of this agent."""
    hosts.beat(call.zone, _agent(call), call.body.service, call.body.fence_after_s)
    return no_content()


def instances(call: Call) -> Answer:
    """List what should run on this agent's hosts, what to report as gone, and the consoles to bring.

    Of what should run, parts that the agent knows are left out.
    """
    agent, service = _agent(call), call.query.service
    known = frozenset(call.query.known.split(","))
    work = hosts.unknown(call.zone.store, call.zone.heartbeats, agent, service, known)
    releasing = hosts.releasing(call.zone.store, call.zone.heartbeats, agent, service)
    history = told_by_agents.history(call.zone.store, agent, service)
    asked = hosts.asked_consoles(call.zone.store, call.zone.heartbeats, agent, service)
    return ok(
        {
            "instances": [_instance_json(instance) for instance in work.instances],
            "tags": work.tags,
            "releasing": [{"uuid": one.uuid, "attempt": one.attempt} for one in releasing],
            "consoles": [{"id": one.id, "uuid": one.uuid, "attempt": one.number} for one in asked],
            "kept": [{"uuid": one.uuid, "attempt": one.attempt} for one in history.kept],
            "incarnation": call.zone.incarnation,
            "start": history.start,
        }
    )


def claimed(call: Call) -> Answer:
    """List the claims on this agent's hosts."""
    found = hosts.claimed(call.zone.store, _agent(call), call.query.service)
    return ok(
        {
            "instances": [dict(vars(instance)) for instance in found.instances],
            "booked": [dict(vars(booked)) for booked in found.booked],
        }
    )


def report_excesses(call: Call) -> Answer:
    """Record where this agent counts other amounts than are claimed."""
    hosts.note_excesses(call.zone.store, _agent(call), call.body.service, call.body.to_amounts())
    return no_content()


def report(call: Call) -> Answer:
    """Record which instances run, which failed and which are gone."""
    hosts.report(call.zone, _agent(call), call.body.service, call.body.to_reports())
    return no_content()


def tell_running(call: Call) -> Answer:
    """Take what this agent has, whatever the zone wants of it."""
    told = [item.to_told() for item in call.body.instances]
    first, last = call.body.first, call.body.last
    told_by_agents.take(call.zone, _agent(call), call.body.service, told, is_first=first, is_last=last)
    return no_content()


def bring_console(call: Call) -> Answer:
    """Take the output of a console that was asked for."""
    hosts.take_console(call.zone.store, _agent(call), call.body.service, call.body.id, call.body.to_answer())
    return no_content()


def _zone_json(call: Call) -> dict[str, str]:
    return {"name": call.zone.conf.zone_name, "uuid": call.zone.uuid}


def _agent(call: Call) -> Caller:
    """Return the caller with the id and the home of its agent. Raises BadRequest for one that is none."""
    for header in (AGENT_HEADER, AGENT_HOME_HEADER):
        if not re.fullmatch(f"({UUID})?", call.headers.get(header, "")):
            raise BadRequest(f"{header} must be a UUID.", field=header)
    agent_id, home = call.headers.get(AGENT_HEADER, ""), call.headers.get(AGENT_HOME_HEADER, "")
    return replace(call.caller, agent_id=agent_id, agent_home=home)


def _instance_json(instance: DesiredInstance) -> dict[str, Any]:
    flavor, image = instance.flavor, instance.image
    return {
        "uuid": instance.uuid,
        "attempt": instance.attempt,
        "host": instance.host,
        "name": instance.name,
        "request_id": instance.request_id,
        "reservation_id": instance.reservation_id,
        "status": instance.status.value,
        "desired": _desired_json(instance.desired),
        "observed": _observed_json(instance.observed),
        "leaves_for": instance.leaves_for,
        "moved_from": instance.moved_from,
        "flavor": {
            "id": flavor.id,
            "name": flavor.name,
            "vcpus": flavor.vcpus,
            "ram": flavor.ram_mb,
            "disk": flavor.disk_gb,
            "ephemeral": flavor.ephemeral_gb,
            "swap": flavor.swap_mb,
            "extra_specs": dict(flavor.extra_specs),
        },
        "image": {"id": image.id, "name": image.name, "properties": dict(image.properties)},
    }


def _observed_json(observed: Observed) -> dict[str, Any]:
    """The state of an instance by the last report."""
    return {
        "generation": observed.generation,
        "power": observed.power.value,
        "rebuilds": observed.rebuilds,
    }


def _desired_json(desired: Desired) -> dict[str, Any]:
    """The desired state of an instance."""
    return {
        "generation": desired.generation,
        "power": desired.power.value,
        "reboots": desired.reboots,
        "reboot_type": desired.reboot_type.value,
        "rebuilds": desired.rebuilds,
    }
