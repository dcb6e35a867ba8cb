"""The demo and what it is made of; the slow ones run real processes."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.clock import FakeClock
from tests.builders.real_processes import (
    are_free,
    children_of,
    eventually,
    free_port,
    free_ports,
    processes_of,
)
from tests.builders.zone_processes import answers, write_conf
from zonesched import conf
from zonesched.cli.screen import Unbounded
from zonesched.cli.table import fit
from zonesched.compute.connection import ZoneUnavailable
from zonesched.conf.ports import check_port_is_free
from zonesched.demo.folder import DEMO, clear_folder, hold_folder, mark_of
from zonesched.demo.processes import LOG_LINES, Ended, ProcessEnded, Processes, errors_in
from zonesched.demo.report import tree_rows
from zonesched.demo.run import is_ready, waiting_for
from zonesched.demo.tree import SHAPE, config_text, inventory, plan_tree
from zonesched.demo.waiting import Progress, TookTooLong, Waiter
from zonesched.errors import ConfigError

CHECKOUT = Path(__file__).parents[2]


class TestTree:
    @given(hosts=st.integers(1, 5000))
    def test_all_hosts_are_dealt_and_named_once(self, hosts: int) -> None:
        zones = plan_tree(hosts, 18_770)
        names = [host["name"] for zone in zones for host in inventory(zone)]
        assert len(names) == len(set(names)) == hosts

    def test_it_has_a_root_two_regions_and_four_leaves(self) -> None:
        zones = plan_tree(400, 18_770)
        assert [zone.level for zone in zones] == [0, 1, 2, 2, 1, 2, 2]
        assert [zone.host_count for zone in zones] == [20, 20, 90, 90, 0, 90, 90]
        assert [zone.port for zone in zones] == list(range(18_770, 18_777))

    def test_it_reads_as_an_outline_each_zone_below_its_parent(self) -> None:
        last_of_level: dict[int, str] = {}
        for zone in plan_tree(400, 18_770):
            assert zone.parent == last_of_level.get(zone.level - 1, "")
            last_of_level[zone.level] = zone.name

    def test_there_are_hosts_of_several_kinds_in_every_leaf(self) -> None:
        leaves = [zone for zone in plan_tree(400, 1) if zone.level == 2]
        kinds = [{host["capabilities"]["kind"] for host in inventory(leaf)} for leaf in leaves]
        assert kinds == [{"general", "memory", "storage", "gpu"}] * 4

    def test_each_zone_has_a_configuration_that_loads_and_keys_of_its_own(self, tmp_path: Path) -> None:
        clock = FakeClock()
        keys = set()
        for zone in plan_tree(400, 18_770):
            path = tmp_path / zone.name
            path.write_text(config_text(zone, str(tmp_path), lambda: clock.random_bytes(32).hex()))
            loaded = conf.load([str(path)])
            keys |= {*loaded.build_plan_encryption_key, *loaded.secret_encryption_key}
        assert len(keys) == 2 * len(SHAPE)


class TestFolder:
    def test_a_new_folder_is_made_for_its_owner_only(self, tmp_path: Path) -> None:
        with hold_folder(tmp_path / "a/b"):
            assert (tmp_path / "a/b").stat().st_mode & 0o077 == 0

    def test_what_an_earlier_demo_left_is_replaced(self, tmp_path: Path) -> None:
        hold_folder(tmp_path / "d").close()
        (tmp_path / "d/root").mkdir()
        (tmp_path / "d/root/zone.sqlite").touch()
        with hold_folder(tmp_path / "d"):
            assert clear_folder(tmp_path / "d")
        assert [entry.name for entry in (tmp_path / "d").iterdir()] == [mark_of(DEMO)]

    def test_a_link_out_of_it_is_removed_and_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "precious").mkdir()
        (tmp_path / "precious/file").touch()
        with hold_folder(tmp_path / "d"):
            (tmp_path / "d/link").symlink_to(tmp_path / "precious")
            clear_folder(tmp_path / "d")
        assert (tmp_path / "precious/file").exists()

    def test_another_folder_is_refused_and_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.txt").write_text("years of work")
        with pytest.raises(ConfigError, match="was not made by a demo"):
            hold_folder(tmp_path)
        assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]

    def test_a_file_of_that_name_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "d").write_text("x")
        with pytest.raises(ConfigError, match="was not made by a demo"):
            hold_folder(tmp_path / "d")

    def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(self) -> None:
        with pytest.raises(ConfigError, match=r"/dev/null/d cannot be used: .* Name another --dir"):
            hold_folder(Path("/dev/null/d"))

    def test_a_second_demo_is_told_who_runs(self, tmp_path: Path) -> None:
        with hold_folder(tmp_path / "d"):
            (tmp_path / "d/root").touch()
            with pytest.raises(ConfigError, match=rf"\(process {os.getpid()}\)"):
                hold_folder(tmp_path / "d")
            assert (tmp_path / "d/root").exists()


def test_a_busy_port_is_named_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"Port {port} .* is in use: .* --base-port"):
            check_port_is_free("127.0.0.1", port, "--base-port")
    check_port_is_free("127.0.0.1", port, "--base-port")


class TestWaiter:
    def waiter(self, clock: FakeClock) -> Waiter:
        return Waiter(clock, clock.advance, lambda: None)

    def test_it_waits_through_a_zone_that_is_not_there_yet(self, capsys: pytest.CaptureFixture[str]) -> None:
        answers: list[str | Exception] = [ZoneUnavailable("not there"), "1 missing", "1 missing", ""]

        def missing() -> str:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        self.waiter(FakeClock()).until("zones", missing, 10)
        assert capsys.readouterr().out == "zones: not there\nzones: 1 missing\nzones: done\n"

    def test_a_line_longer_than_the_terminal_is_cut_so_that_it_can_be_rewritten(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", "40")
        progress = Progress()
        progress.show("zones: " + "waiting " * 20)
        progress.show("zones: done")
        progress.end()
        out = capsys.readouterr().out
        assert [len(line) for line in out.split("\r\x1b[K")] == [0, 39, len("zones: done\n")]

    def test_it_ends_with_what_was_missing_last(self) -> None:
        clock = FakeClock()
        began = clock.monotonic()
        with pytest.raises(TookTooLong, match="zones: after 10 s still north"):
            self.waiter(clock).until("zones", lambda: "north", 10)
        assert 10 <= clock.monotonic() - began < 11

    def test_it_does_not_wait_for_the_dead(self) -> None:
        def die() -> None:
            raise ProcessEnded("zone root ended")

        clock = FakeClock()
        with pytest.raises(ProcessEnded):
            Waiter(clock, clock.advance, die).until("zones", lambda: "root", 10)


def test_a_zone_that_is_starting_is_waited_for_and_no_error(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert not is_ready(url, tmp_path / "admin.credentials")
    (tmp_path / "admin.credentials").touch()
    assert not is_ready(url, tmp_path / "admin.credentials")


def test_progress_names_few_zones_and_counts_the_others() -> None:
    assert waiting_for([]) == ""
    assert waiting_for(["root", "north"]) == "waiting for root, north"
    assert waiting_for([name for name, _, _ in SHAPE]) == "waiting for root, north and 5 more"


@pytest.mark.parametrize("hosts", [1, 400, 20_000])
def test_the_table_of_zones_fits_in_80_columns(hosts: int) -> None:
    found = [(zone, [full_host(host) for host in inventory(zone)]) for zone in plan_tree(hosts, 18_770)]
    lines = fit(Unbounded(), *tree_rows(found), wide=True).lines
    assert len(lines) == 1 + len(SHAPE)
    assert max(map(len, lines)) <= 80
    assert [line.split("  ")[0] for line in lines[1:4]] == ["root", "- north", "-- north-1"]


def full_host(host: Mapping[str, Any]) -> Mapping[str, Any]:
    """A host as its zone shows it once nothing more fits."""
    inventories = host["inventories"].items()
    capacities = {name: int(has["total"] * has.get("ratio", 1)) for name, has in inventories}
    used = {name: {"used": most, "capacity": most} for name, most in capacities.items()}
    return {"running_vms": 64, "resources": used}


def test_the_last_errors_of_a_log_are_what_is_no_access_line_of_it() -> None:
    log = """zonesched-zone: Zone north listens on http://127.0.0.1:1.
