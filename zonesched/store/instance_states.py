"""Desired and observed states of instances, and which of them a child has yet to be told.

Writers lock the instances (`store.locks`) before they read the rows that they write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.desired_state import NEW, Desired, InstanceState, RebootType
from zonesched.model.instance_flavor import InstanceFlavor
from zonesched.model.instance_image import AS_BOOTED, AsBooted, InstanceImage
from zonesched.model.observed_state import MoveCounts, Observed, Power, Resizes
from zonesched.model.placement import TO_BUILD, InstanceStatus
from zonesched.model.request_wire import (
    flavor_from_wire,
    flavor_to_wire,
    image_from_wire,
    image_to_wire,
)
from zonesched.store import locks
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared, is_in, one_of, unindexed

COLUMNS = t.instance_states.c
_instance, _place = t.instances.c, t.placements.c
_POWER_OF = {power.value: power for power in Power}
_TYPE_OF = {kind.value: kind for kind in RebootType}
_READ = Prepared(sa.select(t.instance_states).where(one_of(COLUMNS.uuid, "uuids")))
_INSERT = Prepared(sa.insert(t.instance_states))
_FORGET = Prepared(sa.delete(t.instance_states).where(one_of(COLUMNS.uuid, "uuids")))
_UPDATE = Prepared(
    sa.update(t.instance_states)
    .where(COLUMNS.uuid == sa.bindparam("b_uuid"))
    .values({c.name: sa.bindparam(f"b_{c.name}") for c in COLUMNS if c.name != "uuid"})
)
_IN_CHILD = sa.and_(_place.uuid == COLUMNS.uuid, _place.child_id.is_not(None), is_in(_place.state, TO_BUILD))
_PRESENT = sa.and_(_place.uuid == _instance.uuid, _place.number == _instance.attempt)
_UNTOLD = COLUMNS.told_generation < COLUMNS.generation
# Not by the index of statuses: nearly all instances have this one.
_IS_ACTIVE = sa.func.coalesce(_instance.status, "") == InstanceStatus.ACTIVE.value
_DUE = Prepared(
    sa.select(
        COLUMNS.uuid,
        _place.number,
        _place.child_id,
        COLUMNS.generation,
        COLUMNS.power,
        COLUMNS.reboots,
        COLUMNS.reboot_type,
        COLUMNS.rebuilds,
        COLUMNS.calls,
        sa.case((COLUMNS.rebuilt_by > COLUMNS.told_generation, COLUMNS.desired_image), else_="").label(
            "desired_image"
        ),
        COLUMNS.resizes_begun,
        COLUMNS.resizes_confirmed,
        COLUMNS.resizes_reverted,
        sa.case(
            (COLUMNS.resizes_begun > COLUMNS.observed_resizes_begun, COLUMNS.desired_flavor), else_=""
        ).label("desired_flavor"),
    )
    .join_from(t.instance_states, t.instances, _instance.uuid == COLUMNS.uuid)
    .join(t.placements, sa.and_(_PRESENT, _IN_CHILD))
    .where(_UNTOLD, COLUMNS.next_call_at <= sa.bindparam("now"))
    .where(_IS_ACTIVE)
    .where(sa.not_(one_of(_place.child_id, "busy")))
    .order_by(COLUMNS.next_call_at, COLUMNS.uuid)
    .limit(sa.bindparam("most"))
)
_MAKE_DUE = Prepared(
    sa.update(t.instance_states)
    .where(_UNTOLD)
    .where(
        COLUMNS.uuid.in_(
            sa.select(_place.uuid).where(one_of(_place.child_id, "children"), is_in(_place.state, TO_BUILD))
        )
    )
    .values(next_call_at=0.0, calls=0)
)
_IS_NOT_REACHED = COLUMNS.observed_generation < COLUMNS.told_generation
_IS_REBUILT = COLUMNS.rebuilt_by > 0
_MAY_BE_LACKING = Prepared(
    sa.select(COLUMNS.uuid)
    .where(sa.or_(_IS_NOT_REACHED, _IS_REBUILT))
    .where(
        COLUMNS.uuid.in_(
            sa.select(_place.uuid).where(
                _place.child_id == sa.bindparam("child"), is_in(_place.state, TO_BUILD)
            )
        )
    )
)
_FORGET_TOLD = Prepared(
    sa.update(t.instance_states)
    .where(sa.or_(_IS_NOT_REACHED, _IS_REBUILT), one_of(COLUMNS.uuid, "uuids"))
    .values(
        told_generation=sa.case(
            (sa.and_(_IS_REBUILT, COLUMNS.observed_generation >= COLUMNS.rebuilt_by), COLUMNS.rebuilt_by - 1),
            else_=COLUMNS.observed_generation,
        ),
        next_call_at=0.0,
        calls=0,
    )
)
_NEWEST_PENDING = Prepared(
    sa.select(sa.func.max(COLUMNS.wanted_at).label("wanted_at")).where(
        COLUMNS.observed_generation < COLUMNS.generation,
        sa.select(_place.uuid).where(_IN_CHILD).exists(),
    )
)

PRESENT_FLAVOR = sa.func.coalesce(
    sa.case(
        (
            COLUMNS.observed_resizes_begun
            > COLUMNS.observed_resizes_confirmed + COLUMNS.observed_resizes_reverted,
            COLUMNS.desired_flavor,
        ),
        else_=COLUMNS.flavor,
    ),
    "",
)
"""The flavor that an instance has, as `InstanceState.present_flavor`, for `flavor_from_text`."""
_IS_IN_CHILD = sa.select(_place.uuid).where(_PRESENT, _place.child_id.is_not(None)).exists()
_UNCONFIRMED = Prepared(
    sa.select(COLUMNS.uuid, COLUMNS.generation)
    .join_from(t.instance_states, t.instances, _instance.uuid == COLUMNS.uuid)
    .where(sa.text("resized_at > 0"), COLUMNS.resized_at <= sa.bindparam("since"))
    .where(COLUMNS.observed_generation == COLUMNS.generation)
    # From the resizes that wait: of most instances the caller is this zone.
    .where(unindexed(_instance.caller_id) == sa.bindparam("caller"))
    .where(_IS_ACTIVE)
    .where(sa.or_(sa.bindparam("in_children", type_=sa.Boolean), sa.not_(_IS_IN_CHILD)))
    .order_by(COLUMNS.resized_at, COLUMNS.uuid)
    .limit(sa.bindparam("most"))
    .offset(sa.bindparam("skip"))
)


@dataclass(frozen=True)
class StoredState:
    """One row.

    `told_generation`: what the child that has the instance has answered for; on a local host always the
    present one. `wanted_at`: when the present generation was decided. `built_at`: when it was built.
    `resized_at`: since when a resize waits for its confirmation, 0 where none does. `reclaim_after`: for how
    many seconds it could be restored when its owner deleted it.
    """

    uuid: str
    state: InstanceState = NEW
    told_generation: int = 0
    next_call_at: float = 0.0
    calls: int = 0
    wanted_at: float = 0.0
    built_at: float = 0.0
    resized_at: float = 0.0
    reclaim_after: float = 0.0

    def wanting(self, desired: Desired, now: float, *, in_child: bool) -> StoredState:
        """Return the row with a later desired state, which a child is to be told at once."""
        told = self.told_generation if in_child else desired.generation
        return replace(
            self,
            state=self.state.wanting(desired),
            told_generation=told,
            next_call_at=now,
            calls=0,
            wanted_at=now,
        )

    def observing(self, observed: Observed, now: float) -> StoredState:
        """Return the row with a later observed state."""
        state = self.state.observing(observed)
        # Where a confirm or a revert was refused, the wait begins anew.
        is_refused = observed.reason and observed.generation > self.state.observed.generation
        since = now if is_refused else self.resized_at or now
        return replace(self, state=state, resized_at=since if state.observed.resizes.is_open else 0.0)

    def naming(self, state: InstanceState, *, in_child: bool) -> StoredState:
        """Return the row with the image of its last rebuild, which a child is told at once too."""
        told = min(self.told_generation, state.rebuilt_by - 1) if in_child else self.told_generation
        return replace(self, state=state, told_generation=told, next_call_at=0.0, calls=0)

    def moving(self, moves: MoveCounts) -> StoredState:
        """Return the row with these counts of moves."""
        return replace(self, state=replace(self.state, moves=moves))


@dataclass(frozen=True)
class Untold:
    """A desired state that a child has not answered yet, after `calls` calls.

    It has an image only where the child has not answered for the rebuild either.
    """

    uuid: str
    attempt: int
    child_id: str
    desired: Desired
    calls: int


def read(tx: Connection, uuids: Sequence[str]) -> Mapping[str, StoredState]:
    """Read the rows of these instances, by uuid; an instance without one never had an action."""
    return {row.uuid: _from_row(row) for row in _READ.all(tx, uuids=uuids)} if uuids else {}


def write(tx: Connection, rows: Sequence[StoredState], known: Collection[str]) -> None:
    """Store rows; those of uuids in `known` exist already."""
    _INSERT.run_many(tx, [_to_row(row) for row in rows if row.uuid not in known])
    changed = [_to_row(row) for row in rows if row.uuid in known]
    _UPDATE.run_many(tx, [{f"b_{name}": value for name, value in row.items()} for row in changed])


def is_offloaded(tx: Connection, uuid: str) -> bool:
    """Tell whether nothing of an instance was left anywhere when it was observed last."""
    row = read(tx, [uuid]).get(uuid)
    return row is not None and row.state.observed.power is Power.OFFLOADED


def forget(tx: Connection, uuids: Sequence[str]) -> None:
    """Delete the rows of instances at another attempt of their parent: there, none was acted on yet."""
    _FORGET.run(tx, uuids=uuids)


def due_to_tell(tx: Connection, now: float, busy: Sequence[str], most: int) -> list[Untold]:
    """Return at most `most` desired states to tell a child now; children in `busy` are left out."""
    return [
        Untold(
            row.uuid,
            row.number,
            row.child_id,
            _desired(row),
            row.calls,
        )
        for row in _DUE.all(tx, now=now, busy=busy, most=most)
    ]


def unconfirmed(
    tx: Connection, caller_id: str, since: float, most: int, skip: int = 0, *, in_children: bool
) -> Mapping[str, int]:
    """Return the generations of a caller's instances whose resize has waited since then, by uuid.

    At most so many, in the order of their time but for the first `skip`. Those in child zones are left out
    unless `in_children`.
    """
    rows = _UNCONFIRMED.all(tx, caller=caller_id, since=since, most=most, skip=skip, in_children=in_children)
    return {row.uuid: row.generation for row in rows}


def make_calls_due(tx: Connection, child_ids: Sequence[str]) -> None:
    """Make all desired states that these children were not told yet due now; reset the retry pauses."""
    _MAKE_DUE.run(tx, children=child_ids)


def forget_told(tx: Connection, child_id: str) -> None:
    """Tell a child again what it has not reported as reached, and each rebuild: it was restored from a copy.

    Its agents do not tell it the image of a rebuild that the copy lacks.
    """
    uuids = [row.uuid for row in _MAY_BE_LACKING.all(tx, child=child_id)]
    # Else who has read a row before would write it back as it was.
    locks.instances(tx, uuids)
    _FORGET_TOLD.run(tx, uuids=uuids)


def newest_pending_in_children(tx: Connection) -> float:
    """Return when the last desired state was decided that a child has not reported as reached.

    In epoch seconds; -infinity without one.
    """
    found = _NEWEST_PENDING.first(tx).wanted_at
    return float("-inf") if found is None else float(found)


def state_of(row: Any) -> InstanceState:
    """Make the state of a row with this table's columns, all null where the instance has none."""
    if row.generation is None:
        return NEW
    observed = Observed(
        row.observed_generation,
        _POWER_OF[row.observed_power],
        row.observed_reason,
        row.observed_rebuilds,
        Resizes(row.observed_resizes_begun, row.observed_resizes_confirmed, row.observed_resizes_reverted),
    )
    return InstanceState(
        _desired(row),
        observed,
        row.rebooted_by,
        row.rebuilt_by,
        image_from_text(row.image),
        MoveCounts(row.moves_begun, row.moves_ended),
        flavor_from_text(row.flavor),
        row.reclaim_at,
    )


