"""Server groups at every commit: together in one place, or at most so many on a host (DESIGN, section 6)."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator

Group = tuple[str, str]
Policies = dict[str, tuple[str, int]]
"""By group id, its policy and how many a host may have."""

THERE = ("intended", "held", "confirming", "confirmed", "cancelling", "parked")
"""States of a place at which an instance is, or may yet be."""

TAKING = ("held", "confirmed", "parked")


class Groups:
    """Places of the instances of one group, as seen by each zone that they pass."""

    def __init__(self) -> None:
        self._policies: Policies = {}

    def look(self, zone: str, rows: sqlite3.Connection) -> Iterator[str]:
        # A group is made in one zone, and means the same below.
        for group, policy, most in rows.execute("SELECT id, policy, max_server_per_host FROM server_groups"):
            self._policies[group] = (policy, most)
        places: dict[Group, set[str]] = defaultdict(set)
        # A server that is resized on its host has two places there.
        on_host: dict[tuple[Group, str], set[str]] = defaultdict(set)
        for caller, group, host, child, state, uuid in rows.execute(
            "SELECT i.caller_id, i.group_id, p.host_id, p.child_id, p.state, i.uuid"
            " FROM instances i JOIN placements p ON p.uuid = i.uuid"
            f" WHERE i.group_id != '' AND p.state IN {THERE}"
        ):
            places[caller, group].add(host or child)
            if host and state in TAKING:
                on_host[(caller, group), host].add(uuid)
        for (_, group), found in places.items():
            if self._policies[group][0] == "affinity" and len(found) > 1:
                yield f"group {zone}: {group} is to be together and is in {len(found)} places"
        for ((_, group), host), members in on_host.items():
            policy, most = self._policies[group]
            if policy == "anti-affinity" and len(members) > most:
                yield f"group {zone}: {group} has {len(members)} on host {host}, at most {most} may be there"
