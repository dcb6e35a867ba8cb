"""Cache of the zone's hosts, refreshed from the store: the one owner of a HostTable."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from zonesched.model.host_row import HostRow
from zonesched.model.host_table import HostTable
from zonesched.model.local_hosts import FoundHosts
from zonesched.model.new_instances import NewInstances, OwnClaims
from zonesched.model.request_spec import RequestSpec
from zonesched.seams import Clock
from zonesched.services.state.listening import Listening
from zonesched.store import hosts, services
from zonesched.store.hosts import Changes, Watermark
from zonesched.store.services import LastHeartbeats
from zonesched.store.store import Store, Transaction

REREAD_S = 600.0
"""Seconds in which every host is read again, changed or not, so that a missed change is found."""

PAGE = 2000
"""Number of hosts that are read at one time at most."""

TURN = 100
"""Number of hosts that are read again at one time, with all that is on them, unless it is late for more:
nobody else has the table meanwhile."""

BEAT_OVERLAP_S = 2.0
"""Seconds by which the clocks of two processes of one zone may differ without missing a heartbeat."""


class AssumingTable:
    """A host table on which instances are placed before they are claimed."""

    def __init__(self, table: HostTable) -> None:
        self.table = table
        self._placed: list[NewInstances] = []

    @contextmanager
    def for_request(self, spec: RequestSpec) -> Iterator[FoundHosts]:
        """Lend all hosts, whatever the request."""
        yield FoundHosts(self.table)

    def place(self, new: NewInstances) -> None:
        """Place instances, so that the next decision sees them."""
        self._placed.append(new)
        self.table.place(new)

    def keep(self, new: NewInstances) -> bool:
        """Leave claimed instances on the table; false if such instances were not placed."""
        is_placed = new in self._placed
        if is_placed:
            self._placed.remove(new)
        return is_placed

    def take_all_off(self) -> None:
        """Take off everything that was placed and is not to be kept."""
        while self._placed:
            self.table.take_off(self._placed.pop())


class HostCache:
    """Holds one HostTable: reads changed hosts at every use, and periodically a share of all hosts.

    With a `max_age_s`, the table is used for so many seconds before the next read, unless it expires or has
    no host with free slots.
    """

    def __init__(self, store: Store, clock: Clock, listening: Listening, max_age_s: float = 0.0) -> None:
        self._store = store
        self._clock = clock
        self._listening = listening
        self._down_time_s = listening.down_time_s()
        self._lock = threading.Lock()
        self._table = HostTable()
        self._assuming = AssumingTable(self._table)
        self._seen: Watermark | None = None
        self._server_changes = store.servers.changes
        self._noted: deque[OwnClaims] = deque()
        # The number of the last change that the table has of hosts changed after the watermark.
        self._changes_read: dict[str, int] = {}
        self._page_after = ""
        self._turn_at = self._turn_s = 0.0
        self._beat_at: dict[str, float] = {}
        self._forced_down: frozenset[str] = frozenset()
        self._newest_at = 0.0
        self._up: Mapping[str, bool] = {}
        self._next_down_at = 0.0
        self._max_age_s = max_age_s
        self._fresh_until = -math.inf
        self._expired = False
        # Numbers of reads: the last one begun, and the last one that succeeded.
        self._begun = 0
        self._ended = 0

    def expire(self) -> None:
        """Refresh at the next use, since a caller has found the table outdated."""
        self._expired = True

    @property
    def size(self) -> int:
        """The number of hosts in the table."""
        return len(self._table)

    def read_again(self) -> None:
        """Refresh now, so that the next use has little to read."""
        self.expire()
        with self.current():
            pass

    @contextmanager
    def current(self) -> Iterator[HostTable]:
        """Lend the refreshed table to this thread alone until the block ends.

        A caller that waits for others needs no read if one of them began its read after this call.
        """
        begun_before = self._begun
        with self._lock:
            self._refresh(begun_before)
            yield self._table

    @contextmanager
    def assuming(self) -> Iterator[AssumingTable]:
        """Lend the refreshed table; what the block places on it stays there only if `note_claims` follows.

        Whoever takes the table before that takes it off, so nobody else sees it, and a commit that fails
        leaves nothing.
        """
        with self.current():
            yield self._assuming

    def note_claims(self, claims: OwnClaims) -> None:
        """Place instances whose claims this process has committed, so that they need not be read back.

        Whoever has the table just now does not make this thread wait: the next one who takes it places them.
        A host that the table does not have as it was before the claims is left to the next read.
        """
        self._noted.append(claims)
        if self._lock.acquire(blocking=False):
            try:
                self._place_noted()
            finally:
                self._lock.release()

    def _place_noted(self) -> None:
        noted = [self._noted.popleft() for _ in range(len(self._noted))]
        # In the order of the commits: the later ones of a host build on the earlier ones.
        for claims in sorted(noted, key=lambda one: one.change):
            self._place(claims)
        self._assuming.take_all_off()

    def _place(self, claims: OwnClaims) -> None:
        seen = self._seen
        # A read that failed has left a part of what it read; one after the commit has the claims.
        if seen is None or self._ended != self._begun or claims.change <= seen.seq:
            return
        ours = frozenset(i for i, n in claims.changed_before.items() if self._has(i, n, seen))
        for new in claims.instances:
            if not (ours >= new.copies_by_host.keys() and self._assuming.keep(new)):
                self._table.place(new.among(ours))
        self._changes_read |= dict.fromkeys(ours, claims.change)

    def _has(self, host_id: str, change: int, seen: Watermark) -> bool:
        """Tell whether the table has this host as that change left it."""
        read = self._changes_read.get(host_id)
        return change <= seen.seq if read is None else change == read

    @contextmanager
    def for_request(self, spec: RequestSpec) -> Iterator[FoundHosts]:
        """Lend all hosts, whatever the request."""
        with self.current() as table:
            yield FoundHosts(table)

    def check_ready(self) -> None:
        """Do nothing: a zone without hosts is ready, with no free slots."""

    def snapshot(self) -> tuple[tuple[HostRow, ...], Mapping[str, bool]]:
        """Read every host from the store, and the services that are up, by id."""
        begun_before = self._begun
        with self._lock:
            self._refresh(begun_before)
            return tuple(self._store.read(_every_host)), dict(self._up)

    def _refresh(self, begun_before: int) -> None:
        self._place_noted()
        now = self._clock.monotonic()
        if not self._expired and (now < self._fresh_until or self._ended > begun_before):
            return
        # Before the read: changes during it are read next time, and everything if it fails.
        self._expired = False
        self._fresh_until = -math.inf
        self._begun += 1
        self._read()
        self._ended = self._begun
        table = self._table
        if self._max_age_s and (table.alive & table.enabled & table.up).any():
            self._fresh_until = now + self._max_age_s

    def _read(self) -> None:
        if self._server_changes != self._store.servers.changes:
            # A server without the last commits gives their numbers to other changes.
            self._server_changes, self._seen = self._store.servers.changes, None
        seen = self._seen or self._read_everything()
        self._reread()
        now = self._clock.now()
        # A clock that was set back must not hide later heartbeats.
        set_back = self._newest_at > now + BEAT_OVERLAP_S
        beats_since = 0.0 if set_back else self._newest_at - BEAT_OVERLAP_S

        def fn(tx: Transaction) -> tuple[Changes, LastHeartbeats]:
            beats = services.ask_heartbeats_since(tx, beats_since)
            return hosts.changes(tx, seen, self._changes_read), beats()

        changes, beats = self._store.read(fn)
        present = changes.present
        known = [] if present is None else self._table.ids_between("", "")
        removed = [] if present is None else [i for i in known if i not in present]
        self._table.apply(changes.rows, removed)
        self._table.apply_uses(changes.uses)
        self._seen = changes.until
        self._changes_read = dict(changes.later)
        self._beat_at |= beats.at
        self._newest_at = max(beats.at.values(), default=self._newest_at)
        forced, self._forced_down = self._forced_down, beats.forced_down
        risen = any(not self._up.get(service) for service in beats.at.keys() - beats.forced_down)
        before, self._down_time_s = self._down_time_s, self._listening.down_time_s()
        changed = forced != beats.forced_down or before != self._down_time_s
        if set_back or risen or changed or now >= self._next_down_at:
            self._judge_services()

    def _read_everything(self) -> Watermark:
        self._page_after = ""
        is_empty = not len(self._table)
        # The watermark comes first, so that changes during the pages are read again.
        seen = self._store.read(hosts.moment)
        self._read_page(PAGE, is_empty=is_empty)
        while self._page_after:
            self._read_page(PAGE, is_empty=is_empty)
        return seen

    def _reread(self) -> None:
        """Read the next hosts again if their turn has come; more of them the later it is."""
        late_s = self._clock.monotonic() - self._turn_at
        if late_s >= 0.0:
            self._read_page(min(PAGE, TURN * (1 + int(late_s / self._turn_s))))

    def _read_page(self, size: int, *, is_empty: bool = False) -> None:
        """Read the next hosts. `is_empty`: the table had none before the first page, so none was removed."""
        after = self._page_after
        found = self._store.read(lambda tx: hosts.page(tx, after, size))
        last = found[-1].facts.id if len(found) == size else ""
        stored = {row.facts.id for row in found}
        known = [] if is_empty else self._table.ids_between(after, last)
        removed = [i for i in known if i not in stored]
        self._table.apply(found, removed)
        self._page_after = last
        if not last:
            self._beat_at = {}
            self._newest_at = 0.0
        self._turn_s = REREAD_S / (len(self._table) // TURN + 1)
        self._turn_at = self._clock.monotonic() + self._turn_s

    def _judge_services(self) -> None:
        liveness = self._listening.liveness()
        up = {
            service: service not in self._forced_down and liveness.is_up(at)
            for service, at in self._beat_at.items()
        }
        living = [liveness.heard_at(at) for service, at in self._beat_at.items() if up[service]]
        self._next_down_at = min(living, default=liveness.now) + liveness.down_time_s
        if up != self._up:
            self._table.set_services_up(up)
            self._up = up


def _every_host(tx: Transaction) -> list[HostRow]:
    found = page = hosts.page(tx, "", PAGE)
    while len(page) == PAGE:
        page = hosts.page(tx, page[-1].facts.id, PAGE)
        found = found + page
    return found
