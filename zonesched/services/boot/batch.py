"""Begin the boots that wait together: one look at the hosts, one transaction.

    boots that wait   1 2 3 4 ...
    decide, in order  1 | 2 | 3 ...   each on the hosts with what those before it have picked
    write             savepoint 1 2 3 ... | commit
    if one fails      savepoint 1 | savepoint 2 | savepoint 3 ... | commit

Each boot gets what it would get if they were worked on one after another. Only a boot that is whole here
shares a batch: all its instances are placed, claimed and confirmed on local hosts, and it is settled. A boot
for which any of this is not so is left to `provision`, which begins it anew: one that found too few hosts,
whose claim was lost, of which an instance was deleted meanwhile, or that another worker has taken over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zonesched import tracing
from zonesched.conf import Conf
from zonesched.errors import ZoneschedError
from zonesched.model.host_row import flavor_key
from zonesched.model.new_instances import NewInstances, OwnClaims
from zonesched.model.place import LocalPlace
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.model.request_spec import NoGroup, Policy
from zonesched.services.boot.offers import Selected, reason_for_none
from zonesched.services.placing import new_places
from zonesched.services.placing.new_places import NewPlace
from zonesched.services.select import select
from zonesched.services.state.boot_queue import NewBoot
from zonesched.services.state.host_cache import AssumingTable, HostCache
from zonesched.services.zone import Zone
from zonesched.store import (
    claims,
    identity,
    instances,
    locks,
    new_placements,
    pending_instances,
    reservations,
)
from zonesched.store.host_uses import owner_key
from zonesched.store.instances import CurrentStatus
from zonesched.store.placements import Placement
from zonesched.store.prepared import Sent, run_text
from zonesched.store.store import Transaction
from zonesched.tracing import Trace

FIRST = 1
"""Number of an instance's first placement."""

_UNPLACED = CurrentStatus(InstanceStatus.BUILD, 0)


@dataclass(frozen=True)
class _Decided:
    """A boot, the outcome of its select, and a host for each of its instances."""

    boot: NewBoot
    selected: Selected
    host_of: Mapping[str, str]
    placed: NewInstances


@dataclass(frozen=True)
class _Written:
    """Result of the transaction: its number, the boots that it settled, and each host's change before."""

    change: int
    settled: Sequence[_Decided]
    changed_before: Mapping[str, int]


@dataclass(frozen=True)
class Begun:
    """Result of a batch: boots that are `settled`, boots to be begun `alone`, and the `rest`, not looked at.

    To keep their order, those `alone` are begun first, and the rest after these.
    """

    settled: Sequence[NewBoot]
    alone: Sequence[NewBoot]
    rest: Sequence[NewBoot]


def may_share(zone: Zone, boot: NewBoot) -> bool:
    """Tell whether a boot can be decided from the hosts in memory alone.

    Child zones would have to be asked for each boot, and hints and groups depend on instances of other boots.
    """
    spec = boot.reservation.spec
    is_plain = not spec.hints and isinstance(spec.group, NoGroup) and spec.policy is Policy.EACH
    return is_plain and isinstance(zone.hosts, HostCache) and not zone.children.snapshot()


def begin(zone: Zone, batch: Sequence[NewBoot]) -> Begun:
    """Decide on boots that may share a batch, in order, and write the decisions in one transaction."""
    cache = zone.hosts
    if not isinstance(cache, HostCache):
        raise TypeError("a batch needs the hosts in memory")
    decided: list[_Decided] = []
    with cache.assuming() as assuming:
        for boot in batch:
            with tracing.within(Trace(boot.lease.traced_by, boot.reservation.id)):
                found = _decide(zone, assuming, boot)
            if found is None:
                break
            assuming.place(found.placed)
            decided.append(found)
    undecided = batch[len(decided) :]
    if not decided:
        return Begun((), undecided[:1], undecided[1:])
    written = zone.store.write(lambda tx: _write(zone, tx, decided))
    settled = [one.boot for one in written.settled]
    placed = [one.placed for one in written.settled]
    cache.note_claims(OwnClaims(written.change, written.changed_before, placed))
    zone.wake.agents_of(written.changed_before)
    alone = [one.boot for one in decided if one.boot not in settled]
    if alone:
        cache.expire()
    return Begun(settled, alone, undecided)


