"""A busy zone whose rows can be damaged, for its audit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.builders.one_zone import (
    a_form,
    a_spec,
    a_zone,
    add_hosts,
    boot_on,
    instance_of,
    sql,
)
from tests.builders.postgresql import SERVER, databases
from zonesched.model.request_spec import GroupPolicy, ServerGroup
from zonesched.model.request_wire import spec_to_wire
from zonesched.services.audit import audit
from zonesched.services.zone import Zone

OTHER = "22222222-2222-4222-8222-222222222222"


def a_busy_zone(folder: Path) -> tuple[Zone, str]:
    """A zone with a host and an instance on it, which is as it should be; the host's id."""
    zone = a_zone(folder)
    (host_id,) = add_hosts(zone, a_form("h1", VCPU=8))
    boot_on(zone, host_id)
    return zone, host_id


def kinds(zone: Zone) -> list[str]:
    return [found.kind for found in audit.run(zone)]


def unchecked_sql(zone: Zone, statement: str, **values: Any) -> None:
    """Straight SQL without the database's own checks of references."""
    is_sqlite = zone.store.engine.dialect.name == "sqlite"
    unchecked = "PRAGMA foreign_keys=OFF" if is_sqlite else "SET session_replication_role = replica"
    if SERVER:
        databases().drop_later(str(zone.store.engine.url.database))
    with zone.store.engine.connect() as connection:
        connection.execute(sa.text(unchecked))
        connection.execute(sa.text(statement), values)
        connection.commit()
        connection.invalidate()


def in_group(zone: Zone, host_id: str, policy: GroupPolicy, most: int = 1, group_id: str = "g1") -> str:
    """An instance on a host whose request named a group; the group's place is not taken."""
    uuid = boot_on(zone, host_id, group_id=group_id)
    spec = replace(a_spec(), group=ServerGroup(group_id, policy, most))
    text = json.dumps(spec_to_wire(spec))
    reservation_id = instance_of(zone, uuid).reservation_id
    sql(zone, "update reservations set spec = :spec where id = :id", spec=text, id=reservation_id)
    return uuid


def put_group(zone: Zone, host_id: str, group_id: str = "g1", child_id: str | None = None) -> None:
    statement = "insert into group_places (caller_id, group_id, host_id, child_id) values (:c, :g, :h, :k)"
    sql(zone, statement, c=zone.uuid, g=group_id, h=host_id or None, k=child_id)
