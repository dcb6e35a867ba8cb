"""Actions and moves that end together with instances whose status is set."""

from __future__ import annotations

from pathlib import Path

from tests.builders.one_zone import a_zone, instance_of, put_instance, put_reservation, sql
from zonesched.model.move_steps import MoveKind, MoveState
from zonesched.model.placement import InstanceStatus
from zonesched.services.zone import Zone
from zonesched.store import identity, instance_actions, instances, moves
from zonesched.store.instance_actions import InstanceAction
from zonesched.store.moves import Move


def acted_on(zone: Zone, status: InstanceStatus) -> str:
    """An instance with this status, an open action and a move."""
    uuid = put_instance(zone, status=status)
    action = InstanceAction(uuid, 1, "stop", "req-1", "user-1", "project-1", 1, 1.0)
    move = Move(
        zone.clock.new_uuid(), uuid, MoveKind.MIGRATION, MoveState.PLACING, 1, "h1", "", 1, 0.0, 0.0, 0.0
    )

    def write(tx: object) -> None:
        instance_actions.insert(tx, [action])  # type: ignore[arg-type]
        moves.insert(tx, move)  # type: ignore[arg-type]

    zone.store.write(write)
    return uuid


def open_on(zone: Zone, uuid: str) -> tuple[bool, bool]:
    """Whether an instance has an open action, and a move that goes on."""
    (action,) = zone.store.read(lambda tx: instance_actions.of_instance(tx, uuid))
    living = zone.store.read(lambda tx: moves.living(tx, [uuid]))
    return action.result is None, uuid in living


def test_only_instances_whose_status_was_set_lose_what_is_under_way_on_them(tmp_path: Path) -> None:
    # given two instances with an action and a move each, of which one is built already
    zone = a_zone(tmp_path)
    put_reservation(zone)
    building, built = (acted_on(zone, status) for status in (InstanceStatus.BUILD, InstanceStatus.ACTIVE))

    # when both are to end unless they are built
    zone.store.write(
        lambda tx: instances.set_status(
            tx,
            identity.next_change(tx),
            [building, built],
            InstanceStatus.ERROR,
            zone.clock.now(),
            reason="build_timeout",
            only_from=[InstanceStatus.BUILD],
        )
    )

    # then only one of them has ended, with all that was under way
    assert [instance_of(zone, uuid).status for uuid in (building, built)] == [
        InstanceStatus.ERROR,
        InstanceStatus.ACTIVE,
    ]
    assert [open_on(zone, uuid) for uuid in (building, built)] == [(False, False), (True, True)]


def test_a_move_that_was_done_stays_done_when_its_server_ends(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    put_reservation(zone)
    uuid = acted_on(zone, InstanceStatus.ACTIVE)
    sql(zone, "UPDATE moves SET state = 'done'")

    zone.store.write(
        lambda tx: instances.set_status(
            tx, identity.next_change(tx), [uuid], InstanceStatus.DELETED, zone.clock.now()
        )
    )

    assert sql(zone, "SELECT state, reason FROM moves") == [("done", "")]


def test_only_a_server_that_rests_is_placed_again(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    put_reservation(zone)
    statuses = (InstanceStatus.OFFLOADED, InstanceStatus.DELETED)
    uuids = [put_instance(zone, status=status) for status in statuses]

    zone.store.write(
        lambda tx: instances.begin_unshelve(tx, identity.next_change(tx), uuids, zone.clock.now())
    )

    after = [instance_of(zone, uuid).status for uuid in uuids]
    assert after == [InstanceStatus.BUILD, InstanceStatus.DELETED]
