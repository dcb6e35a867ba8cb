"""Metrics of a zone's calls to each child: latency, outcomes, age of its ranges.

The label is the child's name, which the admin of this zone chose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily

from zonesched.errors import ChildUnreachable
from zonesched.seams import Done, Failed, Late

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
ANSWERED = "answered"


class EdgeMetrics:
    """A collector for prometheus_client; `ages_s`: seconds since each child's last ranges, by name."""

    def __init__(self, ages_s: Callable[[], Iterable[tuple[str, float]]]) -> None:
        self._ages_s = ages_s
        self._names: set[str] = set()
        self._registry = CollectorRegistry()
        self._calls = Counter(
            "zonesched_child_calls",
            "Calls to child zones, by how they ended.",
            ("child", "call", "outcome"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "zonesched_child_call_seconds",
            "Seconds until a child zone had answered, or the call had failed.",
            ("child", "call"),
            buckets=SECONDS,
            registry=self._registry,
        )

    def took(self, child: str, call: str, seconds: float) -> None:
        """Record the duration of a call; `call`: work, or poll."""
        self._names.add(child)
        self._seconds.labels(child, call).observe(seconds)

    def ended(self, child: str, call: str, outcome: Done[Any] | Failed | Late) -> None:
        """Count the outcome of a call for its caller."""
        self._names.add(child)
        match outcome:
            case Done():
                code = ANSWERED
            case Failed(ChildUnreachable(code=failed)):
                code = failed
            case _:
                code = "child_timeout"
        self._calls.labels(child, call, code).inc()

    def forget(self, known: Iterable[str]) -> None:
        """Drop the metrics of children that are no longer registered."""
        for name in self._names - set(known):
            self._names.discard(name)
            for metric in (self._calls, self._seconds):
                metric.remove_by_labels({"child": name})

    def collect(self) -> Iterable[Any]:
        """Return all metric families, with the present ages."""
        age = GaugeMetricFamily(
            "zonesched_child_ranges_age_seconds",
            "Seconds since a child zone last reported its ranges and capacities.",
            labels=["child"],
        )
        for name, seconds in self._ages_s():
            age.add_metric([name], seconds)
        yield age
        yield from self._registry.collect()
