"""The scale: from raw values to integers that mean the same in every zone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.hosts import a_host, a_spec, a_table, schedulers
from zonesched.model.build_plan import MAX_WEIGHT
from zonesched.model.host_table import HostTable
from zonesched.model.request_spec import MEMORY_MB, ScoreWeighing, WeigherScale
from zonesched.scheduler.base_scheduler import OfferRequest
from zonesched.scheduler.scale import Range, in_classes, merge_ranges, scaled, to_weight

RAW = {
    "H1": {"W1": 50, "W2": 10, "W3": 15},
    "H2": {"W1": 10, "W2": 4, "W3": 25},
    "H3": {"W1": 20, "W2": 6, "W3": 10},
    "H4": {"W1": 10, "W2": 11, "W3": 5},
    "H5": {"W1": 90, "W2": 1, "W3": 10},
    "H6": {"W1": 110, "W2": 9, "W3": 5},
}
SCORES = {"H1": 2.7, "H6": 2.6, "H4": 2.0, "H2": 1.6, "H3": 1.35, "H5": 1.05}


def test_the_worked_table_of_the_documents_comes_out_in_its_order() -> None:
    table = a_table([a_host(name, capabilities=raw) for name, raw in RAW.items()])
    scheduler = schedulers(
        weight_classes=[f"tests.builders.own_plugins.{name}" for name in ("W1", "W2", "W3")]
    ).default
    offer = scheduler.offer(OfferRequest(table, a_spec(alternates=5)))
    ranked = [*offer.picks, *offer.alternates]
    assert [pick.host_id for pick in ranked] == ["H1", "H6", "H4", "H2", "H3", "H5"]
    assert [pick.weight for pick in ranked] == [4 * 10**15 - round(10**9 * SCORES[p.host_id]) for p in ranked]


@pytest.mark.parametrize(
    ("score", "weight"),
    [
        (0.0, 4 * 10**15),
        (1.0, 4 * 10**15 - 10**9),
        (-1.0, 4 * 10**15 + 10**9),
        (0.4e-9, 4 * 10**15),
        (0.6e-9, 4 * 10**15 - 1),
        (4e6, 0),
        (4.1e6, 0),
        (math.inf, 0),
        (-5.1e6, MAX_WEIGHT),
        (-math.inf, MAX_WEIGHT),
        (1e308, 0),
    ],
)
def test_a_score_becomes_an_integer_within_its_limits(score: float, weight: int) -> None:
    assert to_weight(np.array([score])).tolist() == [weight]


@given(st.lists(st.floats(-6e6, 6e6), min_size=2))
def test_a_better_score_never_gets_a_worse_weight(values: list[float]) -> None:
    weights = to_weight(np.array(sorted(values))).tolist()
    assert weights == sorted(weights, reverse=True)
    exact = [min(max(4 * 10**15 - round(1e9 * value), 0), MAX_WEIGHT) for value in sorted(values)]
    assert weights == exact


def test_a_scale_without_extent_gives_zero() -> None:
    for low, high in ((5.0, 5.0), (5.0, 4.0)):
        weighing = ScoreWeighing((WeigherScale("RAMWeigher", low, high, 2.0),))
        table = a_table([a_host("1f", ram_mb=3_000), a_host("2f", ram_mb=2_000)])
        offer = schedulers().default.offer(OfferRequest(table, a_spec(2, weighing=weighing)))
        assert [pick.weight for pick in offer.picks] == [4 * 10**15] * 2


def test_values_outside_the_scale_extrapolate_so_that_order_is_kept() -> None:
    scale = WeigherScale("w", 0.0, 10.0, 99.0)
    assert scaled(np.array([-10.0, 0.0, 5.0, 20.0]), scale, 2.0, np.empty(4)).tolist() == [-2, 0, 1, 4]
    assert scaled(np.array([20.0]), scale, -1.0, np.empty(1)).tolist() == [-2]
    assert scaled(np.array([5.0, 5.0]), scale, np.array([2.0, 4.0]), np.empty(2)).tolist() == [1, 2]


def test_a_zone_without_children_takes_the_scale_of_its_filtered_hosts() -> None:
    table = a_table(
        [a_host("1f", ram_mb=3_000), a_host("2f", ram_mb=2_000), a_host("3f", ram_mb=9_000, enabled=False)]
    )
    offer = schedulers(weight_classes=["RAMWeigher"]).default.offer(OfferRequest(table, a_spec()))
    assert offer.weighing == ScoreWeighing((WeigherScale("RAMWeigher", 0.0, 3_000.0, 1.0),))


def test_a_zone_with_children_takes_the_scale_of_all_living_hosts_below_and_here() -> None:
    table = a_table([a_host("1f", ram_mb=3_000), a_host("2f", ram_mb=10)])
    scheduler = schedulers(
        weight_classes=["tests.builders.own_plugins.W1", "RAMWeigher"], ram_weight_multiplier=-2.0
    ).default
    table.apply(
        [a_host(f"{n}f", ram_mb=r, capabilities={"W1": w}) for n, r, w in ((1, 3_000, -5), (2, 10, 4))]
    )
    ranges = {"RAMWeigher": Range(7.0, 5_000.0), "tests.builders.own_plugins.W1": Range(-1.0, 3.0)}
    weighing = scheduler.choose_weighing(table, a_spec(), ranges)
    assert weighing == ScoreWeighing(
        (
            WeigherScale("tests.builders.own_plugins.W1", -5.0, 4.0, 1.0),
            WeigherScale("RAMWeigher", 0.0, 5_000.0, -2.0),
        )
    )


def test_a_zone_that_knows_of_no_host_has_a_scale_without_extent() -> None:
    scheduler = schedulers().default
    nobody = scheduler.offer(OfferRequest(HostTable(), a_spec())).weighing
    for weighing in (scheduler.choose_weighing(HostTable(), a_spec(), {}), nobody):
        assert isinstance(weighing, ScoreWeighing)
        observed = {scale.weigher: (scale.low, scale.high) for scale in weighing.scales}
        assert observed["RAMWeigher"] == observed["IoOpsWeigher"] == (0.0, 0.0)


def test_a_request_that_comes_with_a_scale_is_weighed_with_it() -> None:
    table = a_table([a_host("1f", ram_mb=4_096, used={MEMORY_MB: 1_024})])
    weighing = ScoreWeighing((WeigherScale("RAMWeigher", 1_024.0, 2_048.0, 3.0),))
    offer = schedulers(ram_weight_multiplier=-9.0).default.offer(
        OfferRequest(table, a_spec(2, weighing=weighing))
    )
    assert [pick.weight for pick in offer.picks] == [4 * 10**15 - 6 * 10**9, 4 * 10**15 - 3 * 10**9]


def test_ranges_of_several_zones_are_merged_by_weigher() -> None:
    merged = merge_ranges({"a": Range(1, 2), "b": Range(0, 0)}, {"a": Range(-1, 1)}, {}, {"c": Range(3, 4)})
    assert merged == {"a": Range(-1, 2), "b": Range(0, 0), "c": Range(3, 4)}


@pytest.mark.parametrize(("low", "high"), [(2.0, 1.0), (math.nan, 1.0), (0.0, math.inf)])
def test_a_range_is_two_finite_numbers_in_order(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="range"):
        Range(low, high)


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (Range(0.0, 0.0), Range(0.0, 0.0)),
        (Range(32268.0, 32268.0), Range(28672.0, 32768.0)),
        (Range(1.0, 500.0), Range(1.0, 512.0)),
        (Range(-2.1, -1.9), Range(-2.5, -1.75)),
        (Range(0.3, 0.31), Range(0.25, 0.3125)),
        (Range(-1.7e308, 1.7e308), Range(-1.7e308, 1.7e308)),
    ],
)
def test_a_range_for_others_is_widened_to_classes(found: Range, shown: Range) -> None:
    assert in_classes(found) == shown
    assert in_classes(shown) == shown


@given(st.floats(-1e18, 1e18), st.floats(-1e18, 1e18))
def test_classes_contain_the_range_and_are_few(one: float, other: float) -> None:
    found = Range(min(one, other), max(one, other))
    shown = in_classes(found)
    assert shown.low <= found.low <= found.high <= shown.high
    for bound, exact in ((shown.low, found.low), (shown.high, found.high)):
        assert abs(bound - exact) <= abs(exact) / 4
