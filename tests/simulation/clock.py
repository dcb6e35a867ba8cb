"""The clock of one machine: simulated time, with a wall clock that may be set, and randomness of its own."""

from __future__ import annotations

import random

from tests.builders.clock import START
from tests.simulation.baton import Baton


class MachineClock:
    """`zonesched.seams.Clock`; equal seeds give equal bytes and ids."""

    def __init__(self, baton: Baton, seed: str) -> None:
        self.set_forward_s = 0.0
        self._baton = baton
        self._random = random.Random(seed)

    def now(self) -> float:
        return START + self._baton.now + self.set_forward_s

    def monotonic(self) -> float:
        return self._baton.now

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def new_uuid(self) -> str:
        digits = self._random.randbytes(16).hex()
        variant = "89ab"[int(digits[16], 16) & 3]
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"

    def new_uuids(self, count: int) -> tuple[str, ...]:
        return tuple([self.new_uuid() for _ in range(count)])
