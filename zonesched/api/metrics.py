"""Metrics of a zone's calls, in Prometheus' text form. Labels hold no names and no ids."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from zonesched.services.state.notifications import Notifications

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")
MEDIA_TYPE = CONTENT_TYPE_LATEST


class ApiMetrics:
    """Counters of one application, in a registry of its own."""

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

    def follow(self, notifications: Notifications) -> None:
        """Expose the counters of this process's notifications as well."""
        self.registry.register(_NotificationCounts(notifications))

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one answered request; `route` is the URL's pattern, "" for an unknown one."""
        method = method if method in METHODS else "other"
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route, method).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)


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
