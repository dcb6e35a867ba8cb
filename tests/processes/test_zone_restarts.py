"""Commands that wait for a zone, on real processes, while that zone is restarted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.real_processes import eventually, free_port
from tests.builders.zone_processes import CHECKOUT, Story, answers, launched, write_conf

pytestmark = pytest.mark.slow


def command(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    """The command as the zone's admin, as a process."""
    return subprocess.Popen(
        [
            *(sys.executable, "-c", "from zonesched.cli.main import main; main()"),
            *("--credentials", str(tmp_path / "state/admin.credentials"), *arguments),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
    )


def test_a_boot_is_watched_on_once_its_zone_is_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    url, conf = f"http://127.0.0.1:{port}", str(write_conf(tmp_path, port, "boot_poll_interval = 0.2"))
    agent = ["--credentials", str(tmp_path / "agent.credentials"), "--poll-seconds", "0.2"]
    agent += ["--inventory", "etc/zonesched/hosts.csv", "--fake-build-seconds", "6"]
    with launched("zonesched.serving", "--config-file", conf):
        eventually("the zone answers", lambda: answers(url))
        ask = Story(["--credentials", str(tmp_path / "state/admin.credentials")], capsys)
        ask("user", "create", "agent", "--role", "compute", "--save", str(tmp_path / "agent.credentials"))
        ask("flavor", "create", "small", "--vcpus", "1", "--ram", "512", "--disk", "1")
    with launched("zonesched.compute.main", *agent):
        with launched("zonesched.serving", "--config-file", conf):
            eventually("the zone answers", lambda: answers(url))
            eventually("the hosts are up", lambda: ask("host", "list").count(" up ") == 5)
            watching = command(tmp_path, "zone", "boot", "--flavor", "small", "--name", "w", "--watch")
            eventually("the boot is there", lambda: ask.json("server", "list")["servers"])
        eventually("the zone is gone", lambda: not answers(url))
        assert watching.stderr is not None
        waits = watching.stderr.readline()
        with launched("zonesched.serving", "--config-file", conf):
            out, err = watching.communicate(timeout=60)

    assert (watching.returncode, out.count("ACTIVE=1")) == (0, 1), (out, err)
    assert waits == f"zonesched: waiting for the zone: {url} cannot be reached\n"
    assert err == "zonesched: the zone is back\n"
