"""Faults in a tree of real zones: nothing is lost by them, and no process is left by the tool."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.chaos_runs.life import life_faults
from benchmarks.chaos_runs.link import Link, Way
from benchmarks.chaos_runs.running import Process, found_below, kill_all, two_at_once
from benchmarks.zone_trees.processes import interrupts_wait
from tests.builders.played_agent import PlayedAgent
from tests.builders.real_processes import interrupt, processes_of
from tests.builders.tree import Tree, a_host

pytestmark = pytest.mark.once

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


@contextmanager
def a_process(folder: Path, uuid: str, host: str) -> Iterator[Process]:
    """The process of an instance, as its agent starts it."""
    disk = folder / host / "disk"
    disk.mkdir(parents=True)
    own = {"ZONESCHED_INSTANCE_UUID": uuid, "ZONESCHED_HOST": host}
    with subprocess.Popen(["sleep", "60"], cwd=disk, env={**os.environ, **own}) as started:
        try:
            found: list[Process] = []
            ends_at = time.monotonic() + 10
            # Its environment can be read an instant after it has started.
            while not found and time.monotonic() < ends_at:
                found = [one for one in found_below(folder) if one.pid == started.pid]
            yield found[0]
        finally:
            started.kill()


def test_an_instance_that_runs_twice_is_found_and_one_that_runs_once_is_not(tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    with a_process(here, "one", "h1") as first, a_process(here, "two", "h2"):
        once = two_at_once(here)
        with a_process(elsewhere, "one", "h3"):
            of_another_run = two_at_once(here)
        with a_process(here, "one", "h4"):
            twice = two_at_once(here)
        kill_all(here)

    assert (first.uuid, first.host, first.is_stopped) == ("one", "h1", False)
    assert (once, of_another_run) == ([], [])
    assert len(twice) == 1 and twice[0].startswith("P8: one runs on h")


@dataclass(frozen=True)
class Site:
    """The part of a zone's site that the check reads."""

    name: str
    database_url: str


STOPPED = "UPDATE instance_states SET observed_power = 'stopped'"
PLANTED = {
    "UPDATE inventories SET used = used + 1 WHERE resource_class = 'VCPU'": "P3 leaf: VCPU of",
    "UPDATE placements SET state = 'gone' WHERE number = 2": "P3 leaf",
    "UPDATE instance_actions SET finished_at = 0, result = ''": "has the result ''",
    "UPDATE instance_actions SET reason = 'x'": "is done for the reason 'x'",
    "UPDATE instance_actions SET generation = 1": "is of no later generation",
    "DELETE FROM instance_actions WHERE number = 1": "actions on",
    STOPPED: "is to be None, and is ('h1', False)",
}


@pytest.mark.parametrize("statement", ["", *PLANTED])
def test_the_check_of_lives_finds_what_is_wrong(tmp_path: Path, statement: str) -> None:
    # given a server that was stopped, started and resized
    scene = Tree(tmp_path)
    node = scene.add("leaf", hosts_=[a_host("h1")])
    for name, vcpus in (("small", 1), ("large", 2)):
        flavor = {"name": name, "vcpus": vcpus, "ram": 64, "disk": 1}
        node.client().post("/flavors", {"flavor": flavor})
    agent, member = PlayedAgent(node), node.client("member")
    uuid = member.post("/servers", {"server": {"name": "vm", "flavorRef": "small"}}).json["server"]["id"]
    actions = ({"os-stop": None}, {"os-start": None}, {"resize": {"flavorRef": "large"}})
    for action in (None, *actions):
        if action is not None:
            assert member.post(f"/servers/{uuid}/action", action).status == 202
        for _ in range(3):
            scene.settle()
            agent.converge()
    database = tmp_path / "leaf.sqlite"
    with closing(sqlite3.connect(database)) as connection, connection:
        if statement:
            connection.execute(statement)
    running = [Process(1, 1, uuid, "h1", is_stopped=False)]

    found = list(life_faults([Site("leaf", f"sqlite:///{database}")], {("leaf", uuid): 3}, running))

    assert bool(found) == bool(statement)
    assert PLANTED.get(statement, "") in " ".join(found)


@pytest.mark.slow
def test_twenty_faults_leave_no_inconsistency() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--faults", "20", "--seed", "7"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout)
    assert sum(line["faults"].values()) == 20 and len(line["faults"]) > 3
    assert line["audit_inconsistencies"] == 0
    assert sum(line["actions"].values()) > 0
    assert line["migrations"] > 0
    assert line["looks_at_processes"] > 10
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
