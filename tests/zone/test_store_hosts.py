"""Hosts in rows: what an agent's report writes, and what the table in memory reads of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.builders.clock import clock_of
from tests.builders.one_zone import (
    AGENT,
    a_form,
    a_zone,
    add_hosts,
    beat,
    boot_on,
    put_instance,
    put_place,
    put_reservation,
    sql,
    used_on,
)
from tests.builders.stores import statements_read_by
from zonesched.errors import BadRequest, Conflict, Forbidden, NotFound
from zonesched.model.aggregate import Aggregate
from zonesched.model.caller import Caller, Role
from zonesched.model.capacity import Inventory
from zonesched.model.host_row import HostRow
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.model.views import HostForm, InventoryForm
from zonesched.services.catalog import users
from zonesched.services.hosts import hosts
from zonesched.services.zone import Zone
from zonesched.store import hosts as rows
from zonesched.store import identity
from zonesched.store import tables as t
from zonesched.store.hosts import Watermark
from zonesched.store.placements import ClaimedHost

BEGINNING = Watermark(seq=0, removals=0)


def changed_since(zone: Zone, moment: Watermark) -> tuple[Sequence[HostRow], Watermark]:
    """The hosts that changed as a whole."""
    changes = zone.store.read(lambda tx: rows.changes(tx, moment))
    return changes.rows, changes.until


def latest(zone: Zone) -> Watermark:
    """After all that was written, also where something runs on in the server's other databases."""
    return Watermark(zone.store.read(identity.last_change), removals=0)


def inventory_of(zone: Zone, host_id: str, resource_class: str) -> Any:
    statement = "select * from inventories where host_id = :id and resource_class = :name"
    found = sql(zone, statement, id=host_id, name=resource_class)
    return found[0] if found else None


