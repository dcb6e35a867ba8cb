"""Metrics of a zone, in Prometheus' text form. Labels hold no users, hosts or ids."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from zonesched import __version__
from zonesched.services.gauges import NoRows, ProcessGauges, RowGauges
from zonesched.services.state.notifications import Notifications
from zonesched.services.zone import Zone

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")
MEDIA_TYPE = CONTENT_TYPE_LATEST


class ApiMetrics:
    """Metrics of one application, in a registry of its own: its calls, its process and its zone."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "zonesched_api_requests",
            "Requests answered.",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "zonesched_api_request_seconds",
            "Seconds from a request's arrival to its answer.",
            ("route", "method"),
            buckets=SECONDS,
            registry=self.registry,
        )

        # To find a metric by its labels takes longer than to count.
        self._counted: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        Info("zonesched_build", "Version of the program.", registry=self.registry).info(
            {"version": __version__, "python": platform.python_version()}
        )
        ProcessCollector(registry=self.registry)

    def follow(self, zone: Zone) -> None:
        """Expose the metrics of a zone as well."""
        for collector in (
            _NotificationCounts(zone.notifications),
            zone.children.edges,
            zone.counts,
            ProcessGauges(zone),
            RowGauges(zone),
        ):
            self.registry.register(collector)

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one answered request; `route` is the URL's pattern, "" for an unknown one."""
        method = method if method in METHODS else "other"
        counted = self._counted.get((route, method, status))
        if counted is None:
            counted = self._counted[route, method, status] = (
                self._requests.labels(route, method, str(status)),
                self._seconds.labels(route, method),
            )
        counted[0].inc()
        counted[1].observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)


def text_without_rows() -> bytes:
    """Return what everybody may read while the zone's rows cannot be read."""
    registry = CollectorRegistry()
    registry.register(NoRows())
    return generate_latest(registry)


class _NotificationCounts(Collector):
    """Collect the counters of `Notifications` when they are scraped."""

    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications

    def collect(self) -> Iterator[CounterMetricFamily]:
        notifications, counts = self._notifications, self._notifications.counts
        for name, said, value in (
            ("sent", "Notifications given to the message broker.", counts.sent),
            (
                "dropped",
                "Notifications that were dropped: the broker was unavailable, or too many waited.",
                notifications.dropped,
            ),
            ("received", "Notifications received from the message broker.", counts.heard),
        ):
            yield CounterMetricFamily(f"zonesched_notifications_{name}", said, value)
