"""Rows of a zone about one server and its surroundings, which OpenStack's clients show."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zonesched.model.openstack_time import iso_time, zoneless_time


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
    hosts: Sequence[tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]]]
    """All hosts with their inventories by resource class."""
    action: Mapping[str, Any]
    """The reboot of the server."""

    def links(self, noun: str, id: str) -> list[dict[str, str]]:
        """Return the links of an item."""
        own = {"rel": "self", "href": f"{self.url}/v2.1/{noun}/{id}"}
        return [own, {"rel": "bookmark", "href": f"{self.url}/{noun}/{id}"}]

    @property
    def zone_of_host(self) -> str:
        """The availability zone that the host has by its aggregate, or else by its agent."""
        in_aggregate = self.host["name"] == "root-general-1"
        return "az-fields" if in_aggregate else str(self.host["availability_zone"])

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
        inventories: dict[str, dict[str, Mapping[str, Any]]] = {}
        for row in connection.execute("SELECT * FROM inventories"):
            inventories.setdefault(row["host_id"], {})[row["resource_class"]] = dict(row)
        hosts = [dict(row) for row in connection.execute("SELECT * FROM hosts")]
        return Rows(
            url,
            server,
            host,
            one("SELECT * FROM flavors WHERE name = 'f-fields'"),
            one("SELECT * FROM images WHERE name = 'plain'"),
            one("SELECT * FROM server_groups WHERE name = 'g-fields'"),
            one("SELECT * FROM keypairs WHERE name = 'k-fields'"),
            one("SELECT * FROM aggregates WHERE name = 'agg-fields'"),
            inventories[host["id"]],
            one("SELECT * FROM services WHERE id = ?", host["service_id"]),
            [(row, inventories[row["id"]]) for row in hosts],
            one("SELECT * FROM instance_actions WHERE action = 'reboot' AND uuid = ?", uuid),
        )


class ZoneRows:
    """The database of a zone, to read."""

    def __init__(self, database: Path) -> None:
        self._connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)

    def text(self, statement: str) -> str:
        """Return the rows of a statement, a line each, with `|` between the columns."""
        return "\n".join("|".join(map(str, row)) for row in self._connection.execute(statement))

    def ids(self) -> Mapping[str, Mapping[str, str]]:
        """Return the ids of what is there now, by kind and name."""
        statements = {
            "servers": "SELECT name, uuid FROM instances WHERE status != 'DELETED'",
            "aggregates": "SELECT name, number FROM aggregates",
            "groups": "SELECT name, id FROM server_groups",
            "moves": "SELECT i.name, m.id FROM moves m JOIN instances i USING (uuid)"
            " WHERE i.status != 'DELETED' ORDER BY m.created_at",
            **{kind: f"SELECT name, id FROM {kind}" for kind in ("flavors", "images", "hosts")},
        }
        return {kind: dict(self._connection.execute(text)) for kind, text in statements.items()}

    def close(self) -> None:
        self._connection.close()
