"""Inventory settings of an operator: they count at once, and survive the agent's reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders.one_zone import a_form, a_zone, add_hosts, boot_on, sql
from tests.builders.tree import Client, Tree, a_host
from zonesched.model.capacity import InventorySetting
from zonesched.model.views import InventoryForm, ResourceUse, SettingChange
from zonesched.services.audit import audit
from zonesched.services.hosts import aggregates, host_settings, hosts
from zonesched.services.zone import Zone
from zonesched.store import claims, identity


@pytest.fixture
def zone(tmp_path: Path) -> Zone:
    return a_zone(tmp_path, service_down_time=1e6)


def set_on(zone: Zone, host_id: str, resource_class: str = "VCPU", **fields: Any) -> ResourceUse:
    """Set (None takes back); what counts of the class then."""
    change = SettingChange(frozenset(fields), InventorySetting(**fields))
    return host_settings.change(zone, host_id, {resource_class: change}).resources[resource_class]


def use_of(zone: Zone, host_id: str, resource_class: str = "VCPU") -> ResourceUse:
    return hosts.show_hypervisor(zone, host_id).resources[resource_class]


def in_memory(zone: Zone, host_id: str, resource_class: str = "VCPU") -> float:
    with zone.hosts.current() as table:
        return float(table.capacity(resource_class)[table.row_of(host_id)])


def take(zone: Zone, host_id: str, copies: int) -> int:
    """Copies of 1 VCPU that a claim gets now."""

    def fn(tx: Any) -> int:
        return claims.claim(tx, identity.next_change(tx), {host_id: copies}, {"VCPU": 1})[host_id]

    return zone.store.write(fn)


def test_what_is_set_counts_at_once_in_filters_and_claims(zone: Zone) -> None:
    (one,) = add_hosts(zone, a_form("h1", VCPU=8))
    assert in_memory(zone, one) == 8

    use = set_on(zone, one, allocation_ratio=2.5, reserved=2)

    assert (use.capacity, in_memory(zone, one), take(zone, one, 99)) == (15, 15, 15)
    assert (use.reported.reserved, use.reported.allocation_ratio) == (0, 1.0)
    assert use.setting == InventorySetting(2, 2.5)


def test_it_survives_every_report_and_can_be_taken_back(zone: Zone) -> None:
    (one,) = add_hosts(zone, a_form("h1", VCPU=8))
    set_on(zone, one, allocation_ratio=4.0)
    set_on(zone, one, reserved=1)

    reported = InventoryForm(total=10, reserved=3, allocation_ratio=1.5)
    add_hosts(zone, replace(a_form("h1"), inventories={"VCPU": reported}))
    kept = use_of(zone, one).capacity
    back = [set_on(zone, one, reserved=None).capacity, set_on(zone, one, allocation_ratio=None).capacity]

    assert (kept, back) == (36, [28, 10])
    assert sql(zone, "select * from inventory_settings") == []
    assert audit.run(zone) == []


def test_an_aggregates_ratio_comes_first(zone: Zone) -> None:
    (one,) = add_hosts(zone, a_form("h1", VCPU=8))
    set_on(zone, one, allocation_ratio=4.0, reserved=4)
    number = str(aggregates.create(zone.store, zone.clock, "a", None).number)
    aggregates.change(zone.store, zone.clock, zone.wake, number, metadata={"cpu_allocation_ratio": "2"})

    aggregates.add_host(zone.store, zone.wake, number, "h1")
    inside = use_of(zone, one).capacity
    aggregates.remove_host(zone.store, zone.wake, number, "h1")

    assert (inside, use_of(zone, one).capacity) == (8, 16)


def test_a_host_that_shrank_takes_none_until_it_fits(zone: Zone) -> None:
    (one,) = add_hosts(zone, a_form("h1", VCPU=8))
    for _ in range(6):
        boot_on(zone, one, {"VCPU": 1})

    shrunk = set_on(zone, one, reserved=8)
    taken, found = take(zone, one, 1), audit.run(zone)
    set_on(zone, one, reserved=None)

    assert (shrunk.capacity, shrunk.used, taken, found) == (0, 6, 0, [])
    assert take(zone, one, 9) == 2


def test_what_is_set_of_a_class_outlives_the_class(zone: Zone) -> None:
    (one,) = add_hosts(zone, a_form("h1", VCPU=8, PGPU=4))
    set_on(zone, one, "PGPU", reserved=1)
    add_hosts(zone, a_form("h1", VCPU=8))
    gone = "PGPU" in hosts.show_hypervisor(zone, one).resources

    add_hosts(zone, a_form("h1", VCPU=8, PGPU=4))

    assert (gone, use_of(zone, one, "PGPU").capacity, in_memory(zone, one, "PGPU")) == (False, 3, 3)


@pytest.fixture
def admin(tmp_path: Path) -> Client:
    return Tree(tmp_path).add("z", hosts_=[a_host("h1", vcpus=8)]).client()


def put(admin: Client, resources: Mapping[str, Any]) -> Any:
    (host,) = admin.get("/os-hypervisors").json["hypervisors"]
    return admin.call("PUT", f"/os-hypervisors/{host['id']}", {"hypervisor": {"resources": resources}})


def test_the_api_shows_what_counts_what_is_set_and_what_is_reported(admin: Client) -> None:
    put(admin, {"VCPU": {"allocation_ratio": 16, "reserved": 1}, "MEMORY_MB": {"reserved": 512}})

    answer = put(admin, {"VCPU": {"reserved": None}})

    resources = answer.json["hypervisor"]["resources"]
    assert resources["VCPU"] == {
        "total": 8,
        "reserved": 0,
        "allocation_ratio": 16.0,
        "capacity": 128,
        "used": 0,
        "agent_excess": 0,
        "reported": {"reserved": 0, "allocation_ratio": 1.0},
        "set": {"allocation_ratio": 16.0},
    }
    assert resources["MEMORY_MB"]["set"] == {"reserved": 512}
    (listed,) = admin.get("/os-hypervisors/detail").json["hypervisors"]
    assert listed == answer.json["hypervisor"]


@pytest.mark.parametrize(
    ("resources", "code", "field"),
    [
        ({}, "invalid_value", "hypervisor.resources"),
        ({"PGPU": {"reserved": 1}}, "resource_class_unknown", "hypervisor.resources.PGPU"),
        ({"vcpu": {"reserved": 1}}, "invalid_value", "hypervisor.resources.vcpu.[key]"),
        ({"VCPU": {"reserved": -1}}, "out_of_range", "hypervisor.resources.VCPU.reserved"),
        ({"VCPU": {"reserved": 1.5}}, "wrong_type", "hypervisor.resources.VCPU.reserved"),
        ({"VCPU": {"allocation_ratio": -0.1}}, "out_of_range", "hypervisor.resources.VCPU.allocation_ratio"),
        ({"VCPU": {"allocation_ratio": 2e6}}, "out_of_range", "hypervisor.resources.VCPU.allocation_ratio"),
        ({"VCPU": {"ratio": 2}}, "unknown_field", "hypervisor.resources.VCPU.ratio"),
    ],
)
def test_what_cannot_be_set_names_its_field_and_changes_nothing(
    admin: Client, resources: Mapping[str, Any], code: str, field: str
) -> None:
    before = admin.get("/os-hypervisors/detail").json

    fault = put(admin, {"VCPU": {"reserved": 1}, **resources} if "PGPU" in resources else resources)

    assert fault.status == 400
    assert (fault.json["badRequest"]["error_code"], fault.json["badRequest"]["field"]) == (code, field)
    assert admin.get("/os-hypervisors/detail").json == before


def test_an_unknown_host_is_not_found(admin: Client) -> None:
    body = {"hypervisor": {"resources": {"VCPU": {"reserved": 1}}}}
    answer = admin.call("PUT", "/os-hypervisors/nobody", body)
    assert (answer.status, answer.json["itemNotFound"]["error_code"]) == (404, "host_not_found")
