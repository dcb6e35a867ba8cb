"""The agent: inventories, the machine that decides, the fake driver, and all of it against a failing zone."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.clock import FakeClock
from zonesched.compute.agent import Agent, Rhythm
from zonesched.compute.client import ZoneIdentity
from zonesched.compute.connection import ZoneRefused, ZoneUnavailable
from zonesched.compute.desired_state import Desired, Observed, Power
from zonesched.compute.driver import DriverSettings, DriverUnknown, load_driver
from zonesched.compute.fake import FakeDriver
from zonesched.compute.inventory import InventoryHost, read_inventory
from zonesched.compute.inventory_fields import InventoryError
from zonesched.compute.machine import (
    Apply,
    Built,
    Changed,
    ConsoleAsk,
    Destroy,
    Destroyed,
    Event,
    Failed,
    Fenced,
    Fetched,
    Found,
    Key,
    Leave,
    Left,
    Phase,
    Report,
    Reported,
    ReportState,
    Return,
    Spawn,
    State,
    Wanted,
    handle,
)
from zonesched.compute.main import main as compute
from zonesched.compute.restored_zone import Running, reported_again
from zonesched.model.console import MAX_CONSOLE_BYTES, text_of

A, B = Key("a", 1), Key("b", 1)


def wants(*keys: Key, is_active: bool = False) -> Fetched:
    return Fetched(tuple(Wanted(key, "host-1", is_active=is_active) for key in keys))


def wants_state(desired: Desired, *, is_active: bool = True) -> Fetched:
    return Fetched((Wanted(A, "host-1", is_active=is_active, desired=desired),))


def leaver(key: Key, leaves_for: int) -> Wanted:
    return Wanted(key, "host-1", is_active=True, leaves_for=leaves_for)


def leaves(key: Key, leaves_for: int) -> Fetched:
    return Fetched((leaver(key, leaves_for),))


def after(*events: Event) -> State:
    return handle(State(), events)[0]


class TestInventory:
    def read(self, tmp_path: Path, text: str, name: str = "hosts.csv") -> list[InventoryHost]:
        path = tmp_path / name
        path.write_text(text)
        return read_inventory(path)

    def test_a_csv_line_is_a_host(self, tmp_path: Path) -> None:
        text = (
            "# a comment\n"
            "name,address,availability_zone,VCPU,VCPU.ratio,MEMORY_MB,MEMORY_MB.reserved,capabilities,traits,metrics\n"
            "h1,192.0.2.1,rack-1,32,4.0,1024,24,kind=big;cores=8,HW_A;HW_B,load=0.5;heat=-3\n"
        )
        [host] = self.read(tmp_path, text)
        assert host.to_wire() == {
            "name": "h1",
            "address": "192.0.2.1",
            "availability_zone": "rack-1",
            "inventories": {
                "VCPU": {"total": 32, "allocation_ratio": 4.0, "max_unit": 32},
                "MEMORY_MB": {"total": 1024, "reserved": 24, "max_unit": 1024},
            },
            "capabilities": {"kind": "big", "cores": 8},
            "traits": ["HW_A", "HW_B"],
            "metrics": {"load": 0.5, "heat": -3},
        }

    def test_json_says_the_same_as_csv(self, tmp_path: Path) -> None:
        as_csv = self.read(
            tmp_path, "name,VCPU,VCPU.ratio,capabilities,traits,metrics\nh1,32,1.5,k=v,HW_A,x=1\n"
        )
        row = {
            "name": "h1",
            "inventories": {"VCPU": {"total": 32, "ratio": 1.5}},
            "capabilities": {"k": "v"},
            "traits": ["HW_A"],
            "metrics": {"x": 1},
        }
        assert self.read(tmp_path, json.dumps([row]), "hosts.json") == as_csv

    def test_the_drivers_traits_are_added_to_those_of_the_file(self, tmp_path: Path) -> None:
        [host] = self.read(tmp_path, "name,traits\nh1,HW_A;COMPUTE_PAUSE\n")
        assert host.with_traits({"COMPUTE_SUSPEND", "COMPUTE_PAUSE"}).traits == (
            "COMPUTE_PAUSE",
            "COMPUTE_SUSPEND",
            "HW_A",
        )

    def test_an_empty_cell_leaves_the_class_out(self, tmp_path: Path) -> None:
        hosts = self.read(tmp_path, "name,VCPU,PGPU\nh1,4,\nh2,4,2\n")
        assert [sorted(host.inventories) for host in hosts] == [["VCPU"], ["PGPU", "VCPU"]]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "line 1: the header is missing"),
            ("name,vcpus\nh1,4\n", "line 1: vcpus: unknown column"),
            ("name,VCPU,VCPU\nh1,4,4\n", "line 1: VCPU: is twice"),
            ("name,VCPU.total\nh1,4\n", "line 1: VCPU.total: unknown column"),
            ("name,VCPU\nh1\n", "line 2: 1 cells, the header has 2"),
            ("name,VCPU\n\n# note\nh1,four\n", "line 4: VCPU: 'four' is not a number"),
            ("name,VCPU\nh1,4.5\n", "line 2: VCPU.total: 4.5 is not a whole number"),
            ("name,VCPU\nh1,1_0\n", "line 2: VCPU: '1_0' is not a number"),
            ("name,VCPU\nh1,\u0663\n", "line 2: VCPU: '\u0663' is not a number"),
            ("name,VCPU,VCPU.ratio\nh1,4,1_0.5\n", "line 2: VCPU.ratio: '1_0.5' is not a number"),
            ("name,VCPU\nh1,-1\n", "line 2: VCPU.total: -1 is not a whole number from 0"),
            ("name,VCPU,VCPU.ratio\nh1,4,nan\n", "line 2: VCPU.ratio: 'nan' is not a number"),
            ("name,VCPU,VCPU.ratio\nh1,4,0\n", "line 2: VCPU.ratio: 0 is not a number above 0"),
            ("name,VCPU,VCPU.reserved\nh1,4,5\n", "line 2: VCPU.reserved: 5 is more than the total 4"),
            ("name,VCPU,VCPU.reserved\nh1,,5\n", "line 2: VCPU: total is missing"),
            ("name,VCPU\n,4\n", "line 2: name: is missing"),
            ("name,VCPU\nh1,4\nh1,4\n", "line 3: name: 'h1' is already on line 2"),
            ("name,availability_zone\nh1,a:b\n", "line 2: availability_zone: 'a:b' has a colon"),
            ("name,traits\nh1,hw-a\n", "line 2: traits: must be names of capital letters"),
            ("name,capabilities\nh1,big\n", "line 2: capabilities: 'big' is not key=value"),
            ("name,metrics\nh1,load\n", "line 2: metrics: 'load' is not key=value"),
            ("name,metrics\nh1,load=high\n", "line 2: metrics.load: 'high' is not a number"),
            ("name,metrics\nh1,load=nan\n", "line 2: metrics.load: 'nan' is not a number"),
            ("name\n" + "h" * 140_000, "line 2: field larger than field limit"),
        ],
    )
    def test_a_wrong_csv_is_refused_with_its_line(self, tmp_path: Path, text: str, said: str) -> None:
        with pytest.raises(InventoryError) as caught:
            self.read(tmp_path, text)
        assert f"{tmp_path}/hosts.csv, {said}" in str(caught.value)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("{}", "line 1: a JSON inventory is an array of hosts"),
            ('[\n{"name": "h1"},\n3]', "line 3: a host is a JSON object"),
            ('[\n{"name": "h1"},\n{"name": }]', "line 3: Expecting value"),
            ('[\n{"name": "h1"}', "line 2: Expecting value"),
            ('[{"name": "h1"},\n{"name": "h2", "vcpus": 4}]', "line 2: vcpus: unknown field"),
            ('[{"name": 7}]', "line 1: name: must be text"),
            ('[{"name": "h", "inventories": 7}]', "line 1: inventories: must be an object"),
            ('[{"name": "h", "inventories": {"VCPU": {"total": true}}}]', "line 1: VCPU.total: True is not"),
            (
                '[{"name": "h", "inventories": {"VCPU": {"total": 1, "x": 1}}}]',
                "line 1: VCPU.x: unknown member",
            ),
            ('[{"name": "h", "inventories": {"vcpu": {"total": 1}}}]', "line 1: vcpu: a resource class is"),
            (
                '[{"name": "h", "inventories": {"VCPU": {"total": 1, "ratio": "a"}}}]',
                "VCPU.ratio: 'a' is not",
            ),
            ('[{"name": "h", "capabilities": []}]', "line 1: capabilities: must be an object"),
            ('[{"name": "h", "metrics": []}]', "line 1: metrics: must be an object"),
            ('[{"name": "h", "metrics": {"load": "1"}}]', "line 1: metrics.load: '1' is not a finite number"),
            (
                '[{"name": "h", "metrics": {"load": true}}]',
                "line 1: metrics.load: True is not a finite number",
            ),
            ('[{"name": "h", "metrics": {"load": 1' + "0" * 400 + "}}]", "line 1: metrics.load: 1000"),
            ('[\n{"name": "h", "capabilities": {"a": ' + "9" * 5000 + "}}]", "line 2: a number is too long"),
            ('[\n{"name": "h", "capabilities": {"a": NaN}}]', "line 2: a number is too long, or NaN"),
            ('[\n{"name": "h", "capabilities": ' + "[" * 100_000, "line 2: nests deeper than 32 levels"),
            ('[\n{"name": "h", "capabilities": {"a": "[[[[",\n"b": ' + "[" * 29, "line 3: Expecting value"),
            (
                '[\n{"name": "h", "capabilities": {"a": "[[[[",\n"b": ' + "[" * 30,
                "line 3: nests deeper than 32 levels",
            ),
        ],
    )
    def test_wrong_json_is_refused_with_its_line(self, tmp_path: Path, text: str, said: str) -> None:
        with pytest.raises(InventoryError) as caught:
            self.read(tmp_path, text, "hosts.json")
        assert said in str(caught.value)

    def test_a_file_of_a_spreadsheet_begins_with_a_mark_that_is_no_part_of_it(self, tmp_path: Path) -> None:
        [host] = self.read(tmp_path, "\ufeffname,VCPU\r\nh1,2\r\n")
        assert host.name == "h1"

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InventoryError, match=r"none\.csv: cannot be read"):
            read_inventory(tmp_path / "none.csv")


class TestMachine:
    def test_what_is_wanted_and_not_there_is_spawned_once(self) -> None:
        state, first = handle(State(), [wants(A, B)])
        _, second = handle(state, [wants(A, B)])
        assert first == (Spawn(Wanted(A, "host-1")), Spawn(Wanted(B, "host-1")))
        assert second == ()

    def test_a_build_that_ends_is_reported_until_the_zone_took_it(self) -> None:
        built = after(wants(A), Built(A))
        assert list(built.unreported.values()) == [Report(A, ReportState.ACTIVE)]
        taken, _ = handle(built, [Reported((Report(A, ReportState.ACTIVE),))])
        assert taken.unreported == {}

    def test_a_report_the_zone_lost_is_sent_again(self) -> None:
        told = after(wants(A), Built(A), Reported((Report(A, ReportState.ACTIVE),)))
        state, _ = handle(told, [wants(A)])
        assert list(state.unreported.values()) == [Report(A, ReportState.ACTIVE)]

    def test_what_the_zone_has_as_running_is_not_reported(self) -> None:
        state = after(wants(A, is_active=True), Built(A), wants(A, is_active=True))
        assert state.instances[A].phase is Phase.BUILT
        assert state.unreported == {}

    def test_a_failure_is_reported_with_its_reason_and_not_tried_again(self) -> None:
        state, instructions = handle(after(wants(A), Failed(A, "build_failed")), [wants(A)])
        assert instructions == ()
        assert list(state.unreported.values()) == [Report(A, ReportState.ERROR, "build_failed")]

    def test_a_failure_is_forgotten_when_the_zone_no_longer_wants_it(self) -> None:
        state, instructions = handle(after(wants(A), Failed(A, "build_failed")), [wants()])
        assert instructions == (Destroy(A),)
        assert handle(state, [Destroyed(A)])[0].instances == {}

    def test_what_an_earlier_agent_left_is_reported_as_it_stands(self) -> None:
        state, instructions = handle(after(Found((A, B))), [wants(A, B), Built(A), Failed(B, "ended")])
        assert instructions == ()
        assert set(state.unreported.values()) == {
            Report(A, ReportState.ACTIVE),
            Report(B, ReportState.ERROR, "ended"),
        }

    def test_what_an_earlier_agent_left_and_nobody_wants_is_destroyed(self) -> None:
        _, instructions = handle(after(Found((A, B)), Built(A)), [wants(B)])
        assert instructions == (Destroy(A),)

    def test_a_running_instance_that_stops_is_reported(self) -> None:
        state = after(wants(A, is_active=True), Built(A), Failed(A, "stopped"))
        assert list(state.unreported.values()) == [Report(A, ReportState.ERROR, "stopped")]

    @pytest.mark.parametrize("events", [[wants(A)], [wants(A), Built(A)]])
    def test_what_ended_with_the_lease_is_told_of_no_more(self, events: list[Event]) -> None:
        fenced = after(*events, Fenced(A))
        assert (fenced.instances[A].phase, fenced.unreported) == (Phase.FENCED, {})

    @pytest.mark.parametrize("events", [[], [wants(A), Failed(A, "x")], [wants(A), Built(A), leaves(A, 2)]])
    def test_what_had_ended_or_left_before_its_lease_stays_so(self, events: list[Event]) -> None:
        assert after(*events, Fenced(A)) == after(*events)

    @pytest.mark.parametrize("events", [[wants(A)], [wants(A), Built(A)]])
    def test_what_is_no_longer_wanted_is_destroyed_and_told(self, events: list[Event]) -> None:
        state, instructions = handle(after(*events), [wants()])
        assert instructions == (Destroy(A),)
        assert state.unreported == {}
        gone, _ = handle(state, [Destroyed(A)])
        assert gone == State(unreported={A: Report(A, ReportState.GONE)})

    def test_what_the_zone_still_claims_and_was_never_here_is_reported_gone(self) -> None:
        state, instructions = handle(State(), [Fetched((), releasing=(A,))])
        assert instructions == ()
        assert state.unreported == {A: Report(A, ReportState.GONE)}

    def test_what_the_zone_still_claims_is_destroyed_before_it_is_reported_gone(self) -> None:
        built_late = Fetched((), releasing=(A,))
        state, instructions = handle(after(wants(A), Built(A)), [built_late])
        again, _ = handle(state, [built_late])
        gone, _ = handle(again, [Destroyed(A)])
        assert instructions == (Destroy(A),)
        assert state.unreported == again.unreported == {}
        assert gone.unreported == {A: Report(A, ReportState.GONE)}

    def test_a_build_that_ends_while_it_is_destroyed_is_not_reported(self) -> None:
        state = after(wants(A), wants(), Built(A), Failed(A, "x"))
        assert state.instances[A].phase is Phase.DESTROYING
        assert state.unreported == {}

    def test_a_later_attempt_is_another_instance(self) -> None:
        _, instructions = handle(after(wants(A)), [wants(Key("a", 2))])
        assert instructions == (Destroy(A), Spawn(Wanted(Key("a", 2), "host-1")))

    def test_a_newer_desired_state_is_applied_until_the_driver_has_acted_on_it(self) -> None:
        stop = Desired(1, Power.STOPPED)
        state, first = handle(after(wants(A, is_active=True), Built(A)), [wants_state(stop)])
        state, again = handle(state, [wants_state(stop)])
        stopped = Observed(1, Power.STOPPED)
        state, after_it = handle(state, [Changed(A, stopped), wants_state(stop)])
        assert (first, again, after_it) == ((Apply(A, stop),), (Apply(A, stop),), ())
        assert list(state.unreported.values()) == [Report(A, ReportState.ACTIVE, observed=stopped)]

    def test_a_desired_state_is_applied_as_soon_as_the_build_ends(self) -> None:
        stop = Desired(1, Power.STOPPED)
        state, building = handle(State(), [wants_state(stop, is_active=False)])
        _, built = handle(state, [Built(A)])
        assert building == (Spawn(Wanted(A, "host-1", desired=stop)),)
        assert built == (Apply(A, stop),)

    def test_what_was_built_in_its_desired_state_is_left_alone(self) -> None:
        running = Desired(2, Power.RUNNING)
        state = after(wants_state(running, is_active=False))
        assert handle(state, [Built(A, Observed(2, Power.RUNNING))])[1] == ()

    def test_a_refused_state_is_reported_with_its_reason_and_not_applied_again(self) -> None:
        suspend, refused = Desired(1, Power.SUSPENDED), Observed(1, Power.RUNNING, "suspend_unsupported")
        state = after(wants(A, is_active=True), Built(A), wants_state(suspend), Changed(A, refused))
        assert handle(state, [wants_state(suspend)])[1] == ()
        assert list(state.unreported.values()) == [
            Report(A, ReportState.ACTIVE, "suspend_unsupported", refused)
        ]

    def test_an_instance_that_ended_by_itself_is_reported_as_stopped_and_left_alone(self) -> None:
        ended = Observed(0, Power.STOPPED, "process_ended")
        state, instructions = handle(
            after(wants(A, is_active=True), Built(A)), [Changed(A, ended), wants(A, is_active=True)]
        )
        assert instructions == ()
        assert list(state.unreported.values()) == [Report(A, ReportState.ACTIVE, "process_ended", ended)]

    def test_a_restarted_agent_reports_states_that_its_predecessor_may_not_have(self) -> None:
        stopped = Observed(2, Power.STOPPED)
        state = after(Found((A,)), wants_state(Desired(2, Power.STOPPED)), Built(A, stopped))
        assert list(state.unreported.values()) == [Report(A, ReportState.ACTIVE, observed=stopped)]

    @pytest.mark.parametrize("before", [[wants(A)], [wants(A), Built(A), wants()]])
    def test_a_change_of_an_instance_that_is_not_built_is_ignored(self, before: list[Event]) -> None:
        state, instructions = handle(after(*before), [Changed(A, Observed(1, Power.STOPPED))])
        assert (state, instructions) == (after(*before), ())

    def test_one_that_leaves_is_stopped_once_and_kept_until_it_is_released(self) -> None:
        running = after(wants(A), Built(A), Reported((Report(A, ReportState.ACTIVE),)))
        leaving, first = handle(running, [leaves(A, 2)])
        left, again = handle(leaving, [leaves(A, 2), Left(A, 2), leaves(A, 2)])
        told, _ = handle(left, [Reported((Report(A, ReportState.LEFT, left_for=2),)), leaves(A, 2)])
        _, last = handle(told, [Fetched((), releasing=(A,))])

        assert (first, again, last) == ((Leave(leaver(A, 2)),), (), (Destroy(A),))
        assert left.unreported == {A: Report(A, ReportState.LEFT, left_for=2)}
        assert (told.unreported, told.instances[A].phase) == ({}, Phase.LEFT)

    def test_one_whose_move_failed_returns_and_is_reported_as_it_is_then(self) -> None:
        left = after(wants(A), Built(A), leaves(A, 2), Left(A, 2))
        back, instructions = handle(left, [wants(A, is_active=True)])
        running, _ = handle(back, [Built(A, Observed(1, Power.STOPPED))])

        assert instructions == (Return(Wanted(A, "host-1", is_active=True)),)
        assert back.unreported == {}
        assert running.unreported == {
            A: Report(A, ReportState.ACTIVE, observed=Observed(1, Power.STOPPED)),
        }

    def test_a_stop_for_an_earlier_move_is_none_for_a_later_one(self) -> None:
        state, instructions = handle(after(wants(A), Built(A), leaves(A, 2)), [leaves(A, 3), Left(A, 2)])

        assert instructions == (Leave(leaver(A, 3)),)
        assert (state.instances[A].phase, state.unreported) == (Phase.LEAVING, {})

    @pytest.mark.parametrize("before", [[], [Found((A,))]])
    def test_a_new_agent_stops_one_that_leaves_before_it_knows_it(self, before: list[Event]) -> None:
        state, instructions = handle(after(*before), [leaves(A, 2)])

        assert instructions == (Leave(leaver(A, 2)),)
        assert handle(state, [Built(A)])[0] == state

    def test_one_that_an_earlier_agent_stopped_returns_where_its_move_has_failed_since(self) -> None:
        stopped = after(Found((A,)), Left(A, 2))
        back, instructions = handle(stopped, [wants(A, is_active=True)])
        running, _ = handle(back, [Built(A)])

        assert instructions == (Return(Wanted(A, "host-1", is_active=True)),)
        assert running.instances[A].phase is Phase.BUILT

    def test_one_that_an_earlier_agent_stopped_is_reported_as_stopped(self) -> None:
        state, instructions = handle(after(Found((A,)), Left(A, 2)), [leaves(A, 2)])

        assert instructions == ()
        assert state.unreported == {A: Report(A, ReportState.LEFT, left_for=2)}

    @pytest.mark.parametrize("reason", ["", "folder_not_copied"])
    def test_a_zone_that_has_forgotten_the_stop_of_one_that_leaves_is_told_again(self, reason: str) -> None:
        stopped = Report(A, ReportState.LEFT, reason, left_for=2)
        told = after(wants(A), Built(A), leaves(A, 2), Left(A, 2, reason), Reported((stopped,)))

        again = reported_again(told)

        assert (told.unreported, again.unreported) == ({}, {A: stopped})
        assert handle(again, [leaves(A, 2)]) == (again, ())
        assert handle(again, [wants(A, is_active=True)])[0].unreported == {}

    def test_a_late_stop_is_none_of_one_that_returns(self) -> None:
        returning = after(wants(A), Built(A), leaves(A, 2), wants(A))

        assert handle(returning, [Left(A, 2)]) == (returning, ())

    def test_one_that_failed_while_it_left_is_reported(self) -> None:
        failed = after(wants(A), Built(A), leaves(A, 2), Failed(A, "process_lost"))
        state, instructions = handle(failed, [leaves(A, 2)])

        assert instructions == ()
        assert state.unreported == {A: Report(A, ReportState.ERROR, "process_lost")}

    def test_a_state_is_never_changed_in_place(self) -> None:
        before = after(wants(A))
        handle(before, [Built(A), wants(B)])
        assert before == after(wants(A))

    def test_a_newer_report_outlives_the_answer_to_an_older_one(self) -> None:
        state = after(wants(A), Built(A), Failed(A, "stopped"), Reported((Report(A, ReportState.ACTIVE),)))
        assert list(state.unreported.values()) == [Report(A, ReportState.ERROR, "stopped")]


keys = st.builds(Key, st.sampled_from("abcd"), st.integers(1, 2))
events = st.lists(
    st.one_of(
        st.sets(keys).map(lambda chosen: wants(*sorted(chosen))),
        st.builds(Built, keys),
        st.builds(Failed, keys, st.just("x")),
        st.builds(Destroyed, keys),
    ),
    max_size=12,
)


@given(history=events, final=st.sets(keys))
def test_whatever_happened_what_is_wanted_runs_in_the_end(history: list[Event], final: set[Key]) -> None:
    state, _ = handle(State(), history)
    for _ in range(3):
        state, instructions = handle(state, [wants(*sorted(final))])
        outcomes = [
            Built(i.wanted.key) if isinstance(i, Spawn) else Destroyed(i.key)
            for i in instructions
            if isinstance(i, Spawn | Destroy)
        ]
        building = [Built(key) for key, local in state.instances.items() if local.phase is Phase.BUILDING]
        state, _ = handle(state, [*outcomes, *building])
    running = {key for key, local in state.instances.items() if local.phase is Phase.BUILT}
    failed = {key for key, local in state.instances.items() if local.phase is Phase.FAILED}
    assert running | failed == final
    assert {k for k, r in state.unreported.items() if r.state is ReportState.ACTIVE} == running


class TestFakeDriver:
    def driver(self, clock: FakeClock, **settings: object) -> FakeDriver:
        return FakeDriver(DriverSettings(**settings), clock)  # type: ignore[arg-type]

    def test_a_build_takes_its_time(self) -> None:
        clock = FakeClock()
        driver = self.driver(clock, build_seconds=3.0)
        driver.spawn(Wanted(A, "h"))
        clock.advance(2.9)
        assert list(driver.poll()) == []
        assert driver.next_event_s() == pytest.approx(0.1)
        clock.advance(0.2)
        assert list(driver.poll()) == [Built(A)]

    def test_what_is_spawned_twice_is_built_once(self) -> None:
        driver = self.driver(FakeClock())
        driver.spawn(Wanted(A, "h"))
        driver.spawn(Wanted(A, "h"))
        assert list(driver.poll()) == [Built(A)]
        driver.spawn(Wanted(A, "h"))
        assert list(driver.poll()) == []

    def test_a_build_that_is_destroyed_never_ends(self) -> None:
        clock = FakeClock()
        driver = self.driver(clock, build_seconds=1.0)
        driver.spawn(Wanted(A, "h"))
        driver.destroy(A)
        clock.advance(2)
        assert list(driver.poll()) == [Destroyed(A)]

    def test_an_active_instance_runs_at_once_and_never_fails(self) -> None:
        driver = self.driver(FakeClock(), build_seconds=60.0, failure_rate=1.0)
        driver.spawn(Wanted(A, "h", is_active=True))
        assert list(driver.poll()) == [Built(A)]

    def test_an_action_takes_its_time_and_the_newest_wins(self) -> None:
        clock = FakeClock()
        driver = self.driver(clock, action_seconds=2.0)
        driver.spawn(Wanted(A, "h", is_active=True))
        driver.poll()
        driver.apply(A, Desired(1, Power.STOPPED))
        clock.advance(1.0)
        driver.apply(A, Desired(2, Power.PAUSED))
        driver.apply(A, Desired(1, Power.STOPPED))
        clock.advance(1.5)
        assert list(driver.poll()) == []
        clock.advance(1.0)
        assert list(driver.poll()) == [Changed(A, Observed(2, Power.PAUSED))]
        driver.apply(A, Desired(2, Power.PAUSED))
        assert (list(driver.poll()), driver.next_event_s()) == ([], math.inf)

    def test_an_action_that_fails_leaves_the_instance_as_it_was(self) -> None:
        driver = self.driver(FakeClock(), action_failure_rate=1.0)
        driver.spawn(Wanted(A, "h"))
        driver.poll()
        driver.apply(A, Desired(1, Power.STOPPED))
        assert list(driver.poll()) == [Changed(A, Observed(1, Power.RUNNING, "action_failed"))]

    def test_an_active_instance_is_in_the_state_that_the_zone_wants(self) -> None:
        driver = self.driver(FakeClock())
        driver.spawn(Wanted(A, "h", is_active=True, desired=Desired(3, Power.STOPPED)))
        assert list(driver.poll()) == [Built(A, Observed(3, Power.STOPPED))]

    def test_an_action_that_failed_before_a_restart_has_failed_after_it_too(self) -> None:
        stop, before = Desired(2, Power.STOPPED), Observed(1, Power.RUNNING)
        wanted = Wanted(A, "h", is_active=True, desired=stop, observed=before)
        driver = self.driver(FakeClock(), action_failure_rate=1.0)

        driver.spawn(wanted)
        driver.leave(replace(wanted, key=B, leaves_for=2))
        driver.come_back(replace(wanted, key=B))

        failed = Observed(2, Power.RUNNING, "action_failed")
        assert list(driver.poll()) == [Built(A, failed), Built(B, failed)]

    def test_what_the_zone_knows_of_an_action_that_failed_is_so_after_a_restart(self) -> None:
        driver = self.driver(FakeClock())
        known = Observed(2, Power.RUNNING, rebuilds=1)
        driver.spawn(Wanted(A, "h", is_active=True, desired=Desired(2, Power.STOPPED), observed=known))
        assert list(driver.poll()) == [Built(A, known)]

    def test_one_that_leaves_takes_its_time_and_comes_back_as_it_was(self) -> None:
        clock = FakeClock()
        driver = self.driver(clock, action_seconds=2.0)
        driver.spawn(Wanted(A, "h", is_active=True, desired=Desired(3, Power.STOPPED)))
        driver.poll()
        driver.leave(leaver(A, 2))
        at_once = list(driver.poll())
        clock.advance(2)

        assert (at_once, list(driver.poll())) == ([], [Left(A, 2)])
        driver.come_back(Wanted(A, "h"))
        assert list(driver.poll()) == [Built(A, Observed(3, Power.STOPPED))]

    def test_one_that_arrives_takes_its_time_and_is_as_desired(self) -> None:
        clock = FakeClock()
        driver = self.driver(clock, build_seconds=2.0)
        driver.spawn(Wanted(Key("a", 2), "h", desired=Desired(3, Power.STOPPED), moved_from=1))
        at_once = list(driver.poll())
        clock.advance(2)

        assert (at_once, list(driver.poll())) == ([], [Built(Key("a", 2), Observed(3, Power.STOPPED))])

    def test_an_instance_that_is_not_there_is_not_changed(self) -> None:
        driver = self.driver(FakeClock())
        driver.apply(A, Desired(1, Power.STOPPED))
        assert (list(driver.poll()), driver.next_event_s()) == ([], math.inf)

    def test_the_failure_rate_is_kept_and_the_same_for_the_same_seed(self) -> None:
        def outcomes(seed: str) -> list[bool]:
            driver = self.driver(FakeClock(), failure_rate=0.3, seed=seed)
            for number in range(1000):
                driver.spawn(Wanted(Key(str(number), 1), "h"))
            events = [event for event in driver.poll() if isinstance(event, Built | Failed)]
            happened = {event.key.uuid: isinstance(event, Failed) for event in events}
            return [happened[str(number)] for number in range(1000)]

        assert 250 < sum(outcomes("s")) < 350
        assert outcomes("s") == outcomes("s")
        assert outcomes("s") != outcomes("t")

    def test_a_driver_is_found_by_entry_point_or_path(self) -> None:
        assert load_driver("fake") is FakeDriver
        assert load_driver("zonesched.compute.fake:FakeDriver") is FakeDriver

    @pytest.mark.parametrize("name", ["vmware", "zonesched.compute.fake:None", "no.such.module:X"])
    def test_an_unknown_driver_is_named(self, name: str) -> None:
        with pytest.raises(DriverUnknown, match=name):
            load_driver(name)


class ZoneStandIn:
    """Keeps what a zone keeps for an agent; `outage` is raised by every call while it is set."""

    def __init__(self, keys: Sequence[Key] = ()) -> None:
        self.status = dict.fromkeys(keys, "BUILD")
        self.hosts: list[str] = []
        self.beats = 0
        self.looks = 0
        self.outage: Exception | None = None
        self.loses_reports = False
        self.releasing: tuple[Key, ...] = ()
        self.asked: tuple[ConsoleAsk, ...] = ()
        self.brought: list[tuple[str, str | None]] = []
        self.refuses_consoles: ZoneRefused | None = None

    def register(self, hosts: Sequence[InventoryHost], fence_after_s: float = math.inf) -> ZoneIdentity:
        self._reach()
        self.hosts = [host.name for host in hosts]
        return ZoneIdentity("nova", "zone-uuid")

    def beat(self, fence_after_s: float = math.inf) -> None:
        self._reach()
        self.beats += 1

    def fetch(self) -> Fetched:
        self._reach()
        if not self.hosts:
            raise ZoneRefused(404, "service_not_found", "no such service", "service")
        self.looks += 1
        wanted = tuple(
            Wanted(key, "h1", is_active=status == "ACTIVE")
            for key, status in self.status.items()
            if status in ("BUILD", "ACTIVE")
        )
        return Fetched(wanted, self.releasing, self.asked)

    def tell(self, running: Sequence[Running]) -> None:
        raise AssertionError("the zone was not restored")

    def bring_console(self, ask_id: str, output: str | None) -> None:
        self._reach()
        self.brought.append((ask_id, output))
        if self.refuses_consoles:
            raise self.refuses_consoles

    def report(self, reports: Sequence[Report]) -> None:
        self._reach()
        for report in reports:
            if not self.loses_reports and report.key in self.status:
                self.status[report.key] = report.state.value.upper()

    def _reach(self) -> None:
        if self.outage:
            raise self.outage


class TestAgent:
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    def agent(
        self, zone: ZoneStandIn, clock: FakeClock, rhythm: Rhythm | None = None, **settings: object
    ) -> Agent:
        driver = FakeDriver(DriverSettings(**settings), clock)  # type: ignore[arg-type]
        return Agent(zone, driver, clock, [InventoryHost("h1")], rhythm or Rhythm())

    def run(self, agent: Agent, clock: FakeClock, seconds: float) -> Iterator[float]:
        end = clock.monotonic() + seconds
        pauses = []
        while clock.monotonic() < end:
            pauses.append(agent.step())
            clock.advance(max(pauses[-1], 0.001))
        return iter(pauses)

    def test_it_registers_and_builds(self, clock: FakeClock) -> None:
        zone = ZoneStandIn([A, B])
        self.run(self.agent(zone, clock, build_seconds=1.0), clock, 31)
        assert zone.hosts == ["h1"]
        assert set(zone.status.values()) == {"ACTIVE"}

    def test_it_says_once_that_its_zone_was_restored_and_not_that_this_was_just_now(
        self, clock: FakeClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        # given a zone that compares its rows for a while
        class Restored(ZoneStandIn):
            told = 0
            compares = False

            def fetch(self) -> Fetched:
                if self.compares:
                    raise ZoneRefused(503, "zone_restored", "It compares.", "")
                return replace(super().fetch(), incarnation="f" * 32)

            def tell(self, running: Sequence[Running]) -> None:
                self.told += 1

        zone = Restored()
        agent = self.agent(zone, clock)
        self.run(agent, clock, 1)
        caplog.set_level("INFO")
        zone.compares = True
        self.run(agent, clock, 100)
        assert zone.told > 5
        # then it says so once, as does an agent that starts long afterwards
        assert [record.getMessage() for record in caplog.records] == [
            "the zone refused (503 zone_restored): It compares; retrying"
        ]
        caplog.clear()
        self.run(self.agent(Restored(), clock), clock, 100)
        assert [record.getMessage() for record in caplog.records] == [
            "registered 1 hosts",
            "the zone was restored from a copy, now or earlier: reported what runs here to it",
        ]

    def test_it_beats_only_where_it_has_nothing_else_to_call_for(self, clock: FakeClock) -> None:
        often, seldom = ZoneStandIn(), ZoneStandIn()
        self.run(self.agent(often, clock), clock, 61)
        self.run(self.agent(seldom, clock, Rhythm(heartbeat_s=10, poll_s=30)), clock, 61)
        assert (often.beats, often.looks) == (0, 31)
        assert (seldom.beats, seldom.looks) == (4, 3)

    def test_a_build_without_delay_is_reported_in_the_same_step(self, clock: FakeClock) -> None:
        zone = ZoneStandIn([A])
        self.agent(zone, clock).step()
        assert zone.status == {A: "ACTIVE"}

    def test_what_the_zone_drops_is_destroyed(self, clock: FakeClock) -> None:
        zone = ZoneStandIn([A, B])
        agent = self.agent(zone, clock)
        agent.step()
        del zone.status[A]
        self.run(agent, clock, 3)
        assert set(agent.state.instances) == {B}

    @pytest.mark.parametrize(
        "outage",
        [
            ZoneUnavailable("gone"),
            ZoneRefused(503, "unavailable", "later", ""),
            ZoneRefused(401, "unauthorized", "no", ""),
        ],
    )
    def test_a_zone_that_is_away_costs_time_and_no_instance(
        self, clock: FakeClock, outage: Exception
    ) -> None:
        zone = ZoneStandIn([A])
        agent = self.agent(zone, clock, build_seconds=1.0)
        agent.step()
        zone.outage = outage
        pauses = list(self.run(agent, clock, 120))
        assert zone.status == {A: "BUILD"}
        assert len(pauses) < 20
        zone.outage = None
        pauses = list(self.run(agent, clock, 20))
        assert zone.status == {A: "ACTIVE"}
        assert len(pauses) < 20

    def test_the_pause_between_calls_doubles_up_to_the_longest_until_the_zone_is_back(
        self, clock: FakeClock
    ) -> None:
        zone = ZoneStandIn()
        agent = self.agent(zone, clock, Rhythm(first_retry_s=1.0, longest_retry_s=10.0))
        for _ in range(2):
            zone.outage = ZoneUnavailable("gone")
            pauses = []
            for _ in range(6):
                pauses.append(agent.step())
                clock.advance(pauses[-1])
            assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
            zone.outage = None
            clock.advance(agent.step())

    def test_each_reason_for_which_a_zone_is_not_called_is_said_once(
        self, clock: FakeClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        zone = ZoneStandIn([A])
        agent = self.agent(zone, clock)
        zone.outage = ZoneUnavailable("the zone cannot be reached")
        self.run(agent, clock, 120)
        zone.outage = ZoneRefused(401, "unauthorized", "the password is wrong.", "")
        self.run(agent, clock, 120)
        zone.outage = None
        self.run(agent, clock, 20)

        assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
            "the zone cannot be reached; retrying",
            "the zone refused (401 unauthorized): the password is wrong; retrying",
            "the zone is back",
        ]

    def test_an_agent_that_starts_before_its_zone_registers_later(self, clock: FakeClock) -> None:
        zone = ZoneStandIn([A])
        zone.outage = ZoneUnavailable("not there yet")
        agent = self.agent(zone, clock)
        self.run(agent, clock, 5)
        zone.outage = None
        self.run(agent, clock, 20)
        assert (zone.hosts, zone.status) == (["h1"], {A: "ACTIVE"})

    def test_a_zone_that_forgot_the_service_is_told_again(self, clock: FakeClock) -> None:
        zone = ZoneStandIn([A])
        agent = self.agent(zone, clock)
        agent.step()
        zone.hosts = []
        self.run(agent, clock, 10)
        assert zone.hosts == ["h1"]

    def test_lost_reports_are_made_good(self, clock: FakeClock) -> None:
        zone = ZoneStandIn([A])
        zone.loses_reports = True
        agent = self.agent(zone, clock)
        self.run(agent, clock, 5)
        zone.loses_reports = False
        self.run(agent, clock, 5)
        assert zone.status == {A: "ACTIVE"}

    def test_a_restarted_agent_takes_active_instances_as_running(self, clock: FakeClock) -> None:
        zone = ZoneStandIn([A])
        self.agent(zone, clock).step()
        restarted = self.agent(zone, clock, failure_rate=1.0)
        restarted.step()
        assert restarted.state.instances[A].phase is Phase.BUILT
        assert zone.status == {A: "ACTIVE"}

    def test_failed_builds_are_told(self, clock: FakeClock) -> None:
        zone = ZoneStandIn([A])
        self.agent(zone, clock, failure_rate=1.0).step()
        assert zone.status == {A: "ERROR"}

    def test_a_driver_that_raises_an_error_for_one_instance_builds_the_others(self, clock: FakeClock) -> None:
        class Faulty(FakeDriver):
            def spawn(self, wanted: Wanted) -> None:
                if wanted.key == A:
                    raise KeyError("template")
                super().spawn(wanted)

        zone = ZoneStandIn([A, B])
        agent = Agent(zone, Faulty(DriverSettings(), clock), clock, [InventoryHost("h1")], Rhythm())

        self.run(agent, clock, 1)

        assert zone.status == {A: "ERROR", B: "ACTIVE"}

    def test_a_driver_that_raises_an_error_stops_no_instance_that_was_to_leave(
        self, clock: FakeClock
    ) -> None:
        class Faulty(FakeDriver):
            def leave(self, wanted: Wanted) -> None:
                raise RuntimeError("unsupported")

        zone = ZoneStandIn([A])
        agent = Agent(zone, Faulty(DriverSettings(), clock), clock, [InventoryHost("h1")], Rhythm())
        agent.step()
        told: list[Report] = []
        zone.fetch = lambda: leaves(A, 2)  # type: ignore[method-assign]
        zone.report = told.extend  # type: ignore[method-assign,assignment]
        clock.advance(Rhythm().poll_s)

        agent.step()

        assert told == [Report(A, ReportState.LEFT, "driver_failed", left_for=2)]

    def test_refused_reports_do_not_stop_the_agent(self, clock: FakeClock) -> None:
        zone = ZoneStandIn([A])
        agent = self.agent(zone, clock)

        def refuse(reports: Sequence[Report]) -> None:
            raise ZoneRefused(400, "invalid_value", "no", "reports")

        zone.report = refuse  # type: ignore[method-assign]
        self.run(agent, clock, 25)
        assert zone.looks == 13

    def test_a_report_that_the_zone_cannot_take_holds_up_no_other(self, clock: FakeClock) -> None:
        keys = [Key(f"i{number}", 1) for number in range(1100)]
        zone, calls = ZoneStandIn(keys), 0
        take = zone.report

        def refuse_one(reports: Sequence[Report]) -> None:
            nonlocal calls
            calls += 1
            if any(report.key == keys[600] for report in reports):
                raise ZoneRefused(400, "invalid_value", "no", "reports")
            take(reports)

        zone.report = refuse_one  # type: ignore[method-assign]
        self.agent(zone, clock).step()

        assert [key for key, status in zone.status.items() if status != "ACTIVE"] == [keys[600]]
        assert calls < 25

    def test_a_console_that_is_asked_for_is_brought_at_once_and_each_time_anew(
        self, clock: FakeClock
    ) -> None:
        zone = ZoneStandIn([A])
        agent = self.agent(zone, clock)
        agent.step()
        zone.asked = (ConsoleAsk("ask-1", A), ConsoleAsk("ask-2", B))

        clock.advance(Rhythm().poll_s)
        agent.step()
        zone.asked = ()
        clock.advance(Rhythm().poll_s)
        agent.step()

        assert zone.brought == [("ask-1", "instance a\nrebuilds 0\npower running\n"), ("ask-2", "")]

    def test_a_console_is_text_whatever_was_written(self) -> None:
        assert text_of(b"a\0b\xffc\r\n") == "a\ufffdb\ufffdc\r\n"
        assert text_of(b"x" + b"y" * MAX_CONSOLE_BYTES) == "y" * MAX_CONSOLE_BYTES

    def test_a_driver_without_consoles_says_so(self, clock: FakeClock) -> None:
        zone = ZoneStandIn([A])
        zone.asked = (ConsoleAsk("ask-1", A),)
        driver = FakeDriver(DriverSettings(), clock)
        driver.traits = frozenset()

        Agent(zone, driver, clock, [InventoryHost("h1")], Rhythm()).step()

        assert zone.brought == [("ask-1", None)]

    def test_a_console_that_the_driver_fails_to_read_holds_up_no_other_one(
        self, clock: FakeClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Faulty(FakeDriver):
            def read_console(self, key: Key) -> bytes:
                if key == A:
                    raise OSError("input/output error")
                return super().read_console(key)

        zone = ZoneStandIn([A, B])
        agent = Agent(zone, Faulty(DriverSettings(), clock), clock, [InventoryHost("h1")], Rhythm())
        self.run(agent, clock, 1)
        zone.asked = (ConsoleAsk("ask-1", A), ConsoleAsk("ask-2", B))

        self.run(agent, clock, 3)

        assert {ask_id for ask_id, _ in zone.brought} == {"ask-2"}
        assert "failed to read the console" in caplog.text

    def test_a_console_that_the_zone_refuses_holds_up_no_report(self, clock: FakeClock) -> None:
        zone = ZoneStandIn([A])
        zone.asked = (ConsoleAsk("ask-1", A), ConsoleAsk("ask-2", A))
        zone.refuses_consoles = ZoneRefused(400, "invalid_value", "no", "output")

        pause_s = self.agent(zone, clock).step()

        assert (zone.status, len(zone.brought)) == ({A: "ACTIVE"}, 2)
        assert pause_s == Rhythm().poll_s

    def test_an_overloaded_zone_is_brought_no_other_console_before_a_pause(self, clock: FakeClock) -> None:
        zone = ZoneStandIn([A])
        zone.asked = (ConsoleAsk("ask-1", A), ConsoleAsk("ask-2", A))
        zone.refuses_consoles = ZoneRefused(503, "unavailable", "later", "")

        pause_s = self.agent(zone, clock).step()

        assert (zone.status, len(zone.brought)) == ({A: "ACTIVE"}, 1)
        assert pause_s == Rhythm().first_retry_s


class TestOptions:
    def refused(self, folder: Path, *options: str) -> str:
        """Start the program with a wrong option; return what it says of that."""
        hosts = folder / "hosts.csv"
        hosts.write_text("name,VCPU\nh1,2\n")
        given = ["--zone-url", "http://127.0.0.1:1", "--inventory", str(hosts), *options]
        ended = CliRunner().invoke(compute, given)
        assert (ended.exit_code, type(ended.exception)) == (2, SystemExit)
        return ended.output

    @pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
    @pytest.mark.parametrize("option", ["--poll-seconds", "--fence-after", "--process-stop-seconds"])
    def test_a_number_that_is_none_is_refused(self, tmp_path: Path, option: str, number: str) -> None:
        assert f"Invalid value for '{option}'" in self.refused(tmp_path, option, number)

    def test_a_state_folder_that_cannot_be_made_is_named(self, tmp_path: Path) -> None:
        folder = tmp_path / "hosts.csv" / "state"

        said = self.refused(tmp_path, "--connection-type", "process", "--state-folder", str(folder))

        assert f"Not a directory: '{folder}" in said
