"""Child zones, added, changed and removed while the zone runs; their credentials are never returned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from zonesched.conf import Conf
from zonesched.errors import BadRequest, Conflict, NotFound
from zonesched.model.placement import (
    LIVING_STATUSES,
    UNCONFIRMED,
    ZONE_LOST,
    InstanceStatus,
    PlacementState,
)
from zonesched.model.views import ChildChange, ChildForm, ChildView
from zonesched.services.placing.placement_moves import advance
from zonesched.services.state.child_rows import StoredChildren
from zonesched.services.zone import Zone
from zonesched.store import children as rows
from zonesched.store import identity, instances, locks, placements, recovery, reservations
from zonesched.store.children import ChildRow
from zonesched.store.placements import Placement
from zonesched.store.recovery import Kind
from zonesched.store.store import Store, Transaction
from zonesched.zones.address import AddressRefused
from zonesched.zones.child import Offline, Ready, Waiting
from zonesched.zones.known_child import REGISTERED_TWICE, RESTORED, KnownChild
from zonesched.zones.transport import Transport
from zonesched.zones.trial import NO_PARENT, WRONG_CREDENTIALS
from zonesched.zones.zone_manager import ZoneManager

State = PlacementState

DISABLED = "disabled"
"""State of a child that gets no boots."""


def list_children(store: Store, manager: ZoneManager) -> list[ChildView]:
    """List all child zones, in the order in which they were added."""
    known = _known(manager)
    return [_view(row, known.get(row.id), manager.holds.error(row.id)) for row in store.read(rows.read_all)]


def show(store: Store, manager: ZoneManager, child_id: str) -> ChildView:
    """Show one child zone. Raises NotFound."""
    row = store.read(lambda tx: _existing(tx, child_id))
    return _view(row, _known(manager).get(child_id), manager.holds.error(child_id))


def add(zone: Zone, form: ChildForm) -> ChildView:
    """Add a child zone; it takes part once it has answered a poll.

    It is tried once with a select: one that answers and can take no part, or not as this user's child, is
    refused; one that does not answer is added all the same, and polled later. Raises BadRequest for a URL
    that may not be called, a child that can take no part or a weight that is none, Conflict for a zone that
    is a child already, Unavailable for a zone
    that cannot keep a credential (option secret_encryption_key).
    """
    child_id = zone.clock.new_uuid()
    row = ChildRow(
        id=child_id,
        name=form.name,
        api_url=_checked_url(zone.conf, zone.transport, form.api_url),
        username=form.username,
        encrypted_password=StoredChildren(zone.store, zone.secret_box).encrypt(child_id, form.password),
        weight_offset=form.weight_offset,
        weight_scale=form.weight_scale,
    )
    _check_weights(row)
    row = replace(row, zone_uuid=_probe(zone, row))

    def fn(tx: Transaction) -> None:
        # The copy of a restored zone may be older than the child, and lack what is there.
        recovery.add(tx, Kind.CHILD, child_id)
        locks.which_zones(tx)
        _check_is_no_other(tx, row)
        rows.insert(tx, row)

    zone.store.write(fn)
    zone.children.refresh()
    return show(zone.store, zone.children, child_id)


def change(zone: Zone, child_id: str, wanted: ChildChange) -> ChildView:
    """Change a child zone; instances that are there stay. Raises NotFound, and what `add` raises."""
    given = {
        name: value
        for name in ("name", "username", "weight_offset", "weight_scale", "is_enabled")
        if (value := getattr(wanted, name)) is not None
    }
    if wanted.api_url is not None:
        given["api_url"] = _checked_url(zone.conf, zone.transport, wanted.api_url)
    if wanted.password is not None:
        given["encrypted_password"] = StoredChildren(zone.store, zone.secret_box).encrypt(
            child_id, wanted.password
        )

    present = zone.store.read(lambda tx: _existing(tx, child_id))
    wanted_row = replace(present, **given)
    _check_weights(wanted_row)
    if given.keys() & {"api_url", "username", "encrypted_password"}:
        # If it does not answer, the next poll finds its zone uuid.
        given["zone_uuid"] = _probe(zone, wanted_row)

    def fn(tx: Transaction) -> None:
        locks.which_zones(tx)
        # Other changes, and the child's feed, write the same row.
        rows.lock(tx, child_id)
        before = _existing(tx, child_id)
        after = replace(before, **given)
        # A cursor of the old URL is meaningless at the new one.
        moved = after.api_url != before.api_url
        _check_is_no_other(tx, after)
        rows.replace(tx, replace(after, cursor="") if moved else after)

    zone.store.write(fn)
    zone.children.refresh()
    return show(zone.store, zone.children, child_id)


def remove(zone: Zone, child_id: str, force: bool = False) -> None:
    """Remove a child zone. With `force`, instances that live there are lost: ERROR `zone_lost`.

    Instances that were only held there are placed elsewhere. Raises NotFound, and without `force` Conflict
    while any instance is there or on its way.
    """

    def fn(tx: Transaction) -> None:
        rows.lock(tx, child_id)
        _existing(tx, child_id)
        there = placements.unfinished_in(tx, child_id)
        if there and not force:
            raise Conflict(
                "The child zone has instances of this zone: delete them first, or remove it by force.",
                code="child_has_instances",
                field="id",
            )
        if there:
            locks.instances(tx, [p.uuid for p in there])
            # Until now they may have moved on; others cannot come to this child any more.
            there = placements.unfinished_in(tx, child_id)
            change, now = identity.next_change(tx), zone.clock.now()
            _lose(tx, change, zone.uuid, there, now)
        rows.delete(tx, child_id)

    zone.store.write(fn)
    zone.children.refresh()
    zone.wake.boots()


def _lose(tx: Transaction, change: int, zone_uuid: str, there: Sequence[Placement], now: float) -> None:
    """End placements whose child will never be asked again."""
    unconfirmed = [p for p in there if p.state in UNCONFIRMED]
    advance(tx, change, zone_uuid, unconfirmed, State.GONE, now, reason=ZONE_LOST)
    confirmed = [p for p in there if p.state not in UNCONFIRMED]
    moved = placements.move_all(tx, change, confirmed, State.RELEASED, reason=ZONE_LOST)
    present = instances.read_by_uuid(tx, [p.uuid for p in moved])
    lost = [p for p in moved if present[p.uuid].attempt == p.number and p.state is not State.RELEASING]
    living = [p.uuid for p in lost if present[p.uuid].status in LIVING_STATUSES]
    instances.set_status(tx, change, living, InstanceStatus.ERROR, now, reason=ZONE_LOST)
    for caller_id, reservation_id in sorted({(p.caller_id, p.reservation_id) for p in lost}):
        reservations.wake(tx, caller_id, reservation_id)


def _checked_url(conf: Conf, transport: Transport, unverified: str) -> str:
    """Normalise the URL. A name is resolved and its addresses checked here, and again at each connection."""
    try:
        return transport.check_url(unverified, conf.zone_poll_timeout)
    except AddressRefused as error:
        raise BadRequest(
            f"zone.api_url cannot be used: {error}.", code="child_url_refused", field="zone.api_url"
        ) from error


def _probe(zone: Zone, row: ChildRow) -> str:
    """Try a child with its stored access; return its zone's uuid, "" if it gives no good answer."""
    probed = zone.children.probe(StoredChildren(zone.store, zone.secret_box).child(row))
    # One that was restored waits for its parents: it may need this very change to hear them.
    if probed.error not in ("", RESTORED):
        field = "zone.username" if probed.error in (WRONG_CREDENTIALS, NO_PARENT) else "zone.api_url"
        raise BadRequest(_REFUSED[probed.error], code=probed.error, field=field)
    return probed.zone_uuid


