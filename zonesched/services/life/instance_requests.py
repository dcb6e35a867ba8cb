"""Requests of instances, as they were booted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zonesched.model.request_spec import RequestSpec
from zonesched.store import instances, reservations
from zonesched.store.store import Transaction


def requests_of(tx: Transaction, uuids: Sequence[str]) -> Mapping[str, RequestSpec]:
    """Read the requests of instances, by uuid."""
    rows = instances.read_by_uuid(tx, uuids)
    boots = reservations.read_ids(tx, sorted({row.reservation_id for row in rows.values()}))
    return {uuid: boots[row.caller_id, row.reservation_id].spec for uuid, row in rows.items()}
