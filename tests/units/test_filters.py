"""Host filters: what each passes, scalar and vectorised alike, and what becomes of wrong ones."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import own_plugins
from tests.builders.hosts import (
    GPU,
    QUERIES,
    a_host,
    a_spec,
    a_table,
    contexts,
    schedulers,
    some_context,
    some_spec,
    some_table,
    specs,
    tables,
)
from zonesched import conf
from zonesched.errors import BadRequest, ConfigError
from zonesched.filters.contract import BaseHostFilter, FilterFailed
from zonesched.filters.json_query import parse_query
from zonesched.filters.registry import BUILT_IN, OLDER_NAMES
from zonesched.model.aggregate import Aggregate
from zonesched.model.build_plan import FunnelStep
from zonesched.model.capacity import Inventory
from zonesched.model.host_state import HostState
from zonesched.model.host_table import HostRow, HostTable
from zonesched.model.host_view import HostView
from zonesched.model.request_context import RequestContext
from zonesched.model.request_spec import (
    DISK_GB,
    MEMORY_MB,
    VCPU,
    GroupPolicy,
    Policy,
    RequestSpec,
    ServerGroup,
)
from zonesched.scheduler.base_scheduler import Offer, OfferRequest

OPTIONS: Mapping[str, Any] = {
    "max_io_ops_per_host": 2,
    "max_instances_per_host": 4,
    "metrics_weight_setting": ["load=1.0", "heat=-2.0"],
    "metrics_required": False,
    "isolated_hosts": ["host-0f", "host-3f", "host-gone"],
    "isolated_images": ["image-2"],
}
"""Filters of the zone under test: none of them passes every host."""


def a_filter(name: str) -> BaseHostFilter:
    """A built-in filter of that zone."""
    return schedulers(**OPTIONS).default.plugins.filters.known[name]


MB_HALF = Inventory(1_000, reserved=100, allocation_ratio=1.5)

SMALL = [Aggregate("1", "small", {"max_io_ops_per_host": "1", "max_instances_per_host": "1"})]
LARGE = [Aggregate("2", "large", {"max_io_ops_per_host": "9", "max_instances_per_host": "9"})]
UNREADABLE = [Aggregate("3", "unreadable", {"max_io_ops_per_host": "nan"})]

EXAMPLES: list[tuple[str, HostRow, RequestSpec, bool]] = [
    ("AllHostsFilter", a_host(enabled=False), a_spec(), True),
    ("ComputeFilter", a_host(), a_spec(), True),
    ("ComputeFilter", a_host(enabled=False), a_spec(), False),
    ("ComputeFilter", a_host(service="no such agent"), a_spec(), False),
    ("RamFilter", a_host(ram_mb=1_024), a_spec(ram_mb=1_024), True),
    ("RamFilter", a_host(ram_mb=1_024, used={MEMORY_MB: 1}), a_spec(ram_mb=1_024), False),
    ("RamFilter", a_host(ram_mb=MB_HALF), a_spec(ram_mb=1_350), True),
    ("RamFilter", a_host(ram_mb=MB_HALF), a_spec(ram_mb=1_351), False),
    ("RamFilter", a_host(ram_mb=100, used={MEMORY_MB: 200}), a_spec(ram_mb=0), True),
    ("CoreFilter", a_host(vcpus=Inventory(10, allocation_ratio=1.1)), a_spec(vcpus=11), True),
    ("CoreFilter", a_host(vcpus=2, used={VCPU: 2}), a_spec(vcpus=1), False),
    ("DiskFilter", a_host(disk_gb=10), a_spec(disk_gb=10), True),
    ("DiskFilter", a_host(disk_gb=10, used={DISK_GB: 5}), a_spec(disk_gb=6), False),
    ("ResourceClassFilter", a_host(), a_spec(), True),
    ("ResourceClassFilter", a_host(), a_spec(extra={f"resources:{GPU}": "1"}), False),
    ("ResourceClassFilter", a_host(more={GPU: Inventory(2)}), a_spec(extra={f"resources:{GPU}": "2"}), True),
    ("ResourceClassFilter", a_host(more={GPU: Inventory(2)}), a_spec(extra={f"resources:{GPU}": "3"}), False),
    ("ResourceClassFilter", a_host(vcpus=Inventory(9, step_size=2)), a_spec(vcpus=3), False),
    ("ResourceClassFilter", a_host(vcpus=Inventory(9, min_unit=2)), a_spec(vcpus=1), False),
    ("ResourceClassFilter", a_host(vcpus=Inventory(9, max_unit=2)), a_spec(vcpus=3), False),
    ("TraitsFilter", a_host(traits=["SSD"]), a_spec(extra={"trait:SSD": "required"}), True),
    ("TraitsFilter", a_host(), a_spec(extra={"trait:SSD": "required"}), False),
    ("TraitsFilter", a_host(traits=["SSD"]), a_spec(extra={"trait:SSD": "forbidden"}), False),
    ("TraitsFilter", a_host(traits=["SSD"]), a_spec(image={"trait:SSD": "required"}), True),
    ("TraitsFilter", a_host(), a_spec(image={"trait:SSD": "required"}), False),
    ("TraitsFilter", a_host(), a_spec(image={"trait:SSD": "wanted", "traits:any_of": "A"}), True),
    ("TraitsFilter", a_host(traits=["SSD"]), a_spec(image={"trait:SSD": "forbidden"}), True),
    ("TraitsFilter", a_host(traits=["A", "D"]), a_spec(extra={"traits:any_of": "A,B;C,D"}), True),
    ("TraitsFilter", a_host(traits=["A", "B"]), a_spec(extra={"traits:any_of": "A,B;C,D"}), False),
    ("AvailabilityZoneFilter", a_host(zone="az1"), a_spec(), True),
    ("AvailabilityZoneFilter", a_host(zone="az1"), a_spec(availability_zone="az1"), True),
    ("AvailabilityZoneFilter", a_host(zone="az1"), a_spec(availability_zone="az2"), False),
    ("InstanceTypeFilter", a_host(ram_mb=1_024, disk_gb=10, vcpus=0), a_spec(), True),
    ("InstanceTypeFilter", a_host(ram_mb=1_023, disk_gb=10), a_spec(), False),
    ("InstanceTypeFilter", a_host(ram_mb=1_024, disk_gb=9), a_spec(), False),
    ("JSONFilter", a_host(), a_spec(), True),
    (
        "AggregateCoreFilter",
        a_host(vcpus=Inventory(8, allocation_ratio=2.0), used={VCPU: 15}),
        a_spec(),
        True,
    ),
    ("AggregateCoreFilter", a_host(vcpus=8, used={VCPU: 8}), a_spec(), False),
    ("AggregateRamFilter", a_host(ram_mb=MB_HALF), a_spec(ram_mb=1_350), True),
    ("AggregateRamFilter", a_host(ram_mb=MB_HALF), a_spec(ram_mb=1_351), False),
    ("AggregateDiskFilter", a_host(disk_gb=10, used={DISK_GB: 5}), a_spec(disk_gb=5), True),
    ("AggregateDiskFilter", a_host(disk_gb=10, used={DISK_GB: 5}), a_spec(disk_gb=6), False),
    ("ExactCoreFilter", a_host(vcpus=8), a_spec(vcpus=8), True),
    ("ExactCoreFilter", a_host(vcpus=8), a_spec(vcpus=7), False),
    ("ExactCoreFilter", a_host(vcpus=7), a_spec(vcpus=8), False),
    ("ExactCoreFilter", a_host(vcpus=0), a_spec(vcpus=0), True),
    ("ExactCoreFilter", a_host(vcpus=8), a_spec(vcpus=0), False),
    ("ExactRamFilter", a_host(ram_mb=4_096, used={MEMORY_MB: 3_072}), a_spec(ram_mb=1_024), True),
    ("ExactRamFilter", a_host(ram_mb=MB_HALF), a_spec(ram_mb=900), True),
    ("ExactRamFilter", a_host(ram_mb=MB_HALF), a_spec(ram_mb=1_350), False),
    ("ExactDiskFilter", a_host(disk_gb=100), a_spec(disk_gb=100), True),
    ("ExactDiskFilter", a_host(disk_gb=100, used={DISK_GB: 1}), a_spec(disk_gb=100), False),
    ("IoOpsFilter", a_host(num_building=1), a_spec(), True),
    ("IoOpsFilter", a_host(num_building=2), a_spec(), False),
    ("IoOpsFilter", a_host(num_building=1, aggregates=SMALL), a_spec(), True),
    ("AggregateIoOpsFilter", a_host(num_building=1), a_spec(), True),
    ("AggregateIoOpsFilter", a_host(num_building=2), a_spec(), False),
    ("AggregateIoOpsFilter", a_host(num_building=2, aggregates=LARGE), a_spec(), True),
    ("AggregateIoOpsFilter", a_host(num_building=1, aggregates=[*LARGE, *SMALL]), a_spec(), False),
    ("AggregateIoOpsFilter", a_host(num_building=1, aggregates=UNREADABLE), a_spec(), True),
    ("AggregateIoOpsFilter", a_host(num_building=2, aggregates=UNREADABLE), a_spec(), False),
    ("AggregateIoOpsFilter", a_host(num_building=2, aggregates=[*UNREADABLE, *LARGE]), a_spec(), False),
    ("NumInstancesFilter", a_host(owners={"me": 1, "you": 2}), a_spec(), True),
    ("NumInstancesFilter", a_host(owners={"me": 2, "you": 2}), a_spec(), False),
    ("AggregateNumInstancesFilter", a_host(owners={"me": 4}), a_spec(), False),
    ("AggregateNumInstancesFilter", a_host(owners={"me": 4}, aggregates=LARGE), a_spec(), True),
    ("AggregateNumInstancesFilter", a_host(owners={"me": 1}, aggregates=[*SMALL, *LARGE]), a_spec(), False),
    ("MetricsFilter", a_host(metrics={"load": 0.0, "heat": -1.5, "rain": 2.0}), a_spec(), True),
    ("MetricsFilter", a_host(metrics={"load": 0.0}), a_spec(), False),
    ("TypeAffinityFilter", a_host(flavors={":large": 3}), a_spec(), True),
    ("TypeAffinityFilter", a_host(flavors={":small": 1}), a_spec(), False),
    ("RetryFilter", a_host(), a_spec(), True),
    ("SameHostFilter", a_host(), a_spec(), True),
    ("SameHostFilter", a_host(), a_spec(hints={"same_host": []}), True),
    ("SameHostFilter", a_host(), a_spec(hints={"same_host": ["uuid"]}), False),
    ("DifferentHostFilter", a_host(), a_spec(), True),
    ("DifferentHostFilter", a_host(), a_spec(hints={"different_host": ["uuid"]}), True),
    ("ServerGroupAffinityFilter", a_host(), a_spec(), True),
    ("ServerGroupAntiAffinityFilter", a_host(), a_spec(), True),
]


@pytest.mark.parametrize(("name", "host", "spec", "passes"), EXAMPLES)
def test_a_filter_passes_what_it_documents(name: str, host: HostRow, spec: RequestSpec, passes: bool) -> None:
    state = HostState(a_table([host]), 0)
    assert a_filter(name).host_passes(state, spec) is passes


def test_a_zone_allows_eight_builds_and_fifty_instances_on_a_host_unless_it_says_otherwise() -> None:
    known = schedulers().default.plugins.filters.known
    hosts = [a_host(f"{n}f", num_building=7 + n, owners={"me": 49 + n}) for n in range(2)]
    view = HostView.whole(a_table(hosts), a_spec())
    for name in ("IoOpsFilter", "AggregateIoOpsFilter", "NumInstancesFilter", "AggregateNumInstancesFilter"):
        assert known[name].passes(view, view.spec).tolist() == [True, False], name


@pytest.mark.parametrize("text", ["x", "", "nan", "inf", "1,2"])
def test_metadata_that_is_no_number_is_told_of_once(text: str, caplog: pytest.LogCaptureFixture) -> None:
    aggregate = Aggregate("1", "racks", {"max_io_ops_per_host": text})
    view = HostView.whole(a_table([a_host(num_building=1, aggregates=[aggregate])]), a_spec())
    host_filter = BUILT_IN["AggregateIoOpsFilter"].from_conf(conf.load([], OPTIONS))
    with caplog.at_level(logging.WARNING):
        answers = [host_filter.passes(view, view.spec).tolist() for _ in range(3)]
    assert answers == [[True]] * 3
    said = f"aggregate racks: max_io_ops_per_host = {text!r} is not a finite number"
    assert [record.message for record in caplog.records] == [f"{said}; the option's value is used"]


def test_a_host_that_refused_the_request_is_left_out_once_and_first_though_retry_filter_is_enabled() -> None:
    context = RequestContext(tried_hosts=frozenset({"1f"}))
    table = a_table([a_host("1f"), a_host("2f")])
    for enabled in (["ComputeFilter"], ["ComputeFilter", "RetryFilter"]):
        offer = offered(table, a_spec(2), *enabled, context=context)
        assert [step.filter for step in offer.why] == ["RetryFilter", "ComputeFilter", "free_slots"]
        assert [pick.host_id for pick in offer.picks] == ["2f", "2f"]


def test_a_filter_of_ones_own_that_refines_the_retry_filter_is_asked_on_a_retry_as_well() -> None:
    table = a_table([a_host("1f"), a_host("2f"), a_host("3f")])
    context = RequestContext(tried_hosts=frozenset({"1f"}))
    path = "tests.builders.own_plugins.RetryElsewhereFilter"
    offer = offered(table, a_spec(alternates=2), "RetryFilter", path, context=context)
    assert [pick.host_id for pick in (*offer.picks, *offer.alternates)] == ["2f"]
    assert offer.why[:2] == (
        FunnelStep("RetryFilter", "refused_before", 3, 2),
        FunnelStep("RetryElsewhereFilter", "retried_elsewhere", 2, 1),
    )


@pytest.mark.parametrize(
    ("hint", "code", "hosts"),
    [("same_host", "not_the_same_host", ["1f"]), ("different_host", "not_a_different_host", ["2f", "3f"])],
)
def test_a_hint_of_instances_is_heeded_though_nobody_names_its_filter(
    hint: str, code: str, hosts: list[str]
) -> None:
    table = a_table([a_host(host_id) for host_id in ("1f", "2f", "3f")])
    spec = a_spec(1, hints={hint: ["uuid"]}, alternates=9)
    context = RequestContext(same_hosts=frozenset({"1f"}), different_hosts=frozenset({"1f"}))
    offer = offered(table, spec, "AllHostsFilter", context=context)
    assert sorted(pick.host_id for pick in (*offer.picks, *offer.alternates)) == hosts
    assert code in [step.code for step in offer.why]


# Hosts 1f and 2f have one and two members of the group, 3f none.
GROUP = {"1f": 1, "2f": 2, "3f": 0}

GROUP_EXAMPLES = [
    ("affinity", 1, ["1f", "2f"]),
    ("anti-affinity", 1, ["3f"]),
    ("anti-affinity", 2, ["1f", "3f"]),
    ("anti-affinity", 3, ["1f", "2f", "3f"]),
    ("soft-affinity", 1, ["1f", "2f", "3f"]),
    ("soft-anti-affinity", 1, ["1f", "2f", "3f"]),
]


def a_groups_hosts(policy: str, most: int, group_key: str, count: int = 1) -> list[str]:
    """The hosts that a request of a group may go to, though no filter of groups is enabled."""
    table = a_table([a_host(host_id, groups={"zone:db": members}) for host_id, members in GROUP.items()])
    spec = a_spec(count, group=ServerGroup("db", GroupPolicy(policy), most), alternates=9)
    offer = offered(table, spec, "AllHostsFilter", context=RequestContext(group=group_key))
    return [pick.host_id for pick in (*offer.picks, *offer.alternates)]


@pytest.mark.parametrize(("policy", "most", "hosts"), GROUP_EXAMPLES)
def test_a_groups_policy_holds_though_its_filter_is_not_enabled(
    policy: str, most: int, hosts: list[str]
) -> None:
    assert sorted(a_groups_hosts(policy, most, "zone:db")) == hosts


@pytest.mark.parametrize("policy", ["affinity", "anti-affinity"])
def test_the_first_of_a_group_may_go_anywhere(policy: str) -> None:
    assert sorted(a_groups_hosts(policy, 1, "zone:web")) == ["1f", "2f", "3f"]


def test_instances_of_one_request_count_for_anti_affinity() -> None:
    assert sorted(a_groups_hosts("anti-affinity", 2, "zone:db", count=9)) == ["1f", "3f", "3f"]


def test_instances_of_one_request_do_not_share_a_host_under_type_affinity() -> None:
    table = a_table([a_host("1f"), a_host("2f"), a_host("3f", flavors={":small": 1})])
    offer = offered(table, a_spec(9), "TypeAffinityFilter")
    assert sorted(pick.host_id for pick in offer.picks) == ["1f", "2f"]


def test_an_exact_host_takes_one_instance() -> None:
    table = a_table([a_host("1f", ram_mb=1_024), a_host("2f", ram_mb=2_048)])
    assert [pick.host_id for pick in offered(table, a_spec(9), "ExactRamFilter").picks] == ["1f"]


def test_a_host_takes_instances_up_to_its_limit() -> None:
    table = a_table([a_host("1f", owners={"me": 2}), a_host("2f", owners={"me": 9})])
    assert [pick.host_id for pick in offered(table, a_spec(9), "NumInstancesFilter").picks] == ["1f", "1f"]


FULL_HOST = a_host(
    ram_mb=4_096,
    disk_gb=100,
    vcpus=8,
    used={MEMORY_MB: 1_024, VCPU: 3},
    owners={"me": 2},
    capabilities={
        "gpu": "a100",
        "speed": 10,
        "fast": True,
        "net": {"vlan": 7},
        "flags": ["x"],
        "hypervisor_type": "QEMU",
        "hypervisor_version": 2_012_000,
        "cpu_info": {"vendor": "Intel"},
    },
)

QUERY_EXAMPLES = [
    ('[">=", "$free_ram_mb", 3072]', True),
    ('[">", "$free_ram_mb", 3072]', False),
    ('["and", [">=", "$free_ram_mb", 1024], [">=", "$free_disk_mb", 102400]]', True),
    ('["and", [">=", "$free_ram_mb", 1024], [">=", "$free_disk_mb", 102401]]', False),
    ('["or", ["=", "$vcpus_used", 4], ["=", "$vcpus_used", 3]]', True),
    ('["not", ["=", "$vcpus_used", 3]]', False),
    ('["not", ["=", "$vcpus_used", 3], ["=", "$vcpus_used", 9]]', True),
    ('["<", "$vcpus_used", 4, 9]', True),
    ('["<", "$vcpus_used", 4, 3]', False),
    ('["in", "$capabilities.gpu", "h100", "a100"]', True),
    ('["in", "$capabilities.gpu", "h100"]', False),
    ('["in", 7, "$capabilities.net.vlan"]', True),
    ('["=", "$capabilities.net.vlan.deeper", 7]', False),
    ('["=", "$capabilities.flags", "x"]', False),
    ('["=", "$capabilities.fast", true]', True),
    ('["=", "$capabilities.fast", 1]', False),
    ('["=", "$capabilities.speed", "10"]', False),
    ('["<=", "$vcpus_used", 3.5]', True),
    ('["<", "$vcpus_used", "$capabilities.speed"]', True),
    ('["in", "$vcpus_used", "$capabilities.gpu", "$capabilities.speed"]', False),
    ('["<", "$capabilities.gpu", "$capabilities.hypervisor_type"]', False),
    ('[">", "$capabilities.gpu", "$capabilities.hypervisor_type"]', False),
    ('["<", true, "$capabilities.fast"]', False),
    ('["<", "$capabilities.missing", 5]', False),
    ('["not", ["<", "$capabilities.missing", 5]]', True),
    ('["<", "$capabilities.speed", "$vcpus_total"]', False),
    ('[">", "$total_usable_ram_mb", "$free_ram_mb"]', True),
    ('["=", "a", "a"]', True),
    ('["=", "$hypervisor_type", "QEMU"]', True),
    ('[">=", "$hypervisor_version", 2012000]', True),
    ('["=", "$cpu_info.vendor", "Intel"]', True),
    ("[]", True),
    ('["and", true, [">=", "$free_ram_mb", 1024]]', True),
    ('["and", false, [">=", "$free_ram_mb", 1024]]', False),
    ('["or", false, []]', True),
    ('["not", true, false, true, false]', True),
    ('["not", true, true]', False),
    ('["and", ["or", true, false], [">", 2, 1]]', True),
]


@pytest.mark.parametrize(("query", "passes"), QUERY_EXAMPLES)
def test_a_query_holds_as_its_grammar_says(query: str, passes: bool) -> None:
    state = HostState(a_table([FULL_HOST]), 0)
    assert a_filter("JSONFilter").host_passes(state, a_spec(filter_query=query)) is passes


MALFORMED = [
    "not json",
    "{}",
    "5",
    '"$free_ram_mb"',
    "null",
    "[[]]",
    "[5, 5]",
    '["and"]',
    '["not"]',
    '["and", 5]',
    '["="]',
    '["=", 1]',
    '["~", 1, 2]',
    '["<in>", 1, 2]',
    '["=", ["=", 1, 1], 1]',
    '["=", {}, 1]',
    '["=", null, 1]',
    '["=", NaN, 1]',
    '["=", Infinity, 1]',
    '["=", 1e400, 1]',
    '["=", "$free_ram_mb", 99999999999999999999]',
    '["=", "$", 1]',
    '["=", "$capabilities.", 1]',
    '["=", "$a..b", 1]',
    '["not", ' * 40 + '["=", 1, 1]' + "]" * 40,
    "[" * 10_000,
    '["=", "' + "x" * 20_000 + '", 1]',
]


@pytest.mark.parametrize("query", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_query_is_refused_and_its_field_named(query: str) -> None:
    scheduler = schedulers().default
    with pytest.raises(BadRequest) as refused:
        scheduler.check(a_spec(filter_query=query))
    assert (refused.value.code, refused.value.field) == ("filter_query_invalid", "filter_query")


@pytest.mark.parametrize(
    "name",
    ["hypervisor_hostname", "host", "hostname", "nodename", "host_ip", "uuid", "id", "name", "service_id"],
)
@pytest.mark.parametrize("spelling", ["$%s", "$capabilities.%s", "$capabilities.%s.deeper"])
def test_a_query_for_a_name_is_refused_and_told_that_names_are_not_read(name: str, spelling: str) -> None:
    query = json.dumps(["not", ["=", spelling % name, "h1"]])
    with pytest.raises(BadRequest, match="names, addresses and ids of hosts") as refused:
        schedulers().default.check(a_spec(filter_query=query))
    assert (refused.value.code, refused.value.field) == ("filter_query_invalid", "filter_query")


@pytest.mark.parametrize("name", ["num_instances", "num_io_ops"])
def test_a_query_for_a_count_of_everybodys_instances_is_refused(name: str) -> None:
    with pytest.raises(BadRequest, match="counts of everybody's instances") as refused:
        schedulers().default.check(a_spec(filter_query=json.dumps(["not", ["=", f"${name}", 0]])))
    assert (refused.value.code, refused.value.field) == ("filter_query_invalid", "filter_query")


@pytest.mark.parametrize("word", ["<", ">", "<=", ">="])
@pytest.mark.parametrize("others", [["m"], [1, "m"]])
def test_texts_are_not_compared_letter_by_letter(word: str, others: list[Any]) -> None:
    with pytest.raises(BadRequest, match="compares numbers only") as refused:
        schedulers().default.check(a_spec(filter_query=json.dumps([word, "$capabilities.rack", *others])))
    assert (refused.value.code, refused.value.field) == ("filter_query_invalid", "filter_query")


def of_operands(count: int) -> str:
    """A query of so many operands, in several conditions."""
    half = count // 2
    parts = [["in", "$free_ram_mb", *range(half - 1)], ["in", "$cpu_info.vendor", *range(count - half - 1)]]
    return json.dumps(["or", *parts])


def test_the_operands_of_a_query_are_limited_when_it_is_read() -> None:
    parse_query(of_operands(256))
    with pytest.raises(BadRequest, match="more than 256 operands") as refused:
        parse_query(of_operands(257))
    assert (refused.value.code, refused.value.field) == ("filter_query_invalid", "filter_query")


@pytest.mark.parametrize(
    ("query", "hosts"),
    [('["=", "$capabilities.gpu", "a100"]', ["1f"] * 3), ('[">=", "$free_ram_mb", 2048]', ["1f"])],
)
def test_a_query_is_asked_again_about_a_picked_host_only_if_it_reads_numbers(
    query: str, hosts: list[str]
) -> None:
    table = a_table([a_host("1f", ram_mb=3_000, capabilities={"gpu": "a100"})])
    spec = a_spec(3, ram_mb=1_000, filter_query=query)
    scheduler = schedulers().default
    json_filter = scheduler.plugins.filters.known["JSONFilter"]
    assert [pick.host_id for pick in scheduler.offer(OfferRequest(table, spec)).picks] == hosts
    assert json_filter.changes_with_picks(spec) is (len(hosts) == 1)


@pytest.mark.parametrize("name", ["gpu", "free_ram", "free_ram_mb.x", "Free_ram_mb", "aggregates", "traits"])
def test_a_query_of_an_unknown_variable_is_refused_with_the_known_ones(name: str) -> None:
    query = json.dumps(["or", [">", f"${name}", 1], ["=", 1, 1]])
    with pytest.raises(BadRequest, match=r"free_ram_mb.*capabilities\.") as refused:
        schedulers().default.check(a_spec(filter_query=query))
    assert (refused.value.code, refused.value.field) == ("filter_query_invalid", "filter_query")


@given(
    st.text(max_size=60) | st.sampled_from(QUERIES).flatmap(lambda q: st.integers(0, 99).map(lambda n: q[:n]))
)
def test_any_text_is_a_query_or_refused(text: str) -> None:
    try:
        query = parse_query(text)
    except BadRequest:
        return
    assert query.holds(HostState(a_table([FULL_HOST]), 0)) in (True, False)


@given(tables, specs, contexts, st.lists(st.integers(0, 99), max_size=20), st.none() | st.integers(0, 4))
def test_both_forms_of_each_filter_agree(
    table: HostTable, spec: RequestSpec, context: RequestContext, numbers: list[int], placed: int | None
) -> None:
    rows = np.array(numbers, dtype=np.int64) % table.size
    copies = None if placed is None else (np.arange(len(rows), dtype=np.int64) + placed) % 5
    view = HostView(table, rows, spec, context, copies)
    for name in BUILT_IN:
        host_filter = a_filter(name)
        scalar = [host_filter.host_passes(state, spec) for state in view.states()]
        assert host_filter.passes(view, spec).tolist() == scalar, name


@cache
def some_views() -> list[HostView]:
    given = [(some_table(seed, 16), some_spec(seed, 1), some_context(-seed)) for seed in range(60)]
    return [HostView.whole(table, spec, context) for table, spec, context in given]


@pytest.mark.parametrize("name", sorted(set(BUILT_IN) - {"AllHostsFilter"}))
def test_the_hosts_and_requests_of_these_tests_try_each_filter(name: str) -> None:
    answers = [answer for view in some_views() for answer in a_filter(name).passes(view, view.spec).tolist()]
    assert set(answers) == {True, False}


@given(tables, specs, contexts)
def test_each_filter_keeps_what_it_declares(
    table: HostTable, spec: RequestSpec, context: RequestContext
) -> None:
    before = HostView.whole(table, spec, context)
    after = before.pick(np.arange(table.size), np.ones(table.size, dtype=np.int64))
    offer = offered(table, spec, "AllHostsFilter")
    chosen = [table.row_of(pick.host_id) for pick in (*offer.picks, *offer.alternates, *offer.bundles)]
    for name in BUILT_IN:
        host_filter = a_filter(name)
        passed = host_filter.passes(before, spec)
        if not host_filter.changes_with_picks(spec) and not host_filter.implied_by_free_slots:
            assert passed.tolist() == host_filter.passes(after, spec).tolist(), name
        if host_filter.implied_by_free_slots:
            assert passed[chosen].all(), name


def offered(table: HostTable, spec: RequestSpec, *filters: str, **request: Any) -> Offer:
    scheduler = schedulers(enabled_filters=list(filters), **OPTIONS).default
    return scheduler.offer(OfferRequest(table, spec, **request))


@given(
    tables, specs, st.lists(st.sampled_from(sorted(BUILT_IN)), min_size=2, max_size=6, unique=True), st.data()
)
def test_the_order_of_filters_changes_no_choice_and_no_sum(
    table: HostTable, spec: RequestSpec, names: set[str], data: st.DataObject
) -> None:
    orders = (data.draw(st.permutations(sorted(names))) for _ in range(2))
    first, second = (offered(table, spec, *order) for order in orders)
    assert (first.picks, first.alternates, first.bundles) == (second.picks, second.alternates, second.bundles)
    # The hosts that all filters together remove are the same, whoever was first.
    assert survivors(first) == survivors(second)


def survivors(offer: Offer) -> int:
    """Hosts that passed every filter, before room was looked at."""
    return next(step.before for step in offer.why if step.filter == "free_slots")


@given(tables, specs)
def test_the_numbers_of_a_funnel_add_up(table: HostTable, spec: RequestSpec) -> None:
    steps = offered(table, spec, *sorted(BUILT_IN), context=RequestContext(tried_hosts=frozenset({"0f"}))).why
    assert steps[0].before == len(table)
    assert all(step.after == following.before for step, following in itertools.pairwise(steps))
    assert all(step.before >= step.after >= 0 for step in steps)
    # For a group a further step may follow: hosts whose filters refuse the later ones of its instances.
    last = ["free_slots", "affinity"] if spec.policy is Policy.AFFINITY else ["free_slots"]
    assert steps[-1].filter in last
    assert "free_slots" in [step.filter for step in steps]


def test_a_funnel_says_which_filter_removed_how_many() -> None:
    table = a_table(
        [a_host("1f", ram_mb=8), a_host("2f", enabled=False), a_host("3f"), a_host("4f", vcpus=0)]
    )
    context = RequestContext(tried_hosts=frozenset({"3f", "9f"}))
    offer = offered(table, a_spec(), "ComputeFilter", "RamFilter", context=context)
    assert offer.why == (
        FunnelStep("RetryFilter", "refused_before", 4, 3),
        FunnelStep("ComputeFilter", "host_not_available", 3, 2),
        FunnelStep("RamFilter", "not_enough_ram", 2, 1),
        FunnelStep("free_slots", "no_free_slots", 1, 0),
    )
    assert offer.picks == ()


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ({}, 1),
        ({"zone:os": "linux"}, 1),
        ({"zone:os": "bsd"}, 0),
        ({"zone:net": "fast"}, 0),
        ({"zone:os": "linux", "zone:net": "fast"}, 0),
    ],
)
def test_a_zone_without_the_capability_asked_for_offers_nothing(asked: Mapping[str, str], left: int) -> None:
    capabilities = {"os": frozenset({"linux", "windows"})}
    offer = offered(a_table([a_host()]), a_spec(extra=asked), zone_capabilities=capabilities)
    assert len(offer.picks) == left
    if asked:
        assert offer.why[0] == FunnelStep("zone_capabilities", "zone_capability", 1, left)


def test_a_request_adds_filters_and_replaces_none() -> None:
    table = a_table([a_host("1f", ram_mb=2_048), a_host("2f", enabled=False)])
    offer = offered(table, a_spec(filters=("AllHostsFilter", "RamFilter")), "ComputeFilter", "RamFilter")
    assert [step.filter for step in offer.why] == [
        "ComputeFilter",
        "RamFilter",
        "AllHostsFilter",
        "free_slots",
    ]
    assert [pick.host_id for pick in offer.picks] == ["1f"]


def test_a_request_that_names_an_unknown_filter_is_refused() -> None:
    with pytest.raises(BadRequest) as refused:
        offered(a_table([a_host()]), a_spec(filters=("tests.builders.own_plugins.GpuKindFilter",)))
    assert (refused.value.code, refused.value.field) == ("filter_unknown", "filters")


def test_a_query_is_heeded_though_nobody_names_its_filter() -> None:
    offer = offered(a_table([a_host(ram_mb=2_048)]), a_spec(filter_query='[">", "$free_ram_mb", 2048]'))
    assert offer.picks == ()
    assert FunnelStep("JSONFilter", "query_not_met", 1, 0) in offer.why


def test_a_filter_of_ones_own_is_asked_again_about_a_picked_host() -> None:
    # given: an even number of GB free on the first host only, which one instance makes odd
    table = a_table([a_host("1f", ram_mb=8 * 1024), a_host("2f", ram_mb=7 * 1024)])
    offer = offered(table, a_spec(5), "tests.builders.own_plugins.OddRamFilter")
    assert [pick.host_id for pick in offer.picks] == ["1f"]


def test_a_filter_that_runs_once_per_request_is_not_asked_again_about_a_picked_host() -> None:
    # given: the same hosts, and a filter that says that no pick changes its answer
    table = a_table([a_host("1f", ram_mb=8 * 1024), a_host("2f", ram_mb=7 * 1024)])
    offer = offered(table, a_spec(5), "tests.builders.own_plugins.OddRamOnceFilter")
    assert [pick.host_id for pick in offer.picks] == ["1f"] * 5


def test_a_filter_of_shared_facts_is_asked_once_per_kind_of_host() -> None:
    own_plugins.GpuKindFilter.asked = 0
    table = a_table([a_host(f"{n}f", capabilities={"gpu": n % 2}) for n in range(100)])
    offer = offered(table, a_spec(200, ram_mb=1), "tests.builders.own_plugins.GpuKindFilter")
    assert offer.why[0] == FunnelStep("GpuKindFilter", "no_gpu", 100, 50)
    assert own_plugins.GpuKindFilter.asked == 2


def test_a_filter_of_the_documents_form_works() -> None:
    table = a_table([a_host("1f", ram_mb=8_192), a_host("2f", ram_mb=3_072), a_host("3f", ram_mb=9_000)])
    offer = offered(table, a_spec(9, ram_mb=2_048), "tests.builders.own_plugins.MostlyFreeFilter")
    assert offer.why[0] == FunnelStep("MostlyFreeFilter", "mostly_taken", 3, 1)
    assert [pick.host_id for pick in offer.picks] == ["1f", "1f", "1f"]


@pytest.mark.parametrize(
    "name", ["BrokenFilter", "ExitingFilter", "WrongShapeFilter", "BrokenAfterPicksFilter"]
)
def test_a_filter_that_fails_refuses_the_request_in_its_own_name(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(FilterFailed) as refused, caplog.at_level(logging.ERROR):
        offered(a_table([a_host()]), a_spec(), f"tests.builders.own_plugins.{name}")
    assert (refused.value.code, refused.value.filter_name) == ("filter_failed", name)
    assert "host-1f" not in refused.value.message
    assert name in caplog.text


def test_the_trace_of_a_filter_that_raises_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(FilterFailed), caplog.at_level(logging.ERROR):
        offered(a_table([a_host()]), a_spec(), "tests.builders.own_plugins.BrokenFilter")
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    "name",
    [
        "RamFiltre",
        "no.such.Module",
        "tests.builders.own_plugins.Missing",
        "tests.builders.own_plugins.W1",
        ".Filter",
        "",
    ],
)
def test_an_unknown_filter_at_start_is_named_with_the_known_ones(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        schedulers(enabled_filters=["RamFilter", name])
    assert refused.value.field == "enabled_filters"
    assert name in refused.value.message
    assert "RamFilter" in refused.value.message or "BaseHostFilter" in refused.value.message


@pytest.mark.parametrize(("older", "name"), OLDER_NAMES.items())
def test_a_filter_is_found_by_its_older_name(older: str, name: str) -> None:
    offer = offered(a_table([a_host()]), a_spec(filters=(name,)), older)
    assert [step.filter for step in offer.why] == [name, "free_slots"]
