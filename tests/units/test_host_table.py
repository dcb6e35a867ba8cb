"""The host table: columns, changes, rows given free and taken again; host states as views of it."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.hosts import (
    GPU,
    SEEDS,
    a_host,
    a_spec,
    a_table,
    some_host,
    some_use,
    specs,
    tables,
)
from zonesched.model.aggregate import Aggregate
from zonesched.model.capacity import Inventory
from zonesched.model.host_row import SharedFacts
from zonesched.model.host_state import RESOURCE_NUMBERS, HostReport, HostState, host_tuple
from zonesched.model.host_table import HostRow, HostTable, HostUse
from zonesched.model.host_uses import HostUses
from zonesched.model.host_view import HostView
from zonesched.model.new_instances import NewInstances
from zonesched.model.request_context import RequestContext
from zonesched.model.request_spec import DISK_GB, MEMORY_MB, VCPU, RequestSpec

CLASSES = (VCPU, MEMORY_MB, DISK_GB, GPU)


def described(table: HostTable) -> dict[str, object]:
    """All that a table says, by host id, whatever row each host has."""
    whole = HostView.whole(table, a_spec(), RequestContext("owner-1"))
    columns = {
        f"{name} {resource_class}": getattr(table.columns(resource_class), name)[: table.size]
        for resource_class in CLASSES
        for name in ("total", "reserved", "capacity", "used", "min_unit", "max_unit", "step_size")
    }
    columns |= {
        "enabled": table.enabled,
        "up": table.up,
        "hash": table.host_hash,
        "instances": table.num_instances,
        "owned": whole.owner_instances,
        "left": table.columns(VCPU).left[: table.size],
        "free": table.columns(MEMORY_MB).free[: table.size],
    }
    said: dict[str, object] = {}
    for row in np.flatnonzero(table.alive).tolist():
        state = HostState(table, row)
        facts = (state.availability_zone, dict(state.capabilities), state.traits, state.aggregates)
        counts = [tally.of_row(row) for tally in (table.owners, table.flavors, table.images, table.groups)]
        shared = (state.host, facts, counts, state.num_io_ops, state.failed_builds, state.metrics)
        said[table.host_id(row)] = (shared, {name: column[row] for name, column in columns.items()})
    return said


def test_a_column_holds_what_the_hosts_say() -> None:
    inventory = Inventory(64, reserved=4, allocation_ratio=1.1, min_unit=2, max_unit=8, step_size=2)
    table = a_table([a_host("1f", vcpus=inventory, used={VCPU: 5})])
    row = table.row_of("1f")
    of = table.columns(VCPU)
    columns = (of.total, of.reserved, of.capacity, of.used, of.min_unit, of.max_unit, of.step_size)
    assert [column[row] for column in columns] == [64, 4, inventory.capacity, 5, 2, 8, 2]


def test_a_class_that_no_host_has_is_all_zeros() -> None:
    table = a_table([a_host("1f"), a_host("2f")])
    assert table.capacity("PGPU").tolist() == [0, 0]
    assert table.columns("PGPU").max_unit.tolist() == [0, 0]


def test_a_class_that_a_host_no_longer_has_is_gone() -> None:
    table = a_table([a_host("1f", more={GPU: Inventory(4)}, used={GPU: 3})])
    table.apply([a_host("1f")])
    assert table.capacity(GPU)[table.row_of("1f")] == 0
    assert table.used(GPU)[table.row_of("1f")] == 0


def test_a_removed_host_leaves_nothing_behind_in_the_row_that_is_taken_again() -> None:
    table = a_table(
        [a_host("1f", more={GPU: Inventory(4)}, owners={"owner-1": 2}, traits=["SSD"]), a_host("2f")]
    )
    row = table.row_of("1f")
    table.apply([], removed=["1f", "no such host"])
    assert (len(table), table.alive[row], table.up[row], table.capacity(VCPU)[row]) == (1, False, False, 0)
    assert (table.owners.count(row, "owner-1"), table.num_instances[row]) == (0, 0)
    table.apply([a_host("3f")])
    assert table.row_of("3f") == row
    assert described(table) == described(a_table([a_host("2f"), a_host("3f")]))


def test_rows_stay_when_the_table_grows() -> None:
    table = a_table([a_host("1f", vcpus=7)])
    table.apply([a_host(f"{number}e") for number in range(500)])
    assert len(table) == 501
    assert described(table)["1f"] == described(a_table([a_host("1f", vcpus=7)]))["1f"]


@given(SEEDS)
def test_instances_on_one_host_count_as_they_do_among_several(seed: int) -> None:
    # given two tables of the same hosts
    rng = random.Random(seed)
    hosts = [some_host(rng, f"{number}f") for number in range(4)]
    together, apart = a_table(hosts), a_table(hosts)
    copies = {name: rng.randint(1, 3) for name in rng.sample(["0f", "1f", "2f", "3f", "no such host"], 3)}
    asked = {name: rng.randint(1, 3) for name in (VCPU, MEMORY_MB, GPU)}
    placed = NewInstances(copies, asked, "owner-1", "flavor-1", "{}")
    one_by_one = [replace(placed, copies_by_host={name: count}) for name, count in copies.items()]

    # when the same instances are placed, all at once and host by host
    together.place(placed)
    for new in one_by_one:
        apart.place(new)

    # then both tables say the same, also once they are taken off
    assert described(apart) == described(together)
    for new in one_by_one:
        apart.take_off(new)
    together.take_off(placed)
    assert described(apart) == described(together)


def test_a_host_is_up_while_its_own_agent_is_named_as_living() -> None:
    table = a_table([a_host("1f", service="a"), a_host("2f", service="b")], {"a": True, "b": False})
    table.apply([a_host("3f", service="a"), a_host("4f", service="c")])
    assert table.up[[table.row_of(name) for name in ("1f", "2f", "3f", "4f")]].tolist() == [1, 0, 1, 0]
    table.set_services_up({"b": True})
    assert table.up[[table.row_of(name) for name in ("1f", "2f", "3f", "4f")]].tolist() == [0, 1, 0, 0]


def test_instances_are_counted_by_owner_and_together() -> None:
    table = a_table([a_host("1f", owners={"me": 2, "you": 1, "they": 0}), a_host("2f")])
    assert table.num_instances.tolist() == [3, 0]
    assert table.owners.column("me", table.size).tolist() == [2, 0]
    table.apply([a_host("1f", owners={"you": 1})])
    assert table.owners.column("me", table.size).tolist() == [0, 0]


def test_ids_that_are_not_here_have_no_rows() -> None:
    table = a_table([a_host("1f"), a_host("2f")])
    assert table.rows_of(["2f", "9f"]).tolist() == [table.row_of("2f")]
    assert table.rows_of([]).dtype == np.int64


@given(SEEDS, st.integers(1, 8))
def test_a_table_kept_current_is_the_table_made_anew(seed: int, rounds: int) -> None:
    rng = random.Random(seed)
    names = [f"{number}f" for number in range(6)]
    table, left = HostTable(), dict[str, HostRow]()
    table.set_services_up({"agent-1": True})
    for _ in range(rounds):
        changed = [some_host(rng, name) for name in rng.sample(names, rng.randint(0, 4))]
        removed = rng.sample(names, rng.randint(0, 4))
        table.apply(changed, removed)
        left = {name: row for name, row in left.items() if name not in removed}
        left |= {row.facts.id: row for row in changed}
    anew = HostTable()
    anew.set_services_up({"agent-1": True})
    anew.apply(left.values())
    assert described(table) == described(anew)


@given(SEEDS, st.integers(1, 8))
def test_a_table_kept_current_by_uses_is_the_table_made_anew(seed: int, rounds: int) -> None:
    rng = random.Random(seed)
    left = {name: some_host(rng, name) for name in ("1f", "2f", "3f", "4f")}
    table = a_table(left.values())
    for _ in range(rounds):
        names = rng.sample(sorted(left), rng.randint(0, 4))
        uses = {name: some_use(rng, rng.sample(CLASSES, 2)) for name in names}
        table.apply_uses(HostUses.of({"no such host": HostUse({VCPU: 1}), **uses}))
        left |= {name: replace(left[name], use=use) for name, use in uses.items()}
        if rng.random() < 0.5:
            assert described(table) == described(a_table(left.values()))
    assert described(table) == described(a_table(left.values()))


@given(tables, specs)
def test_what_is_computed_by_all_rows_is_what_each_host_says(table: HostTable, spec: RequestSpec) -> None:
    whole = HostView.whole(table, spec)
    for remaining in (table.enabled & table.alive, table.alive, np.zeros(table.size, dtype=np.bool_)):
        found = whole.survivors(remaining)
        gathered = whole.pick(np.flatnonzero(remaining))
        assert found.row_numbers.tolist() == gathered.row_numbers.tolist()
        free = found.read_of.free(MEMORY_MB)
        free = free if found.read_of is found else free[found.rows]
        assert free.tolist() == gathered.free(MEMORY_MB).tolist()


@given(tables, specs, st.integers(0, 5))
def test_a_host_state_says_what_the_columns_say(table: HostTable, spec: RequestSpec, placed: int) -> None:
    rows = np.arange(table.size, dtype=np.int64)
    view = HostView(
        table, rows, spec, RequestContext("owner-1", "group-1"), np.full(len(rows), placed, dtype=np.int64)
    )
    for index, state in enumerate(view.states()):
        for name in CLASSES:
            scalar = (state.capacity(name), state.used(name), state.total(name), state.reserved(name))
            vector = (view.capacity(name), view.used(name), view.total(name), view.reserved(name))
            assert scalar == tuple(column[index] for column in vector)
            assert state.capacity(name) - state.used(name) == view.left(name)[index]
        assert state.free_ram_mb == view.free(MEMORY_MB)[index]
        assert state.num_instances == view.num_instances[index]
        assert state.owner_instances == view.owner_instances[index]
        assert state.group_instances == view.group_instances[index]
        assert state.flavor_instances("small") == view.flavor_instances[index]
        assert (state.num_io_ops, state.failed_builds) == (view.num_io_ops[index], view.failed_builds[index])
        metrics = {name: float(view.metric(name)[index]) for name in ("heat", "load", "unknown")}
        assert state.metrics == {name: value for name, value in metrics.items() if value == value}
        shared = view.numbers_by_shared_facts(lambda facts: len(facts.aggregates))
        assert len(state.aggregates) == shared[index]
        assert (state.enabled, state.up) == (view.enabled[index], view.up[index])
        for name, amount in spec.resources.items():
            assert state.admits(name, amount) == view.admits(name)[index]


def test_what_is_consumed_lies_over_the_row_and_not_in_it() -> None:
    table = a_table([a_host("1f", ram_mb=4_096, used={MEMORY_MB: 1_024})])
    state = HostState(table, table.row_of("1f"))
    state.consume(a_spec(ram_mb=1_024, vcpus=2), copies=2)
    assert (state.free_ram_mb, state.vcpus_used, state.num_instances, state.placed) == (1_024, 4, 2, 2)
    assert HostState(table, table.row_of("1f")).free_ram_mb == 3_072


def test_a_host_state_has_novas_names() -> None:
    table = a_table(
        [
            a_host(
                "1f",
                vcpus=Inventory(16, reserved=2, allocation_ratio=4.0),
                ram_mb=Inventory(4_096, reserved=96, allocation_ratio=1.5),
                disk_gb=Inventory(100, reserved=10),
                used={VCPU: 3, MEMORY_MB: 1_000, DISK_GB: 20},
            )
        ]
    )
    state = HostState(table, 0)
    assert (state.vcpus_total, state.vcpus_used, state.cpu_allocation_ratio) == (14, 3, 4.0)
    assert (state.total_usable_ram_mb, state.free_ram_mb, state.ram_allocation_ratio) == (4_000, 3_000, 1.5)
    assert (state.total_usable_disk_gb, state.disk_mb_used, state.free_disk_mb) == (90, 20 * 1024, 70 * 1024)
    assert (state.host, state.uuid, state.nodename, state.host_ip) == ("host-1f", "1f", "host-1f", "10.0.0.2")
    assert (state.hypervisor_hostname, state.disk_allocation_ratio) == ("host-1f", 1.0)


def test_a_host_tuple_has_the_name_and_a_mapping_of_capabilities_and_numbers() -> None:
    table = a_table([a_host("1f", capabilities={"gpu": "a100", "free_ram_mb": "a lie"})])
    name, report = host_tuple(HostState(table, 0))
    assert (name, report["gpu"], report["free_ram_mb"], report.get("disk")) == (
        "host-1f",
        "a100",
        65_536,
        None,
    )
    assert set(report) == {*RESOURCE_NUMBERS, "gpu"}
    assert len(HostReport(HostState(table, 0))) == len(RESOURCE_NUMBERS) + 1


def test_a_question_about_shared_facts_is_asked_once_for_equal_hosts() -> None:
    table = a_table([a_host(f"{n}f", capabilities={"kind": n % 2}) for n in range(200)])
    asked: list[SharedFacts] = []

    def is_odd(facts: SharedFacts) -> bool:
        asked.append(facts)
        return facts.capabilities.get("kind") == 1

    odd = HostView.whole(table, a_spec()).by_shared_facts(is_odd)
    assert odd.tolist() == [n % 2 == 1 for n in range(200)]
    assert len(asked) <= 3


def test_facts_that_no_host_has_any_more_make_room_for_others() -> None:
    table = a_table([a_host("1f")])
    for number in range(50):
        table.apply([a_host("1f", capabilities={"boot": number}, zone=f"az{number}")])
    asked: list[str] = []
    HostView.whole(table, a_spec()).by_availability_zone(lambda name: asked.append(name) is None)
    assert len(asked) <= 4
    assert HostState(table, 0).capabilities == {"boot": 49}


def a_whole_host(**facts: object) -> HostRow:
    """A host with some of everything; `facts` replace those that it has."""
    host = a_host("1f", more={GPU: Inventory(4)}, metrics={"load": 1.0}, used={VCPU: 2})
    known = {"capabilities": {"cpu": "old"}, "traits": frozenset({"T"}), "address": "10.0.0.1"}
    return replace(host, facts=replace(host.facts, **(known | facts)))  # type: ignore[arg-type]


def test_a_host_that_is_read_again_as_it_was_leaves_what_is_kept_of_the_others() -> None:
    # given
    table = a_table([a_whole_host(), a_host("2f")])
    mark = table.changes.mark
    # when it is applied with another use
    table.apply([replace(a_whole_host(), use=HostUse({VCPU: 3}))])
    # then its row alone has changed
    rows = table.changes.rows_since(mark)
    assert rows is not None and rows.tolist() == [table.row_of("1f")]
    assert table.used(VCPU)[table.row_of("1f")] == 3


@pytest.mark.parametrize(
    "changed",
    [
        a_whole_host(name="other"),
        a_whole_host(address="10.0.0.2"),
        a_whole_host(availability_zone="other"),
        a_whole_host(service_id="other"),
        a_whole_host(capabilities={"cpu": "new"}),
        a_whole_host(traits=frozenset({"U"})),
        a_whole_host(enabled=False),
        a_whole_host(forced_down=True),
        a_whole_host(aggregates=(Aggregate("a", "a", {"ssd": "true"}),)),
        replace(a_whole_host(), inventories={VCPU: Inventory(8)}),
        replace(a_whole_host(), metrics={"load": 2.0}),
    ],
)
def test_a_host_of_which_a_fact_has_changed_leaves_nothing_that_is_kept(changed: HostRow) -> None:
    # given
    table = a_table([a_whole_host(), a_host("2f")])
    mark = table.changes.mark
    # when
    table.apply([changed])
    # then nothing is known, and the table is as one of hosts that were read for the first time
    assert table.changes.rows_since(mark) is None
    assert described(table) == described(a_table([changed, a_host("2f")]))


@pytest.mark.parametrize(("before", "after"), [(-1.0, -2.0), (-2.0, -1.0), (0.1 + 0.2, 0.3)])
def test_a_metric_is_as_it_was_reported_last(before: float, after: float) -> None:
    # given
    table = a_table([a_host("1f", metrics={"trend": before})])
    # when
    table.apply([a_host("1f", metrics={"trend": after})])
    # then
    assert table.metric("trend").tolist() == [after]


def test_ids_are_listed_in_order_between_two_of_them() -> None:
    table = a_table([a_host(name) for name in ("3f", "1f", "2f", "5f")])
    assert list(table.ids_between("", "")) == ["1f", "2f", "3f", "5f"]
    assert list(table.ids_between("1f", "3f")) == ["2f", "3f"]
    table.apply([a_host("4f")], removed=["3f"])
    assert list(table.ids_between("2f", "")) == ["4f", "5f"]
