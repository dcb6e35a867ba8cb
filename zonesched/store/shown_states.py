"""The statuses and OpenStack's states that instances show, as conditions and for an order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.desired_state import RebootType
from zonesched.model.observed_state import Power
from zonesched.model.placement import BUILDING_STATUSES, InstanceStatus
from zonesched.model.server_query import AskedStates
from zonesched.model.shown_status import (
    MAY_BE_SOFT_DELETED,
    STATUS_OF_POWER,
    STATUS_WITHOUT_POWER,
    Status,
)
from zonesched.model.vm_state import (
    NO_STATE,
    POWER_STATE,
    RESIZED,
    SOFT_DELETED,
    VM_STATE_OF_POWER,
    VM_STATE_OF_STATUS,
)
from zonesched.store import tables as t
from zonesched.store.few_instances import is_named
from zonesched.store.prepared import unindexed

_STATE, _STATUS = t.instance_states.c, t.instances.c.status
_IS_OFFLOADED = _STATE.observed_power == Power.OFFLOADED.value
_IS_RUNNING = _STATE.observed_power == Power.RUNNING.value
_IS_RESIZED = _STATE.observed_resizes_begun > (
    _STATE.observed_resizes_confirmed + _STATE.observed_resizes_reverted
)
_IS_REVERTING = _STATE.resizes_reverted > _STATE.observed_resizes_reverted
_IS_MOVING = sa.or_(
    _STATE.moves_begun > _STATE.moves_ended, _STATE.resizes_begun > _STATE.observed_resizes_begun, _IS_RESIZED
)
_IS_REBOOTING = _IS_RUNNING & (_STATE.rebooted_by > _STATE.observed_generation)
_IS_REBUILDING = _STATE.rebuilt_by > _STATE.observed_generation
_IS_SOFT_DELETED = _STATE.reclaim_at > 0
_RESTS = ~(_IS_REBUILDING | _IS_MOVING | _IS_SOFT_DELETED)
_IS_ANOTHER = ~_IS_RUNNING | _IS_REBOOTING | _IS_REBUILDING | _IS_MOVING | _IS_SOFT_DELETED
"""The states of an instance that is stored as ACTIVE and shows another status."""

_HAS_TASK = _IS_MOVING | (_STATE.observed_generation < _STATE.generation)
"""The states of an instance that is stored as ACTIVE and may show a task state."""

_STATES_OF: Mapping[Status, sa.ColumnElement[bool]] = {
    Status.RESIZE: _IS_MOVING & ~_IS_RESIZED & ~_IS_SOFT_DELETED,
    Status.VERIFY_RESIZE: _IS_RESIZED & ~_IS_REVERTING & ~_IS_SOFT_DELETED,
    Status.REVERT_RESIZE: _IS_RESIZED & _IS_REVERTING & ~_IS_SOFT_DELETED,
    Status.REBUILD: _IS_REBUILDING & ~_IS_MOVING & ~_IS_SOFT_DELETED,
    Status.REBOOT: _IS_REBOOTING & (_STATE.reboot_type == RebootType.SOFT.value) & _RESTS,
    Status.HARD_REBOOT: _IS_REBOOTING & (_STATE.reboot_type == RebootType.HARD.value) & _RESTS,
    **{
        STATUS_OF_POWER[power]: (_STATE.observed_power == power.value) & _RESTS
        for power in (Power.STOPPED, Power.PAUSED, Power.SUSPENDED)
    },
}
"""The states for which an instance that is stored as ACTIVE shows each other status."""

_OF_BUILT = {
    **_STATES_OF,
    Status.SOFT_DELETED: _IS_SOFT_DELETED,
    Status.SHELVED_OFFLOADED: _IS_OFFLOADED & _RESTS,
}
_OF_PLACED: Mapping[InstanceStatus, sa.ColumnElement[str]] = {
    InstanceStatus.ACTIVE: sa.case(
        *((states, status.value) for status, states in _OF_BUILT.items()), else_=Status.ACTIVE.value
    ),
    **{
        one: sa.case((_IS_SOFT_DELETED, Status.SOFT_DELETED.value), else_=STATUS_WITHOUT_POWER[one].value)
        for one in (InstanceStatus.OFFLOADED, InstanceStatus.ERROR)
    },
    InstanceStatus.BUILD: sa.case((_IS_OFFLOADED, Status.SHELVED_OFFLOADED.value), else_=Status.BUILD.value),
}
SHOWN_STATUS = sa.case(
    {one.value: _OF_PLACED.get(one, status.value) for one, status in STATUS_WITHOUT_POWER.items()},
    value=_STATUS,
)
"""The status that an instance shows, where its row of states is joined, or it has none."""

_STATUS_OF_VM_STATE = {name: status for status, name in VM_STATE_OF_STATUS.items()}
_POWER_OF_VM_STATE = {name: power for power, name in VM_STATE_OF_POWER.items()}
_POWER_OF_NUMBER = {number: power for power, number in POWER_STATE.items()}
_OF_SOFT_DELETED = [status.value for status in MAY_BE_SOFT_DELETED]
_OF_MANY = {InstanceStatus.ACTIVE, InstanceStatus.DELETED}
"""The statuses in which most instances of a zone are."""


def shows_one(tx: Connection, statuses: Sequence[Status]) -> sa.ColumnElement[bool]:
    """Make the condition that an instance shows one of these (`model.desired_state.shown_status`)."""
    of_states = [_STATES_OF[status] for status in statuses if status in _STATES_OF]
    conditions = [_shows(tx, status) for status in statuses if status not in _STATES_OF]
    if of_states:
        conditions.append(_is_active_in(tx, sa.or_(*of_states)))
    return sa.or_(*conditions)


def _shows(tx: Connection, status: Status) -> sa.ColumnElement[bool]:
    match status:
        case Status.BUILD:
            return _is_stored_as(InstanceStatus.BUILD) & ~_with(_IS_OFFLOADED).exists()
        case Status.ACTIVE:
            return _is_active_unless(_IS_ANOTHER)
        case Status.SOFT_DELETED:
            return _is_soft_deleted(tx)
        case Status.SHELVED_OFFLOADED:
            return sa.or_(
                _is_stored_as(InstanceStatus.OFFLOADED) & ~_with(_IS_SOFT_DELETED).exists(),
                _is_stored_as(InstanceStatus.BUILD) & _is_one(tx, _IS_OFFLOADED),
                _is_active_in(tx, _IS_OFFLOADED & _RESTS),
            )
        case Status.ERROR:
            return _is_stored_as(InstanceStatus.ERROR) & ~_with(_IS_SOFT_DELETED).exists()
    return _is_stored_as(InstanceStatus(status.value))


def are_not_soft_deleted() -> sa.ColumnElement[bool]:
    """Make the condition that an instance is not soft-deleted, or shows another status in spite of that."""
    return ~(_STATUS.in_(_OF_SOFT_DELETED) & _with(_IS_SOFT_DELETED).exists())


def _is_soft_deleted(tx: Connection) -> sa.ColumnElement[bool]:
    return sa.or_(*map(_is_stored_as, MAY_BE_SOFT_DELETED)) & _is_one(tx, _IS_SOFT_DELETED)


def may_have(tx: Connection, asked: AskedStates, *, also_deleted: bool) -> Iterator[sa.ColumnElement[bool]]:
    """Make the conditions that all instances in these states meet, and few others.

    `also_deleted`: whether the list has deleted instances.
    """
    if asked.vm_state:
        yield _may_have_vm_state(tx, asked.vm_state, also_deleted=also_deleted)
    if asked.power_state is not None:
        yield _may_have_power_state(tx, asked.power_state, also_deleted=also_deleted)
    if asked.task_state:
        yield _may_have_task_state(tx, asked.task_state)


def _may_have_vm_state(tx: Connection, name: str, *, also_deleted: bool) -> sa.ColumnElement[bool]:
    if name == SOFT_DELETED:
        return _is_soft_deleted(tx)
    if name == RESIZED:
        return _is_active_in(tx, _IS_RESIZED)
    if name == VM_STATE_OF_POWER[Power.OFFLOADED]:
        return sa.or_(
            _is_stored_as(InstanceStatus.OFFLOADED), _is_unshelving(tx), _is_active_in(tx, _IS_OFFLOADED)
        )
    if status := _STATUS_OF_VM_STATE.get(name):
        is_listed = also_deleted or status is not InstanceStatus.DELETED
        return _is_stored_as(status) if is_listed else sa.false()
    return _may_have_power(tx, _POWER_OF_VM_STATE[name]) if name in _POWER_OF_VM_STATE else sa.false()


def _may_have_power_state(tx: Connection, number: int, *, also_deleted: bool) -> sa.ColumnElement[bool]:
    if number != NO_STATE:
        return _may_have_power(tx, _POWER_OF_NUMBER[number]) if number in _POWER_OF_NUMBER else sa.false()
    statuses = [one for one in VM_STATE_OF_STATUS if also_deleted or one is not InstanceStatus.DELETED]
    return sa.or_(*map(_is_stored_as, statuses), _is_active_in(tx, _IS_OFFLOADED))


def _may_have_power(tx: Connection, power: Power) -> sa.ColumnElement[bool]:
    if power is Power.RUNNING:
        return _is_active_unless(~_IS_RUNNING)
    return _is_active_in(tx, _STATE.observed_power == power.value)


def _may_have_task_state(tx: Connection, name: str) -> sa.ColumnElement[bool]:
    if name in ("scheduling", "spawning"):
        return _is_stored_as(InstanceStatus.BUILD)
    busy = _is_active_in(tx, _HAS_TASK)
    return sa.or_(_is_unshelving(tx), busy) if name == "unshelving" else busy


def _is_unshelving(tx: Connection) -> sa.ColumnElement[bool]:
    return sa.or_(*map(_is_stored_as, BUILDING_STATUSES)) & _is_one(tx, _IS_OFFLOADED)


def _is_active_in(tx: Connection, states: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Make the condition that an instance is stored as ACTIVE, and has such states."""
    return _is_stored_as(InstanceStatus.ACTIVE) & _is_one(tx, states)


