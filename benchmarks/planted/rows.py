"""Bugs of indexes that leave rows out, and of counts of many hosts at once."""

from __future__ import annotations

from benchmarks.planted.bug import Bug

_PLAN_TESTS = ("tests/trees/test_query_plans.py",)
_COUNTER_TESTS = ("tests/units/test_host_counters.py",)

LEAN_ROWS = (
    Bug(
        name="active instances found by their status",
        breaks="each step of a zone with children reads all of its active instances",
        path="zonesched/store/instance_states.py",
        right='_IS_ACTIVE = sa.func.coalesce(_instance.status, "") == InstanceStatus.ACTIVE.value',
        wrong="_IS_ACTIVE = _instance.status == InstanceStatus.ACTIVE.value",
        tests=_PLAN_TESTS,
    ),
    Bug(
        name="parked places not in motion",
        breaks="an instance that a move has parked is not counted, and no index finds it",
        path="zonesched/store/placement_tables.py",
        right="PLACE_IS_IN_MOTION = text(\"placements.state NOT IN ('confirmed', ",
        wrong="PLACE_IS_IN_MOTION = text(\"placements.state NOT IN ('parked', 'confirmed', ",
        tests=("tests/units/test_placement_moves.py",),
    ),
    Bug(
        name="overdue holds read without their index",
        breaks="each step of the reaper reads all placements of the zone",
        path="zonesched/store/placements.py",
        right="        t.PLACE_IS_IN_MOTION,\n        is_in(COLUMNS.state, UNCONFIRMED),",
        wrong="        is_in(COLUMNS.state, UNCONFIRMED),",
        tests=_PLAN_TESTS,
    ),
    Bug(
        name="a count taken off to nothing stays",
        breaks="a host counts instances of an owner that has none there any more",
        path="zonesched/model/host_counters.py",
        right="others[owners] = ~others[owners]",
        wrong="others[owners] = False",
        tests=_COUNTER_TESTS,
    ),
)