def _desired(row: Any) -> Desired:
    return Desired(
        row.generation,
        _POWER_OF[row.power],
        row.reboots,
        _TYPE_OF[row.reboot_type],
        row.rebuilds,
        image_from_text(row.desired_image),
        Resizes(row.resizes_begun, row.resizes_confirmed, row.resizes_reverted),
        flavor_from_text(row.desired_flavor),
    )


def image_from_text(text: str) -> InstanceImage:
    """Return the image of a column; "" stands for the one of the boot."""
    return image_from_wire(orjson.loads(text)) if text else AS_BOOTED


def image_text(image: InstanceImage) -> str:
    """Return the text of an image for its column."""
    return "" if isinstance(image, AsBooted) else orjson.dumps(image_to_wire(image)).decode()


def flavor_from_text(text: str) -> InstanceFlavor:
    """Return the flavor of a column; "" stands for the one of the boot."""
    return flavor_from_wire(orjson.loads(text)) if text else AS_BOOTED


def flavor_text(flavor: InstanceFlavor) -> str:
    """Return the text of a flavor for its column."""
    return "" if isinstance(flavor, AsBooted) else orjson.dumps(flavor_to_wire(flavor)).decode()


def _from_row(row: Any) -> StoredState:
    return StoredState(
        uuid=row.uuid,
        state=state_of(row),
        told_generation=row.told_generation,
        next_call_at=row.next_call_at,
        calls=row.calls,
        wanted_at=row.wanted_at,
        built_at=row.built_at,
        resized_at=row.resized_at,
        reclaim_after=row.reclaim_after,
    )


