"""Boots as their owners see them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from zonesched.errors import BadRequest, Conflict, NotFound
from zonesched.model.boot_line import BootLine
from zonesched.model.caller import Caller, Role
from zonesched.model.decision_trace import NO_TRACE, HostJudgement
from zonesched.model.desired_state import NEW
from zonesched.model.placement import InstanceChange, InstanceStatus
from zonesched.model.shown_status import Status, shown_status
from zonesched.model.views import ReservationView
from zonesched.seal.cursors import Cursor, CursorBox
from zonesched.services.owners.pending_steps import pending_steps
from zonesched.services.owners.scopes import boot_scope, scope_of
from zonesched.services.select import select
from zonesched.services.select.faults import change_for_parent, for_parent, refused_by
from zonesched.services.zone import Zone
from zonesched.store import (
    aliases,
    feed,
    identity,
    instance_states,
    instances,
    pending_instances,
    reservation_list,
)
from zonesched.store import children as child_rows
from zonesched.store.instances import Instance
from zonesched.store.pending_instances import PendingInstances
from zonesched.store.reservation_list import ListedBoot
from zonesched.store.reservations import Reservation
from zonesched.store.server_list import Scope
from zonesched.store.store import Transaction
from zonesched.store.unknown_marker import UnknownMarker

MAX_SENDERS = 10
"""Maximum number of senders that a refusal names."""


def show(zone: Zone, caller: Caller, reservation_id: str, sender_id: str = "") -> ReservationView:
    """Show a boot, for an admin that of a sender. Raises what `boot_scope` and `existing` raise."""
    scope = boot_scope(zone.uuid, caller, sender_id)

    def fn(
        tx: Transaction,
    ) -> tuple[Reservation, list[Instance], list[Status], list[PendingInstances], dict[str, str]]:
        reservation = existing(tx, reservation_id, scope)
        key = reservation.caller_id, reservation.id
        is_admin = caller.role is Role.ADMIN
        child_names = {child.id: child.name for child in child_rows.read_all(tx)} if is_admin else {}
        members = instances.read_reservation(tx, *key)
        states = instance_states.read(tx, [i.uuid for i in members])
        shown = [shown_status(i.status, states[i.uuid].state if i.uuid in states else NEW) for i in members]
        own = aliases.callers_uuids(tx, caller.user_id, [i.uuid for i in members])
        members = [replace(i, uuid=own[i.uuid]) if i.uuid in own else i for i in members]
        return reservation, members, shown, pending_instances.count(tx, *key), child_names

    reservation, members, shown, pending, child_names = zone.store.read(fn)
    return ReservationView(
        id=reservation.id,
        state=_state(set(shown)),
        num_instances=reservation.num_instances,
        min_count=reservation.min_count,
        counts=_counts(Counter(shown)),
        reasons=_reasons(reservation, members, caller.role),
        instances=[(i.uuid, status.value) for i, status in zip(members, shown, strict=True)],
        created_at=reservation.created_at,
        waiting_for=pending_steps(reservation, pending, child_names, zone.clock.now()),
        why=reservation.why if caller.role is Role.ADMIN else NO_TRACE,
    )


def list_boots(
    zone: Zone, caller: Caller, marker: str, limit: int, *, all_tenants: bool
) -> tuple[list[BootLine], str]:
    """Read a page of boots that are not deleted, newest first, and the next page's marker ("" at the end).

    Raises BadRequest for a marker that names no boot.
    """
    scope = scope_of(zone.uuid, caller, all_tenants=all_tenants)
    try:
        found = zone.store.read(lambda tx: reservation_list.page(tx, scope, marker, limit + 1))
    except UnknownMarker as error:
        raise BadRequest("marker names no boot.", code="marker_unknown", field="marker") from error
    lines = [_line(boot) for boot in found[:limit]]
    return lines, lines[-1].id if 0 < limit < len(found) else ""


def _line(boot: ListedBoot) -> BootLine:
    return BootLine(
        id=boot.id,
        name=boot.name,
        state=_state(boot.counts.keys()),
        num_instances=boot.num_instances,
        min_count=boot.min_count,
        counts=_counts(boot.counts),
        flavor=boot.flavor,
        project_id=boot.project_id,
        created_at=boot.created_at,
    )


def why_host(
    zone: Zone, caller: Caller, reservation_id: str, host: str, sender_id: str = ""
) -> HostJudgement:
    """Judge one local host (name or id) for this boot as a select would now. Raises as `show` does."""
    scope = boot_scope(zone.uuid, caller, sender_id)
    found = zone.store.read(lambda tx: existing(tx, reservation_id, scope))
    return select.judge_host(zone, found.spec, found.caller_id, host)


def existing(tx: Transaction, reservation_id: str, scope: Scope) -> Reservation:
    """Read a boot. Raises NotFound for one that is not in the scope, Conflict where several have the id."""
    found = reservation_list.find(tx, scope, reservation_id)
    if not found:
        raise NotFound("There is no such reservation.", code="reservation_not_found")
    if len(found) > 1:
        senders = ", ".join(sorted(boot.caller_id for boot in found)[:MAX_SENDERS])
        raise Conflict(
            f"{len(found)} callers have a boot of this id; name one as ?caller=ID: {senders}.",
            code="reservation_ambiguous",
            field="caller",
        )
    return found[0]


def _counts(counted: Mapping[Status, int]) -> dict[str, int]:
    """Counts by name, in the order of the statuses, without zeros."""
    return {status.value: counted[status] for status in Status if counted.get(status)}


_DELETED = {Status.DELETED, Status.SOFT_DELETED}


def _state(statuses: Set[Status]) -> str:
    """BUILD while anything is unfinished, then ACTIVE, PARTIAL, ERROR or DELETED by all statuses."""
    if statuses & {Status.BUILD, Status.UNKNOWN}:
        return "BUILD"
    if statuses <= _DELETED:
        return "DELETED"
    if Status.ERROR not in statuses:
        return "ACTIVE"
    return "PARTIAL" if statuses - _DELETED - {Status.ERROR} else "ERROR"


def _reasons(reservation: Reservation, members: Sequence[Instance], reader: Role) -> list[dict[str, object]]:
    """Return each reason code of ERROR instances with its count and the filters that refused hosts."""
    found = [i.reason for i in members if i.status is InstanceStatus.ERROR]
    # A build of a parent that fails ends as DELETED, so those in ERROR were built.
    told = [for_parent(reason, was_built=True) for reason in found] if reader is Role.PARENT else found
    counted = Counter(told)
    lines: list[dict[str, object]] = []
    for code, count in sorted(counted.items()):
        lines.append({"code": code, "count": count, "refused_by": refused_by(code, reservation.why)})
    return lines


PAGE = 1000


def changes(zone: Zone, caller: Caller, cursor: str) -> tuple[Sequence[InstanceChange], str, bool]:
    """Return a page of changes of this parent's instances since `cursor` ("" for all), its cursor, and more.

    The cursor is opaque to the parent. Raises BadRequest for one that this zone did not give, or gave before
    its database was restored from a copy: the changes since then would be left out.
    """
    cursors = CursorBox(zone.host_id_secret)
    try:
        since = cursors.read(caller.user_id, cursor) if cursor else Cursor()
    except ValueError:
        raise _cursor_invalid() from None

    watermark = zone.store.read(identity.low_watermark)

    def fn(tx: Transaction) -> _FeedPage:
        if identity.epoch_of(tx, since.until) != since.epoch:
            raise _cursor_invalid()
        return _next_page(tx, caller.user_id, since, watermark)

    page, reached, more = zone.store.read(fn)
    reported = [change_for_parent(change) for change in page]
    return reported, cursors.write(caller.user_id, reached), more


_FeedPage = tuple[Sequence[InstanceChange], Cursor, bool]


def _next_page(tx: Transaction, caller_id: str, since: Cursor, watermark: int) -> _FeedPage:
    """Read the next page; the last one also has what has changed above the watermark.

    Else an instance that changes while all are read would be in none of their pages. It comes once more.
    """
    lines, reached, more = _settled_page(tx, caller_id, since, watermark)
    if not more:
        later = feed.Window(reached.number, feed.NO_END)
        uuids = feed.next_uuids(tx, caller_id, later, PAGE - len(lines))
        lines = {**lines, **feed.current(tx, caller_id, uuids)}
    return _named_by_caller(tx, caller_id, lines), reached, more


def _settled_page(
    tx: Transaction, caller_id: str, since: Cursor, watermark: int
) -> tuple[Mapping[str, InstanceChange], Cursor, bool]:
    window = feed.Window(since.number, since.until, since.uuid) if since.uuid else None
    # The rest of a window is empty where its instances have changed again: the next window has them.
    while window is not None or (window := feed.next_window(tx, caller_id, since.number, watermark)):
        found = feed.next_uuids(tx, caller_id, window, PAGE + 1)
        lines = feed.current(tx, caller_id, found[:PAGE])
        epoch = identity.epoch_of(tx, window.until)
        if len(found) > PAGE:
            since = Cursor(window.after, window.until, found[PAGE - 1], epoch)
            return lines, since, True
        since = Cursor(window.until, window.until, "", epoch)
        if lines:
            more = feed.next_window(tx, caller_id, window.until, watermark) is not None
            return lines, since, more
        window = None
    return {}, since, False


def _named_by_caller(
    tx: Transaction, caller_id: str, lines: Mapping[str, InstanceChange]
) -> list[InstanceChange]:
    """Return the lines by the caller's own uuids, in their order."""
    own = aliases.callers_uuids(tx, caller_id, lines)
    named = [replace(line, uuid=own[uuid]) if uuid in own else line for uuid, line in lines.items()]
    return sorted(named, key=lambda line: line.uuid)


def _cursor_invalid() -> BadRequest:
    return BadRequest("cursor is not one that this zone gave.", code="cursor_invalid", field="cursor")
