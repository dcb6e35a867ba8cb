"""Limits of aggregates on whole requests, before the filters: one option each, off by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.builders import hosts as build
from tests.builders.hosts import a_spec, a_table, schedulers, specs, tables
from tests.builders.tree import Tree, a_host
from zonesched.model.aggregate import Aggregate
from zonesched.model.host_table import HostTable
from zonesched.model.request_spec import Image, RequestSpec
from zonesched.scheduler.aggregate_limits import AggregateLimits
from zonesched.scheduler.funnel import run_funnel
from zonesched.scheduler.offer import OfferRequest

FILTERS = {"default_host_filters": ["ComputeFilter"]}


def an_aggregate(name: str, **metadata: str) -> Aggregate:
    return Aggregate(name, name, metadata)


def hosts_in(*aggregates: Sequence[Aggregate]) -> HostTable:
    """One host per argument, which says its aggregates: host 0, 1, ..."""
    return a_table([build.a_host(str(n), aggregates=some) for n, some in enumerate(aggregates)])


def survivors(table: HostTable, spec: RequestSpec, **options: bool) -> list[str]:
    """The hosts that a zone with these options offers, in order of id."""
    scheduler = schedulers(**FILTERS, **options).default
    offer = scheduler.offer(OfferRequest(table, spec))
    return sorted(pick.host_id for pick in (*offer.picks, *offer.alternates))


def asking(project_id: str = "p1", extra: Mapping[str, str] | None = None, **fields: Any) -> RequestSpec:
    image = Image("i", "i", fields.pop("properties", {}))
    flavor = a_spec(extra=extra).flavor
    return RequestSpec("r", project_id, 1, flavor, image, alternates=9, **fields)


P1, P2 = an_aggregate("a1", filter_tenant_id="p1"), an_aggregate("a2", filter_tenant_id="p2")


@pytest.mark.parametrize(
    ("project_id", "options", "expected"),
    [
        ("p1", [], "0123"),
        ("p1", ["limit_tenants_to_aggregate"], "0"),
        ("p2", ["limit_tenants_to_aggregate"], "13"),
        ("p3", ["limit_tenants_to_aggregate"], "3"),
        ("p4", ["limit_tenants_to_aggregate"], "3"),
        ("p9", ["limit_tenants_to_aggregate"], "0123"),
        ("p9", ["limit_tenants_to_aggregate", "placement_aggregate_required_for_tenants"], ""),
        ("p2", ["limit_tenants_to_aggregate", "placement_aggregate_required_for_tenants"], "13"),
        ("p9", ["placement_aggregate_required_for_tenants"], "0123"),
    ],
)
def test_a_tenant_is_limited_to_its_aggregates(project_id: str, options: list[str], expected: str) -> None:
    several = an_aggregate("a3", filter_tenant_id="p3", filter_tenant_id2="p2, p4", kind="p9")
    table = hosts_in([P1], [P2], [], [several])

    assert survivors(table, asking(project_id), **dict.fromkeys(options, True)) == list(expected)


@pytest.mark.parametrize(
    ("zone", "on", "expected"),
    [("az1", False, "01"), ("az1", True, "0"), ("az9", True, "01"), ("", True, "01")],
)
def test_a_zone_that_aggregates_have_is_their_hosts_alone(zone: str, on: bool, expected: str) -> None:
    table = hosts_in([an_aggregate("a", availability_zone="az1")], [])

    found = survivors(table, asking(availability_zone=zone), query_placement_for_availability_zone=on)

    assert found == list(expected)


@pytest.mark.parametrize(
    ("extra", "properties", "on", "expected"),
    [
        ({}, {}, False, "0123"),
        ({}, {}, True, "3"),
        ({"trait:WIN": "required"}, {}, True, "03"),
        ({}, {"trait:WIN": "required"}, True, "03"),
        ({"trait:WIN": "required"}, {"trait:SSD": "required"}, True, "0123"),
        ({"trait:WIN": "forbidden"}, {}, True, "3"),
    ],
)
def test_isolated_aggregates_take_only_what_asks_for_all_their_traits(
    extra: Mapping[str, str], properties: Mapping[str, str], on: bool, expected: str
) -> None:
    win = Aggregate("w", "w", {"trait:WIN": "required"})
    both = Aggregate("b", "b", {"trait:WIN": "required", "trait:SSD": "required"})
    plain = Aggregate("p", "p", {"trait:WIN": "maybe", "kind": "required"})
    table = hosts_in([win], [both], [win, both], [plain])

    found = survivors(
        table, asking(extra=extra, properties=properties), enable_isolated_aggregate_filtering=on
    )

    assert found == list(expected)


def test_each_is_a_step_before_the_filters_with_a_code_of_its_own() -> None:
    table = hosts_in([P1], [P1, an_aggregate("z", availability_zone="az1")], [P2])
    options = dict.fromkeys(AggregateLimits.__dataclass_fields__, True)
    scheduler = schedulers(**FILTERS, **options).default

    offer = scheduler.offer(OfferRequest(table, asking(availability_zone="az1")))

    assert [(step.filter, step.code, step.before, step.after) for step in offer.why] == [
        ("limit_tenants_to_aggregate", "outside_aggregates_of_project", 3, 2),
        ("query_placement_for_availability_zone", "outside_aggregates_of_zone", 2, 1),
        ("enable_isolated_aggregate_filtering", "isolated_aggregate", 1, 1),
        ("ComputeFilter", "host_not_available", 1, 1),
        ("free_slots", "no_free_slots", 1, 1),
    ]


@given(tables, specs)
def test_without_them_nothing_is_asked(table: HostTable, spec: RequestSpec) -> None:
    request = OfferRequest(table, spec)
    assert run_funnel(request, ()).steps == run_funnel(request, (), AggregateLimits()).steps
    assert list(AggregateLimits().for_request(table, spec)) == []


def test_each_zone_applies_its_own_to_the_project_of_a_parents_request(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    root = tree.add("root", hosts_=[])
    leaf = tree.add(
        "leaf", parent="root", hosts_=[a_host("h1"), a_host("h2")], limit_tenants_to_aggregate=True
    )
    tree.poll()
    below = leaf.client()
    below.post("/os-aggregates", {"aggregate": {"name": "a"}})
    below.post("/os-aggregates/1/action", {"set_metadata": {"metadata": {"filter_tenant_id": "project-1"}}})
    below.post("/os-aggregates/1/action", {"add_host": {"host": "h2"}})
    admin = root.client()
    admin.post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 512, "disk": 1}})

    admin.post("/zones/boot", {"server": {"name": "vm", "flavorRef": "small", "num_instances": 2}})
    tree.settle()

    hosts = {
        h["hypervisor_hostname"]: h["running_vms"]
        for h in below.get("/os-hypervisors/detail").json["hypervisors"]
    }
    assert hosts == {"h1": 0, "h2": 2}
