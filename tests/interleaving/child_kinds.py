"""Kinds of writing transactions about a neighbour: what a child was told, its return, a recovery."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tests.interleaving.answering_child import AnsweringChild
from tests.interleaving.names import ADMIN, ASKED, BELOW, BOOT, CHILD, HELD, OFFERED, PARENT
from tests.interleaving.operator_kinds import Act
from tests.interleaving.scene import Scene
from zonesched.model.action_table import Action
from zonesched.model.desired_call import DesiredAnswer, Taken
from zonesched.model.named_boot import NamedBoot
from zonesched.model.observed_state import Observed, Power
from zonesched.model.placement import Attempt, BuildState, InstanceChange, InstanceStatus
from zonesched.services.boot import provision
from zonesched.services.children import desired_calls, returned
from zonesched.services.children.changes import apply_changes
from zonesched.services.owners import actions
from zonesched.services.placing import child_calls
from zonesched.services.recovery import naming, read_from_children
from zonesched.services.zone import Zone
from zonesched.store import instance_states, placements
from zonesched.store.placements import Placement
from zonesched.store.recovery import Found, Kind
from zonesched.store.store import Transaction

Send = Callable[[Zone, Sequence[Placement]], object]

TOLD = (
    f"UPDATE instances SET status = 'ACTIVE' WHERE uuid = '{BELOW}'",
    "INSERT INTO instance_states (uuid, generation, power, reboots, reboot_type, rebooted_by,"
    " observed_generation, observed_power, observed_reason, told_generation, next_call_at, calls,"
    f" wanted_at, built_at) VALUES ('{BELOW}', 2, 'stopped', 0, 'SOFT', 0, 0, 'running', '', 1, 0, 1, 1, 1)"
    " ON CONFLICT DO NOTHING",
)
"""The instance in the child is to be stopped; the child has answered for the generation before."""

DELETED = (
    f"UPDATE instances SET status = 'DELETED', reason = 'deleted' WHERE uuid = '{BELOW}'",
    f"UPDATE placements SET state = 'releasing', reason = 'deleted' WHERE uuid = '{BELOW}'",
)

_UNHEARD = "INSERT INTO unheard (kind, id) VALUES ('{}', '{}') ON CONFLICT DO NOTHING"
ALL_HEARD = (_UNHEARD.format("operator", ""),)
NAMED = (*ALL_HEARD, _UNHEARD.format("parent", PARENT.user_id))


def _child_back(scene: Scene, zone: Zone, number: int) -> None:
    returned.wake_waiting_for(zone.store, zone.wake, {CHILD})


def _child_forgot(scene: Scene, zone: Zone, number: int) -> None:
    zone.store.write(partial(instance_states.forget_told, child_id=CHILD))


def _child_answers(taken: Taken) -> Act:
    """The child's answers to the desired states that are due, as they were read before."""

    def act(scene: Scene, zone: Zone, number: int) -> None:
        due = zone.store.read(lambda tx: instance_states.due_to_tell(tx, zone.clock.now(), [], 10))
        answers = {
            Attempt(one.uuid, one.attempt): DesiredAnswer(
                one.uuid, one.attempt, taken, one.desired.generation
            )
            for one in due
        }
        zone.store.write(partial(desired_calls._record, zone, due, answers, given_back={}))

    return act


def _child_reports(scene: Scene, zone: Zone, number: int) -> None:
    observed = Observed(1, Power.RUNNING)
    item = InstanceChange(BELOW, 1, InstanceStatus.ACTIVE, BuildState.CONFIRMED, observed=observed)
    zone.store.write(lambda tx: apply_changes(zone, CHILD, [item], tx, given_back={}))


def _action_below(action: Action) -> Act:
    def act(scene: Scene, zone: Zone, number: int) -> None:
        actions.act(zone, ADMIN, BELOW, action)

    return act


def _named(scene: Scene, zone: Zone, number: int) -> bool:
    boot = NamedBoot(BOOT, scene.calls["hold"][0].spec, (Attempt(HELD, 1),))
    return naming.take(zone, PARENT, [boot], is_last=True)


def _child_read(scene: Scene, zone: Zone, number: int) -> None:
    found = [Found(Kind.CHILD, CHILD, BELOW, 1, "", InstanceStatus.ACTIVE)]

    def fn(tx: Transaction) -> None:
        read_from_children._take(CHILD, [BELOW], found, tx, is_last=True, most=9)

    zone.store.write(fn)


def _held_by_child(name: str, states: Mapping[str, BuildState], hold_s: float = 60.0) -> Act:
    def act(scene: Scene, zone: Zone, number: int) -> object:
        scene.answering(number, AnsweringChild(states, hold_s))
        return scene.calls[name][0].hold(zone)

    return act


def _boots_in_child(states: Mapping[str, BuildState]) -> Act:
    """A boot goes on whose best offer is the child's."""

    def act(scene: Scene, zone: Zone, number: int) -> object:
        scene.answering(number, AnsweringChild(states))
        zone.children.poll()
        return provision.begin(zone, scene.new_boots[0])

    return act


def _asks_child(uuid: str, send: Send, states: Mapping[str, BuildState]) -> Act:
    """The child answers a pending call; it does not know of what it has no answer for."""

    def act(scene: Scene, zone: Zone, number: int) -> None:
        scene.answering(number, AnsweringChild(states))
        send(zone, zone.store.read(lambda tx: placements.read_by_uuid(tx, [uuid])))

    return act


_S = BuildState
ACTS: Mapping[str, tuple[Act, tuple[str, ...]]] = {
    "hold_tries_next": (_held_by_child("below_twice", {"servers": _S.FAILED}), ()),
    "hold_shortened": (_held_by_child("both", {"servers": _S.HELD}, hold_s=20.0), ()),
    "boot_in_child": (_boots_in_child({"servers": _S.HELD, "confirm": _S.CONFIRMED}), ()),
    "boot_unanswered": (_boots_in_child({}), ()),
    "boot_refused": (_boots_in_child({"servers": _S.FAILED}), ()),
    "confirm_answered": (_asks_child(ASKED, child_calls.send_confirms, {"confirm": _S.CONFIRMED}), ()),
    "confirm_gone": (_asks_child(ASKED, child_calls.send_confirms, {"confirm": _S.GONE}), ()),
    "cancel_answered": (_asks_child(OFFERED, child_calls.send_cancels, {"cancel": _S.GONE}), ()),
    "delete_answered": (_asks_child(BELOW, child_calls.send_deletes, {}), DELETED),
    "child_back": (_child_back, TOLD),
    "child_forgot": (_child_forgot, TOLD),
    "child_stored": (_child_answers(Taken.STORED), TOLD),
    "child_gone": (_child_answers(Taken.GONE), TOLD),
    "child_reports": (_child_reports, TOLD),
    "start_in_child": (_action_below(Action.START), TOLD),
    "named": (_named, NAMED),
    "child_read": (_child_read, (*ALL_HEARD, _UNHEARD.format("child", CHILD))),
}
"""Kinds by name, each with the statements that set its own scene."""
