"""Placements for the builds of a parent: each build gets the first of its opened entries that can be used."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from zonesched.model.new_instances import OwnClaims
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.services.placing import new_places
from zonesched.services.placing.new_places import Boot, NewPlace
from zonesched.services.zone import Zone
from zonesched.store import placements
from zonesched.store.inbound import InboundBuild, RestEntry
from zonesched.store.placements import Placement
from zonesched.store.store import Transaction

State = PlacementState


@dataclass(frozen=True)
class Try:
    """A build, the number of its instance's last placement, and the entries it may still use, in order."""

    build: InboundBuild
    last_number: int
    entries: tuple[RestEntry, ...]


@dataclass(frozen=True)
class Chosen:
    """Places to claim, and the builds with their new placement.

    `refused`: builds whose entries were all used up, possibly by other builds of the same call.
    """

    places: Sequence[NewPlace]
    builds: Sequence[InboundBuild]
    refused: Sequence[InboundBuild]


@dataclass(frozen=True)
class Placed:
    """Placements that were written, and the claims among them for the host table."""

    placements: Sequence[Placement]
    claims: OwnClaims


def choose_unused(tx: Transaction, tries: Sequence[Try]) -> Chosen:
    """Choose for each build the first entry that nothing has used up yet."""
    return choose(tries, placements.used_entry_keys(tx, [e.key for t in tries for e in t.entries]))


def choose(tries: Sequence[Try], used_before: Collection[str] = ()) -> Chosen:
    """Choose for each build the first entry that is neither in `used_before` nor another one's choice."""
    used = set(used_before)
    places: list[NewPlace] = []
    builds: list[InboundBuild] = []
    refused: list[InboundBuild] = []
    for one in tries:
        # No generator for each of a thousand builds, whose first entry is mostly unused.
        tried = 0
        while tried < len(one.entries) and one.entries[tried].key in used:
            tried += 1
        if tried == len(one.entries):
            refused.append(replace(one.build, rest=()))
            continue
        entry = one.entries[tried]
        used.add(entry.key)
        number = one.last_number + 1
        places.append(
            NewPlace(one.build.uuid, number, entry.place, one.build.retained_until, entry_key=entry.key)
        )
        # Later entries are used if the place is lost or the build fails.
        builds.append(one.build.placed(number, one.entries[tried + 1 :]))
    return Chosen(places, builds, refused)


def place(
    zone: Zone,
    tx: Transaction,
    change: int,
    boot: Boot,
    chosen: Chosen,
    now: float,
    known: Collection[str],
    local_state: PlacementState = State.HELD,
) -> Placed:
    """Claim and write the chosen places; `known` and `local_state` as in `new_places.write`.

    An instance whose place failed ends here unless another entry is tried: its parent finds another place.
    """
    claimed = new_places.claim(zone, tx, change, boot, chosen.places)
    written = new_places.write(
        tx,
        change,
        boot,
        claimed,
        now,
        local_state=local_state,
        status_of_failed=InstanceStatus.DELETED,
        known=known,
    )
    return Placed(written, new_places.own_claims(change, boot, claimed))