def _decide(zone: Zone, assuming: AssumingTable, boot: NewBoot) -> _Decided | None:
    """Choose hosts on the table; None where `provision` has to."""
    reservation = boot.reservation
    # A boot that loses its claim selects anew, so nobody would look at alternates.
    spec = reservation.spec.varied(time_budget_s=zone.conf.select_timeout, alternates=0)
    context = select.context_of_new(zone.tie_secret, spec, reservation.caller_id)
    try:
        decision = select.decide_here(zone, assuming, spec, context, select.BEST_HOSTS)
    except ZoneschedError:
        return None
    if len(decision.host_ids) < len(boot.uuids):
        return None
    weighed = reservation.spec.varied(weighing=decision.weighing)
    host_of = dict(zip(boot.uuids, decision.host_ids, strict=True))
    placed = NewInstances(
        Counter(host_of.values()),
        spec.resources,
        owner_key(reservation.caller_id, spec.project_id),
        flavor_key(reservation.caller_id, spec.flavor.id),
        spec.image_key,
    )
    selected = Selected(weighed, decision.trace, reason_for_none(complete=decision.complete))
    return _Decided(boot, selected, host_of, placed)


def _write(zone: Zone, tx: Transaction, decided: Sequence[_Decided]) -> _Written:
    """Settle all boots, and write the placements of those that were settled.

    They share a savepoint. If one of them fails, each is settled within its own.
    """
    now = zone.clock.now()
    host_ids = sorted({host_id for one in decided for host_id in one.placed.copies_by_host})
    # All locks first: the savepoints are in the order of the boots, not of the locks.
    locks.boots(tx, [(one.boot.reservation.id, one.boot.reservation.caller_id) for one in decided])
    locks.hosts(tx, host_ids)
    next_change = identity.ask_next_change(tx)
    unplaced = _unplaced(tx, decided)
    change = next_change()
    settled = unplaced
    if not _settle_or_undo(tx, unplaced, now):
        settled = [one for one in unplaced if _settle_or_undo(tx, [one], now)]
    used = sorted({host_id for one in settled for host_id in one.placed.copies_by_host})
    changed_before = claims.last_changes(tx, used)
    claims.touch_uses(tx, change, used)
    new_placements.insert_alike(tx, [(_first_placement(zone.conf, one, now), one.host_of) for one in settled])
    attempts = {uuid: FIRST for one in settled for uuid in one.host_of}
    instances.set_attempts(tx, change, attempts, InstanceStatus.BUILD, now)
    return _Written(change, settled, changed_before)


def _unplaced(tx: Transaction, decided: Sequence[_Decided]) -> Sequence[_Decided]:
    """Select the boots of which every instance is to be built and was never placed."""
    uuids = [uuid for one in decided for uuid in one.host_of]
    if pending_instances.count_never_placed(tx, uuids) == len(uuids):
        return decided
    present = instances.current_statuses(tx, uuids)
    return [one for one in decided if all(present.get(uuid) == _UNPLACED for uuid in one.host_of)]


def _settle_or_undo(tx: Transaction, some: Sequence[_Decided], now: float) -> bool:
    """Settle boots within a savepoint; False, with nothing written, if one of them fails."""
    if not some:
        return True
    run_text(tx, "SAVEPOINT some_boots")
    is_settled = _settle(tx, some, now)
    if not is_settled:
        run_text(tx, "ROLLBACK TO some_boots")
    run_text(tx, "RELEASE some_boots")
    return is_settled


def _settle(tx: Transaction, some: Sequence[_Decided], now: float) -> bool:
    """Settle boots under their leases and claim their hosts; False, to be rolled back, if any of it fails."""
    settled = [_send_settle(tx, one.boot, one.selected, now) for one in some]
    is_claimed = claims.claim_all(tx, [(one.placed.copies_by_host, one.placed.resources) for one in some])
    return is_claimed and all(one.count for one in settled)


def _send_settle(tx: Transaction, boot: NewBoot, selected: Selected, now: float) -> Sent:
    return reservations.settle(
        tx, boot.lease, selected.why, selected.spec, selected.reason, now, boot.reservation.wakes
    )


def _first_placement(conf: Conf, one: _Decided, now: float) -> Placement:
    lease = one.boot.lease
    row = new_places.Boot(lease.caller_id, lease.reservation_id, one.selected.spec, conf.hold)
    uuid, host_id = next(iter(one.host_of.items()))
    place = NewPlace(uuid, FIRST, LocalPlace(host_id), now + conf.hold + conf.retry_window)
    return new_places.placement_of(row, place, PlacementState.CONFIRMED, now)