def test_a_report_is_stored_as_it_was_made(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    form = HostForm(
        name="h1",
        address="10.1.2.3",
        availability_zone="az2",
        inventories={"CUSTOM_GPU": InventoryForm(4, 1, 1.5, 1, 2, 2)},
        capabilities={"hypervisor_type": "QEMU", "versions": [1, 2]},
        traits=frozenset({"HW_NVME", "CUSTOM_FAST"}),
    )

    (host_id,) = add_hosts(zone, form)

    (row,), _ = changed_since(zone, BEGINNING)
    assert (row.facts.id, row.facts.name, row.facts.address) == (host_id, "h1", "10.1.2.3")
    assert (row.facts.availability_zone, row.facts.enabled) == ("az2", True)
    assert row.facts.capabilities == {"hypervisor_type": "QEMU", "versions": [1, 2]}
    assert row.facts.traits == {"HW_NVME", "CUSTOM_FAST"}
    assert row.inventories == {"CUSTOM_GPU": Inventory(4, 1, 1.5, 1, 2, 2)}
    assert inventory_of(zone, host_id, "CUSTOM_GPU").capacity == 4


def test_ids_come_back_in_the_order_of_the_report(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    first = hosts.register(zone, AGENT, "agent", [a_form("b"), a_form("a")]).hosts

    again = hosts.register(zone, AGENT, "agent", [a_form("c"), a_form("a"), a_form("b")]).hosts

    assert [name for _, name in again] == ["c", "a", "b"]
    assert set(first) < set(again)


def test_a_report_that_comes_after_a_later_one_changes_nothing(tmp_path: Path) -> None:
    # given a report that its agent wrote, and a later one of the agent that took its place
    zone = a_zone(tmp_path)
    written_at = hosts.registrations(zone.store, AGENT, "agent")
    hosts.register(zone, AGENT, "agent", [a_form("h", VCPU=4)], written_at)
    since = hosts.registrations(zone.store, AGENT, "agent")
    later = hosts.register(zone, AGENT, "agent", [a_form("h", VCPU=3)], since)

    for known in (written_at, since, later.registrations + 1):
        with pytest.raises(Conflict) as refused:
            hosts.register(zone, AGENT, "agent", [a_form("h", VCPU=4)], known)
        assert refused.value.code == "registered_since"

    assert (written_at, since, later.registrations) == (0, 1, 2)
    assert sql(zone, "SELECT total FROM inventories WHERE resource_class = 'VCPU'") == [(3,)]
    assert hosts.register(zone, AGENT, "agent", [a_form("h", VCPU=4)]).registrations == 3
    with pytest.raises(Forbidden):
        hosts.registrations(zone.store, a_compute_user(zone, "other"), "agent")


def test_a_host_without_a_ratio_gets_the_zones_own(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, cpu_allocation_ratio=4.0, ram_allocation_ratio=1.5, disk_allocation_ratio=0.5)

    (host_id,) = add_hosts(zone, a_form("h", VCPU=8, MEMORY_MB=1001, DISK_GB=100, CUSTOM_X=7))

    capacities = {
        name: inventory_of(zone, host_id, name).capacity
        for name in ("VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_X")
    }
    assert capacities == {"VCPU": 32, "MEMORY_MB": 1501, "DISK_GB": 50, "CUSTOM_X": 7}


def test_a_report_of_nothing_new_changes_nothing(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    add_hosts(zone, a_form("h1"), a_form("h2"))
    seen = latest(zone)
    before = sql(zone, "select value from counters")

    add_hosts(zone, a_form("h1"), a_form("h2"))

    assert changed_since(zone, seen) == ([], seen)
    assert sql(zone, "select value from counters") == before


def test_what_claims_use_survives_a_new_report(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))
    boot_on(zone, host_id, {"VCPU": 3, "MEMORY_MB": 100})

    add_hosts(zone, a_form("h1", VCPU=16, MEMORY_MB=4096))

    assert used_on(zone, host_id) == {"VCPU": 3, "MEMORY_MB": 100}
    assert inventory_of(zone, host_id, "VCPU").capacity == 16


def test_only_changed_hosts_are_read_again(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    _, two, three = add_hosts(zone, a_form("h1"), a_form("h2"), a_form("h3"))
    seen = latest(zone)

    boot_on(zone, two)
    add_hosts(zone, a_form("h3", VCPU=99))

    changes = zone.store.read(lambda tx: rows.changes(tx, seen))
    assert [row.facts.id for row in changes.rows] == [three]
    assert list(changes.uses.ids) == [two]


def test_what_is_in_use_of_a_host_is_what_the_whole_of_it_says(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    one, two = add_hosts(zone, a_form("h1"), a_form("h2"))
    boot_on(zone, one)
    seen = latest(zone)

    boot_on(zone, one, {"MEMORY_MB": 7}, status=InstanceStatus.BUILD)
    boot_on(zone, two, caller_id="parent-1")
    sql(zone, "update hosts set failed_builds = 3 where id = :id", id=two)

    changes = zone.store.read(lambda tx: rows.changes(tx, seen))
    anew, _ = changed_since(zone, BEGINNING)
    assert changes.rows == []
    uses = changes.uses.by_id()
    assert uses == {row.facts.id: row.use for row in anew}
    assert uses[one].used == {"VCPU": 1, "MEMORY_MB": 7}


def test_a_host_that_changed_as_a_whole_does_not_come_twice(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (one,) = add_hosts(zone, a_form("h1"))
    seen = latest(zone)

    boot_on(zone, one)
    add_hosts(zone, a_form("h1", VCPU=99))
    boot_on(zone, one)

    changes = zone.store.read(lambda tx: rows.changes(tx, seen))
    assert ([row.facts.id for row in changes.rows], len(changes.uses)) == ([one], 0)


def test_a_changed_host_comes_with_its_owners(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))
    boot_on(zone, host_id)
    boot_on(zone, host_id)
    boot_on(zone, host_id, caller_id="parent-1")

    (row,), _ = changed_since(zone, BEGINNING)

    assert row.use.owners == {f"{zone.uuid}:project-1": 2, "parent-1:project-1": 1}
    assert row.use.used == {"VCPU": 3}


def test_a_changed_host_comes_with_what_its_living_instances_have_in_common(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))
    put_reservation(zone)
    for status, group_id, state in (
        (InstanceStatus.ACTIVE, "g1", PlacementState.CONFIRMED),
        (InstanceStatus.BUILD, "g1", PlacementState.HELD),
        (InstanceStatus.BUILD, "", PlacementState.CONFIRMED),
        (InstanceStatus.DELETED, "g1", PlacementState.RELEASED),
    ):
        uuid = put_instance(zone, status=status, group_id=group_id)
        put_place(zone, uuid, ClaimedHost(host_id, {}), state=state, claimed=False)

    (row,), _ = changed_since(zone, BEGINNING)

    assert (row.use.flavors, row.use.images) == ({f"{zone.uuid}:small": 3}, {"{}": 3})
    assert (row.use.groups, row.use.num_building) == ({f"{zone.uuid}:g1": 2}, 2)


def test_a_host_comes_with_its_aggregates_in_order_of_their_ids(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    one, two = add_hosts(zone, a_form("h1"), a_form("h2"))
    made = {"created_at": 0.0, "updated_at": 0.0}
    zone.store.write(
        lambda tx: tx.execute(
            sa.insert(t.aggregates),
            [
                {"id": i, "number": ord(i), "name": f"name-{i}", "metadata": f'{{"k":"{i}"}}'} | made
                for i in ("b", "a", "c")
            ],
        )
    )
    members = [{"aggregate_id": aggregate, "host_id": two} for aggregate in ("b", "a")]
    zone.store.write(lambda tx: tx.execute(sa.insert(t.aggregate_hosts), members))

    found = {row.facts.id: row.facts.aggregates for row in changed_since(zone, BEGINNING)[0]}

    assert found == {
        one: (),
        two: (Aggregate("a", "name-a", {"k": "a"}), Aggregate("b", "name-b", {"k": "b"})),
    }


def test_metrics_are_those_of_the_last_report(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    add_hosts(zone, replace(a_form("h1"), metrics={"load": 1.5, "heat": 40.0}))
    seen = latest(zone)

    add_hosts(zone, replace(a_form("h1"), metrics={"load": 2.0}))

    (row,), _ = changed_since(zone, seen)
    assert row.metrics == {"load": 2.0}


def test_a_class_that_is_gone_stays_while_it_is_used(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1", VCPU=8, PGPU=2))
    uuid = boot_on(zone, host_id, {"PGPU": 1})

    add_hosts(zone, a_form("h1", VCPU=8))
    kept = inventory_of(zone, host_id, "PGPU")
    hosts.report(zone, AGENT, "agent", [])
    sql(zone, "update inventories set used = 0 where resource_class = 'PGPU'")
    sql(zone, "update placements set state = 'released' where uuid = :uuid", uuid=uuid)
    add_hosts(zone, a_form("h1", VCPU=8))

    assert (kept.total, kept.capacity, kept.used) == (0, 0, 1)
    assert inventory_of(zone, host_id, "PGPU") is None


def test_a_class_that_nobody_uses_goes_with_the_report(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    add_hosts(zone, a_form("h1", VCPU=8, PGPU=2))
    seen = latest(zone)

    add_hosts(zone, a_form("h1", VCPU=8))

    (row,), _ = changed_since(zone, seen)
    assert set(row.inventories) == {"VCPU"}


def test_a_host_that_shrank_remembers_what_it_rightly_held(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1", VCPU=8))
    boot_on(zone, host_id, {"VCPU": 6})

    add_hosts(zone, a_form("h1", VCPU=4))
    shrunk = inventory_of(zone, host_id, "VCPU").shrunk_used
    sql(zone, "update inventories set used = 99")
    add_hosts(zone, a_form("h1", VCPU=3))
    overdone = inventory_of(zone, host_id, "VCPU").shrunk_used
    sql(zone, "update inventories set used = 2")
    add_hosts(zone, a_form("h1", VCPU=3))

    assert shrunk == 6
    assert overdone == 6
    assert inventory_of(zone, host_id, "VCPU").shrunk_used == 0


def test_pages_give_every_host_once(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    ids = add_hosts(zone, *(a_form(f"h{n}") for n in range(7)))

    found: list[str] = []
    after = ""
    while page := zone.store.read(partial(rows.page, after_id=after, limit=3)):
        found += [row.facts.id for row in page]
        after = found[-1]

    assert found == sorted(ids)


def test_a_host_of_another_users_service_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    owner, other = a_compute_user(zone, "one"), a_compute_user(zone, "two")
    hosts.register(zone, owner, "agent-one", [a_form("h1")])

    with pytest.raises(Conflict) as refused:
        hosts.register(zone, other, "agent-two", [a_form("h0"), a_form("h1")])

    assert refused.value.code == "host_belongs_to_another_service"
    assert [h.name for h in hosts.list_hypervisors(zone)] == ["h1"]
    assert sql(zone, "select name from services") == [("agent-one",)]


def test_a_host_moves_between_services_of_one_user_once_the_first_is_down(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    owner = a_compute_user(zone, "one")
    hosts.register(zone, owner, "agent-one", [a_form("h1")])
    with pytest.raises(Conflict, match="h1 is registered by the agent agent-one"):
        hosts.register(zone, owner, "agent-two", [a_form("h1")])
    for _ in range(2):
        clock_of(zone).advance(zone.conf.service_down_time / 2 - 1.0)
        with pytest.raises(Conflict, match="not called for 60 s"):
            hosts.register(zone, owner, "agent-two", [a_form("h1")])
    clock_of(zone).advance(2.0)
    hosts.register(zone, owner, "agent-two", [a_form("h1")])

    assert [h.service for h in hosts.list_hypervisors(zone)] == ["agent-two"]


def test_a_service_belongs_to_the_user_that_registered_it_first(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    owner, other = a_compute_user(zone, "one"), a_compute_user(zone, "two")
    hosts.register(zone, owner, "agent", [a_form("h1")])

    for call in (
        lambda: hosts.register(zone, other, "agent", []),
        lambda: hosts.beat(zone, other, "agent"),
        lambda: hosts.desired(zone.store, zone.heartbeats, other, "agent"),
        lambda: hosts.report(zone, other, "agent", []),
    ):
        with pytest.raises(Forbidden) as refused:
            call()
        assert refused.value.code == "service_belongs_to_another_user"


def test_the_service_of_a_deleted_user_passes_to_the_next(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    hosts.register(zone, a_compute_user(zone, "one"), "agent", [a_form("h1")])
    users.delete(zone.store, zone.verified, "one")

    successor = a_compute_user(zone, "two")
    hosts.register(zone, successor, "agent", [a_form("h1"), a_form("h2")])

    hosts.beat(zone, successor, "agent")
    assert len(hosts.list_hypervisors(zone)) == 2


def test_the_hosts_of_a_deleted_user_pass_to_another_service(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    hosts.register(zone, a_compute_user(zone, "one"), "agent-one", [a_form("h1")])
    users.delete(zone.store, zone.verified, "one")

    hosts.register(zone, a_compute_user(zone, "two"), "agent-two", [a_form("h1")])

    assert [h.service for h in hosts.list_hypervisors(zone)] == ["agent-two"]


def test_a_service_that_never_registered_is_not_found(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)

    with pytest.raises(NotFound) as refused:
        hosts.beat(zone, AGENT, "nobody")

    assert refused.value.code == "service_unknown"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"total": -1}, "total"),
        ({"total": 2**31}, "total"),
        ({"reserved": -1}, "reserved"),
        ({"allocation_ratio": float("nan")}, "allocation_ratio"),
        ({"allocation_ratio": -0.5}, "allocation_ratio"),
        ({"min_unit": 0}, "min_unit"),
        ({"min_unit": 5, "max_unit": 4}, "min_unit"),
        ({"step_size": 0}, "step_size"),
    ],
)
def test_an_inventory_that_cannot_be_names_its_field(
    tmp_path: Path, wrong: dict[str, Any], field: str
) -> None:
    zone = a_zone(tmp_path)
    form = replace(a_form("h1"), inventories={"VCPU": InventoryForm(**{"total": 8, **wrong})})

    with pytest.raises(BadRequest) as refused:
        add_hosts(zone, form)

    assert refused.value.field == "hosts.h1.inventories.VCPU"
    assert field in refused.value.message
    assert hosts.list_hypervisors(zone) == []


@pytest.mark.parametrize("name", ["vcpu", "V CPU", "", "A" * 65, "VCPU\n"])
def test_a_class_name_of_another_form_is_refused(tmp_path: Path, name: str) -> None:
    zone = a_zone(tmp_path)

    with pytest.raises(BadRequest):
        add_hosts(zone, replace(a_form("h1"), inventories={name: InventoryForm(8)}))


def test_a_name_twice_in_a_report_is_refused(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)

    with pytest.raises(BadRequest) as refused:
        add_hosts(zone, a_form("h1"), a_form("h1"))

    assert (refused.value.code, refused.value.field) == ("duplicate_host", "hosts[1].name")


def test_hypervisors_say_what_is_there_and_what_is_used(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, cpu_allocation_ratio=2.0)
    (host_id,) = add_hosts(zone, a_form("h1"))
    boot_on(zone, host_id, {"VCPU": 3})

    view = hosts.show_hypervisor(zone, host_id)

    assert (view.name, view.service, view.num_instances) == ("h1", "agent", 1)
    assert (view.is_up, view.is_enabled) == (True, True)
    vcpu = view.resources["VCPU"]
    assert (vcpu.total, vcpu.capacity, vcpu.used, vcpu.allocation_ratio) == (8, 16, 3, 2.0)
    assert hosts.list_hypervisors(zone) == [view]


@pytest.mark.sqlite
def test_hosts_are_listed_with_the_number_of_their_instances_and_no_row_of_these_is_read(
    tmp_path: Path,
) -> None:
    zone = a_zone(tmp_path)
    h1, _ = add_hosts(zone, a_form("h1"), a_form("h2"))
    for _ in range(2):
        boot_on(zone, h1)

    statements = statements_read_by(zone.store, lambda: hosts.list_hypervisors(zone))

    assert {h.name: h.num_instances for h in hosts.list_hypervisors(zone)} == {"h1": 2, "h2": 0}
    assert not [one for one in statements if "instances" in one]


@pytest.mark.sqlite
def test_a_brief_list_of_hosts_reads_neither_inventories_nor_instances(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    h1, h2 = add_hosts(zone, a_form("h1"), a_form("h2"))

    statements = statements_read_by(zone.store, lambda: hosts.list_states(zone, hosts.EVERY))

    assert {state.id for state in hosts.list_states(zone, hosts.EVERY)} == {h1, h2}
    assert not [one for one in statements if "inventories" in one or "placements" in one]


def test_a_hypervisor_whose_agent_is_silent_is_down(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, service_down_time=60.0)
    (host_id,) = add_hosts(zone, a_form("h1"))

    clock_of(zone).advance(61)
    silent = hosts.show_hypervisor(zone, host_id)
    beat(zone)

    assert not silent.is_up
    assert hosts.show_hypervisor(zone, host_id).is_up


def test_an_unknown_hypervisor_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as refused:
        hosts.show_hypervisor(a_zone(tmp_path), "no-such-host")

    assert refused.value.code == "host_not_found"


def a_compute_user(zone: Zone, name: str) -> Caller:
    made = users.create(zone.store, zone.clock, name, Role.COMPUTE, "")
    return users.authenticate(zone, name, made.secret)
