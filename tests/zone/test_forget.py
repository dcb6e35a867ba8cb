"""Pruning deletes the rows of one boot, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.one_zone import (
    RESERVATION,
    a_zone,
    put_instance,
    put_place,
    put_reservation,
    sql,
)
from zonesched.model.move_steps import MoveKind, MoveState
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.services.zone import Zone
from zonesched.store import ended, inbound, instance_actions, instance_states, moves
from zonesched.store.ended import PruneBounds
from zonesched.store.inbound import InboundBuild
from zonesched.store.instance_actions import InstanceAction
from zonesched.store.instance_states import StoredState
from zonesched.store.moves import Move
from zonesched.store.placements import AskedChild
from zonesched.store.store import Transaction

PARENT = "parent-user"
OTHER = RESERVATION.replace("1", "2")
OF_INSTANCES = (
    "placements",
    "inbound_builds",
    "instance_states",
    "instance_actions",
    "instance_locks",
    "moves",
    "instances",
)


def a_deleted_boot(zone: Zone, caller_id: str, reservation_id: str) -> str:
    """A boot with rows in every table, all of it over; the uuid of its instance."""
    put_reservation(zone, reservation_id, caller_id=caller_id)
    deleted = InstanceStatus.DELETED
    uuid = put_instance(zone, status=deleted, caller_id=caller_id, reservation_id=reservation_id)
    put_place(
        zone,
        uuid,
        AskedChild("child-1", ("a",)),
        state=PlacementState.RELEASED,
        caller_id=caller_id,
        reservation_id=reservation_id,
    )
    action = InstanceAction(uuid, 1, "stop", "req-1", "user-1", "project-1", 1, 1.0)
    move = Move(
        zone.clock.new_uuid(), uuid, MoveKind.MIGRATION, MoveState.DONE, 1, "h1", "", 1, 0.0, 0.0, 0.0
    )

    def write(tx: Transaction) -> None:
        inbound.insert(tx, [InboundBuild(uuid, caller_id, 1, reservation_id, 1, (), 1.0)])
        instance_states.write(tx, [StoredState(uuid)], ())
        instance_actions.insert(tx, [action])
        instance_actions.lock(tx, [uuid], "kept", by_admin=False)
        moves.insert(tx, move)

    zone.store.write(write)
    return uuid


@pytest.mark.parametrize(
    ("caller_id", "reservation_id"),
    [(PARENT, RESERVATION), ("", OTHER)],
    ids=["a parent's boot of the same id", "another boot"],
)
def test_all_rows_of_a_boot_go_and_none_of_another(
    tmp_path: Path, caller_id: str, reservation_id: str
) -> None:
    # given two boots, with rows in every table
    zone = a_zone(tmp_path)
    other = caller_id or zone.uuid
    gone, kept = (
        a_deleted_boot(zone, zone.uuid, RESERVATION),
        a_deleted_boot(zone, other, reservation_id),
    )
    for table in OF_INSTANCES:
        assert {row[0] for row in sql(zone, f"SELECT uuid FROM {table}")} == {gone, kept}, table

    # and a cancel by somebody else of an attempt that he has never sent
    tombstone = InboundBuild(gone, "somebody", 1, OTHER, 0, (), 1.0)
    zone.store.write(lambda tx: inbound.insert(tx, [tombstone]))

    # when one of them is forgotten
    bounds = PruneBounds(zone.uuid, changed_before=zone.clock.now() + 1, now=zone.clock.now() + 1e6)
    forgotten = zone.store.write(lambda tx: ended.forget(tx, [(RESERVATION, zone.uuid)], bounds))

    # then the other one is whole
    assert forgotten == 1
    for table in OF_INSTANCES:
        of_others = [(gone,), (kept,)] if table == "inbound_builds" else [(kept,)]
        assert sorted(sql(zone, f"SELECT uuid FROM {table}")) == sorted(of_others), table
    assert sql(zone, "SELECT id, caller_id FROM reservations") == [(reservation_id, other)]
