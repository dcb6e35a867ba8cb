"""`./run_zone.sh`: its command line, and one zone that it starts."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.clock import FakeClock
from tests.builders.real_processes import are_free, eventually, free_port
from zonesched import conf
from zonesched.conf.zone import DEFAULT_PORT
from zonesched.demo.left_running import lines_about, running_in
from zonesched.demo.single_zone import write_conf
from zonesched.demo.tree import DemoZone
from zonesched.seal.shortcomings import shortcomings

CHECKOUT = Path(__file__).parents[2]
OPENSTACK = {5000, 6080, 6385, 8000, 8003, 8004, 8774, 8775, 8776, 8777, 8778, 8779, 8780, 8786, 8888, 8989}
OPENSTACK |= {9001, 9292, 9311, 9322, 9511, 9696, 9876, 9890}
"""Default ports of OpenStack's services."""


def run_zone(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(CHECKOUT / "run_zone.sh"), *arguments], capture_output=True, text=True, timeout=60
    )


def test_the_default_port_is_of_no_openstack_service() -> None:
    assert DEFAULT_PORT not in OPENSTACK
    assert f"{DEFAULT_PORT} by default" in run_zone("--help").stdout


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("process", "--help"), ("help",)])
def test_help_is_its_own(arguments: tuple[str, ...]) -> None:
    done = run_zone(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("./run_zone.sh ")
    for option in ("--port", "--hosts", "--dir", "--config-file", "demo"):
        assert option in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 110


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("dmo", "there is no 'dmo': did you mean demo?"),
        ("proces", "there is no 'proces': did you mean process?"),
        ("--prot", "there is no '--prot': did you mean --port?"),
        ("quite-another", "there is no 'quite-another'\n"),
        ("demo --hlp", "there is no '--hlp': did you mean --help?"),
        ("demo --hosts 5 --onc", "there is no '--onc': did you mean --once?"),
        ("demo --port 1", "there is no '--port'"),
        ("--port 1 --ports 2", "there is no '--ports': did you mean --port?"),
        ("process more", "there is no 'more'\n"),
    ],
)
def test_a_word_that_it_does_not_know_is_refused_before_anything_is_installed(words: str, said: str) -> None:
    done = run_zone(*words.split())
    assert done.returncode == 2
    assert said in done.stderr
    assert "./run_zone.sh demo" in done.stderr


def test_an_option_without_its_value_is_refused_before_anything_is_installed() -> None:
    done = run_zone("demo", "--once", "--dir")
    assert (done.returncode, done.stderr) == (2, "zonesched: --dir needs a value\n")


@pytest.mark.parametrize(
    "words",
    [
        ("--port", "x"),
        ("--port=x",),
        ("process", "--hosts", "-3"),
        ("--hosts=",),
        ("demo", "--base-port", "x"),
    ],
)
def test_a_number_that_is_none_is_refused_before_anything_is_installed(words: tuple[str, ...]) -> None:
    done = run_zone(*words)
    assert done.returncode == 2
    assert re.search(
        r"zonesched: --(base-port|port|hosts) takes a whole number, not '(x|-3|)'\n", done.stderr
    )


class TestConfiguration:
    ZONE = DemoZone("nova", "", 0, DEFAULT_PORT, 5)

    def written(self, home: Path, port: int | None = None) -> conf.Conf:
        return write_conf(self.ZONE, home, port, FakeClock().random_bytes)

    def test_the_first_start_writes_a_complete_one_for_its_owner_only(self, tmp_path: Path) -> None:
        made = self.written(tmp_path)
        assert (made.bind_port, made.state_path) == (DEFAULT_PORT, str(tmp_path))
        assert shortcomings(made) == []
        assert stat.S_IMODE((tmp_path / "zone.conf").stat().st_mode) == 0o600

    def test_a_later_start_keeps_its_keys_and_what_was_changed(self, tmp_path: Path) -> None:
        first = self.written(tmp_path)
        with (tmp_path / "zone.conf").open("a") as file:
            file.write("max_attempts = 7\n")
        second = self.written(tmp_path)
        assert second.secret_encryption_key == first.secret_encryption_key
        assert second.max_attempts == 7

    def test_another_port_is_taken_and_stays(self, tmp_path: Path) -> None:
        self.written(tmp_path)
        assert self.written(tmp_path, 8801).bind_port == 8801
        assert self.written(tmp_path).bind_port == 8801


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "zonesched.demo.single_zone", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=CHECKOUT
    )


