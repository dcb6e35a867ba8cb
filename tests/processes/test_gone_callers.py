"""A real zone whose callers hang up: work that only they wanted ends, and its slots are free for others."""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import requests

from tests.builders.child_app import an_info
from tests.builders.raw_server import Conversation, RawServer, answer
from tests.builders.real_processes import eventually, free_port
from tests.builders.spec_bodies import a_spec
from tests.builders.zone_processes import answers, launched, write_conf
from zonesched.compute.credentials import read_credentials
from zonesched.model.request_spec import Flavor, ScoreWeighing
from zonesched.model.request_wire import spec_to_wire

pytestmark = pytest.mark.slow
BUDGET_S = 40.0
LATE_S = 5.0
"""Well below the budget for which a select would go on, also on a busy machine."""
SELECTS_AT_ONCE = 2
"""Selects that one parent may have under way in a zone of four threads."""


class HangingChild:
    """A child that says how it is, and fails every other call or, once it `hangs`, lets its selects wait.

    It closes each connection after one answer. `asked` counts its selects, `hung_up` those whose caller
    closed the connection before an answer.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.hangs = False
        self.asked = 0
        self.hung_up = 0

    def __call__(self, conversation: Conversation) -> None:
        asked_for = conversation.read_request().partition(b"\r\n")[0]
        if b"/zones/info" in asked_for:
            conversation.say(answer(orjson.dumps(an_info())))
            return
        # The zone also reads the child's feed, whenever that is due: such a call must not outlive the test.
        is_select = b"/zones/select" in asked_for
        with self._lock:
            self.asked += is_select
        if not (self.hangs and is_select):
            conversation.say(answer(b"{}", "500 No"))
        elif not conversation.read(1):
            with self._lock:
                self.hung_up += 1


class Zone:
    """A launched zone above a child that hangs, and its users."""

    def __init__(self, port: int, folder: Path, child: HangingChild) -> None:
        self.port, self.child = port, child
        self.url = f"http://127.0.0.1:{port}"
        kept = read_credentials(folder / "state/admin.credentials")
        self.admin = (kept.username, kept.password)
        self.parent = self._make_user("parent")
        self.member = self._make_user("member")

    def _make_user(self, role: str) -> tuple[str, str]:
        user = {"name": role, "role": role, "project_id": "p" if role == "member" else ""}
        made = self.post("/users", {"user": user}, self.admin).json()["user"]
        auth = made["name"], made["secret"]
        # A caller gets its share of the threads once its credentials were accepted.
        path = "/zones/info" if role == "parent" else "/flavors"
        assert requests.get(self.url + path, auth=auth, timeout=10).status_code == 200
        return auth

    def post(self, path: str, body: Any, auth: tuple[str, str]) -> requests.Response:
        return requests.post(self.url + path, json=body, auth=auth, timeout=30)

    @contextmanager
    def sent(self, path: str, body: Any, auth: tuple[str, str]) -> Iterator[socket.socket]:
        """A connection with this request on it; it is closed when the block ends."""
        content = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: zone\r\nContent-Type: application/json\r\n"
            f"Authorization: {requests.auth._basic_auth_str(*auth)}\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as made:
            made.sendall(head.encode() + content)
            yield made


def a_select(budget_s: float = BUDGET_S) -> dict[str, Any]:
    path = ("22222222-2222-4222-8222-222222222222",)
    flavor = Flavor("small", "small", 1, 512, 1)
    spec = a_spec(flavor=flavor, weighing=ScoreWeighing(()), path=path, time_budget_s=budget_s)
    return {"version": 1, "request_spec": spec_to_wire(spec)}


BOOT = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 1}}


@pytest.fixture(scope="module")
def zone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zone]:
    folder, port, child = tmp_path_factory.mktemp("zone"), free_port(), HangingChild()
    key = "aa" * 32
    path = write_conf(
        folder,
        port,
        "api_threads = 4",
        f"select_timeout = {BUDGET_S}",
        f"build_plan_encryption_key = {key}",
        f"secret_encryption_key = {key}",
        "child_networks = loopback",
        "zone_db_check_interval = 1",
    )
    with (
        RawServer(child) as below,
        launched("zonesched.serving", "--config-file", str(path)) as process,
    ):
        # Its log lines fill the pipe otherwise.
        threading.Thread(target=lambda: deque(process.stdout or (), maxlen=0), daemon=True).start()
        eventually("the zone answers", lambda: answers(f"http://127.0.0.1:{port}"))
        made = Zone(port, folder, child)
        row = {"name": "below", "api_url": below.url, "username": "u", "password": "p"}
        assert made.post("/zones", {"zone": row}, made.admin).status_code == 201
        flavor = {"name": "small", "id": "small", "vcpus": 1, "ram": 512, "disk": 1}
        assert made.post("/flavors", {"flavor": flavor}, made.admin).status_code in (200, 201)
        zones = made.url + "/zones"
        eventually(
            "the child is ready",
            lambda: requests.get(zones, auth=made.admin, timeout=10).json()["zones"][0]["is_active"],
        )
        yield made


@pytest.fixture(autouse=True)
def _hanging(zone: Zone) -> Iterator[None]:
    zone.child.hangs = True
    yield
    zone.child.hangs = False


def test_slots_of_a_parent_that_hangs_up_are_free_at_once(zone: Zone) -> None:
    asked = zone.child.asked
    with (
        zone.sent("/zones/select", a_select(), zone.parent),
        zone.sent("/zones/select", a_select(), zone.parent),
    ):
        eventually("both selects run", lambda: zone.child.asked == asked + SELECTS_AT_ONCE)
        refused = zone.post("/zones/select", a_select(), zone.parent)

    assert refused.json()["serviceUnavailable"]["error_code"] == "zone_busy"
    eventually(
        "a slot is free",
        lambda: zone.post("/zones/select", a_select(0.2), zone.parent).status_code == 200,
        LATE_S,
    )


def test_the_call_to_the_child_ends_with_its_caller(zone: Zone) -> None:
    asked, hung_up = zone.child.asked, zone.child.hung_up
    with zone.sent("/zones/select", a_select(), zone.parent):
        eventually("the child is asked", lambda: zone.child.asked > asked)

    eventually("the child is left", lambda: zone.child.hung_up > hung_up, LATE_S)


def test_a_dry_run_ends_with_its_caller(zone: Zone) -> None:
    asked, hung_up = zone.child.asked, zone.child.hung_up
    with zone.sent("/zones/boot", {**BOOT, "dry_run": True}, zone.member):
        eventually("the child is asked", lambda: zone.child.asked > asked)

    eventually("the child is left", lambda: zone.child.hung_up > hung_up, LATE_S)


def test_a_request_sent_ahead_is_no_hang_up(zone: Zone) -> None:
    asked = zone.child.asked
    with zone.sent("/zones/select", a_select(1.5), zone.parent) as both:
        eventually("the child is asked", lambda: zone.child.asked > asked)
        both.sendall(b"GET /health HTTP/1.1\r\nHost: zone\r\n\r\n")
        said = b""
        while b'{"status":"ok"}' not in said:
            said += both.recv(10_000)

    assert said.count(b"HTTP/1.1 200 ") == 2
    assert b'"complete":false' in said


def test_a_parent_that_hangs_up_behind_requests_sent_ahead_is_gone(zone: Zone) -> None:
    asked, hung_up = zone.child.asked, zone.child.hung_up
    with zone.sent("/zones/select", a_select(), zone.parent) as both:
        eventually("the child is asked", lambda: zone.child.asked > asked)
        both.sendall(b"GET /health HTTP/1.1\r\nHost: zone\r\n\r\n")

    eventually("the child is left", lambda: zone.child.hung_up > hung_up, LATE_S)


def test_a_boot_goes_on_without_its_caller(zone: Zone) -> None:
    asked = zone.child.asked
    zone.child.hangs = False
    with zone.sent("/zones/boot", BOOT, zone.member):
        pass

    eventually("the boot asks the child", lambda: zone.child.asked > asked)
    listed = requests.get(zone.url + "/servers", auth=zone.member, timeout=10).json()["servers"]

    assert len(listed) == 1
