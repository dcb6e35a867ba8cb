"""Usage of projects in the form of OpenStack Nova's os-simple-tenant-usage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.errors import BadRequest, NotFound
from zonesched.model.caller import Role
from zonesched.model.openstack_time import zoneless_time
from zonesched.model.placement import InstanceStatus
from zonesched.model.vm_state import vm_state
from zonesched.services.owners import server_usage
from zonesched.services.owners.server_usage import InstanceUsage, UsageQuery

PAGED = 40
"""Microversion: with pages."""

MOST_AT_ONCE = 20_000
"""Instances in an answer to a client that knows no pages."""

PERIOD_S = 28 * 86_400
DAY_S = 86_400

TERMINATED = "terminated"
"""State of an instance that was deleted."""


def list_all(call: Call) -> Answer:
    """List the usage of all projects, for an admin."""
    query = _query(call, "")
    found, marker = _read(call, query)
    usages = [
        _json(query, project, list(some), with_servers=call.query.detailed)
        for project, some in groupby(found, lambda usage: usage.project_id)
    ]
    return ok({"tenant_usages": usages, **_next_page(call, "tenant_usages_links", marker)})


def show(call: Call) -> Answer:
    """Show the usage of one project; a member sees that of their own."""
    project = call.args["id"]
    if call.caller.role is not Role.ADMIN and project != call.caller.project_id:
        # As for whatever else is another project's: a caller does not learn whether it exists.
        raise NotFound("The caller has no such project.", code="project_not_found", field="id")
    query = _query(call, project)
    found, marker = _read(call, query)
    usage = _json(query, project, found, with_servers=True) if found else {}
    return ok({"tenant_usage": usage, **_next_page(call, "tenant_usage_links", marker)})


def _query(call: Call, project: str) -> UsageQuery:
    asked, now = call.query, call.zone.clock.now()
    end = asked.end_s() or now + DAY_S
    return UsageQuery(project, asked.start_s() or end - PERIOD_S, end, asked.marker, asked.limit)


def _read(call: Call, query: UsageQuery) -> tuple[list[InstanceUsage], str]:
    """Read a page, or all pages for a client that knows none, and the marker of the next one.

    Raises BadRequest where these are too many: a part would be taken for the whole usage.
    """
    found, marker = server_usage.read(call.zone, query)
    if call.version.has(PAGED) or call.query.model_fields_set & {"limit", "marker"}:
        return found, marker
    # Before all of these are read.
    if marker and server_usage.has_more_than(call.zone, query, MOST_AT_ONCE):
        message = f"More than {MOST_AT_ONCE} servers: ask for pages, with the microversion 2.{PAGED}."
        raise BadRequest(message, code="too_many_servers", field="limit")
    while marker:
        more, marker = server_usage.read(call.zone, replace(query, marker=marker))
        found += more
    return found, ""


def _next_page(call: Call, name: str, marker: str) -> dict[str, Any]:
    return {name: call.links.next_page(marker)} if marker and call.version.has(PAGED) else {}


def _json(
    query: UsageQuery, project: str, found: Sequence[InstanceUsage], *, with_servers: bool
) -> dict[str, Any]:
    def total(amount: Callable[[InstanceUsage], float]) -> float:
        return sum(usage.hours * amount(usage) for usage in found)

    servers = {"server_usages": [_server_json(usage) for usage in found]} if with_servers else {}
    return {
        "tenant_id": project,
        "start": zoneless_time(query.start),
        "stop": zoneless_time(query.end),
        "total_hours": total(lambda usage: 1),
        "total_vcpus_usage": total(lambda usage: usage.flavor.vcpus),
        "total_memory_mb_usage": total(lambda usage: usage.flavor.ram_mb),
        "total_local_gb_usage": total(_local_gb),
        **servers,
    }


def _server_json(usage: InstanceUsage) -> dict[str, Any]:
    is_deleted = usage.status is InstanceStatus.DELETED
    return {
        "instance_id": usage.uuid,
        "name": usage.name,
        "tenant_id": usage.project_id,
        "flavor": usage.flavor.name,
        "vcpus": usage.flavor.vcpus,
        "memory_mb": usage.flavor.ram_mb,
        "local_gb": _local_gb(usage),
        "hours": usage.hours,
        "uptime": int(usage.uptime_s),
        "started_at": zoneless_time(usage.created_at),
        "ended_at": zoneless_time(usage.ended_at) if usage.ended_at else None,
        "state": TERMINATED if is_deleted else vm_state(usage.status, usage.state),
    }


def _local_gb(usage: InstanceUsage) -> int:
    return usage.flavor.disk_gb + usage.flavor.ephemeral_gb