def _check_is_no_other(tx: Transaction, row: ChildRow) -> None:
    """Raise Conflict for the zone of another child, whose hosts would count twice."""
    name = rows.name_of_zone(tx, row.zone_uuid, but=row.id) if row.zone_uuid else ""
    if name:
        raise Conflict(
            f"zone.api_url leads to the zone of the existing child {name}.",
            code=REGISTERED_TWICE,
            field="zone.api_url",
        )


_REFUSED = {
    "child_is_self": "zone.api_url leads to this zone itself.",
    "child_blob_too_large": "zone.api_url leads to a zone whose sealed entries do not fit into this zone's:"
    " this zone's option build_plan_blob_size must be at least 128 more than the child's.",
    WRONG_CREDENTIALS: "zone.username: the child zone does not accept this user with this password.",
    NO_PARENT: "zone.username: the child zone knows this user, but not as a parent: in the child the user"
    " needs the role parent, and this zone a certificate (child_certificate_file) if the child asks for one.",
}


def _check_weights(row: ChildRow) -> None:
    if not math.isfinite(row.weight_offset):
        raise BadRequest("zone.weight_offset must be a finite number.", field="zone.weight_offset")
    if not (math.isfinite(row.weight_scale) and row.weight_scale > 0):
        raise BadRequest("zone.weight_scale must be a finite number above 0.", field="zone.weight_scale")


def _existing(tx: Transaction, child_id: str) -> ChildRow:
    row = rows.read_one(tx, child_id)
    if row is None:
        raise NotFound("There is no such child zone.", code="zone_not_found", field="id")
    return row


def _known(manager: ZoneManager) -> Mapping[str, KnownChild]:
    return {known.child.id: known for known in manager.snapshot()}


def _view(row: ChildRow, known: KnownChild | None, hold_error: str) -> ChildView:
    match known.status if known is not None else Waiting():
        case _ if not row.is_enabled:
            state = DISABLED
        case Ready():
            state = "ready"
        case Offline():
            state = "offline"
        case Waiting():
            state = "waiting"
    return ChildView(
        id=row.id,
        name=row.name,
        api_url=row.api_url,
        username=row.username,
        weight_offset=row.weight_offset,
        weight_scale=row.weight_scale,
        is_active=state == "ready",
        state=state,
        last_error=(known.last_error if known is not None else "") or hold_error,
        seen_at=(known.seen_at or 0.0) if known is not None else 0.0,
    )
