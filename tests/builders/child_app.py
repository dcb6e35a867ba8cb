"""A child zone that says what a test tells it to: a WSGI application with one answer per call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from tests.builders.clock import FakeClock
from tests.builders.wsgi_transport import WsgiAdapter
from zonesched.zones.address import AddressGuard
from zonesched.zones.child import Child
from zonesched.zones.networks import Networks
from zonesched.zones.transport import HttpTransport

UUID = "aaaaaaaa-0000-4000-8000-{:012d}"


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    query: str
    body: Any


class ChildApp:
    """Answers by (method, path); what it has no answer for is a 404 in a zone's own form."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._answers: dict[tuple[str, str], tuple[int, bytes]] = {}

    def answers(self, method: str, path: str, status: int, content: Any = None) -> None:
        """From now on this call gets this status and this content (as JSON, unless it is bytes)."""
        body = content if isinstance(content, bytes) else orjson.dumps(content)
        self._answers[method, path] = (status, b"" if content is None else body)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        body = environ["wsgi.input"].read()
        self.asked.append(Asked(method, path, environ["QUERY_STRING"], orjson.loads(body) if body else None))
        none = (404, b'{"itemNotFound": {"code": 404, "message": "x", "error_code": "instance_not_found"}}')
        status, content = self._answers.get((method, path), none)
        start_response(f"{status} X", [("Content-Type", "application/json")])
        return [content]


def an_info(number: int = 1, **changes: Any) -> dict[str, Any]:
    """Info of the child with this number."""
    zone = {
        "name": "region",
        "uuid": UUID.format(number),
        "zone_capabilities": ["tier=gold;silver"],
        "services": {"compute": {"VCPU": "4,16", "MEMORY_MB": "4096,32768", "DISK_GB": "100,500"}},
        "weighers": {"RAMWeigher": "512.0,32768.0"},
        "traits": ["HW_SSD", "HW_GPU"],
        "availability_zones": ["az1"],
        "blob_size": 256,
        "can_seal": True,
        "complete": True,
    }
    return {"zone": {**zone, **changes}}


def a_child(number: int = 1, **changes: Any) -> Child:
    """A registered child of this number; its URL is the one that `url` gives."""
    given = {"id": UUID.format(number), "name": "region", "api_url": url(number) + "/v2.1"}
    return Child(**{**given, "username": "parent-root", "password": "s3cret:\N{SNOWMAN}", **changes})


def url(number: int = 1) -> str:
    return f"http://127.0.0.1:{7000 + number}"


def a_transport(network: WsgiAdapter, clock: FakeClock) -> HttpTransport:
    """The real transport over a network in this process."""
    guard = AddressGuard(Networks.from_words(["loopback"]))
    return HttpTransport(network, clock, guard, lambda name, timeout_s: [])
