"""The watchdog of an agent that fences, on real processes, while agents are killed and stopped."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import Popen
from typing import cast

import pytest

from tests.builders.dead_folder import dead_folder
from tests.builders.real_processes import eventually, free_port, processes_of
from tests.builders.zone_processes import Story, answers, launched, write_conf
from zonesched.compute import launcher, lease, watchdog
from zonesched.compute.agent import Agent, Rhythm
from zonesched.compute.client import ZoneIdentity
from zonesched.compute.connection import ZoneUnavailable
from zonesched.compute.driver import DriverSettings, HasWork
from zonesched.compute.instance_folder import InstanceFolder
from zonesched.compute.inventory import InventoryHost
from zonesched.compute.lease import Lease
from zonesched.compute.machine import Built, DriverEvent, Fenced, Fetched, Key, Wanted
from zonesched.compute.process import ProcessDriver
from zonesched.compute.process_table import members, sessions
from zonesched.errors import ConfigError
from zonesched.seams import SuspendAwareClock, ThreadExecutor

pytestmark = pytest.mark.slow

A = Key("a-1", 1)
WANTED = Wanted(A, "h1", "my-name", flavor={"name": "small"})
CLOCK = SuspendAwareClock()


class Bench:
    """A state folder with one driver; it is left as a killed agent would leave it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "instances"
        self.driver = ProcessDriver(DriverSettings(state_folder=str(folder), stop_seconds=0.2), CLOCK)
        self.said: list[DriverEvent] = []

    def hold(self, term: int, seconds: float) -> None:
        self.driver.hold(Lease(term, CLOCK.monotonic() + seconds))

    def until(self, event: DriverEvent) -> None:
        def said() -> bool:
            self.said += self.driver.poll()
            return event in self.said

        eventually(f"the driver says {event}", said)
        self.said = []

    def running(self) -> list[int]:
        process = InstanceFolder(self.root, A).process()
        return [] if process is None else members(process)

    def launchers(self) -> list[Popen[bytes]]:
        return [one for one in self.driver._launched if launcher.__file__ in cast(list[str], one.args)]

    def watchdogs(self) -> list[str]:
        return [line for line in processes_of(self.root) if "zonesched.compute.watchdog" in line]

    def end(self) -> None:
        for pid in self.running():
            os.kill(pid, signal.SIGKILL)
        self.hold(99, -1.0)
        for one in self.driver._launched:
            one.wait()
        os.close(self.driver._lock)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.end()


def ends_instances(root: Path) -> bool:
    """End what runs; tell whether anything did."""
    records = watchdog.Records(root)
    records.read()
    return watchdog.end_instances(records)


def built(key: Key = A) -> Built:
    return Built(key)


def test_the_watchdog_ends_what_runs_and_then_itself(bench: Bench) -> None:
    bench.hold(1, 3.0)
    bench.driver.spawn(WANTED)
    bench.until(built())
    ends_at = bench.driver.lease().until_s

    eventually("it has ended", lambda: not bench.running())
    ended_at = CLOCK.monotonic()
    eventually("the watchdog has ended", lambda: not bench.watchdogs())

    assert ends_at <= ended_at <= ends_at + 3.0
    assert InstanceFolder(bench.root, A).was_fenced()


def test_an_agent_with_a_copy_of_the_folder_does_not_start_and_ends_nothing(
    bench: Bench, tmp_path: Path
) -> None:
    bench.hold(1, 600.0)
    bench.driver.spawn(WANTED)
    bench.until(built())
    shutil.copytree(bench.root, tmp_path / "copy" / "instances")
    lease.write(tmp_path / "copy" / "instances", Lease(1, 0.0))

    with pytest.raises(ConfigError, match="is a copy, and 1 instances"):
        Bench(tmp_path / "copy").driver.work()
    assert bench.running()


def test_a_watchdog_that_hears_in_its_first_moment_that_its_agent_is_stopped_keeps_the_promise(
    bench: Bench,
) -> None:
    bench.driver.spawn(WANTED)
    bench.until(built())

    bench.hold(1, 2.0)
    (watchdog_process,) = bench.driver._launched[-1:]
    watchdog_process.terminate()

    eventually("it has ended", lambda: not bench.running(), timeout_s=20.0)
    assert watchdog_process.wait(timeout=60) == 0


def test_a_lease_that_is_prolonged_ends_nothing_and_a_killed_watchdog_is_started_again(bench: Bench) -> None:
    bench.hold(1, 5.0)
    bench.driver.spawn(WANTED)
    bench.until(built())
    (watchdog_process,) = bench.driver._launched[:1]
    watchdog_process.kill()
    watchdog_process.wait()

    bench.hold(1, 600.0)
    bench.driver.poll()

    # A process that has just been started has its command line only once it is executed.
    eventually("the watchdog runs again", bench.watchdogs)
    assert len(bench.watchdogs()) == 1
    assert bench.running()


