"""Kinds of owners: about boots under way, a server that rests, the last place of a quota, and limits."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from tests.interleaving.catalog import FLAVOR, IMAGE, PARENT_USER, PRIVATE
from tests.interleaving.names import ADMIN, NEW_SERVERS, OWNER, RESTING
from tests.interleaving.operator_kinds import Act
from tests.interleaving.scene import Scene
from zonesched.errors import ZoneschedError
from zonesched.model.action_table import Action
from zonesched.model.boot_form import BootForm
from zonesched.model.caller import Role
from zonesched.model.catalog import CatalogFlavor
from zonesched.model.request_spec import Flavor
from zonesched.services.boot import boot, provision
from zonesched.services.catalog import flavors, quota_overrides, server_groups, users
from zonesched.services.owners import actions, servers
from zonesched.services.zone import Zone
from zonesched.store import reservations

ONE_LEFT = (
    "INSERT INTO quota_overrides (subject, name, hard_limit)"
    " SELECT 'project-1', 'project_instances', count(*) + 1 FROM instances WHERE project_id = 'project-1'"
    " AND caller_id = (SELECT zone_uuid FROM identity)"
    " AND status IN ('BUILD', 'ACTIVE', 'UNKNOWN', 'OFFLOADED')",
)
"""The project may have one instance more."""

SHARED = (f"INSERT INTO flavor_projects (flavor_id, project_id) VALUES ('{PRIVATE}', 'project-9')",)


def _new_deleted(scene: Scene, zone: Zone, number: int) -> object:
    return servers.delete(zone, OWNER, NEW_SERVERS[0])


def _accepts(zone: Zone) -> None:
    boot.accept(zone, OWNER, BootForm("vm", FLAVOR, IMAGE, 1, 1))


def _accepted_last(scene: Scene, zone: Zone, number: int) -> None:
    _accepts(zone)


def _boot_fails(scene: Scene, zone: Zone, number: int) -> None:
    """Boot what no host can take."""
    _accepts(zone)
    new = zone.boots.take()
    assert new is not None
    provision.begin(zone, new)


def _unshelved(scene: Scene, zone: Zone, number: int) -> None:
    with suppress(ZoneschedError):
        actions.act(zone, ADMIN, RESTING, Action.UNSHELVE)
    now = zone.clock.now()
    # The new boots are leased: this one alone is due.
    lease = zone.store.write(lambda tx: reservations.take_lease(tx, now, zone.conf.boot_lease))
    if lease is not None:
        provision.carry_on(zone, lease)


def _resting_deleted(scene: Scene, zone: Zone, number: int) -> object:
    return servers.delete(zone, ADMIN, RESTING)


def _group_deleted(scene: Scene, zone: Zone, number: int) -> object:
    return server_groups.delete(zone.store, ADMIN, scene.furnished.group_id)


def _parent_limited(scene: Scene, zone: Zone, number: int) -> None:
    quota_overrides.change_parent(zone.store, zone.quotas, PARENT_USER, {"parent_holds": 5 + number})


def _parent_user_deleted(scene: Scene, zone: Zone, number: int) -> object:
    return users.delete(zone.store, zone.verified, PARENT_USER)


def _user_created(scene: Scene, zone: Zone, number: int) -> None:
    users.create(zone.store, zone.clock, "new", Role.PARENT, "-")


def _flavor_created(scene: Scene, zone: Zone, number: int) -> None:
    flavors.create(zone.store, CatalogFlavor(Flavor(f"new-{number}", "new", 1, 512, 0)))


def _flavor_unshared(scene: Scene, zone: Zone, number: int) -> object:
    return flavors.remove_access(zone.store, PRIVATE, "project-9")


ACTS: Mapping[str, tuple[Act, tuple[str, ...]]] = {
    "new_deleted": (_new_deleted, ()),
    "accepted_last": (_accepted_last, ONE_LEFT),
    "boot_fails": (_boot_fails, ()),
    "unshelved": (_unshelved, ()),
    "resting_deleted": (_resting_deleted, ()),
    "group_deleted": (_group_deleted, ()),
    "parent_limited": (_parent_limited, ()),
    "parent_user_deleted": (_parent_user_deleted, ()),
    "user_created": (_user_created, ()),
    "flavor_created": (_flavor_created, ()),
    "flavor_unshared": (_flavor_unshared, SHARED),
}
"""Kinds by name, each with the statements that set its own scene."""