def _to_row(row: StoredState) -> dict[str, Any]:
    desired, observed = row.state.desired, row.state.observed
    return {
        "uuid": row.uuid,
        "generation": desired.generation,
        "power": desired.power.value,
        "reboots": desired.reboots,
        "reboot_type": desired.reboot_type.value,
        "rebooted_by": row.state.rebooted_by,
        "rebuilds": desired.rebuilds,
        "rebuilt_by": row.state.rebuilt_by,
        "desired_image": image_text(desired.image),
        "image": image_text(row.state.image),
        "observed_generation": observed.generation,
        "observed_power": observed.power.value,
        "observed_reason": observed.reason,
        "observed_rebuilds": observed.rebuilds,
        "told_generation": row.told_generation,
        "next_call_at": row.next_call_at,
        "calls": row.calls,
        "wanted_at": row.wanted_at,
        "built_at": row.built_at,
        "moves_begun": row.state.moves.begun,
        "moves_ended": row.state.moves.ended,
        **_counts("", desired.resizes),
        **_counts("observed_", observed.resizes),
        "desired_flavor": flavor_text(desired.flavor),
        "flavor": flavor_text(row.state.flavor),
        "resized_at": row.resized_at,
        "reclaim_at": row.state.reclaim_at,
        "reclaim_after": row.reclaim_after,
    }


def _counts(prefix: str, resizes: Resizes) -> dict[str, int]:
    return {f"{prefix}resizes_{name}": count for name, count in vars(resizes).items()}