def test_an_agent_whose_watchdog_is_dead_and_cannot_be_started_ends_what_runs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a machine on which no process can be started any more, and a watchdog that was killed
    bench.hold(1, 4.0)
    bench.driver.spawn(WANTED)
    bench.until(built())
    ends_at = bench.driver.lease().until_s
    (watchdog_process,) = bench.driver._launched[:1]
    watchdog_process.kill()
    watchdog_process.wait()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    # when the lease cannot be renewed
    with pytest.raises(OSError, match="nowhere"):
        bench.hold(1, 600.0)
    assert isinstance(bench.driver, HasWork)
    assert bench.driver.work() <= 0.5
    assert bench.running()
    # then nothing runs once it has ended, whatever was written of it
    eventually("it has ended", lambda: bench.driver.work() and not bench.running())
    assert ends_at <= CLOCK.monotonic() <= ends_at + 3.0
    bench.until(Fenced(A))


@pytest.mark.parametrize("has_watchdog", [True, False])
def test_what_runs_ends_with_the_lease_while_its_folder_hangs(bench: Bench, has_watchdog: bool) -> None:
    # given an instance whose folder is on a file system that does not answer any more
    bench.hold(1, 3.0)
    bench.driver.spawn(WANTED)
    bench.until(built())
    ends_at, executor = bench.driver.lease().until_s, ThreadExecutor()
    process = InstanceFolder(bench.root, A).process()
    assert process is not None
    (watchdog_process,) = bench.driver._launched[:1]
    if not has_watchdog:
        watchdog_process.kill()
        watchdog_process.wait()
        executor.start_loop("driver", bench.driver.work)
    # Whoever ends it has to have read the folder, which leaves no trace to wait for.
    time.sleep(2 * watchdog.LOOK_S)
    with dead_folder(bench.root):
        # when its lease runs out
        eventually("it has ended", lambda: not members(process), timeout_s=10.0)
        # then it has ended in time
        assert ends_at <= CLOCK.monotonic() <= ends_at + 3.0
    # and once the folder answers it is known that it did not end by itself
    eventually("it is marked", InstanceFolder(bench.root, A).was_fenced)
    executor.stop()
    bench.until(Fenced(A))


def test_what_was_started_just_before_its_folder_hangs_ends_with_the_lease(bench: Bench) -> None:
    # given an instance of which the folder has told nobody yet, and others who work in its disk
    bench.driver.spawn(WANTED)
    bench.until(built())
    process = InstanceFolder(bench.root, A).process()
    assert process is not None
    disk = InstanceFolder(bench.root, A).path / "disk"
    other = Popen(["sleep", "600"], cwd=disk)
    try:
        with dead_folder(bench.root):
            # when the folder hangs, and the lease is over
            over, records = Lease(1, CLOCK.monotonic() - 1.0), watchdog.Records(bench.root)
            eventually("it has ended", lambda: watchdog.look(records, over) and not members(process))
            # then nothing else has
            assert other.poll() is None
    finally:
        other.kill()
        other.wait()
    # and it is marked once the folder answers
    eventually("all is done", lambda: watchdog.look(records, over) == math.inf)
    assert InstanceFolder(bench.root, A).was_fenced()


def test_a_launcher_that_its_folder_kept_waiting_until_the_lease_was_over_starts_nothing(
    bench: Bench,
) -> None:
    # given a launcher that waits for the output of its instance, a pipe that nobody reads, and no watchdog
    bench.driver._lease = Lease(1, CLOCK.monotonic() + 600.0)
    lease.write(bench.root, bench.driver._lease)
    folder = InstanceFolder(bench.root, A)
    folder.prepare(bench.driver._form(WANTED))
    os.mkfifo(folder.path / "output.log")
    late = bench.driver._launch(folder)
    eventually("it is recorded", folder.process)
    # when the lease is over before it can go on
    lease.write(bench.root, Lease(1, CLOCK.monotonic() - 1.0))
    os.close(os.open(folder.path / "output.log", os.O_RDWR | os.O_NONBLOCK))
    # then
    assert late.wait(timeout=60) == launcher.LAPSED
    assert (folder.process(), bench.running()) == (None, [])


