"""Times of each boot as the receiving zone wrote them, read from its database."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

LOOK_S = 0.002

_DECIDED = sa.text(
    "SELECT r.id, r.created_at, r.settled_at,"
    " (SELECT count(*) FROM placements p WHERE p.reservation_id = r.id AND p.caller_id = r.caller_id"
    "  AND p.state = 'confirmed') AS claimed"
    " FROM reservations r WHERE r.settled_at > 0 AND r.id IN :ids"
).bindparams(sa.bindparam("ids", expanding=True))


@dataclass(frozen=True)
class Stamps:
    """One boot: received and decided (epoch seconds of the zone's clock), and how many it claimed."""

    received_at: float
    settled_at: float
    claimed: int

    @property
    def ms(self) -> float:
        return (self.settled_at - self.received_at) * 1000


class Undecided(Exception):
    """A boot was not decided in time."""


class Decisions:
    """Lets clients wait until their boots are decided; one thread looks for all of them, each `look_s`."""

    def __init__(self, database_url: str, look_s: float = LOOK_S) -> None:
        self._look_s = look_s
        self._engine = sa.create_engine(database_url)
        self._lock = threading.Lock()
        self._waiting: dict[str, _Waiter] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="decisions", daemon=True)
        self._thread.start()

    def wait(self, reservation_id: str, timeout_s: float) -> Stamps:
        """The stamps of a boot, once it is decided. Raises Undecided."""
        waiter = _Waiter()
        with self._lock:
            self._waiting[reservation_id] = waiter
        if not waiter.decided.wait(timeout_s) or not waiter.stamps:
            raise Undecided(f"reservation {reservation_id} is not decided after {timeout_s:.0f} s")
        return waiter.stamps[0]

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._engine.dispose()

    def _run(self) -> None:
        while not self._over.wait(self._look_s):
            with self._lock:
                ids = list(self._waiting)
            if ids:
                self._tell(ids)

    def _tell(self, ids: Sequence[str]) -> None:
        with self._engine.connect() as connection:
            rows = connection.execute(_DECIDED, {"ids": list(ids)}).all()
        for row in rows:
            with self._lock:
                waiter = self._waiting.pop(row.id)
            waiter.stamps.append(Stamps(row.created_at, row.settled_at, row.claimed))
            waiter.decided.set()


class _Waiter:
    def __init__(self) -> None:
        self.decided = threading.Event()
        self.stamps: list[Stamps] = []
