"""Lists of what should run on an agent's hosts, and parts of them that its agent has already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.builders.clock import FakeClock
from tests.builders.one_zone import AGENT, a_form, a_zone, add_hosts, boot_on, sql
from zonesched.model.placement import InstanceStatus
from zonesched.services.hosts import hosts
from zonesched.services.zone import Zone
from zonesched.store import agent_work
from zonesched.store.agent_work import Work

FIRST, SECOND = "0a000000-0000-4000-8000-000000000001", "b0000000-0000-4000-8000-000000000002"


def listed(zone: Zone, known: Sequence[str] = ()) -> Work:
    return hosts.unknown(zone.store, zone.heartbeats, AGENT, "agent", known)


def uuids(work: Work) -> list[str]:
    return [one.uuid for one in work.instances]


def a_zone_with_two(folder: Path) -> tuple[Zone, str]:
    """A zone with a host, by its id, and two instances on it, in two parts of its agent's list."""
    zone = a_zone(folder)
    (host_id,) = add_hosts(zone, a_form("h1"))
    for uuid in (FIRST, SECOND):
        boot_on(zone, host_id, uuid=uuid)
    return zone, host_id


def test_parts_that_an_agent_has_are_left_out(tmp_path: Path) -> None:
    zone, _ = a_zone_with_two(tmp_path)
    all_of_it = listed(zone)
    assert (uuids(all_of_it), set(all_of_it.tags)) == ([FIRST, SECOND], {"0", "b"})

    assert uuids(listed(zone, [all_of_it.tags["0"]])) == [SECOND]
    nothing = listed(zone, [*all_of_it.tags.values()])
    assert (uuids(nothing), nothing.tags) == ([], all_of_it.tags)


@pytest.mark.parametrize(
    "change",
    [
        "update instances set name = 'other' where uuid = :uuid",
        "update instances set status = 'BUILD' where uuid = :uuid",
        "update hosts set name = 'other'",
        "insert into instance_states (uuid, generation, power, reboots, reboot_type, rebooted_by,"
        " observed_generation, observed_power, observed_reason, told_generation, next_call_at, calls,"
        " wanted_at, built_at) values (:uuid, 1, 'stopped', 0, 'SOFT', 0, 0, 'running', '', 1, 0, 0, 1, 1)",
        "insert into moves (id, uuid, kind, state, from_number, to_number, source_host, dest_host,"
        " asked_host, action, selects, steps, reason, why, created_at, updated_at, next_step_at)"
        " values ('m', :uuid, 'migration', 'leaving', 1, 2, '', '', '', 1, 0, 0, '', '[]', 1, 1, 1)",
    ],
    ids=["name", "status", "host", "desired state", "move"],
)
def test_a_part_in_which_something_has_changed_is_sent_again(tmp_path: Path, change: str) -> None:
    zone, _ = a_zone_with_two(tmp_path)
    before = listed(zone)
    sql(zone, change, uuid=FIRST)

    after = listed(zone, [*before.tags.values()])
    assert FIRST in uuids(after)
    assert after.tags["0"] != before.tags["0"]


def test_a_part_without_instances_is_no_part(tmp_path: Path) -> None:
    zone, _ = a_zone_with_two(tmp_path)
    before = listed(zone)
    sql(zone, "update placements set state = 'released' where uuid = :uuid", uuid=FIRST)

    after = listed(zone, [*before.tags.values()])
    assert (uuids(after), set(after.tags)) == ([], {"b"})


def test_a_zone_that_was_started_anew_sends_all_again(tmp_path: Path) -> None:
    zone, _ = a_zone_with_two(tmp_path)
    before = listed(zone)
    later = a_zone(tmp_path, FakeClock(seed=2))
    assert later.uuid == zone.uuid

    assert uuids(listed(later, [*before.tags.values()])) == [FIRST, SECOND]


def test_a_part_that_lacks_a_boot_is_sent_once_the_boot_is_there(tmp_path: Path) -> None:
    # given an instance whose boot has lost its row
    zone, _ = a_zone_with_two(tmp_path)
    lost = "(select reservation_id from instances where uuid = :uuid)"
    sql(zone, f"update reservations set caller_id = 'nobody' where id = {lost}", uuid=FIRST)
    before = listed(zone)
    assert (uuids(before), set(before.tags)) == ([SECOND], {"b"})
    # when a repair brings the row back
    sql(zone, f"update reservations set caller_id = :us where id = {lost}", uuid=FIRST, us=zone.uuid)
    # then the agent hears of the instance
    assert uuids(listed(zone, [*before.tags.values()])) == [FIRST]


def test_a_new_build_holds_up_no_writer_while_the_others_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given an agent that has instances
    zone, host_id = a_zone_with_two(tmp_path)
    known = [*listed(zone).tags.values()]
    new = boot_on(zone, host_id, uuid=FIRST.replace("0a", "cc"), status=InstanceStatus.BUILD)
    reads: list[bool] = []
    writing: list[bool] = []
    read, write = agent_work.read, zone.store.write

    def watched(*args: object) -> object:
        reads.append(bool(writing))
        return read(*args)  # type: ignore[arg-type]

    def writes(fn: object) -> object:
        writing.append(True)
        try:
            return write(fn)  # type: ignore[arg-type]
        finally:
            writing.clear()

    monkeypatch.setattr(agent_work, "read", watched)
    monkeypatch.setattr(zone.store, "write", writes)
    # when it gets a new one, then no transaction that writes reads the others
    assert uuids(listed(zone, known)) == [new]
    assert reads == [False, False]
