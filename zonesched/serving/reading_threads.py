"""Threads that read the rest of a body, which its caller may send slowly; used by the loop's thread alone."""

from __future__ import annotations

from collections import Counter

from zonesched.model.sender import Kind, Sender


class ReadingThreads:
    """An eighth of all threads for each kind of sender, and half of that for one sender.

    People and strangers together take a quarter: of few threads, they do not take all.
    """

    def __init__(self, threads: int) -> None:
        self._max = max(1, threads // 8)
        self._max_of_one = max(1, self._max // 2)
        self._max_of_people = max(1, threads // 4)
        self._of_sender: Counter[Sender] = Counter()
        self._of_kind: Counter[Kind] = Counter()

    @property
    def taken(self) -> int:
        """The number of threads that read, and of requests that wait for one to read."""
        return self._of_kind.total()

    def take(self, sender: Sender) -> bool:
        """Take one for a sender's request; return false if there is none for it."""
        kind = sender.kind
        if self._of_kind[kind] >= self._max or self._of_sender[sender] >= self._max_of_one:
            return False
        of_people = self.taken - self._of_kind[Kind.MACHINE]
        if kind is not Kind.MACHINE and of_people >= self._max_of_people:
            return False
        self._of_kind[kind] += 1
        self._of_sender[sender] += 1
        return True

    def give_back(self, sender: Sender) -> None:
        """Give back the one of a sender's request."""
        self._of_kind[sender.kind] -= 1
        self._of_sender[sender] -= 1
        if not self._of_sender[sender]:
            del self._of_sender[sender]
