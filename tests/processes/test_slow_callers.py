"""A real zone with few threads and many bad callers: the others are served."""

from __future__ import annotations

import json
import select
import socket
import subprocess
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import requests

from tests.builders.real_processes import eventually, free_port
from tests.builders.zone_processes import answers, launched, write_conf
from zonesched.compute.credentials import read_credentials
from zonesched.serving.fair_queue import WAITING_PER_THREAD

pytestmark = pytest.mark.slow
THREADS = 2
LATE_S = 5.0
"""Well below the 20 or 30 seconds that a slow caller would hold a thread, also on a busy machine."""
HEAD = b"POST /servers HTTP/1.1\r\nHost: zone\r\nContent-Type: application/json\r\n"

CHUNKED = (
    b"POST /flavors HTTP/1.1\r\nHost: zone\r\nContent-Type: application/json\r\n"
    b"Authorization: TOKEN\r\nTransfer-Encoding: chunked\r\n\r\n"
)


class Zone:
    """Port of a launched zone, and its admin's credentials."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        kept = read_credentials(folder / "state/admin.credentials")
        self.auth = (kept.username, kept.password)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def make_user(self, role: str) -> tuple[str, str]:
        """A new user's credentials."""
        user = {"name": f"{role}-{uuid.uuid4()}", "role": role, "project_id": "p" if role == "member" else ""}
        made = requests.post(self.url + "/users", json={"user": user}, auth=self.auth, timeout=10).json()[
            "user"
        ]
        return made["name"], made["secret"]

    def running(self) -> int:
        """How many requests have a thread, this one included."""
        text = requests.get(self.url + "/metrics", auth=self.auth, timeout=10).text
        (line,) = (line for line in text.splitlines() if line.startswith("zonesched_requests_running "))
        return int(float(line.split()[1]))

    def slowest_s(self, count: int = 20) -> float:
        """The longest that one of so many calls of a user, each on a connection of its own, takes."""
        found = []
        for _ in range(count):
            started = time.monotonic()
            assert requests.get(self.url + "/flavors", auth=self.auth, timeout=10).status_code == 200
            found.append(time.monotonic() - started)
        return max(found)


def read_all(process: subprocess.Popen[str]) -> None:
    deque(process.stdout or (), maxlen=0)


@pytest.fixture(scope="module")
def zone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zone]:
    folder, port = tmp_path_factory.mktemp("zone"), free_port()
    path = write_conf(folder, port, f"api_threads = {THREADS}", "max_body_bytes = 1048576")
    with launched("zonesched.serving", "--config-file", str(path)) as process:
        # Its log lines fill the pipe otherwise.
        reader = threading.Thread(target=read_all, args=(process,), daemon=True)
        reader.start()
        eventually("the zone answers", lambda: answers(f"http://127.0.0.1:{port}"))
        yield Zone(port, folder)
        process.terminate()
        # Before its pipe is closed.
        reader.join(30)


@contextmanager
def dripping(sockets: list[socket.socket], drop: bytes) -> Iterator[None]:
    """A byte now and then from each of them, until the block ends."""
    over = threading.Event()

    def drip() -> None:
        while not over.wait(0.2):
            for one in sockets:
                with suppress(OSError):
                    one.send(drop)

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def bad_callers(zone: Zone, count: int, first: bytes) -> list[socket.socket]:
    made = [zone.connect() for _ in range(count)]
    for one in made:
        if first:
            one.sendall(first)
    return made


def heard(sockets: list[socket.socket]) -> list[socket.socket]:
    """Connections that have received something."""
    return select.select(sockets, [], [], 0)[0]


@pytest.mark.parametrize(
    "first",
    [b"", b"GET /readiness HTTP/1.1\r\nX-Slow: ", HEAD + b"Content-Length: 100\r\n\r\n", b"\x16\x03\x01\x02"],
    ids=["silent", "head", "body", "no-http"],
)
def test_500_slow_connections_hold_up_nobody(zone: Zone, first: bytes) -> None:
    with ExitStack() as closing:
        slow = bad_callers(zone, 500, first)
        for one in slow:
            closing.callback(one.close)
        with dripping(slow, b"x" if first else b""):
            assert zone.slowest_s() < LATE_S


