"""Faults in a tree of real zones: nothing is lost by them, and no process is left by the tool."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from benchmarks.chaos_runs.link import Link, Way
from benchmarks.zone_trees.processes import interrupts_wait
from tests.builders.real_processes import interrupt, processes_of

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "chaos.py"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@pytest.fixture
def link() -> Iterator[Link]:
    """A link to a server that answers each piece it gets with the same."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    while connection.recv(1000):
                        connection.sendall(ANSWER)

        threading.Thread(target=serve, daemon=True).start()
        made = Link(server.getsockname()[1])
        yield made
        made.close()
        # To close a listening socket does not wake the thread that accepts on it.
        server.shutdown(socket.SHUT_RDWR)


def ask(link: Link, timeout_s: float = 5.0) -> bytes:
    """All that comes back for one question."""
    found = b""
    with socket.create_connection(("127.0.0.1", int(link.url.rpartition(":")[2])), timeout_s) as sock:
        sock.settimeout(timeout_s)
        # A connection that is closed may be found so at any step.
        with suppress(ConnectionError):
            sock.sendall(b"question")
            while len(found) < len(ANSWER) and (piece := sock.recv(1000)):
                found += piece
    return found


def test_a_link_lets_all_through_and_is_well_again_after_each_way_of_being_spoilt(link: Link) -> None:
    assert ask(link) == ANSWER
    link.set(Way.TRUNCATE, truncate_after=9)
    assert ask(link) == ANSWER[:9]
    link.set(Way.CUT)
    assert ask(link) == b""
    link.set(Way.HANG)
    with pytest.raises(TimeoutError):
        ask(link, timeout_s=0.3)
    link.set(Way.PASS)
    assert ask(link) == ANSWER


@pytest.mark.slow
def test_twenty_faults_leave_no_inconsistency() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--faults", "20", "--seed", "7"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout)
    assert sum(line["faults"].values()) == 20 and len(line["faults"]) > 3
    assert line["audit_inconsistencies"] == 0
    assert 0 < line["active"] <= line["accepted"]
    assert line["active"] + sum(line["error"].values()) <= line["accepted"]


@pytest.fixture
def ctrl_c_is_heard() -> Iterator[None]:
    """Restore Ctrl-C as in a terminal: a shell's background processes ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c_is_heard")
def test_what_is_started_as_ctrl_c_comes_is_known_before_it_is_heard() -> None:
    started: list[str] = []

    with pytest.raises(KeyboardInterrupt), interrupts_wait():
        signal.raise_signal(signal.SIGINT)
        started.append("a zone")

    assert started == ["a zone"]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    started = interrupt([SCRIPT, "--faults", "1000"], tmp_path)

    assert started == "chaos: starting 7 zones\n"
    assert processes_of(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
