"""Play one seed."""

from __future__ import annotations

import gc
import hashlib
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from tests.simulation.plan import plan_of
from tests.simulation.stage import Stage
from tests.simulation.world import World
from tests.simulation.zone_process import DatabaseAway
from zonesched.seal import passwords


@dataclass(frozen=True)
class Outcome:
    """Result of a seed: `wrong` is empty for a good one; `converged_s` in simulated seconds.

    `met`: how often each row and point of `reach` was met, and more.
    """

    seed: int
    wrong: tuple[str, ...]
    zones: int
    boots: int
    active: int
    struck: Counter[str]
    met: Counter[str]
    converged_s: float
    digest: str
    cpu_s: float


def simulate(seed: int, show: Callable[[str], None] | None = None) -> Outcome:
    """Play a seed; `show` gets the lines of its trace."""
    started_s = time.process_time()
    stage = Stage(seed, show)
    plan = plan_of(seed)
    world = World(stage, plan, databases=uuid.uuid4().hex)
    try:
        with _heard(stage) as unforeseen, _quick_passwords(), _no_garbage_collected():
            wrong = [*world.play(), *unforeseen]
        active = world.guard.active()
    finally:
        world.close()
    for line in wrong:
        stage.trace.remark(stage.baton.now, f"WRONG {line}")
    return Outcome(
        seed=seed,
        wrong=tuple(wrong),
        zones=len(plan.zones),
        boots=len(world.users.promises),
        active=active,
        struck=stage.storm.struck,
        met=stage.reach.met,
        converged_s=world.converged_s,
        digest=stage.trace.digest,
        cpu_s=time.process_time() - started_s,
    )


@contextmanager
def _quick_passwords() -> Iterator[None]:
    """A refused password takes no third of a second: nothing here is about how long it takes to guess one."""

    def quick(password: str, salt: bytes, cost: passwords.ScryptCost) -> bytes:
        return hashlib.sha256(salt + password.encode()).digest()

    with patch.object(passwords, "_scrypt", quick):
        yield


@contextmanager
def _no_garbage_collected() -> Iterator[None]:
    """A fifth of the time would go into looking for circles that end with the seed."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Errors(logging.Handler):
    """Log records with an exception that no fault of the simulation explains."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(logging.ERROR)
        self.unforeseen: list[str] = []
        self._stage = stage

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._stage.trace.remark(self._stage.baton.now, f"log: {record.getMessage()}: {error!r}")
        if error is not None and not isinstance(getattr(error, "orig", None), DatabaseAway):
            formatter = logging.Formatter()
            self.unforeseen.append(f"unforeseen error: {formatter.format(record)}")


@contextmanager
def _heard(stage: Stage) -> Iterator[list[str]]:
    """Route the package's log records to this handler alone."""
    logger = logging.getLogger("zonesched")
    before = (logger.level, logger.propagate)
    errors = _Errors(stage)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(errors)
    try:
        yield errors.unforeseen
    finally:
        logger.removeHandler(errors)
        logger.setLevel(before[0])
        logger.propagate = before[1]
