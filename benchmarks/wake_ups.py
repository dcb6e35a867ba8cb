"""Time from 202 to ACTIVE, with and without RabbitMQ: benchmarks/wake_ups.py [--transport-url URL]."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
import orjson
import requests

from zonesched.conf.ports import check_port_is_free
from zonesched.errors import ConfigError

CHECKOUT = Path(__file__).resolve().parents[1]
LOOK_PAUSE_S = 0.005


@click.command()
@click.option("--boots", type=click.IntRange(min=1), default=40, show_default=True, help="One after another.")
@click.option("--poll-seconds", type=click.FloatRange(min=0.01), default=2.0, show_default=True)
@click.option("--transport-url", default="", help="A RabbitMQ; without one, agents only poll.")
@click.option("--base-port", type=int, default=18_774, show_default=True)
def main(boots: int, poll_seconds: float, transport_url: str, base_port: int) -> None:
    """Boot single instances in a zone of one process with one agent, both real; a line of JSON."""
    try:
        check_port_is_free("127.0.0.1", base_port, "--base-port")
    except ConfigError as error:
        raise click.ClickException(error.message) from error
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder), base_port, transport_url, poll_seconds) as zone,
    ):
        times_s = sorted(zone.boot() for _ in range(boots))
    line = {
        "benchmark": "wake_ups",
        "broker": bool(transport_url),
        "poll_s": poll_seconds,
        "boots": boots,
        "p50_ms": round(statistics.median(times_s) * 1e3),
        "max_ms": round(times_s[-1] * 1e3),
    }
    click.echo(orjson.dumps(line).decode())


class RunningZone:
    """A zone that serves, with one host and its agent."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = requests.Session()

    def boot(self) -> float:
        """Boot one instance; seconds from its 202 until it is ACTIVE."""
        return self.active_in(self.accept())

    def accept(self) -> str:
        """Ask for one instance; its id."""
        body = {"server": {"name": "vm", "flavorRef": "tiny", "imageRef": "plain"}}
        return str(self.call("POST", "/servers", body)["server"]["id"])

    def active_in(self, server: str, timeout_s: float = 60.0) -> float:
        """Seconds from now until it is ACTIVE."""
        started_at = time.monotonic()
        while self.call("GET", f"/servers/{server}")["server"]["status"] != "ACTIVE":
            if time.monotonic() > started_at + timeout_s:
                raise TimeoutError(f"an instance is not ACTIVE after {timeout_s:g} s")
            time.sleep(LOOK_PAUSE_S)
        return time.monotonic() - started_at

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        answer = self._session.request(method, self._url + "/v2.1" + path, json=body, timeout=30)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def metric(self, name: str) -> float:
        """A counter of the zone's process."""
        text = self._session.get(self._url + "/metrics", timeout=30).text
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))

    def is_ready(self) -> bool:
        try:
            return self._session.get(self._url + "/readiness", timeout=5).ok
        except requests.ConnectionError:
            return False


@contextmanager
def running(folder: Path, port: int, transport_url: str, poll_s: float) -> Iterator[RunningZone]:
    """A zone of one process and an agent with one host, until the block ends."""
    conf, inventory = folder / "zone.conf", folder / "hosts.csv"
    options = [f"state_path = {folder}/state", f"bind_port = {port}", "auth_strategy = noauth"]
    conf.write_text("\n".join(("[DEFAULT]", *options, f"transport_url = {transport_url}")))
    inventory.write_text("name,VCPU,MEMORY_MB\nh1,100000,100000000\n")
    zone, url = ["zonesched.serving", "--config-file", str(conf)], f"http://127.0.0.1:{port}"
    agent = ["--zone-url", url, "--inventory", str(inventory), "--poll-seconds", str(poll_s)]
    if transport_url:
        agent += ["--transport-url", transport_url]
    with launched(folder / "zone.log", *zone):
        found = RunningZone(url)
        _wait(found.is_ready)
        found.call("POST", "/flavors", {"flavor": {"name": "tiny", "vcpus": 1, "ram": 64, "disk": 0}})
        found.call("POST", "/images", {"image": {"name": "plain"}})
        with launched(folder / "agent.log", "zonesched.compute.main", *agent):
            _wait(lambda: bool(found.call("GET", "/os-hypervisors")["hypervisors"]))
            yield found


@contextmanager
def launched(log: Path, module: str, *arguments: str) -> Iterator[None]:
    """A module of the package as a process, ended with the block."""
    with log.open("ab") as lines:
        command = [sys.executable, "-m", module, *arguments]
        process = subprocess.Popen(command, cwd=CHECKOUT, stdout=lines, stderr=lines)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _wait(holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
    end = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError("the zone or its agent does not start")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
