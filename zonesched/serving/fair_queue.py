"""Share the threads of a process between senders: pure, and used by the loop's thread alone.

A sender gets at most its share of the threads, however many requests it sends; senders take turns for free
threads; a quarter of the threads and of the queue is reserved for agents and parent zones.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from zonesched.model.sender import Kind, Sender

WAITING_PER_THREAD = 8
"""Length of the queue, in requests per thread."""

T = TypeVar("T")


@dataclass(frozen=True)
class Parts:
    """Max threads of one sender by kind, and of all senders but agents and parent zones together."""

    threads: int

    def of(self, kind: Kind) -> int:
        match kind:
            case Kind.STRANGER:
                return max(1, self.threads // 8)
            case Kind.PERSON:
                return max(1, self.threads // 2)
            case Kind.MACHINE:
                return max(1, self.threads * 3 // 4)

    @property
    def of_people(self) -> int:
        return self.threads - self.threads // 4


class FairQueue(Generic[T]):
    """Requests that wait for a thread, and the number of threads that each sender has."""

    def __init__(self, threads: int) -> None:
        self._parts = Parts(threads)
        self._threads = threads
        self._running: Counter[Sender] = Counter()
        self._running_of_people = 0
        # In turn: the next sender comes first.
        self._waiting: OrderedDict[Sender, deque[T]] = OrderedDict()
        self._waiting_count = 0

    @property
    def running(self) -> int:
        """The number of requests that have a thread."""
        return self._running.total()

    @property
    def waiting(self) -> int:
        """The number of requests that wait for one."""
        return self._waiting_count

    def put(self, sender: Sender, item: T) -> bool:
        """Queue a request; return False if too many wait already."""
        full = self._threads * WAITING_PER_THREAD
        if sender.kind is not Kind.MACHINE:
            full = full * 3 // 4
        own = self._waiting.get(sender, ())
        if self._waiting_count >= full or len(own) >= self._parts.of(sender.kind) * WAITING_PER_THREAD:
            return False
        self._waiting.setdefault(sender, deque()).append(item)
        self._waiting_count += 1
        return True

    def next(self) -> tuple[Sender, T] | None:
        """Take the request that gets a thread now, None if none may. Call `done` afterwards."""
        for sender in self._waiting:
            if self._may_run(sender):
                break
        else:
            return None
        items = self._waiting.pop(sender)
        item = items.popleft()
        self._waiting_count -= 1
        if items:
            self._waiting[sender] = items
        self._running[sender] += 1
        self._running_of_people += sender.kind is not Kind.MACHINE
        return sender, item

    def done(self, sender: Sender) -> None:
        """Release the thread of a request."""
        self._running_of_people -= sender.kind is not Kind.MACHINE
        self._running[sender] -= 1
        if not self._running[sender]:
            del self._running[sender]

    def _may_run(self, sender: Sender) -> bool:
        if self._running.total() >= self._threads:
            return False
        if self._running[sender] >= self._parts.of(sender.kind):
            return False
        return sender.kind is Kind.MACHINE or self._running_of_people < self._parts.of_people
