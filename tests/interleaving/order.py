"""Orders in which players take their turns: given, drawn, or all there are."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Protocol

from tests.interleaving.player import Player

TO_THE_END = 10_000
_BURST = re.compile(r"(\d+)([a-z])")


class Order(Protocol):
    """Choice of the next player."""

    def choose(self, ready: Sequence[Player]) -> Player:
        """Choose one of the players that can take a step; they are in the order of their letters."""


def to_text(letters: Sequence[str]) -> str:
    """Write an order down: "2a3b1a" for aabbba."""
    return "".join(f"{len(list(some))}{letter}" for letter, some in groupby(letters))


def letters_of(text: str) -> str:
    """Write an order out: "aabbba" for 2a3b1a."""
    return "".join(letter * int(count) for count, letter in _BURST.findall(text))


class Given:
    """Bursts of steps, each by one player; a player that has to wait ends its burst.

    After the last one everyone goes on in the order of the letters.
    """

    def __init__(self, bursts: Sequence[tuple[str, int]]) -> None:
        self._bursts = list(bursts)

    @classmethod
    def from_text(cls, text: str) -> Given:
        """Read an order as `to_text` writes it; raises ValueError."""
        if not re.fullmatch(f"({_BURST.pattern})*", text):
            raise ValueError(f"not an order: {text!r}")
        return cls([(letter, int(count)) for count, letter in _BURST.findall(text)])

    def choose(self, ready: Sequence[Player]) -> Player:
        by_letter = {player.letter: player for player in ready}
        while self._bursts:
            letter, count = self._bursts[0]
            if count and letter in by_letter:
                self._bursts[0] = (letter, count - 1)
                return by_letter[letter]
            self._bursts.pop(0)
        return ready[0]


class After:
    """One player is interrupted after its first statement that matches, by all that the others do."""

    def __init__(self, letter: str, pattern: str) -> None:
        self._letter = letter
        self._pattern = re.compile(pattern)
        self._is_over = False

    def choose(self, ready: Sequence[Player]) -> Player:
        of = next((player for player in ready if player.letter == self._letter), None)
        if of is None or (len(ready) > 1 and self._has_come(of)):
            return next(player for player in ready if player is not of)
        return of

    def _has_come(self, player: Player) -> bool:
        self._is_over = self._is_over or bool(player.steps and self._pattern.search(player.steps[-1]))
        return self._is_over


class Whole:
    """Whole transactions, each by the next one of these players that can take it."""

    def __init__(self, letters: Sequence[str]) -> None:
        self._letters = list(letters)
        self._last: Player | None = None

    def choose(self, ready: Sequence[Player]) -> Player:
        if self._last is None or not self._last.is_inside or self._last not in ready:
            self._last = self._next({player.letter: player for player in ready}) or ready[0]
        return self._last

    def _next(self, ready: Mapping[str, Player]) -> Player | None:
        while self._letters:
            if (letter := self._letters.pop(0)) in ready:
                return ready[letter]
        return None


class Drawn:
    """Random order: the player changes with a probability that is drawn as well."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self._changes = self._random.choice((0.15, 0.35, 0.7))
        self._last = ""

    def choose(self, ready: Sequence[Player]) -> Player:
        same = [player for player in ready if player.letter == self._last]
        if not same or self._random.random() < self._changes:
            same = [self._random.choice(ready)]
        self._last = same[0].letter
        return same[0]


class Walk:
    """All orders, one after the other: each `begin` starts the next one.

    `whole`: players change between transactions only.
    """

    def __init__(self, whole: bool) -> None:
        self._whole = whole
        self._path: list[tuple[int, int]] = []
        self._at = 0
        self._last: Player | None = None
        self.is_over = False

    def begin(self) -> Walk:
        """Start the next order; `is_over` is true after the last one has been played."""
        self._at, self._last = 0, None
        return self

    def end(self) -> None:
        """Note that the present order has been played."""
        while self._path and self._path[-1][0] + 1 == self._path[-1][1]:
            self._path.pop()
        if self._path:
            chosen, of = self._path.pop()
            self._path.append((chosen + 1, of))
        else:
            self.is_over = True

    def choose(self, ready: Sequence[Player]) -> Player:
        if self._whole and self._last is not None and self._last.is_inside and self._last in ready:
            return self._last
        if len(ready) == 1:
            self._last = ready[0]
            return ready[0]
        if self._at == len(self._path):
            self._path.append((0, len(ready)))
        chosen, _ = self._path[self._at]
        self._at += 1
        self._last = ready[chosen]
        return ready[chosen]


def with_one_change(steps: Sequence[tuple[str, int]]) -> Iterator[Given]:
    """Orders in which one player is interrupted once, after each of its steps, by all that the others do.

    `steps`: letter and number of steps of each player.
    """
    for letter, count in steps:
        others = [(other, TO_THE_END) for other, _ in steps if other != letter]
        for done in range(1, count):
            for first in others:
                rest = [other for other in others if other != first]
                yield Given([(letter, done), first, *rest, (letter, TO_THE_END)])
