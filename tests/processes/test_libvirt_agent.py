"""The whole path on real processes: a zone boots domains, and their agent describes its own host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.libvirt_bench import URI, bindings
from tests.builders.real_processes import eventually, free_port
from tests.builders.zone_processes import Story, answers, launched, write_conf

pytestmark = pytest.mark.slow


def test_a_zone_boots_on_the_host_that_libvirt_describes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    libvirt, port = bindings(), free_port()
    connection = libvirt.open(URI)
    name = connection.getHostname()
    connection.close()
    conf = write_conf(tmp_path, port, "boot_poll_interval = 0.2")
    agent = {
        "--credentials": str(tmp_path / "agent.credentials"),
        "--poll-seconds": "0.1",
        "--connection-type": "libvirt",
        "--state-folder": str(tmp_path / "agent"),
        "--libvirt-uri": URI,
        "--libvirt-virt-type": "test",
    }
    with launched("zonesched.serving", "--config-file", str(conf)):
        eventually("the zone answers", lambda: answers(f"http://127.0.0.1:{port}"))
        ask = Story(["--credentials", str(tmp_path / "state/admin.credentials")], capsys)
        ask("user", "create", "agent", "--role", "compute", "--save", agent["--credentials"])
        ask("flavor", "create", "small", "--vcpus", "1", "--ram", "512", "--disk", "1")
        with launched("zonesched.compute.main", *(word for pair in agent.items() for word in pair)):
            eventually("the host is there", lambda: name in str(ask.json("host", "list")))
            ask("zone", "boot", "--flavor", "small", "--name", "one", "--watch")

            [server] = ask.json("server", "list")["servers"]
            assert server["status"] == "ACTIVE"
            assert [path.parent.name for path in tmp_path.glob("agent/instances/*/disk.qcow2")] == [
                f"{server['id']}.1"
            ]
            ask("server", "stop", server["id"])
            eventually(
                "it is stopped", lambda: ask.json("server", "list")["servers"][0]["status"] == "SHUTOFF"
            )
