"""An executor without threads: calls run in order, background loops wait to be stepped by hand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from zonesched.seams import Bulkhead, Done, Failed, Late

T = TypeVar("T")


class InlineLoop:
    """A background loop that runs when a test says so. `pause_s` is what its last step asked for."""

    def __init__(self, name: str, step: Callable[[], float]) -> None:
        self.name = name
        self.pause_s = 0.0
        self.woken = 0
        self._step = step

    def wake(self) -> bool:
        self.woken += 1
        return True

    def step(self) -> float:
        self.pause_s = self._step()
        return self.pause_s


class InlineExecutor:
    """`zonesched.seams.Executor` on the caller's own thread: nothing is ever late.

    `while_paused` is called with the seconds of each pause of a call.
    """

    def __init__(self) -> None:
        self.while_paused: Callable[[float], None] = _nobody_plays
        self.loops: list[InlineLoop] = []
        self.stopped = False

    def gather(
        self,
        calls: Iterable[tuple[Bulkhead, Callable[[], T]]],
        timeout_s: float,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> list[Done[T] | Failed | Late]:
        return [_outcome(call) for _, call in calls]

    def keep_bulkheads(self, bulkheads: Collection[Bulkhead]) -> None:
        """There are no threads to give back."""

    def pause(self, seconds: float) -> None:
        """Let a test play what happens meanwhile, at least that time goes by."""
        self.while_paused(seconds)

    def start_loop(self, name: str, step: Callable[[], float]) -> InlineLoop:
        loop = InlineLoop(name, step)
        self.loops.append(loop)
        return loop

    def stop(self) -> None:
        self.stopped = True


def _nobody_plays(seconds: float) -> None:
    raise AssertionError(f"a call waits {seconds} s for what no test plays")


def _outcome(call: Callable[[], T]) -> Done[T] | Failed:
    try:
        return Done(call())
    except Exception as error:
        return Failed(error)
