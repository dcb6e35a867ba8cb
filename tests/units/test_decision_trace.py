"""The decision trace of a zone's local hosts: counts that add up, and scores that equal the weights."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.hosts import a_host, a_spec, a_table, schedulers, some_spec, specs, tables
from zonesched.filters.registry import BUILT_IN as FILTERS
from zonesched.model.build_plan import FunnelStep, Refusal
from zonesched.model.decision_trace import (
    ChildOutcome,
    ChildTrace,
    DecisionTrace,
    HostScore,
    LocalTrace,
    ScorePart,
    trace_from_wire,
    trace_to_wire,
)
from zonesched.model.host_table import HostTable
from zonesched.model.request_spec import Policy, RequestSpec
from zonesched.scheduler.offer import Offer, OfferRequest
from zonesched.scheduler.scale import to_weight

EVERY_FILTER: dict[str, Any] = {"enabled_filters": sorted(FILTERS)}
DRIVERS = ("FilterScheduler", "LeastCostScheduler", "ChanceScheduler", "SimpleScheduler")


def offered(table: HostTable, spec: RequestSpec, scored: int = 0, **options: object) -> Offer:
    return schedulers(**options).default.offer(OfferRequest(table, spec, scored=scored))


@given(tables, specs, st.booleans())
def test_the_funnel_adds_up_from_all_hosts_to_those_offered(
    table: HostTable, spec: RequestSpec, every_filter: bool
) -> None:
    spec = replace(spec, alternates=len(table))
    offer = offered(table, spec, **(EVERY_FILTER if every_filter else {}))

    steps = offer.why
    assert steps[0].before == len(table)
    assert all(step.before >= step.after for step in steps)
    assert all(earlier.after == later.before for earlier, later in pairwise(steps))
    places = offer.bundles if spec.policy is Policy.AFFINITY else (*offer.picks, *offer.alternates)
    assert steps[-1].after == len({pick.host_id for pick in places})


@given(tables, specs)
def test_what_runs_out_closes_every_host_offered_and_is_told_only_where_something_does(
    table: HostTable, spec: RequestSpec
) -> None:
    spec = replace(spec, num_instances=40, policy=Policy.EACH)
    offer = offered(table, spec)

    if len(offer.picks) == 40 or not offer.picks:
        assert offer.runs_out == ()
    else:
        assert offer.runs_out[0].before == offer.why[-1].after
        assert offer.runs_out[-1].after == 0
        counts = [step.before - step.after for step in offer.runs_out]
        assert counts == sorted(counts, reverse=True)
        assert min(counts) > 0


@pytest.mark.parametrize(
    ("hosts", "runs_out"),
    [
        ([a_host("a", vcpus=2)], [("VCPU", "not_enough_vcpus", 1)]),
        ([a_host("a", ram_mb=2_048)], [("MEMORY_MB", "not_enough_ram", 1)]),
        ([a_host("a", disk_gb=25)], [("DISK_GB", "not_enough_disk", 1)]),
        (
            [a_host("a", vcpus=2), a_host("b", disk_gb=25), a_host("c", disk_gb=30)],
            [("DISK_GB", "not_enough_disk", 2), ("VCPU", "not_enough_vcpus", 1)],
        ),
        # Of two classes that are out, the one with the smaller share left.
        ([a_host("a", vcpus=2, disk_gb=29)], [("VCPU", "not_enough_vcpus", 1)]),
    ],
)
def test_the_scarcest_resource_of_each_host_runs_out(
    hosts: list[object], runs_out: list[tuple[str, str, int]]
) -> None:
    offer = offered(a_table(hosts), a_spec(50))  # type: ignore[arg-type]

    assert [(step.filter, step.code, step.before - step.after) for step in offer.runs_out] == runs_out
    assert [step.before for step in offer.runs_out] == [len(hosts), *(s.after for s in offer.runs_out[:-1])]
    assert offer.runs_out[-1].after == 0


def test_a_filter_that_looks_again_is_named_where_all_resources_would_do() -> None:
    filters = ["ComputeFilter", "tests.builders.own_plugins.MostlyFreeFilter"]
    offer = offered(a_table([a_host("a", ram_mb=8_192)]), a_spec(50), enabled_filters=filters)

    assert 0 < len(offer.picks) < 8
    assert offer.runs_out == (FunnelStep("MostlyFreeFilter", "mostly_taken", 1, 0),)


@given(tables, st.sampled_from(DRIVERS))
def test_the_parts_of_a_score_are_the_weight_bit_for_bit(table: HostTable, driver: str) -> None:
    functions = ["fill_first_cost=0.7", "owner_on_host_cost=1.3"]
    # A request that refuses few: most of these hosts differ.
    filters = ["AllHostsFilter"]
    offer = offered(
        table,
        a_spec(3, vcpus=1, ram_mb=1, disk_gb=0),
        scored=10,
        scheduler_driver=driver,
        least_cost_functions=functions,
        enabled_filters=filters,
    )

    assert len(offer.best) == min(10, offer.why[-1].after)
    if offer.picks:
        first = offer.picks[0]
        assert (offer.best[0].host_id, offer.best[0].weight) == (first.host_id, first.weight)
    weights = [score.weight for score in offer.best]
    assert weights == sorted(weights)
    for score in offer.best:
        total = np.zeros(1)
        for part in score.parts:
            total += part.amount
        if driver == "FilterScheduler":
            assert to_weight(total).tolist() == [score.weight]
        elif driver == "LeastCostScheduler":
            assert len(score.parts) == 2
            assert round(float(total[0])) == score.weight
        else:
            assert score.parts == ()


def test_each_part_has_its_raw_value_its_multiplier_and_what_it_adds() -> None:
    hosts = [a_host("a", vcpus=8, ram_mb=8_192), a_host("b", vcpus=8, ram_mb=4_096)]
    options = {"weight_classes": ["RAMWeigher", "CPUWeigher"], "ram_weight_multiplier": 3.0}

    best = offered(a_table(hosts), a_spec(), scored=2, **options).best

    assert [(score.host_name, score.parts) for score in best] == [
        ("host-a", (ScorePart("RAMWeigher", 8192.0, 3.0, 3.0), ScorePart("CPUWeigher", 8.0, 1.0, 1.0))),
        ("host-b", (ScorePart("RAMWeigher", 4096.0, 3.0, 1.5), ScorePart("CPUWeigher", 8.0, 1.0, 1.0))),
    ]


def test_scores_are_counted_before_anything_is_placed_and_cost_nothing_unasked() -> None:
    table = a_table([a_host("a"), a_host("b", ram_mb=32_768)])

    assert offered(table, a_spec(3)).best == ()
    best = offered(table, a_spec(3), scored=1).best
    assert [(score.host_id, score.host_name) for score in best] == [("a", "host-a")]


@given(tables, st.integers(0, 2**32), st.booleans())
def test_what_is_said_of_one_host_is_what_the_funnel_did_with_it(
    table: HostTable, seed: int, every_filter: bool
) -> None:
    spec = replace(some_spec(seed, 1), policy=Policy.EACH, alternates=len(table))
    scheduler = schedulers(**(EVERY_FILTER if every_filter else {})).default
    request = OfferRequest(table, spec)
    request = replace(request, spec=replace(spec, weighing=scheduler.offer(request).weighing))
    offer = scheduler.offer(request)
    weights = {pick.host_id: pick.weight for pick in (*offer.picks, *offer.alternates)}

    for row in range(len(table)):
        said = scheduler.judge(request, row)
        assert said.passes is (said.host_id in weights)
        assert [answer.filter for answer in said.answers] == [step.filter for step in offer.why]
        if said.passes:
            assert said.score[0].weight == weights[said.host_id]


def test_a_trace_comes_back_from_its_wire_form_as_it_was() -> None:
    trace = DecisionTrace(
        LocalTrace(
            steps=(FunnelStep("RamFilter", "not_enough_ram", 5, 2), Refusal("path", "path_too_long")),
            offered=2,
            runs_out=(FunnelStep("VCPU", "not_enough_vcpus", 2, 0),),
            best=(HostScore("id-1", "h1", 7, (ScorePart("RAMWeigher", 0.1, 1.0, 0.3),)),),
        ),
        (
            ChildTrace(
                "c1", "region", ChildOutcome.INCOMPLETE, "", 3, (Refusal("F", "c"),), (Refusal("V", "v"),)
            ),
            ChildTrace("c2", "other", ChildOutcome.UNREACHABLE, "child_timeout"),
        ),
    )

    assert trace_from_wire(trace_to_wire(trace)) == trace
