"""Flavors of this zone, and the projects that may use those that are not public."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.catalog import SEES_ALL, CatalogFlavor, SeesAll, SeesOfProject, Viewer
from zonesched.model.request_spec import Flavor
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared
from zonesched.store.sorted_json import sorted_json

COLUMNS = t.flavors.c
_ACCESS = t.flavor_projects.c
_OF_PROJECT = sa.select(_ACCESS.flavor_id).where(_ACCESS.project_id == sa.bindparam("project_id"))
_SEEN = sa.or_(sa.bindparam("sees_all") == 1, COLUMNS.is_public, COLUMNS.id.in_(_OF_PROJECT))
_ALL = sa.select(t.flavors).where(_SEEN).order_by(COLUMNS.name)
_EVERY = Prepared(_ALL)
_OF_ID = _ALL.where(COLUMNS.id == sa.bindparam("id"))
_BY_ID = Prepared(_OF_ID)
_LOCKED = Prepared(_OF_ID.with_for_update())
_BY_NAME = Prepared(_ALL.where(COLUMNS.name == sa.bindparam("name")))


def insert(tx: Connection, new: CatalogFlavor) -> None:
    """Add a row; raises IntegrityError for an id or a name that exists."""
    flavor = new.flavor
    tx.execute(
        sa.insert(t.flavors).values(
            id=flavor.id,
            name=flavor.name,
            vcpus=flavor.vcpus,
            ram_mb=flavor.ram_mb,
            disk_gb=flavor.disk_gb,
            ephemeral_gb=flavor.ephemeral_gb,
            swap_mb=flavor.swap_mb,
            extra_specs=sorted_json(flavor.extra_specs),
            is_public=new.is_public,
            description=new.description,
            rxtx_factor=new.rxtx_factor,
        )
    )


def read_all(tx: Connection, viewer: Viewer = SEES_ALL) -> list[CatalogFlavor]:
    """List all flavors that the viewer sees, by name."""
    return _read(tx, _EVERY, viewer)


def read_one(tx: Connection, flavor_id: str, viewer: Viewer = SEES_ALL) -> CatalogFlavor | None:
    """Read one flavor by id; none where the viewer does not see it."""
    return next(iter(_read(tx, _BY_ID, viewer, id=flavor_id)), None)


def lock(tx: Connection, flavor_id: str) -> CatalogFlavor | None:
    """Read one flavor by id, and lock it until the transaction ends."""
    return next(iter(_read(tx, _LOCKED, SEES_ALL, id=flavor_id)), None)


def read_by_name(tx: Connection, name: str, viewer: Viewer = SEES_ALL) -> CatalogFlavor | None:
    """Read the flavor of that name; none where the viewer does not see it."""
    return next(iter(_read(tx, _BY_NAME, viewer, name=name)), None)


def set_extra_specs(tx: Connection, flavor_id: str, extra_specs: Mapping[str, str]) -> None:
    """Replace a flavor's extra specs."""
    tx.execute(
        sa.update(t.flavors).where(COLUMNS.id == flavor_id).values(extra_specs=sorted_json(extra_specs))
    )


def set_description(tx: Connection, flavor_id: str, description: str) -> None:
    """Replace a flavor's description."""
    tx.execute(sa.update(t.flavors).where(COLUMNS.id == flavor_id).values(description=description))


def delete(tx: Connection, flavor_id: str) -> bool:
    """Delete a flavor and the projects' access to it; False if there was none."""
    tx.execute(sa.delete(t.flavor_projects).where(_ACCESS.flavor_id == flavor_id))
    return tx.execute(sa.delete(t.flavors).where(COLUMNS.id == flavor_id)).rowcount > 0


def projects(tx: Connection, flavor_id: str) -> list[str]:
    """List the projects that were given access to a flavor, in order of id."""
    statement = sa.select(_ACCESS.project_id).where(_ACCESS.flavor_id == flavor_id)
    return list(tx.execute(statement.order_by(_ACCESS.project_id)).scalars())


def add_project(tx: Connection, flavor_id: str, project_id: str) -> None:
    """Give a project access; raises IntegrityError where it has it."""
    tx.execute(sa.insert(t.flavor_projects).values(flavor_id=flavor_id, project_id=project_id))


def remove_project(tx: Connection, flavor_id: str, project_id: str) -> bool:
    """Take a project's access away; False where it had none."""
    statement = sa.delete(t.flavor_projects).where(
        _ACCESS.flavor_id == flavor_id, _ACCESS.project_id == project_id
    )
    return tx.execute(statement).rowcount > 0


def _read(tx: Connection, statement: Prepared, viewer: Viewer, **values: str) -> list[CatalogFlavor]:
    match viewer:
        case SeesAll():
            found = statement.all(tx, sees_all=1, project_id="", **values)
        case SeesOfProject(project_id):
            found = statement.all(tx, sees_all=0, project_id=project_id, **values)
    return [_from_row(row) for row in found]


def _from_row(row: Any) -> CatalogFlavor:
    flavor = Flavor(
        id=row.id,
        name=row.name,
        vcpus=row.vcpus,
        ram_mb=row.ram_mb,
        disk_gb=row.disk_gb,
        extra_specs=orjson.loads(row.extra_specs),
        ephemeral_gb=row.ephemeral_gb,
        swap_mb=row.swap_mb,
    )
    return CatalogFlavor(flavor, bool(row.is_public), row.description, row.rxtx_factor)
