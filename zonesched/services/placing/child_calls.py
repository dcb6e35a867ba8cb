"""Calls to children about placements: hold, confirm, cancel and delete.

Each call names (uuid, attempt) and can be repeated: the decision is in the row before the call goes out, and
`child_answers` records what comes back.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus

from zonesched.errors import ChildBusy, ChildFailed, ChildRefused, ChildUnreachable
from zonesched.model.placement import (
    Attempt,
    Build,
    BuildAnswer,
    BuildState,
    InstanceStatus,
    PlacementState,
)
from zonesched.model.request_spec import RequestSpec
from zonesched.seams import Done
from zonesched.services.placing.child_answers import NO_HOLD, End, Recorded, Recording, record
from zonesched.services.zone import Zone
from zonesched.store import identity, instances, locks, placements
from zonesched.store.placements import AskedChild, Placement
from zonesched.store.reservations import Lease
from zonesched.store.store import Transaction
from zonesched.zones.client import ChildClient

State = PlacementState

DELETES_AT_ONCE = 20
"""Deletes whose answers are recorded together."""


@dataclass(frozen=True)
class _Batch:
    """Placements of one reservation in one child."""

    child_id: str
    caller_id: str
    reservation_id: str
    placements: tuple[Placement, ...]

    @property
    def attempts(self) -> list[Attempt]:
        return [Attempt(p.uuid, p.number) for p in self.placements]


@dataclass(frozen=True)
class Sent:
    """The result of sending builds: placements that were not moved, and those that are held now.

    `confirming`: the held ones, where their confirm was decided. `all_tried`: no child was busy.
    """

    unanswered: Sequence[Placement]
    held: Sequence[Placement]
    confirming: Sequence[Placement]
    all_tried: bool


def send_builds(
    zone: Zone,
    sent: Sequence[Placement],
    spec: RequestSpec,
    hold_s: float,
    lease: Lease | None = None,
    *,
    confirm_all: bool = False,
) -> Sent:
    """Ask children to hold these INTENDED placements, for longer than this zone holds them itself.

    Children that have not answered within the spec's time budget are not waited for. A hold that ends before
    this zone's own, and too soon to be confirmed, counts as unanswered: else it would end the others with it.
    `confirm_all`: if all are held, and for long enough, the write that records it decides their confirm too.
    """
    sent_at = zone.clock.now()
    # Read here and not for each answer, which takes as long as the rest of its work.
    margin_s, retry_pause_s = zone.conf.hold_margin, zone.conf.retry_pause
    asked_s = hold_s + margin_s
    busy: list[str] = []

    # A boot of this zone confirms with so much left; when a parent does, only the parent knows.
    confirmed_with_s = 0.0 if lease is None else margin_s

    def expiry(placement: Placement, answer: BuildAnswer, now: float) -> float:
        # Never later than decided here, so that holds here and in children end at the same time.
        child_until = sent_at + max(0.0, answer.hold_s - margin_s)
        until = min(placement.hold_expires_at, child_until)
        left_s = placement.hold_expires_at - now - confirmed_with_s
        is_too_short = until < now + confirmed_with_s + min(retry_pause_s, left_s / 2)
        return NO_HOLD if left_s > 0 and is_too_short else float(until)

    def call(batch: _Batch, client: ChildClient) -> Sequence[BuildAnswer]:
        builds = [
            Build(p.uuid, p.number, p.where.blobs)
            for p in batch.placements
            if isinstance(p.where, AskedChild)
        ]
        asked_at = zone.clock.monotonic()
        try:
            answers = client.build(batch.reservation_id, spec, builds, asked_s, spec.time_budget_s)
        except ChildUnreachable as error:
            # Little time says nothing about the child: a parent's, or a part's share of it.
            waited_s = zone.clock.monotonic() - asked_at
            if error.code == "child_timeout" and waited_s >= zone.conf.zone_poll_timeout:
                zone.children.holds.timed_out(batch.child_id)
            raise
        zone.children.holds.answered(batch.child_id)
        if any(answer.reason == ChildBusy.code for answer in answers):
            busy.append(batch.child_id)
        return answers

    recording = Recording(lease, expiry, confirm_all=confirm_all)
    recorded = _call_children(zone, sent, call, recording, timeout_s=spec.time_budget_s)
    all_tried = not (recorded.unanswered or busy)
    held = [p for p in recorded.moved if p.state is State.HELD]
    confirming = [p for p in recorded.moved if p.state is State.CONFIRMING]
    return Sent(recorded.unanswered, held, confirming, all_tried)


def send_confirms(
    zone: Zone,
    confirming: Sequence[Placement],
    lease: Lease | None = None,
    end: End | None = None,
    timeout_s: float = math.inf,
) -> Recorded:
    """Call children to build these CONFIRMING placements; instances of unanswered ones become UNKNOWN.

    They have `timeout_s`, and `build_timeout` at most. Unless a place was lost, `end` runs in the transaction
    that records the answers.
    """

    timeout_s = min(timeout_s, zone.conf.build_timeout)

    def call(batch: _Batch, client: ChildClient) -> Sequence[BuildAnswer]:
        return client.confirm(batch.reservation_id, batch.attempts, timeout_s)

    recorded = _call_children(zone, confirming, call, Recording(lease, end=end), timeout_s=timeout_s)
    if confirming:
        zone.wake.sync()
    if recorded.unanswered:
        zone.store.write(partial(_mark_unknown, recorded.unanswered, zone.clock.now()))
    return recorded


def _mark_unknown(unanswered: Sequence[Placement], now: float, tx: Transaction) -> None:
    """Make instances UNKNOWN whose confirm is still unanswered: another call may have had the answer.

    One whose last build failed keeps that reason.
    """
    uuids = [p.uuid for p in unanswered]
    locks.instances(tx, uuids)
    asked = {p.key for p in placements.read_by_uuid(tx, uuids) if p.state is State.CONFIRMING}
    still = [p.uuid for p in unanswered if p.key in asked]
    change, build = identity.next_change(tx), [InstanceStatus.BUILD]
    rows = instances.read_by_uuid(tx, still)
    for reason in sorted({row.reason for row in rows.values()}):
        alike = [uuid for uuid in still if rows[uuid].reason == reason]
        instances.set_status(tx, change, alike, InstanceStatus.UNKNOWN, now, reason=reason, only_from=build)


def send_cancels(zone: Zone, cancelling: Sequence[Placement], timeout_s: float = math.inf) -> None:
    """Call children to cancel these CANCELLING placements, within `timeout_s` and `build_timeout`."""
    timeout_s = min(timeout_s, zone.conf.build_timeout)

    def call(batch: _Batch, client: ChildClient) -> Sequence[BuildAnswer]:
        return client.cancel(batch.reservation_id, batch.attempts, timeout_s)

    _call_children(zone, cancelling, call, Recording(), timeout_s=timeout_s)


def send_deletes(zone: Zone, releasing: Sequence[Placement]) -> None:
    """Call children to delete the instances of these RELEASING placements; unknown ones count as deleted.

    One that a child refuses or fails to delete holds up no other, and a slow child deletes some with each
    call. What there is no time for stays due.
    """
    ends_at = zone.clock.monotonic() + zone.conf.build_timeout
    for start in range(0, len(releasing), DELETES_AT_ONCE):
        if start and zone.clock.monotonic() >= ends_at:
            return
        if not _send_some_deletes(zone, releasing[start : start + DELETES_AT_ONCE]):
            # A child that is not there is not called for each of them.
            rest = releasing[start + DELETES_AT_ONCE :]
            if rest:
                zone.store.write(partial(record, zone, rest, {}, Recording()))
            return


def _send_some_deletes(zone: Zone, releasing: Sequence[Placement]) -> bool:
    """Call children to delete these; false if one of them was tried, and neither deleted nor refused.

    What a child that deletes some has no time for was not tried, and stays due.
    """
    # An answer that comes when the time of the call is over is lost, and those before it as well.
    last_at = zone.clock.monotonic() + zone.conf.build_timeout / 2
    refused: set[tuple[str, int]] = set()
    untried: set[tuple[str, int]] = set()

    def call(batch: _Batch, client: ChildClient) -> Sequence[BuildAnswer]:
        deleted: list[BuildAnswer] = []
        failures: dict[tuple[str, int], ChildFailed] = {}
        for at, p in enumerate(batch.placements):
            if (deleted or failures) and zone.clock.monotonic() >= last_at:
                untried.update(later.key for later in batch.placements[at:])
                break
            try:
                client.delete_server(p.uuid, p.number, zone.conf.build_timeout)
            except ChildFailed as error:
                failures[p.key] = error
                continue
            except ChildUnreachable as error:
                if isinstance(error, ChildRefused) and error.status == HTTPStatus.CONFLICT:
                    refused.add(p.key)
                    continue
                if not deleted:
                    raise
                untried.update(later.key for later in batch.placements[at + 1 :])
                break
            deleted.append(BuildAnswer(p.uuid, p.number, BuildState.GONE))
        if failures and not deleted:
            raise next(iter(failures.values()))
        refused.update(failures)
        return deleted

    recorded = _call_children(zone, releasing, call, Recording(), untried=untried)
    return all(p.key in refused for p in recorded.unanswered)


def _call_children(
    zone: Zone,
    sent: Sequence[Placement],
    call: Callable[[_Batch, ChildClient], Sequence[BuildAnswer]],
    recording: Recording,
    *,
    timeout_s: float = math.inf,
    untried: Collection[tuple[str, int]] = (),
) -> Recorded:
    """Call each child once per reservation, in parallel, and record the answers.

    `untried`: the keys of placements that the calls have left out, which stay as they are.
    """
    batches = _batches(sent)
    timeout_s = min(timeout_s, zone.conf.build_timeout)
    ends_at = zone.clock.monotonic() + timeout_s
    begun: set[int] = set()

    def begin(number: int, client: ChildClient) -> Sequence[BuildAnswer]:
        if zone.clock.monotonic() < ends_at:
            begun.add(number)
        return call(batches[number], client)

    outcomes = zone.children.call(
        [(batch.child_id, partial(begin, number)) for number, batch in enumerate(batches)],
        timeout_s=timeout_s,
    )
    if not batches:
        return Recorded((), (), ended=False)
    by_key: dict[tuple[str, int], BuildAnswer] = {}
    for outcome in outcomes:
        answered = outcome.value if isinstance(outcome, Done) else []
        # The client takes no answer for another attempt than those that the child was asked about.
        by_key |= {answer[:2]: answer for answer in answered}
    # A child that answers, and has no time for all of its calls, is called about the others in the next step.
    is_there = {b.child_id for b, outcome in zip(batches, outcomes, strict=True) if isinstance(outcome, Done)}
    tried = [batch for n, batch in enumerate(batches) if n in begun or batch.child_id not in is_there]
    sent_all = [p for batch in tried for p in batch.placements if p.key not in untried]
    if len(sent_all) < len(sent):
        recording = replace(recording, confirm_all=False)
    return zone.store.write(partial(record, zone, sent_all, by_key, recording))


def _batches(sent: Sequence[Placement]) -> list[_Batch]:
    groups: dict[tuple[str, str, str], list[Placement]] = defaultdict(list)
    for p in sent:
        if isinstance(p.where, AskedChild):
            groups[p.where.child_id, p.caller_id, p.reservation_id].append(p)
    return [_Batch(*key, tuple(found)) for key, found in sorted(groups.items())]
