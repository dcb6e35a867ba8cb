"""Bounds on password checks: each costs a scrypt, and any client can ask for one.

One scrypt runs at a time, a bounded number of calls waits for it, and wrong passwords cause growing pauses
for their user name and address. Known callers are not delayed: a generated secret is compared by SHA-256, and
a password that was right before waits for one scrypt at most.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from zonesched.errors import OverLimit, ZoneBusy
from zonesched.model.addresses import network_of
from zonesched.seal.passwords import PERSON, ScryptCost
from zonesched.seams import Clock

log = logging.getLogger(__name__)

FREE_OF_USER, FREE_OF_ADDRESS = 5, 20
"""Number of wrong passwords without a pause; many people may share an address."""

LONGEST_PAUSE_S = 60.0
FORGOTTEN_AFTER_S = 900.0
"""Seconds without another wrong password after which they no longer count."""

MAX_KEYS = 10_000
"""Limit of remembered user names and addresses; above it the oldest is evicted and starts at zero."""

MAX_NAME = 256
_USER = "user "
"""Beginning of the key of a user name."""
BUSY_RETRY_S = 1


@dataclass(frozen=True)
class _Failures:
    count: int
    last_at: float
    retry_at: float


class PasswordGuard:
    """Password checks of one process; at most `waiting` calls wait, half of them of one address.

    `cost`: the cost of new passwords, and of the check of a user that does not exist.
    """

    def __init__(self, clock: Clock, waiting: int, cost: ScryptCost = PERSON) -> None:
        self.cost = cost
        self._clock = clock
        self._waiting = max(2, waiting)
        self._scrypt = threading.Lock()
        self._lock = threading.Lock()
        self._in_hand: Counter[str] = Counter()
        self._failures: dict[str, _Failures] = {}
        self._signed_in: dict[str, None] = {}

    def check(self, name: str, address: str, verify: Callable[[], bool]) -> bool:
        """Tell whether `verify` accepts the password; one check runs at a time.

        Wrong passwords count against the name, the address and the pair of both; from an address where this
        name has signed in before, against the pair alone. Of one address only the first ones count against a
        name, so that it cannot lock the user out. Raises OverLimit during a pause, and ZoneBusy where too
        many checks wait.
        """
        place = network_of(address)
        # No user has a longer name; it must not fill the memory.
        name = name[:MAX_NAME]
        with self._waits(place):
            keys = self._keys(name, place)
            self._refuse_during_pause(keys)
            with self._scrypt:
                # Calls with the same name or address may have failed meanwhile.
                self._refuse_during_pause(keys)
                is_right = verify()
            if is_right:
                self._remember_sign_in(name, place)
            else:
                self._count_failure(keys, place)
            return is_right

    def check_again(self, verify: Callable[[], bool]) -> bool:
        """Tell whether `verify` accepts a password that was right before; it skips pauses and the queue."""
        with self._scrypt:
            return verify()

    @contextmanager
    def _waits(self, place: str) -> Iterator[None]:
        with self._lock:
            if self._in_hand.total() >= self._waiting or self._in_hand[place] >= self._waiting // 2:
                message = "Too many password checks are waiting."
                raise ZoneBusy(message, BUSY_RETRY_S, code="password_checks_busy")
            self._in_hand[place] += 1
        try:
            yield
        finally:
            with self._lock:
                self._in_hand[place] -= 1
                self._in_hand += Counter()

    def _keys(self, name: str, place: str) -> Sequence[tuple[str, int]]:
        """List the keys that failures count against, with the number of failures that cause no pause."""
        pair = f"pair {place} {name}"
        with self._lock:
            if pair in self._signed_in:
                return [(pair, FREE_OF_USER)]
        # The pair comes first: `_count_failure` looks at it.
        return [(pair, FREE_OF_USER), (f"{_USER}{name}", FREE_OF_USER), (f"address {place}", FREE_OF_ADDRESS)]

    def _refuse_during_pause(self, keys: Sequence[tuple[str, int]]) -> None:
        now = self._clock.monotonic()
        with self._lock:
            known = [self._failures[key] for key, _ in keys if key in self._failures]
        wait_s = max((one.retry_at - now for one in known), default=0.0)
        if wait_s > 0:
            message = "Too many wrong passwords: wait before the next."
            raise OverLimit(message, math.ceil(wait_s), code="too_many_wrong_passwords")

    def _count_failure(self, keys: Sequence[tuple[str, int]], place: str) -> None:
        now, pause_s = self._clock.monotonic(), 0.0
        with self._lock:
            is_known_guesser = self._count(keys[0][0], now) >= FREE_OF_USER
            for key, free in keys:
                if is_known_guesser and key.startswith(_USER):
                    continue
                count = self._count(key, now) + 1
                self._failures.pop(key, None)
                # The exponent is bounded as well: a count may grow for days.
                own_s = 0.0 if count < free else min(LONGEST_PAUSE_S, 2.0 ** min(count - free, 10))
                self._failures[key] = _Failures(count, now, now + own_s)
                pause_s = max(pause_s, own_s)
            _evict(self._failures)
        if pause_s:
            log.warning("wrong passwords from %s: the next one is checked in %d s", place, pause_s)

    def _count(self, key: str, now: float) -> int:
        """Return how many wrong passwords count for a key; needs the lock."""
        found = self._failures.get(key)
        return found.count if found is not None and now - found.last_at <= FORGOTTEN_AFTER_S else 0

    def _remember_sign_in(self, name: str, place: str) -> None:
        pair = f"pair {place} {name}"
        with self._lock:
            self._failures.pop(pair, None)
            self._signed_in.pop(pair, None)
            self._signed_in[pair] = None
            _evict(self._signed_in)


def _evict(known: dict[str, _Failures] | dict[str, None]) -> None:
    while len(known) > MAX_KEYS:
        del known[next(iter(known))]
