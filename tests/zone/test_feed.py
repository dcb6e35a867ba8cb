"""When a zone last sent work to a child, which says how soon it asks the child for changes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.builders.clock import FakeClock
from tests.builders.one_zone import a_zone, boot_below, sql
from tests.builders.query_plans import record_plans
from zonesched.model.placement import InstanceStatus
from zonesched.services.zone import Zone
from zonesched.store import feed

ROWS = re.compile(r"rows=(\d+)")


def a_parent_zone(folder: Path, clock: FakeClock | None = None) -> Zone:
    """A zone that knows one child zone."""
    zone = a_zone(folder, clock)
    sql(
        zone,
        "INSERT INTO children"
        " (id, position, name, api_url, username, password, weight_offset, weight_scale, cursor)"
        " VALUES ('child-1', 1, 'child', 'http://127.0.0.1:1', 'parent', '', 0, 1, '')",
    )
    return zone


def newest(zone: Zone) -> float:
    return zone.store.read(feed.newest_unfinished_in_children)


def test_the_newest_unfinished_build_of_a_child_counts(tmp_path: Path) -> None:
    clock = FakeClock()
    zone = a_parent_zone(tmp_path, clock)
    assert newest(zone) == float("-inf")

    sent_at = clock.now()
    boot_below(zone, "child-1", status=InstanceStatus.UNKNOWN)
    clock.advance(10)
    boot_below(zone, "child-1", status=InstanceStatus.BUILD)
    clock.advance(10)
    boot_below(zone, "child-1", status=InstanceStatus.ACTIVE)

    assert newest(zone) == sent_at + 10


@pytest.mark.postgresql
def test_the_newest_of_many_unfinished_builds_is_found_without_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands are unfinished while hosts start them, and each step of `Sync` asks for the newest."""
    zone = a_parent_zone(tmp_path)
    for _ in range(300):
        boot_below(zone, "child-1", status=InstanceStatus.BUILD)
    sql(zone, "ANALYZE")
    plans = record_plans(monkeypatch, "SELECT instances.updated_at", analyze=True)

    newest(zone)

    scans = [line for line in plans if " on instances" in line]
    assert scans
    assert max(int(ROWS.findall(line)[-1]) for line in scans) <= 1


@pytest.mark.postgresql
def test_a_zone_without_children_reads_none_of_its_unfinished_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = a_zone(tmp_path)
    plans = record_plans(monkeypatch, "SELECT instances.updated_at")

    assert (newest(zone), plans) == (float("-inf"), [])