class AZone:
    """A zone that answers heartbeats alone; `kept`: whether a watchdog was there at each promise."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.kept: list[bool] = []

    def register(self, hosts: Sequence[InventoryHost], fence_after_s: float = math.inf) -> ZoneIdentity:
        return ZoneIdentity("zone", "zone-uuid")

    def beat(self, fence_after_s: float = math.inf) -> None:
        started = self._bench.driver._launched
        self.kept.append(any(watchdog.__name__ in cast(list[str], one.args) for one in started))

    def fetch(self) -> Fetched:
        raise ZoneUnavailable("it compares its rows")


def test_an_agent_promises_nothing_before_there_is_a_watchdog_again(bench: Bench) -> None:
    # given an agent that was killed with its watchdog, and an instance that runs on
    bench.hold(1, 500.0)
    bench.driver.spawn(WANTED)
    bench.until(built())
    (watchdog_process,) = bench.driver._launched[:1]
    watchdog_process.kill()
    watchdog_process.wait()
    # when the next agent calls its zone
    zone = AZone(bench)
    Agent(zone, bench.driver, CLOCK, [InventoryHost("h1")], Rhythm(fence_after_s=600.0)).step()  # type: ignore[arg-type]
    # then somebody is there who keeps what it promises
    assert zone.kept == [True]


def test_after_the_end_of_its_lease_a_driver_starts_nothing_until_there_is_another(bench: Bench) -> None:
    bench.hold(1, -1.0)
    bench.driver.spawn(WANTED)
    for _ in range(20):
        assert bench.driver.poll() == []
    assert not bench.launchers()

    bench.hold(2, 600.0)
    bench.until(built())

    assert bench.running()


def test_a_launcher_of_an_earlier_term_starts_nothing(bench: Bench) -> None:
    bench.hold(1, 600.0)
    folder = InstanceFolder(bench.root, A)
    folder.prepare(bench.driver._form(WANTED))
    late = bench.driver._launch
    lease.write(bench.root, Lease(2, CLOCK.monotonic() + 600.0))

    code = late(folder).wait()

    assert (code, folder.process(), bench.running()) == (75, None, [])


def test_one_that_was_fenced_runs_again_once_the_zone_wants_it(bench: Bench) -> None:
    bench.hold(1, 2.0)
    bench.driver.spawn(WANTED)
    bench.until(built())
    (first, *_) = bench.running()
    bench.until(Fenced(A))

    bench.hold(2, 600.0)
    bench.driver.come_back(WANTED)
    bench.until(built())

    assert bench.running()[0] != first
    assert not InstanceFolder(bench.root, A).was_fenced()


def test_a_lease_of_an_earlier_boot_of_the_machine_has_run_out(tmp_path: Path) -> None:
    (tmp_path / lease.FILE).write_text('{"term": 4, "until_s": 1e12, "boot_id": "earlier"}')

    found = lease.read(tmp_path)

    assert (found.term, found.is_held(CLOCK.monotonic())) == (4, False)


@pytest.mark.parametrize("left", ["", "\0", "[]", "{}", "7"])
def test_a_lease_that_cannot_be_read_has_run_out(tmp_path: Path, left: str) -> None:
    (tmp_path / lease.FILE).write_text(left)

    assert not lease.read(tmp_path).is_held(CLOCK.monotonic())


def test_a_lease_with_a_text_in_place_of_a_number_has_run_out(tmp_path: Path) -> None:
    lease.write(tmp_path, Lease(4, CLOCK.monotonic() + 600))
    whole = json.loads((tmp_path / lease.FILE).read_text())

    for damaged in ({**whole, "until_s": "soon"}, {**whole, "term": "x"}, {**whole, "until_s": None}):
        (tmp_path / lease.FILE).write_text(json.dumps(damaged))
        assert not lease.read(tmp_path).is_held(CLOCK.monotonic())


def test_what_an_instance_has_started_ends_with_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.driver._settings = DriverSettings(command=("sh", "-c", "trap '' TERM; sleep 600 & sleep 600"))
    bench.driver.spawn(WANTED)
    bench.until(built())
    eventually("it has children", lambda: len(bench.running()) == 3)
    pids = bench.running()

    assert ends_instances(bench.root)
    eventually("all have ended", lambda: not ends_instances(bench.root))

    assert not set(pids) & {pid for some in sessions().values() for pid in some}
    bench.end()


def add_a_folder_of_no_instance(root: Path) -> None:
    (root / "lost+found").mkdir()


def add_a_record_of_no_process(root: Path) -> None:
    folder = InstanceFolder(root, Key("0-broken", 1))
    folder.prepare({})
    (folder.path / "process.json").write_text("of somebody else")


def leave_no_room_for_its_mark(root: Path) -> None:
    # No file can be made at the end of a loop, as on a disk without a free inode.
    (InstanceFolder(root, A).path / "fenced").symlink_to("fenced")


@pytest.mark.parametrize(
    "spoil", [add_a_folder_of_no_instance, add_a_record_of_no_process, leave_no_room_for_its_mark]
)
def test_whatever_is_in_the_folder_the_instances_end(bench: Bench, spoil: Callable[[Path], None]) -> None:
    bench.driver.spawn(WANTED)
    bench.until(built())
    spoil(bench.root)

    assert ends_instances(bench.root)

    eventually("it has ended", lambda: not bench.running())
    assert not ends_instances(bench.root)


# -- the whole path ----------------------------------------------------------------------------------------

FENCE_S = 3.0


class Machines:
    """Two hosts with an agent each on this machine, under a zone that evacuates by itself."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack

    def start(self, name: str) -> Popen[str]:
        inventory = self.folder / f"{name}.csv"
        inventory.write_text(f"name,VCPU,MEMORY_MB,DISK_GB\n{name},1,512,1\n")
        options = {
            "--credentials": str(self.folder / "agent.credentials"),
            "--inventory": str(inventory),
            "--service": name,
            "--poll-seconds": "0.2",
            "--heartbeat-seconds": "0.5",
            "--fence-after": str(FENCE_S),
            "--connection-type": "process",
            "--state-folder": str(self.folder / name),
        }
        words = [word for pair in options.items() for word in pair]
        return self._stack.enter_context(launched("zonesched.compute.main", *words))

    def running(self) -> list[str]:
        """The machine of each process that is an instance, as /proc says."""
        found: list[str] = []
        by_session = sessions()
        for record in self.folder.glob("*/instances/*.*/process.json"):
            with suppress(FileNotFoundError):
                uuid, _, attempt = record.parent.name.rpartition(".")
                folder = InstanceFolder(record.parent.parent, Key(uuid, int(attempt)))
                process = folder.process()
                if process is not None and members(process, by_session):
                    found.append(record.parents[2].name)
        return found

    def until(self, *where: str, timeout_s: float = 60.0) -> float:
        """Wait until the server runs there; it never runs twice meanwhile. How long that took."""

        def is_there() -> bool:
            running = self.running()
            assert len(running) <= 1, running
            return running == list(where)

        began_at = time.monotonic()
        eventually(f"it runs at {where}", is_there, timeout_s)
        return time.monotonic() - began_at

    def end(self) -> None:
        for root in self.folder.glob("*/instances"):
            ends_instances(root)


