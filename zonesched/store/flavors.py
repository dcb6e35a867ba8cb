"""Flavors of this zone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.request_spec import Flavor
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared

COLUMNS = t.flavors.c
_ALL = sa.select(t.flavors).order_by(COLUMNS.name)
_EVERY = Prepared(_ALL)
_BY_ID = Prepared(_ALL.where(COLUMNS.id == sa.bindparam("id")))
_BY_NAME = Prepared(_ALL.where(COLUMNS.name == sa.bindparam("name")))


def insert(tx: Connection, flavor: Flavor) -> None:
    """Add a row; raises IntegrityError for an id or a name that exists."""
    tx.execute(
        sa.insert(t.flavors).values(
            id=flavor.id,
            name=flavor.name,
            vcpus=flavor.vcpus,
            ram_mb=flavor.ram_mb,
            disk_gb=flavor.disk_gb,
            extra_specs=_text(flavor.extra_specs),
        )
    )


def read_all(tx: Connection) -> list[Flavor]:
    """List all flavors, by name."""
    return _read(tx, _EVERY)


def read_one(tx: Connection, flavor_id: str) -> Flavor | None:
    """Read one flavor by id."""
    return next(iter(_read(tx, _BY_ID, id=flavor_id)), None)


def read_by_name(tx: Connection, name: str) -> Flavor | None:
    """Read the flavor of that name."""
    return next(iter(_read(tx, _BY_NAME, name=name)), None)


def set_extra_specs(tx: Connection, flavor_id: str, extra_specs: Mapping[str, str]) -> None:
    """Replace a flavor's extra specs."""
    tx.execute(sa.update(t.flavors).where(COLUMNS.id == flavor_id).values(extra_specs=_text(extra_specs)))


def delete(tx: Connection, flavor_id: str) -> bool:
    """Delete a flavor; False if there was none."""
    return tx.execute(sa.delete(t.flavors).where(COLUMNS.id == flavor_id)).rowcount > 0


def _read(tx: Connection, statement: Prepared, **values: str) -> list[Flavor]:
    return [_from_row(row) for row in statement.all(tx, **values)]


def _from_row(row: Any) -> Flavor:
    return Flavor(row.id, row.name, row.vcpus, row.ram_mb, row.disk_gb, orjson.loads(row.extra_specs))


def _text(extra_specs: Mapping[str, str]) -> str:
    return orjson.dumps(dict(extra_specs), option=orjson.OPT_SORT_KEYS).decode()
