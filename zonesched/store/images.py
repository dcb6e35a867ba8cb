"""Images of this zone: ids, names and properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.catalog import CatalogImage
from zonesched.model.request_spec import Image
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared
from zonesched.store.sorted_json import sorted_json

COLUMNS = t.images.c
_ALL = sa.select(t.images).order_by(COLUMNS.name, COLUMNS.id)
_EVERY = Prepared(_ALL)
_OF_ID = _ALL.where(COLUMNS.id == sa.bindparam("id"))
_BY_ID = Prepared(_OF_ID)
_LOCKED = Prepared(_OF_ID.with_for_update())
_BY_NAME = Prepared(_ALL.where(COLUMNS.name == sa.bindparam("name")))


def insert(tx: Connection, new: CatalogImage) -> None:
    """Add a row; raises IntegrityError for an id that exists."""
    tx.execute(
        sa.insert(t.images).values(
            id=new.image.id,
            name=new.image.name,
            properties=sorted_json(new.image.properties),
            min_disk_gb=new.min_disk_gb,
            min_ram_mb=new.min_ram_mb,
            created_at=new.created_at,
        )
    )


def read_all(tx: Connection) -> list[CatalogImage]:
    """Read all images, by name and id."""
    return _read(tx, _EVERY)


def read_one(tx: Connection, image_id: str) -> CatalogImage | None:
    """Read one image by id."""
    return next(iter(_read(tx, _BY_ID, id=image_id)), None)


def lock(tx: Connection, image_id: str) -> CatalogImage | None:
    """Read one image by id, and lock it until the transaction ends."""
    return next(iter(_read(tx, _LOCKED, id=image_id)), None)


def read_by_name(tx: Connection, name: str) -> list[CatalogImage]:
    """Read the images of that name, by id."""
    return _read(tx, _BY_NAME, name=name)


def set_properties(tx: Connection, image_id: str, properties: Mapping[str, str]) -> None:
    """Set the properties of an image."""
    tx.execute(sa.update(t.images).where(COLUMNS.id == image_id).values(properties=sorted_json(properties)))


def delete(tx: Connection, image_id: str) -> bool:
    """Delete an image; False if there was none."""
    return tx.execute(sa.delete(t.images).where(COLUMNS.id == image_id)).rowcount > 0


def _read(tx: Connection, statement: Prepared, **values: str) -> list[CatalogImage]:
    return [_from_row(row) for row in statement.all(tx, **values)]


def _from_row(row: Any) -> CatalogImage:
    image = Image(row.id, row.name, orjson.loads(row.properties))
    return CatalogImage(image, row.min_disk_gb, row.min_ram_mb, row.created_at)
