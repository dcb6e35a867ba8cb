"""Placements for instances that need one: claimed, refused or about to be sent, in the caller's transaction.

The same rules hold for an instance of this zone's own user and for one that a parent builds here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from zonesched.model.build_plan import ChildBlob, EntryPlace
from zonesched.model.host_row import flavor_key
from zonesched.model.new_instances import NO_CLAIMS, NewInstances, OwnClaims
from zonesched.model.place import ChildPlace, LocalPlace, Place
from zonesched.model.placement import ZONE_LOST, InstanceStatus, PlacementState
from zonesched.model.request_spec import RequestSpec, ServerGroup
from zonesched.services.placing import group_policy
from zonesched.services.placing.removed_children import removed
from zonesched.services.zone import Zone
from zonesched.store import claims, instances, new_placements
from zonesched.store.host_uses import owner_key
from zonesched.store.placements import AskedChild, ClaimedHost, Placement, Where
from zonesched.store.store import Transaction

State = PlacementState
CLAIM_LOST = "claim_lost"
"""Reason code of a placement whose host had no free slot at the claim."""


@dataclass(frozen=True)
class Boot:
    """Request for which places are written. `hold_s`: duration of its holds in seconds.

    `whole`: all places on local hosts are claimed together or not at all.
    """

    caller_id: str
    reservation_id: str
    spec: RequestSpec
    hold_s: float
    whole: bool = False


@dataclass(frozen=True)
class NewPlace:
    """Place that one instance is to get, as its placement of that `number`.

    `spare_blobs`: entries of the same child that it may use instead, in order. `entry_key`: the sealed entry
    that is used up, "" for none.
    """

    uuid: str
    number: int
    place: EntryPlace
    retained_until: float
    spare_blobs: tuple[str, ...] = ()
    entry_key: str = ""


@dataclass(frozen=True)
class Claimed:
    """Result of a claim: the wanted places, and by uuid the reason code of each failed one.

    `changed_before`: the number of the last change before the claim of each host that took some, by id.
    """

    places: Sequence[NewPlace]
    failed: Mapping[str, str]
    changed_before: Mapping[str, int]

    @property
    def all_local(self) -> bool:
        """Tell whether every placement is on a local host and was claimed."""
        return not self.failed and all(isinstance(p.place, LocalPlace) for p in self.places)


def claim(zone: Zone, tx: Transaction, change: int, boot: Boot, places: Sequence[NewPlace]) -> Claimed:
    """Claim resources for the places on local hosts; first come first served.

    A place fails at once when its child was removed, its server group forbids it, or its host is full.
    """
    gone = removed(zone.children, tx, {p.place.child_id for p in places if isinstance(p.place, ChildBlob)})
    lost = {p.uuid: ZONE_LOST for p in places if isinstance(p.place, ChildBlob) and p.place.child_id in gone}
    failed = dict(lost)
    if isinstance(boot.spec.group, ServerGroup):
        wanted = {p.uuid: _place(p.place) for p in places if p.uuid not in lost}
        failed |= group_policy.refused(tx, boot.caller_id, boot.spec.group, wanted)
    here = _claim_local_hosts(tx, change, boot, [p for p in places if p.uuid not in failed])
    failed |= here.failed
    if failed:
        zone.hosts.expire()
    return replace(here, places=places, failed=failed)


def own_claims(change: int, boot: Boot, claimed: Claimed) -> OwnClaims:
    """Return the claims for the host table; none for instances of a server group, whose hosts it reads."""
    if boot.spec.group_id:
        return NO_CLAIMS
    here = [p.place for p in claimed.places if p.uuid not in claimed.failed]
    new = NewInstances(
        Counter(place.host_id for place in here if isinstance(place, LocalPlace)),
        boot.spec.resources,
        owner_key(boot.caller_id, boot.spec.project_id),
        flavor_key(boot.caller_id, boot.spec.flavor.id),
        boot.spec.image_key,
    )
    return OwnClaims(change, claimed.changed_before, [new])


def _claim_local_hosts(tx: Transaction, change: int, boot: Boot, places: Sequence[NewPlace]) -> Claimed:
    """Claim for the places on local hosts; those that get no slot have failed."""
    host_of = {p.uuid: p.place.host_id for p in places if isinstance(p.place, LocalPlace)}
    taken = claims.claim_noted(tx, change, Counter(host_of.values()), boot.spec.resources)
    free_slots = dict(taken.copies)
    failed: list[str] = []
    for uuid, host_id in host_of.items():
        if free_slots[host_id] > 0:
            free_slots[host_id] -= 1
        else:
            failed.append(uuid)
    if boot.whole and failed:
        others = sorted(host_of.keys() - set(failed))
        claims.release(tx, change, [(host_of[uuid], boot.spec.resources) for uuid in others])
        failed = list(host_of)
    return Claimed(places, dict.fromkeys(failed, CLAIM_LOST), taken.changed_before)


def write(
    tx: Transaction,
    change: int,
    boot: Boot,
    claimed: Claimed,
    now: float,
    *,
    local_state: PlacementState,
    status_of_failed: InstanceStatus,
    known: Collection[str],
) -> list[Placement]:
    """Write the placements and note each as the present one of its instance.

    `local_state`: of a place that was claimed on a local host. `status_of_failed`: of an instance whose place
    failed; BUILD where another one is found here, DELETED where its parent finds it. `known`: the instances
    whose rows were there before; a new row names its placement already.
    """
    made = [placement_of(boot, p, local_state, now, claimed.failed.get(p.uuid, "")) for p in claimed.places]
    new_placements.insert_of_boot(tx, made)
    group_policy.take_place(tx, boot.caller_id, boot.spec.group, made)
    lost = {p.uuid: p.number for p in made if p.state is State.FAILED}
    found = {p.uuid: p.number for p in made if p.uuid in known and p.uuid not in lost}
    instances.set_attempts(tx, change, found, InstanceStatus.BUILD, now)
    instances.set_attempts(tx, change, lost, status_of_failed, now)
    return made


def placement_of(
    boot: Boot, new: NewPlace, local_state: PlacementState, now: float, failed: str = ""
) -> Placement:
    """Make the row of a new place. `failed`: the reason code of a place that could not be claimed."""
    where: Where
    match new.place:
        case LocalPlace(host_id):
            where, state = ClaimedHost(host_id, boot.spec.resources), local_state
        case ChildBlob(child_id, blob):
            where, state = AskedChild(child_id, (blob, *new.spare_blobs)), State.INTENDED
    return Placement(
        uuid=new.uuid,
        number=new.number,
        caller_id=boot.caller_id,
        reservation_id=boot.reservation_id,
        where=where,
        state=State.FAILED if failed else state,
        reason=failed,
        hold_expires_at=now + boot.hold_s,
        retained_until=new.retained_until,
        entry_key=new.entry_key,
    )


def _place(entry: EntryPlace) -> Place:
    match entry:
        case LocalPlace(host_id):
            return LocalPlace(host_id)
        case ChildBlob(child_id):
            return ChildPlace(child_id)
