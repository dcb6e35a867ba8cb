"""Tell children the desired states of their instances, in batches, until they have answered.

A call names attempts and generations, so that a repeat changes nothing. The rows are written before a call
goes out, and hold when its next repeat is due.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from zonesched.errors import ChildUnreachable
from zonesched.model.desired_call import MAX_IMAGES, MAX_PER_CALL, DesiredAnswer, DesiredOf, Taken
from zonesched.model.observed_state import Observed
from zonesched.model.placement import Attempt
from zonesched.model.request_spec import Flavor, Image
from zonesched.seams import Done
from zonesched.services.life.given_back import GivenBackOf, Lacking, in_own_terms, write_with_given_back
from zonesched.services.life.observing import count_images_and_flavors, observe
from zonesched.services.life.overtaking import is_overtaken, knows_count_alone, may_lack, overtaking
from zonesched.services.placing.child_answers import pause_s
from zonesched.services.zone import Zone
from zonesched.store import identity, instance_actions, instance_states, instances, locks
from zonesched.store.instance_states import StoredState, Untold
from zonesched.store.store import Transaction
from zonesched.zones.client import ChildClient

log = logging.getLogger(__name__)

_REASON_OF = {Taken.GONE: "gone_in_child", Taken.UNSUPPORTED: "action_unsupported_by_zone"}


def send_desired(zone: Zone, child_id: str, due: Sequence[Untold]) -> None:
    """Tell one child these desired states; an unanswered batch is repeated after a growing pause."""
    for some in batches(due):
        told = [DesiredOf(one.uuid, one.attempt, one.desired) for one in some]

        def call(client: ChildClient, told: Sequence[DesiredOf] = told) -> Sequence[DesiredAnswer]:
            return client.tell_desired(told, zone.conf.build_timeout)

        (outcome,) = zone.children.call([(child_id, call)], timeout_s=zone.conf.build_timeout)
        answers = {a.key: a for a in outcome.value} if isinstance(outcome, Done) else {}
        try:
            write_with_given_back(
                zone.store,
                partial(_record, zone, some, answers),
                lambda uuid: zone.child_client(child_id).request_of(uuid, zone.conf.build_timeout),
            )
        except ChildUnreachable as error:
            log.warning(
                "child zone %s does not answer for the requests of its instances: %s", child_id, error.code
            )
            zone.store.write(partial(_record, zone, some, {}, given_back={}))
    if due:
        zone.wake.sync()


def batches(due: Sequence[Untold]) -> Iterator[Sequence[Untold]]:
    """Split desired states into calls, in order, each with a limit of lines, different images and flavors."""
    lines, images, flavors = list[Untold](), list[Image](), list[Flavor]()
    for one in due:
        image, flavor = one.desired.image, one.desired.flavor
        is_full = isinstance(image, Image) and image not in images and len(images) == MAX_IMAGES
        is_full |= isinstance(flavor, Flavor) and flavor not in flavors and len(flavors) == MAX_IMAGES
        if is_full or len(lines) == MAX_PER_CALL:
            yield lines
            lines, images, flavors = [], [], []
        lines.append(one)
        if isinstance(image, Image) and image not in images:
            images.append(image)
        if isinstance(flavor, Flavor) and flavor not in flavors:
            flavors.append(flavor)
    if lines:
        yield lines


def _record(
    zone: Zone,
    sent: Sequence[Untold],
    answers: Mapping[Attempt, DesiredAnswer],
    tx: Transaction,
    given_back: GivenBackOf,
) -> Lacking | None:
    uuids = [one.uuid for one in sent]
    locks.instances(tx, uuids)
    now = zone.clock.now()
    rows, present = instance_states.read(tx, uuids), instances.current_statuses(tx, uuids)
    pairs = [(one, answers.get(Attempt(one.uuid, one.attempt))) for one in sent]
    pairs = [(one, a) for one, a in pairs if one.uuid in rows and present[one.uuid].attempt == one.attempt]
    overtaken = {
        one.uuid: answer
        for one, answer in pairs
        if answer is not None and is_overtaken(rows[one.uuid].state, one.desired, answer)
    }
    unasked = [
        uuid
        for uuid, answer in overtaken.items()
        if uuid not in given_back and may_lack(rows[uuid].state, answer)
    ]
    if unasked:
        return Lacking(tuple(sorted(unasked)))
    theirs = in_own_terms(tx, given_back)
    changed: list[StoredState] = []
    failed: list[tuple[str, Observed]] = []
    for one, answer in pairs:
        row = rows[one.uuid]
        if answer is None:
            calls = row.calls + 1
            changed.append(replace(row, calls=calls, next_call_at=now + pause_s(zone.conf, calls)))
            continue
        if one.uuid in overtaken:
            count_alone = knows_count_alone(answer, given_back.get(one.uuid))
            later = overtaking(row.state, answer, theirs.get(one.uuid), count_alone=count_alone)
            instance_actions.renumber(tx, one.uuid, row.state.desired.generation, later.desired.generation)
            changed.append(replace(row, state=later, next_call_at=now))
            continue
        changed.append(replace(row, told_generation=max(row.told_generation, one.desired.generation)))
        if answer.taken in _REASON_OF:
            refused = row.state.refused(_REASON_OF[answer.taken])
            failed.append((one.uuid, replace(refused, generation=one.desired.generation)))
    instance_states.write(tx, changed, rows.keys())
    if theirs or failed:
        change = identity.next_change(tx)
        count_images_and_flavors(tx, change, rows, [row for row in changed if row.uuid in theirs])
        observe(tx, change, failed, {}, now)
    return None
