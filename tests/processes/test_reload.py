"""A real zone that reads its configuration again: nobody is refused, and a bad one changes nothing."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests

from tests.builders.real_processes import children_of, eventually, free_port
from tests.builders.zone_processes import answers, launched, write_conf

pytestmark = [pytest.mark.slow, pytest.mark.sqlite]
SLOW_FILTER = """
import time
from zonesched.filters.contract import BaseHostFilter

time.sleep(8)  # seconds, as if there were many hosts to read

class SlowToLoad(BaseHostFilter):
    def host_passes(self, host_state, spec):
        return True
"""


@dataclass
class Zone:
    """A launched zone. `pid`: of its first process; `heard`: the lines that it has written."""

    pid: int
    url: str
    config: Path
    heard: deque[str] = field(default_factory=deque)

    def wrote(self, text: str) -> int:
        return sum(text in line for line in tuple(self.heard))

    def hang_up(self) -> None:
        os.kill(self.pid, signal.SIGHUP)

    def workers(self) -> set[int]:
        return children_of(self.pid)

    def add(self, *lines: str) -> str:
        """Append options; return the configuration as it was."""
        before = self.config.read_text()
        self.config.write_text("\n".join((before, *lines, "")))
        return before


@contextmanager
def a_zone(folder: Path, *lines: str) -> Iterator[Zone]:
    port = free_port()
    config = write_conf(folder, port, "auth_strategy = noauth", *lines)
    with launched("zonesched.serving", "--config-file", str(config)) as process:
        zone = Zone(process.pid, f"http://127.0.0.1:{port}", config)
        # Its lines fill the pipe otherwise.
        threading.Thread(target=lambda: zone.heard.extend(process.stdout or ()), daemon=True).start()
        eventually("the zone answers", lambda: answers(zone.url), timeout_s=60.0)
        yield zone


@contextmanager
def calling(url: str, pause_s: float = 0.0) -> Iterator[list[float]]:
    """Call the zone again and again, a connection each; yields the seconds of each call so far."""
    took: list[float] = []
    over = threading.Event()

    def call() -> None:
        while not over.wait(pause_s):
            answer = requests.get(url + "/flavors", timeout=60)
            assert answer.status_code == 200
            took.append(answer.elapsed.total_seconds())

    caller = threading.Thread(target=call)
    caller.start()
    try:
        yield took
    finally:
        over.set()
        caller.join(60)


def test_callers_do_not_wait_for_the_start_of_the_new_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_to_load.py").write_text(SLOW_FILTER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with a_zone(tmp_path) as zone:
        [old] = zone.workers()
        # A caller who waited would do so for seconds: one call more or less would not find it.
        with calling(zone.url, pause_s=0.05) as took:
            zone.add("available_filters = slow_to_load.SlowToLoad", "enabled_filters = SlowToLoad")
            zone.hang_up()
            eventually("the new worker is alone", lambda: zone.workers().isdisjoint({old}), timeout_s=40.0)

        assert max(took) < 6.0


@pytest.mark.parametrize("line", ["enabled_filters = NoSuchFilter", "audit_log = /dev/null/audit"])
def test_a_configuration_that_no_worker_can_start_with_changes_nothing(tmp_path: Path, line: str) -> None:
    with a_zone(tmp_path) as zone:
        before = zone.workers()
        good = zone.config.read_text()
        zone.add(line)
        with calling(zone.url):
            zone.hang_up()
            eventually("the refusal is written", lambda: zone.wrote("the new worker could not start"))

        assert zone.wrote(
            "no zone can be served with this configuration: Option " + line.split(maxsplit=1)[0]
        )
        assert not zone.wrote("Traceback")
        assert zone.workers() == before
        zone.config.write_text(good + "\nmax_server_groups = 7\n")
        zone.hang_up()
        eventually("a good one is taken", lambda: zone.workers().isdisjoint(before), timeout_s=40.0)
        assert zone.wrote("changed options: max_server_groups")
        assert answers(zone.url)


def test_a_new_first_key_of_secrets_is_taken_once_the_serving_process_has_it(tmp_path: Path) -> None:
    old, new = "1a" * 32, "2b" * 32
    with a_zone(tmp_path, f"secret_encryption_key = {old}") as zone:
        before = secret_of(tmp_path)
        # when no worker can start with a configuration that has another key first
        start = zone.config.read_text()
        rotated = start.replace(old, f"{new},{old}")
        zone.config.write_text(f"{rotated}\nenabled_filters = NoSuchFilter\n")
        zone.hang_up()
        eventually("the refusal is written", lambda: zone.wrote("the new worker could not start"))
        # then the one that goes on reads what is stored
        assert zone.wrote("option secret_encryption_key has changed and stays as it was until a restart")
        assert secret_of(tmp_path) == before

        # when it gets the key behind its own, and then in front
        for keys in (f"{old},{new}", f"{new},{old}"):
            [present] = zone.workers()
            zone.config.write_text(start.replace(old, keys))
            zone.hang_up()
            eventually("it is taken", lambda pid=present: zone.workers().isdisjoint({pid}), timeout_s=40.0)
        # then it is used
        assert zone.wrote("encrypted the zone's secrets under the first secret_encryption_key")
        assert secret_of(tmp_path) != before


def secret_of(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "state" / "zone.sqlite")) as rows:
        return str(rows.execute("SELECT host_id_secret FROM identity").fetchone()[0])


def test_one_signal_after_the_other_leaves_one_worker_with_the_last_configuration(tmp_path: Path) -> None:
    with a_zone(tmp_path) as zone:
        before = zone.workers()
        with calling(zone.url):
            for number in range(7, 10):
                zone.add(f"zone_name = name-{number}")
                zone.hang_up()
                eventually("it is read", lambda n=number: zone.wrote("is read again") == n - 6)
            eventually(
                "one new worker is left",
                lambda: len(zone.workers()) == 1 and zone.workers().isdisjoint(before),
                timeout_s=40.0,
            )
        assert requests.get(zone.url + "/zones/info", timeout=10).json()["zone"]["name"] == "name-9"


def test_a_signal_to_each_process_of_the_zone_ends_none_of_them(tmp_path: Path) -> None:
    with a_zone(tmp_path) as zone:
        [worker] = zone.workers()
        os.kill(worker, signal.SIGHUP)
        assert answers(zone.url)
        zone.hang_up()
        eventually("it is read", lambda: zone.wrote("is read again") == 1)
        eventually("the new worker is alone", lambda: zone.workers().isdisjoint({worker}), timeout_s=40.0)
        assert not zone.wrote("was sent SIGHUP")


def test_a_signal_during_the_start_is_taken_after_it(tmp_path: Path) -> None:
    config = write_conf(tmp_path, free_port(), "auth_strategy = noauth")
    with launched("zonesched.serving", "--config-file", str(config)) as process:
        eventually("its folder is there", (tmp_path / "state").exists)
        process.send_signal(signal.SIGHUP)
        assert process.stdout is not None
        assert any("is read again" in line for line in process.stdout)


def test_a_signal_while_the_modules_are_imported_is_taken_after_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_conf(tmp_path, free_port(), "auth_strategy = noauth")
    # gunicorn, as it is imported first, with a signal before it.
    module = tmp_path / "gunicorn.py"
    module.write_text(
        "import os, signal, sys\n"
        "os.kill(os.getpid(), signal.SIGHUP)\n"
        f"sys.path.remove({str(tmp_path)!r})\n"
        "del sys.modules['gunicorn']\n"
        "import gunicorn\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with launched("zonesched.serving", "--config-file", str(config)) as process:
        assert process.stdout is not None
        assert any("is read again" in line for line in process.stdout)
