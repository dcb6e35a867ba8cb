"""The profile of one request: an admin gets it, nobody else, and it is bounded."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from tests.builders.clock import FakeClock
from tests.builders.tree import Node, Tree, a_host
from zonesched.api.answer import NO_CONTENT, Answer, no_content, ok
from zonesched.api.profile import HEADER, MAX_FUNCTIONS, Profile, Profiling
from zonesched.errors import Conflict

pytestmark = pytest.mark.once

WANTED = {HEADER: "true"}
FLAVOR = {"flavor": {"name": "small", "vcpus": 1, "ram": 64, "disk": 1}}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    tree = Tree(tmp_path)
    tree.add("root")
    return tree.add("leaf", parent="root", hosts_=[a_host("h1")])


def test_an_admin_gets_the_time_by_function_beside_the_answer(node: Node) -> None:
    client = node.client()

    reply = client.post("/flavors", FLAVOR, headers=WANTED)

    assert reply.status == 200
    assert reply.json["answer"]["flavor"]["name"] == "small"
    named = {line["function"]: line for line in reply.json["profile"]["functions"]}
    assert any(name.startswith("zonesched.") for name in named)
    assert all(line["calls"] > 0 and line["total_ms"] >= 0 for line in named.values())
    assert len(named) == MAX_FUNCTIONS
    assert reply.json["profile"]["omitted"] > 0
    assert sys.getprofile() is None
    assert "flavors" in client.get("/flavors").json


def test_answers_of_every_kind_are_beside_it(node: Node) -> None:
    client = node.client()
    client.post("/flavors", FLAVOR)
    [flavor] = client.get("/flavors").json["flavors"]

    text = client.call("GET", "/metrics", headers=WANTED)
    nothing = client.call("DELETE", f"/flavors/{flavor['id']}", headers=WANTED)

    assert "zonesched_build_info" in text.json["answer"]
    assert text.headers["Content-Type"] == "application/json"
    assert (nothing.status, nothing.json["answer"]) == (200, None)
    assert client.get("/flavors").json == {"flavors": []}


@pytest.mark.parametrize("user", ["member", "reader", "parent-root", "compute", "monitor"])
def test_nobody_else_may_ask(node: Node, user: str) -> None:
    path = {"parent-root": "/zones/info", "compute": "/hosts/instances?service=s", "monitor": "/metrics"}
    for given in ("true", "false"):
        reply = node.client(user).call("GET", path.get(user, "/flavors"), headers={HEADER: given})

        assert (reply.status, reply.json["forbidden"]["error_code"]) == (403, "role_forbidden")
        assert reply.json["forbidden"]["field"] == HEADER


def test_without_credentials_it_is_not_read(node: Node) -> None:
    stranger = node.client("")

    assert stranger.call("GET", "/health", headers=WANTED).json == stranger.get("/health").json
    assert stranger.call("GET", "/flavors", headers=WANTED).status == 401


def test_another_value_is_refused(node: Node) -> None:
    reply = node.client().call("POST", "/flavors", FLAVOR, headers={HEADER: "much"})

    assert (reply.status, reply.json["badRequest"]["field"]) == (400, HEADER)
    assert node.client().get("/flavors").json == {"flavors": []}


def test_a_refused_call_has_no_profile_and_leaves_none_running(node: Node) -> None:
    client = node.client()

    refused = client.post("/flavors", {"flavor": {}}, headers=WANTED)

    assert (refused.status, "profile" in refused.json) == (400, False)
    assert sys.getprofile() is None
    assert "profile" in client.call("GET", "/flavors", headers=WANTED).json


class Work:
    """Functions that take known times of a fake clock."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    def whole(self) -> None:
        self._clock.advance(1.0)
        self.part()
        self.part()

    def part(self) -> None:
        self._clock.advance(2.0)

    def again(self, times: int) -> None:
        self._clock.advance(1.0)
        if times > 1:
            self.again(times - 1)

    def fail(self) -> None:
        self.part()
        raise ValueError


def profile_of(clock: FakeClock) -> tuple[Profile, Work]:
    return Profile(clock.monotonic), Work(clock)


def took(profile: Profile, name: str) -> tuple[int, float, float]:
    [cost] = [cost for function, cost in profile.costs() if function == f"{__name__}.Work.{name}"]
    return cost.calls, cost.own_s, cost.total_s


def test_own_time_is_without_that_of_callees() -> None:
    profile, work = profile_of(FakeClock())

    with profile.record():
        work.whole()

    # The time passes in FakeClock.advance.
    assert took(profile, "whole") == (1, 0.0, 5.0)
    assert took(profile, "part") == (2, 0.0, 4.0)
    [(name, cost), *_] = profile.costs()
    assert (name.rpartition(".")[2], cost.own_s) == ("advance", 5.0)
    assert profile.seconds == 5.0


def test_a_function_that_calls_itself_counts_its_time_once() -> None:
    profile, work = profile_of(FakeClock())

    with profile.record():
        work.again(3)

    assert took(profile, "again") == (3, 0.0, 3.0)


def test_what_fails_is_counted_and_the_recording_ends() -> None:
    profile, work = profile_of(FakeClock())

    with pytest.raises(ValueError), profile.record():
        work.fail()

    assert took(profile, "fail") == (1, 0.0, 2.0)
    assert sys.getprofile() is None


def test_one_request_at_a_time_and_only_its_own_thread() -> None:
    clock = FakeClock()
    profiling, work = Profiling(clock.monotonic), Work(clock)
    refused: list[str] = []

    def meanwhile() -> None:
        work.part()
        try:
            profiling.answer(no_content)
        except Conflict as error:
            refused.append(error.code)

    def answer() -> Answer:
        other = threading.Thread(target=meanwhile)
        other.start()
        other.join()
        return ok({})

    first = profiling.answer(answer)

    assert refused == ["profile_busy"]
    assert b"Work.part" not in first.body
    assert profiling.answer(no_content).status != NO_CONTENT
