"""Instances that are processes: real ones, of this machine, ended at the latest with the test."""

from __future__ import annotations

import fcntl
import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders.clock import FakeClock
from tests.builders.dead_folder import dead_folder
from zonesched.compute import launcher, lease, process_table, removal
from zonesched.compute.desired_state import Desired, Observed, Power, RebootType
from zonesched.compute.driver import DriverSettings, load_driver
from zonesched.compute.instance_folder import InstanceFolder, Status
from zonesched.compute.lease import Lease
from zonesched.compute.machine import Built, Changed, Destroyed, DriverEvent, Failed, Key, Left, Wanted
from zonesched.compute.process import ProcessDriver, cpus_for
from zonesched.compute.process_instance import WATCH_S, ProcessInstance
from zonesched.compute.process_table import Process
from zonesched.errors import ConfigError
from zonesched.model.console import MAX_CONSOLE_BYTES
from zonesched.seams import SystemClock

pytestmark = pytest.mark.slow

A, A2, B = Key("a-1", 1), Key("a-1", 2), Key("b-1", 1)
WAIT_S = 20.0
NOBODY = 65534
PRINTS = (sys.executable, "-c")
NEVER_ENDS_POLITELY = "trap '' TERM; sleep 600 & sleep 600"


def shell(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


class Bench:
    """A state folder, the drivers that come and go on it, and what they told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = DriverSettings(state_folder=str(folder), stop_seconds=0.2)
        self.told: list[DriverEvent] = []
        self._drivers: list[ProcessDriver] = []

    def driver(self, *command: str) -> ProcessDriver:
        """The agent's only one: an earlier one is gone as if it had been killed."""
        if self._drivers:
            os.close(self._drivers[-1]._lock)
        self._drivers.append(ProcessDriver(replace(self.settings, command=command), SystemClock()))
        return self._drivers[-1]

    def until(self, driver: ProcessDriver, *expected: DriverEvent) -> None:
        """Poll until exactly these events have been told since the last call."""
        self.told = []
        self.wait(lambda: self.told.extend(driver.poll()) or len(self.told) >= len(expected))
        assert self.told == list(expected)

    @staticmethod
    def wait(done: Callable[[], Any]) -> None:
        ends_at = time.monotonic() + WAIT_S
        while not done():
            assert time.monotonic() < ends_at, "it takes too long"
            # Real processes: what they do no clock of ours moves on.
            time.sleep(0.01)

    def at(self, key: Key) -> InstanceFolder:
        return InstanceFolder(self.folder / "instances", key)

    def process(self, key: Key) -> Process:
        found = self.at(key).process()
        assert found is not None
        return found

    def running(self) -> list[int]:
        """Pids of all sessions that any instance here has ever led."""
        found: list[int] = []
        for record in self.folder.glob("instances/*/process.json"):
            found += process_table.members(Process(**json.loads(record.read_text())))
        return found

    def end(self) -> None:
        for pid in self.running():
            os.kill(pid, signal.SIGKILL)
        for driver in self._drivers:
            for launched in driver._launched:
                launched.wait()
            for instance in driver._instances.values():
                if isinstance(instance, ProcessInstance):
                    instance._stop_copying()
                    if (removing := instance._folder._removing) is not None:
                        removing.wait()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.end()


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no file grow meanwhile: neither one of the driver nor one of what it starts."""
    _, most = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def wanted(key: Key = A, *, is_active: bool = False, **flavor: int) -> Wanted:
    return Wanted(key, "h1", "my-name", flavor={"name": "small", **flavor}, is_active=is_active)


def ended(key: Key, reason: str, generation: int = 0) -> Changed:
    return Changed(key, Observed(generation, Power.STOPPED, reason))


def run(bench: Bench, driver: ProcessDriver, one: Wanted | None = None) -> Process:
    one = one or wanted()
    driver.spawn(one)
    bench.until(driver, Built(one.key))
    return bench.process(one.key)


@pytest.mark.parametrize(
    "left", ["", "\x00" * 40, '{"term": 7, "until_s": 1e9, "boot_id": ""}', None], ids=repr
)
def test_a_lease_file_that_is_damaged_under_an_agent_that_does_not_fence_is_written_anew(
    bench: Bench, left: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    # given an agent that does not fence any more, and whose folder has a lease since it did
    driver = bench.driver()
    driver.hold(Lease(3, math.inf))
    file = bench.folder / "instances" / lease.FILE
    # when a bad disk damages or loses the file
    if left is None:
        file.unlink()
    else:
        file.write_text(left)
    # then what is built starts all the same, and later agents find the lease
    run(bench, driver)
    assert lease.read(file.parent) == Lease(3, math.inf)
    assert caplog.text.count("is written anew") == 1


def test_it_is_found_by_its_name() -> None:
    assert load_driver("process") is ProcessDriver


def test_without_a_folder_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="state folder"):
        ProcessDriver(DriverSettings(), SystemClock())


def test_two_agents_do_not_share_a_folder(bench: Bench) -> None:
    first = bench.driver()

    with pytest.raises(ConfigError, match="used by another agent"):
        ProcessDriver(bench.settings, SystemClock())
    assert first.poll() == []


def test_an_instance_is_a_process_in_a_session_of_its_own(bench: Bench) -> None:
    process = run(bench, bench.driver())

    assert process_table.is_alive(process)
    assert os.getsid(process.pid) == process.pid != os.getsid(0)
    assert Path(f"/proc/{process.pid}/cmdline").read_bytes() == b"sleep\0infinity\0"


def test_it_hears_all_signals_whatever_its_agent_hears(bench: Bench) -> None:
    driver = bench.driver()
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        process = run(bench, driver)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)

    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    masks = {
        line.split(":")[0]: int(line.split()[1], 16) for line in lines if line[:6] in ("SigBlk", "SigIgn")
    }
    assert (masks["SigBlk"], masks["SigIgn"]) == (0, 0)


def test_it_knows_who_it_is_and_nothing_of_the_agent(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZONESCHED_PASSWORD", "secret")
    process = run(bench, bench.driver())

    lines = Path(f"/proc/{process.pid}/environ").read_text().split("\0")
    found = dict(line.split("=", 1) for line in lines if line)
    assert found.pop("PATH")
    assert found == {
        "ZONESCHED_INSTANCE_UUID": "a-1",
        "ZONESCHED_INSTANCE_NAME": "my-name",
        "ZONESCHED_INSTANCE_ATTEMPT": "1",
        "ZONESCHED_HOST": "h1",
        "ZONESCHED_FLAVOR": "small",
        "ZONESCHED_IMAGE": "",
    }


def test_it_has_the_limits_of_its_flavor(bench: Bench) -> None:
    process = run(bench, bench.driver(), wanted(vcpus=1, ram=256, disk=3))

    text = Path(f"/proc/{process.pid}/limits").read_text()
    limits = {line[:26].strip(): line[26:].split()[:2] for line in text.splitlines()}
    assert limits["Max address space"] == [str(256 * 2**20)] * 2
    assert limits["Max file size"] == [str(3 * 2**30)] * 2
    assert limits["Max core file size"] == ["0", "0"]
    if len(os.sched_getaffinity(0)) > 1:
        assert len(os.sched_getaffinity(process.pid)) == 1


def test_memory_beyond_the_flavor_is_refused_to_it(bench: Bench) -> None:
    driver = bench.driver(
        *PRINTS, "try:\n x = bytearray(2**28)\nexcept MemoryError: print('none', flush=True)"
    )
    run(bench, driver, wanted(ram=128))
    bench.wait(lambda: (bench.at(A).path / "output.log").read_text() == "none\n")


def test_a_file_beyond_the_flavors_disk_is_refused_to_it(bench: Bench) -> None:
    lines = [
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)",
        "file = open('f', 'wb'); file.truncate(2**30)",
        "try: file.truncate(2**30 + 1)",
        "except OSError: print('none', flush=True)",
    ]
    driver = bench.driver(*PRINTS, "\n".join(lines))
    run(bench, driver, wanted(disk=1))
    bench.wait(lambda: (bench.at(A).path / "output.log").read_text() == "none\n")


@pytest.mark.parametrize(
    ("vcpus", "count"), [(0, 0), (1, 1), (3, 3), (4, 0), (9, 0)], ids=lambda value: str(value)
)
def test_an_instance_gets_as_many_cpus_as_its_flavor_says(vcpus: int, count: int) -> None:
    chosen = [cpus_for(str(n), vcpus, [2, 3, 5, 7]) for n in range(50)]

    assert {len(cpus) for cpus in chosen} == {count}
    assert {cpu for cpus in chosen for cpu in cpus} == ({2, 3, 5, 7} if count else set())


def test_what_is_destroyed_leaves_nothing(bench: Bench) -> None:
    driver = bench.driver(*shell(NEVER_ENDS_POLITELY))
    process = run(bench, driver)
    bench.wait(lambda: len(process_table.members(process)) == 3)

    driver.destroy(A)
    bench.until(driver, Destroyed(A))

    assert process_table.members(process) == []
    assert bench.at(A).status() is Status.ABSENT
    assert list((bench.folder / "instances").glob("*.*")) == [bench.folder / "instances" / "agent.lock"]


def test_it_may_end_by_itself_when_it_is_asked_to(bench: Bench) -> None:
    bench.settings = replace(bench.settings, stop_seconds=600.0)
    driver = bench.driver(*shell("trap 'exit 0' TERM; while :; do sleep 0.05; done"))
    run(bench, driver)

    driver.destroy(A)

    bench.until(driver, Destroyed(A))


def test_what_it_started_ends_with_it(bench: Bench) -> None:
    driver = bench.driver(*shell("sleep 600 & exec sleep 0.3"))
    process = run(bench, driver)

    bench.until(driver, ended(A, "process_ended"))

    assert process_table.members(process) == []


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_pid_that_is_given_out_again_is_not_taken_for_an_instance_that_has_ended(
    bench: Bench, is_stopped: bool
) -> None:
    # given an instance of which nothing runs any more
    driver = bench.driver(*shell("until [ -e end ]; do sleep 0.05; done"))
    run(bench, driver)
    if is_stopped:
        driver.apply(A, desired(1, Power.STOPPED))
        bench.until(driver, reached(1, Power.STOPPED))
    else:
        (bench.at(A).path / "disk/end").touch()
        bench.until(driver, ended(A, "process_ended"))
    # when its pid has since been that of another program, which has left a daemon in its session
    with subprocess.Popen(
        shell("sleep 600 >&- & echo $!"), stdout=subprocess.PIPE, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        daemon = int(parent.stdout.readline())
    record = bench.at(A).path / "process.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "pid": parent.pid}))
    # then the daemon runs on, whatever becomes of the instance
    try:
        driver.destroy(A)
        bench.until(driver, Destroyed(A))
        assert Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[0] == "S"
    finally:
        os.kill(daemon, signal.SIGKILL)


def test_what_is_not_there_is_destroyed_at_once(bench: Bench) -> None:
    driver = bench.driver()

    driver.destroy(A)

    bench.until(driver, Destroyed(A))


def test_a_poll_of_many_instances_lets_the_agent_call_its_zone_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a machine on which the end of an instance takes a quarter of a second
    clock, remove = FakeClock(), InstanceFolder.remove

    def slow(folder: InstanceFolder) -> bool:
        clock.advance(0.25)
        return remove(folder)

    monkeypatch.setattr(InstanceFolder, "remove", slow)
    driver = ProcessDriver(DriverSettings(state_folder=str(tmp_path)), clock)
    # when many are to end
    keys = [Key(f"i-{number}", 1) for number in range(20)]
    for key in keys:
        driver.destroy(key)
    told: list[DriverEvent] = []
    while len(told) < len(keys):
        began_at = clock.monotonic()
        told += driver.poll()
        # then no poll takes long
        assert clock.monotonic() - began_at < 2.0
    assert told == [Destroyed(key) for key in keys]
    os.close(driver._lock)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("sleep 0.2", "process_ended"),
        ("sleep 0.2; exit 3", "process_failed"),
        ("sleep 0.2; kill -9 $$", "process_killed"),
    ],
)
def test_one_that_ends_by_itself_is_told_with_a_reason_once(bench: Bench, script: str, reason: str) -> None:
    driver = bench.driver(*shell(script))
    run(bench, driver)

    bench.until(driver, ended(A, reason))

    assert (driver.poll(), driver.next_event_s()) == ([], float("inf"))


def test_its_console_is_the_end_of_what_it_has_written(bench: Bench) -> None:
    # The instance only has to live until the test ends it.
    script = "import time; print('x' * 40000); print('at the end', flush=True); time.sleep(600)"
    driver = bench.driver(*PRINTS, script)
    run(bench, driver)
    bench.wait(lambda: driver.read_console(A).endswith(b"at the end\n"))

    assert driver.read_console(A) == b"x" * (MAX_CONSOLE_BYTES - 12) + b"\nat the end\n"
    assert driver.read_console(B) == b""


def test_what_it_puts_in_place_of_its_output_is_not_read(bench: Bench) -> None:
    driver = bench.driver("sleep", "600")
    run(bench, driver)
    output = bench.at(A).path / "output.log"
    secret = bench.folder / "secret"
    secret.write_text("of somebody else")

    output.unlink()
    output.symlink_to(secret)
    through_a_link = driver.read_console(A)
    output.unlink()
    os.mkfifo(output)

    assert (through_a_link, driver.read_console(A)) == (b"", b"")


def test_a_command_that_is_not_there_is_a_build_that_failed(bench: Bench) -> None:
    driver = bench.driver("/no/such/command")
    driver.spawn(wanted())

    bench.until(driver, Failed(A, "process_not_started"))


def test_an_end_that_a_full_disk_cannot_take_holds_up_no_other_instance(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    # given an instance whose end is to be written down on a full disk
    driver = bench.driver(*shell("until [ -e end ]; do sleep 0.05; done; exit 3"))
    run(bench, driver)
    run(bench, driver, wanted(B))
    (bench.at(A).path / "disk/end").touch()
    with full_disk():
        bench.wait(lambda: driver.poll() == [] and caplog.messages)
        # when another one is destroyed
        driver.destroy(B)
        bench.until(driver, Destroyed(B))
    # then that is done, and the end is told once there is room
    bench.until(driver, ended(A, "process_failed"))
    assert [message[:31] for message in caplog.messages] == ["instance a-1, attempt 1, waits:"]


@pytest.mark.parametrize("name", ["wanted.json", "process.json"])
def test_a_file_that_a_power_cut_has_left_empty_holds_up_no_other_instance(bench: Bench, name: str) -> None:
    driver = bench.driver()
    run(bench, driver)
    run(bench, driver, wanted(B))
    record = bench.at(A).path / name
    content = record.read_text()
    record.write_text("")
    driver.apply(A, rebuilt(1))
    driver.apply(B, desired(1, Power.PAUSED))

    bench.until(driver, Changed(B, Observed(1, Power.PAUSED)))

    record.write_text(content)
    bench.until(driver, reached(1, Power.RUNNING, rebuilds=1))


def test_a_launcher_that_comes_late_costs_nobody_the_instance_that_runs(bench: Bench) -> None:
    # given an instance that runs, and one more launcher, as of an agent that died, which looks at its folder
    driver = bench.driver()
    run(bench, driver)
    process = bench.process(A)
    with open(bench.at(A).path / "lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # when the agent looks at it meanwhile
        ends_at = time.monotonic() + 1.5 * WATCH_S
        bench.wait(lambda: driver.poll() or time.monotonic() > ends_at)
    # then it runs on
    assert process_table.is_alive(process)
    assert driver.poll() == []


def test_a_build_that_finds_the_disk_full_has_failed_and_leaves_nothing(bench: Bench) -> None:
    driver = bench.driver()
    with full_disk():
        driver.spawn(wanted())
        bench.until(driver, Failed(A, "process_not_started"))

    driver.destroy(A)
    bench.until(driver, Destroyed(A))

    assert not list((bench.folder / "instances").glob("*a-1*"))
    run(bench, driver, wanted(A2))


@pytest.mark.parametrize("is_rebuilt", [False, True])
def test_a_disk_whose_removal_takes_long_holds_up_no_other_instance(bench: Bench, is_rebuilt: bool) -> None:
    # given an instance with something in its disk that is not removed soon, such as very many files
    driver = bench.driver()
    run(bench, driver)
    slow = bench.at(A).path / "disk/slow"
    slow.mkdir()
    removed = reached(1, Power.RUNNING, rebuilds=1) if is_rebuilt else Destroyed(A)
    with dead_folder(slow):
        # when that is removed
        if is_rebuilt:
            driver.apply(A, rebuilt(1))
        else:
            driver.destroy(A)
        bench.wait(lambda: driver.poll() or not slow.parent.exists() or not os.listdir(slow.parent))
        # then others are built
        run(bench, driver, wanted(B))
    # and it is said once nothing is left
    bench.until(driver, removed)


def test_what_an_earlier_agent_has_not_removed_holds_up_no_start(bench: Bench) -> None:
    # given an agent that was killed while it removed an instance
    bench.driver()
    slow = bench.folder / "instances/unfinished.a-1.1/disk/slow"
    slow.mkdir(parents=True)
    with dead_folder(slow):
        # when another one starts
        driver = bench.driver()
        driver.found()
        # then it builds instances
        run(bench, driver)
    # and nothing is left
    bench.wait(lambda: not driver.poll() and not list(bench.folder.glob("instances/unfinished.*")))


def test_one_whose_folder_is_removed_while_it_runs_is_lost(bench: Bench) -> None:
    driver = bench.driver(*shell("until [ -e end ]; do sleep 0.05; done"))
    process = run(bench, driver)
    folder = bench.at(A).path
    (folder / "disk/end").touch()
    bench.wait(lambda: not process_table.is_alive(process))

    shutil.rmtree(folder)

    bench.until(driver, Failed(A, "process_lost"))
    driver.destroy(A)
    bench.until(driver, Destroyed(A))


def test_a_launcher_that_has_failed_and_not_exited_yet_is_no_instance(bench: Bench) -> None:
    folder = InstanceFolder(bench.folder, A)
    folder.prepare({"reboots": 0})
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    identity = {"pid": os.getpid(), "started": started, "boot_id": process_table.boot_id()}
    (folder.path / "process.json").write_text(json.dumps(identity))
    before = folder.status()

    (folder.path / "error").write_text("no such command")

    assert (before, folder.status()) == (Status.RUNNING, Status.ENDED)


def test_a_session_without_processes_is_not_paused() -> None:
    ended = subprocess.Popen(["true"], start_new_session=True)
    ended.wait()

    assert not process_table.are_paused(Process(ended.pid, 1, process_table.boot_id()))


def test_spawned_twice_is_one_process(bench: Bench) -> None:
    driver = bench.driver()
    process = run(bench, driver)

    driver.spawn(wanted())

    assert driver.poll() == []
    assert bench.running() == [process.pid]


def test_a_later_attempt_waits_until_nothing_is_left_of_the_earlier_one(bench: Bench) -> None:
    driver = bench.driver()
    first = run(bench, driver)

    driver.spawn(wanted(A2))
    bench.told = list(driver.poll())
    assert (bench.told, bench.at(A2).status()) == ([], Status.ABSENT)
    driver.destroy(A)

    bench.until(driver, Destroyed(A), Built(A2))
    assert not process_table.is_alive(first)
    assert bench.running() == [bench.process(A2).pid]


COUNTS_ITS_STARTS = "echo start >> starts; sleep 600 & exec sleep 600"


def desired(generation: int, power: Power, reboots: int = 0, kind: RebootType = RebootType.SOFT) -> Desired:
    return Desired(generation, power, reboots, kind)


def rebuilt(generation: int, power: Power = Power.RUNNING, rebuilds: int = 1) -> Desired:
    return Desired(generation, power, rebuilds=rebuilds, image={"name": "newer"})


def reached(generation: int, power: Power, reason: str = "", rebuilds: int = 0) -> Changed:
    return Changed(A, Observed(generation, power, reason, rebuilds))


def states(process: Process) -> set[str]:
    """States of all processes of the session, as ps shows them."""
    found: set[str] = set()
    for pid in process_table.members(process):
        found.add(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
    return found


class TestPower:
    @pytest.fixture
    def driver(self, bench: Bench) -> ProcessDriver:
        driver = bench.driver(*shell(COUNTS_ITS_STARTS))
        process = run(bench, driver)
        bench.wait(lambda: len(process_table.members(process)) == 2)
        return driver

    def starts(self, bench: Bench) -> int:
        return (bench.at(A).path / "disk/starts").read_text().count("start")

    def test_a_stopped_instance_runs_nothing_and_starts_again_in_its_folder(
        self, bench: Bench, driver: ProcessDriver
    ) -> None:
        driver.apply(A, desired(1, Power.STOPPED))
        bench.until(driver, reached(1, Power.STOPPED))
        assert (bench.running(), driver.next_event_s()) == ([], float("inf"))

        driver.apply(A, desired(2, Power.RUNNING))
        bench.until(driver, reached(2, Power.RUNNING))

        bench.wait(lambda: self.starts(bench) == 2)
        assert process_table.is_alive(bench.process(A))

    def test_a_paused_instance_stops_with_all_it_started_and_goes_on(
        self, bench: Bench, driver: ProcessDriver
    ) -> None:
        process = bench.process(A)

        driver.apply(A, desired(1, Power.PAUSED))
        bench.until(driver, reached(1, Power.PAUSED))
        assert states(process) == {"T"}

        driver.apply(A, desired(2, Power.RUNNING))
        bench.until(driver, reached(2, Power.RUNNING))
        assert "T" not in states(process)
        assert bench.process(A) == process

    @pytest.mark.parametrize("kind", list(RebootType))
    def test_a_reboot_starts_it_once_more(
        self, bench: Bench, driver: ProcessDriver, kind: RebootType
    ) -> None:
        before = bench.process(A)

        driver.apply(A, desired(1, Power.RUNNING, 1, kind))
        bench.until(driver, reached(1, Power.RUNNING))
        driver.apply(A, desired(1, Power.RUNNING, 1, kind))
        assert driver.poll() == []

        bench.wait(lambda: self.starts(bench) == 2)
        assert process_table.members(before) == []

    def test_a_hard_reboot_asks_nobody(self, bench: Bench) -> None:
        bench.settings = replace(bench.settings, stop_seconds=600.0)
        driver = bench.driver(*shell(NEVER_ENDS_POLITELY))
        before = run(bench, driver)

        driver.apply(A, desired(1, Power.RUNNING, 1, RebootType.HARD))

        bench.until(driver, reached(1, Power.RUNNING))
        assert process_table.members(before) == []

    def test_a_paused_instance_hears_that_it_must_end(self, bench: Bench) -> None:
        bench.settings = replace(bench.settings, stop_seconds=600.0)
        driver = bench.driver(*shell("trap 'exit 0' TERM; while :; do sleep 0.05; done"))
        run(bench, driver)
        driver.apply(A, desired(1, Power.PAUSED))
        bench.until(driver, reached(1, Power.PAUSED))

        driver.apply(A, desired(2, Power.STOPPED))

        bench.until(driver, reached(2, Power.STOPPED))
        assert bench.running() == []

    def test_to_suspend_is_refused_with_its_reason(self, bench: Bench, driver: ProcessDriver) -> None:
        driver.apply(A, desired(1, Power.SUSPENDED))

        bench.until(driver, reached(1, Power.RUNNING, "suspend_unsupported"))
        assert process_table.is_alive(bench.process(A))

    def test_a_reboot_that_was_refused_with_a_suspend_does_not_come_with_the_next_state(
        self, bench: Bench, driver: ProcessDriver
    ) -> None:
        before = bench.process(A)
        driver.apply(A, desired(2, Power.SUSPENDED, 1))
        bench.until(driver, reached(2, Power.RUNNING, "suspend_unsupported"))

        driver.apply(A, desired(3, Power.PAUSED, 1))
        bench.until(driver, reached(3, Power.PAUSED))

        assert (bench.process(A), self.starts(bench)) == (before, 1)

    @pytest.mark.parametrize("kind", list(RebootType))
    def test_a_suspend_that_meets_a_reboot_leaves_it_running(
        self, kind: RebootType, bench: Bench, driver: ProcessDriver
    ) -> None:
        before = bench.process(A)
        driver.apply(A, desired(1, Power.RUNNING, 1, kind))
        while process_table.is_alive(before):
            assert driver.poll() == []

        driver.apply(A, desired(2, Power.SUSPENDED, 1, kind))
        bench.until(driver, reached(2, Power.RUNNING, "suspend_unsupported"))

        bench.wait(lambda: self.starts(bench) == 2)
        assert process_table.is_alive(bench.process(A))

    def test_the_newest_state_wins_also_while_an_older_one_is_on_its_way(self, bench: Bench) -> None:
        driver = bench.driver(*shell(NEVER_ENDS_POLITELY))
        run(bench, driver)
        driver.apply(A, desired(1, Power.STOPPED))
        driver.poll()

        driver.apply(A, desired(3, Power.PAUSED))
        driver.apply(A, desired(2, Power.RUNNING))

        bench.until(driver, reached(3, Power.PAUSED))

    def test_one_that_ended_by_itself_is_not_started_until_asked(self, bench: Bench) -> None:
        driver = bench.driver(*shell("test -e again && exec sleep 600; touch again; exec sleep 0.2"))
        run(bench, driver)
        bench.until(driver, ended(A, "process_ended"))

        driver.apply(A, desired(1, Power.RUNNING))

        bench.until(driver, reached(1, Power.RUNNING))

    def test_a_start_that_fails_leaves_it_stopped_with_its_reason(
        self, bench: Bench, driver: ProcessDriver
    ) -> None:
        driver.apply(A, desired(1, Power.STOPPED))
        bench.until(driver, reached(1, Power.STOPPED))
        form = bench.at(A).path / "wanted.json"
        form.write_text(json.dumps({**json.loads(form.read_text()), "command": ["/no/such/command"]}))

        driver.apply(A, desired(2, Power.RUNNING))

        bench.until(driver, reached(2, Power.STOPPED, "process_not_started"))

    def test_a_stopped_instance_is_destroyed(self, bench: Bench, driver: ProcessDriver) -> None:
        driver.apply(A, desired(1, Power.STOPPED))
        bench.until(driver, reached(1, Power.STOPPED))

        driver.destroy(A)

        bench.until(driver, Destroyed(A))
        assert bench.at(A).status() is Status.ABSENT

    @pytest.mark.parametrize("power", [Power.RUNNING, Power.PAUSED, Power.STOPPED])
    def test_the_next_agent_finds_it_as_it_is(
        self, bench: Bench, driver: ProcessDriver, power: Power
    ) -> None:
        driver.apply(A, desired(4, power, 2))
        bench.until(driver, reached(4, power))

        second = bench.driver()

        assert second.found() == [A]
        bench.until(second, Built(A, Observed(4, power)))
        second.apply(A, desired(4, power, 2))
        assert second.poll() == []

    def test_a_rebuild_starts_it_anew_in_an_empty_folder_with_its_image(
        self, bench: Bench, driver: ProcessDriver
    ) -> None:
        before = bench.process(A)
        (bench.at(A).path / "disk/data").write_text("of the old image")

        driver.apply(A, rebuilt(1))
        bench.until(driver, reached(1, Power.RUNNING, rebuilds=1))

        process = bench.process(A)
        bench.wait(lambda: (bench.at(A).path / "disk/starts").exists())
        assert [path.name for path in (bench.at(A).path / "disk").iterdir()] == ["starts"]
        assert self.starts(bench) == 1
        assert not process_table.members(before)
        environment = Path(f"/proc/{process.pid}/environ").read_text().split("\0")
        assert "ZONESCHED_IMAGE=newer" in environment
        driver.apply(A, rebuilt(2, Power.STOPPED))
        bench.until(driver, reached(2, Power.STOPPED, rebuilds=1))
        assert self.starts(bench) == 1

    def test_a_stopped_instance_is_emptied_and_not_started(self, bench: Bench, driver: ProcessDriver) -> None:
        driver.apply(A, desired(1, Power.STOPPED))
        bench.until(driver, reached(1, Power.STOPPED))

        driver.apply(A, rebuilt(2, Power.STOPPED))
        bench.until(driver, reached(2, Power.STOPPED, rebuilds=1))

        assert list((bench.at(A).path / "disk").iterdir()) == []
        assert bench.running() == []

    def test_an_agent_that_dies_at_any_step_of_a_rebuild_rebuilds_once(self, bench: Bench) -> None:
        for steps in range(12):
            key = Key(f"b-{steps}", 1)
            driver = bench.driver(*shell(COUNTS_ITS_STARTS))
            driver.found()
            run(bench, driver, wanted(key))
            (bench.at(key).path / "disk/data").write_text("of the old image")
            driver.apply(key, rebuilt(1))
            for _ in range(steps):
                driver.poll()
                time.sleep(0.002)  # Real processes end and start meanwhile, a step further each time.

            second = bench.driver()
            second.found()
            bench.told = []
            bench.wait(lambda d=second: bench.told.extend(d.poll()) or bench.told)
            second.apply(key, rebuilt(1))
            bench.wait(lambda d=second, k=key: d.poll() or InstanceFolder(d._root, k).reached().generation)

            starts = bench.at(key).path / "disk/starts"
            bench.wait(lambda s=starts: s.exists() and s.read_text().count("start") == 1)
            assert [path.name for path in starts.parent.iterdir()] == ["starts"]
            assert InstanceFolder(second._root, key).reached().rebuilds == 1
            assert process_table.is_alive(bench.process(key))
            second.destroy(key)
            bench.wait(lambda d=second: d.poll())

    def test_an_agent_that_dies_at_any_step_of_a_reboot_reboots_once(self, bench: Bench) -> None:
        for steps in range(12):
            key = Key(f"r-{steps}", 1)
            driver = bench.driver(*shell(COUNTS_ITS_STARTS))
            driver.found()
            run(bench, driver, wanted(key))
            starts = bench.at(key).path / "disk/starts"
            # The first start has counted itself before the reboot may end it.
            bench.wait(lambda s=starts: s.exists() and s.read_text())
            driver.apply(key, desired(1, Power.RUNNING, 1))
            for _ in range(steps):
                driver.poll()
                time.sleep(0.002)  # Real processes end and start meanwhile, a step further each time.

            second = bench.driver()
            second.found()
            bench.told = []
            bench.wait(lambda d=second: bench.told.extend(d.poll()) or bench.told)
            second.apply(key, desired(1, Power.RUNNING, 1))
            bench.wait(lambda d=second, k=key: d.poll() or InstanceFolder(d._root, k).reached().generation)

            bench.wait(lambda s=starts: s.read_text().count("start") == 2)
            assert process_table.is_alive(bench.process(key))
            second.destroy(key)
            bench.wait(lambda d=second: d.poll())


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Bench]:
    """The agent of another machine."""
    bench = Bench(tmp_path / "there")
    yield bench
    bench.end()


class TestMoves:
    @pytest.fixture
    def shared(self, tmp_path: Path, bench: Bench, there: Bench) -> Path:
        """The folder that both agents reach."""
        folder = tmp_path / "shared"
        for one in (bench, there):
            one.settings = replace(one.settings, shared_folder=str(folder))
        return folder

    def ran(self, bench: Bench) -> ProcessDriver:
        """A driver with an instance that has run here, and was rebooted once."""
        driver = bench.driver(*shell(COUNTS_ITS_STARTS))
        run(bench, driver)
        # The first start has counted itself before the reboot may end it.
        bench.wait(lambda: self.starts(bench, A) == 1)
        driver.apply(A, desired(1, Power.RUNNING, 1))
        bench.until(driver, reached(1, Power.RUNNING))
        bench.wait(lambda: self.starts(bench, A) == 2)
        return driver

    def starts(self, bench: Bench, key: Key) -> int:
        counted = bench.at(key).path / "disk/starts"
        return counted.read_text().count("start") if counted.exists() else 0

    def leave(self, bench: Bench, driver: ProcessDriver) -> None:
        driver.leave(replace(wanted(), leaves_for=2))
        bench.until(driver, Left(A, 2))

    def arriving(self, power: Power) -> Wanted:
        return replace(wanted(A2), desired=desired(1, power, 1), moved_from=1)

    def test_it_goes_on_there_with_its_disk_and_leaves_nothing_here(
        self, bench: Bench, there: Bench, shared: Path
    ) -> None:
        driver = self.ran(bench)
        self.leave(bench, driver)
        assert bench.running() == []

        new = there.driver(*shell(COUNTS_ITS_STARTS))
        new.spawn(self.arriving(Power.RUNNING))
        there.until(new, Built(A2, Observed(1, Power.RUNNING)))
        there.wait(lambda: self.starts(there, A2) == 3)
        driver.destroy(A)
        bench.until(driver, Destroyed(A))

        bench.wait(lambda: not driver.poll() and not list(shared.iterdir()))
        assert (bench.running(), bench.at(A).status()) == ([], Status.ABSENT)
        # The reboot from before is not done again.
        new.apply(A2, desired(1, Power.RUNNING, 1))
        assert (new.poll(), self.starts(there, A2)) == ([], 3)

    def test_a_stopped_one_is_not_started_there_until_asked(
        self, bench: Bench, there: Bench, shared: Path
    ) -> None:
        self.leave(bench, self.ran(bench))
        new = there.driver(*shell(COUNTS_ITS_STARTS))

        new.spawn(self.arriving(Power.STOPPED))
        there.until(new, Built(A2, Observed(1, Power.STOPPED)))
        next_agent = there.driver(*shell(COUNTS_ITS_STARTS))
        next_agent.found()
        there.until(next_agent, Built(A2, Observed(1, Power.STOPPED)))
        stopped = self.starts(there, A2)
        next_agent.apply(A2, desired(2, Power.RUNNING, 1))
        there.until(next_agent, Changed(A2, Observed(2, Power.RUNNING)))

        assert (stopped, bench.running()) == (2, [])
        there.wait(lambda: self.starts(there, A2) == 3)

    def test_without_a_shared_folder_it_is_not_started_anew(self, bench: Bench, there: Bench) -> None:
        driver = self.ran(bench)
        self.leave(bench, driver)
        new = there.driver(*shell(COUNTS_ITS_STARTS))

        new.spawn(self.arriving(Power.RUNNING))
        there.until(new, Failed(A2, "folder_not_shared"))
        driver.come_back(wanted())
        bench.until(driver, Built(A, Observed(1, Power.RUNNING)))

        assert there.running() == []
        bench.wait(lambda: self.starts(bench, A) == 3)

    def test_between_hosts_of_one_agent_it_needs_no_shared_folder(self, bench: Bench) -> None:
        driver = self.ran(bench)
        self.leave(bench, driver)

        driver.spawn(self.arriving(Power.RUNNING))
        bench.until(driver, Built(A2, Observed(1, Power.RUNNING)))
        driver.destroy(A)
        bench.until(driver, Destroyed(A))

        bench.wait(lambda: self.starts(bench, A2) == 3)

    def test_one_that_comes_back_leaves_no_copy_and_is_found_by_the_next_agent(
        self, bench: Bench, shared: Path
    ) -> None:
        driver = self.ran(bench)
        self.leave(bench, driver)
        copied = [path.name for path in shared.iterdir()]
        driver.come_back(wanted())
        bench.until(driver, Built(A, Observed(1, Power.RUNNING)))

        second = bench.driver(*shell(COUNTS_ITS_STARTS))

        assert (copied, list(shared.iterdir())) == (["a-1.1"], [])
        assert second.found() == [A]
        bench.until(second, Built(A, Observed(1, Power.RUNNING)))

    def test_an_agent_that_dies_while_it_removes_one_that_has_moved_leaves_no_copy(
        self, bench: Bench, shared: Path
    ) -> None:
        driver = self.ran(bench)
        self.leave(bench, driver)
        # when it dies as soon as the folder is put aside
        driver.destroy(A)
        bench.wait(lambda: driver.poll() or bench.at(A).status() is Status.ABSENT)
        second = bench.driver()
        # then the next agent knows nothing of it, and no copy is left
        assert second.found() == []
        bench.wait(lambda: not list(shared.iterdir()))

    def test_one_that_comes_back_when_its_agent_dies_is_started_by_the_next_one(self, bench: Bench) -> None:
        # given an instance whose move has failed, and an agent that dies before it is started again
        driver = self.ran(bench)
        self.leave(bench, driver)
        driver.come_back(wanted())
        # when another agent is there, then it tells that the instance is stopped, not that it has ended
        second = bench.driver(*shell(COUNTS_ITS_STARTS))
        second.found()
        bench.until(second, Left(A, 2))
        second.come_back(wanted())
        # and starts it, once its zone wants that
        bench.until(second, Built(A, Observed(1, Power.RUNNING)))

    def test_a_copy_that_cannot_be_made_is_told_and_the_instance_returns(
        self, bench: Bench, shared: Path
    ) -> None:
        driver = self.ran(bench)
        shared.touch()

        driver.leave(replace(wanted(), leaves_for=2))
        bench.until(driver, Left(A, 2, "folder_not_copied"))
        driver.come_back(wanted())

        bench.until(driver, Built(A, Observed(1, Power.RUNNING)))

    def test_one_that_is_to_leave_on_a_full_disk_waits_for_room(self, bench: Bench) -> None:
        driver = self.ran(bench)
        with full_disk():
            driver.leave(replace(wanted(), leaves_for=2))
            assert driver.poll() == []

        bench.until(driver, Left(A, 2))

        assert bench.at(A).leaves_for() == 2

    def test_an_agent_that_dies_at_any_step_starts_nothing_that_was_to_leave(
        self, bench: Bench, shared: Path
    ) -> None:
        for steps in range(10):
            key = Key(f"m-{steps}", 1)
            driver = bench.driver(*shell(COUNTS_ITS_STARTS))
            driver.found()
            run(bench, driver, wanted(key))
            bench.wait(lambda k=key: self.starts(bench, k) == 1)
            driver.leave(replace(wanted(key), leaves_for=2))
            for _ in range(steps):
                driver.poll()
                time.sleep(0.002)  # Real processes end meanwhile, a step further each time.

            second = bench.driver(*shell(COUNTS_ITS_STARTS))
            second.found()
            second.poll()
            second.leave(replace(wanted(key), leaves_for=2))
            bench.told = []
            bench.wait(lambda d=second: bench.told.extend(d.poll()) or bench.told)

            assert set(bench.told) == {Left(key, 2)}
            assert not process_table.members(bench.process(key))
            assert self.starts(bench, key) == 1
            second.destroy(key)
            bench.wait(lambda d=second, k=key: Destroyed(k) in d.poll())

    def test_a_shared_folder_on_a_server_that_is_gone_holds_up_nothing(
        self, bench: Bench, shared: Path
    ) -> None:
        shared.mkdir()
        driver = bench.driver()
        run(bench, driver)
        run(bench, driver, wanted(B))
        with dead_folder(shared):
            again = bench.driver()
            again.found()
            bench.until(again, Built(A), Built(B))
            again.destroy(A)
            bench.until(again, Destroyed(A))
            again.leave(replace(wanted(B), leaves_for=2))
            bench.until(again, Left(B, 2, "folder_not_copied"))
            again.come_back(wanted(B))
            bench.until(again, Built(B))
            again.spawn(replace(wanted(Key("c-1", 2)), moved_from=1))
            bench.until(again, Failed(Key("c-1", 2), "folder_not_shared"))

    def test_a_copy_that_a_dead_agent_still_writes_is_no_part_of_the_next_one(
        self, bench: Bench, shared: Path
    ) -> None:
        # given a copy that an agent has begun, which is dead now
        run(bench, bench.driver())
        bench.at(A).start_copy_to(shared).wait()
        [begun] = shared.iterdir()

        # when the next agent copies, and what the first had started goes on
        folder = bench.at(A)
        folder.start_copy_to(shared).wait()
        begun.mkdir(exist_ok=True)
        (begun / "late").touch()
        folder.finish_copy_to(shared)

        # then only the next one's copy counts
        assert "late" not in [path.name for path in (shared / folder.path.name).iterdir()]
        removal.start(folder.put_copies_aside(shared)).wait()
        assert list(shared.iterdir()) == []


class TestAfterTheAgentDied:
    def test_what_runs_is_found_and_not_started_again(self, bench: Bench) -> None:
        process = run(bench, bench.driver())

        second = bench.driver()
        assert second.found() == [A]
        second.spawn(wanted())

        bench.until(second, Built(A))
        assert bench.running() == [process.pid]

    def test_what_ended_meanwhile_is_told(self, bench: Bench) -> None:
        process = run(bench, bench.driver())
        os.kill(process.pid, signal.SIGKILL)
        bench.wait(lambda: not process_table.is_alive(process))

        second = bench.driver()

        assert second.found() == [A]
        bench.until(second, Built(A, Observed(0, Power.STOPPED, "process_ended")))

    def test_what_an_earlier_agent_has_seen_and_not_told_is_told_with_its_reason(self, bench: Bench) -> None:
        first = bench.driver(*shell("sleep 0.2; exit 3"))
        run(bench, first)
        bench.until(first, ended(A, "process_failed"))

        second = bench.driver()

        assert second.found() == [A]
        bench.until(second, Built(A, Observed(0, Power.STOPPED, "process_failed")))

    def test_what_an_earlier_agent_has_refused_and_not_told_is_told_with_its_reason(
        self, bench: Bench
    ) -> None:
        first = bench.driver()
        run(bench, first)
        first.apply(A, desired(1, Power.SUSPENDED))
        bench.until(first, reached(1, Power.RUNNING, "suspend_unsupported"))

        second = bench.driver()
        second.found()

        bench.until(second, Built(A, Observed(1, Power.RUNNING, "suspend_unsupported")))
        second.apply(A, desired(2, Power.STOPPED))
        bench.until(second, reached(2, Power.STOPPED))

    def test_what_nobody_wants_any_more_is_destroyed(self, bench: Bench) -> None:
        process = run(bench, bench.driver())

        second = bench.driver()
        second.found()
        second.destroy(A)

        bench.until(second, Destroyed(A))
        assert not process_table.is_alive(process)

    def test_a_pid_that_was_given_out_again_is_not_the_instance(self, bench: Bench) -> None:
        process = run(bench, bench.driver())
        record = bench.at(A).path / "process.json"
        stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
        forged = {"pid": stranger.pid, "started": process.started - 1, "boot_id": process.boot_id}
        os.kill(process.pid, signal.SIGKILL)
        record.write_text(json.dumps(forged))

        second = bench.driver()
        second.found()
        bench.until(second, Built(A, Observed(0, Power.STOPPED, "process_ended")))
        second.destroy(A)
        bench.until(second, Destroyed(A))

        assert stranger.poll() is None
        stranger.kill()
        stranger.wait()

    def test_nothing_survives_another_start_of_the_machine(self, bench: Bench) -> None:
        process = run(bench, bench.driver())
        record = bench.at(A).path / "process.json"
        other_boot = {"pid": process.pid, "started": process.started, "boot_id": "another"}
        text = record.read_text()
        record.write_text(json.dumps(other_boot))

        second = bench.driver()
        second.found()

        bench.until(second, Built(A, Observed(0, Power.STOPPED, "process_ended")))
        record.write_text(text)

    def test_before_anything_was_started_it_starts_over(self, bench: Bench) -> None:
        bench.driver()
        bench.at(A).prepare({"nothing": "of use"})

        second = bench.driver()

        assert second.found() == []
        run(bench, second)

    def test_one_whose_folder_is_not_there_is_stopped_and_all_asked_of_it_is_refused(
        self, bench: Bench, caplog: pytest.LogCaptureFixture
    ) -> None:
        driver = bench.driver()
        driver.spawn(replace(wanted(is_active=True), observed=Observed(3, Power.RUNNING, rebuilds=1)))

        lost = Observed(3, Power.STOPPED, "process_lost", 1)
        bench.until(driver, Built(A, lost))
        assert bench.running() == []
        [said] = [record.getMessage() for record in caplog.records]
        assert f"is not in {bench.folder}/instances" in said
        driver.apply(A, desired(4, Power.RUNNING))
        bench.until(driver, Changed(A, replace(lost, generation=4)))
        driver.leave(replace(wanted(), leaves_for=2))
        bench.until(driver, Left(A, 2, "process_lost"))
        driver.come_back(wanted())
        bench.until(driver, Built(A, replace(lost, generation=4)))
        driver.destroy(A)
        bench.until(driver, Destroyed(A))
        assert driver.next_event_s() == float("inf")

    def test_one_that_is_to_leave_and_is_not_there_cannot(self, bench: Bench) -> None:
        driver = bench.driver()
        driver.leave(replace(wanted(), leaves_for=2))

        bench.until(driver, Left(A, 2, "process_lost"))

    @pytest.mark.parametrize("left", ["", "\0", "[]", "{}", "7"])
    @pytest.mark.parametrize("name", ["reached.json", "process.json"])
    def test_one_with_a_damaged_file_waits_alone_until_that_is_mended(
        self, bench: Bench, caplog: pytest.LogCaptureFixture, name: str, left: str
    ) -> None:
        process = run(bench, bench.driver())
        path = bench.at(A).path / name
        before = path.read_text()
        path.write_text(left)

        second = bench.driver()

        assert second.found() == [A]
        run(bench, second, wanted(B))
        assert process_table.is_alive(process)
        [said] = [record.getMessage() for record in caplog.records]
        assert f"{path} is damaged" in said

        # Brought back from a copy, it is as it was.
        path.write_text(before)
        bench.until(second, Built(A))

    @pytest.mark.parametrize("is_there", [True, False])
    def test_one_whose_state_is_none_or_cannot_be_read_keeps_no_agent_from_starting(
        self, bench: Bench, caplog: pytest.LogCaptureFixture, is_there: bool
    ) -> None:
        # given one bit of the power state that has flipped, or a file that the disk does not give
        run(bench, bench.driver())
        path = bench.at(A).path / "reached.json"
        line = path.read_text()
        path.unlink()
        if is_there:
            path.write_text(line.replace("running", "runninf"))
        else:
            path.mkdir()
        # when an agent starts, then it says so, and goes on
        second = bench.driver()
        assert second.found() == [A]
        assert second.poll() == []
        assert f"{path} is damaged" in caplog.text

    def test_one_whose_lock_cannot_be_opened_keeps_no_agent_from_starting(
        self, bench: Bench, caplog: pytest.LogCaptureFixture
    ) -> None:
        # given an instance, as in a folder without permission
        process = run(bench, bench.driver())
        lock = bench.at(A).path / "lock"
        lock.unlink()
        lock.mkdir()
        # when an agent starts, then it says so, and goes on with the others
        second = bench.driver()
        assert second.found() == [A]
        run(bench, second, wanted(B))
        assert str(lock) in caplog.text
        assert process_table.is_alive(process)
        # and with this one once it can
        lock.rmdir()
        bench.until(second, Built(A))

    def test_one_whose_lock_is_lost_runs_on(self, bench: Bench) -> None:
        process = run(bench, bench.driver())
        (bench.at(A).path / "lock").unlink()

        second = bench.driver()

        assert second.found() == [A]
        bench.until(second, Built(A))
        assert process_table.is_alive(process)

    def test_one_whose_wanted_command_is_lost_is_not_rebuilt_and_holds_up_no_other(
        self, bench: Bench, caplog: pytest.LogCaptureFixture
    ) -> None:
        driver = bench.driver()
        run(bench, driver)
        path = bench.at(A).path / "wanted.json"
        before = path.read_text()
        path.unlink()

        driver.apply(A, rebuilt(1))
        run(bench, driver, wanted(B))
        said = {record.getMessage() for record in caplog.records}
        assert [text for text in said if f"{path} is damaged" in text]

        path.write_text(before)
        bench.until(driver, reached(1, Power.RUNNING, rebuilds=1))

    @pytest.mark.parametrize("left", ["xx", "{}", '{"command": 7}'])
    def test_one_whose_wanted_command_is_damaged_is_not_ended_for_a_reboot_that_cannot_start_it(
        self, bench: Bench, caplog: pytest.LogCaptureFixture, left: str
    ) -> None:
        driver = bench.driver()
        process = run(bench, driver)
        path = bench.at(A).path / "wanted.json"
        before = path.read_text()
        path.write_text(left)

        driver.apply(A, desired(1, Power.RUNNING, reboots=1, kind=RebootType.HARD))
        assert [driver.poll() for _ in range(5)] == [[]] * 5
        assert process_table.is_alive(process)
        assert f"{path} is damaged" in caplog.text

        path.write_text(before)
        bench.until(driver, reached(1, Power.RUNNING))
        assert not process_table.is_alive(process)

    def test_one_whose_wanted_command_is_damaged_is_started_once_that_is_brought_back(
        self, bench: Bench, caplog: pytest.LogCaptureFixture
    ) -> None:
        driver = bench.driver()
        run(bench, driver)
        driver.apply(A, desired(1, Power.STOPPED))
        bench.until(driver, reached(1, Power.STOPPED))
        path = bench.at(A).path / "wanted.json"
        before = path.read_text()
        path.write_text("xx")

        driver.apply(A, desired(2, Power.RUNNING))
        ends_at = time.monotonic() + 1.0
        bench.wait(lambda: driver.poll() or time.monotonic() > ends_at)
        assert f"{path} is damaged" in caplog.text

        path.write_text(before)
        bench.until(driver, reached(2, Power.RUNNING))

    def test_one_with_a_damaged_file_ends_where_nobody_wants_it(self, bench: Bench) -> None:
        process = run(bench, bench.driver())
        (bench.at(A).path / "reached.json").write_text("")
        second = bench.driver()
        second.found()
        assert second.poll() == []

        second.destroy(A)

        bench.until(second, Destroyed(A))
        assert not process_table.is_alive(process)

    def test_one_with_a_damaged_file_that_returns_from_a_move_is_not_started_anew(self, bench: Bench) -> None:
        run(bench, bench.driver())
        path = bench.at(A).path / "reached.json"
        before = path.read_text()
        path.write_text("")
        second = bench.driver()
        second.found()
        second.leave(replace(wanted(), leaves_for=2))
        bench.until(second, Left(A, 2))
        second.come_back(wanted())
        assert [second.poll() for _ in range(5)] == [[]] * 5

        path.write_text(before)

        bench.until(second, Built(A, Observed(0, Power.STOPPED, "process_ended")))

    def test_one_that_was_to_move_stays_stopped_where_its_mark_is_damaged(self, bench: Bench) -> None:
        first = bench.driver()
        process = run(bench, first)
        leaving = replace(wanted(), leaves_for=3)
        first.leave(leaving)
        bench.until(first, Left(A, 3))
        (bench.at(A).path / "leaving.json").write_text("")

        second = bench.driver()
        second.found()

        bench.until(second, Left(A, 2))
        second.leave(leaving)
        bench.until(second, Left(A, 3))
        assert not process_table.is_alive(process)
        second.come_back(wanted())
        bench.until(second, Built(A))

    def test_a_folder_of_another_name_is_left_alone(self, bench: Bench) -> None:
        bench.driver()
        strange = bench.folder / "instances" / "lost+found"
        strange.mkdir()

        second = bench.driver()

        assert second.found() == []
        assert strange.is_dir()

    def test_half_a_folder_is_none(self, bench: Bench) -> None:
        bench.driver()
        (bench.folder / "instances" / "unfinished.a-1.1").mkdir()

        second = bench.driver()

        assert second.found() == []
        run(bench, second)


def launchers(folder: Path, count: int) -> Sequence[subprocess.Popen[bytes]]:
    command = [sys.executable, "-I", "-S", str(launcher.__file__), str(folder), "0"]
    return [subprocess.Popen(command, start_new_session=True) for _ in range(count)]


FORM = {
    "command": ["sleep", "600"],
    "environment": {"PATH": os.environ["PATH"]},
    "cpus": [],
    "ram_mb": 0,
    "disk_gb": 0,
}


@pytest.fixture
def folder_of_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InstanceFolder]:
    """The folder of an instance whose agent is an ordinary user, which root is not."""
    before = os.geteuid()
    # Named from within: that user may not look into the folders above.
    monkeypatch.chdir(tmp_path)
    if before == 0:
        os.chown(tmp_path, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        folder = InstanceFolder(Path(), A)
        folder.prepare(FORM)
        yield folder
    finally:
        os.seteuid(before)


class TestWhatAnInstanceLeaves:
    def fill(self, folder: InstanceFolder) -> None:
        """Write as Go does into its module cache: nobody may change what is there."""
        module = folder.path / "disk/pkg/mod"
        module.mkdir(parents=True)
        (module / "go.sum").touch(0o444)
        for closed in (module, module.parent):
            closed.chmod(0o555)

    def test_folders_that_nobody_may_write_to_are_removed(self, folder_of_a_user: InstanceFolder) -> None:
        self.fill(folder_of_a_user)

        Bench.wait(folder_of_a_user.remove)

        assert list(folder_of_a_user.path.parent.iterdir()) == []

    def test_folders_that_nobody_may_write_to_do_not_outlive_a_rebuild(
        self, folder_of_a_user: InstanceFolder
    ) -> None:
        self.fill(folder_of_a_user)

        Bench.wait(lambda: folder_of_a_user.empty("other"))

        assert list((folder_of_a_user.path / "disk").iterdir()) == []

    def test_what_is_in_the_place_of_the_disk_does_not_outlive_a_rebuild(
        self, folder_of_a_user: InstanceFolder
    ) -> None:
        disk = folder_of_a_user.path / "disk"
        disk.rmdir()
        disk.symlink_to("../elsewhere")

        Bench.wait(lambda: folder_of_a_user.empty("other"))

        assert (disk.is_symlink(), list(disk.iterdir())) == (False, [])


def opened_by(pid: int) -> set[str]:
    found: set[str] = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(os.readlink(descriptor))
    return found


class TestLauncher:
    def test_of_many_one_becomes_the_instance(self, bench: Bench) -> None:
        bench.driver()
        bench.at(A).prepare(FORM)

        started = launchers(bench.at(A).path, 8)

        bench.wait(lambda: sum(one.poll() is not None for one in started) == 7)
        (the_one,) = [one for one in started if one.poll() is None]
        assert bench.running() == [the_one.pid]
        the_one.kill()
        the_one.wait()

    def test_one_that_comes_after_the_removal_starts_nothing(self, bench: Bench) -> None:
        driver = bench.driver()
        bench.at(A).prepare(FORM)
        lock = (bench.at(A).path / "lock").open("r+b")
        fcntl.flock(lock, fcntl.LOCK_EX)
        (late,) = launchers(bench.at(A).path, 1)
        bench.wait(lambda: str(bench.at(A).path / "lock") in opened_by(late.pid))
        fcntl.flock(lock, fcntl.LOCK_UN)
        lock.close()
        driver.destroy(A)

        bench.wait(lambda: late.poll() is not None or bench.running())
        bench.wait(lambda: driver.poll() == [Destroyed(A)])

        bench.wait(lambda: late.poll() is not None)
        assert bench.running() == []


def test_what_runs_of_an_instance_is_found_without_reading_each_process_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given the leader of a session with a child
    script = "sleep 600 & echo $!; wait"
    leader = subprocess.Popen(shell(script), stdout=subprocess.PIPE, start_new_session=True)
    assert leader.stdout is not None
    child = int(leader.stdout.readline())
    read: set[int] = set()
    stat_of = process_table._stat

    def noting(pid: int) -> list[str]:
        read.add(pid)
        return stat_of(pid)

    started = int(stat_of(leader.pid)[process_table._STARTED])
    process = Process(leader.pid, started, process_table.boot_id())
    monkeypatch.setattr(process_table, "_stat", noting)
    try:
        # when its members are asked for
        found = process_table.members(process)
    finally:
        os.killpg(leader.pid, signal.SIGKILL)
        leader.communicate()
    # then nothing was read of any other process
    assert set(found) == read == {leader.pid, child}
