"""Calls of agents and commands have on the wire the form that a session of requests gives them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pytest
import requests
from requests.adapters import BaseAdapter

from zonesched.compute.connection import ZoneConnection, ZoneUnavailable


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


def test_a_redirect_is_not_followed() -> None:
    adapter = Recording(status=302)
    with pytest.raises(ZoneUnavailable, match="redirect"):
        ZoneConnection("http://zone", "", "", adapter=adapter).call("GET", "/servers")
    assert len(adapter.sent) == 1
