"""Inputs of the API's targets: any method, path, query, headers and body, by a user of any role."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from benchmarks.fuzzing import hostile
from benchmarks.fuzzing.schema_values import values_of
from benchmarks.fuzzing.site import PARENT, PASSWORD, PERSON, RESERVATION, ROLES, UNKNOWN, a_build, a_request
from zonesched.api.route import Route
from zonesched.api.urls import URLS
from zonesched.model.caller import Role
from zonesched.model.request_wire import spec_to_wire

ROLE_OF = {"admin": Role.ADMIN, "compute": Role.COMPUTE, PARENT: Role.PARENT, "member": Role.MEMBER}


@dataclass(frozen=True)
class ApiCall:
    """One request as bytes and texts. `user`: whose credentials it has, "" for none."""

    user: str
    method: str
    path: str
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)

    @property
    def input_bytes(self) -> int:
        return len(self.path) + len(self.body) + sum(len(name) + len(value) for name, value in self.headers)

    @property
    def hashes_password(self) -> bool:
        return ("/users" in self.path and b"password" in self.body) or self.user == PERSON


WORDS = (
    "small",
    "linux",
    "fast",
    "group",
    "agent",
    "az1",
    "nova-compute",
    "secret-host-a",
    "project-1",
    "1",
    "2",
)
IDS = (*WORDS, RESERVATION, UNKNOWN, PERSON, *ROLES)

_SERVER = {"name": "vm", "flavorRef": "small", "imageRef": "linux"}
_QUERY = ["and", [">=", "$free_ram_mb", 1024], ["in", "$capabilities.kind", "a", "b"]]
_HOST = {
    "name": "h1",
    "address": "10.0.0.9",
    "availability_zone": "az1",
    "inventories": {
        "VCPU": {"total": 8, "reserved": 1, "allocation_ratio": 2.0},
        "MEMORY_MB": {"total": 4096},
    },
    "capabilities": {"kind": "b", "cpu_info": '{"features": ["aes"]}', "hypervisor_version": 2012000},
    "traits": ["SSD"],
    "metrics": {"load": 0.5},
}
_REPORT = {"uuid": UNKNOWN, "attempt": 1, "state": "active"}

EXAMPLES: Mapping[str, Sequence[Any]] = {
    "BootBody": [
        {"server": _SERVER, "dry_run": True},
        {
            "server": {**_SERVER, "num_instances": 3, "filters": ["JSONFilter"]},
            "os:scheduler_hints": {"query": _QUERY},
        },
        {"server": _SERVER, "os:scheduler_hints": {"build_near_host_ip": "10.9.8.1", "cidr": "/24"}},
        {
            "server": _SERVER,
            "os:scheduler_hints": {"force_hosts": ["secret-host-a"]},
            "dry_run": True,
            "record": True,
        },
        {"server": {**_SERVER, "min_count": 1, "max_count": 2}, "os:scheduler_hints": {"group": "group"}},
        {"server": {**_SERVER, "enabled_filters": ["ComputeFilter", "RamFilter"]}, "dry_run": True},
    ],
    "CreateBody": [
        {"server": {**_SERVER, "min_count": 1, "max_count": 2, "metadata": {"a": "b"}, "networks": "auto"}},
        {
            "server": {**_SERVER, "user_data": "YQ==", "tags": ["x"]},
            "os:scheduler_hints": {"same_host": [UNKNOWN]},
        },
    ],
    "SelectBody": [{"version": 1, "request_spec": spec_to_wire(a_request(alternates=2))}],
    "BuildBody": [a_build(("AAAA",))],
    "AttemptsBody": [{"builds": [{"uuid": "11111111-1111-4111-8111-000000000001", "attempt": 1}]}],
    "RegisterBody": [{"service": "agent", "hosts": [_HOST]}],
    "ReportsBody": [{"service": "agent", "reports": [_REPORT, {**_REPORT, "state": "error", "reason": "x"}]}],
    "FlavorBody": [
        {"flavor": {"name": "big", "vcpus": 2, "ram": 64, "disk": 1, "extra_specs": {"kind": "<in> a"}}}
    ],
    "ExtraSpecsBody": [
        {"extra_specs": {"capabilities:cpu_info:features": "<in> aes", "resources:CUSTOM_X": "1"}}
    ],
    "AggregateActionBody": [
        {
            "set_metadata": {
                "metadata": {"ram_weight_multiplier": "2", "cpu_allocation_ratio": "1.5", "kind": "a"}
            }
        },
        {
            "set_metadata": {
                "metadata": {"filter_tenant_id": "a,b", "max_io_ops_per_host": "3", "os_distro": "x"}
            }
        },
        {"add_host": {"host": "secret-host-a"}},
    ],
    "UserBody": [{"user": {"name": "new", "role": "member", "project_id": "p", "password": "x"}}],
    "AddZoneBody": [
        {"zone": {"name": "z", "api_url": "http://127.0.0.1:7002", "username": "u", "password": "p"}},
    ],
}


@cache
def bodies_of(route: Route) -> SearchStrategy[Any]:
    """Bodies of a call: valid ones of its schema, and those that the zone can act on, all mutated."""
    assert route.body is not None
    valid = values_of(route.body.model_json_schema())
    known = EXAMPLES.get(route.body.__name__, ())
    return hostile.mutated(_mostly(st.sampled_from(known), valid) if known else valid, IDS)


@st.composite
def _mostly(draw: DrawFn, usual: SearchStrategy[Any], other: SearchStrategy[Any]) -> Any:
    return draw(usual if draw(st.integers(0, 3)) else other)


@st.composite
def calls(draw: DrawFn, routes: Sequence[Route] = URLS) -> ApiCall:
    """A call of the table, of which anything may be wrong."""
    route = draw(st.sampled_from(routes))
    is_usual = draw(st.integers(0, 9)) > 0
    user = (
        draw(st.sampled_from(_users_of(route))) if is_usual else draw(st.sampled_from((*ROLES, PERSON, "")))
    )
    method = (
        route.method
        if draw(st.integers(0, 19))
        else draw(st.sampled_from(("GET", "HEAD", "PATCH", "OPTIONS")))
    )
    path = draw(st.sampled_from(route.mounts)) + route.path
    for part in ("{id}", "{name}", "{key}"):
        if part in path:
            path = path.replace(
                part, quote(draw(_ids), safe="" if draw(st.booleans()) else "/", errors="surrogatepass")
            )
    body = b""
    if route.body is not None:
        body = draw(hostile.json_bytes(bodies_of(route)))
    elif not draw(st.integers(0, 9)):
        body = draw(st.binary(max_size=50))
    return ApiCall(user, method, path + draw(_queries(route)), body, draw(_headers))


_ids = st.sampled_from(IDS) | hostile.words


def _users_of(route: Route) -> list[str]:
    return [user for user, role in ROLE_OF.items() if role in route.roles] or ["reader"]


@st.composite
def _queries(draw: DrawFn, route: Route) -> str:
    if draw(st.integers(0, 3)) and not route.query.model_fields:
        return ""
    valid = values_of(route.query.model_json_schema())
    pairs = [(str(name), _as_word(value)) for name, value in draw(valid).items()]
    if not draw(st.integers(0, 2)):
        pairs.append((draw(st.sampled_from([*route.query.model_fields, "x"])), draw(hostile.words)))
    if not draw(st.integers(0, 9)):
        return "?" + draw(
            st.sampled_from(("&&&", "=", "%", "%ff", "a=1&a=2", ";", "a[]=1", "&" * 3000, "a&" * 3000))
        )
    return "?" + "&".join(
        f"{quote(a, errors='surrogatepass')}={quote(b, errors='surrogatepass')}" for a, b in pairs
    )


def _as_word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_header_texts = st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\0"), max_size=30)
_JSON_TYPE = ("Content-Type", "application/json")
_odd_headers = st.tuples(
    st.sampled_from(
        (
            "Content-Type",
            "Accept",
            "Host",
            "X-Forwarded-Host",
            "Idempotency-Key",
            "X-Openstack-Request-Id",
            "X-Zonesched-Role",
            "OpenStack-API-Version",
            "X-OpenStack-Nova-API-Version",
            "Content-Length",
            "Accept-Encoding",
            "Cookie",
            "Range",
            "If-None-Match",
        )
    ),
    st.sampled_from(
        (
            "application/json; charset=utf-16",
            "text/plain",
            "req-11111111-1111-4111-8111-111111111111",
            "compute 2.1",
            "compute 99999999999.1",
            "latest",
            "-1",
            "a, b;q=x",
            "a" * 300,
            "[::1]:x",
            "exa mple:1",
        )
    )
    | _header_texts,
)
_headers = st.lists(_odd_headers, max_size=3).map(lambda odd: (_JSON_TYPE, *odd)) | st.just((_JSON_TYPE,))


@st.composite
def signed_calls(draw: DrawFn) -> ApiCall:
    """A call with any Authorization header."""
    pairs = st.builds(
        lambda user, colon, secret: (user + colon + secret).encode("utf-8", "surrogatepass"),
        st.sampled_from((*ROLES, PERSON, "nobody")) | hostile.words,
        st.sampled_from((":", "", "::")),
        st.sampled_from((PASSWORD, "wrong")) | hostile.words,
    )
    coded = (pairs | st.binary(max_size=40)).map(lambda pair: base64.b64encode(pair).decode())
    schemes = st.sampled_from(("Basic", "basic", "BASIC", "Bearer", "Digest", ""))
    value = draw(st.builds("{} {}".format, schemes, coded | _header_texts) | _header_texts)
    return ApiCall("", "GET", "/zones/info", headers=(("Authorization", value),))
