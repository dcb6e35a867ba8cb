"""Headers of the OpenAPI description: which ones a call reads, and which ones every answer has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zonesched import tracing
from zonesched.api.microversion import HEADER, LATEST, NEWEST, OLDER_HEADER, OLDEST, SERVICE
from zonesched.api.reservations import TIME_BUDGET
from zonesched.api.route import Route
from zonesched.api.schemas.builds import AttemptsBody
from zonesched.api.schemas.fields import UUID
from zonesched.api.schemas.hosts import (
    BeatBody,
    ConsoleBody,
    ExcessesBody,
    InstancesQuery,
    RegisterBody,
    ReportsBody,
    RunningBody,
    ServiceQuery,
)
from zonesched.api.schemas.servers import BootBody, CreateBody
from zonesched.api.servers import IDEMPOTENCY_KEY
from zonesched.model.caller import AGENT_HEADER, AGENT_HOME_HEADER, Role
from zonesched.zones.client import BUDGET_HEADER, ROLE_HEADER

PARAMETERS = "#/components/parameters/"
HEADERS = "#/components/headers/"
_BY_AGENTS: frozenset[Any] = frozenset(
    {
        RegisterBody,
        BeatBody,
        ServiceQuery,
        InstancesQuery,
        ReportsBody,
        RunningBody,
        ConsoleBody,
        ExcessesBody,
    }
)
READ_WITH: Mapping[str, frozenset[Any]] = {
    "IdempotencyKey": frozenset({CreateBody, BootBody}),
    "TimeBudget": frozenset({AttemptsBody}),
    "Agent": _BY_AGENTS,
    "AgentHome": _BY_AGENTS,
}  # fmt: skip
"""Headers that only some calls read, with the bodies or queries of these calls."""
_VERSION = r"2\.[1-9][0-9]?"
_VERSIONS = f"{OLDEST} to {NEWEST}, or {LATEST}"


def parameters(*, with_users: bool) -> Mapping[str, Any]:
    """Return the headers that calls read, as components by name; `noauth` zones read a role as well."""
    found = {
        "Microversion": _parameter(
            HEADER,
            f"The version of the answer: {SERVICE} {_VERSIONS}. Without one: {OLDEST}.",
            {"type": "string", "pattern": f"^{SERVICE} ({_VERSION}|{LATEST})$"},
        ),
        "OlderMicroversion": _parameter(
            OLDER_HEADER,
            f"{_VERSIONS}; read where {HEADER} does not name {SERVICE}.",
            {"type": "string", "pattern": f"^({_VERSION}|{LATEST})$"},
        ),
        "RequestId": _parameter(
            tracing.HEADER,
            "An id for the logs of all zones; one of another form is replaced.",
            {"type": "string", "pattern": _whole(tracing.ACCEPTED.pattern)},
        ),
        "IdempotencyKey": _parameter(
            "Idempotency-Key",
            "A repeat with the key of an earlier call of the project is answered like that call.",
            {"type": "string", "pattern": _whole(IDEMPOTENCY_KEY.pattern)},
        ),
    }
    found["TimeBudget"] = _parameter(
        BUDGET_HEADER,
        "Seconds that the parent waits; child zones that take longer are not waited for.",
        {"type": "string", "pattern": _whole(TIME_BUDGET.pattern)},
    )
    found["Agent"] = _parameter(
        AGENT_HEADER,
        "The id that the agent keeps in its state folder: a service belongs to one agent.",
        {"type": "string", "pattern": UUID},
    )
    found["AgentHome"] = _parameter(
        AGENT_HOME_HEADER,
        "That folder on this boot of its machine: a copy of it has another one.",
        {"type": "string", "pattern": UUID},
    )
    if not with_users:
        roles = {"type": "string", "enum": [role.value for role in Role]}
        found["Role"] = _parameter(ROLE_HEADER, "The role to make the call in.", roles)
    return found


def read_by_all(*, with_users: bool) -> Sequence[Mapping[str, str]]:
    """Return references to the headers that every call reads."""
    names = [name for name in parameters(with_users=with_users) if name not in READ_WITH]
    return [{"$ref": PARAMETERS + name} for name in names]


def read_by(routes: Sequence[Route]) -> Sequence[Mapping[str, str]]:
    """Return references to the headers that only these calls read."""
    return [
        {"$ref": PARAMETERS + name}
        for name, bodies in READ_WITH.items()
        if any(route.body in bodies or route.query in bodies for route in routes)
    ]


ANSWERED = {
    "x-openstack-request-id": "RequestId",
    "x-compute-request-id": "RequestId",
    HEADER: "Microversion",
    OLDER_HEADER: "OlderMicroversion",
    "Vary": "Vary",
}
"""Headers of every answer, with the names of their components."""


LOCATED = frozenset({
    ("POST", "/servers", 202),
    ("POST", "/servers/{id}/action", 202),
    ("PUT", "/servers/{id}/tags/{tag}", 201),
})  # fmt: skip
"""Answers that may have a `Location`, by method, path and status."""


def answered() -> Mapping[str, Any]:
    """Return the headers that every answer has, as references to components."""
    return {header: {"$ref": HEADERS + name} for header, name in ANSWERED.items()}


def answered_by(route: Route, status: int) -> Mapping[str, Any]:
    """Return the headers of one answer of a call."""
    if (route.method, route.path, status) not in LOCATED:
        return answered()
    location = "The URL of what was made; of several instances, of the first. Not with a `reservation_id`."
    return {**answered(), "Location": {"description": location, "schema": {"type": "string"}}}


def answered_by_faults() -> Mapping[str, Any]:
    """Return the headers that a fault's answer has, or may have."""
    return {
        **answered(),
        "Retry-After": {"description": "Seconds, where a limit is why.", "schema": {"type": "integer"}},
        "WWW-Authenticate": {"description": "With 401.", "schema": {"type": "string"}},
        "Allow": {"description": "With 405.", "schema": {"type": "string"}},
    }


def components() -> Mapping[str, Any]:
    """Return the headers of every answer, as components by name."""
    return {
        "RequestId": _header(
            "The id of the request, as in the zone's log.", _whole(tracing.ACCEPTED.pattern)
        ),
        "Microversion": _header("The version of the answer.", f"^{SERVICE} {_VERSION}$"),
        "OlderMicroversion": _header("The version of the answer.", f"^{_VERSION}$"),
        "Vary": _header("The headers that choose the answer.", f"^{HEADER}, {OLDER_HEADER}(, Origin)?$"),
    }


def _parameter(name: str, description: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


def _header(description: str, pattern: str) -> Mapping[str, Any]:
    return {"description": description, "required": True, "schema": {"type": "string", "pattern": pattern}}


def _whole(pattern: str) -> str:
    return f"^{pattern}$"
