"""Aliases: uuids of parents that another caller's instance has here, and the uuids used instead.

Each caller names its instances as it likes, and an instance has one uuid in the zone. An alias is removed
with its instance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store import tables as t
from zonesched.store.prepared import Prepared, one_of

_alias = t.aliases.c
_OF_CALLER = _alias.caller_id == sa.bindparam("caller")
# Asked first: hardly any caller has an alias.
_ANY = Prepared(sa.select(_alias.uuid).where(_OF_CALLER).limit(1))
_BY_ALIAS = Prepared(
    sa.select(_alias.uuid, _alias.instance_uuid).where(_OF_CALLER, one_of(_alias.uuid, "uuids"))
)
_BY_INSTANCE = Prepared(
    sa.select(_alias.uuid, _alias.instance_uuid).where(_OF_CALLER, one_of(_alias.instance_uuid, "uuids"))
)
_build = t.inbound_builds.c


def instance_uuids(tx: Connection, caller_id: str, uuids: Collection[str]) -> Mapping[str, str]:
    """Return the uuid in this zone of each of the caller's uuids that is an alias."""
    if _ANY.first(tx, caller=caller_id) is None:
        return {}
    rows = _BY_ALIAS.all(tx, caller=caller_id, uuids=list(uuids))
    return {row.uuid: row.instance_uuid for row in rows}


def callers_uuids(tx: Connection, caller_id: str, instance_uuids: Iterable[str]) -> Mapping[str, str]:
    """Return the caller's own uuid of each of these instances that has an alias."""
    if _ANY.first(tx, caller=caller_id) is None:
        return {}
    rows = _BY_INSTANCE.all(tx, caller=caller_id, uuids=list(instance_uuids))
    return {row.instance_uuid: row.uuid for row in rows}


def insert(tx: Connection, caller_id: str, instance_uuids: Mapping[str, str]) -> None:
    """Add aliases of instances, whose rows exist; earlier attempts under an alias become the instance's."""
    for uuid, instance_uuid in sorted(instance_uuids.items()):
        tx.execute(sa.insert(t.aliases).values(caller_id=caller_id, uuid=uuid, instance_uuid=instance_uuid))
        tx.execute(
            sa.update(t.inbound_builds)
            .where(_build.caller_id == caller_id, _build.uuid == uuid)
            .values(uuid=instance_uuid)
        )
