"""Databases with users, flavors and groups in them: made once, then copied with ids of their own."""

from __future__ import annotations

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

PROJECT = "project-1"
"""Everybody's project."""

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
    """The secrets of a zone's users and its groups' ids, both by name."""

    secrets: dict[str, str]
    groups: dict[str, str]


def furnish(rows: sqlite3.Connection, clock: Clock) -> Furnished:
    """Make an empty database that of a zone which has never started."""
    template, secrets = _template()
    template.backup(rows)
    groups = {name: clock.new_uuid() for name in GROUPS}
    for name in USERS:
        rows.execute("UPDATE users SET id = ? WHERE name = ?", (clock.new_uuid(), name))
    for name, group_id in groups.items():
        rows.execute("UPDATE server_groups SET id = ? WHERE name = ?", (group_id, name))
    return Furnished(dict(secrets), groups)


@cache
def _template() -> tuple[sqlite3.Connection, dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="zonesched-furnished-") as folder:
        secrets = _make(folder)
        rows = sqlite3.connect(Path(folder) / "zone.sqlite", isolation_level=None)
        # Who it is, a zone decides at its first start.
        for table in ("identity", "counters", "epochs"):
            rows.execute(f"DELETE FROM {table}")
        journal.keep(rows)
        # A database in memory has no write-ahead log.
        rows.execute("PRAGMA journal_mode=DELETE")
        template = sqlite3.connect(":memory:")
        rows.backup(template)
        rows.close()
    return template, secrets


def _make(folder: str) -> dict[str, str]:
    """Furnish the database of a zone in a folder; return the secrets of its users."""
    conf = options.load(overrides={"state_path": str(folder)})
    zone = Zone.open(conf, clock=FakeClock(), executor=InlineExecutor())
    secrets = {
        name: users.create(zone.store, zone.clock, name, role, PROJECT).secret for name, role in USERS.items()
    }
    for name, (vcpus, ram_mb) in FLAVORS.items():
        flavors.create(zone.store, CatalogFlavor(Flavor(name, name, vcpus, ram_mb, 0)))
    for name, properties in IMAGES.items():
        images.create(zone.store, CatalogImage(Image(name, name, properties)))
    admin = users.authenticate(zone, "admin", secrets["admin"])
    for name, (policy, most) in GROUPS.items():
        server_groups.create(zone.store, zone.clock, zone.conf, admin, ServerGroupForm(name, policy, most))
    zone.stop()
    return secrets
