"""Decisions of a recovery, pure: an instance is where it was found, and one that was found nowhere has ended.

    rows have it     found                         decision
    living           at its present place          Kept
    living           at another place              Moved
    living           nowhere                       Ended, unless its parent's own hold decides
    shelved          somewhere                     Moved
    ended            where the rows had it         Unwanted: it ends there
    ended, or none   and one parent names it       Adopted
    ended, or none   in a child of a root          Adopted: only a user of this zone can have sent it there
    ended, or none   and no parent, or several     Unclaimed

Of several places where an instance was found, the one of the highest number is the latest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from zonesched.model.placement import HOLDS_INSTANCE, LIVING_STATUSES, UNCONFIRMED, PlacementState
from zonesched.store.instances import Instance
from zonesched.store.placements import Placement
from zonesched.store.recovery import Found, Named

STAYS = HOLDS_INSTANCE | {PlacementState.RELEASING}
"""States of a place that say the same as an agent or a child that has the instance there."""


@dataclass(frozen=True)
class Known:
    """A living or shelved instance by the rows, and its present place; None before its first."""

    instance: Instance
    place: Placement | None


@dataclass(frozen=True)
class Kept:
    found: Found


@dataclass(frozen=True)
class Moved:
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


Decision = Kept | Moved | Ended | Adopted | Unwanted | Unclaimed


def decide(
    known: Iterable[Known],
    found: Mapping[str, Sequence[Found]],
    rows: Collection[tuple[str, int]],
    zone_uuid: str,
    *,
    is_root: bool,
) -> Iterator[Decision]:
    """Decide on every living instance and everything found; `found`: by uuid, in order of their numbers.

    `rows`: the places that the rows have, in whatever state. `is_root`: the zone has no parent.
    """
    living: set[str] = set()
    for one in known:
        living.add(one.instance.uuid)
        places = found.get(one.instance.uuid, ())
        if places:
            yield _of_known(one, places[-1])
            yield from map(Unclaimed, places[:-1])
        elif one.instance.status in LIVING_STATUSES and not _is_undecided(one, zone_uuid):
            yield Ended(one)
    for uuid, places in found.items():
        if uuid not in living:
            *earlier, last = places
            own = zone_uuid if is_root else ""
            yield _of_unknown(last, rows, own)
            yield from map(Unclaimed, earlier)


def _of_unknown(found: Found, rows: Collection[tuple[str, int]], own: str) -> Decision:
    if found.named is not None:
        return Adopted(found, found.named)
    if found.key in rows:
        return Unwanted(found)
    if own and (sent := found.requested) is not None:
        return Adopted(found, Named(own, found.number, sent.reservation_id, sent.spec))
    return Unclaimed(found)


def _of_known(known: Known, found: Found) -> Decision:
    place = known.place
    is_there = place is not None and place.number == found.number and place.state in STAYS
    return Kept(found) if is_there else Moved(known, found)


def _is_undecided(known: Known, zone_uuid: str) -> bool:
    """Tell whether the parent that sent it has not confirmed it by the rows: its hold ends by itself."""
    is_parents = known.instance.caller_id != zone_uuid
    return is_parents and known.place is not None and known.place.state in UNCONFIRMED
