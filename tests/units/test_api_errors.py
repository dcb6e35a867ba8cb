"""Faults become OpenStack's error bodies, and say no more than they should."""

from __future__ import annotations

import logging

import orjson
import pytest
from werkzeug.exceptions import MethodNotAllowed
from werkzeug.exceptions import NotFound as UrlNotFound

from zonesched import errors as faults
from zonesched.api.errors import answer_to, answer_to_crash, answer_to_http
from zonesched.errors import BlobRefused, Kind, Unauthorized, ZoneschedError


def all_faults() -> list[type[ZoneschedError]]:
    """Exceptions with a given message."""
    found: list[type[ZoneschedError]] = [ZoneschedError, *ZoneschedError.__subclasses__()]
    return [kind for kind in found if kind is ZoneschedError or "__init__" not in vars(kind)]


@pytest.mark.parametrize("fault", all_faults(), ids=lambda fault: fault.__name__)
def test_each_fault_has_its_kinds_name_and_status(fault: type[ZoneschedError]) -> None:
    answer = answer_to(fault("what happened", field="server.name"))
    assert answer.status == fault.kind.status
    content = answer.body[fault.kind.body_name]
    assert content["code"] == fault.kind.status
    assert content["message"] == "what happened"
    assert content["error_code"] == fault.code
    assert content["field"] == "server.name"


def test_kinds_and_statuses_are_openstacks() -> None:
    assert {kind.body_name: kind.status for kind in Kind} == {
        "badRequest": 400,
        "unauthorized": 401,
        "forbidden": 403,
        "itemNotFound": 404,
        "badMethod": 405,
        "conflictingRequest": 409,
        "requestTimeout": 408,
        "requestEntityTooLarge": 413,
        "requestURITooLong": 414,
        "expectationFailed": 417,
        "overLimit": 429,
        "requestHeadersTooLarge": 431,
        "clientClosedRequest": 499,
        "computeFault": 500,
        "serviceUnavailable": 503,
    }


def test_a_code_of_its_own_is_told() -> None:
    answer = answer_to(faults.Conflict("no", code="idempotency_key_reused"))
    assert answer.body["conflictingRequest"]["error_code"] == "idempotency_key_reused"


def test_missing_credentials_are_asked_for() -> None:
    assert answer_to(Unauthorized("who?")).headers["WWW-Authenticate"].startswith("Basic ")


def test_all_reasons_of_a_refused_blob_look_alike(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        answers = [answer_to(BlobRefused(reason)) for reason in ("expired", "unknown key", "used")]
    assert len({orjson.dumps([a.status, a.body, a.headers]) for a in answers}) == 1
    assert answers[0].status == 400
    assert answers[0].body["badRequest"]["error_code"] == "blob_refused"
    assert "unknown key" in caplog.text


def test_a_crash_tells_nothing_of_itself(caplog: pytest.LogCaptureFixture) -> None:
    answer = answer_to_crash(RuntimeError("host-17 at 10.1.2.3"), "req-1")
    assert answer.status == 500
    assert b"host-17" not in orjson.dumps(answer.body)
    assert answer.body["computeFault"]["error_code"] == "internal_error"
    assert "req-1" in caplog.text


def test_an_unknown_url_and_method_have_the_same_form() -> None:
    unknown = answer_to_http(UrlNotFound(), "req-1")
    assert unknown.body["itemNotFound"]["error_code"] == "url_unknown"
    refused = answer_to_http(MethodNotAllowed(valid_methods=["POST", "GET"]), "req-1")
    assert (refused.status, refused.headers["Allow"]) == (405, "GET, POST")
    assert refused.body["badMethod"]["error_code"] == "method_unknown"
