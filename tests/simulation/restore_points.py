"""Points of seeds in which a zone's rows are put back from a copy: what has to happen sometimes, by name."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Line = Mapping[str, Any]
"""A line of an audit's answer."""

LIVING = ("BUILD", "ACTIVE", "UNKNOWN")

ROOT, MIDDLE, LEAF = (f"a {kind} was restored" for kind in ("root", "zone between others", "leaf"))
AGAIN = "a zone was restored a second time"
IN_RECOVERY = "a zone was restored during its recovery"
NEIGHBOURS = "two zones were restored"
OLD_ENTRY = "an entry from before a restore did not open"
TWICE = "an instance was found twice"
ADOPTED = "an instance that the copy lacked was adopted"
UNCLAIMED = "an instance that the copy lacked was nobody's"
ENDED_AS_UNKNOWN = "an instance that was nobody's was ended by its operator"

UNDER_WAY: Mapping[str, str] = {
    "a zone was restored during a boot": "SELECT 1 FROM reservations WHERE state = 'open'",
    "a zone was restored during a move": (
        "SELECT 1 FROM moves WHERE state NOT IN ('done', 'failed', 'reverted')"
    ),
}
"""Points by the rows that are there when a zone goes down."""

MIGRATION, RESIZE, UNSHELVE, EVACUATION, BUILD = "migration", "resize", "unshelve", "evacuation", "build"
MOVES: Sequence[str] = (MIGRATION, RESIZE, UNSHELVE, EVACUATION)

IN_MOVE = {kind: f"a zone was restored during a move over zones: {kind}" for kind in MOVES}
COPIED_IN_MOVE = "a zone was restored from a copy that was made during a move over zones"

LATER: Mapping[str, str] = {
    "a restored zone's parent had later instances there": (
        "SELECT p.uuid, p.number FROM placements p, identity i"
        " WHERE p.state = 'confirmed' AND p.caller_id != i.zone_uuid"
    ),
    "a restored zone's child had later instances": (
        "SELECT uuid, number FROM placements WHERE state = 'confirmed' AND kind = 'child'"
    ),
    "a restored zone forgot a boot of its own users": (
        "SELECT r.id, '' FROM reservations r, identity i WHERE r.caller_id = i.zone_uuid"
    ),
    "a restored zone forgot the end of an instance": (
        "SELECT uuid, '' FROM instances WHERE status IN ('ERROR', 'DELETED')"
    ),
}
"""Points by the rows that the database had and the copy lacks."""

FOUND: Mapping[str, str] = {
    "restored_instance_gone": "an instance was found nowhere",
    "restored_instance_elsewhere": "an instance was found elsewhere",
}

POINTS: Sequence[str] = (
    ROOT,
    MIDDLE,
    LEAF,
    AGAIN,
    IN_RECOVERY,
    NEIGHBOURS,
    *UNDER_WAY,
    *IN_MOVE.values(),
    COPIED_IN_MOVE,
    *LATER,
    OLD_ENTRY,
    TWICE,
    *FOUND.values(),
    ADOPTED,
    UNCLAIMED,
    ENDED_AS_UNKNOWN,
)


def before(rows: sqlite3.Connection) -> Iterator[str]:
    """Return the points that a zone meets which goes down with these rows."""
    yield from (name for name, query in UNDER_WAY.items() if rows.execute(query).fetchall())


def later(rows: sqlite3.Connection) -> Mapping[str, set[tuple[str, object]]]:
    """Read the rows of which some may be lost in a restore."""
    return {name: set(rows.execute(query).fetchall()) for name, query in LATER.items()}


def decided(lines: Sequence[Line]) -> Iterator[str]:
    """Return the points that a repair meets, by its lines."""
    for line in lines:
        if line["kind"] in FOUND:
            yield FOUND[line["kind"]]
        elif line["kind"] == "instance_unknown_here":
            adopts = "adopted" in line["action"]
            yield ADOPTED if adopts else ENDED_AS_UNKNOWN if "ends it" in line["action"] else UNCLAIMED
