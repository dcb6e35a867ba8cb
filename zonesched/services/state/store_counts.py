"""Metrics of what one process writes: boots, their outcomes, and the waits for the database."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric

from zonesched.seams import Clock
from zonesched.store.outcomes import BecameActive, BecameError, BootAccepted, InstancesAccepted, Outcome

BUILD_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
WRITE_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

MAX_REASONS = 100
"""Different reasons that are counted apart: agents and child zones have codes of their own."""

OTHER = "other"


class StoreCounts:
    """Observer of a store: counters of this process, in a registry of their own."""

    def __init__(self, clock: Clock) -> None:
        self._registry = CollectorRegistry()
        self._clock = clock
        self._lock = threading.Lock()
        self._reasons: set[str] = set()
        self._boots = Counter(
            "zonesched_boots_accepted",
            "Boots that this process accepted, of users or of parents.",
            ("caller",),
            registry=self._registry,
        )
        self._instances = Counter(
            "zonesched_instances_accepted",
            "Instances that this process accepted.",
            registry=self._registry,
        )
        self._build_seconds = Histogram(
            "zonesched_instance_build_seconds",
            "Seconds from the acceptance of an instance until it was ACTIVE.",
            buckets=BUILD_SECONDS,
            registry=self._registry,
        )
        self._failures = Counter(
            "zonesched_instance_failures",
            "Instances that became ERROR, by the code of the reason.",
            ("reason",),
            registry=self._registry,
        )
        self._write_seconds = Histogram(
            "zonesched_database_write_seconds",
            "Seconds of a write, from its call until it was durable or had failed.",
            buckets=WRITE_SECONDS,
            registry=self._registry,
        )
        self._conflicts = Counter(
            "zonesched_database_conflicts",
            "Transactions that were run again because they conflicted with another one.",
            registry=self._registry,
        )

    def collect(self) -> Iterable[Metric]:
        """Return all metric families, as a collector for prometheus_client."""
        return self._registry.collect()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Time a write."""
        begun_at = self._clock.monotonic()
        try:
            yield
        finally:
            self._write_seconds.observe(self._clock.monotonic() - begun_at)

    def conflicted(self) -> None:
        """Count a transaction that is run again."""
        self._conflicts.inc()

    def committed(self, done: Sequence[Outcome]) -> None:
        """Count the outcomes of a transaction."""
        for outcome in done:
            match outcome:
                case BootAccepted(is_of_parent):
                    self._boots.labels("parent" if is_of_parent else "user").inc()
                case InstancesAccepted(num_instances):
                    self._instances.inc(num_instances)
                case BecameActive(ages_s):
                    for age_s in ages_s:
                        self._build_seconds.observe(age_s)
                case BecameError(reason, num_instances):
                    self._failures.labels(self._bounded(reason)).inc(num_instances)

    def _bounded(self, reason: str) -> str:
        with self._lock:
            if reason not in self._reasons and len(self._reasons) >= MAX_REASONS:
                return OTHER
            self._reasons.add(reason)
        return reason