time=2026-01-02T03:04:05.678Z level=ERROR logger=zonesched.store message="no space is left"
Traceback (most recent call last):
OSError: no space
time=2026-01-02T03:04:06.678Z level=INFO logger=zonesched.api.app message="GET /servers 200 1.2 ms"
[2026-01-02 03:04:07 +0000] [12] [INFO] Shutting down
[2026-01-02 03:04:07 +0000] [12] [ERROR] Worker (pid:13) exited with code 3.
"""
    assert [line.split()[0] for line in errors_in(log)] == [
        "time=2026-01-02T03:04:05.678Z",
        "Traceback",
        "OSError:",
        "[2026-01-02",
    ]
    assert len(errors_in("error\n" * 100)) == LOG_LINES


STARTS_AND_WAITS = """
import pathlib, signal, sys
from zonesched.demo.processes import Processes

config = pathlib.Path(sys.argv[1])
Processes().start("a zone", "zonesched.serving", ["--config-file", str(config)], config.with_suffix(".log"))
signal.pause()
"""


@pytest.mark.slow
class TestProcesses:
    def test_one_that_ends_is_told_with_its_last_words(self, tmp_path: Path) -> None:
        processes = Processes()
        processes.start("the agent", "zonesched.compute.main", ["--no-such"], tmp_path / "log")
        ended: list[Ended] = []
        eventually("the agent ends", lambda: ended.extend(processes.ended()) or ended)
        assert ended[0].obituary.startswith("the agent ended with code 2")
        assert "No such option" in ended[0].obituary
        assert ended[0].restart.endswith("-m zonesched.compute.main --no-such")
        processes.check()

    def test_all_are_asked_to_end(self, tmp_path: Path) -> None:
        processes = Processes()
        processes.start("a server", "http.server", ["--bind", "127.0.0.1", "0"], tmp_path / "log")
        processes.check()
        assert processes.stop() == [-signal.SIGTERM]
        assert processes.ended() == []

    def test_an_agent_ends_well_when_asked(self, tmp_path: Path) -> None:
        (tmp_path / "hosts.csv").write_text("name,VCPU\nh1,4\n")
        arguments = ["--zone-url", "http://127.0.0.1:1", "--inventory", str(tmp_path / "hosts.csv")]
        processes = Processes()
        processes.start("the agent", "zonesched.compute.main", arguments, tmp_path / "log")
        eventually("the agent tries", lambda: "cannot be reached" in (tmp_path / "log").read_text())
        assert processes.stop() == [0]

    def test_those_of_a_process_that_is_killed_end(self, tmp_path: Path) -> None:
        port = free_port()
        config = write_conf(tmp_path, port)
        with subprocess.Popen([sys.executable, "-c", STARTS_AND_WAITS, str(config)]) as starter:
            eventually("the zone answers", lambda: answers(f"http://127.0.0.1:{port}"))
            starter.kill()
        eventually("it ends", lambda: processes_of(tmp_path) == [])
        assert are_free(port, 1)


@contextmanager
def demo(folder: Path, base_port: int, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A demo with few hosts; it is killed when the block ends."""
    few = ["--hosts", "20", "--instances", "6", "--base-port", str(base_port), "--dir", str(folder)]
    process = subprocess.Popen(
        [sys.executable, "-m", "zonesched.demo.command", *few, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=CHECKOUT,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def said_until(process: subprocess.Popen[str], last: str) -> str:
    """Lines that the process prints, up to one that contains `last`."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if last in line:
            return "".join(lines)
    raise AssertionError("".join(lines))


@pytest.mark.slow
class TestDemo:
    def test_it_stays_names_a_zone_that_died_stops_everything_and_is_replaced(self, tmp_path: Path) -> None:
        base = free_ports(len(SHAPE))
        with demo(tmp_path / "d", base) as running:
            out = said_until(running, "run until Ctrl-C")
            self.takes_the_commands_it_prints(out)
            self.refused(tmp_path / "d", base, "A demo already runs in")
            self.refused(tmp_path / "other", base, f"Port {base} of 127.0.0.1 is in use")
            files = [path for path in (tmp_path / "d").rglob("*") if path.suffix in (".conf", ".credentials")]
            assert len(files) == 7 + 7 + 6
            assert {path.stat().st_mode & 0o077 for path in files} == {0}
            self.names_a_zone_that_died_with_the_command_that_starts_it_again(running, base)
            running.send_signal(signal.SIGINT)
            rest, _ = running.communicate(timeout=60)
            assert running.returncode == 0, rest
        assert are_free(base, len(SHAPE))
        with demo(tmp_path / "d", base, "--once") as again:
            out, _ = again.communicate(timeout=120)
        assert again.returncode == 0, out
        assert "Replacing the state of an earlier demo" in out
        assert "ACTIVE=6" in out

    def takes_the_commands_it_prints(self, out: str) -> None:
        assert "state ACTIVE; ACTIVE=6" in out
        assert "The audit of all 7 zones finds no inconsistency." in out
        assert "cannot be reached" not in out
        [export, *commands] = re.findall(r"(?m)^  (export .*|\S+/zonesched .*)$", out)
        assert len(commands) == 3
        for command in commands:
            done = subprocess.run(
                ["sh", "-c", f"{export}; {command}"], cwd=CHECKOUT, capture_output=True, text=True
            )
            assert (done.returncode, done.stderr) == (0, ""), command

    def refused(self, folder: Path, base: int, why: str) -> None:
        with demo(folder, base) as second:
            out, _ = second.communicate(timeout=60)
            assert second.returncode == 1
            assert why in out

    def names_a_zone_that_died_with_the_command_that_starts_it_again(
        self, running: subprocess.Popen[str], base: int
    ) -> None:
        [zone] = [pid for pid in children_of(running.pid) if "north-1/zone.conf" in command_of(pid)]
        os.killpg(zone, signal.SIGKILL)
        said = said_until(running, "zonesched.serving")
        assert "zone north-1 was ended by SIGKILL; its log" in said
        assert "GET /" not in said
        restart = shlex.split(said.splitlines()[-1])
        port = next(zone.port for zone in plan_tree(20, base) if zone.name == "north-1")
        with subprocess.Popen(restart, cwd=CHECKOUT, stderr=subprocess.DEVNULL) as again:
            eventually("it answers again", lambda: answers(f"http://127.0.0.1:{port}"))
            again.terminate()
