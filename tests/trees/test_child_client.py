"""Calls of a parent to a child on the wire, and the reading of the answers."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tests.builders.child_app import Asked, ChildApp, a_child, a_transport, an_info, url
from tests.builders.clock import FakeClock
from tests.builders.wsgi_transport import Dead, LostReply, Replace, Slow, Tamper, WsgiAdapter
from zonesched.errors import ChildUnreachable
from zonesched.model.placement import Attempt, Build, BuildAnswer, BuildState, InstanceChange, InstanceStatus
from zonesched.model.request_spec import Flavor, Image, RequestSpec
from zonesched.model.request_wire import spec_to_wire
from zonesched.seal.entry_form import blob_to_text
from zonesched.zones.client import ChildClient

ONE = "11111111-1111-4111-8111-111111111111"
TWO = "22222222-2222-4222-8222-222222222222"
RESERVATION = "33333333-3333-4333-8333-333333333333"
SPEC = RequestSpec("req-1", "project-1", 2, Flavor("1", "s", 1, 512, 10), Image("1", "cirros"))
BLOB = blob_to_text(bytes(256))
BUILDS = [Build(ONE, 1, (BLOB,)), Build(TWO, 3, (BLOB, BLOB))]
ATTEMPTS = [Attempt(ONE, 1), Attempt(TWO, 3)]
OFFER = {
    "version": 1,
    "weights": [{"weight": 7, "tie": 0, "blob": BLOB}],
    "complete": True,
    "expires_in": 60,
}
SOME_S = 5.0


class Scene:
    """A client, its child, and what is between them."""

    def __init__(self) -> None:
        self.app = ChildApp()
        self.clock = FakeClock()
        self.network = WsgiAdapter()
        self.network.mount(url(), self.app)
        self.client = self.client_of()

    def client_of(self, api_url: str = url() + "/v2.1", **settings: Any) -> ChildClient:
        child = a_child(api_url=api_url)
        return ChildClient(child, a_transport(self.network, self.clock), self.clock, **settings)

    def last(self) -> Asked:
        return self.app.asked[-1]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def a_line(uuid: str, attempt: int, state: str = "held", **changes: Any) -> dict[str, Any]:
    return {"uuid": uuid, "attempt": attempt, "state": state, "hold_s": 20.0, "reason": "", **changes}


CALLS: dict[str, Callable[[ChildClient], Any]] = {
    "info": lambda client: client.info(SOME_S),
    "select": lambda client: client.select(SPEC, SOME_S),
    "build": lambda client: client.build(RESERVATION, SPEC, BUILDS, 30.0, SOME_S),
    "confirm": lambda client: client.confirm(RESERVATION, ATTEMPTS, SOME_S),
    "cancel": lambda client: client.cancel(RESERVATION, ATTEMPTS, SOME_S),
    "delete": lambda client: client.delete_server(ONE, 1, SOME_S),
    "show": lambda client: client.show_server(ONE, SOME_S),
    "changes": lambda client: client.changes("17.a", SOME_S),
}


def fault(call: Callable[[], Any]) -> str:
    with pytest.raises(ChildUnreachable) as failed:
        call()
    assert "SECRET" not in failed.value.message
    return failed.value.code


def test_info_is_asked_for_with_our_credentials_and_nothing_else(scene: Scene) -> None:
    scene.app.answers("GET", "/v2.1/zones/info", 200, an_info())

    info = scene.client.info(SOME_S)

    assert info.blob_size == 256
    sent = scene.network.sent[-1]
    assert (sent.method, sent.url, sent.body) == ("GET", url() + "/v2.1/zones/info", b"")
    assert sent.headers.keys() == {"Authorization", "Content-Type", "X-Zonesched-Role"}
    assert sent.headers["X-Zonesched-Role"] == "parent"
    assert sent.headers["Content-Type"] == "application/json"
    pair = base64.b64decode(sent.headers["Authorization"].removeprefix("Basic ")).decode()
    assert pair == "parent-root:s3cret:\N{SNOWMAN}"


def test_an_api_url_without_version_is_called_at_its_root(scene: Scene) -> None:
    scene.app.answers("GET", "/zones/info", 200, an_info())

    assert scene.client_of(url()).info(SOME_S)


def test_select_sends_the_whole_spec_and_reads_the_offer(scene: Scene) -> None:
    scene.app.answers("POST", "/v2.1/zones/select", 200, OFFER)

    offer = scene.client.select(SPEC, SOME_S)

    assert [tuple(entry) for entry in offer.entries] == [(7, 0, BLOB)]
    assert scene.last().body == {"version": 1, "request_spec": spec_to_wire(SPEC)}


def test_select_takes_no_blobs_beyond_what_the_child_has_told(scene: Scene) -> None:
    scene.app.answers("POST", "/v2.1/zones/select", 200, OFFER)

    assert fault(lambda: scene.client_of(blob_bytes=255).select(SPEC, SOME_S)) == "child_invalid_answer"


def test_build_names_each_instance_with_its_attempt_and_entries(scene: Scene) -> None:
    lines = [a_line(TWO, 3, "failed", hold_s=0, reason="no_free_slots"), a_line(ONE, 1)]
    scene.app.answers("POST", "/v2.1/servers", 202, {"builds": lines})

    found = scene.client.build(RESERVATION, SPEC, BUILDS, 30.0, SOME_S)

    assert found == [
        BuildAnswer(ONE, 1, BuildState.HELD, 20.0),
        BuildAnswer(TWO, 3, BuildState.FAILED, 0.0, "no_free_slots"),
    ]
    assert scene.last().body == {
        "server": {
            "reservation_id": RESERVATION,
            "hold_s": 30.0,
            "builds": [
                {"uuid": ONE, "attempt": 1, "blobs": [BLOB]},
                {"uuid": TWO, "attempt": 3, "blobs": [BLOB, BLOB]},
            ],
        },
        "request_spec": spec_to_wire(SPEC.varied(time_budget_s=SOME_S)),
    }


def test_entries_that_do_not_open_are_failed_builds(scene: Scene) -> None:
    refusal = {
        "badRequest": {"code": 400, "message": "SECRET", "error_code": "blob_refused", "field": "blob"}
    }
    scene.app.answers("POST", "/v2.1/servers", 400, refusal)

    found = scene.client.build(RESERVATION, SPEC, BUILDS, 30.0, SOME_S)

    assert found == [
        BuildAnswer(ONE, 1, BuildState.FAILED, reason="blob_refused"),
        BuildAnswer(TWO, 3, BuildState.FAILED, reason="blob_refused"),
    ]


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (400, {"badRequest": {"code": 400, "error_code": "invalid_value", "message": "SECRET"}}),
        (400, b"blob_refused"),
        (409, {"badRequest": {"error_code": "blob_refused"}}),
    ],
)
def test_any_other_refusal_of_a_build_says_nothing_of_the_builds(
    scene: Scene, status: int, content: Any
) -> None:
    scene.app.answers("POST", "/v2.1/servers", status, content)

    assert fault(lambda: CALLS["build"](scene.client)) == "child_refused"


@pytest.mark.parametrize("step", ["confirm", "cancel"])
def test_confirm_and_cancel_name_attempts_and_are_answered_in_order(scene: Scene, step: str) -> None:
    path = f"/v2.1/reservations/{RESERVATION}/{step}"
    scene.app.answers("POST", path, 200, {"builds": [a_line(TWO, 3, "gone"), a_line(ONE, 1, "confirmed")]})

    found = CALLS[step](scene.client)

    assert [(a.uuid, a.state) for a in found] == [(ONE, BuildState.CONFIRMED), (TWO, BuildState.GONE)]
    assert scene.last().body == {"builds": [{"uuid": ONE, "attempt": 1}, {"uuid": TWO, "attempt": 3}]}


def test_a_server_is_deleted_once_and_then_not_there(scene: Scene) -> None:
    path = f"/v2.1/servers/{ONE}"

    scene.app.answers("DELETE", path, 204)
    deleted = scene.client.delete_server(ONE, 1, SOME_S)
    again = scene.client.delete_server(TWO, 1, SOME_S)

    assert (deleted, again) == (True, False)


def test_a_404_of_anybody_else_does_not_mean_that_an_instance_is_gone(scene: Scene) -> None:
    scene.app.answers("DELETE", f"/v2.1/servers/{ONE}", 404, b"<html>not found</html>")
    scene.app.answers("GET", f"/v2.1/servers/{ONE}", 404, {"message": "no Route matched"})

    assert fault(lambda: scene.client.delete_server(ONE, 1, SOME_S)) == "child_refused"
    assert fault(lambda: scene.client.show_server(ONE, SOME_S)) == "child_refused"


def test_a_server_is_shown_or_not_there(scene: Scene) -> None:
    server = {"id": ONE, "attempt": 2, "status": "ACTIVE", "state": "confirmed", "hostId": "x"}
    scene.app.answers("GET", f"/v2.1/servers/{ONE}", 200, {"server": server})

    assert scene.client.show_server(ONE, SOME_S) == InstanceChange(
        ONE, 2, InstanceStatus.ACTIVE, BuildState.CONFIRMED
    )
    assert scene.client.show_server(TWO, SOME_S) is None


def test_changes_are_asked_for_since_a_cursor(scene: Scene) -> None:
    lines = [{"uuid": ONE, "attempt": 1, "status": "ERROR", "state": "failed", "reason": "no_free_slots"}]
    scene.app.answers("GET", "/v2.1/reservations", 200, {"instances": lines, "cursor": "18.b", "more": False})

    found = scene.client.changes("17.a&more=1", SOME_S)

    assert found.items == (InstanceChange(ONE, 1, InstanceStatus.ERROR, BuildState.FAILED, "no_free_slots"),)
    assert (found.cursor, scene.last().query) == ("18.b", "cursor=17.a%26more%3D1")


def test_a_child_that_does_not_know_the_cursor_is_asked_for_everything(scene: Scene) -> None:
    scene.app.answers("GET", "/v2.1/reservations", 200, {"instances": [], "cursor": "new", "more": False})
    unknown = {"badRequest": {"code": 400, "message": "x", "error_code": "cursor_invalid", "field": "cursor"}}
    scene.network.fault(url(), Replace(times=1, status=400, body=orjson.dumps(unknown)))

    assert scene.client.changes("old", SOME_S).cursor == "new"
    assert scene.last().query == "cursor="


@pytest.mark.parametrize(
    ("status", "code"),
    [
        *((status, "child_refused") for status in (201, 206, 400, 401, 403, 409, 413, 418, 429)),
        *((status, "child_failed") for status in (500, 502, 503, 504)),
    ],
)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_status_that_the_call_does_not_have_is_a_refusal_or_a_failure(
    scene: Scene, call: Callable[[ChildClient], Any], status: int, code: str
) -> None:
    body = b'{"forbidden": {"code": 403, "message": "SECRET", "error_code": "SECRET"}}'
    scene.network.fault(url(), Replace(status=status, body=body, headers={"X-Host": "SECRET"}))

    assert fault(lambda: call(scene.client)) == code


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_each_way_to_give_no_answer_has_its_code(scene: Scene, call: Callable[[ChildClient], Any]) -> None:
    for problem, code in (
        (Dead(), "child_unreachable"),
        (LostReply(), "child_timeout"),
        (Slow(SOME_S), "child_timeout"),
        (Replace(status=302, headers={"Location": "http://SECRET/"}), "child_invalid_answer"),
    ):
        scene.network.fault(url(), problem)
        assert fault(lambda: call(scene.client)) == code
        scene.network.heal(url())


def test_an_answer_that_someone_changes_on_the_way_is_refused(scene: Scene) -> None:
    scene.app.answers("GET", "/v2.1/zones/info", 200, an_info())
    scene.network.fault(url(), Tamper(lambda body: body[:-1]))

    assert fault(lambda: scene.client.info(SOME_S)) == "child_invalid_answer"


def test_an_answer_larger_than_configured_is_refused(scene: Scene) -> None:
    scene.app.answers("GET", "/v2.1/zones/info", 200, an_info(traits=["x" * 200] * 10))

    assert fault(lambda: scene.client_of(answer_bytes=1024).info(SOME_S)) == "child_invalid_answer"


def test_a_client_makes_no_call_beyond_its_end(scene: Scene) -> None:
    scene.app.answers("GET", "/v2.1/zones/info", 200, an_info())
    client = scene.client.within(scene.clock.monotonic() + 3.0)

    scene.network.fault(url(), Slow(2.9))
    assert client.info(SOME_S)
    scene.clock.advance(1.0)
    assert fault(lambda: client.info(SOME_S)) == "child_timeout"
    scene.clock.advance(2.0)
    sent = len(scene.network.sent)
    assert fault(lambda: client.info(SOME_S)) == "child_timeout"
    assert len(scene.network.sent) == sent


def test_a_password_is_not_printed(scene: Scene) -> None:
    assert "s3cret" not in repr(a_child())
