"""Rows of the scene that operators and owners change: flavors, images, aggregates, users, and the like."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import sqlalchemy as sa

from tests.builders.one_zone import AGENT, put_instance, put_reservation, sql
from zonesched.model.caller import Caller, Role
from zonesched.model.catalog import CatalogFlavor, CatalogImage
from zonesched.model.placement import InstanceStatus
from zonesched.model.request_spec import Flavor, GroupPolicy, Image
from zonesched.model.views import ServerGroupForm
from zonesched.services.catalog import dashboard_sessions, flavors, images, keypairs, server_groups
from zonesched.services.hosts import aggregates, hosts, services
from zonesched.services.zone import Zone
from zonesched.store import tables, users
from zonesched.store.users import User

FLAVOR, PRIVATE, LARGE = "f1", "f2", "f3"
IMAGE, OTHER_IMAGE = "i1", "i2"
FILLED, EMPTY = "1", "2"
ADMINS = ("admin-1", "admin-2")
PARENT_USER = "parent-2"
SECRET = "sha256$"
PERSON = Caller("person-1", "person", Role.MEMBER, "project-1", proof=SECRET)
IDLE_AGENT = "idle"
PRUNED, PRUNED_BOOT = "11111111-1111-4111-8111-000000000024", "11111111-1111-4111-8111-000000000170"
"""An instance of a parent that was deleted, and its boot."""


@dataclass(frozen=True)
class Furnished:
    """The token of a one-time link, the id of the idle agent's service, and that of a group of `admin`."""

    link: str
    idle_agent_id: str
    group_id: str


def add_flavors(zone: Zone) -> None:
    """Add the flavors, to one of which the scene resizes an instance."""
    for flavor, is_public in ((FLAVOR, True), (PRIVATE, False), (LARGE, True)):
        # Its extra spec is one that no host has; the large one has room on hosts.
        spec = (
            Flavor(flavor, flavor, 2, 512, 0)
            if flavor == LARGE
            else Flavor(flavor, flavor, 1, 512, 0, {"kept": "yes"})
        )
        flavors.create(zone.store, CatalogFlavor(spec, is_public=is_public))


def furnish(zone: Zone, *, admin: Caller, parent: Caller, server: str) -> Furnished:
    """Add the other rows. `server`: an instance that gets user_data in the clear."""
    for image in (IMAGE, OTHER_IMAGE):
        images.create(zone.store, CatalogImage(Image(image, image, {"os": "linux"})))
    for name in ("filled", "empty"):
        aggregates.create(zone.store, zone.clock, name, None)
    for host in ("h1", "h5"):
        aggregates.add_host(zone.store, zone.wake, FILLED, host)
    hosts.register(zone, AGENT, IDLE_AGENT, [])
    people = [(name, Role.ADMIN) for name in ADMINS] + [(PERSON.user_id, PERSON.role)]
    for user_id, role in [*people, (PARENT_USER, Role.PARENT)]:
        user = User(user_id, user_id, role, "project-1", SECRET, 0.0)
        zone.store.write(partial(_add_user, user))
    # One key pair below the limit.
    key = keypairs.make(zone.store, zone.clock, PERSON.user_id, "key-1")[0]
    for number in range(2, keypairs.MAX_PER_USER):
        sql(
            zone,
            "INSERT INTO keypairs VALUES (:user, :name, :key, :print, 0)",
            user=PERSON.user_id,
            name=f"key-{number}",
            key=key.public_key,
            print=key.fingerprint,
        )
    zone.store.write(partial(_set_user_data, server))
    put_reservation(zone, PRUNED_BOOT, caller_id=parent.user_id)
    put_instance(
        zone,
        PRUNED,
        status=InstanceStatus.DELETED,
        attempt=0,
        caller_id=parent.user_id,
        reservation_id=PRUNED_BOOT,
    )
    (idle,) = services.list_services(zone, IDLE_AGENT)
    form = ServerGroupForm("group", GroupPolicy.AFFINITY)
    group = server_groups.create(zone.store, zone.clock, zone.conf, admin, form)
    return Furnished(dashboard_sessions.new_link(zone, PERSON).token, idle.id, group.id)


def _add_user(user: User, tx: sa.Connection) -> None:
    users.insert(tx, user)


def _set_user_data(uuid: str, tx: sa.Connection) -> None:
    row = tables.instances
    tx.execute(sa.update(row).where(row.c.uuid == uuid).values(passthrough='{"user_data":"eA=="}'))
