"""Trees in which calls take time: each as long as the test says, calls of one fan-out side by side.

Nothing sleeps. A call moves the clock on, at most to its caller's time-out; a fan-out starts each of its
calls at the same moment and ends with the longest of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import requests

from tests.builders.clock import FakeClock
from tests.builders.inline_executor import InlineExecutor
from tests.builders.wsgi_transport import WsgiAdapter
from zonesched.seams import Bulkhead, Done, Failed, Late

T = TypeVar("T")
NEVER = float("inf")


class Timeline(FakeClock):
    """A clock that can be taken back, to what went on meanwhile."""

    def go_to(self, moment: float) -> None:
        """Set monotonic time, and the wall clock by as much."""
        self._now += moment - self._monotonic
        self._monotonic = moment


class SideBySide(InlineExecutor):
    """An executor that gives each call of a fan-out the same starting time."""

    def __init__(self, clock: Timeline) -> None:
        super().__init__()
        self._clock = clock

    def gather(
        self,
        calls: Iterable[tuple[Bulkhead, Callable[[], T]]],
        timeout_s: float,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> list[Done[T] | Failed | Late]:
        started = self._clock.monotonic()
        longest_s = 0.0
        outcomes: list[Done[T] | Failed | Late] = []
        for call in calls:
            self._clock.go_to(started)
            [outcome] = super().gather([call], timeout_s)
            took_s = self._clock.monotonic() - started
            outcomes.append(outcome if took_s <= timeout_s else Late())
            longest_s = max(longest_s, min(took_s, timeout_s))
        self._clock.go_to(started + longest_s)
        return outcomes


class TimedNetwork(WsgiAdapter):
    """A network on which each answer takes as long as `takes` says of its zone's URL, in seconds."""

    def __init__(self, clock: Timeline) -> None:
        super().__init__()
        self.takes: dict[str, float] = {}
        self._clock = clock

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        started = self._clock.monotonic()
        delay_s = next((s for url, s in self.takes.items() if str(request.url).startswith(url)), 0.0)
        try:
            response = super().send(request, stream, timeout, verify, cert, proxies)
        finally:
            took_s = self._clock.monotonic() - started + delay_s
            self._clock.go_to(started + min(took_s, timeout))
        if took_s >= timeout:
            raise requests.ReadTimeout("no answer")
        return response
