"""Moves of instances as their zone's admin sees them; their owners see no host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zonesched.errors import BadRequest, NotFound
from zonesched.model.caller import Caller, Role
from zonesched.model.migrations import MigrationQuery, MigrationView
from zonesched.model.move_steps import MoveKind, MoveState
from zonesched.model.placement import InstanceStatus
from zonesched.services.owners.scopes import scope_of
from zonesched.services.zone import Zone
from zonesched.store import instances, moves, server_list
from zonesched.store.instances import Instance
from zonesched.store.moves import Move, MovePage
from zonesched.store.store import Store, Transaction
from zonesched.store.unknown_marker import UnknownMarker

_STATUSES = {
    MoveState.PLACING: "queued",
    MoveState.LEAVING: "migrating",
    MoveState.ARRIVING: "post-migrating",
    MoveState.VERIFYING: "finished",
    MoveState.RETURNING: "reverting",
    MoveState.DONE: "confirmed",
    MoveState.FAILED: "error",
    MoveState.REVERTED: "reverted",
}
"""The status of each state, by the names of OpenStack."""


def list_all(store: Store, query: MigrationQuery) -> tuple[list[MigrationView], str]:
    """List the moves that the query wants, newest first, for this zone's admin.

    Returns also the marker of the next page, "" at the end. Raises BadRequest for an unknown marker.
    """
    page = MovePage(
        states=[state for state, status in _STATUSES.items() if query.status in ("", status)],
        kinds=[kind for kind in MoveKind if query.kind in ("", kind.value)],
        uuid=query.server_uuid,
        user_id=query.user_id,
        project_id=query.project_id,
        host=query.host,
        source_host=query.source_host,
        changed_since=query.changed_since,
        changed_before=query.changed_before,
        marker=query.marker,
        limit=query.limit + 1,
    )

    def fn(tx: Transaction) -> list[MigrationView]:
        found = moves.latest(tx, page)
        return _views(found, instances.read_by_uuid(tx, sorted({move.uuid for move in found})))

    try:
        found = store.read(fn)
    except UnknownMarker as error:
        raise BadRequest("marker names no migration.", code="marker_unknown", field="marker") from error
    return found[: query.limit], found[query.limit - 1].id if 0 < query.limit < len(found) else ""


def under_way(zone: Zone, caller: Caller, uuid: str) -> list[MigrationView]:
    """List the moves of an instance that have not ended: one or none. Raises NotFound."""
    scope = scope_of(zone.uuid, caller, all_tenants=True)

    def fn(tx: Transaction) -> list[MigrationView]:
        rows = server_list.find(tx, scope, uuid)
        if not rows or rows[0].status is InstanceStatus.DELETED:
            raise NotFound("There is no such instance.", code="instance_not_found")
        (row,) = rows
        return _views(list(moves.living(tx, [row.uuid]).values()), {row.uuid: row})

    found = zone.store.read(fn)
    if caller.role is Role.ADMIN:
        return found
    return [replace(view, source_host="", dest_host="") for view in found]


def _views(found: Sequence[Move], rows: Mapping[str, Instance]) -> list[MigrationView]:
    return [
        MigrationView(
            id=move.id,
            server_uuid=move.uuid,
            kind=move.kind,
            status=_STATUSES[move.state],
            source_host=move.source_host,
            dest_host=move.dest_host,
            user_id=rows[move.uuid].user_id,
            project_id=rows[move.uuid].project_id,
            created_at=move.created_at,
            updated_at=move.updated_at,
        )
        for move in found
    ]