def kill(agent: Popen[str]) -> None:
    agent.kill()
    agent.wait()


def stop(agent: Popen[str]) -> None:
    agent.send_signal(signal.SIGSTOP)


@pytest.mark.parametrize("lose", [kill, stop])
def test_an_agent_is_lost_and_its_server_runs_elsewhere_and_never_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lose: Callable[[Popen[str]], None]
) -> None:
    port = free_port()
    conf = write_conf(
        tmp_path, port, "boot_poll_interval = 0.2", "service_down_time = 2", "evacuate_automatically = true"
    )
    with ExitStack() as stack:
        stack.enter_context(launched("zonesched.serving", "--config-file", str(conf)))
        eventually("the zone answers", lambda: answers(f"http://127.0.0.1:{port}"))
        ask = Story(["--credentials", str(tmp_path / "state/admin.credentials")], capsys)
        ask("user", "create", "agent", "--role", "compute", "--save", str(tmp_path / "agent.credentials"))
        ask("flavor", "create", "small", "--vcpus", "1", "--ram", "512", "--disk", "1")
        machines = Machines(tmp_path, stack)
        stack.callback(machines.end)
        # given a server that runs at a, and b with room
        first = machines.start("a")
        eventually("a is up", lambda: ask("host", "list").count(" up ") == 1)
        ask("zone", "boot", "--flavor", "small", "--name", "w", "--watch")
        machines.until("a")
        machines.start("b")
        eventually("b is up", lambda: ask("host", "list").count(" up ") == 2)
        # when its agent is lost
        lose(first)
        # then it ends there in time, and runs at b once the zone can be sure
        assert machines.until(timeout_s=FENCE_S + 10) <= FENCE_S + 3
        assert machines.until("b") >= 3
        eventually("it is active", lambda: "ACTIVE" in ask("server", "list"))
        # and the agent that comes back has nothing to run
        if lose is kill:
            machines.start("a")
        else:
            first.send_signal(signal.SIGCONT)
        folders = tmp_path / "a" / "instances"
        eventually("nothing is left at a", lambda: machines.until("b") and not list(folders.glob("*.*/disk")))
        assert machines.running() == ["b"]
        eventually("the audit is clean", lambda: "no inconsistencies" in ask("audit"))
