"""Moves and builds over zones that are under way when one of the zones is put back from a copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from tests.simulation.operators import Operators
from tests.simulation.restore_points import BUILD, EVACUATION, MIGRATION, MOVES, RESIZE, UNSHELVE
from tests.simulation.site import Site
from tests.simulation.stage import Stage
from tests.simulation.users import Illegal, Users

LOOK_EACH_S = 0.1
MOST_SERVERS = 3

_PRESENT_IN_CHILD = (
    " FROM instances i JOIN instance_states s ON s.uuid = i.uuid"
    " JOIN placements p ON p.uuid = i.uuid AND p.number = i.attempt AND p.kind = 'child'"
)
_MOVES_PARENTS = (
    "SELECT 1 FROM moves m JOIN instances i ON i.uuid = m.uuid, identity z WHERE i.caller_id != z.zone_uuid"
    " AND m.state NOT IN ('done', 'failed', 'reverted') AND m.kind = "
)
_PLACES_ANEW = (
    f"SELECT 1{_PRESENT_IN_CHILD} JOIN instance_actions a ON a.uuid = i.uuid AND a.finished_at = 0.0"
    " WHERE a.action = "
)

BY_ITS_ROWS: Mapping[str, Sequence[str]] = {
    MIGRATION: (
        f"{_MOVES_PARENTS} 'migration'",
        f"SELECT 1{_PRESENT_IN_CHILD} WHERE p.state = 'confirmed' AND s.moves_begun != s.moves_ended",
    ),
    RESIZE: (
        f"{_MOVES_PARENTS} 'resize'",
        f"SELECT 1{_PRESENT_IN_CHILD} WHERE p.state = 'confirmed' AND (s.resizes_begun !="
        " s.observed_resizes_confirmed + s.observed_resizes_reverted)",
    ),
    UNSHELVE: (f"{_PLACES_ANEW} 'unshelve'",),
    EVACUATION: (
        f"{_PLACES_ANEW} 'evacuate'",
        "SELECT 1 FROM instances i JOIN instance_states s ON s.uuid = i.uuid, identity z"
        " WHERE i.caller_id != z.zone_uuid AND i.status = 'OFFLOADED'"
        " AND s.observed_reason = 'host_evacuated'",
    ),
    BUILD: (),
}
"""Moves of servers that other zones have a part in, by the rows of a zone that has one itself."""

BY_ITS_PARENTS_ROWS: Mapping[str, str] = {
    UNSHELVE: f"{_PLACES_ANEW} 'unshelve' AND p.child_id = ?",
    EVACUATION: f"{_PLACES_ANEW} 'evacuate' AND p.child_id = ?",
    BUILD: "SELECT 1 FROM placements WHERE state = 'intended' AND child_id = ?",
}
"""The same, by the rows of the parent of the zone."""


_SERVERS = (
    "SELECT i.uuid FROM instances i JOIN placements p ON p.uuid = i.uuid AND p.number = i.attempt, identity z"
    " WHERE i.status = 'ACTIVE' AND p.state = 'confirmed'"
    " AND (p.kind = 'child' OR i.caller_id != z.zone_uuid)"
    f" ORDER BY i.uuid LIMIT {MOST_SERVERS}"
)
"""Select servers of a zone that another zone has a part in."""

_IS_OWNER = "SELECT 1 FROM instances i, identity z WHERE i.uuid = ? AND i.caller_id = z.zone_uuid"
_HAS = "SELECT 1 FROM placements WHERE uuid = ? AND kind = 'host' AND state = 'confirmed'"
_IS_OFFLOADED = "SELECT 1 FROM instances WHERE uuid = ? AND status = 'OFFLOADED'"
_IS_RESIZED = (
    "SELECT 1 FROM instance_states WHERE uuid = ?"
    " AND observed_resizes_begun > observed_resizes_confirmed + observed_resizes_reverted"
)


class OverZones:
    """Lets admins begin moves of servers that two zones have a part in. A move is one of `MOVES`."""

    def __init__(self, stage: Stage, sites: Mapping[str, Site], users: Users, operators: Operators) -> None:
        self._stage = stage
        self._sites = sites
        self._users = users
        self._operators = operators

    def under_way(self, site: Site, kinds: Sequence[str] = MOVES) -> list[str]:
        """Return what of these a zone has a part in now."""
        return [kind for kind in kinds if self._is_under_way(kind, site)]

    def begin(self, kind: str, site: Site, before: Callable[[], None]) -> None:
        """Begin moves of this kind and wait until one is under way; a build begins by itself.

        `before` is called before them. Ends with the storm.
        """
        if kind == BUILD:
            before()
        else:
            self._wait(lambda: bool(site.rows.execute(_SERVERS).fetchone()))
            before()
            for (uuid,) in site.rows.execute(_SERVERS).fetchall():
                self._users.begin("move", partial(self._move, kind, uuid))
        self._wait(lambda: self._is_under_way(kind, site))

    def _is_under_way(self, kind: str, site: Site) -> bool:
        if any(site.rows.execute(query).fetchone() for query in BY_ITS_ROWS[kind]):
            return True
        query, parent = BY_ITS_PARENTS_ROWS.get(kind), self._sites.get(site.plan.parent)
        if query is None or parent is None:
            return False
        return parent.rows.execute(query, (parent.child_ids[site.name],)).fetchone() is not None

    def _move(self, kind: str, uuid: str) -> None:
        draw, owner, holder = self._stage.storm.random, self._one(_IS_OWNER, uuid), self._one(_HAS, uuid)
        if owner is None or holder is None:
            return
        if kind == MIGRATION:
            self._act(holder, uuid, {"migrate": None})
        elif kind == EVACUATION:
            self._operators.evacuate(holder)
        elif kind == UNSHELVE:
            self._act(owner, uuid, {"shelve": None})
            self._wait(lambda: _is_so(owner, _IS_OFFLOADED, uuid))
            self._act(owner, uuid, {"unshelve": None})
        elif kind == RESIZE:
            for flavor in ("big", "small"):
                # It has one of them.
                self._act(owner, uuid, {"resize": {"flavorRef": flavor}})
            self._wait(lambda: _is_so(owner, _IS_RESIZED, uuid))
            self._stage.baton.pause(draw.uniform(0.0, 4.0))
            self._act(owner, uuid, {draw.choice(("confirmResize", "revertResize")): None})

    def _one(self, query: str, uuid: str) -> Site | None:
        return next((site for site in self._sites.values() if _is_so(site, query, uuid)), None)

    def _act(self, site: Site, uuid: str, body: Any) -> None:
        with suppress(Illegal):
            self._users.ask_as_operator(site, "POST", f"/servers/{uuid}/action", body)

    def _wait(self, is_so: Callable[[], bool]) -> None:
        while self._stage.storm.is_raging and not is_so():
            self._stage.baton.pause(LOOK_EACH_S)


def _is_so(site: Site, query: str, uuid: str) -> bool:
    return site.rows.execute(query, (uuid,)).fetchone() is not None
