"""A fuzz target, and the judgement of one input: no crash, and no answer above its time."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis.strategies import SearchStrategy

ANSWER_MS = 100.0
"""CPU milliseconds of any answer. A calm one takes 1 to 5: what takes 20 times as long has lost its bound,
while a run of the collector or a cold cache does not reach it."""

MS_PER_BYTE = 20.0 / 10_000
"""CPU milliseconds on top for each byte of input: linear, and ten times what a large, valid body of an agent
takes (0.2 ms a kB), so that only growth that is not linear exceeds it."""

GUIDED_FACTOR = 4.0
"""Slowdown by the instrumentation that counts edges; measured: 2 to 3."""

TRIES = 3
"""A late answer is late each time: the processor's own noise is not."""


@dataclass(frozen=True)
class Work:
    """One input: its bytes, and the CPU milliseconds that it may take by design (a password's hash)."""

    input_bytes: int
    by_design_ms: float = 0.0

    @property
    def bound_ms(self) -> float:
        return ANSWER_MS + self.input_bytes * MS_PER_BYTE + self.by_design_ms


Check = Callable[[Any], Work]
"""Feeds one input to the parser. Raises for whatever the parser may not do, AssertionError included."""


@dataclass(frozen=True)
class Target:
    """A parser under attack. `opened` gets an empty folder and gives the check, until it is closed."""

    name: str
    about: str
    inputs: Callable[[], SearchStrategy[Any]]
    opened: Callable[[Path], AbstractContextManager[Check]]


def stateless(check: Check) -> Callable[[Path], AbstractContextManager[Check]]:
    """`opened` of a target without anything to set up."""

    @contextmanager
    def opened(folder: Path) -> Iterator[Check]:
        yield check

    return opened


class Late(AssertionError):
    """An answer took longer than its bound, each of TRIES times."""


@dataclass
class Tally:
    """Inputs played. `cpu_s` counts the making of inputs too; `finds` are by the place that raised them."""

    inputs: int = 0
    cpu_s: float = 0.0
    slowest_ms: float = 0.0
    finds: dict[str, str] = field(default_factory=dict)


class Judge:
    """Plays inputs against one check and keeps the tally. `factor`: slowdown of this process."""

    def __init__(self, check: Check, factor: float = 1.0) -> None:
        self.tally = Tally()
        self._check = check
        self._factor = factor
        # What the set-up made is none of the collector's work later.
        gc.collect()
        gc.freeze()
        self._began_s = time.process_time()

    def judge(self, given: Any) -> None:
        """Play one input. Raises its fault, after writing it into the tally."""
        self.tally.inputs += 1
        self.tally.cpu_s = time.process_time() - self._began_s
        try:
            self._play(given)
        except Exception as fault:
            self.tally.finds.setdefault(_place(fault), repr(given))
            raise

    def _play(self, given: Any) -> None:
        took_ms, work = self._timed(given)
        bound_ms = work.bound_ms * self._factor
        for _ in range(TRIES - 1):
            if took_ms <= bound_ms:
                break
            took_ms = min(took_ms, self._timed(given)[0])
        self.tally.slowest_ms = max(self.tally.slowest_ms, took_ms)
        if took_ms > bound_ms:
            raise Late(f"{took_ms:.0f} ms of CPU, the bound is {bound_ms:.0f} ms")

    def _timed(self, given: Any) -> tuple[float, Work]:
        started = time.process_time()
        work = self._check(given)
        return (time.process_time() - started) * 1000, work


def _place(fault: BaseException) -> str:
    """The kind of a fault and where it was raised: equal for two inputs that found the same."""
    fault = fault.__cause__ or fault
    frames = traceback.extract_tb(fault.__traceback__)
    ours = [frame for frame in frames if "zonesched" in frame.filename or "fuzzing" in frame.filename]
    last = (ours or frames)[-1]
    return f"{type(fault).__name__} in {Path(last.filename).name}:{last.lineno} {last.name}"
