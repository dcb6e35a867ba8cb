"""The units for systemd: systemd reads them, and a zone and an agent work under their restrictions."""

from __future__ import annotations

import ctypes.util
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.builders import hardened
from tests.builders.real_processes import eventually, free_port
from tests.builders.zone_processes import Story, answers, write_conf

CHECKOUT = Path(__file__).parents[2]
ZONE, AGENT = (
    CHECKOUT / "etc/systemd" / name for name in ("zonesched-zone@.service", "zonesched-compute@.service")
)
MAX_EXPOSURE = {ZONE: 1.5, AGENT: 2.0}
"""Highest exposure that `systemd-analyze security` may give: 0 is best, and 9.6 is without restrictions."""

pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
HAS_SECCOMP = ctypes.util.find_library("seccomp") is not None


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True)


@pytest.mark.parametrize("unit", [ZONE, AGENT], ids=lambda unit: unit.stem)
class TestUnit:
    def test_systemd_reads_it_without_a_complaint(self, unit: Path, tmp_path: Path) -> None:
        program = hardened.settings(unit)["ExecStart"][0].split()[0]
        copy = tmp_path / unit.name
        # It looks whether the program is there.
        copy.write_text(unit.read_text().replace(program, sys.executable))

        done = analyze("verify", "--man=no", copy)

        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_it_is_exposed_little(self, unit: Path, tmp_path: Path) -> None:
        threshold = f"--threshold={MAX_EXPOSURE[unit] * 10:.0f}"

        done = analyze("security", "--offline=true", "--no-pager", threshold, unit)

        assert done.returncode == 0, done.stdout + done.stderr


def test_agents_of_two_machines_have_two_names() -> None:
    (command,) = hardened.settings(AGENT)["ExecStart"]
    words = command.replace("\\", " ").split()
    assert {"%i", "%H"} <= set(words[words.index("--service") + 1].split("-"))


@contextmanager
def restricted(unit: Path, folder: Path, module: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A module of the package under the restrictions of a unit; it may write into `folder` alone."""
    starter = [sys.executable, str(Path(hardened.__file__)), str(unit), str(folder)]
    command = [*starter, sys.executable, "-m", module, *arguments]
    with (folder / f"{module}.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.slow
@pytest.mark.sqlite
@pytest.mark.skipif(not HAS_SECCOMP, reason="needs libseccomp")
def test_a_zone_and_an_agent_do_all_their_work_under_the_restrictions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zone, agent, port = tmp_path / "zone", tmp_path / "agent", free_port()
    zone.mkdir()
    agent.mkdir()
    config = write_conf(zone, port)
    (agent / "hosts.csv").write_text("name,VCPU,MEMORY_MB\nh1,8,65536\nh2,8,65536\n")
    with restricted(ZONE, zone, "zonesched.serving", "--config-file", str(config)) as server:
        eventually("the zone answers", lambda: answers(f"http://127.0.0.1:{port}"), timeout_s=180.0)
        ask = Story(["--credentials", str(zone / "state/admin.credentials")], capsys)
        ask("user", "create", "agent", "--role", "compute", "--save", str(agent / "agent.credentials"))
        ask("flavor", "create", "small", "--vcpus", "1", "--ram", "512")
        options = ["--credentials", "agent.credentials", "--inventory", "hosts.csv", "--service", "a"]
        options += ["--poll-seconds", "0.2", "--connection-type", "process", "--state-folder", str(agent)]
        # Instances only have to live until the agent ends them.
        options += ["--process-command", f"{sys.executable} -c 'import time; time.sleep(600)'"]
        with restricted(AGENT, agent, "zonesched.compute.main", *options):
            eventually("the hosts are up", lambda: ask("host", "list").count(" up ") == 2)
            assert "ACTIVE=3" in ask("zone", "boot", "--flavor", "small", "--name", "w", "-n", "3", "--watch")
            for act in (("pause",), ("unpause",), ("reboot",), ("migrate",), ("stop",)):
                ask("server", *act, "w-1", "--wait")
            server.send_signal(signal.SIGHUP)
            log = zone / "zonesched.serving.log"
            eventually("a new worker serves", lambda: "is read again" in log.read_text())
            ask("server", "delete", "w-1", "w-2", "w-3")
            eventually("all have ended", lambda: not list(agent.glob("instances/*.1")))
        assert "no inconsistencies" in ask("audit")
    for written in (log.read_text(), (agent / "zonesched.compute.main.log").read_text()):
        assert "not permitted" not in written
        assert "Traceback" not in written
