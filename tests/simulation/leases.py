"""A boot has one worker at a time, and nobody writes under a lease that is over (DESIGN, section 6)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple


class Writer(NamedTuple):
    """Author of a commit: a task of a process."""

    process: str
    task: str


@dataclass(frozen=True)
class _Lease:
    """One boot's row; `expires_at` 0: nobody works on it. `owner`: None until one of `process` begins."""

    number: int
    expires_at: float
    process: str
    owner: Writer | None

    def is_of(self, writer: Writer) -> bool:
        return writer == self.owner if self.owner is not None else writer.process == self.process


class Leases:
    """Follows each boot's lease from commit to commit."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Lease] = {}
        self._latest: dict[str, float] = {}

    def note_time(self, zone: str, now: float) -> None:
        """Note the time of a commit by the zone's clock."""
        # Whoever has read the clock before it was set back may go by that.
        self._latest[zone] = max(now, self._latest.get(zone, now))

    def forget(self, zone: str) -> None:
        """Forget the leases of a zone whose rows were put back."""
        self._known = {key: lease for key, lease in self._known.items() if key[0] != zone}

    def look(self, zone: str, rows: sqlite3.Connection, writer: Writer) -> Iterator[str]:
        latest = self._latest[zone]
        for boot, number, expires_at in rows.execute(
            "SELECT id, lease_number, lease_expires_at FROM reservations WHERE lease_number > 0"
        ):
            known = self._known.get((zone, boot))
            if known is not None and (known.number, known.expires_at) == (number, expires_at):
                continue
            if known is None:
                # Whoever accepts a boot leaves the lease to a worker of its process.
                self._known[zone, boot] = _Lease(number, expires_at, writer.process, None)
            elif known.number == number and _is_brought_near(known.expires_at, expires_at, writer):
                self._known[zone, boot] = replace(known, expires_at=expires_at)
            else:
                yield from _judge(zone, boot, known, number, expires_at, writer, latest)
                self._known[zone, boot] = _Lease(number, expires_at, writer.process, writer)


def _is_brought_near(before: float, after: float, writer: Writer) -> bool:
    """Tell whether a lease ends earlier, by the word of who knows that the clock was set back."""
    return writer.task in ("main", "reaper") and 0 < after < before


def _judge(
    zone: str, boot: str, known: _Lease, number: int, expires_at: float, writer: Writer, latest: float
) -> Iterator[str]:
    who = f"{writer.process}/{writer.task}"
    is_taken = number > known.number and expires_at > 0
    if is_taken and known.expires_at > latest:
        left_s = known.expires_at - latest
        yield f"lease {zone}: {who} takes boot {boot}, which is leased for {left_s:.1f} s more"
    # A repair makes a boot due that nobody works on, and refuses the writes of a worker that was paused.
    is_repaired = number > known.number and expires_at == 0 and known.expires_at <= latest
    if not (is_taken or is_repaired or known.is_of(writer)):
        yield f"lease {zone}: {who} writes under lease {number} of boot {boot}, which is another worker's"
    if number < known.number:
        yield f"lease {zone}: lease {known.number} of boot {boot} has become {number}"
