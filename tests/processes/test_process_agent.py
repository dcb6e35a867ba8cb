"""The whole path on real processes: a zone boots instances that are processes, and its agent is killed."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen, run

import pytest

from tests.builders.dead_folder import dead_folder
from tests.builders.real_processes import eventually, free_port
from tests.builders.zone_processes import Story, answers, launched, write_conf
from zonesched.compute import process_table
from zonesched.compute.process_table import Process

pytestmark = pytest.mark.slow


class Machine:
    """The processes that are instances of one agent, by the instance's uuid."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def running(self) -> dict[str, list[Process]]:
        found: dict[str, list[Process]] = {}
        for record in self.folder.glob("instances/*/process.json"):
            with suppress(FileNotFoundError):
                process = Process(**json.loads(record.read_text()))
                if process_table.is_alive(process):
                    found.setdefault(record.parent.name.rpartition(".")[0], []).append(process)
        return found

    def end(self) -> None:
        for processes in self.running().values():
            for process in processes:
                process_table.send(process, signal.SIGKILL)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path / "agent")
    yield machine
    machine.end()


@contextmanager
def agent(tmp_path: Path, *more: str) -> Iterator[Popen[str]]:
    options = {
        "--credentials": str(tmp_path / "agent.credentials"),
        "--inventory": "etc/zonesched/hosts.csv",
        "--poll-seconds": "0.1",
        "--connection-type": "process",
        "--state-folder": str(tmp_path / "agent"),
    }
    pairs = [word for pair in options.items() for word in pair]
    with launched("zonesched.compute.main", *pairs, *more) as process:
        yield process


@contextmanager
def zone(tmp_path: Path, capsys: pytest.CaptureFixture[str], *lines: str) -> Iterator[Story]:
    port = free_port()
    path = write_conf(tmp_path, port, "boot_poll_interval = 0.2", *lines)
    with launched("zonesched.serving", "--config-file", str(path)):
        eventually("the zone answers", lambda: answers(f"http://127.0.0.1:{port}"))
        ask = Story(["--credentials", str(tmp_path / "state/admin.credentials")], capsys)
        ask("user", "create", "agent", "--role", "compute", "--save", str(tmp_path / "agent.credentials"))
        ask("flavor", "create", "small", "--vcpus", "1", "--ram", "512", "--disk", "1")
        yield ask


def kill(agent: Popen[str]) -> None:
    agent.kill()
    agent.wait()


def statuses(ask: Story) -> dict[str, str]:
    servers = ask.json("server", "list")["servers"]
    assert isinstance(servers, list)
    return {server["id"]: server["status"] for server in servers}


def test_instances_are_processes_that_outlive_their_agent_and_end_when_they_are_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], machine: Machine
) -> None:
    with zone(tmp_path, capsys) as ask:
        with agent(tmp_path) as first:
            eventually("the hosts are up", lambda: ask("host", "list").count(" up ") == 5)
            assert "ACTIVE=3" in ask("zone", "boot", "--flavor", "small", "--name", "w", "-n", "3", "--watch")
            before = machine.running()
            assert len(before) == 3
            kill(first)
        assert machine.running() == before

        kept, deleted, killed = sorted(before)
        ask("server", "delete", deleted)
        process_table.send(before[killed][0], signal.SIGKILL)
        with agent(tmp_path):
            eventually("one is deleted", lambda: set(machine.running()) == {kept})
            eventually("one is seen to have ended", lambda: statuses(ask).get(killed) == "SHUTOFF")
            ask("server", "delete", killed)
            folders = machine.folder / "instances"
            eventually("nothing is left of it", lambda: not list(folders.glob(f"{killed}.*")))

            assert machine.running() == {kept: before[kept]}
            assert statuses(ask) == {kept: "ACTIVE"}
            ask("server", "delete", kept)
            eventually("none is left", lambda: machine.running() == {})
        assert "no inconsistencies" in ask("audit")


@pytest.mark.parametrize("dead", ["agent", "agent/instances"])
def test_an_agent_that_waits_for_its_state_folder_says_so(tmp_path: Path, dead: str) -> None:
    # given a state folder, or its instances, on a file system that does not answer
    (tmp_path / dead).mkdir(parents=True)
    (tmp_path / "agent.credentials").write_text("[zonesched]\nurl = http://127.0.0.1:1\n")
    with dead_folder(tmp_path / dead), agent(tmp_path) as waits:
        assert waits.stdout is not None
        line = waits.stdout.readline()
        # and it hears a signal meanwhile
        waits.terminate()
        waits.wait(timeout=60)
    assert f"the state folder {tmp_path / 'agent'} does not answer" in line


