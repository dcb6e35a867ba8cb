"""A clock that stands still until it is told to move."""

from __future__ import annotations

import random
import uuid


class FakeClock:
    """Time moves by `advance` only; randomness and ids follow from the seed."""

    def __init__(self, now: float = 1_700_000_000.0, seed: int = 0) -> None:
        self._now = now
        self._monotonic = 1000.0
        self._random = random.Random(seed)

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def new_uuid(self) -> str:
        return str(uuid.UUID(bytes=self._random.randbytes(16), version=4))

    def advance(self, seconds: float) -> None:
        self._now += seconds
        self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """The wall clock is set; monotonic time goes on as before."""
        self._now += seconds
