"""Rows that nothing of the package would write: what `audit --repair` is there for."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable

Rows = sqlite3.Connection


def damage(rows: Rows, draw: random.Random) -> str:
    """Spoil a zone's database in one way; what was done, "" where there is nothing to spoil."""
    kinds: list[Callable[[Rows, random.Random], str]] = [_count_twice, _keep_claim, _keep_group_place]
    draw.shuffle(kinds)
    return next((done for kind in kinds if (done := kind(rows, draw))), "")


def _count_twice(rows: Rows, draw: random.Random) -> str:
    """Damage: the used amount is no longer the sum of the claims."""
    found = rows.execute("SELECT host_id, resource_class FROM inventories ORDER BY 1, 2").fetchall()
    if not found:
        return ""
    host, name = draw.choice(found)
    amount = draw.choice((1, 3))
    rows.execute(
        "UPDATE inventories SET used = used + ? WHERE host_id = ? AND resource_class = ?",
        (amount, host, name),
    )
    return f"{amount} more of {name} are in use on {host}"


def _keep_claim(rows: Rows, draw: random.Random) -> str:
    """An instance that has ended takes room again."""
    found = rows.execute(
        "SELECT p.uuid, p.number, p.host_id, p.resources FROM placements p"
        " JOIN instances i ON i.uuid = p.uuid AND i.status IN ('DELETED', 'ERROR', 'OFFLOADED')"
        " WHERE p.kind = 'host' AND p.state IN ('released', 'gone') ORDER BY 1, 2"
    ).fetchall()
    if not found:
        return ""
    uuid, number, host, resources = draw.choice(found)
    key = (uuid, number)
    rows.execute("UPDATE placements SET state = 'confirmed' WHERE uuid = ? AND number = ?", key)
    for name, amount in json.loads(resources).items():
        rows.execute(
            "UPDATE inventories SET used = used + ? WHERE host_id = ? AND resource_class = ?",
            (amount, host, name),
        )
    return f"{uuid} is confirmed at {number} again"


def _keep_group_place(rows: Rows, draw: random.Random) -> str:
    """A group that is nowhere keeps a place."""
    (zone,) = rows.execute("SELECT zone_uuid FROM identity").fetchone()
    hosts = rows.execute("SELECT id FROM hosts ORDER BY 1").fetchall()
    groups = rows.execute(
        "SELECT id FROM server_groups WHERE policy = 'affinity'"
        " AND id NOT IN (SELECT group_id FROM group_places) ORDER BY 1"
    ).fetchall()
    if not hosts or not groups:
        return ""
    (host,), (group,) = draw.choice(hosts), draw.choice(groups)
    rows.execute(
        "INSERT INTO group_places (caller_id, group_id, host_id) VALUES (?, ?, ?)", (zone, group, host)
    )
    return f"group {group} keeps {host}"
