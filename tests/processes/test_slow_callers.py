"""A real zone with few threads and many bad callers: the others are served."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import requests

from tests.builders.real_processes import eventually, free_port
from tests.builders.zone_processes import answers, launched, write_conf
from zonesched.compute.credentials import read_credentials
from zonesched.serving.api_worker import WAITING_PER_THREAD

pytestmark = pytest.mark.slow
THREADS = 2
HEAD = b"POST /servers HTTP/1.1\r\nHost: zone\r\nContent-Type: application/json\r\n"


class Zone:
    """Port of a launched zone, and its admin's credentials."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        kept = read_credentials(folder / "state/admin.credentials")
        self.auth = (kept.username, kept.password)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def slowest_s(self, count: int = 20) -> float:
        """The longest that one of so many calls, each on a connection of its own, takes."""
        found = []
        for _ in range(count):
            started = time.monotonic()
            assert requests.get(self.url + "/readiness", timeout=10).status_code == 200
            found.append(time.monotonic() - started)
        return max(found)


@pytest.fixture(scope="module")
def zone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zone]:
    folder, port = tmp_path_factory.mktemp("zone"), free_port()
    path = write_conf(folder, port, f"api_threads = {THREADS}", "max_body_bytes = 1048576")
    with launched("zonesched.serving.run_zone", "--config-file", str(path)):
        eventually("the zone answers", lambda: answers(f"http://127.0.0.1:{port}"))
        yield Zone(port, folder)


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
            assert zone.slowest_s() < 2.0


def test_long_bodies_that_drip_hold_up_nobody(zone: Zone) -> None:
    token = requests.auth._basic_auth_str(*zone.auth).encode()
    first = HEAD + b"Authorization: " + token + b"\r\nContent-Length: 900000\r\n\r\n" + b" " * 40_000
    with ExitStack() as closing:
        slow = bad_callers(zone, 20, first)
        for one in slow:
            closing.callback(one.close)
        with dripping(slow, b" "):
            assert zone.slowest_s() < 2.0
            # Whichever came first has the threads.
            eventually("the others are refused", lambda: len(heard(slow)) >= len(slow) - THREADS)
            said = [one.recv(100) for one in heard(slow)]
    assert all(text.startswith(b"HTTP/1.1 503 ") for text in said)


def test_callers_who_do_not_take_their_answers_hold_up_nobody(zone: Zone) -> None:
    with ExitStack() as closing:
        request = b"GET /openapi.json HTTP/1.1\r\nHost: zone\r\nConnection: close\r\n\r\n"
        for one in bad_callers(zone, 12, request):
            closing.callback(one.close)
        assert zone.slowest_s() < 2.0


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
    assert zone.slowest_s() < 2.0


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
    """The last test of this zone: its threads go on with one wrong password's scrypt after the other."""
    with ExitStack() as closing:
        request = b"GET /servers HTTP/1.1\r\nHost: zone\r\nAuthorization: %s\r\n\r\n"
        callers = [zone.connect() for _ in range(THREADS * (1 + WAITING_PER_THREAD) + 20)]
        for number, one in enumerate(callers):
            closing.callback(one.close)
            wrong = requests.auth._basic_auth_str("admin", str(number)).encode()
            one.sendall(request % wrong)
        served, *_, refused = (one.recv(1000) for one in (callers[0], callers[-1]))
    assert served.startswith(b"HTTP/1.1 401 ")
    head, _, body = refused.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: 1" in head
    assert json.loads(body)["serviceUnavailable"]["error_code"] == "zone_busy"