def test_an_agent_starts_while_its_shared_folder_does_not_answer(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (tmp_path / "agent.credentials").write_text("[zonesched]\nurl = http://127.0.0.1:1\n")
    with dead_folder(shared), agent(tmp_path, "--shared-folder", str(shared)) as starts:
        assert starts.stdout is not None
        assert "http://127.0.0.1:1 cannot be reached" in starts.stdout.readline()


ENDED_WHILE_IT_STARTS = """
import os, signal, threading
from zonesched.compute.fake import FakeDriver
from zonesched.compute.main import main

class Ended(FakeDriver):
    @property
    def workers(self):
        os.kill(os.getpid(), signal.SIGTERM)
        return 0

    def work(self):
        raise AssertionError

threading.Thread(target=threading.Event().wait, daemon=True).start()
inventory = ["--inventory", "etc/zonesched/hosts.csv"]
main(["--zone-url", "http://127.0.0.1:1", *inventory, "--connection-type", "__main__:Ended"])
"""


def test_an_agent_ends_well_when_a_signal_comes_while_it_starts_and_a_library_has_threads() -> None:
    ended = run([sys.executable, "-c", ENDED_WHILE_IT_STARTS], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr


def test_instances_on_a_file_system_that_is_not_mounted_are_there_again_once_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], machine: Machine
) -> None:
    with zone(tmp_path, capsys, "service_down_time = 2") as ask:
        with agent(tmp_path, "--heartbeat-seconds", "0.5"):
            eventually("the hosts are up", lambda: ask("host", "list").count(" up ") == 5)
            ask("zone", "boot", "--flavor", "small", "--name", "w", "--watch")
        [(uuid, _)] = machine.running().items()
        [folder] = machine.folder.glob(f"instances/{uuid}.*")
        (folder / "disk" / "precious").write_text("data")
        # The machine starts again, without the file system of the state folder, where the agent finds no id.
        machine.end()
        machine.folder.rename(tmp_path / "unmounted")
        eventually("the hosts are down", lambda: ask("host", "list").count(" down ") == 5)
        with agent(tmp_path, "--heartbeat-seconds", "0.5") as stranger:
            assert stranger.stdout is not None
            refused = next(line for line in stranger.stdout if "refused" in line or "registered" in line)
        machine.folder.rename(tmp_path / "root-disk")
        (tmp_path / "unmounted").rename(machine.folder)
        # Then without the one of its instances.
        (machine.folder / "instances").rename(tmp_path / "unmounted")
        with agent(tmp_path, "--heartbeat-seconds", "0.5"):
            eventually("it is down", lambda: statuses(ask) == {uuid: "SHUTOFF"})
            assert "process_lost" in ask("server", "start", uuid, "--wait", code=1)
        (machine.folder / "instances").rename(tmp_path / "root-disk" / "once")
        (tmp_path / "unmounted").rename(machine.folder / "instances")
        with agent(tmp_path, "--heartbeat-seconds", "0.5"):
            eventually("the hosts are up", lambda: ask("host", "list").count(" up ") == 5)
            ask("server", "start", uuid, "--wait")

            assert "409 service_belongs_to_another_agent" in refused
            assert (statuses(ask), list(machine.running())) == ({uuid: "ACTIVE"}, [uuid])
            assert (folder / "disk" / "precious").read_text() == "data"


@pytest.mark.parametrize("name", ["reached.json", "wanted.json"])
def test_an_instance_whose_file_is_damaged_keeps_its_folder_until_it_is_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], machine: Machine, name: str
) -> None:
    with zone(tmp_path, capsys) as ask:
        with agent(tmp_path) as first:
            eventually("the hosts are up", lambda: ask("host", "list").count(" up ") == 5)
            ask("zone", "boot", "--flavor", "small", "--name", "w", "-n", "2", "--watch")
            kill(first)
        before = machine.running()
        damaged, other = sorted(before)
        [folder] = machine.folder.glob(f"instances/{damaged}.*")
        (folder / "disk" / "precious").write_text("data")
        (folder / name).write_text("")
        with agent(tmp_path):
            ask("server", "reboot", other, "--wait")
            ask("server", "stop", other, "--wait")

            assert (folder / "disk" / "precious").read_text() == "data"
            assert machine.running() == {damaged: before[damaged]}
            assert statuses(ask)[damaged] == "ACTIVE"

            ask("server", "delete", damaged)
            eventually("nothing is left of it", lambda: not folder.exists())
            assert machine.running() == {}


def test_a_second_agent_of_the_service_is_refused_until_it_is_given_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said_first(*options: str) -> str:
        """Return what a second machine's agent says once the zone has heard it."""
        inventory = tmp_path / "other.csv"
        inventory.write_text("name,VCPU,MEMORY_MB,DISK_GB\nother,4,8192,100\n")
        own = ("--state-folder", str(tmp_path / "other"), "--inventory", str(inventory))
        with agent(tmp_path, *own, *options) as second:
            assert second.stdout is not None
            return next(line for line in second.stdout if "refused" in line or "registered" in line)

    with zone(tmp_path, capsys) as ask, agent(tmp_path):
        eventually("the hosts are up", lambda: ask("host", "list").count(" up ") == 5)

        assert "409 service_belongs_to_another_agent" in said_first()
        assert "registered 1 hosts" in said_first("--service", "compute-2")


