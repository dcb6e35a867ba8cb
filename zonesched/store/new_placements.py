"""Inserts of placements; those of one boot differ in little but where they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store import tables as t
from zonesched.store.alike_rows import AlikeRows
from zonesched.store.placements import AskedChild, ClaimedHost, Placement
from zonesched.store.prepared import Prepared

_INSERT = Prepared(sa.insert(t.placements))
_ALIKE = AlikeRows(t.placements, ("uuid", "host_id"))
_ALIKE_OF_BOOT = {
    ClaimedHost: AlikeRows(t.placements, ("uuid", "entry_key", "host_id")),
    AskedChild: AlikeRows(t.placements, ("uuid", "entry_key", "child_id", "blobs")),
}


def insert(tx: Connection, placements: Sequence[Placement]) -> None:
    """Add rows; raises IntegrityError when a sealed entry is used a second time."""
    _INSERT.send_many(tx, [_to_row(p) for p in placements])


def insert_alike(tx: Connection, groups: Iterable[tuple[Placement, Mapping[str, str]]]) -> None:
    """Add placements on local hosts, in groups: by uuid the host ids; in all else they are as the first.

    Groups of one are added by one statement, each other group by its own.
    """
    single: list[dict[str, Any]] = []
    for like, host_of in groups:
        if len(host_of) == 1:
            single.append(_to_row(like))
        else:
            _ALIKE.insert(tx, _to_row(like), list(host_of.items()))
    _INSERT.send_many(tx, single)


def insert_of_boot(tx: Connection, made: Iterable[Placement]) -> None:
    """Add placements that were made together for one boot; raises IntegrityError as `insert`.

    They have the same caller, reservation, end of their holds and, on local hosts, resources.
    """
    alike: defaultdict[tuple[object, ...], list[Placement]] = defaultdict(list)
    for p in made:
        alike[type(p.where), p.number, p.state, p.reason, p.retained_until].append(p)
    for some in alike.values():
        first = some[0]
        _ALIKE_OF_BOOT[type(first.where)].insert(tx, _to_row(first), list(map(_differing, some)))


def _differing(p: Placement) -> tuple[str | None, ...]:
    """Return the columns in which placements of a boot differ, in the order of `_ALIKE_OF_BOOT`."""
    where = p.where
    if isinstance(where, ClaimedHost):
        return (p.uuid, p.entry_key or None, where.host_id)
    return (p.uuid, p.entry_key or None, where.child_id, orjson.dumps(where.blobs).decode())


def _to_row(p: Placement) -> dict[str, Any]:
    match p.where:
        case ClaimedHost(host_id, resources):
            where = {
                "kind": "host",
                "host_id": host_id,
                "child_id": None,
                "resources": orjson.dumps(dict(resources)).decode(),
                "blobs": "[]",
            }
        case AskedChild(child_id, blobs):
            where = {
                "kind": "child",
                "host_id": None,
                "child_id": child_id,
                "resources": "{}",
                "blobs": orjson.dumps(blobs).decode(),
            }
    return where | {
        "uuid": p.uuid,
        "number": p.number,
        "caller_id": p.caller_id,
        "reservation_id": p.reservation_id,
        "state": p.state.value,
        "reason": p.reason,
        "hold_expires_at": p.hold_expires_at,
        "retained_until": p.retained_until,
        "entry_key": p.entry_key or None,
        "next_call_at": 0.0,
        "calls": p.calls,
        "is_fetched": p.is_fetched,
    }
