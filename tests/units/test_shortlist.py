"""The few hosts among which the best are: the choice is the one that is made when every host is weighed."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.hosts import SEEDS, a_host, a_spec, a_table, schedulers, some_host
from zonesched.model.aggregate import Aggregate
from zonesched.model.host_table import HostTable
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec, ScoreWeighing, WeigherScale
from zonesched.scheduler.base_scheduler import BaseScheduler, Offer, OfferRequest
from zonesched.scheduler.filter_scheduler import FilterScheduler
from zonesched.weights.contract import WeigherFailed
from zonesched.weights.registry import BUILT_IN

OPTIONS = [weigher.multiplier_key for weigher in BUILT_IN.values()]
# Differences far below the resolution of a weight, and scores beyond the best and the worst weight.
MULTIPLIERS = st.sampled_from([-1e9, -1.0, -1e-9, 0.0, 1e-10, 0.3, 1.0, 2e6, 1e300])
SCALES = st.lists(
    st.builds(
        WeigherScale,
        st.sampled_from(["RAMWeigher", "CPUWeigher", "DiskWeigher", "NumInstancesWeigher"]),
        low=st.sampled_from([0.0, -7.5, 1e15]),
        high=st.sampled_from([1e-320, 1e-9, 3.0, 70_000.0, 2e15]),
        multiplier=MULTIPLIERS,
    ),
    max_size=4,
    unique_by=lambda scale: scale.weigher,
)


class WeighsAll(FilterScheduler):
    """Leaves no host out before all are weighed, and keeps nothing with the table."""

    def offer(self, request: OfferRequest) -> Offer:
        return BaseScheduler.offer(self, request)

    def shortlist(self, hosts: HostView, spec: RequestSpec, count: int) -> HostView:
        return hosts


def answer(scheduler: BaseScheduler, request: OfferRequest) -> Offer | str:
    """The offer, or whose numbers have no sum."""
    try:
        return scheduler.offer(request)
    except WeigherFailed as failed:
        return failed.weigher_name


def many_hosts(seed: int, count: int) -> HostTable:
    """Most of them alike in something, some in everything."""
    rng = random.Random(seed)
    kinds = [some_host(rng, "0f") for _ in range(20)]
    hosts = [(some_host(rng, "0f") if rng.random() < 0.5 else rng.choice(kinds)) for _ in range(count)]
    named = [replace(host, facts=replace(host.facts, id=f"{n:x}f")) for n, host in enumerate(hosts)]
    return a_table(named, {"agent-1": True, "agent-2": True})


@given(
    SEEDS,
    st.integers(20, 200),
    st.integers(1, 8),
    st.integers(0, 3),
    st.dictionaries(st.sampled_from(OPTIONS), MULTIPLIERS),
)
def test_a_shortlist_changes_no_offer(
    seed: int, hosts: int, count: int, alternates: int, multipliers: dict[str, float]
) -> None:
    given = {name: abs(factor) if "soft" in name else factor for name, factor in multipliers.items()}
    chosen = schedulers(metrics_weight_setting=["load=2"], metrics_required=False, **given).default
    request = OfferRequest(
        many_hosts(seed, hosts), a_spec(count, vcpus=1, ram_mb=1, disk_gb=0, alternates=alternates)
    )
    assert answer(chosen, request) == answer(WeighsAll(chosen.plugins, chosen.name), request)


@given(SEEDS, st.integers(20, 200), st.integers(1, 8), SCALES)
def test_nor_does_it_on_the_scale_of_another_zone(
    seed: int, hosts: int, count: int, scales: list[WeigherScale]
) -> None:
    chosen = schedulers().default
    spec = a_spec(count, vcpus=1, ram_mb=1, disk_gb=0, weighing=ScoreWeighing(tuple(scales)))
    request = OfferRequest(many_hosts(seed, hosts), spec)
    assert answer(chosen, request) == answer(WeighsAll(chosen.plugins, chosen.name), request)


@pytest.mark.parametrize("multiplier", [1e-12, 1e-8, 1.0, 1e12, -1e12, 1e300, -1e300])
def test_hosts_of_equal_weight_are_chosen_among_however_their_scores_differ(multiplier: float) -> None:
    table = a_table([a_host(f"{n:x}f", ram_mb=100_000 + n) for n in range(200)])
    chosen = schedulers(weight_classes=["RAMWeigher"], ram_weight_multiplier=multiplier).default
    every = WeighsAll(chosen.plugins, chosen.name)
    for number in range(20):
        request = OfferRequest(table, a_spec(2, request_id=f"request-{number}"))
        assert chosen.offer(request) == every.offer(request)


@pytest.mark.parametrize("every", [2, 10])
def test_the_few_hosts_that_pass_the_filters_are_chosen_among_themselves(every: int) -> None:
    # given hosts with room of their own, and between them many that are too small
    hosts = [
        a_host(f"{n:x}f", ram_mb=100_000 + (n * 37) % 401 if n % every == every - 1 else 1)
        for n in range(400)
    ]
    request = OfferRequest(a_table(hosts), a_spec(2, ram_mb=512))
    chosen = schedulers().default

    # when they are offered twice, then each choice is that of all hosts
    for _ in range(2):
        assert chosen.offer(request) == WeighsAll(chosen.plugins, chosen.name).offer(request)


@pytest.mark.parametrize("count", [1, 5])
def test_hosts_whose_scores_are_nearer_than_the_error_of_an_estimate_are_all_weighed(count: int) -> None:
    # given scores that differ by less than what is lost where a large value is multiplied
    far = 10**12
    hosts = [
        a_host(f"{n:x}f", ram_mb=far + n % 7, vcpus=10 - n % 7, disk_gb=1 + (n * 37) % 200)
        for n in range(200)
    ]
    scales = (
        WeigherScale("RAMWeigher", low=float(far), high=far + 3.0, multiplier=1.0),
        WeigherScale("CPUWeigher", low=0.0, high=3.0, multiplier=1.0),
        WeigherScale("DiskWeigher", low=0.0, high=5e9, multiplier=1.0),
    )
    spec = a_spec(count, vcpus=1, ram_mb=0, disk_gb=0, weighing=ScoreWeighing(scales))
    request = OfferRequest(a_table(hosts), spec)

    # when they are offered, then the choice is that of all hosts
    chosen = schedulers().default
    assert chosen.offer(request) == WeighsAll(chosen.plugins, chosen.name).offer(request)


def test_a_multiplier_of_aggregates_beyond_all_numbers_leaves_no_host_out() -> None:
    huge = Aggregate("a", "huge", {"ram_weight_multiplier": "1e300"})
    table = a_table([a_host(f"{n:x}f", ram_mb=100_000 + n, aggregates=[huge]) for n in range(200)])
    scales = (WeigherScale("RAMWeigher", low=0.0, high=1e-9, multiplier=1.0),)
    request = OfferRequest(table, a_spec(weighing=ScoreWeighing(scales)))
    chosen = schedulers().default
    assert answer(chosen, request) == answer(WeighsAll(chosen.plugins, chosen.name), request)


def shortlisted(table: HostTable, count: int, scheduler: FilterScheduler) -> int:
    spec = a_spec(count)
    hosts = HostView.whole(table, spec).survivors(table.alive & (np.arange(table.size) != 0))
    return len(scheduler.shortlist(hosts, scheduler.with_weighing(hosts, spec), count))


@pytest.mark.parametrize(("count", "left"), [(1, 1), (3, 3), (100, 199)])
def test_only_hosts_that_may_be_among_the_best_are_weighed(count: int, left: int) -> None:
    table = a_table([a_host(f"{n:x}f", ram_mb=100_000 + n) for n in range(200)])
    scheduler = schedulers(weight_classes=["RAMWeigher"]).default
    assert isinstance(scheduler, FilterScheduler)
    assert shortlisted(table, count, scheduler) == left


def test_a_scheduler_that_weighs_otherwise_gets_all_hosts() -> None:
    class Backwards(FilterScheduler):
        def weigh(self, hosts: HostView, spec: RequestSpec) -> np.ndarray:
            return super().weigh(hosts, spec)[::-1]

    table = a_table([a_host(f"{n:x}f", ram_mb=100_000 + n) for n in range(200)])
    plugins = schedulers(weight_classes=["RAMWeigher"]).default.plugins
    assert shortlisted(table, 1, Backwards(plugins)) == 199