def test_an_agent_by_another_name_or_of_another_zone_ends_nothing_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], machine: Machine
) -> None:
    """A machine was renamed, or its agent got the credentials of another zone by mistake."""

    def said_first(at: Path, *options: str) -> str:
        """Return what an agent says first of what it found, on the folder of the instance."""
        inventory = tmp_path / "renamed.csv"
        inventory.write_text("name,VCPU,MEMORY_MB,DISK_GB\nrenamed,4,8192,100\n")
        own = ("--state-folder", str(machine.folder), "--inventory", str(inventory))
        with agent(at, *own, *options) as process:
            assert process.stdout is not None
            said = next(line for line in process.stdout if "instances" in line or "registered" in line)
            eventually("it has had its time", lambda: process.poll() is None)
            return said

    (tmp_path / "other").mkdir()
    with zone(tmp_path, capsys) as ask, zone(tmp_path / "other", capsys) as other:
        with agent(tmp_path) as first:
            eventually("the hosts are up", lambda: ask("host", "list").count(" up ") == 5)
            ask("zone", "boot", "--flavor", "small", "--name", "w", "--watch")
            before = machine.running()
            kill(first)

        assert "are those of the agent compute" in said_first(tmp_path, "--service", "renamed")
        assert "are those of the agent compute" in said_first(tmp_path / "other")
        assert machine.running() == before
        assert other("host", "list").count("renamed") == ask("host", "list").count("renamed") == 0
        with agent(tmp_path):
            (uuid,) = before
            ask("server", "delete", uuid)
            eventually("its own agent ends it", lambda: machine.running() == {})


def test_a_resized_instance_is_one_process_at_each_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], machine: Machine
) -> None:
    def flavors() -> list[str]:
        """Return the flavors in the environments of what runs: of one process, or none."""
        found = [process.pid for processes in machine.running().values() for process in processes]
        assert len(found) <= 1
        with suppress(FileNotFoundError, ProcessLookupError):
            environments = [Path(f"/proc/{pid}/environ").read_text().split("\0") for pid in found]
            pairs = [dict(line.split("=", 1) for line in lines if line) for lines in environments]
            return [pair.get("ZONESCHED_FLAVOR", "") for pair in pairs]
        return []

    with zone(tmp_path, capsys) as ask:
        ask("flavor", "create", "large", "--vcpus", "2", "--ram", "1024", "--disk", "1")
        with agent(tmp_path) as first:
            eventually("the hosts are up", lambda: ask("host", "list").count(" up ") == 5)
            ask("zone", "boot", "--flavor", "small", "--name", "w", "-n", "1", "--watch")
            for words, flavor, status in (
                (("resize", "w", "large", "--watch"), "large", "VERIFY_RESIZE"),
                (("revert-resize", "w", "--wait"), "small", "ACTIVE"),
                (("resize", "w", "large", "--watch"), "large", "VERIFY_RESIZE"),
                (("confirm-resize", "w", "--wait"), "large", "ACTIVE"),
            ):
                assert "done" in ask("server", *words)
                eventually(f"it runs as {flavor}", lambda flavor=flavor: flavors() == [flavor])
                assert list(statuses(ask).values()) == [status]
            ask("server", "resize", "w", "small")
            kill(first)
        with agent(tmp_path):
            eventually("it can be confirmed", lambda: list(statuses(ask).values()) == ["VERIFY_RESIZE"])
            eventually("it is small again", lambda: flavors() == ["small"])
            ask("server", "confirm-resize", "w", "--wait")
            eventually("one folder is left", lambda: len(list(machine.folder.glob("instances/*-*.*"))) == 1)
        assert "no inconsistencies" in ask("audit")


def test_an_agent_killed_again_and_again_while_it_builds_builds_each_instance_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], machine: Machine
) -> None:
    with zone(tmp_path, capsys) as ask:
        with agent(tmp_path):
            eventually("the hosts are up", lambda: ask("host", "list").count(" up ") == 5)
        ask("zone", "boot", "--flavor", "small", "--name", "w", "-n", "8")
        for delay_s in (0.0, 0.05, 0.1, 0.2):
            with agent(tmp_path) as victim:
                eventually("it has begun", lambda: (machine.folder / "instances/agent.lock").exists())
                os.sched_yield()
                with suppress(Exception):
                    victim.wait(delay_s + 0.6)
                kill(victim)
        with agent(tmp_path):
            eventually("all are active", lambda: list(statuses(ask).values()) == ["ACTIVE"] * 8)
            assert {len(processes) for processes in machine.running().values()} == {1}
            assert set(machine.running()) == set(statuses(ask))
        assert "no inconsistencies" in ask("audit")


def test_what_cannot_be_run_is_in_error_with_the_reason_of_each_attempt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], machine: Machine
) -> None:
    with zone(tmp_path, capsys) as ask, agent(tmp_path, "--process-command", "/no/such/command"):
        eventually("the hosts are up", lambda: ask("host", "list").count(" up ") == 5)
        ask("zone", "boot", "--flavor", "small", "--name", "w", "--watch", code=1)
        (uuid,) = statuses(ask)
        assert ask("server", "show", uuid, "--json").count("process_not_started") >= 3
        assert machine.running() == {}
