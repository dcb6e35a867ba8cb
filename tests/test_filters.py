"""Host filters: what each passes, scalar and vectorised alike, and what becomes of wrong ones."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import own_plugins
from tests.hosts import (
    GPU,
    QUERIES,
    a_host,
    a_spec,
    a_table,
    schedulers,
    some_spec,
    some_table,
    specs,
    tables,
    unhurried,
)
from zonesched import conf
from zonesched.errors import BadRequest, ConfigError
from zonesched.filters.contract import FilterFailed
from zonesched.filters.json_query import parse_query
from zonesched.filters.registry import BUILT_IN, built_in_filters
from zonesched.model.build_plan import FunnelStep
from zonesched.model.capacity import Inventory
from zonesched.model.host_state import HostState
from zonesched.model.host_table import HostRow, HostTable
from zonesched.model.host_view import HostView
from zonesched.model.request_context import RequestContext
from zonesched.model.request_spec import DISK_GB, MEMORY_MB, VCPU, Policy, RequestSpec
from zonesched.scheduler.base_scheduler import Offer, OfferRequest

MB_HALF = Inventory(1_000, reserved=100, allocation_ratio=1.5)

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
    ("TraitsFilter", a_host(traits=["A", "D"]), a_spec(extra={"traits:any_of": "A,B;C,D"}), True),
    ("TraitsFilter", a_host(traits=["A", "B"]), a_spec(extra={"traits:any_of": "A,B;C,D"}), False),
    ("AvailabilityZoneFilter", a_host(zone="az1"), a_spec(), True),
    ("AvailabilityZoneFilter", a_host(zone="az1"), a_spec(availability_zone="az1"), True),
    ("AvailabilityZoneFilter", a_host(zone="az1"), a_spec(availability_zone="az2"), False),
    ("InstanceTypeFilter", a_host(ram_mb=1_024, disk_gb=10, vcpus=0), a_spec(), True),
    ("InstanceTypeFilter", a_host(ram_mb=1_023, disk_gb=10), a_spec(), False),
    ("InstanceTypeFilter", a_host(ram_mb=1_024, disk_gb=9), a_spec(), False),
    ("JSONFilter", a_host(), a_spec(), True),
]


@pytest.mark.parametrize(("name", "host", "spec", "passes"), EXAMPLES)
def test_a_filter_passes_what_it_documents(name: str, host: HostRow, spec: RequestSpec, passes: bool) -> None:
    state = HostState(a_table([host]), 0)
    assert BUILT_IN[name]().host_passes(state, spec) is passes


FULL_HOST = a_host(
    ram_mb=4_096,
    disk_gb=100,
    vcpus=8,
    used={MEMORY_MB: 1_024, VCPU: 3},
    owners={"me": 2},
    capabilities={"gpu": "a100", "speed": 10, "fast": True, "net": {"vlan": 7}, "flags": ["x"]},
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
    ('["in", "$gpu", "h100", "a100"]', True),
    ('["in", "$gpu", "h100"]', False),
    ('["in", 7, "$capabilities.net.vlan"]', True),
    ('["=", "$capabilities.net.vlan.deeper", 7]', False),
    ('["=", "$capabilities.flags", "x"]', False),
    ('["=", "$fast", true]', True),
    ('["=", "$fast", 1]', False),
    ('["=", "$speed", "10"]', False),
    ('["<=", "$num_instances", 2.5]', True),
    ('["<", "$missing", 5]', False),
    ('["not", ["<", "$missing", 5]]', True),
    ('["<", "$speed", "$vcpus_total"]', False),
    ('[">", "$total_usable_ram_mb", "$free_ram_mb"]', True),
    ('["=", "a", "a"]', True),
    ('["=", "$host", "host-1f"]', False),
    ('["=", "$uuid", "1f"]', False),
    ('["=", "$num_io_ops", 0]', True),
    ('["=", "$hypervisor_hostname", "host-1f"]', False),
]


@pytest.mark.parametrize(("query", "passes"), QUERY_EXAMPLES)
def test_a_query_holds_as_its_grammar_says(query: str, passes: bool) -> None:
    state = HostState(a_table([FULL_HOST]), 0)
    assert BUILT_IN["JSONFilter"]().host_passes(state, a_spec(filter_query=query)) is passes


MALFORMED = [
    "not json",
    "{}",
    "[]",
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


@unhurried
@given(
    st.text(max_size=60) | st.sampled_from(QUERIES).flatmap(lambda q: st.integers(0, 99).map(lambda n: q[:n]))
)
def test_any_text_is_a_query_or_refused(text: str) -> None:
    try:
        query = parse_query(text)
    except BadRequest:
        return
    assert query.holds(HostState(a_table([FULL_HOST]), 0)) in (True, False)


SETTINGS = {"isolated_hosts": ["host-0f", "host-3f", "host-gone"], "isolated_images": ["image-2"]}
MADE = {name: built_in.from_conf(conf.load([], SETTINGS)) for name, built_in in BUILT_IN.items()}
"""The built-in filters, with settings under which none of them passes everything."""


@unhurried
@given(tables, specs, st.lists(st.integers(0, 99), max_size=20), st.none() | st.integers(0, 4))
def test_both_forms_of_each_filter_agree(
    table: HostTable, spec: RequestSpec, numbers: list[int], placed: int | None
) -> None:
    rows = np.array(numbers, dtype=np.int64) % table.size
    copies = None if placed is None else (np.arange(len(rows), dtype=np.int64) + placed) % 5
    view = HostView(table, rows, spec, RequestContext("owner-1"), copies)
    for name, host_filter in MADE.items():
        scalar = [host_filter.host_passes(state, spec) for state in view.states()]
        assert host_filter.passes(view, spec).tolist() == scalar, name


def test_random_hosts_and_requests_make_each_filter_pass_some_and_remove_some() -> None:
    passed, removed = set(), set()
    for seed in range(60):
        table, spec = some_table(seed, 12), some_spec(seed, 1)
        for name, host_filter in MADE.items():
            answers = host_filter.passes(HostView.whole(table, spec), spec)
            passed |= {name} if answers.any() else set()
            removed |= {name} if not answers.all() else set()
    assert (passed, removed) == (MADE.keys(), MADE.keys() - {"AllHostsFilter"})


@unhurried
@given(tables, specs)
def test_each_filter_keeps_what_it_declares(table: HostTable, spec: RequestSpec) -> None:
    before = HostView.whole(table, spec)
    after = before.pick(np.arange(table.size), np.ones(table.size, dtype=np.int64))
    offer = offered(table, spec, "AllHostsFilter")
    chosen = [table.row_of(pick.host_id) for pick in (*offer.picks, *offer.alternates, *offer.bundles)]
    for name, host_filter in MADE.items():
        passed = host_filter.passes(before, spec)
        if not host_filter.changes_with_picks(spec) and not host_filter.implied_by_room:
            assert passed.tolist() == host_filter.passes(after, spec).tolist(), name
        if host_filter.implied_by_room:
            assert passed[chosen].all(), name


def offered(table: HostTable, spec: RequestSpec, *filters: str, **request: Any) -> Offer:
    scheduler = schedulers(enabled_filters=list(filters)).default
    return scheduler.offer(OfferRequest(table, spec, **request))


@unhurried
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
    return next(step.before for step in offer.why if step.filter == "room")


@unhurried
@given(tables, specs)
def test_the_numbers_of_a_funnel_add_up(table: HostTable, spec: RequestSpec) -> None:
    steps = offered(table, spec, *sorted(BUILT_IN), context=RequestContext(tried_hosts=frozenset({"0f"}))).why
    assert steps[0].before == len(table)
    assert all(step.after == following.before for step, following in itertools.pairwise(steps))
    assert all(step.before >= step.after >= 0 for step in steps)
    # For a group a further step may follow: hosts whose filters refuse the later ones of its instances.
    last = ["room", "affinity"] if spec.policy is Policy.AFFINITY else ["room"]
    assert steps[-1].filter in last
    assert "room" in [step.filter for step in steps]


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
        FunnelStep("room", "no_room", 1, 0),
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
    assert [step.filter for step in offer.why] == ["ComputeFilter", "RamFilter", "AllHostsFilter", "room"]
    assert [pick.host_id for pick in offer.picks] == ["1f"]


def test_a_request_that_names_an_unknown_filter_is_refused() -> None:
    with pytest.raises(BadRequest) as refused:
        offered(a_table([a_host()]), a_spec(filters=("tests.own_plugins.GpuKindFilter",)))
    assert (refused.value.code, refused.value.field) == ("filter_unknown", "filters")


def test_a_query_is_heeded_though_nobody_names_its_filter() -> None:
    offer = offered(a_table([a_host(ram_mb=2_048)]), a_spec(filter_query='[">", "$free_ram_mb", 2048]'))
    assert offer.picks == ()
    assert FunnelStep("JSONFilter", "query_not_met", 1, 0) in offer.why


def test_a_filter_of_ones_own_is_asked_again_about_a_picked_host() -> None:
    # given: an even number of GB free on the first host only, which one instance makes odd
    table = a_table([a_host("1f", ram_mb=8 * 1024), a_host("2f", ram_mb=7 * 1024)])
    offer = offered(table, a_spec(5), "tests.own_plugins.OddRamFilter")
    assert [pick.host_id for pick in offer.picks] == ["1f"]


def test_a_filter_of_shared_facts_is_asked_once_per_kind_of_host() -> None:
    own_plugins.GpuKindFilter.asked = 0
    table = a_table([a_host(f"{n}f", capabilities={"gpu": n % 2}) for n in range(100)])
    offer = offered(table, a_spec(200, ram_mb=1), "tests.own_plugins.GpuKindFilter")
    assert offer.why[0] == FunnelStep("GpuKindFilter", "no_gpu", 100, 50)
    assert own_plugins.GpuKindFilter.asked == 2


def test_a_filter_of_the_documents_form_works() -> None:
    table = a_table([a_host("1f", ram_mb=8_192), a_host("2f", ram_mb=3_072), a_host("3f", ram_mb=9_000)])
    offer = offered(table, a_spec(9, ram_mb=2_048), "tests.own_plugins.MostlyFreeFilter")
    assert offer.why[0] == FunnelStep("MostlyFreeFilter", "mostly_taken", 3, 1)
    assert [pick.host_id for pick in offer.picks] == ["1f", "1f", "1f"]


@pytest.mark.parametrize("name", ["BrokenFilter", "WrongShapeFilter"])
def test_a_filter_that_fails_refuses_the_request_in_its_own_name(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(FilterFailed) as refused, caplog.at_level(logging.ERROR):
        offered(a_table([a_host()]), a_spec(), f"tests.own_plugins.{name}")
    assert (refused.value.code, refused.value.filter_name) == ("filter_failed", name)
    assert "host-1f" not in refused.value.message
    assert name in caplog.text


def test_the_trace_of_a_filter_that_raises_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(FilterFailed), caplog.at_level(logging.ERROR):
        offered(a_table([a_host()]), a_spec(), "tests.own_plugins.BrokenFilter")
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    "name",
    ["RamFiltre", "no.such.Module", "tests.own_plugins.Missing", "tests.own_plugins.W1", ".Filter", ""],
)
def test_an_unknown_filter_at_start_is_named_with_the_known_ones(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        schedulers(enabled_filters=["RamFilter", name])
    assert refused.value.field == "enabled_filters"
    assert name in refused.value.message
    assert "RamFilter" in refused.value.message or "BaseHostFilter" in refused.value.message


def test_built_in_filters_can_be_had_without_a_configuration() -> None:
    filters = built_in_filters(["RamFilter", "CoreFilter"])
    assert [host_filter.name for host_filter in filters.default] == ["RamFilter", "CoreFilter"]
