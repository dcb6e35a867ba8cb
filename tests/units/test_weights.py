"""Weighers: what each prefers, scalar and vectorised alike, and what becomes of wrong ones."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import own_plugins
from tests.builders.hosts import IMAGE_KEYS, a_host, a_spec, a_table, schedulers, specs, tables
from tests.builders.own_plugins import W1, ByDiskScheduler, CountedWeigher
from zonesched import conf
from zonesched.errors import ConfigError
from zonesched.model.aggregate import Aggregate
from zonesched.model.build_plan import FunnelStep
from zonesched.model.capacity import Inventory
from zonesched.model.host_state import HostState
from zonesched.model.host_table import HostRow, HostTable
from zonesched.model.host_view import HostView
from zonesched.model.metadata_numbers import MetadataNumbers
from zonesched.model.request_context import RequestContext
from zonesched.model.request_spec import (
    DISK_GB,
    MEMORY_MB,
    VCPU,
    Group,
    GroupPolicy,
    Image,
    NoGroup,
    RequestSpec,
    ScoreWeighing,
    ServerGroup,
    WeigherScale,
)
from zonesched.model.request_wire import spec_to_wire
from zonesched.scheduler.base_scheduler import Offer, OfferRequest
from zonesched.scheduler.scale import Range
from zonesched.scheduler.schedulers import Schedulers
from zonesched.weights.contract import BaseHostWeigher, WeigherFailed
from zonesched.weights.registry import BUILT_IN

DEBIAN, FEDORA = '{"os_distro":"debian","os_type":"linux"}', '{"os_distro":"fedora","os_type":"linux"}'

EXAMPLES: list[tuple[str, HostRow, float]] = [
    ("RAMWeigher", a_host(ram_mb=4_096, used={MEMORY_MB: 1_024}), 3_072.0),
    ("RAMWeigher", a_host(ram_mb=Inventory(4_096, reserved=96, allocation_ratio=2.0)), 4_000.0),
    ("RAMWeigher", a_host(ram_mb=Inventory(100, allocation_ratio=2.0), used={MEMORY_MB: 150}), -50.0),
    ("CPUWeigher", a_host(vcpus=Inventory(16, allocation_ratio=4.0), used={VCPU: 10}), 54.0),
    ("DiskWeigher", a_host(disk_gb=10, used={DISK_GB: 3}), 7 * 1_024.0),
    ("IoOpsWeigher", a_host(num_building=4), 4.0),
    ("NumInstancesWeigher", a_host(owners={"me": 3, "you": 2}), 5.0),
    ("BuildFailureWeigher", a_host(failed_builds=2), 2.0),
    ("BuildFailureWeigher", a_host(), 0.0),
    ("HypervisorVersionWeigher", a_host(capabilities={"hypervisor_version": "7.1.123"}), 7_001_123.0),
    ("HypervisorVersionWeigher", a_host(capabilities={"hypervisor_version": 2_012_000}), 2_012_000.0),
    ("HypervisorVersionWeigher", a_host(capabilities={"hypervisor_version": "newest"}), 0.0),
    ("HypervisorVersionWeigher", a_host(capabilities={"hypervisor_version": "\u0667.\u0661"}), 0.0),
    ("HypervisorVersionWeigher", a_host(capabilities={"hypervisor_version": "\u0667"}), 0.0),
    ("HypervisorVersionWeigher", a_host(capabilities={"hypervisor_version": 10**30}), 0.0),
    ("HypervisorVersionWeigher", a_host(), 0.0),
    ("MetricsWeigher", a_host(metrics={"cpu.idle": 80.0, "heat": 30.0}), 65.0),
    ("MetricsWeigher", a_host(metrics={"cpu.idle": 80.0, "unused": 1.0}), -7.0),
    ("ServerGroupSoftAffinityWeigher", a_host(groups={"my-group": 3, "other": 9}), 3.0),
    ("ServerGroupSoftAntiAffinityWeigher", a_host(groups={"my-group": 3, "other": 9}), 0.0),
    ("ImagePropertiesWeigher", a_host(images={DEBIAN: 1, FEDORA: 1, "{}": 5}), 12.0),
    ("CrossZoneWeigher", a_host(), 1.0),
]

SETTINGS: dict[str, Any] = {
    "metrics_weight_setting": ["cpu.idle=1.0", "heat=-0.5", "unused=0"],
    "metrics_required": False,
    "metrics_weight_of_unavailable": -7.0,
    "image_props_weight_setting": ["os_distro=10", "os_type=1"],
}
SOFT = ServerGroup("g", GroupPolicy.SOFT_AFFINITY)
ANTI = ServerGroup("g", GroupPolicy.SOFT_ANTI_AFFINITY)
IN_GROUP = RequestContext("me", group="my-group")


def weighers(**options: Any) -> Mapping[str, BaseHostWeigher]:
    return schedulers(**options).default.plugins.weighers.known


@pytest.mark.parametrize(("name", "host", "raw"), EXAMPLES)
def test_a_weigher_gives_the_raw_value_it_documents(name: str, host: HostRow, raw: float) -> None:
    weigher = weighers(**SETTINGS)[name]
    spec = a_spec(group=SOFT, image=json.loads(DEBIAN))
    assert weigher._weigh_object(HostState(a_table([host]), 0, IN_GROUP), spec) == raw


@pytest.mark.parametrize(
    ("name", "spec", "raw"),
    [
        ("ServerGroupSoftAffinityWeigher", a_spec(group=ANTI), 0.0),
        ("ServerGroupSoftAffinityWeigher", a_spec(), 0.0),
        ("ServerGroupSoftAntiAffinityWeigher", a_spec(group=ANTI), -2.0),
        ("CrossZoneWeigher", a_spec(path=("above",)), 0.0),
        ("ImagePropertiesWeigher", a_spec(image={"os_type": "linux"}), 3.0),
        ("ImagePropertiesWeigher", a_spec(image={"os_distro": "hurd"}), 0.0),
        ("ImagePropertiesWeigher", a_spec(), 0.0),
    ],
)
def test_a_raw_value_may_depend_on_the_request(name: str, spec: RequestSpec, raw: float) -> None:
    host = a_host(groups={"my-group": 2}, images={DEBIAN: 1, FEDORA: 2})
    assert weighers()[name]._weigh_object(HostState(a_table([host]), 0, IN_GROUP), spec) == raw


@given(
    tables,
    specs,
    st.integers(0, 4),
    st.sampled_from([NoGroup(), SOFT, ANTI]),
    st.sampled_from(IMAGE_KEYS),
    st.sampled_from([(), ("above",)]),
    st.booleans(),
)
def test_both_forms_of_each_weigher_give_the_same_bits(
    table: HostTable,
    some: RequestSpec,
    placed: int,
    group: Group,
    image: str,
    path: tuple[str, ...],
    required: bool,
) -> None:
    spec = replace(some, group=group, image=Image("i", "i", json.loads(image)), path=path)
    rows = np.arange(table.size, dtype=np.int64)
    context = RequestContext("owner-1", group="group-1")
    view = HostView(table, rows, spec, context, (rows + placed) % 5)
    known = weighers(
        metrics_weight_setting=["load=0.1", "heat=-3"],
        metrics_required=required,
        image_props_weight_setting=["os_distro=0.1", "os_type=0.7"],
    )
    for name in BUILT_IN:
        scalar = [known[name]._weigh_object(state, spec) for state in view.states()]
        np.testing.assert_array_equal(known[name].weigh(view, spec), scalar, err_msg=name)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("RAMWeigher", "ram_weight_multiplier"),
        ("CPUWeigher", "cpu_weight_multiplier"),
        ("DiskWeigher", "disk_weight_multiplier"),
        ("IoOpsWeigher", "io_ops_weight_multiplier"),
        ("NumInstancesWeigher", "num_instances_weight_multiplier"),
        ("MetricsWeigher", "metrics_weight_multiplier"),
        ("ImagePropertiesWeigher", "image_props_weight_multiplier"),
        ("HypervisorVersionWeigher", "hypervisor_version_weight_multiplier"),
    ],
)
@pytest.mark.parametrize(("multiplier", "best"), [(1.0, "2f"), (-1.0, "1f")])
def test_the_multiplier_of_a_weigher_decides_which_end_it_prefers(
    name: str, option: str, multiplier: float, best: str
) -> None:
    table = two_hosts()
    scheduler = schedulers(
        weight_classes=[name], metrics_weight_setting=["load=1"], **{option: multiplier}
    ).default
    spec = a_spec(group=SOFT, image=json.loads(DEBIAN))
    assert scheduler.offer(OfferRequest(table, spec, IN_GROUP)).picks[0].host_id == best


def placed_by_failures(*hosts: HostRow, multiplier: float = 1_000_000.0) -> list[tuple[str, int]]:
    """Hosts in order of their weights, by failed builds and free RAM."""
    scheduler = schedulers(
        weight_classes=["BuildFailureWeigher", "RAMWeigher"], build_failure_weight_multiplier=multiplier
    ).default
    offer = scheduler.offer(OfferRequest(a_table(hosts), a_spec(1, alternates=9)))
    return [(pick.host_id, pick.weight) for pick in (*offer.picks, *offer.alternates)]


def lowering(multiplier: str) -> list[Aggregate]:
    return [Aggregate("1", "a", {"build_failure_weight_multiplier": multiplier})]


def test_a_host_without_failed_builds_neither_gains_nor_loses_by_them() -> None:
    # given: clean hosts, one of them in an aggregate where failures count less; a third host failed
    clean = a_host("1f", ram_mb=65_536, aggregates=lowering("10"))
    smaller = a_host("2f", ram_mb=8_192)
    failed = a_host("3f", ram_mb=65_536, failed_builds=1)

    placed = placed_by_failures(clean, smaller, failed)

    assert [host for host, _ in placed] == ["1f", "2f", "3f"]
    assert [weight for _, weight in placed] == [
        4 * 10**15 - 10**9,
        4 * 10**15 - 10**9 // 8,
        4 * 10**15 + (10**6 - 1) * 10**9,
    ]


def test_failures_count_less_where_an_aggregate_lowers_their_multiplier() -> None:
    often = a_host("1f", failed_builds=4, aggregates=lowering("0.5"))
    once = a_host("2f", failed_builds=1)
    assert [host for host, _ in placed_by_failures(often, once)] == ["1f", "2f"]
    assert [host for host, _ in placed_by_failures(often, once, multiplier=-1.0)] == ["2f", "1f"]


def test_failures_of_all_hosts_count_from_none() -> None:
    placed = dict(placed_by_failures(a_host("1f", failed_builds=1), a_host("2f", failed_builds=4)))
    assert placed == {"1f": 4 * 10**15 + 249_999 * 10**9, "2f": 4 * 10**15 + 999_999 * 10**9}


SOFT_MULTIPLIERS = {
    "soft_affinity_weight_multiplier": ("ServerGroupSoftAffinityWeigher", SOFT, "2f"),
    "soft_anti_affinity_weight_multiplier": ("ServerGroupSoftAntiAffinityWeigher", ANTI, "1f"),
}


@pytest.mark.parametrize("option", SOFT_MULTIPLIERS)
def test_a_negative_multiplier_of_a_soft_policy_is_a_wrong_configuration(option: str) -> None:
    with pytest.raises(ConfigError, match=option):
        conf.load([], {option: -0.5})
    assert conf.load([], {option: 0.0})[option] == 0.0


@pytest.mark.parametrize("option", SOFT_MULTIPLIERS)
def test_a_negative_multiplier_of_a_soft_policy_in_metadata_is_warned_of_and_the_option_counts(
    option: str, caplog: pytest.LogCaptureFixture
) -> None:
    name, group, best = SOFT_MULTIPLIERS[option]
    scheduler = schedulers(weight_classes=[name]).default
    table = two_hosts(aggregates=[Aggregate("1", "odd", {option: "-9"})])
    with caplog.at_level(logging.WARNING):
        offer = scheduler.offer(OfferRequest(table, a_spec(group=group), IN_GROUP))
    assert offer.picks[0].host_id == best
    assert f"aggregate odd: {option} = '-9'" in caplog.text


def two_hosts(**of_first: Any) -> HostTable:
    """By each weigher, 2f has the higher raw value."""
    fuller = {VCPU: 1, MEMORY_MB: 1, DISK_GB: 1}
    return a_table(
        [
            a_host("1f", used=fuller, failed_builds=1, metrics={"load": -3.0}, **of_first),
            a_host(
                "2f",
                capabilities={"hypervisor_version": 8},
                num_building=1,
                owners={"me": 1},
                groups={"my-group": 1},
                images={DEBIAN: 1},
                metrics={"load": 5.0},
            ),
        ]
    )


def test_soft_anti_affinity_prefers_hosts_without_members() -> None:
    scheduler = schedulers(weight_classes=["ServerGroupSoftAntiAffinityWeigher"]).default
    offer = scheduler.offer(OfferRequest(two_hosts(), a_spec(4, group=ANTI), IN_GROUP))
    assert offer.picks[0].host_id == "1f"
    assert Counter(pick.host_id for pick in offer.picks) in ({"1f": 2, "2f": 2}, {"1f": 3, "2f": 1})
    assert [pick.weight for pick in offer.picks] == [4 * 10**15 + n * 10**9 for n in (-1, 0, 0, 1)]


def ram_first(*texts: str, **options: Any) -> str:
    """The host chosen by free RAM where the fuller host's aggregates say this of the multiplier."""
    aggregates = [Aggregate(str(n), f"a{n}", {RAM_KEY: text}) for n, text in enumerate(texts)]
    scheduler = schedulers(weight_classes=["RAMWeigher"], **options).default
    return scheduler.offer(OfferRequest(two_hosts(aggregates=aggregates), a_spec())).picks[0].host_id


