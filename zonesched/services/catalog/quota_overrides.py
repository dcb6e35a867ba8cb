"""Quota overrides of single projects and parents, which this zone's admin sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zonesched.model.caller import Caller, Role
from zonesched.services.catalog import users
from zonesched.services.state.quotas import Limit, Quotas
from zonesched.store import quota_overrides as rows
from zonesched.store import usage
from zonesched.store import users as user_rows
from zonesched.store.store import Store, Transaction
from zonesched.store.users import User


@dataclass(frozen=True)
class LimitsView:
    """Limits of a project or a parent; `overrides`: those that differ from the options."""

    limits: list[Limit]
    overrides: Mapping[str, int]


@dataclass(frozen=True)
class AllQuotaOverrides:
    """All quota overrides, by project id and by the name of a parent's user."""

    projects: Mapping[str, Mapping[str, int]]
    parents: Mapping[str, Mapping[str, int]]


def list_all(store: Store) -> AllQuotaOverrides:
    """List all quota overrides."""
    found, known = store.read(lambda tx: (rows.read_all(tx), user_rows.read_all(tx)))
    names = {user.id: user.name for user in known if user.role is Role.PARENT}
    return AllQuotaOverrides(
        {subject: own for subject, own in found.items() if subject not in names},
        {names[subject]: own for subject, own in found.items() if subject in names},
    )


def of_caller(store: Store, quotas: Quotas, caller: Caller) -> list[Limit]:
    """Read the limits and the use of the caller's project, or of a parent."""
    if caller.role is Role.PARENT:
        return store.read(lambda tx: quotas.of_parent(tx, caller.user_id))
    return store.read(lambda tx: quotas.of_project(tx, caller.project_id))


def of_project(store: Store, quotas: Quotas, project_id: str) -> LimitsView:
    """Read the limits of a project, known to this zone or not."""
    return store.read(lambda tx: _project(quotas, tx, project_id))


def of_parent(store: Store, quotas: Quotas, name: str) -> LimitsView:
    """Read the limits of a parent. Raises NotFound, and BadRequest for a user that is not a parent."""
    return store.read(lambda tx: _parent(quotas, tx, users.existing_parent(tx, name)))


@dataclass(frozen=True)
class ProjectUse:
    """The usage of one project."""

    instances: int
    vcpus: int
    ram_mb: int
    server_groups: int


def use_of_project(store: Store, zone_uuid: str, project_id: str) -> ProjectUse:
    """Sum up the instances of a project that run or may still be built, and count its server groups."""

    return store.read(lambda tx: _use(tx, zone_uuid, project_id))


def limits_and_use(
    store: Store, quotas: Quotas, zone_uuid: str, project_id: str
) -> tuple[list[Limit], ProjectUse]:
    """Read the limits of a project and its use; its instances are counted once."""

    def fn(tx: Transaction) -> tuple[list[Limit], ProjectUse]:
        used = _use(tx, zone_uuid, project_id)
        return quotas.of_project(tx, project_id, used.instances), used

    return store.read(fn)


def _use(tx: Transaction, zone_uuid: str, project_id: str) -> ProjectUse:
    found = usage.sum_of_project(tx, zone_uuid, project_id)
    return ProjectUse(
        instances=found.instances,
        vcpus=found.vcpus,
        ram_mb=found.ram_mb,
        server_groups=usage.server_groups(tx, project_id),
    )


def change_project(
    store: Store, quotas: Quotas, project_id: str, wanted: Mapping[str, int | None]
) -> LimitsView:
    """Override limits of a project, or with None reset them; limits that are not named stay."""

    def fn(tx: Transaction) -> LimitsView:
        rows.write(tx, project_id, wanted)
        return _project(quotas, tx, project_id)

    return store.write(fn)


def change_parent(store: Store, quotas: Quotas, name: str, wanted: Mapping[str, int | None]) -> LimitsView:
    """Override limits of a parent, as `change_project` does. Raises the errors of `of_parent`."""

    def fn(tx: Transaction) -> LimitsView:
        parent = users.existing_parent(tx, name)
        # Limits of a user that is removed meanwhile would outlast it, as those of a project.
        if not user_rows.lock_secret(tx, parent.id):
            raise users.unknown()
        rows.write(tx, parent.id, wanted)
        return _parent(quotas, tx, parent)

    return store.write(fn)


def _project(quotas: Quotas, tx: Transaction, project_id: str) -> LimitsView:
    return LimitsView(quotas.of_project(tx, project_id), rows.read_all(tx).get(project_id, {}))


def _parent(quotas: Quotas, tx: Transaction, parent: User) -> LimitsView:
    return LimitsView(quotas.of_parent(tx, parent.id), rows.read_all(tx).get(parent.id, {}))
