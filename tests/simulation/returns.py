"""Child zones that are removed by force and added again: their parent gets its instances back."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

from tests.simulation.site import Site
from tests.simulation.stage import Stage
from tests.simulation.users import Illegal, Refused, Users

SHARE = 0.6
"""Share of the removed zones that are added again."""

PAUSE_S = 2.0
MOST_ROUNDS = 12
"""Repairs of a parent, before what they still change is wrong."""

NOT_COMPARED = "child_not_compared"

_THERE = "SELECT 1 FROM placements WHERE child_id = ? AND state = 'confirmed'"


class Returns:
    """`again`: zones that were or will be added again. `wrong`: what repairs change again and again."""

    def __init__(self, stage: Stage, users: Users, *, are_planned: bool) -> None:
        self.again: set[str] = set()
        self.wrong: list[str] = []
        self._stage = stage
        self._users = users
        # Its own draws, so that a seed without removals is played as it would be without this.
        self._random = random.Random(f"returns {stage.seed}")
        self._are_planned = are_planned

    def remove(self, parent: Site, child: Site) -> None:
        """Remove a child by force, for good or for a while."""
        if child.name in self._users.removed | self.again:
            return
        if self._are_planned and self._random.random() < SHARE:
            self.again.add(child.name)
            self._users.begin("remove-for-a-while", lambda: self._remove_for_a_while(parent, child))
        else:
            self._users.remove_child(parent, child)

    def _remove_for_a_while(self, parent: Site, child: Site) -> None:
        """Remove it once it has something of its parent's."""
        id = parent.child_ids[child.name]
        while self._stage.storm.is_raging and not parent.rows.execute(_THERE, (id,)).fetchall():
            self._stage.baton.pause(PAUSE_S)
        self._stage.baton.pause(self._random.uniform(0.0, PAUSE_S))
        self._users.remove_child(parent, child, lambda: self._add(parent, child))

    def _add(self, parent: Site, child: Site) -> None:
        """Add it by the user that its parent had before, and repair once nothing disturbs that any more."""
        self._stage.baton.pause(self._random.uniform(0.1, 40.0))
        ids: list[str] = []
        while not ids:
            # Another secret may just be on its way.
            with suppress(Illegal, Refused):
                self._users.ask_as_operator(parent, "POST", "/zones", _form(child))
            listed = self._users.ask_as_operator(parent, "GET", "/zones").json()["zones"]
            ids = [one["id"] for one in listed if one["name"] == child.name]
            self._stage.baton.pause(PAUSE_S)
        (parent.child_ids[child.name],) = ids
        self._users.removed.remove(child.name)
        while self._stage.storm.is_raging:
            self._stage.baton.pause(PAUSE_S)
        self._repair(parent)

    def _repair(self, parent: Site) -> None:
        lines: list[Any] = []
        for _ in range(MOST_ROUNDS):
            self._stage.baton.pause(PAUSE_S)
            body = {"repair": {"delete_unknown": False}}
            lines = self._users.ask_as_operator(parent, "POST", "/audit", body).json()["inconsistencies"]
            for line in lines:
                found = f"{parent.name}: {line['kind']} {line['subject']}: {line['action']}"
                self._stage.note("operator", found)
            if not any(line["repaired"] or line["kind"] == NOT_COMPARED for line in lines):
                return
        repaired = [line for line in lines if line["repaired"]]
        self.wrong += [f"{parent.name} is repaired again and again: {line}" for line in repaired]


def _form(child: Site) -> dict[str, Any]:
    access = {"username": "parent", "password": child.secrets["parent"]}
    return {"zone": {"name": child.name, "api_url": child.url, **access}}
