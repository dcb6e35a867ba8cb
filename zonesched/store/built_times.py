"""Times at which instances were built, stored before the change that would replace them.

A built instance without a row of states has not changed since: its last change says when it was built.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import InstanceStatus
from zonesched.store import instance_states
from zonesched.store import tables as t
from zonesched.store.instance_states import StoredState
from zonesched.store.prepared import Prepared, one_of, unindexed

_instance, _state = t.instances.c, t.instance_states.c
_NOT_NOTED = Prepared(
    sa.select(_instance.uuid, _instance.updated_at)
    .outerjoin_from(t.instances, t.instance_states, _state.uuid == _instance.uuid)
    .where(one_of(_instance.uuid, "uuids"), unindexed(_instance.status) == InstanceStatus.ACTIVE.value)
    .where(_state.uuid.is_(None))
)


def note(tx: Connection, uuids: Sequence[str]) -> None:
    """Store when these instances were built, as far as their last change alone says so."""
    built = [StoredState(row.uuid, built_at=row.updated_at) for row in _NOT_NOTED.all(tx, uuids=uuids)]
    instance_states.write(tx, built, known=())
