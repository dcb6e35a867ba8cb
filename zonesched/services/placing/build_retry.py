"""Builds that failed after their confirm: placed again here, or reported to the parent that sent them.

Everything is decided in the transaction that records the failure: a process that dies before it leaves the
failure to be reported again, and one that dies after it leaves rows from which another process goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zonesched.model.build_plan import ChildBlob
from zonesched.model.place import LocalPlace
from zonesched.model.placement import LIVING_STATUSES, InstanceStatus, PlacementState
from zonesched.model.present_request import as_now
from zonesched.model.request_spec import Policy
from zonesched.services.life.leaving import begin_anew
from zonesched.services.life.shelving import rest_again
from zonesched.services.placing.inbound_places import Try, choose_unused, place
from zonesched.services.placing.new_places import Boot
from zonesched.services.zone import Zone
from zonesched.store import hosts, inbound, instance_states, instances, locks, placements, reservations
from zonesched.store.inbound import RestEntry
from zonesched.store.placements import ClaimedHost, Placement
from zonesched.store.reservations import Reservation
from zonesched.store.store import Transaction

State = PlacementState


def lock_with_alternates(tx: Transaction, uuids: Sequence[str], failed: Sequence[str]) -> None:
    """Lock instances, and the local hosts on which the instances in `failed` may be built next."""
    locks.instances(tx, uuids, inbound.rest_hosts(tx, failed))


def build_failed(
    zone: Zone, tx: Transaction, change: int, failed: Placement, now: float, reason: str
) -> bool:
    """End a confirmed placement whose build failed; False when it had moved since it was read.

    Gives its resources back. An instance of this zone's own user is placed again by the reservation's worker;
    after `max_attempts` builds it is ERROR with `reason`, or offloaded as before its unshelve. A parent's
    instance gets its next entry of a local host, else it ends here, and the parent, which is notified, finds
    another place.
    """
    if not placements.move(tx, change, failed, State.FAILED, reason=reason):
        return False
    if isinstance(failed.where, ClaimedHost):
        hosts.note_failed_build(tx, change, failed.where.host_id)
    count = instances.note_failed_build(tx, failed.uuid)
    may_try_again = count < zone.conf.max_attempts
    boot = reservations.read_one(tx, failed.caller_id, failed.reservation_id)
    if failed.caller_id == zone.uuid:
        may_move = may_try_again and _may_move(boot)
        if may_move:
            begin_anew(tx, change, failed.uuid, reason, now)
        if may_move or not rest_again(tx, change, [failed.uuid], reason, now):
            status = InstanceStatus.BUILD if may_move else InstanceStatus.ERROR
            instances.set_status(
                tx, change, [failed.uuid], status, now, reason=reason, only_from=LIVING_STATUSES
            )
        reservations.place_again(tx, failed.caller_id, failed.reservation_id)
    elif not (may_try_again and _placed_on_alternate(zone, tx, change, failed, boot, now)):
        _tell_parent(tx, change, failed, now, reason)
    return True


def _may_move(boot: Reservation) -> bool:
    """Return whether one instance may go elsewhere than the others: those of an affinity request may not."""
    return boot.spec.policy is not Policy.AFFINITY or boot.num_instances == 1


def _placed_on_alternate(
    zone: Zone, tx: Transaction, change: int, failed: Placement, boot: Reservation, now: float
) -> bool:
    """Build it on the next local host among its parent's entries; False when none has a free slot."""
    stored = instance_states.read(tx, [failed.uuid]).get(failed.uuid)
    spec = as_now(boot.spec, stored.state) if stored is not None else boot.spec
    own_boot = Boot(failed.caller_id, failed.reservation_id, spec, zone.conf.hold)
    number, state = failed.number, State.FAILED
    while state is State.FAILED:
        build = inbound.of_place(tx, failed.caller_id, failed.uuid, number)
        tried = placements.failed_hosts(tx, failed.caller_id, failed.reservation_id, now)
        entries = tuple(e for e in build.rest if _is_usable(e, tried, now)) if build is not None else ()
        if build is None or not entries:
            return False
        chosen = choose_unused(tx, [Try(build, number, entries)])
        if not chosen.places:
            return False
        inbound.update(tx, chosen.builds)
        placed = place(zone, tx, change, own_boot, chosen, now, [failed.uuid], State.CONFIRMED)
        (made,) = placed.placements
        number, state = made.number, made.state
    return True


def _is_usable(entry: RestEntry, tried: frozenset[str], now: float) -> bool:
    match entry.place:
        case LocalPlace(host_id):
            return host_id not in tried and entry.expires_at > now
        case ChildBlob():
            return False


def _tell_parent(tx: Transaction, change: int, failed: Placement, now: float, reason: str) -> None:
    """End the instance here with no entry left to try: the parent sees the attempt FAILED for good."""
    at = instances.read_by_uuid(tx, [failed.uuid])[failed.uuid].attempt
    build = inbound.of_place(tx, failed.caller_id, failed.uuid, at)
    if build is not None:
        inbound.update(tx, [replace(build, rest=())])
    ended = [*LIVING_STATUSES, InstanceStatus.DELETED]
    instances.set_status(
        tx, change, [failed.uuid], InstanceStatus.DELETED, now, reason=reason, only_from=ended
    )
