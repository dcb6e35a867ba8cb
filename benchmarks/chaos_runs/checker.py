"""Final check of the zones' databases, by SQL that shares no code with the zones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.zone_trees.processes import ZoneSite

from . import life
from .rows import rows_of

_UNFINISHED = {
    "boots": "SELECT count(*) FROM reservations WHERE state = 'open'",
    "instances": "SELECT count(*) FROM instances WHERE status IN ('BUILD', 'UNKNOWN')",
    "places": "SELECT count(*) FROM placements"
    " WHERE state IN ('intended', 'held', 'confirming', 'cancelling', 'releasing')",
    **life.UNFINISHED,
}
_BUILT = "SELECT uuid FROM placements WHERE state = 'confirmed' AND kind = 'host'"
_INSTANCES = "SELECT uuid, reservation_id, status, reason FROM instances"
_OVER = "SELECT host_id, resource_class FROM inventories WHERE used > capacity AND used > shrunk_used"


@dataclass(frozen=True)
class Outcome:
    """Final statuses of the root's instances, and a sentence for each violated rule."""

    active: int
    errors: Mapping[str, int]
    inconsistencies: Sequence[str]


def unfinished(sites: Sequence[ZoneSite]) -> Mapping[str, int]:
    """Count unfinished work by zone and kind; zero counts are left out."""
    found: dict[str, int] = {}
    for site in sites:
        counts = rows_of(site, *_UNFINISHED.values())
        for kind, ((count,),) in zip(_UNFINISHED, counts, strict=True):
            if count:
                found[f"{kind} of {site.name}"] = int(count)
    return found


def outcome(
    root: ZoneSite, leaves: Sequence[ZoneSite], accepted: Mapping[str, int], deleted: frozenset[str]
) -> Outcome:
    """Compare what users were told with the root's rows, and those with the leaves'."""
    (rows,) = rows_of(root, _INSTANCES)
    active = {row.uuid for row in rows if row.status == "ACTIVE"}
    built = Counter(row.uuid for leaf in leaves for row in rows_of(leaf, _BUILT)[0])
    sizes = Counter(row.reservation_id for row in rows)
    wrong = [f"reservation {r}: {sizes[r]} instances for {n}" for r, n in accepted.items() if sizes[r] != n]
    wrong += [f"reservation {r} was told to nobody" for r in sizes if r not in accepted]
    wrong += [f"instance {uuid} is built {n} times" for uuid, n in built.items() if n > 1]
    wrong += [f"instance {uuid} is ACTIVE and built nowhere" for uuid in sorted(active - set(built))]
    wrong += [f"instance {uuid} is built and not ACTIVE" for uuid in sorted(set(built) - active)]
    wrong += [f"instance {uuid} was deleted and is ACTIVE" for uuid in sorted(active & deleted)]
    wrong += [
        f"instance {row.uuid} is ERROR without a reason"
        for row in rows
        if row.status == "ERROR" and not row.reason
    ]
    over = [row for leaf in leaves for row in rows_of(leaf, _OVER)[0]]
    wrong += [f"host {row.host_id} has too much {row.resource_class}" for row in over]
    errors = Counter(row.reason for row in rows if row.status == "ERROR")
    return Outcome(len(active), dict(sorted(errors.items())), wrong)
