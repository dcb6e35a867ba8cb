"""A clock that tests set: time stands still until it is told to go on, and randomness repeats."""

from __future__ import annotations

import random
import uuid
from copy import copy

from zonesched.services.zone import Zone

START = 1_700_000_000.0


class FakeClock:
    """`zonesched.seams.Clock` with both times in the test's hand; equal seeds give equal bytes and ids."""

    def __init__(self, now: float = START, seed: int = 0) -> None:
        self._now = now
        self._monotonic = 1_000.0
        self._random = random.Random(seed)

    def twin(self) -> FakeClock:
        """Return another clock at the same time, which goes on with the same bytes and ids."""
        twin = copy(self)
        twin._random = random.Random()
        twin._random.setstate(self._random.getstate())
        return twin

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def new_uuid(self) -> str:
        return str(uuid.UUID(bytes=self._random.randbytes(16), version=4))

    def new_uuids(self, count: int) -> tuple[str, ...]:
        return tuple([self.new_uuid() for _ in range(count)])

    def advance(self, seconds: float) -> None:
        """Time goes by, on both clocks."""
        if seconds < 0:
            raise ValueError("time does not go back: use set_to")
        self._now += seconds
        self._monotonic += seconds

    def set_to(self, now: float) -> None:
        """Someone sets the wall clock, forward or back; monotonic time stays."""
        self._now = now


def clock_of(zone: Zone) -> FakeClock:
    """Return the clock of a zone that a test has made."""
    assert isinstance(zone.clock, FakeClock)
    return zone.clock
