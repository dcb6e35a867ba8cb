"""Weighers: what each prefers, scalar and vectorised alike, and what becomes of wrong ones."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hosts import a_host, a_spec, a_table, schedulers, specs, tables, unhurried
from zonesched.errors import ConfigError
from zonesched.model.capacity import Inventory
from zonesched.model.host_state import HostState
from zonesched.model.host_table import HostRow, HostTable
from zonesched.model.host_view import HostView
from zonesched.model.request_context import RequestContext
from zonesched.model.request_spec import DISK_GB, MEMORY_MB, VCPU, RequestSpec, ScoreWeighing, WeigherScale
from zonesched.scheduler.base_scheduler import OfferRequest
from zonesched.scheduler.scale import Range
from zonesched.weights.contract import WeigherFailed
from zonesched.weights.registry import BUILT_IN

EXAMPLES: list[tuple[str, HostRow, float]] = [
    ("RAMWeigher", a_host(ram_mb=4_096, used={MEMORY_MB: 1_024}), 3_072.0),
    ("RAMWeigher", a_host(ram_mb=Inventory(4_096, reserved=96, allocation_ratio=2.0)), 4_000.0),
    ("RAMWeigher", a_host(ram_mb=Inventory(100, allocation_ratio=2.0), used={MEMORY_MB: 150}), -50.0),
    ("CPUWeigher", a_host(vcpus=Inventory(16, allocation_ratio=4.0), used={VCPU: 10}), 54.0),
    ("DiskWeigher", a_host(disk_gb=10, used={DISK_GB: 3}), 7 * 1_024.0),
]


@pytest.mark.parametrize(("name", "host", "raw"), EXAMPLES)
def test_a_weigher_gives_the_raw_value_it_documents(name: str, host: HostRow, raw: float) -> None:
    assert BUILT_IN[name]()._weigh_object(HostState(a_table([host]), 0), a_spec()) == raw


@unhurried
@given(tables, specs, st.integers(0, 4))
def test_both_forms_of_each_weigher_give_the_same_bits(
    table: HostTable, spec: RequestSpec, placed: int
) -> None:
    rows = np.arange(table.size, dtype=np.int64)
    view = HostView(table, rows, spec, RequestContext("owner-1"), (rows + placed) % 5)
    for name, built_in in BUILT_IN.items():
        scalar = [built_in()._weigh_object(state, spec) for state in view.states()]
        assert built_in().weigh(view, spec).tolist() == scalar, name


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("RAMWeigher", "ram_weight_multiplier"),
        ("CPUWeigher", "cpu_weight_multiplier"),
        ("DiskWeigher", "disk_weight_multiplier"),
    ],
)
@pytest.mark.parametrize(("multiplier", "best"), [(1.0, "2f"), (-1.0, "1f")])
def test_the_multiplier_of_a_weigher_decides_whether_it_spreads_or_stacks(
    name: str, option: str, multiplier: float, best: str
) -> None:
    table = a_table([a_host("1f", used={VCPU: 1, MEMORY_MB: 1, DISK_GB: 1}), a_host("2f")])
    scheduler = schedulers(weight_classes=[name], **{option: multiplier}).default
    assert scheduler.offer(OfferRequest(table, a_spec())).picks[0].host_id == best


def test_a_multiplier_that_is_no_number_is_a_wrong_configuration() -> None:
    with pytest.raises(ConfigError, match="NanMultiplierWeigher"):
        schedulers(weight_classes=["tests.own_plugins.NanMultiplierWeigher"])


@pytest.mark.parametrize("name", ["RamWeigher", "no.such.Weigher", "tests.own_plugins.OddRamFilter"])
def test_an_unknown_weigher_at_start_is_named(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        schedulers(weight_classes=[name])
    assert name in refused.value.message
    assert refused.value.field == "weight_classes"


@pytest.mark.parametrize("name", ["NanWeigher", "BrokenWeigher"])
def test_a_weigher_that_fails_refuses_the_request_in_its_own_name(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = f"tests.own_plugins.{name}"
    scheduler = schedulers(weight_classes=["RAMWeigher", path]).default
    with pytest.raises(WeigherFailed) as refused, caplog.at_level(logging.ERROR):
        scheduler.offer(OfferRequest(a_table([a_host("1f"), a_host("2f")]), a_spec()))
    assert (refused.value.code, refused.value.weigher_name) == ("weigher_failed", path)
    assert "host-2f" not in refused.value.message
    assert path in caplog.text


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


def test_a_weigher_that_depends_on_the_request_has_its_declared_range() -> None:
    scheduler = schedulers(weight_classes=["tests.own_plugins.BoundedWeigher"]).default
    assert scheduler.ranges(a_table([a_host()])) == {"tests.own_plugins.BoundedWeigher": Range(0.0, 10.0)}
    weighing = scheduler.choose_weighing(HostTable(), a_spec(hints={"level": 3}), {}, has_children=True)
    assert weighing == ScoreWeighing((WeigherScale("tests.own_plugins.BoundedWeigher", 0.0, 10.0, 1.0),))
