"""A real zone with as many connections as it takes, and one more."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests

from tests.builders.real_processes import children_of, eventually, free_port
from tests.builders.zone_processes import answers, write_conf
from zonesched.compute.credentials import read_credentials

MOST = 150
KEPT = 100
REQUEST = b"GET /health HTTP/1.1\r\nHost: z\r\n\r\n"

SERVE = """
import sys
from zonesched.serving import run_zone, server
server.MAX_CONNECTIONS, server.IDLE_CONNECTION_S = {most}, {idle_s}
sys.argv = ["zonesched-zone", "--config-file", {path!r}]
run_zone.main()
"""


class ServedZone:
    """A zone that takes MOST connections; `idle_s`: seconds that it keeps one without a request."""

    def __init__(self, folder: Path, idle_s: int) -> None:
        self._port = free_port()
        self._credentials = folder / "state/admin.credentials"
        script = SERVE.format(most=MOST, idle_s=idle_s, path=str(write_conf(folder, self._port)))
        self.log = folder / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen([sys.executable, "-c", script], stdout=log, stderr=log)
        eventually("the zone answers", lambda: answers(f"http://127.0.0.1:{self._port}"))
        self.worker = self._worker()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port), 60)

    def has_its_worker(self) -> bool:
        return self._worker() == self.worker

    def connections(self) -> int:
        """The open connections that the zone counts; one of them asks."""
        admin = read_credentials(self._credentials)
        answer = requests.get(
            f"http://127.0.0.1:{self._port}/metrics", auth=(admin.username, admin.password), timeout=60
        )
        found = re.search(r"^zonesched_connections (\d+)", answer.text, re.MULTILINE)
        assert found is not None, answer.text
        return int(found[1])

    def _worker(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return int(children.read_text().split()[0])


@pytest.fixture(params=[15, 75], ids=["an idle one is the oldest", "a silent one is the oldest"])
def zone(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServedZone]:
    found = ServedZone(tmp_path, request.param)
    yield found
    found.process.terminate()
    assert found.process.wait(60) == 0


@pytest.mark.slow
@pytest.mark.once
def test_a_connection_that_makes_room_while_it_sends_is_closed_once(zone: ServedZone) -> None:
    with ExitStack() as ending:
        # given all connections that the zone takes: some that have been answered, some that say nothing
        eventually("the others are gone", lambda: zone.connections() == 1)
        opened = [ending.enter_context(zone.connect()) for _ in range(MOST - 1)]
        for caller in opened[:KEPT]:
            caller.sendall(REQUEST)
            assert caller.recv(65536)
        # when it finds at once that there is a further one, and that all others go on
        os.kill(zone.worker, signal.SIGSTOP)
        opened += [ending.enter_context(zone.connect()) for _ in range(4)]
        for caller in opened[: MOST - 1]:
            caller.sendall(REQUEST)
        os.kill(zone.worker, signal.SIGCONT)
        # then it goes on too, and counts the connections that there are
        assert opened[KEPT - 1].recv(65536)
        assert zone.has_its_worker()
    eventually("it has closed all of them, each once", lambda: zone.connections() == 1)


FEW_FILES = 96


@pytest.mark.slow
@pytest.mark.once
def test_more_connections_than_files_may_be_open_end_no_zone(tmp_path: Path) -> None:
    # given a zone that may open few files
    port = free_port()
    conf = write_conf(tmp_path, port)
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "zonesched.serving", "--config-file", str(conf)]
    with (tmp_path / "log").open("w") as log:
        zone = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FEW_FILES, FEW_FILES)),
        )
    with ExitStack() as ending:
        ending.callback(zone.wait, 60)
        ending.callback(zone.terminate)
        eventually("the zone answers", lambda: answers(url))
        worker = children_of(zone.pid)
        # when strangers hold far more connections
        for _ in range(3 * FEW_FILES):
            one = socket.create_connection(("127.0.0.1", port), 20)
            ending.callback(one.close)
            one.sendall(REQUEST[:20])
        # then it serves on, with files left for its database
        assert answers(url)
        assert children_of(zone.pid) == worker
        assert len(os.listdir(f"/proc/{next(iter(worker))}/fd")) < FEW_FILES
    assert "Traceback" not in (tmp_path / "log").read_text()
