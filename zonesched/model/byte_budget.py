"""Budget of the bytes that a process holds for its callers, in total and per sender."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from zonesched.model.sender import Kind, Sender


class ByteBudget:
    """A limit of `total` bytes, half of them for machines only, and of `per_sender` bytes by sender kind."""

    def __init__(self, total: int, per_sender: Mapping[Kind, int]) -> None:
        self._total = total
        self._per_sender = per_sender
        self._held: Counter[Sender] = Counter()
        self._held_by_people = 0

    @property
    def held(self) -> int:
        return self._held.total()

    def is_ever_enough(self, sender: Sender, size: int) -> bool:
        """Tell whether a sender may hold `size` bytes while nobody holds any."""
        return size <= self._per_sender[sender.kind]

    def take(self, sender: Sender, size: int) -> bool:
        """Hold `size` more bytes for a sender; return False and hold nothing if that exceeds a limit."""
        of_people = 0 if sender.kind is Kind.MACHINE else size
        fits = (
            self._held[sender] + size <= self._per_sender[sender.kind]
            and self._held.total() + size <= self._total
            and (not of_people or self._held_by_people + of_people <= self._total // 2)
        )
        if fits:
            self._held[sender] += size
            self._held_by_people += of_people
        return fits

    def give_back(self, sender: Sender, size: int) -> None:
        """Release `size` bytes of a sender."""
        self._held[sender] -= size
        self._held_by_people -= 0 if sender.kind is Kind.MACHINE else size
        if not self._held[sender]:
            del self._held[sender]
