"""Rows of a zone about one server and its surroundings, which OpenStack's clients show."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zonesched.api.links import iso_time, zoneless_time


@dataclass(frozen=True)
class Rows:
    """Rows of the zone about the server, and where its URLs begin."""

    url: str
    server: Mapping[str, Any]
    host: Mapping[str, Any]
    flavor: Mapping[str, Any]
    image: Mapping[str, Any]
    group: Mapping[str, Any]
    keypair: Mapping[str, Any]
    aggregate: Mapping[str, Any]
    inventory: Mapping[str, Mapping[str, Any]]
    service: Mapping[str, Any]

    def links(self, noun: str, id: str) -> list[dict[str, str]]:
        """Return the links of an item."""
        own = {"rel": "self", "href": f"{self.url}/v2.1/{noun}/{id}"}
        return [own, {"rel": "bookmark", "href": f"{self.url}/{noun}/{id}"}]

    @property
    def created(self) -> str:
        return iso_time(self.server["created_at"])

    @property
    def updated(self) -> str:
        return iso_time(self.server["updated_at"])

    @property
    def launched(self) -> str:
        return zoneless_time(int(self.server["built_at"]))

    @property
    def image_text(self) -> str:
        return f"{self.image['name']} ({self.image['id']})"


def read_rows(database: Path, url: str, uuid: str) -> Rows:
    """Read them from the database of the zone where the server was booted."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row

        def one(statement: str, *values: str) -> Mapping[str, Any]:
            (row,) = connection.execute(statement, values).fetchall()
            return dict(row)

        server = one(
            "SELECT i.*, s.built_at, p.host_id FROM instances i JOIN instance_states s ON s.uuid = i.uuid"
            " JOIN placements p ON p.uuid = i.uuid AND p.number = i.attempt WHERE i.uuid = ?",
            uuid,
        )
        host = one("SELECT * FROM hosts WHERE id = ?", server["host_id"])
        inventory = connection.execute("SELECT * FROM inventories WHERE host_id = ?", (host["id"],))
        return Rows(
            url,
            server,
            host,
            one("SELECT * FROM flavors WHERE name = 'f-fields'"),
            one("SELECT * FROM images WHERE name = 'plain'"),
            one("SELECT * FROM server_groups WHERE name = 'g-fields'"),
            one("SELECT * FROM keypairs WHERE name = 'k-fields'"),
            one("SELECT * FROM aggregates WHERE name = 'agg-fields'"),
            {row["resource_class"]: dict(row) for row in inventory},
            one("SELECT * FROM services WHERE id = ?", host["service_id"]),
        )