def test_strangers_whose_lengths_have_many_digits_hold_up_nobody(zone: Zone) -> None:
    form = (
        b"POST /dashboard/sign-in HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    )
    with ExitStack() as closing:
        for number in range(2, 2 + 2 * THREADS):
            one = socket.create_connection(("127.0.0.1", zone.port), 20, (f"127.0.0.{number}", 0))
            closing.callback(one.close)
            one.sendall(form + b"Content-Length: " + b"100".zfill(30) + b"\r\n\r\n")
        assert zone.slowest_s(5) < LATE_S
    eventually("their requests have ended", lambda: zone.running() == 1)


def test_long_bodies_that_drip_hold_up_nobody(zone: Zone) -> None:
    assert requests.get(zone.url + "/flavors", auth=zone.auth, timeout=10).status_code == 200
    token = requests.auth._basic_auth_str(*zone.auth).encode()
    first = HEAD + b"Authorization: " + token + b"\r\nContent-Length: 500000\r\n\r\n" + b" " * 40_000
    with ExitStack() as closing:
        slow = bad_callers(zone, 50, first)
        for one in slow:
            closing.callback(one.close)
        with dripping(slow, b" "):
            assert zone.slowest_s() < LATE_S
            # 50 bodies of 500 kB are more than one user may have under way.
            eventually("some are refused", lambda: len(heard(slow)) > 0)
            said = [one.recv(100) for one in heard(slow)]
    assert len(said) < len(slow)
    assert all(text.startswith(b"HTTP/1.1 503 ") for text in said)


def test_slow_bodies_of_a_member_keep_no_parents_confirm_out(zone: Zone) -> None:
    member, parent = zone.make_user("member"), zone.make_user("parent")
    attempts = [{"uuid": str(uuid.UUID(int=number)), "attempt": 1} for number in range(800)]
    url = f"{zone.url}/reservations/{uuid.UUID(int=1)}/confirm"

    def confirm() -> float:
        started = time.monotonic()
        assert requests.post(url, json={"builds": attempts}, auth=parent, timeout=10).status_code == 200
        return time.monotonic() - started

    confirm()
    token = requests.auth._basic_auth_str(*member).encode()
    first = HEAD + b"Authorization: " + token + b"\r\nContent-Length: 100000\r\n\r\n" + b" " * 40_000
    with ExitStack() as closing:
        slow = bad_callers(zone, 30, first)
        for one in slow:
            closing.callback(one.close)
        with dripping(slow, b" "):
            # The slow bodies are to be in hand before the first confirm; nothing outside the zone shows that.
            time.sleep(0.5)
            assert max(confirm() for _ in range(5)) < LATE_S


@pytest.mark.parametrize(
    "field", [b"Transfer-Encoding: chunked", b"Content-Length: 9\r\nExpect: 100-continue"]
)
def test_forms_of_strangers_that_drip_keep_no_body_out(zone: Zone, field: bytes) -> None:
    form = b"POST /dashboard/sign-in HTTP/1.1\r\nHost: zone\r\n%s\r\n\r\n" % (
        b"Content-Type: application/x-www-form-urlencoded\r\n" + field
    )
    with ExitStack() as closing:
        for one in bad_callers(zone, 4, form):
            closing.callback(one.close)
        eventually("their requests have ended", lambda: zone.running() == 1, timeout_s=LATE_S)
        url, headers = zone.url + "/flavors", {"Content-Type": "application/json"}
        reply = requests.post(url, data=iter([b"{}"]), auth=zone.auth, headers=headers, timeout=10)
    assert reply.json()["badRequest"]["error_code"] == "missing_field"


def test_callers_who_pipeline_and_read_nothing_delay_nobody(zone: Zone) -> None:
    requests.get(zone.url + "/flavors", auth=zone.auth, timeout=10)
    with ExitStack() as closing:
        for one in bad_callers(zone, 64, b""):
            closing.callback(one.close)
            one.setblocking(False)
            with suppress(BlockingIOError):
                one.send(b"GET /openapi.json HTTP/1.1\r\nHost: zone\r\n\r\n" * 500)
        slowest = 0.0
        for _ in range(40):
            started = time.monotonic()
            assert requests.get(zone.url + "/flavors", auth=zone.auth, timeout=60).status_code == 200
            slowest = max(slowest, time.monotonic() - started)
    assert slowest < LATE_S


def test_a_queued_request_of_a_caller_who_is_gone_is_not_run(zone: Zone) -> None:
    token = requests.auth._basic_auth_str(*zone.auth).encode()
    authorized = b"Host: zone\r\nContent-Type: application/json\r\nAuthorization: " + token
    flavor = b'{"flavor": {"id": "of-the-gone", "name": "f", "vcpus": 1, "ram": 1, "disk": 1}}'
    with zone.connect() as reading, zone.connect() as gone:
        # A body of unknown length is read by a thread; this one has the user's part of two threads.
        reading.sendall(
            b"POST /flavors HTTP/1.1\r\n" + authorized + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        # The pauses order what two connections send: nothing outside the zone shows that a thread has taken
        # the first request, that the second one waits, and that its connection was seen to end.
        time.sleep(0.5)
        gone.sendall(
            b"POST /flavors HTTP/1.1\r\n%s\r\nContent-Length: %d\r\n\r\n" % (authorized, len(flavor))
        )
        gone.sendall(flavor)
        time.sleep(0.5)
        gone.close()
        time.sleep(0.5)
        reading.sendall(b"2\r\n{}\r\n0\r\n\r\n")
        assert reading.recv(100).startswith(b"HTTP/1.1 400 ")
    found = requests.get(zone.url + "/flavors", auth=zone.auth, timeout=10).json()["flavors"]
    assert "of-the-gone" not in {one["id"] for one in found}


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        (CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n", 400, "request_malformed"),
        (CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n", 400, "request_malformed"),
        (CHUNKED + b"2\n{}\n0\n\n" + b" " * 9000, 400, "request_malformed"),
        (CHUNKED + b"2\r\n{}x\r\n0\r\n\r\n", 400, "request_malformed"),
        (CHUNKED + b"2\r\n{}\r\n0\r\nHost: other\r\n\r\n", 400, "request_malformed"),
        (CHUNKED + b"2\r\n{}\r\n0\r\nno trailer\r\n\r\n", 400, "request_malformed"),
        (b"GET / HTTP/1.1\nHost: zone\n\n", 400, "request_malformed"),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", 400, "request_malformed"),
        (b"\x16\x03\x01\r\n\r\n", 400, "request_malformed"),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: other\r\n\r\n", 400, "request_malformed"),
        (b"GET / HTTP/1.1\r\nHost: zone\r\nExpect: a-cake\r\n\r\n", 417, "expectation_unknown"),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", 414, "uri_too_long"),
        (b"GET /" + b"x" * 40_000, 414, "uri_too_long"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 9000 + b"\r\n\r\n", 431, "headers_too_large"),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", 431, "headers_too_large"),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 8000, 431, "headers_too_large"),
    ],
    ids=lambda part: repr(part[-20:]) if isinstance(part, bytes) else str(part),
)
def test_malformed_http_is_refused_in_the_apis_form(zone: Zone, text: bytes, status: int, code: str) -> None:
    token = requests.auth._basic_auth_str(*zone.auth).encode()
    said = b""
    with zone.connect() as one:
        one.sendall(text.replace(b"TOKEN", token))
        while piece := one.recv(1000):
            said += piece
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert head.count(b"-request-id: req-") == 2
    (fault,) = json.loads(body).values()
    assert (fault["code"], fault["error_code"]) == (status, code)


def test_callers_who_do_not_take_their_answers_hold_up_nobody(zone: Zone) -> None:
    with ExitStack() as closing:
        request = b"GET /openapi.json HTTP/1.1\r\nHost: zone\r\nConnection: close\r\n\r\n"
        for one in bad_callers(zone, 12, request):
            closing.callback(one.close)
        assert zone.slowest_s() < LATE_S
    # Whoever comes next from this address would find its queue full.
    eventually("their requests have ended", lambda: zone.running() == 1)


@pytest.mark.parametrize("known", [True, False])
def test_a_huge_body_is_refused_without_being_read(zone: Zone, known: bool) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(100_000):
            yield b" " * 65_536

    started = time.monotonic()
    headers = {"Content-Type": "application/json"}
    auth = zone.auth if known else None
    with suppress(requests.ConnectionError):
        reply = requests.post(zone.url + "/servers", data=pieces(), auth=auth, headers=headers, timeout=10)
        assert reply.status_code == (413 if known else 401)
    assert time.monotonic() - started < 5.0
    assert zone.slowest_s() < LATE_S


def test_a_connection_is_kept_for_the_next_request(zone: Zone) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: zone\r\n\r\n"
    with zone.connect() as one:
        for together in (1, 1, 2):
            one.sendall(request * together)
            said = b""
            while said.count(b'{"status":"ok"}') < together:
                said += one.recv(1000)
            assert said.count(b"HTTP/1.1 200 ") == together


def test_more_requests_than_can_wait_are_answered_503_at_once(zone: Zone) -> None:
    zone.slowest_s(1)
    token = requests.auth._basic_auth_str(*zone.auth).encode()
    authorized = b"Host: zone\r\nContent-Type: application/json\r\nAuthorization: " + token + b"\r\n"
    with ExitStack() as closing:
        reading, *callers = (closing.enter_context(zone.connect()) for _ in range(WAITING_PER_THREAD + 5))
        # A body of unknown length is read by a thread; this one has the user's part of two threads.
        reading.sendall(b"POST /flavors HTTP/1.1\r\n" + authorized + b"Transfer-Encoding: chunked\r\n\r\n")
        # The pauses order what many connections send: the last one is to find the queue full.
        time.sleep(0.5)
        for one in callers:
            one.sendall(b"GET /flavors HTTP/1.1\r\n" + authorized + b"\r\n")
            time.sleep(0.02)
        refused = callers[-1].recv(1000)
        assert requests.get(zone.url + "/readiness", timeout=10).status_code == 200
        reading.sendall(b"2\r\n{}\r\n0\r\n\r\n")
        served = callers[0].recv(1000)
    assert served.startswith(b"HTTP/1.1 200 ")
    head, _, body = refused.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: 1" in head
    assert json.loads(body)["serviceUnavailable"]["error_code"] == "zone_busy"
