"""Turns of players: one statement at a time; who waits for a lock is passed over until it is free."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.interleaving.order import Order
from tests.interleaving.player import Player, Standing

LOOK_AFTER_S = 0.001
STUCK_AFTER_S = 300.0

_BLOCKING = "SELECT pid, pg_blocking_pids(pid) FROM unnest(%s::int[]) AS pid"


class Stuck(Exception):
    """Nobody can go on."""


@dataclass
class _Turns:
    """Choices of one schedule: the letters of those who had the turns, and who has the next one."""

    players: Sequence[Player]
    order: Order
    letters: list[str] = field(default_factory=list)
    chosen: Player | None = None
    has_begun: bool = False

    def choose(self) -> Player | None:
        """Choose the next player; None once all have ended."""
        ready = [player for player in self.players if player.standing is Standing.READY]
        if self.chosen is None and ready:
            self.chosen = self.order.choose(ready)
            self.letters.append(self.chosen.letter)
        chosen, self.chosen = self.chosen, None
        return chosen

    def goes_on(self, last: Player) -> bool:
        """Tell whether the player that has just taken a step has the next turn as well."""
        others = [player for player in self.players if player.standing is Standing.RUNNING]
        if not self.has_begun or _moving(self.players) or (others and not _keeps_locks(last)):
            return False
        self.chosen = self.choose()
        if self.chosen is last:
            self.chosen = None
            last.has_freed = False
            return True
        return False


def play(players: Sequence[Player], order: Order, watch: psycopg.Connection[Any]) -> list[str]:
    """Run all players to their ends; return the letters of those who had the turns.

    `watch`: a connection of nobody else's to the same server. Raises Stuck.
    """
    changed = players[0].changed
    turns = _Turns(players, order)
    for player in players:
        player.goes_on = turns.goes_on
    threads = [player.start() for player in players]
    _settle(players, changed, watch)
    turns.has_begun = True
    while (chosen := turns.choose()) is not None:
        with changed:
            chosen.give_turn()
        _settle(players, changed, watch, chosen)
    for thread in threads:
        thread.join(STUCK_AFTER_S)
    return turns.letters


def _settle(
    players: Sequence[Player],
    changed: threading.Condition,
    watch: psycopg.Connection[Any],
    last: Player | None = None,
) -> None:
    """Return once each player has ended, is before a statement, or waits for one who is."""
    ends_at = time.monotonic() + STUCK_AFTER_S
    while True:
        with changed:
            steps = _steps(players)
            changed.wait_for(lambda: not _moving(players), LOOK_AFTER_S)
            running = [player for player in players if player.standing is Standing.RUNNING]
            if not running:
                return
            if not _moving(players) and last is not None and _keeps_locks(last):
                return
            if _moving(players) and _steps(players) != steps:
                continue
        blockers = _blockers(watch, [player.pid for player in running])
        with changed:
            if _moving(players) and _steps(players) != steps:
                continue
            for player in running:
                player.is_waiting = player.standing is Standing.RUNNING and bool(blockers[player.pid])
            can_go_on = any(player.standing is Standing.READY for player in players)
            if can_go_on and not _moving(players) and not _in_circle(blockers):
                return
        if time.monotonic() > ends_at:
            raise Stuck(", ".join(f"{player.letter}: {player.steps[-1:]}" for player in running))


def _steps(players: Sequence[Player]) -> int:
    return sum(len(player.steps) for player in players)


def _moving(players: Sequence[Player]) -> bool:
    return any(player.standing is Standing.RUNNING and not player.is_waiting for player in players)


def _keeps_locks(last: Player) -> bool:
    """Tell whether the last step has freed no lock for which others wait."""
    return last.standing is Standing.READY and last.is_inside and not last.has_freed


def _blockers(watch: psycopg.Connection[Any], pids: Sequence[int]) -> Mapping[int, Sequence[int]]:
    return dict(watch.execute(_BLOCKING, [list(pids)]).fetchall())


def _in_circle(blockers: Mapping[int, Sequence[int]]) -> bool:
    """Tell whether some wait for each other: the server ends one of them."""

    def reaches(start: int, seen: set[int]) -> bool:
        for pid in blockers.get(start, ()):
            if pid in seen:
                return True
            if reaches(pid, seen | {pid}):
                return True
        return False

    return any(reaches(pid, {pid}) for pid in blockers)
