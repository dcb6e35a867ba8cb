"""Tell children the desired states of their instances, in batches, until they have answered.

A call names attempts and generations, so that a repeat changes nothing. The rows are written before a call
goes out, and hold when its next repeat is due.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from zonesched.model.desired_call import MAX_IMAGES, MAX_PER_CALL, DesiredAnswer, DesiredOf, Taken
from zonesched.model.instance_image import InstanceImage
from zonesched.model.observed_state import Observed
from zonesched.model.placement import Attempt
from zonesched.model.request_spec import Image
from zonesched.seams import Done
from zonesched.services.life.observing import observe
from zonesched.services.placing.child_calls import pause_s
from zonesched.services.zone import Zone
from zonesched.store import identity, instance_actions, instance_states, instances, locks
from zonesched.store.instance_states import StoredState, Untold
from zonesched.store.store import Transaction
from zonesched.zones.client import ChildClient

_REASON_OF = {Taken.GONE: "gone_in_child", Taken.UNSUPPORTED: "action_unsupported_by_zone"}


def send_desired(zone: Zone, child_id: str, due: Sequence[Untold]) -> None:
    """Tell one child these desired states; an unanswered batch is repeated after a growing pause."""
    for some in batches(due):
        told = [DesiredOf(one.uuid, one.attempt, one.desired) for one in some]

        def call(client: ChildClient, told: Sequence[DesiredOf] = told) -> Sequence[DesiredAnswer]:
            return client.tell_desired(told, zone.conf.build_timeout)

        (outcome,) = zone.children.call([(child_id, call)], timeout_s=zone.conf.build_timeout)
        answers = {a.key: a for a in outcome.value} if isinstance(outcome, Done) else {}
        zone.store.write(partial(_record, zone, some, answers))
    if due:
        zone.wake.sync()


def batches(due: Sequence[Untold]) -> Iterator[Sequence[Untold]]:
    """Split desired states into calls, in order; each has a limit of lines and of different images."""
    lines, images = list[Untold](), list[InstanceImage]()
    for one in due:
        is_new = isinstance(one.desired.image, Image) and one.desired.image not in images
        if len(lines) == MAX_PER_CALL or (is_new and len(images) == MAX_IMAGES):
            yield lines
            lines, images, is_new = [], [], isinstance(one.desired.image, Image)
        lines.append(one)
        images += [one.desired.image] if is_new else []
    if lines:
        yield lines


def _record(
    zone: Zone, sent: Sequence[Untold], answers: Mapping[Attempt, DesiredAnswer], tx: Transaction
) -> None:
    uuids = [one.uuid for one in sent]
    locks.instances(tx, uuids)
    now = zone.clock.now()
    rows, present = instance_states.read(tx, uuids), instances.current_statuses(tx, uuids)
    changed: list[StoredState] = []
    failed: list[tuple[str, Observed]] = []
    for one in sent:
        row = rows.get(one.uuid)
        if row is None or present[one.uuid].attempt != one.attempt:
            continue
        answer = answers.get(Attempt(one.uuid, one.attempt))
        if answer is None:
            calls = row.calls + 1
            changed.append(replace(row, calls=calls, next_call_at=now + pause_s(zone.conf, calls)))
            continue
        if answer.generation > row.state.desired.generation or answer.taken is Taken.DIFFERENT:
            changed.append(_overtaking(tx, row, answer, now))
            continue
        changed.append(replace(row, told_generation=max(row.told_generation, one.desired.generation)))
        if answer.taken is not Taken.STORED:
            refused = row.state.refused(_REASON_OF[answer.taken])
            failed.append((one.uuid, replace(refused, generation=one.desired.generation)))
    instance_states.write(tx, changed, rows.keys())
    if failed:
        observe(tx, identity.next_change(tx), failed, {}, now)


def _overtaking(tx: Transaction, row: StoredState, answer: DesiredAnswer, now: float) -> StoredState:
    """Number the desired state anew, above the one of a child that knows more, or another one.

    These rows were put back from a copy; the child may have told its agent of the generations since.
    """
    desired = row.state.desired
    is_reboot = row.state.rebooted_by == desired.generation
    is_rebuild = row.state.rebuilt_by == desired.generation
    generation = max(answer.generation, desired.generation) + 1
    later = replace(
        desired,
        generation=generation,
        reboots=answer.reboots + is_reboot,
        rebuilds=answer.rebuilds + is_rebuild,
    )
    instance_actions.renumber(tx, row.uuid, desired.generation, generation)
    state = replace(
        row.state,
        desired=later,
        rebooted_by=generation if is_reboot else row.state.rebooted_by,
        rebuilt_by=generation if is_rebuild else row.state.rebuilt_by,
    )
    return replace(row, state=state, next_call_at=now)
