"""Steps back of the wall clock, by which stored times are: somebody sets it."""

from __future__ import annotations

import threading

from zonesched.conf import Conf
from zonesched.seams import Clock
from zonesched.store import set_back
from zonesched.store.set_back import Longest
from zonesched.store.store import Transaction

STEP_S = 60.0
"""Seconds of a step that counts: work comes late by no more with a smaller one."""


class ClockSteps:
    """Steps back of this machine's wall clock, as one process finds them by its monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ahead_s = clock.now() - clock.monotonic()

    def take_set_back(self) -> bool:
        """Tell whether the clock was set back since the last call."""
        with self._lock:
            ahead_s = self._clock.now() - self._clock.monotonic()
            step_s, self._ahead_s = ahead_s - self._ahead_s, ahead_s
            return step_s < -STEP_S


def bring_near(tx: Transaction, conf: Conf, now: float) -> None:
    """Let no work wait longer than if its time had been stored now."""
    longest = Longest(
        call_s=conf.retry_pause_max,
        hold_s=conf.max_hold,
        work_s=max(conf.hold, conf.retry_pause_max),
        lease_s=conf.boot_lease,
        step_s=conf.instance_build_timeout,
    )
    set_back.bring_near(tx, longest, now)