RAM_KEY = "ram_weight_multiplier"


def test_aggregates_set_the_multiplier_of_their_hosts_and_the_smallest_counts() -> None:
    assert (ram_first(), ram_first("2")) == ("2f", "1f")
    assert (ram_first("2", "0.5"), ram_first("2", "3")) == ("2f", "1f")
    assert (ram_first("0.1", ram_weight_multiplier=0.0), ram_first("-0.1", ram_weight_multiplier=0.0)) == (
        "1f",
        "2f",
    )


def test_aggregates_count_below_the_zone_that_chose_the_scale() -> None:
    weighing = ScoreWeighing((WeigherScale("RAMWeigher", 0.0, 65_536.0, 0.0),))
    table = two_hosts(aggregates=[Aggregate("1", "a", {RAM_KEY: "1"})])
    offer = schedulers(ram_weight_multiplier=-9.0).default.offer(
        OfferRequest(table, a_spec(1, alternates=1, weighing=weighing))
    )
    assert [(pick.host_id, pick.weight) for pick in (*offer.picks, *offer.alternates)] == [
        ("1f", 4 * 10**15 - round(10**9 * 65_535 / 65_536)),
        ("2f", 4 * 10**15),
    ]


@pytest.mark.parametrize("wrong", ["many", "", "nan", "inf", "1,5", "1_0", " 1", "\u0663"])
def test_metadata_that_is_no_number_is_warned_of_once_and_the_option_counts(
    wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = MetadataNumbers(RAM_KEY)
    aggregates = (
        Aggregate("1", "fine", {RAM_KEY: "-8"}),
        Aggregate("2", "odd", {RAM_KEY: wrong}),
    )
    with caplog.at_level(logging.WARNING):
        assert [numbers.smallest(aggregates, 1.0) for _ in range(3)] == [1.0] * 3
    assert caplog.text.count("aggregate odd") == 1
    assert RAM_KEY in caplog.text
    assert numbers.smallest(aggregates[:1], 1.0) == -8.0
    assert ram_first(wrong) == "2f"


def test_a_weigher_with_nothing_to_say_is_not_asked() -> None:
    count = CountedWeigher
    count.asked = 0
    path = "tests.builders.own_plugins.CountedWeigher"
    scheduler = schedulers(weight_classes=["RAMWeigher", path]).default
    plain = scheduler.offer(OfferRequest(two_hosts(), a_spec(3)))
    assert count.asked == 0
    assert scheduler.offer(OfferRequest(two_hosts(), a_spec(3, hints={"ask": True}))) == plain
    of_parent = ScoreWeighing((WeigherScale(path, 0.0, 9.0, 0.0), WeigherScale(path, 5.0, 5.0, 1.0)))
    scheduler.offer(OfferRequest(two_hosts(), a_spec(3, weighing=of_parent)))
    assert count.asked == 0
    moved = two_hosts(aggregates=[Aggregate("1", "a", {"counted_weight_multiplier": "1"})])
    scheduler.offer(OfferRequest(moved, a_spec(3, hints={"ask": True})))
    assert count.asked > 0


def test_a_request_of_no_group_carries_no_scale_of_groups() -> None:
    chosen = schedulers().default
    for group, named in (
        (NoGroup(), set[str]()),
        (SOFT, {"ServerGroupSoftAffinityWeigher"}),
        (ANTI, {"ServerGroupSoftAntiAffinityWeigher"}),
    ):
        spec = a_spec(group=group)
        own = chosen.offer(OfferRequest(two_hosts(), spec)).weighing
        for weighing in (chosen.choose_weighing(two_hosts(), spec, {}), own):
            assert isinstance(weighing, ScoreWeighing)
            assert {s.weigher for s in weighing.scales if "Group" in s.weigher} == named


@pytest.mark.parametrize("name", ["all_weighers", "nova.scheduler.weights.all_weighers"])
def test_all_built_in_weighers_have_one_name(name: str) -> None:
    chosen = schedulers(weight_classes=[name, "tests.builders.own_plugins.W1"]).default.plugins.weighers
    assert list(chosen.configured) == [*BUILT_IN, "tests.builders.own_plugins.W1"]
    assert list(schedulers().default.plugins.weighers.configured) == list(BUILT_IN)


@pytest.mark.parametrize("required", [True, False])
def test_a_host_without_a_required_metric_refuses_the_request_in_the_weighers_name(required: bool) -> None:
    table = a_table([a_host("1f", metrics={"load": 2.0}), a_host("2f")])
    scheduler = schedulers(
        weight_classes=["MetricsWeigher"], metrics_weight_setting=["load=-1"], metrics_required=required
    ).default
    if required:
        with pytest.raises(WeigherFailed, match="MetricsWeigher"):
            scheduler.offer(OfferRequest(table, a_spec()))
        assert scheduler.ranges(table) == {"MetricsWeigher": Range(-2.0, -2.0)}
    else:
        assert scheduler.offer(OfferRequest(table, a_spec())).picks[0].host_id == "1f"
        assert scheduler.ranges(table) == {"MetricsWeigher": Range(-10_000.0, -2.0)}


def test_a_tree_without_the_metric_anywhere_says_which_filter_removed_its_hosts() -> None:
    # given a zone with children, where no zone has a range of the weigher
    request = OfferRequest(a_table([a_host("1f"), a_host("2f")]), a_spec())

    def offer(host_filter: str) -> Offer:
        options = {"weight_classes": ["MetricsWeigher"], "metrics_weight_setting": ["load=-1"]}
        of_zone = schedulers(enabled_filters=[host_filter], **options)
        scheduler, prepared = of_zone.prepare(request, {}, has_children=True)
        return scheduler.offer(prepared)

    # then the filter's reason is given, and the weigher fails only for hosts that pass
    assert offer("MetricsFilter").why[0] == FunnelStep("MetricsFilter", "metric_missing", 2, 0)
    with pytest.raises(WeigherFailed, match="MetricsWeigher"):
        offer("ComputeFilter")


@pytest.mark.parametrize("option", ["metrics_weight_setting", "image_props_weight_setting"])
@pytest.mark.parametrize("wrong", ["load", "=1", "load=", "load=nan", "load=inf", "load=many", "b=2=3"])
def test_a_wrong_setting_of_ratios_is_named(option: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=f"Option {option}: '{wrong}'") as refused:
        schedulers(**{option: ["heat=1", wrong]})
    assert refused.value.field == option
    with pytest.raises(ConfigError, match="load=2"):
        schedulers(**{option: ["load=1", "load=2"]})


@pytest.mark.parametrize("name", ["NanMultiplierWeigher", "MultiplierOfHostWeigher"])
def test_a_multiplier_that_is_no_number_is_a_wrong_configuration(name: str) -> None:
    with pytest.raises(
        ConfigError, match=f"weight_classes: the multiplier of tests.builders.own_plugins.{name}"
    ):
        schedulers(weight_classes=[f"tests.builders.own_plugins.{name}"])


@pytest.mark.parametrize("name", ["CrossedBoundsWeigher", "EndlessBoundWeigher", "TextBoundWeigher"])
def test_bounds_that_no_value_can_be_scaled_by_are_a_wrong_configuration(name: str) -> None:
    with pytest.raises(ConfigError, match=f"minval and maxval of tests.builders.own_plugins.{name}"):
        schedulers(weight_classes=[f"tests.builders.own_plugins.{name}"])


def test_a_multiplier_may_be_any_kind_of_number() -> None:
    path = "tests.builders.own_plugins.NumpyMultiplierWeigher"
    scheduler = schedulers(weight_classes=[path]).default
    table = a_table([a_host(capabilities={"NumpyMultiplierWeigher": 2})])
    of_ranges = scheduler.choose_weighing(HostTable(), a_spec(), {path: Range(1.0, 2.0)})
    of_hosts = scheduler.offer(OfferRequest(table, a_spec())).weighing
    for weighing in (of_ranges, of_hosts):
        orjson.dumps(spec_to_wire(a_spec(weighing=weighing)))
        assert isinstance(weighing, ScoreWeighing) and weighing.scales[0].multiplier == 2.5


@pytest.mark.parametrize("name", ["RamWeigher", "no.such.Weigher", "tests.builders.own_plugins.OddRamFilter"])
def test_an_unknown_weigher_at_start_is_named(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        schedulers(weight_classes=[name])
    assert name in refused.value.message
    assert refused.value.field == "weight_classes"


def test_an_installed_package_names_its_weighers_and_drivers_shortly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_plugins.install(
        tmp_path,
        "[zonesched.weighers]\nfirst = tests.builders.own_plugins:W1\n"
        "gone = tests.builders.own_plugins:NoSuch\n"
        "[zonesched.scheduler_drivers]\nby_disk = tests.builders.own_plugins:ByDiskScheduler\n",
    )
    monkeypatch.syspath_prepend(tmp_path)
    options = {"weight_classes": ["first"], "scheduler_driver": "by_disk"}
    chosen = Schedulers.from_conf(conf.load([], options)).default
    assert isinstance(chosen, ByDiskScheduler)
    assert isinstance(chosen.plugins.weighers.configured["first"], W1)
    with pytest.raises(ConfigError, match="gone"):
        Schedulers.from_conf(conf.load([], {"weight_classes": ["gone"]}))


def test_the_documents_names_of_options_are_understood(tmp_path: Path) -> None:
    file = tmp_path / "zone.conf"
    file.write_text("[DEFAULT]\nscheduler_weight_classes = CPUWeigher\nscheduler_host_subset_size = 4\n")
    loaded = conf.load([str(file)])
    assert (loaded.weight_classes, loaded.host_subset_size) == (["CPUWeigher"], 4)


@pytest.mark.parametrize("name", ["NanWeigher", "InfiniteWeigher", "BrokenWeigher", "BrokenChoiceWeigher"])
def test_a_weigher_that_fails_refuses_the_request_in_its_own_name(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = f"tests.builders.own_plugins.{name}"
    scheduler = schedulers(weight_classes=["RAMWeigher", path]).default
    with pytest.raises(WeigherFailed) as refused, caplog.at_level(logging.ERROR):
        scheduler.offer(OfferRequest(a_table([a_host("1f"), a_host("2f")]), a_spec()))
    assert (refused.value.code, refused.value.weigher_name) == ("weigher_failed", path)
    assert "host-2f" not in refused.value.message
    assert path in caplog.text


def test_a_weigher_that_fails_refuses_the_request_of_a_zone_with_children(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scheduler = schedulers(weight_classes=["tests.builders.own_plugins.BrokenChoiceWeigher"]).default
    with pytest.raises(WeigherFailed), caplog.at_level(logging.ERROR):
        scheduler.choose_weighing(a_table([a_host()]), a_spec(), {})
    assert "KeyError" in caplog.text


def test_weights_whose_sum_is_no_number_refuse_the_request() -> None:
    scales = tuple(
        WeigherScale(name, 0.0, 5e-324, sign) for name, sign in (("RAMWeigher", 1.0), ("CPUWeigher", -1.0))
    )
    spec = a_spec(weighing=ScoreWeighing(scales))
    with pytest.raises(WeigherFailed):
        schedulers().default.offer(OfferRequest(a_table([a_host()]), spec))


def test_a_range_is_over_hosts_that_are_enabled_and_up() -> None:
    table = a_table(
        [
            a_host("1f", ram_mb=100),
            a_host("2f", ram_mb=300),
            a_host("3f", ram_mb=900, enabled=False),
            a_host("4f", ram_mb=1, service="dead"),
        ]
    )
    table.apply([], removed=["2f"])
    table.apply([a_host("5f", ram_mb=250)])
    assert schedulers().default.ranges(table)["RAMWeigher"] == Range(100.0, 250.0)


def test_a_zone_without_a_living_host_has_no_ranges() -> None:
    assert schedulers().default.ranges(HostTable()) == {}
    assert schedulers().default.ranges(a_table([a_host(enabled=False)])) == {}


def test_a_weigher_that_fails_has_no_range_and_spoils_nobody_elses() -> None:
    classes = ["tests.builders.own_plugins.BrokenWeigher", "RAMWeigher"]
    scheduler = schedulers(weight_classes=classes).default
    assert list(scheduler.ranges(a_table([a_host()]))) == ["RAMWeigher"]
    with pytest.raises(WeigherFailed, match="BrokenWeigher"):
        scheduler.offer(OfferRequest(a_table([a_host()]), a_spec()))


def test_a_weigher_that_depends_on_the_request_has_its_declared_range() -> None:
    scheduler = schedulers(weight_classes=["tests.builders.own_plugins.BoundedWeigher"]).default
    assert scheduler.ranges(a_table([a_host()])) == {
        "tests.builders.own_plugins.BoundedWeigher": Range(0.0, 10.0)
    }
    weighing = scheduler.choose_weighing(HostTable(), a_spec(hints={"level": 3}), {})
    assert weighing == ScoreWeighing(
        (WeigherScale("tests.builders.own_plugins.BoundedWeigher", 0.0, 10.0, 1.0),)
    )
