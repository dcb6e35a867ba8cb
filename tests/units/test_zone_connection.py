"""Calls of agents and commands have on the wire the form that a session of requests gives them."""

from __future__ import annotations

import io
import ipaddress
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import requests
from cryptography import x509
from requests.adapters import BaseAdapter

from tests.builders.raw_server import (
    HEAD_OF_1000,
    Authority,
    Conversation,
    RawServer,
    drips_its_body,
    drips_its_head,
)
from tests.builders.stub_zone import fault
from zonesched.compute import connection
from zonesched.compute.connection import ZoneConnection, ZoneRefused, ZoneUnavailable

LOOPBACK = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))


class Recording(BaseAdapter):
    """Answers each request with the same status and body."""

    def __init__(self, status: int = 200, body: bytes = b"{}") -> None:
        super().__init__()
        self.sent: list[requests.PreparedRequest] = []
        self._status, self._body = status, body

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        self.sent.append(request)
        response = requests.Response()
        response.status_code = self._status
        response.raw = io.BytesIO(self._body)
        return response

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("method", "path", "body", "params", "headers"),
    [
        ("GET", "/servers", None, None, None),
        ("get", "/servers", None, {"limit": 3, "name": "a b&ü"}, None),
        ("GET", "/flavors/ä b%2F", None, None, {"OpenStack-API-Version": "compute 2.1"}),
        ("POST", "/servers", {"server": {"name": "ü", "count": 1.5}}, None, {"Idempotency-Key": "k"}),
        ("POST", "/servers", {}, None, None),
        ("DELETE", "/servers/1", None, {"attempt": 1}, None),
    ],
)
@pytest.mark.parametrize("url", ["http://127.0.0.1:7001", "http://zöne/prefix/", "http://me:secret@zone"])
def test_a_call_is_sent_as_a_session_would_send_it(
    url: str,
    method: str,
    path: str,
    body: Mapping[str, Any] | None,
    params: Mapping[str, str | int] | None,
    headers: Mapping[str, str] | None,
) -> None:
    adapter = Recording()
    ZoneConnection(url, "admin", "pass", adapter=adapter).call(method, path, body, params, headers)

    session = requests.Session()
    session.headers["OpenStack-API-Version"] = "compute latest"
    session.headers["Authorization"] = "Basic YWRtaW46cGFzcw=="
    whole = url.rstrip("/") + "/v2.1" + path
    expected = session.prepare_request(
        requests.Request(method, whole, json=body, params=params, headers=headers)
    )
    (sent,) = adapter.sent
    assert (sent.method, sent.url, sent.body) == (expected.method, expected.url, expected.body)
    assert dict(sent.headers.lower_items()) == dict(expected.headers.lower_items())


def test_an_answer_that_is_no_json_is_none_of_a_zone() -> None:
    connection = ZoneConnection("http://zone", "", "", adapter=Recording(body=b"<html>"))
    with pytest.raises(ZoneUnavailable, match="not JSON"):
        connection.call("GET", "/servers")


@pytest.mark.parametrize("talk", [drips_its_head, drips_its_body])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_call_ends_in_time_however_slowly_the_zone_answers(
    tmp_path: Path, scheme: str, talk: Callable[[Conversation], None]
) -> None:
    authority = Authority(tmp_path) if scheme == "https" else None
    context = authority.server_context(LOOPBACK) if authority else None
    with RawServer(talk, context) as server:
        zone = ZoneConnection(server.url, "", "", 0.2, cacert=str(authority.ca_file) if authority else "")
        started = time.monotonic()
        with pytest.raises(ZoneUnavailable, match=r"did not answer within 0\.2 s"):
            zone.call("GET", "/servers")
        assert time.monotonic() - started < 0.7


def test_an_answer_that_breaks_off_does_not_blame_the_url() -> None:
    def talk(peer: Conversation) -> None:
        peer.read_request()
        peer.say(HEAD_OF_1000 + b"{}")

    with RawServer(talk) as server, pytest.raises(ZoneUnavailable, match="broke off its answer"):
        ZoneConnection(server.url, "", "").call("GET", "/servers")


def test_an_answer_larger_than_any_of_a_zone_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_ANSWER_BYTES", 100)
    adapter = Recording(body=b"[" + b"1," * 50 + b"1]")
    with pytest.raises(ZoneUnavailable, match="more than 100 bytes"):
        ZoneConnection("http://zone", "", "", adapter=adapter).call("GET", "/servers")


def test_an_error_whose_message_would_fill_a_log_is_told_by_its_status() -> None:
    _, body = fault(400, "invalid_value", "m" * 100_000)
    adapter = Recording(400, json.dumps(body).encode())
    with pytest.raises(ZoneRefused) as refused:
        ZoneConnection("http://zone", "", "", adapter=adapter).call("GET", "/servers")
    assert (refused.value.status, refused.value.code, refused.value.message) == (400, "", "status 400")


def test_a_redirect_is_not_followed() -> None:
    adapter = Recording(status=302)
    with pytest.raises(ZoneUnavailable, match="redirect"):
        ZoneConnection("http://zone", "", "", adapter=adapter).call("GET", "/servers")
    assert len(adapter.sent) == 1
