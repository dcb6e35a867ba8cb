"""Databases with users, flavors and groups in them: made once, then copied with ids of their own."""

from __future__ import annotations

import atexit
import shutil
import sqlite3
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.builders.clock import FakeClock
from tests.builders.inline_executor import InlineExecutor
from tests.simulation import journal
from zonesched import conf as options
from zonesched.model.caller import Role
from zonesched.model.catalog import CatalogFlavor, CatalogImage
from zonesched.model.request_spec import Flavor, GroupPolicy, Image
from zonesched.model.views import ServerGroupForm
from zonesched.seams import Clock
from zonesched.services.catalog import flavors, images, server_groups, users
from zonesched.services.zone import Zone

FLAVORS = {"small": (1, 512), "big": (2, 1024)}
"""vCPUs and MB of RAM, by name."""

IMAGES = {"newer": {}, "picky": {"hw_architecture": "aarch64"}}
"""Properties by name; no host takes the second one."""

USERS = {"admin": Role.ADMIN, "compute": Role.COMPUTE, "parent": Role.PARENT, "stranger": Role.PARENT}
"""The stranger is another parent, which never booted anything."""

GROUPS = {
    "affinity": (GroupPolicy.AFFINITY, 1),
    "anti-affinity": (GroupPolicy.ANTI_AFFINITY, 1),
    "pairs": (GroupPolicy.ANTI_AFFINITY, 2),
}
"""Policy, and how many a host may have, by name."""


@dataclass(frozen=True)
class Furnished:
    """A database, the secrets of its users and its groups' ids, both by name."""

    url: str
    secrets: dict[str, str]
    groups: dict[str, str]


def furnished(path: Path, clock: Clock) -> Furnished:
    """A new database at `path`, of a zone that has never started."""
    template, secrets = _template()
    shutil.copy(template, path)
    groups = {name: clock.new_uuid() for name in GROUPS}
    rows = sqlite3.connect(path)
    with rows:
        for name in USERS:
            rows.execute("UPDATE users SET id = ? WHERE name = ?", (clock.new_uuid(), name))
        for name, group_id in groups.items():
            rows.execute("UPDATE server_groups SET id = ? WHERE name = ?", (group_id, name))
    rows.close()
    return Furnished(f"sqlite:///{path}", dict(secrets), groups)


@cache
def _template() -> tuple[Path, dict[str, str]]:
    folder = Path(tempfile.mkdtemp(prefix="zonesched-furnished-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "zone.sqlite"
    conf = options.load(overrides={"state_path": str(folder)})
    zone = Zone.open(conf, clock=FakeClock(), executor=InlineExecutor())
    secrets = {
        name: users.create(zone.store, zone.clock, name, role, "project-1").secret
        for name, role in USERS.items()
    }
    for name, (vcpus, ram_mb) in FLAVORS.items():
        flavors.create(zone.store, CatalogFlavor(Flavor(name, name, vcpus, ram_mb, 0)))
    for name, properties in IMAGES.items():
        images.create(zone.store, CatalogImage(Image(name, name, properties)))
    admin = users.authenticate(zone, "admin", secrets["admin"])
    for name, (policy, most) in GROUPS.items():
        server_groups.create(zone.store, zone.clock, zone.conf, admin, ServerGroupForm(name, policy, most))
    zone.stop()
    rows = sqlite3.connect(path)
    with rows:
        # Who it is, a zone decides at its first start.
        for table in ("identity", "counters", "epochs"):
            rows.execute(f"DELETE FROM {table}")
        journal.keep(rows)
    rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    rows.close()
    return path, secrets
