"""What a project has is counted from short rows by an index, whatever it has booted before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.clock import FakeClock
from tests.builders.many_instances import many_instances
from tests.builders.one_zone import a_zone, put_instance, put_reservation, sql
from tests.builders.query_plans import record_plans, sqlite_plans
from zonesched.model.placement import COUNTED_STATUSES, InstanceStatus
from zonesched.store import usage
from zonesched.store.store import Transaction
from zonesched.store.usage import ProjectSum


def test_news_of_a_project_are_read_from_what_has_changed_since(tmp_path: Path) -> None:
    # given two projects with a server each
    zone = a_zone(tmp_path)
    put_reservation(zone, num_instances=2)
    for number in (1, 2):
        uuid = put_instance(zone, f"{number:08}-1111-4111-8111-111111111111")
        sql(
            zone,
            "UPDATE instances SET project_id = :project, changed_seq = :seq WHERE uuid = :uuid",
            project=f"project-{number}",
            seq=number,
            uuid=uuid,
        )

    def news(until: int) -> tuple[int, ...]:
        return zone.project_changes.read("project-1", (until, until), until)

    # when the other one changes, then both in one transaction, and then its own is pruned
    before = news(2)
    sql(zone, "UPDATE instances SET changed_seq = 3 WHERE project_id = 'project-2'")
    others = news(3)
    sql(zone, "UPDATE instances SET changed_seq = 4")
    own = news(4)
    sql(zone, "DELETE FROM instances WHERE project_id = 'project-1'")
    # then the news are those of its own, as another process reads them
    assert (before, others, own, news(5)) == ((1, 1), (1, 1), (4, 4), (0, 0))


@pytest.mark.sqlite
def test_news_of_a_project_are_looked_for_by_what_there_is_less_of(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)

    first = sqlite_plans(zone.store, lambda tx: usage.newest_change(tx, zone.uuid, "project-1"))
    later = sqlite_plans(zone.store, lambda tx: usage.later_change(tx, zone.uuid, "project-1", 3))

    assert ["(caller_id=? AND project_id=?" in plan for plan in first] == [True]
    assert ["ix_instances_changes (caller_id=? AND changed_seq>?)" in plan for plan in later] == [True]


def test_the_sizes_of_a_project_are_summed_up_without_its_ended_instances(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, FakeClock())
    put_reservation(zone, num_instances=3)
    uuids = [put_instance(zone) for _ in range(3)]
    sql(zone, "UPDATE instances SET vcpus = 2, ram_mb = 512")
    sql(zone, "UPDATE instances SET status = 'ERROR' WHERE uuid = :uuid", uuid=uuids[0])

    found = zone.store.read(lambda tx: usage.sum_of_project(tx, zone.uuid, "project-1"))
    others = zone.store.read(lambda tx: usage.sum_of_project(tx, zone.uuid, "project-2"))

    assert found == ProjectSum(instances=2, vcpus=4, ram_mb=1024)
    assert others == ProjectSum(instances=0, vcpus=0, ram_mb=0)


@pytest.mark.sqlite
def test_the_sizes_of_a_project_are_read_from_its_instances_alone(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, FakeClock())

    plans = sqlite_plans(zone.store, lambda tx: usage.sum_of_project(tx, zone.uuid, "project-1"))

    read = [plan for plan in plans if "anon_" not in plan]
    assert [plan.split()[1] for plan in read] == ["instances", "instances"]
    # The whole of both is in an index: no row is read.
    assert ["COVERING INDEX" in plan for plan in read] == [True, True]


@pytest.mark.postgresql
def test_the_sizes_of_a_project_are_read_from_indexes_in_postgresql_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = a_zone(tmp_path, FakeClock())
    many_instances(zone)
    sql(zone, "ANALYZE instances")
    plans = record_plans(monkeypatch, "SELECT anon_1.number")

    def fn(tx: Transaction) -> ProjectSum:
        # A table of few pages may be read faster.
        tx.exec_driver_sql("SET LOCAL enable_seqscan = off")
        tx.exec_driver_sql("SET LOCAL enable_bitmapscan = off")
        return usage.sum_of_project(tx, zone.uuid, "project-2")

    found = zone.store.read(fn)

    assert found.instances == 1
    of_indexes = [line.split("using ")[1].split()[0] for line in plans if "Index Only Scan" in line]
    assert sorted(of_indexes) == ["ix_instances_ended", "ix_instances_listing"]


@pytest.mark.parametrize("status", InstanceStatus)
def test_instances_count_until_they_have_ended(tmp_path: Path, status: InstanceStatus) -> None:
    zone = a_zone(tmp_path, FakeClock())
    put_reservation(zone)
    put_instance(zone, status=status)

    found = zone.store.read(lambda tx: usage.instances(tx, zone.uuid, "project-1"))

    assert found == (status in COUNTED_STATUSES)


@pytest.mark.sqlite
def test_open_boots_of_a_project_are_counted_without_its_settled_ones(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, FakeClock())

    # given the index that SQLite prefers where it takes two for equally good: the one made last
    sql(zone, "DROP INDEX ix_reservations_listing")
    columns = "caller_id, project_id, created_at, id"
    sql(zone, f"CREATE INDEX ix_reservations_listing ON reservations ({columns})")

    (plan,) = sqlite_plans(zone.store, lambda tx: usage.open_boots(tx, zone.uuid, "project-1"))

    assert "ix_reservations_work (state=?)" in plan
