"""A list by status, or by OpenStack's states, has the instances that show them, and reads few others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.clock import FakeClock
from tests.builders.many_instances import EVERYBODYS, many_instances, put_state
from tests.builders.one_zone import RESERVATION, a_zone, put_instance, put_reservation
from tests.builders.query_plans import sqlite_steps
from zonesched.api.server_json import filtered_json
from zonesched.model.caller import Caller, Role
from zonesched.model.desired_state import NEW, Desired, InstanceState, RebootType
from zonesched.model.observed_state import MoveCounts, Observed, Power, Resizes
from zonesched.model.placement import InstanceStatus
from zonesched.model.server_query import AskedStates, ServerQuery
from zonesched.model.shown_status import Status, shown_status
from zonesched.model.views import ServerView
from zonesched.model.vm_state import POWER_STATE, RESIZED, SOFT_DELETED, VM_STATE_OF_POWER, VM_STATE_OF_STATUS
from zonesched.services.owners import reservations, servers
from zonesched.services.owners.servers import Search
from zonesched.store import few_instances, server_list

COUNTS = st.integers(0, 2)
RESIZES = st.builds(Resizes, COUNTS, COUNTS, COUNTS)
STATES = st.builds(
    InstanceState,
    desired=st.builds(
        Desired,
        generation=COUNTS,
        power=st.sampled_from(Power),
        reboots=COUNTS,
        reboot_type=st.sampled_from(RebootType),
        resizes=RESIZES,
    ),
    observed=st.builds(Observed, generation=COUNTS, power=st.sampled_from(Power), resizes=RESIZES),
    rebooted_by=COUNTS,
    rebuilt_by=COUNTS,
    moves=st.builds(MoveCounts, COUNTS, COUNTS),
    reclaim_at=st.sampled_from((0.0, 0.0, 0.0, 900.0)),
)
SHOWN = st.lists(st.sampled_from(Status), min_size=1, max_size=3)


@pytest.mark.parametrize("few", [0, 5000])
@given(
    st.lists(st.tuples(st.sampled_from(InstanceStatus), STATES), min_size=1, max_size=20),
    st.lists(SHOWN, min_size=5, max_size=5),
)
@settings(max_examples=25)
def test_a_list_by_status_has_the_instances_that_show_it(
    few: int, kept: list[tuple[InstanceStatus, InstanceState]], asked: list[list[Status]]
) -> None:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(few_instances, "FEW", few)
        zone = a_zone(Path(folder), FakeClock())
        put_reservation(zone)
        shown = {}
        for status, state in kept:
            uuid = put_instance(zone, status=status)
            put_state(zone, uuid, state)
            shown[uuid] = shown_status(status, state)
        for statuses in asked:
            page = replace(EVERYBODYS, statuses=[one.value for one in statuses], limit=100)

            found = zone.store.read(lambda tx, page=page: server_list.page(tx, page))

            assert {one.uuid for one in found} == {uuid for uuid, one in shown.items() if one in statuses}
        zone.stop()


@given(st.lists(st.tuples(st.sampled_from(InstanceStatus), STATES), min_size=1, max_size=20))
@settings(max_examples=25)
def test_a_list_of_boots_counts_the_statuses_that_their_instances_show(
    kept: list[tuple[InstanceStatus, InstanceState]],
) -> None:
    with TemporaryDirectory() as folder:
        zone = a_zone(Path(folder), FakeClock())
        put_reservation(zone)
        put_instance(zone)
        for status, state in kept:
            put_state(zone, put_instance(zone, status=status), state)

        listed, _ = reservations.list_boots(zone, ADMIN, "", 10, all_tenants=True)

        assert [boot.counts for boot in listed] == [reservations.show(zone, ADMIN, RESERVATION).counts]
        zone.stop()


NAMES = [*VM_STATE_OF_POWER.values(), *VM_STATE_OF_STATUS.values(), RESIZED, SOFT_DELETED]
TASKS = ["spawning", "scheduling", "unshelving", "resize_reverting", "resize_migrating", "resize_prep"]
TASKS += ["rebuilding", "powering-off", "pausing", "suspending", "shelving", "rebooting", "rebooting_hard"]
TASKS += ["unpausing", "resuming", "powering-on", "soft-deleting"]
ASKED = st.one_of(
    st.builds(AskedStates, vm_state=st.sampled_from(NAMES)),
    st.builds(AskedStates, task_state=st.sampled_from(TASKS)),
    st.builds(AskedStates, power_state=st.sampled_from(sorted(POWER_STATE.values()))),
)


@pytest.mark.parametrize("few", [0, 5000])
@given(
    st.lists(st.tuples(st.sampled_from(InstanceStatus), STATES), min_size=1, max_size=20),
    st.lists(ASKED, min_size=5, max_size=5),
)
@settings(max_examples=15)
def test_a_list_by_states_leaves_none_out_that_has_them(
    few: int, kept: list[tuple[InstanceStatus, InstanceState]], asked: list[AskedStates]
) -> None:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(few_instances, "FEW", few)
        zone = a_zone(Path(folder), FakeClock())
        put_reservation(zone)
        for status, state in kept:
            # One that leaves its place forgets its resizes.
            is_possible = state.observed.power is not Power.OFFLOADED or not state.observed.resizes.is_open
            put_state(zone, put_instance(zone, status=status), state if is_possible else NEW)
        every = tuple(status.value for status in Status)
        views, _ = servers.list_servers(zone, ADMIN, ServerQuery(statuses=every, all_tenants=True))
        for states in asked:
            page = replace(EVERYBODYS, statuses=every, states=states, limit=100)

            found = {one.uuid for one in zone.store.read(lambda tx, page=page: server_list.page(tx, page))}

            assert {view.uuid for view in views if has(view, states)} <= found
        zone.stop()


ADMIN = Caller("admin-1", "admin", Role.ADMIN, "project-1")


def has(view: ServerView, states: AskedStates) -> bool:
    shown = filtered_json(view)
    wanted = {
        "OS-EXT-STS:vm_state": states.vm_state,
        "OS-EXT-STS:task_state": states.task_state,
        "OS-EXT-STS:power_state": states.power_state,
    }
    return all(shown[member] == value for member, value in wanted.items() if value not in ("", None))


FEW_HAVE = [
    AskedStates(vm_state="stopped"),
    AskedStates(vm_state="building"),
    AskedStates(vm_state="shelved_offloaded"),
    AskedStates(vm_state="deleted"),
    AskedStates(task_state="powering-on"),
    AskedStates(task_state="soft-deleting"),
    AskedStates(task_state="spawning"),
    AskedStates(task_state="unshelving"),
    AskedStates(power_state=0),
    AskedStates(power_state=4),
    AskedStates(power_state=7),
    AskedStates(power_state=9),
]


@pytest.mark.sqlite
@pytest.mark.parametrize("states", FEW_HAVE, ids=str)
def test_a_list_by_states_that_few_instances_have_reads_no_others(
    tmp_path: Path, states: AskedStates
) -> None:
    zone = a_zone(tmp_path, FakeClock())
    many_instances(zone)
    put_state(zone, put_instance(zone), InstanceState(Desired(1), Observed(power=Power.STOPPED)))
    page, seen = replace(EVERYBODYS, states=states), list[ServerView]()

    def is_asked_for(view: ServerView) -> bool:
        seen.append(view)
        return has(view, states)

    search = Search(lambda _name, _passthrough: True, is_asked_for, states)
    servers.list_servers(zone, ADMIN, ServerQuery(all_tenants=True), search)

    assert len(seen) <= 1
    assert sqlite_steps(zone.store, lambda tx: server_list.page(tx, page)) < 20


def test_a_list_of_stopped_servers_has_those_of_any_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "MOST_SEARCHED", 2)
    clock = FakeClock()
    zone = a_zone(tmp_path, clock)
    put_reservation(zone)
    stopped = put_instance(zone)
    put_state(zone, stopped, InstanceState(observed=Observed(power=Power.STOPPED)))
    for _ in range(3):
        clock.advance(1)
        put_instance(zone)
    search = Search(lambda _name, _passthrough: True, lambda _view: True, AskedStates(power_state=4))

    found, marker = servers.list_servers(zone, ADMIN, ServerQuery(all_tenants=True), search)

    assert ([view.uuid for view in found], marker) == ([stopped], "")
