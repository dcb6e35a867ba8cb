"""Decisions of a recovery, pure: an instance is where it was found, and one that was found nowhere has ended.

    rows have it     found                         decision
    living           at its present place          Kept
                     and at another of the rows    Kept: of a move under way, or to end there
                     and at no place before it     Confirmed: the resize that keeps one by the rows
    living           at another place              Moved
                     and at another of the rows    Kept: to end there, if an agent has built it
                     and before at one they lack   Unwanted, if an agent has built it
    built            there, and at a later place   Moving: a move is under way between two local hosts
                     and at a later one, where the Moved: to end there
                     parent names a later attempt
    living           nowhere                       Ended, unless its parent's own hold decides
    shelved          somewhere                     Moved
    ended            where the rows had it         Unwanted: it ends there
    ended, or none   and one parent names it       Adopted
    ended, or none   in a child of a root          Adopted: only a user of this zone can have sent it there
    ended, or none   and no parent, or several     Unclaimed

Of several places where an instance was found, the one of the highest number is the latest, but for one that
the rows have left: a living instance is never there again, whoever has not ended it yet. A child zone may
lie: what it says moves no instance away from where the rows have it and where it still is, or from an agent
that has it at a later place. The parent that has sent it may say so: it begins no attempt before the one
before it runs nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from zonesched.model.placement import (
    HOLDS_INSTANCE,
    LIVING_STATUSES,
    UNCONFIRMED,
    InstanceStatus,
    PlacementState,
)
from zonesched.store.instances import Instance
from zonesched.store.placements import AskedChild, Placement
from zonesched.store.recovery import Found, Kind, Named

STAYS = HOLDS_INSTANCE | {PlacementState.RELEASING}
"""States of a place that say the same as an agent or a child that has the instance there."""


NOT_SENT = 0
"""Attempt of a place that no parent has sent an instance to: theirs begin with 1."""


@dataclass(frozen=True)
class Known:
    """A living or shelved instance by the rows, and its present place; None before its first.

    `sent_as`: the attempt of its parent that has this place.
    """

    instance: Instance
    place: Placement | None
    sent_as: int = NOT_SENT


@dataclass(frozen=True)
class Kept:
    found: Found


@dataclass(frozen=True)
class Moved:
    known: Known
    found: Found


@dataclass(frozen=True)
class Moving:
    """It leaves the place where the rows have it, stopped and kept there, for the one where it was found."""

    known: Known
    found: Found
    old: Found


@dataclass(frozen=True)
class Confirmed:
    """Instance that is where the rows have it, and no longer where they keep what it was before its move."""

    known: Known
    found: Found


@dataclass(frozen=True)
class Ended:
    known: Known


@dataclass(frozen=True)
class Adopted:
    found: Found
    named: Named


@dataclass(frozen=True)
class Unwanted:
    found: Found


@dataclass(frozen=True)
class Unclaimed:
    found: Found


Decision = Kept | Moved | Moving | Confirmed | Ended | Adopted | Unwanted | Unclaimed


def decide(
    known: Iterable[Known],
    found: Mapping[str, Sequence[Found]],
    rows: Mapping[tuple[str, int], Placement],
    zone_uuid: str,
    *,
    is_root: bool,
) -> Iterator[Decision]:
    """Decide on every living instance and everything found; `found`: by uuid, in order of their numbers.

    `rows`: the places that the rows have, in whatever state. `is_root`: the zone
    has no parent, and waited for none.
    """
    credible = {uuid: [one for one in places if _may_be(rows, one)] for uuid, places in found.items()}
    living: set[str] = set()
    settled: set[str] = set()
    present: dict[str, Found] = {}
    for one in known:
        uuid = one.instance.uuid
        living.add(uuid)
        if there := [place for place in credible.get(uuid, ()) if not _is_left(rows, place, one.place)]:
            later = _of_later_attempt(one, there)
            present[uuid] = _present(one.place, later or there)
            decision = _of_known(one, present[uuid], there, rows)
            if later or not isinstance(decision, Moved) or _is_built(present[uuid]):
                settled.add(uuid)
            yield decision
        elif one.instance.status in LIVING_STATUSES and not _is_undecided(one, zone_uuid):
            yield Ended(one)
    for uuid, some in credible.items():
        if some and uuid not in living:
            present[uuid] = _present(None, some)
            yield _of_unknown(present[uuid], rows, zone_uuid if is_root else "")
    for uuid, every in found.items():
        for other in every:
            if other is present.get(uuid):
                continue
            place = rows.get(other.key)
            is_left = place is not None and place.state is PlacementState.RELEASING
            is_as_rows = place is not None and _is_at(place, other) and (uuid in settled or is_left)
            if is_as_rows:
                yield Kept(other)
            elif place is None and uuid in living and _is_before(other, present.get(uuid)):
                yield Unwanted(other)
            else:
                yield Unclaimed(other)


def _is_built(found: Found) -> bool:
    """Tell whether an earlier place is needed no more: what is being built, or in a child, may be nowhere."""
    return found.kind is Kind.AGENT and found.status is InstanceStatus.ACTIVE


def _is_before(found: Found, present: Found | None) -> bool:
    """Tell whether an instance has left the place where it was found: an agent has built a later one."""
    return present is not None and _is_built(present) and found.number < present.number


def _is_left(rows: Mapping[tuple[str, int], Placement], found: Found, present: Placement | None) -> bool:
    """Tell whether the rows have left the place where an instance was found: it never returns there."""
    place = rows.get(found.key)
    is_present = present is not None and present.key == found.key
    return place is not None and not is_present and place.state is PlacementState.RELEASING


def _of_later_attempt(known: Known, found: Sequence[Found]) -> list[Found]:
    """Return the places of a later attempt than the rows have: the parent has left the present one."""
    named = found[0].named
    if known.place is None or named is None or named.caller_id != known.instance.caller_id:
        return []
    number = known.place.number
    is_left = NOT_SENT < known.sent_as < named.attempt
    return [one for one in found if is_left and one.number > number]


def _may_be(rows: Mapping[tuple[str, int], Placement], found: Found) -> bool:
    """Tell whether a number that the rows have for one place is not said of another one."""
    place = rows.get(found.key)
    return place is None or _is_at(place, found)


def _present(place: Placement | None, found: Sequence[Found]) -> Found:
    """Choose where an instance is, of the places where it was found; `place`: by the rows."""
    last_number = 0 if place is None else place.number
    later = [one for one in found if one.kind is Kind.AGENT and one.number > last_number]
    as_rows = [one for one in found if place is not None and _is_at(place, one)]
    return (later or as_rows or found)[-1]


def _is_at(place: Placement, found: Found) -> bool:
    """Tell whether an instance was found at this place: a child speaks of its own places alone."""
    where, is_childs = place.where, found.kind is Kind.CHILD
    holds = (
        is_childs and where.child_id == found.holder_id if isinstance(where, AskedChild) else not is_childs
    )
    return place.number == found.number and holds


def _of_unknown(found: Found, rows: Mapping[tuple[str, int], Placement], own: str) -> Decision:
    if found.named is not None:
        return Adopted(found, found.named)
    if found.key in rows:
        return Unwanted(found)
    if own and found.given_back is not None:
        sent = found.given_back.requested
        return Adopted(found, Named(own, found.number, sent.reservation_id, sent.spec))
    return Unclaimed(found)


def _of_known(
    known: Known, found: Found, every: Sequence[Found], rows: Mapping[tuple[str, int], Placement]
) -> Decision:
    place = known.place
    if place is not None and _is_at(place, found) and place.state in STAYS:
        has_left = _is_built(found) and _has_left_parked(place, every, rows)
        return Confirmed(known, found) if has_left else Kept(found)
    if place is not None and place.state is PlacementState.CONFIRMED and found.kind is Kind.AGENT:
        for old in every:
            if _is_at(place, old) and _is_built(old):
                return Moving(known, found, old)
    return Moved(known, found)


def _has_left_parked(
    place: Placement, every: Sequence[Found], rows: Mapping[tuple[str, int], Placement]
) -> bool:
    """Tell whether an instance is not where the rows keep what it was before: its agent has ended that."""
    there = {one.number for one in every}
    before = [rows.get((place.uuid, number)) for number in range(1, place.number) if number not in there]
    return any(one is not None and one.state is PlacementState.PARKED for one in before)


def _is_undecided(known: Known, zone_uuid: str) -> bool:
    """Tell whether the parent that sent it has not confirmed it by the rows: its hold ends by itself."""
    is_parents = known.instance.caller_id != zone_uuid
    return is_parents and known.place is not None and known.place.state in UNCONFIRMED