def _is_active_unless(states: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Make the condition that an instance is stored as ACTIVE, and has no such states."""
    return _is_stored_as(InstanceStatus.ACTIVE) & ~_with(states).exists()


def _is_one(tx: Connection, states: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Make the condition that an instance has such states."""
    return is_named(tx, sa.select(_STATE.uuid).where(states), _with(states).exists())


def _with(states: sa.ColumnElement[bool]) -> sa.Select[tuple[str]]:
    return sa.select(_STATE.uuid).where(_STATE.uuid == t.instances.c.uuid, states)


def _is_stored_as(status: InstanceStatus) -> sa.ColumnElement[bool]:
    """Make the condition that an instance has this status in its row."""
    # Of these SQLite would sort all there are for a page of the newest.
    column = unindexed(_STATUS) if status in _OF_MANY else _STATUS
    return column == status.value


def _by_state(
    name: str, built: sa.ColumnElement[Any], new: Any, offloaded: Any, others: Mapping[InstanceStatus, Any]
) -> sa.Label[Any]:
    """Make what stands for an instance's state in an order (`api.server_json` shows the same).

    `built`: of a built one by its row of states; `new`: of a built one that has no such row.
    """
    of_row = (
        sa.select(built).where(_STATE.uuid == t.instances.c.uuid).correlate(t.instances).scalar_subquery()
    )
    is_active = t.instances.c.status == InstanceStatus.ACTIVE.value
    is_offloaded = _with(_IS_OFFLOADED).correlate(t.instances).exists()
    is_unshelving = _STATUS.in_([one.value for one in BUILDING_STATUSES]) & is_offloaded
    by_status = sa.case({one.value: state for one, state in others.items()}, value=_STATUS)
    found = sa.case((is_active, sa.func.coalesce(of_row, new)), (is_unshelving, offloaded), else_=by_status)
    return found.label(name)


_OF_POWER = sa.case(
    {power.value: state for power, state in VM_STATE_OF_POWER.items()}, value=_STATE.observed_power
)
VM_STATE = sa.case(
    (~are_not_soft_deleted(), SOFT_DELETED),
    else_=_by_state(
        "vm_state",
        sa.case((_IS_RESIZED, RESIZED), else_=_OF_POWER),
        VM_STATE_OF_POWER[Power.RUNNING],
        VM_STATE_OF_POWER[Power.OFFLOADED],
        VM_STATE_OF_STATUS,
    ),
).label("vm_state")
POWER_STATE_NUMBER = _by_state(
    "power_state",
    sa.case({power.value: state for power, state in POWER_STATE.items()}, value=_STATE.observed_power),
    POWER_STATE[Power.RUNNING],
    NO_STATE,
    dict.fromkeys(VM_STATE_OF_STATUS, NO_STATE),
)