def said_until(process: subprocess.Popen[str], last: str) -> str:
    """Read what the process prints, up to a line that holds `last`."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if last in line:
            return "".join(lines)
    raise AssertionError("".join(lines))


def output_of(command: str) -> str:
    done = subprocess.run(["sh", "-c", command], cwd=CHECKOUT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--hosts", "0"), "Invalid value for '--hosts': 0 is not in the range"),
        (("--port", "70000"), "Invalid value for '--port'"),
        (("--dir", "/dev/null/zone"), "/dev/null/zone cannot be used"),
        (("extra",), "Got unexpected extra argument (extra)"),
        (("--foo",), "No such option"),
    ],
)
def test_a_wrong_option_is_a_clear_error(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    process = start("--checkout", str(tmp_path), *arguments)
    out, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert said in out
    assert "Traceback" not in out


@pytest.mark.slow
def test_it_runs_takes_the_commands_it_prints_and_goes_on_at_the_next_start_on_another_port(
    tmp_path: Path,
) -> None:
    home, ports = str(tmp_path / "z"), [free_port(), free_port()]
    for port in ports:
        process = start("--dir", home, "--port", str(port), "--hosts", "3")
        try:
            out = said_until(process, "It runs until Ctrl-C")
            assert "cannot be reached" not in out
            [export, hosts, flavor, boot] = re.findall(r"(?m)^  (export .*|\S+/zonesched .*)$", out)
            list_hosts = f"{export}; {hosts}"
            eventually("the hosts are up", lambda ask=list_hosts: output_of(ask).count(" up ") == 3)
            if port == ports[0]:
                output_of(f"{export}; {flavor}")
            assert "ACTIVE" in output_of(f"{export}; {boot}")
            second = start("--dir", home, "--port", str(free_port()))
            refused, _ = second.communicate(timeout=60)
            assert second.returncode == 1
            assert f"A zone already runs in {home} (process {process.pid})" in refused
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=60)
            assert process.returncode == 0, rest
        finally:
            process.kill()
            process.communicate()
        assert are_free(port, 1)


@pytest.mark.slow
@pytest.mark.parametrize("is_paused", [False, True])
def test_instances_that_outlive_it_are_named_with_the_command_that_ends_them(
    tmp_path: Path, is_paused: bool
) -> None:
    home = str(tmp_path / "z")
    process = start("--dir", home, "--port", str(free_port()), "--hosts", "1", "--connection-type", "process")
    try:
        out = said_until(process, "It runs until Ctrl-C")
        [export, hosts, flavor, boot] = re.findall(r"(?m)^  (export .*|\S+/zonesched .*)$", out)
        eventually("the host is up", lambda: " up " in output_of(f"{export}; {hosts}"))
        output_of(f"{export}; {flavor}")
        assert "ACTIVE" in output_of(f"{export}; {boot}")
        if is_paused:
            output_of(f"{export}; {hosts.split()[0]} server pause one --wait")

        process.send_signal(signal.SIGINT)
        said_until(process, "Stopping the zone")
        # As of somebody who does not want to wait.
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)

        [running] = running_in(tmp_path / "z/agent")
        assert f"one (process {running.pid})" in said
        output_of(said.splitlines()[-1])
        eventually("it has ended", lambda: running_in(tmp_path / "z/agent") == [])
    finally:
        process.kill()
        process.communicate()
    assert lines_about([]) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_checkout_that_cannot_be_written_says_where_its_environment_may_go(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir(mode=0o755)
    for name in ("run_zone.sh", ".ci/environment.sh", "pyproject.toml", "setup.py"):
        (tmp_path / name).write_bytes((CHECKOUT / name).read_bytes())
    tmp_path.chmod(0o755)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = subprocess.run(
        [*nobody, "bash", "run_zone.sh"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "cannot be written: set ZONESCHED_VENV to a folder for the environment" in done.stderr
