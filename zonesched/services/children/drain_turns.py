"""Turns of a drain: servers whose like has found no place wait, and hold up no others."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from zonesched.store import reservations
from zonesched.store.instances import Instance
from zonesched.store.store import Transaction


def may_leave(tx: Transaction, ready: Sequence[Instance], unplaced: Sequence[Instance]) -> list[str]:
    """Return those of these instances that ask for something else than all that found no place, by uuid.

    The like of those would find none either, and lose its place here.
    """
    if not unplaced:
        return [row.uuid for row in ready]
    full = {_size(row) for row in unplaced}
    alike = [row for row in ready if _size(row) in full]
    ids = sorted({row.reservation_id for row in [*alike, *unplaced]})
    places = reservations.asked_places(tx, ids)

    def ask(row: Instance) -> Hashable:
        return _size(row), places.get((row.caller_id, row.reservation_id))

    refused = {ask(row) for row in unplaced}
    waiting = {row.uuid for row in alike if ask(row) in refused}
    return [row.uuid for row in ready if row.uuid not in waiting]


def retries(count: int, room: int, on_their_way: int, *, others_wait: bool) -> int:
    """Return how many may be placed again that found no place: at most half of `count` where others wait."""
    return min(room, max(0, count // 2 - on_their_way)) if others_wait else room


def _size(row: Instance) -> Hashable:
    """Return what an instance asks for by its own row: its size, its image, and whose it is."""
    return row.project_id, row.flavor_id, row.vcpus, row.ram_mb, row.image_key, row.group_id
