"""P9 at rest, by plain rows: actions have ended once and in order, and zones and agents agree on states."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

Key = tuple[str, int]
Rows = Sequence[sqlite3.Row]
Seen = tuple[int, str, int]
"""Generation, power and number of rebuilds."""

NEW: Seen = (0, "running", 0)


@dataclass(frozen=True)
class Life:
    """Rows of one zone about the life of its instances.

    `hosted`: (uuid, number) of what is confirmed on its hosts; `abandoned`: uuids of what can do nothing
    before an agent is back that never comes. `sent`: uuids by child's name, of what is confirmed there.
    `seen`: what its agents observe, by (uuid, number). `images`: the image of each instance, as text.
    """

    zone: str
    statuses: Mapping[str, str]
    states: Mapping[str, sqlite3.Row]
    actions: Rows
    hosted: Collection[Key]
    abandoned: Collection[str]
    sent: Mapping[str, Collection[str]]
    seen: Mapping[Key, Seen]
    images: Mapping[str, str]


def faults(lives: Mapping[str, Life], *, are_complete: bool) -> Iterator[str]:
    """Find what is wrong with actions and states in all zones.

    `are_complete`: no zone was put back from a copy that lacks actions, which it knows by their result alone.
    """
    compared = _COMPARED if are_complete else [name for name in _COMPARED if name != "reboots"]
    waiting = {uuid for life in lives.values() for uuid in life.abandoned}
    for life in lives.values():
        yield from _ends(life, waiting)
        yield from _states(life, waiting)
        yield from _edges(life, lives, waiting, compared)
        yield from _agent(life, waiting)


def _ends(life: Life, waiting: Collection[str]) -> Iterator[str]:
    """Each action has ended, unless it waits for an agent that never comes back; generations only grow."""
    newest: dict[str, int] = {}
    for row in sorted(life.actions, key=lambda row: (row["uuid"], row["number"])):
        uuid, what = row["uuid"], f"{row['action']} {row['number']} of {row['uuid']}"
        if not row["finished_at"] and uuid not in waiting:
            yield f"P9 {life.zone}: {what} is open"
        if bool(row["finished_at"]) != (row["result"] in ("done", "error", "superseded")):
            yield f"P9 {life.zone}: {what} has the result {row['result']!r}"
        if (row["result"] == "error") != bool(row["reason"]):
            yield f"P9 {life.zone}: {what} is {row['result']} for the reason {row['reason']!r}"
        if row["generation"]:
            if row["generation"] <= newest.get(uuid, 0):
                yield f"P9 {life.zone}: {what} is of no later generation than the one before"
            newest[uuid] = row["generation"]


def _states(life: Life, waiting: Collection[str]) -> Iterator[str]:
    """Check that each living instance is in its desired state."""
    for uuid, row in life.states.items():
        if life.statuses.get(uuid) != "ACTIVE" or uuid in waiting:
            continue
        if row["observed_generation"] != row["generation"]:
            yield f"P9 {life.zone}: {uuid} is at {row['observed_generation']} of {row['generation']}"
        elif row["reclaim_at"]:
            yield f"P9 {life.zone}: {uuid} was deleted, and waits to be restored"
        elif row["moves_begun"] != row["moves_ended"]:
            yield f"P9 {life.zone}: {uuid} has ended {row['moves_ended']} of {row['moves_begun']} moves"
        elif not row["observed_reason"] and row["observed_power"] != row["power"]:
            yield f"P9 {life.zone}: {uuid} is {row['observed_power']}, not {row['power']}"
        elif (row["observed_rebuilds"], row["image"]) != (row["rebuilds"], row["desired_image"]):
            yield f"P9 {life.zone}: {uuid} was rebuilt {row['observed_rebuilds']} of {row['rebuilds']} times"
        elif resizes(row, "observed_resizes") != resizes(row, "resizes"):
            yield f"P9 {life.zone}: {uuid} has done {resizes(row, 'observed_resizes')} of its resizes"
        elif (row["flavor"], row["resized_at"]) != (row["desired_flavor"], 0.0):
            yield f"P9 {life.zone}: {uuid} has the flavor {row['flavor']}, not {row['desired_flavor']}"


def resizes(row: sqlite3.Row, name: str) -> tuple[int, ...]:
    """Return the resizes that were begun, confirmed and reverted."""
    return tuple(row[f"{name}_{count}"] for count in ("begun", "confirmed", "reverted"))


def _edges(
    life: Life, lives: Mapping[str, Life], waiting: Collection[str], compared: Sequence[str]
) -> Iterator[str]:
    """A child desires and observes what its parent does."""
    for child, uuids in life.sent.items():
        below = lives[child]
        for uuid in uuids:
            if uuid in waiting or life.statuses.get(uuid) != "ACTIVE":
                continue
            row, others = life.states.get(uuid), compared
            if others is not _COMPARED and row is not None and row["observed_reason"]:
                # Nobody tells a child of before again what it has refused.
                others = [name for name in compared if name not in _NUMBERED]
            here, there = (_all_of(one, others) for one in (row, below.states.get(uuid)))
            if here != there:
                yield f"P9 {life.zone}: {uuid} is {here}, in {child} {there}"
            # Each zone has the image of its own request where the state has none.
            ours, theirs = life.images[uuid], below.images.get(uuid)
            if ours != theirs:
                yield f"P9 {life.zone}: {uuid} has the image {ours}, in {child} {theirs}"


_COMPARED = (
    "generation",
    "power",
    "reboots",
    "rebuilds",
    "observed_generation",
    "observed_power",
    "observed_rebuilds",
    "moves_begun",
    "moves_ended",
    "resizes_begun",
    "resizes_confirmed",
    "resizes_reverted",
)

_NUMBERED = ("generation", "observed_generation")


def _all_of(row: sqlite3.Row | None, compared: Sequence[str]) -> tuple[int | str, ...]:
    new = dict(zip(_COMPARED, (0, "running", 0, 0, *NEW, *[0] * 5), strict=True))
    return tuple(new[name] if row is None else row[name] for name in compared)


def _observed(row: sqlite3.Row) -> Seen:
    return row["observed_generation"], row["observed_power"], row["observed_rebuilds"]


def _agent(life: Life, waiting: Collection[str]) -> Iterator[str]:
    """Check that zone and agents agree on the observed state."""
    for uuid, number in life.hosted:
        row = life.states.get(uuid)
        known = NEW if row is None else _observed(row)
        seen = life.seen.get((uuid, number), NEW)
        is_compared = life.statuses.get(uuid) == "ACTIVE" and uuid not in waiting
        if is_compared and known != seen:
            yield f"P9 {life.zone}: {uuid} is {known}, its agent says {seen}"
