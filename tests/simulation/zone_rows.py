"""Rows of one zone's database, read by plain SQL."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

Rows = list[sqlite3.Row]
Key = tuple[str, int]

DONE_WITH = ("moved", "build_timeout", "host_evacuated")
"""Reasons of those whose instances need nothing of them any more."""


@dataclass
class ZoneRows:
    """All that one zone's database says."""

    name: str
    uuid: str
    instances: dict[str, sqlite3.Row]
    places: dict[Key, sqlite3.Row]
    reservations: Rows
    builds: Rows
    inventories: Rows
    groups: Rows
    states: dict[str, sqlite3.Row]
    actions: Rows
    moves: Rows
    child_names: dict[str, str]
    user_ids: dict[str, str]
    host_names: dict[str, str]
    lost_hosts: frozenset[str] = frozenset()
    """Ids of hosts whose agents never come back."""

    unsettled: frozenset[str] = frozenset()
    """Instances that wait for an owner above, who has given up the zone, to confirm or revert a resize."""

    @property
    def undone_deletes(self) -> frozenset[str]:
        """Instances that were not deleted after all, since nobody could stop them."""
        failed = (row for row in self.actions if (row["action"], row["result"]) == ("delete", "error"))
        return frozenset(row["uuid"] for row in failed)

    @property
    def sent_here(self) -> frozenset[str]:
        """Instances of its parent."""
        parent = self.user_ids.get("parent", "")
        # Its operator may have removed the parent that has removed it.
        return frozenset(
            uuid
            for uuid, row in self.instances.items()
            if row["caller_id"] == parent or (not parent and row["caller_id"] != self.uuid)
        )

    def is_lost(self, place: sqlite3.Row) -> bool:
        """Tell whether a place is on a host whose agent never comes back."""
        return place["kind"] == "host" and place["host_id"] in self.lost_hosts

    def waits_for_lost(self, place: sqlite3.Row) -> bool:
        """Tell whether an instance cannot go on before that agent is back."""
        is_left = place["state"] == "releasing" and place["reason"] not in DONE_WITH
        return self.is_lost(place) and (place["state"] in ("confirmed", "parked") or is_left)

    def returns_from_lost(self, uuid: str) -> bool:
        """Tell whether an instance returns to its old place once a lost agent has reported the new one."""
        news = [
            self.places[uuid, move["to_number"]]
            for move in self.moves
            if (move["uuid"], move["state"]) == (uuid, "returning")
        ]
        return any(map(self.is_lost, news))

    def places_of(self, uuid: str) -> list[sqlite3.Row]:
        return [row for (of, _), row in self.places.items() if of == uuid]


def read(name: str, rows: sqlite3.Connection) -> ZoneRows:
    """Read the database of a zone."""
    cursor = rows.cursor()
    cursor.row_factory = sqlite3.Row

    def every(what: str) -> Rows:
        return cursor.execute(f"SELECT * FROM {what} ORDER BY 1, 2").fetchall()

    return ZoneRows(
        name=name,
        uuid=every("identity")[0]["zone_uuid"],
        instances={row["uuid"]: row for row in every("instances")},
        places={(row["uuid"], row["number"]): row for row in every("placements")},
        reservations=every("reservations"),
        builds=every("inbound_builds"),
        inventories=every("inventories"),
        groups=every("group_places"),
        states={row["uuid"]: row for row in every("instance_states")},
        actions=every("instance_actions"),
        moves=every("moves"),
        child_names={row["id"]: row["name"] for row in every("children")},
        user_ids={row["name"]: row["id"] for row in every("users")},
        host_names={row["id"]: row["name"] for row in every("hosts")},
    )
