"""Places for what a parent builds here: each build gets the first of its opened entries that can be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from zonesched.model.group_place import AtChild, AtHost, TakenPlace
from zonesched.model.placement import ZONE_LOST, InstanceStatus, PlacementState
from zonesched.model.request_spec import RequestSpec
from zonesched.services.placing import group_policy
from zonesched.services.placing.removed_children import removed
from zonesched.services.zone import Zone
from zonesched.store import claims, instances, placements
from zonesched.store.inbound import InboundBuild, RestEntry
from zonesched.store.placements import InChild, OnHost, Placement, Where
from zonesched.store.store import Transaction

State = PlacementState


@dataclass(frozen=True)
class Sent:
    """What a parent's user asked for, and for how long its holds last."""

    caller_id: str
    reservation_id: str
    spec: RequestSpec
    hold_s: float


@dataclass(frozen=True)
class Try:
    """A build, how many places its instance had before, and the entries it may still use, in order."""

    build: InboundBuild
    last_number: int
    entries: tuple[RestEntry, ...]


@dataclass(frozen=True)
class Placed:
    """Builds with their new places; `builds` also has those whose entries were all used up."""

    builds: list[InboundBuild]
    places: list[Placement]

    def numbers(self, *, failed: bool) -> dict[str, int]:
        """The placement by uuid, of those that came to nothing at once or of the others."""
        return {p.uuid: p.number for p in self.places if (p.state is State.FAILED) is failed}


def place(
    zone: Zone,
    tx: Transaction,
    change: int,
    sent: Sent,
    tries: Sequence[Try],
    now: float,
    own_state: PlacementState = State.HELD,
) -> Placed:
    """Claim own hosts, and choose whom children will be asked for; each the first entry not used up.

    `own_state`: of a place on an own host that had room.
    """
    used = set(placements.used_entry_keys(tx, [e.key for t in tries for e in t.entries]))
    chosen: list[tuple[Try, RestEntry]] = []
    builds: list[InboundBuild] = []
    for one in tries:
        entry = next((e for e in one.entries if e.key not in used), None)
        if entry is None:
            builds.append(replace(one.build, rest=()))
            continue
        used.add(entry.key)
        chosen.append((one, entry))
    gone = removed(zone, tx, {entry.child_id for _, entry in chosen if entry.child_id})
    lost = {one.build.uuid: ZONE_LOST for one, entry in chosen if entry.child_id in gone}
    wanted = {one.build.uuid: _group_place(e) for one, e in chosen if one.build.uuid not in lost}
    refused = {**lost, **group_policy.refused(tx, sent.caller_id, sent.spec.group, wanted)}
    hosts = Counter(e.host_id for one, e in chosen if e.host_id and one.build.uuid not in refused)
    room = dict(claims.claim(tx, change, hosts, sent.spec.resources))
    made: list[Placement] = []
    for one, entry in chosen:
        where: Where
        if entry.host_id:
            where = OnHost(entry.host_id, sent.spec.resources)
        else:
            where = InChild(entry.child_id, (entry.blob,))
        reason = refused.get(one.build.uuid, "")
        if entry.host_id and not reason:
            reason = "" if room[entry.host_id] > 0 else "claim_lost"
            room[entry.host_id] -= 1
        hopeful_state = own_state if entry.host_id else State.INTENDED
        made.append(
            Placement(
                uuid=one.build.uuid,
                number=one.last_number + 1,
                caller_id=sent.caller_id,
                reservation_id=sent.reservation_id,
                where=where,
                state=State.FAILED if reason else hopeful_state,
                reason=reason,
                hold_expires_at=now + sent.hold_s,
                retained_until=one.build.retained_until,
                entry_key=entry.key,
            )
        )
        # What comes after is for a place that is lost, and for a build that fails.
        later = one.entries[one.entries.index(entry) + 1 :]
        builds.append(replace(one.build, number=one.last_number + 1, rest=later))
    if any(p.state is State.FAILED for p in made):
        zone.hosts.expire()
    return Placed(builds, made)


def write_places(
    tx: Transaction, change: int, sent: Sent, made: Placed, known: Collection[str], now: float
) -> None:
    """Write the places down, and what they make of the instances in `known`, which have rows already."""
    placements.insert(tx, made.places)
    group_policy.take_place(tx, sent.caller_id, sent.spec.group, made.places)
    hopeful = {uuid: n for uuid, n in made.numbers(failed=False).items() if uuid in known}
    lost = {uuid: n for uuid, n in made.numbers(failed=True).items() if uuid in known}
    instances.set_attempts(tx, change, hopeful, InstanceStatus.BUILD, now)
    # Ended here unless another entry is tried: the parent, which hears of it, finds another place.
    instances.set_attempts(tx, change, lost, InstanceStatus.DELETED, now)


def _group_place(entry: RestEntry) -> TakenPlace:
    return AtHost(entry.host_id) if entry.host_id else AtChild(entry.child_id)
