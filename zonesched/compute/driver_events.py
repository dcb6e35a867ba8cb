"""Check of the events of a driver, which may be anybody's: one wrong event must not cost another instance."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from typing import TypeGuard

from zonesched.compute.desired_state import Observed, Power
from zonesched.compute.driver import Driver
from zonesched.compute.machine import Built, Changed, Destroyed, DriverEvent, Failed, Fenced, Found, Key, Left
from zonesched.errors import ConfigError
from zonesched.plugin import ANY_ERROR

log = logging.getLogger(__name__)


def readable(events: Iterable[object]) -> Sequence[DriverEvent]:
    """Return the events that have the form of one; log each of the others, which the driver has to mend."""
    found = [event for event in events if _is_event(event)]
    for event in found:
        _say_why(event)
    return found


def _say_why(event: DriverEvent) -> None:
    """Log why an instance is not as it should be: its owner sees the status alone."""
    match event:
        case Built(key, observed) | Changed(key, observed) if observed.reason:
            log.info(
                "instance %s, attempt %d, is %s: %s",
                key.uuid,
                key.attempt,
                observed.power.value,
                observed.reason,
            )


def found_at_start(keys: Iterable[Key]) -> Found:
    """Return the instances that a driver has found at the start of an agent.

    Raise ConfigError if one of the keys is none: the zone would hear that such an instance is gone, which
    runs on.
    """
    found = Found(tuple(keys))
    if not _has_its_form(found):
        raise ConfigError(f"The driver's found() must return keys, and returned {found.keys!r}.")
    return found


class NextEvent:
    """The time until a driver's next event. A wrong answer is logged once, and counts as no event."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._is_wrong = False

    def in_s(self) -> float:
        """Return the seconds until `poll` is expected to have events; infinity also where nobody knows."""
        try:
            answer: object = self._driver.next_event_s()
        except ANY_ERROR as error:
            return self._unknown(f"failed: {error!r}")
        if isinstance(answer, int) or (isinstance(answer, float) and not math.isnan(answer)):
            self._is_wrong = False
            return answer
        return self._unknown(f"gave {answer!r}")

    def _unknown(self, why: str) -> float:
        if not self._is_wrong:
            log.error(
                "next_event_s of the driver %s %s: it is polled with the zone",
                type(self._driver).__qualname__,
                why,
            )
        self._is_wrong = True
        return math.inf


def _is_event(event: object) -> TypeGuard[DriverEvent]:
    if not _has_its_form(event):
        log.error("the driver gave an event of the wrong form, which is ignored: %r", event)
        return False
    return True


def _has_its_form(event: object) -> bool:
    match event:
        case Found(tuple(keys)):
            return all(map(_is_key, keys))
        case Built(key, observed) | Changed(key, observed):
            return _is_key(key) and _is_observed(observed)
        case Failed(key, reason):
            return _is_key(key) and isinstance(reason, str)
        case Left(key, leaves_for, reason):
            return _is_key(key) and isinstance(leaves_for, int) and isinstance(reason, str)
        case Fenced(key) | Destroyed(key):
            return _is_key(key)
    return False


def _is_key(key: object) -> bool:
    match key:
        case Key(str(), int()):
            return True
    return False


def _is_observed(observed: object) -> bool:
    match observed:
        case Observed(int(), Power(), str(), int()):
            return True
    return False
