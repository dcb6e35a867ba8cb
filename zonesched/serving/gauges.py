"""Gauges of the server of one process: its connections, and the requests that run or wait for a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily


@dataclass(frozen=True)
class Load:
    """The work of a server at one moment; `threads`: the most requests that run at the same time."""

    connections: int
    requests_running: int
    requests_waiting: int
    threads: int


class ServerGauges:
    """A collector for prometheus_client; `load` returns the present one."""

    def __init__(self, load: Callable[[], Load]) -> None:
        self._load = load

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the gauges as they are now."""
        load = self._load()
        for name, about, value in (
            ("connections", "Open connections of callers.", load.connections),
            ("requests_running", "Requests that have a thread.", load.requests_running),
            ("requests_waiting", "Requests that wait for a thread.", load.requests_waiting),
            ("request_threads", "The most requests that run at the same time.", load.threads),
        ):
            yield GaugeMetricFamily(f"zonesched_{name}", about, value)
