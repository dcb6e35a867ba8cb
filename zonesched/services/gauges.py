"""Gauges of one zone, read when somebody scrapes them: counts over its rows, and queues of this process.

Counting takes longer the more rows there are, so it is done again only after a pause of many times as long:
a zone spends at most a hundredth of one processor on it, however often it is scraped.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily

from zonesched.model.placement import InstanceStatus
from zonesched.model.shown_status import STATUS_WITHOUT_POWER
from zonesched.services.zone import Zone
from zonesched.store import tallies
from zonesched.store.outages import log_unreadable
from zonesched.store.store import StoreError
from zonesched.store.tallies import Tallies
from zonesched.zones.child import Ready

PAUSES_PER_COUNT = 100
"""Pause after a count, in durations of that count."""

Values = Iterable[tuple[Sequence[str], float]]


class RowGauges:
    """A collector for prometheus_client: the tallies of a zone's rows, the same in each of its processes."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self._lock = threading.Lock()
        self._counted: _Counted | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the gauges, counted now or not long ago; only `database_up` while rows cannot be read."""
        try:
            counted = self._current()
        except StoreError as error:
            log_unreadable(error)
            yield _database_up(False)
            return
        yield _database_up(True)
        found = counted.tallies
        by_status = {
            STATUS_WITHOUT_POWER[InstanceStatus(stored)].value: number
            for stored, number in found.instances.items()
        }
        yield _gauge("instances", "Instances by status.", ("status",), _by_name(by_status))
        yield _gauge(
            "placements",
            "Placements by state, of those that wait for a call, a confirm or an agent.",
            ("state",),
            _by_name(found.placements),
        )
        yield _gauge("boots_open", "Boots that workers have work left on.", (), [((), found.open_boots)])
        yield _gauge("boots_leased", "Boots that a worker has leased.", (), [((), found.leased_boots)])
        yield _gauge(
            "hosts",
            "Hosts by state (up or down) and status (enabled or disabled).",
            ("state", "status"),
            [((_up(up), _enabled(enabled)), number) for (enabled, up), number in found.hosts.items()],
        )
        yield _gauge(
            "services",
            "Agents and processes of the zone by binary and state (up or down).",
            ("binary", "state"),
            [((binary, _up(up)), number) for (binary, up), number in found.services.items()],
        )
        classes = ("resource_class",)
        about = "Capacity of all hosts by resource class, in its unit."
        yield _gauge("resource_capacity", about, classes, _by_name(found.capacity))
        about = "Claimed amount on all hosts by resource class, in its unit."
        yield _gauge("resource_used", about, classes, _by_name(found.used))
        age_s = self._zone.clock.monotonic() - counted.at
        yield _gauge("tallies_age_seconds", "Age of the counts over rows.", (), [((), age_s)])
        about = "Seconds that the last count over rows took."
        yield _gauge("tallies_duration_seconds", about, (), [((), counted.took_s)])

    def _current(self) -> _Counted:
        with self._lock:
            now = self._zone.clock.monotonic()
            if self._counted is None or now >= self._counted.due_at:
                self._counted = self._count(now)
            return self._counted

    def _count(self, begun_at: float) -> _Counted:
        zone = self._zone
        now, down_time_s = zone.clock.now(), zone.listening.down_time_s()
        found = zone.store.read(lambda tx: tallies.count(tx, now, down_time_s))
        return _Counted(found, begun_at, zone.clock.monotonic() - begun_at)


@dataclass(frozen=True)
class _Counted:
    """Tallies, when their count began (monotonic seconds), and how long it took."""

    tallies: Tallies
    at: float
    took_s: float

    @property
    def due_at(self) -> float:
        return self.at + PAUSES_PER_COUNT * self.took_s


class NoRows:
    """A collector for prometheus_client: the one gauge of a zone whose rows cannot be read."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the gauge."""
        yield _database_up(False)


class ProcessGauges:
    """A collector for prometheus_client: the queues of this process, and its view of the children."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the gauges as they are now."""
        zone = self._zone
        for name, about, value in (
            ("boots_waiting", "Boots of this process that wait for a worker.", zone.boots.waiting),
            ("boots_in_hand", "Boots that workers of this process have leased.", zone.boots.in_hand),
            (
                "notifications_waiting",
                "Notifications that wait for the message broker.",
                zone.notifications.waiting,
            ),
            ("selects_running", "Selects of parents, and dry runs, under way.", zone.select_slots.held),
            (
                "database_connections",
                "Connections of this process to the database that are in use.",
                zone.store.connections_in_use,
            ),
        ):
            yield _gauge(name, about, (), [((), value)])
        children = zone.children.snapshot()
        up = [((known.child.name,), float(isinstance(known.status, Ready))) for known in children]
        yield _gauge("child_up", "1 if the child zone takes part in selects, else 0.", ("child",), up)


def _database_up(is_up: bool) -> GaugeMetricFamily:
    return _gauge("database_up", "1 if the zone's rows can be read, else 0.", (), [((), float(is_up))])


def _gauge(name: str, about: str, labels: Sequence[str], values: Values) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"zonesched_{name}", about, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family


def _by_name(found: Mapping[str, int]) -> Values:
    return [((name,), number) for name, number in sorted(found.items())]


def _up(is_up: bool) -> str:
    return "up" if is_up else "down"


def _enabled(is_enabled: bool) -> str:
    return "enabled" if is_enabled else "disabled"
