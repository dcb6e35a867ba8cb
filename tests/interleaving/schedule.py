"""Schedules of a few kinds on one scene: played in many orders, and judged after each."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial

from tests.builders.one_zone import AGENT
from tests.interleaving import judge
from tests.interleaving.kinds import Kind
from tests.interleaving.order import (
    TO_THE_END,
    Drawn,
    Given,
    Order,
    Walk,
    Whole,
    to_text,
    with_one_change,
)
from tests.interleaving.player import Blow, Player, Strike
from tests.interleaving.scene import Scene
from tests.interleaving.turns import play
from zonesched.errors import ZoneschedError
from zonesched.services.boot import provision
from zonesched.services.hosts import hosts
from zonesched.store import reservations

LETTERS = "abc"
MOST_WHOLE = 1000
"""Limit of the orders of whole transactions; where there are more of them, unknown outcomes are undecided."""

MOST_COMPARED = 2
"""Players whose orders of whole transactions are few enough."""


@dataclass(frozen=True)
class Played:
    """One schedule: the order as it was played, the rules that it violated, and what came of it.

    `ended`: the players in the order in which their transactions ended. `is_undecided`: whether too many
    orders of whole transactions are left that may bring the same about.
    """

    kinds: tuple[str, ...]
    order: str
    wrong: tuple[str, ...]
    outcome: str
    conflicts: Counter[str]
    steps: Sequence[tuple[str, int]]
    statements: Sequence[Sequence[str]]
    ended: Sequence[str]
    is_undecided: bool = False

    @property
    def repeat(self) -> str:
        """Options of benchmarks/interleave.py that play it again."""
        return f"--pairs {'+'.join(self.kinds)} --order {self.order}"


class Schedules:
    """Schedules of a few kinds, played from the scene's first moment and judged each.

    What comes of a schedule must also come of an order of whole transactions. These are played only as far as
    it takes to find each outcome.
    """

    def __init__(self, scene: Scene, kinds: Sequence[Kind]) -> None:
        self._scene = scene
        self._kinds = kinds
        self._damage = [statement for kind in dict.fromkeys(kinds) for statement in kind.damage]
        self._prepare = list(dict.fromkeys(kind.prepare for kind in kinds if kind.prepare is not None))
        self._sound: set[str] = set()
        self._known: set[str] = set()
        self._in_turn: dict[str, str] = {}
        self._walk = Walk(whole=True)
        self._whole = self._walked(self._walk, MOST_WHOLE)

    def play(self, schedules: int, seed: int) -> Iterator[Played]:
        """Play all orders of statements where they are at most `schedules`, else so many.

        First those of whole players, then those in which one is interrupted once, then drawn ones.
        """
        steps: Sequence[tuple[str, int]] = ()
        for letter in LETTERS[: len(self._kinds)]:
            played = self._play_once(Given([(letter, TO_THE_END)]))
            self._known.add(played.outcome)
            steps = steps or played.steps
            yield played
        if _count(steps) <= schedules:
            rest = self._walked(Walk(whole=False), schedules)
        else:
            rest = map(self._play_once, self._some(steps, schedules, seed))
        yield from map(self._compared, rest)

    def judged(self, order: Order) -> Played:
        """Play one order."""
        return self._compared(self._play_once(order))

    def struck(self, order: Order, at: int, blow: Blow) -> Played:
        """Play one order in which the first player is struck at one of its steps.

        What it did is done again by another process, as its callers would, and as its loops do.
        """
        return self._play_once(order, Strike(at, blow, self._scene.end_connection))

    def without(self, removal: AbstractContextManager[None], order: Order) -> Played:
        """Play one order with something taken away; the orders of whole transactions are those with it."""
        with removal:
            played = self._play_once(order)
        return self._compared(played)

    def in_turn_without(self, removal: AbstractContextManager[None], letters: str) -> Played:
        """Play one after the other with something taken away; wrong if that changes what comes of it."""
        turns = [(letter, TO_THE_END) for letter in letters]
        if letters not in self._in_turn:
            self._in_turn[letters] = self._play_once(Given(turns)).outcome
        with removal:
            played = self._play_once(Given(turns))
        if played.wrong or not (differs := _difference(played.outcome, self._in_turn[letters])):
            return played
        return replace(played, wrong=(f"in turn: {'; '.join(differs)}",))

    def _play_once(self, order: Order, strike: Strike | None = None) -> Played:
        scene = self._scene
        scene.begin(self._damage, self._prepare)
        changed = threading.Condition()
        players = [
            Player(letter, partial(kind.act, scene, scene.zones[number], number), changed)
            for number, (letter, kind) in enumerate(zip(LETTERS, self._kinds, strict=False))
        ]
        players[0].strike = strike
        letters = play(players, order, scene.watch)
        if strike is not None:
            self._recover()
        lacking = tuple(self._look_again())
        outcome = judge.outcome(scene, players)
        # Of equal rows and answers one judgement is enough.
        wrong = () if outcome in self._sound else tuple(judge.faults(scene, players))
        if not wrong:
            self._sound.add(outcome)
        return Played(
            kinds=tuple(kind.name for kind in self._kinds),
            order=to_text(letters),
            wrong=(*wrong, *lacking),
            outcome=outcome,
            conflicts=sum((player.conflicts for player in players), Counter[str]()),
            steps=[(player.letter, len(player.steps)) for player in players],
            statements=[player.steps for player in players],
            ended=_ended(letters, players),
        )

    def _look_again(self) -> Iterator[str]:
        """Let loops take their next look; yield what it finds that should not be."""
        for number, kind in enumerate(self._kinds):
            try:
                if kind.looks_again:
                    kind.act(self._scene, self._scene.zones[number], number)
            except Exception as error:
                yield f"second look {LETTERS[number]}: {judge.described(error)}"

    def _recover(self) -> None:
        """Let another process do what the struck one was asked for, and the boots whose leases are over."""
        scene, number = self._scene, len(self._scene.zones) - 1
        zone = scene.zones[number]
        with suppress(ZoneschedError):
            self._kinds[0].act(scene, zone, number)
        # The second time for a boot that waits, since the agents were silent at the first.
        for _ in range(2):
            now = scene.later(zone, zone.conf.boot_lease + 1).clock.now()
            hosts.beat(zone, AGENT, "agent")
            zone.heartbeats.write()
            take_lease = partial(reservations.take_lease, now=now, duration_s=zone.conf.boot_lease)
            while (lease := zone.store.write(take_lease)) is not None:
                provision.carry_on(zone, lease)

    def _compared(self, played: Played) -> Played:
        """Add a violation to a schedule of which comes what no order of whole transactions brings about."""
        if played.wrong or len(self._kinds) > MOST_COMPARED or self._is_known(played):
            return played
        if not self._walk.is_over:
            return replace(played, is_undecided=True)
        like = min(self._known, key=lambda text: len(_difference(played.outcome, text)))
        wrong = f"outcome of no order of whole transactions: {'; '.join(_difference(played.outcome, like))}"
        return replace(played, wrong=(wrong,))

    def _is_known(self, of: Played) -> bool:
        if of.outcome not in self._known:
            # Most likely the order in which its own transactions ended.
            self._known.add(self._play_once(Whole(of.ended)).outcome)
        while of.outcome not in self._known and (played := next(self._whole, None)) is not None:
            self._known.add(played.outcome)
        return of.outcome in self._known

    def _walked(self, walk: Walk, most: int) -> Iterator[Played]:
        for _ in range(most):
            yield self._play_once(walk.begin())
            walk.end()
            if walk.is_over:
                return

    def _some(self, steps: Sequence[tuple[str, int]], schedules: int, seed: int) -> Iterator[Order]:
        interrupted = list(with_one_change(steps))
        # Where they are too many, an even choice of them.
        chosen = interrupted[:: max(1, math.ceil(len(interrupted) / max(1, schedules * 2 // 3)))]
        yield from chosen
        name = "+".join(kind.name for kind in self._kinds)
        for number in range(schedules - len(chosen)):
            yield Drawn(f"{seed} {name} {number}")


def _ended(letters: Sequence[str], players: Sequence[Player]) -> Sequence[str]:
    ends = {player.letter: set(player.ends) for player in players}
    done: Counter[str] = Counter()
    found: list[str] = []
    for letter in letters:
        done[letter] += 1
        if done[letter] in ends[letter]:
            found.append(letter)
    return found


def _difference(text: str, other: str) -> list[str]:
    have, want = Counter(text.splitlines()), Counter(other.splitlines())
    return [f"+ {line}" for line in have - want] + [f"- {line}" for line in want - have]


def _count(steps: Sequence[tuple[str, int]]) -> float:
    """Orders of so many steps, if nobody had to wait."""
    counts = [count for _, count in steps]
    return math.factorial(sum(counts)) / math.prod(map(math.factorial, counts))
