"""Headers of an answer are those that werkzeug would send."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Response

from tests.builders.wsgi_transport import answer_of, environ_of
from zonesched.api.answer import Answer


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("status", [200, 202, 204, 304, 404])
@pytest.mark.parametrize("body", [None, {"server": {}}, b"ready-made"])
@pytest.mark.parametrize("headers", [{}, {"location": "/v2.1/servers/1"}, {"Content-Location": "/ä"}])
def test_headers_are_complete(method: str, status: int, body: Any, headers: dict[str, str]) -> None:
    response = Answer(status, body, headers).to_response()
    expected = Response(response.get_data(), status=status)
    expected.headers = response.headers.copy()

    environ = environ_of(method, "http://zone:7001/v2.1/servers", {}, b"")
    assert answer_of(response, environ) == answer_of(expected, environ)
