"""The scheduler drivers: what each prefers, how they are chosen, and the document's own way to make one."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.hosts import a_context, a_host, a_spec, a_table, schedulers, specs, tables
from tests.builders.own_plugins import ByDiskScheduler
from zonesched.errors import BadRequest, ConfigError, WeighingUnknown
from zonesched.filters.contract import BaseHostFilter
from zonesched.model.build_plan import MAX_WEIGHT, FunnelStep
from zonesched.model.capacity import Inventory
from zonesched.model.host_table import HostTable
from zonesched.model.host_view import HostView
from zonesched.model.request_context import RequestContext
from zonesched.model.request_spec import (
    DISK_GB,
    MEMORY_MB,
    VCPU,
    CostFunction,
    CostWeighing,
    Policy,
    RequestSpec,
    ScoreWeighing,
    Unweighed,
    WeigherScale,
)
from zonesched.scheduler.base_scheduler import Offer, OfferRequest
from zonesched.scheduler.filter_scheduler import FilterScheduler
from zonesched.scheduler.host_costs import BUILT_IN as COSTS
from zonesched.scheduler.plugins import Plugins
from zonesched.scheduler.schedulers import DRIVERS, Schedulers
from zonesched.weights.contract import WeigherFailed


def offer_of(driver: str, table: HostTable, spec: RequestSpec, owner: str = "", **options: object) -> Offer:
    scheduler = schedulers(scheduler_driver=driver, **options).default
    return scheduler.offer(OfferRequest(table, spec, a_context(spec.request_id, owner)))


def hosts_of(offer: Offer) -> list[str]:
    return [pick.host_id for pick in offer.picks]


def three_hosts() -> HostTable:
    return a_table(
        [
            a_host("1f", used={VCPU: 3, MEMORY_MB: 3_072, DISK_GB: 1}),
            a_host("2f", used={VCPU: 1, MEMORY_MB: 9_216, DISK_GB: 9}, owners={"me": 1}),
            a_host("3f", used={VCPU: 2, MEMORY_MB: 1_024, DISK_GB: 5}, capabilities={"special": "yes"}),
        ]
    )


def test_the_plain_scheduler_weighs_every_host_1_and_spreads_nothing() -> None:
    offer = offer_of("BaseScheduler", three_hosts(), a_spec(6, vcpus=4, alternates=2))
    assert {pick.weight for pick in (*offer.picks, *offer.alternates)} == {1}
    assert sorted(Counter(hosts_of(offer)).values()) == [3, 3]


def test_the_fake_scheduler_takes_hosts_by_name_and_asks_no_configured_filter() -> None:
    table = a_table(
        [a_host("3f", vcpus=2), a_host("1f", vcpus=1, service="dead"), a_host("2f", vcpus=2, enabled=False)]
    )
    offer = offer_of("FakeScheduler", table, a_spec(4, alternates=1, request_id="any"))
    assert [(pick.host_id, pick.weight) for pick in offer.picks] == [
        ("1f", 0),
        ("2f", 1),
        ("2f", 1),
        ("3f", 2),
    ]
    asked = offer_of("FakeScheduler", table, a_spec(4, filters=("ComputeFilter",)))
    assert hosts_of(asked) == ["3f", "3f"]


def test_the_caching_scheduler_chooses_as_the_filter_scheduler() -> None:
    spec = a_spec(4, alternates=2)
    assert offer_of("CachingScheduler", three_hosts(), spec) == offer_of(
        "FilterScheduler", three_hosts(), spec
    )
    chosen = schedulers(scheduler_driver="CachingScheduler", host_refresh_interval=7.0)
    assert chosen.for_weighing(ScoreWeighing(())) is chosen.default
    assert (chosen.default.hosts_max_age_s, chosen.known["FilterScheduler"].hosts_max_age_s) == (7.0, 0.0)


def test_the_simple_scheduler_takes_the_host_with_the_fewest_claimed_vcpus() -> None:
    offer = offer_of("SimpleScheduler", three_hosts(), a_spec(4))
    assert [pick.weight for pick in offer.picks] == [1, 2, 2, 3]
    assert hosts_of(offer)[0] == "2f"


@pytest.mark.parametrize(
    ("functions", "order"),
    [
        (["fill_first_cost=1.0"], ["2f", "1f", "3f"]),
        (["fill_first_cost=-1.0"], None),
        (["spread_first_cost=1"], ["3f", "1f", "2f"]),
        (["spread_first_cost=1", "plain_on_special_cost=1"], ["1f", "2f", "3f"]),
        (["spread_first_cost=-1", "owner_on_host_cost=1e9"], None),
        (["spread_first_cost=1", "owner_on_host_cost=-1e9"], None),
        (["owner_on_host_cost=1000000", "spread_first_cost=1"], ["3f", "1f", "2f"]),
        (["tests.builders.own_plugins.name_length_cost=2", "spread_first_cost=0.5"], ["3f", "1f", "2f"]),
    ],
)
def test_the_least_cost_scheduler_takes_the_host_of_least_cost(
    functions: list[str], order: list[str] | None
) -> None:
    offer = offer_of(
        "LeastCostScheduler", three_hosts(), a_spec(alternates=2), "me", least_cost_functions=functions
    )
    ranked = [*offer.picks, *offer.alternates]
    assert [pick.weight for pick in ranked] == sorted(pick.weight for pick in ranked)
    assert order is None or [pick.host_id for pick in ranked] == order


def test_costs_are_kept_within_the_limits_of_a_weight() -> None:
    for factor, weight in ((-1.0, 0), (1e300, MAX_WEIGHT)):
        options: dict[str, Any] = {"least_cost_functions": [f"noop_cost={factor}"]}
        assert offer_of("LeastCostScheduler", three_hosts(), a_spec(), **options).picks[0].weight == weight


@pytest.mark.parametrize("extra", ["special", "capabilities:special"])
def test_an_instance_that_asks_for_the_special_thing_is_not_plain(extra: str) -> None:
    functions = ["plain_on_special_cost=1"]
    table = a_table([a_host("1f", capabilities={"special": True})])
    plain = offer_of("LeastCostScheduler", table, a_spec(), least_cost_functions=functions)
    asking = offer_of(
        "LeastCostScheduler", table, a_spec(extra={extra: "true"}), least_cost_functions=functions
    )
    assert (plain.picks[0].weight, asking.picks[0].weight) == (10**9, 0)


@pytest.mark.parametrize(("value", "cost"), [("true", 10**9), ("no", 0), (0, 0), (None, 0), (2, 10**9)])
def test_the_special_capability_is_the_configured_one(value: object, cost: int) -> None:
    table = a_table([a_host("1f", capabilities={"gpu": value, "special": True})])
    options: dict[str, Any] = {
        "least_cost_functions": ["plain_on_special_cost=1"],
        "special_host_capability": "gpu",
    }
    assert offer_of("LeastCostScheduler", table, a_spec(), **options).picks[0].weight == cost


@given(tables, specs, st.integers(0, 3))
def test_both_forms_of_each_cost_give_the_same_bits(table: HostTable, spec: RequestSpec, placed: int) -> None:
    rows = HostView.whole(table, spec).row_numbers
    view = HostView(table, rows, spec, RequestContext("owner-1"), (rows + placed) % 4)
    for name, cost in COSTS.items():
        assert cost().costs(view, spec).tolist() == [cost().host_cost(s, spec) for s in view.states()], name


def test_a_cost_that_is_no_number_refuses_the_request_in_its_own_name() -> None:
    path = "tests.builders.own_plugins.infinite_cost"
    with pytest.raises(WeigherFailed, match=f"The cost function {path} failed"):
        offer_of("LeastCostScheduler", three_hosts(), a_spec(), least_cost_functions=[f"{path}=1"])


def test_a_product_of_a_cost_beyond_all_numbers_is_shown_as_the_largest() -> None:
    scheduler = schedulers(
        scheduler_driver="LeastCostScheduler", least_cost_functions=["spread_first_cost=1e308"]
    ).default
    table = a_table([a_host(used={MEMORY_MB: 100})])
    (best,) = scheduler.offer(OfferRequest(table, a_spec(), scored=1)).best
    assert [(part.raw, part.amount, best.weight) for part in best.parts] == [
        (100.0, sys.float_info.max, MAX_WEIGHT)
    ]


def test_costs_whose_sum_is_no_number_refuse_the_request() -> None:
    functions = ["spread_first_cost=1e308", "owner_on_host_cost=-1e308"]
    table = a_table([a_host(used={MEMORY_MB: 100}, owners={"me": 100})])
    with pytest.raises(WeigherFailed, match="spread_first_cost"):
        offer_of("LeastCostScheduler", table, a_spec(), owner="me", least_cost_functions=functions)


@pytest.mark.parametrize(
    "function",
    [
        "fill_fist_cost=1",
        "noop_cost=much",
        "noop_cost=nan",
        "tests.builders.own_plugins.NOT_A_CLASS=1",
        "a.b=1",
    ],
)
def test_a_wrong_cost_function_at_start_is_named(function: str) -> None:
    with pytest.raises(ConfigError) as refused:
        schedulers(least_cost_functions=[function])
    assert function.partition("=")[0] in refused.value.message


def test_chance_gives_every_host_its_share_and_the_same_request_the_same_hosts() -> None:
    table = a_table([a_host(f"{number}f") for number in range(5)])
    chosen = Counter(
        hosts_of(offer_of("ChanceScheduler", table, a_spec(request_id=f"request-{number}")))[0]
        for number in range(500)
    )
    assert len(chosen) == 5
    assert min(chosen.values()) > 60
    spec = a_spec(20)
    assert offer_of("ChanceScheduler", table, spec) == offer_of("ChanceScheduler", table, spec)
    assert len(set(hosts_of(offer_of("ChanceScheduler", table, spec)))) > 2


def test_the_availability_zone_scheduler_keeps_to_the_zone_without_being_told_to_filter() -> None:
    table = a_table([a_host("1f", zone="north"), a_host("2f", zone="south"), a_host("3f", zone="south")])
    spec = a_spec(30, availability_zone="south")
    offer = offer_of("AvailabilityZoneScheduler", table, spec, enabled_filters=["AllHostsFilter"])
    assert set(hosts_of(offer)) == {"2f", "3f"}
    assert offer.why[0] == FunnelStep("AvailabilityZoneFilter", "wrong_availability_zone", 3, 2)


def test_a_host_is_never_picked_more_often_than_it_has_room() -> None:
    table = a_table(
        [a_host("1f", vcpus=Inventory(7, reserved=1, step_size=2), ram_mb=99_999), a_host("2f", vcpus=1)]
    )
    for driver in DRIVERS:
        offer = offer_of(driver, table, a_spec(9, vcpus=2), enabled_filters=["AllHostsFilter"])
        assert hosts_of(offer) == ["1f", "1f", "1f"], driver


def test_an_instance_that_takes_nothing_fits_as_often_as_it_is_asked_for() -> None:
    offer = offer_of("FilterScheduler", a_table([a_host("1f")]), a_spec(50, vcpus=0, ram_mb=0, disk_gb=0))
    assert hosts_of(offer) == ["1f"] * 50


def test_a_zone_without_hosts_offers_nothing_and_says_so() -> None:
    for driver in DRIVERS:
        offer = offer_of(driver, HostTable(), a_spec(3))
        assert (offer.picks, offer.alternates, offer.bundles) == ((), (), ())
        assert offer.why[-1] == FunnelStep("free_slots", "no_free_slots", 0, 0)


def own_scheduler(name: str, **options: object) -> Schedulers:
    return schedulers(scheduler_driver=f"tests.builders.own_plugins.{name}", **options)


def test_a_subclass_of_the_documents_form_is_asked_once_about_all_and_then_about_the_picked_host() -> None:
    scheduler = ByDiskScheduler(schedulers().default.plugins)
    offer = scheduler.offer(OfferRequest(three_hosts(), a_spec(3, disk_gb=3, alternates=1)))
    assert [(pick.host_id, pick.weight) for pick in offer.picks] == [
        ("1f", 1 * 1024),
        ("1f", 4 * 1024),
        ("3f", 5 * 1024),
    ]
    assert [(pick.host_id, pick.weight) for pick in offer.alternates] == [("2f", 9 * 1024)]
    assert sorted(scheduler.calls[0]) == ["host-1f", "host-2f", "host-3f"]
    assert scheduler.calls[1:] == [["host-1f"], ["host-1f"]]


def test_a_host_that_a_subclass_leaves_out_is_not_offered_and_counted() -> None:
    table = a_table([a_host("1f", capabilities={"hidden": True}), a_host("2f")])
    chosen = own_scheduler("ByDiskScheduler")
    offer = chosen.default.offer(OfferRequest(table, a_spec(alternates=5)))
    assert (hosts_of(offer), offer.alternates) == (["2f"], ())
    assert offer.why[-1] == FunnelStep("tests.builders.own_plugins.ByDiskScheduler", "not_weighed", 2, 1)
    alone = a_table([a_host("1f", capabilities={"hidden": True})])
    assert chosen.default.offer(OfferRequest(alone, a_spec())).picks == ()


def test_the_lists_of_a_builtin_scheduler_say_what_its_columns_say() -> None:
    table, spec = three_hosts(), a_spec()
    asked: list[list[dict[str, object]]] = []

    class Subscriber(DRIVERS["SimpleScheduler"]):  # type: ignore[valid-type, name-defined]
        def weigh_hosts(self, spec: RequestSpec, hosts: Any) -> Any:
            asked.append(super().weigh_hosts(spec, hosts))
            return asked[-1]

    offer = Subscriber(schedulers().default.plugins).offer(OfferRequest(table, a_spec(4)))
    assert [pick.weight for pick in offer.picks] == [1, 2, 2, 3]
    assert {line["hostname"]: line["weight"] for line in asked[0]} == {
        "host-1f": 3,
        "host-2f": 1,
        "host-3f": 2,
    }
    assert Subscriber(schedulers().default.plugins).weigh_hosts(spec, []) == []


def test_a_weight_may_be_a_number_of_numpy() -> None:
    class InNumPy(DRIVERS["SimpleScheduler"]):  # type: ignore[valid-type, name-defined]
        def weigh_hosts(self, spec: RequestSpec, hosts: Any) -> Any:
            return [line | {"weight": np.int64(line["weight"])} for line in super().weigh_hosts(spec, hosts)]

    offer = InNumPy(schedulers().default.plugins).offer(OfferRequest(three_hosts(), a_spec(4)))

    assert [pick.weight for pick in offer.picks] == [1, 2, 2, 3]


def test_a_subclass_may_narrow_the_hosts() -> None:
    offer = own_scheduler("PickyScheduler").default.offer(
        OfferRequest(three_hosts(), a_spec(9, alternates=3))
    )
    assert hosts_of(offer) == ["2f"]
    assert [step.filter for step in offer.why] == ["PickyScheduler", "free_slots"]


def test_a_subclass_that_narrows_still_obeys_the_requests_own_filters() -> None:
    spec = a_spec(filter_query='["=", "$vcpus_used", 99]')
    offer = own_scheduler("PickyScheduler").default.offer(OfferRequest(three_hosts(), spec))
    assert offer.picks == ()


def test_a_subclass_that_raises_refuses_the_request_in_its_own_name() -> None:
    with pytest.raises(WeigherFailed, match=r"The scheduler .*RaisingScheduler failed"):
        own_scheduler("RaisingScheduler").default.offer(OfferRequest(three_hosts(), a_spec()))


@pytest.mark.parametrize(
    "line", [{"weight": 0.5}, {"weight": True}, {"weight": "1"}, {"weight": None}, {"hostname": "elsewhere"}]
)
def test_a_subclass_that_gives_no_weight_of_a_host_refuses_the_request(
    line: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(WeigherFailed, match=r"The scheduler .*HintedScheduler failed"):
        own_scheduler("HintedScheduler").default.offer(OfferRequest(three_hosts(), a_spec(hints=line)))
    ((name, value),) = line.items()
    (said,) = caplog.messages
    assert "HintedScheduler gave" in said
    assert f"{name!r}: {value!r}" in said


@pytest.mark.parametrize(("said", "kept"), [(-5, 0), (2**60, MAX_WEIGHT), (10**30, MAX_WEIGHT)])
def test_a_weight_of_a_subclass_is_kept_within_the_limits(said: int, kept: int) -> None:
    spec = a_spec(hints={"weight": said})
    offer = own_scheduler("HintedScheduler").default.offer(OfferRequest(three_hosts(), spec))
    assert offer.picks[0].weight == kept


@pytest.mark.parametrize(
    "told",
    [[1.5, 2.0, 3.0], [True] * 3, [1, 2], [[1, 2, 3]], [10**30, 1, 2], 5, None],
    ids=["fractions", "truths", "too few", "a table", "beyond int64", "one number", "nothing"],
)
def test_columns_of_a_subclass_that_are_no_weights_refuse_the_request(told: object) -> None:
    with pytest.raises(WeigherFailed, match="ToldScheduler"):
        own_scheduler("ToldScheduler").default.offer(
            OfferRequest(three_hosts(), a_spec(hints={"told": told}))
        )


@pytest.mark.parametrize("told", [[-5, 7, 2**60], (-5, 7, 2**60), np.array([0, 7, 2**63], dtype=np.uint64)])
def test_columns_of_a_subclass_are_kept_within_the_limits_of_a_weight(told: object) -> None:
    spec = a_spec(alternates=2, hints={"told": told})
    offer = own_scheduler("ToldScheduler").default.offer(OfferRequest(three_hosts(), spec))
    assert [pick.weight for pick in (*offer.picks, *offer.alternates)] == [0, 7, MAX_WEIGHT]


def test_a_row_without_a_host_is_never_offered() -> None:
    table = a_table([a_host("1f"), a_host("2f")])
    table.apply([], removed=["1f"])
    offer = offer_of(
        "FilterScheduler", table, a_spec(vcpus=0, ram_mb=0, disk_gb=0, alternates=3), enabled_filters=[]
    )
    assert (hosts_of(offer), offer.alternates) == (["2f"], ())
    assert offer.why == (FunnelStep("free_slots", "no_free_slots", 1, 1),)


@pytest.mark.parametrize("name", ["FilterSchedular", "no.such.Driver", "tests.builders.own_plugins.W1"])
def test_an_unknown_driver_at_start_is_named_with_the_known_ones(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        schedulers(scheduler_driver=name)
    assert name in refused.value.message
    assert refused.value.field == "scheduler_driver"


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("weight_classes", ["tests.builders.own_plugins.UnmakeableWeigher"]),
        ("least_cost_functions", ["tests.builders.own_plugins.UnmakeableCost=1"]),
        ("scheduler_driver", "tests.builders.own_plugins.UnmakeableScheduler"),
    ],
)
def test_a_plugin_that_cannot_be_made_ends_the_start_with_its_name(option: str, given: Any) -> None:
    with pytest.raises(ConfigError, match=r"own_plugins.Unmakeable\w+ cannot be created: ") as refused:
        schedulers(**{option: given})
    assert refused.value.field == option


@pytest.mark.parametrize("driver", DRIVERS)
def test_what_a_driver_names_as_its_weighing_leads_back_to_it(driver: str) -> None:
    chosen, other = schedulers(scheduler_driver=driver), schedulers(scheduler_driver="SimpleScheduler")
    weighing = chosen.default.choose_weighing(three_hosts(), a_spec(), {})
    scored = issubclass(DRIVERS[driver], FilterScheduler)
    assert isinstance(weighing, ScoreWeighing) == scored
    assert type(other.for_weighing(weighing)) is (FilterScheduler if scored else DRIVERS[driver])
    assert chosen.for_weighing(weighing) is chosen.default


def test_a_driver_of_ones_own_is_known_by_its_path_where_it_is_configured() -> None:
    chosen = own_scheduler("ByDiskScheduler")
    weighing = chosen.default.choose_weighing(three_hosts(), a_spec(), {})
    assert weighing == CostWeighing("tests.builders.own_plugins.ByDiskScheduler")
    assert chosen.for_weighing(weighing) is chosen.default
    with pytest.raises(WeighingUnknown):
        schedulers().for_weighing(weighing)


@pytest.mark.parametrize(
    "weighing",
    [
        ScoreWeighing((WeigherScale("NoSuchWeigher", 0.0, 1.0, 1.0),)),
        CostWeighing("NoSuchDriver"),
        CostWeighing("LeastCostScheduler", (CostFunction("no_such_cost", 1.0),)),
        CostWeighing("tests.builders.own_plugins.RaisingScheduler"),
    ],
)
def test_a_zone_says_that_it_lacks_a_weighing(weighing: ScoreWeighing | CostWeighing) -> None:
    with pytest.raises(WeighingUnknown):
        schedulers().for_weighing(weighing)


def test_without_a_weighing_the_zones_own_driver_decides() -> None:
    chosen = schedulers(scheduler_driver="SimpleScheduler")
    assert chosen.for_weighing(Unweighed()) is chosen.default


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("value", ["many", "-1"])
def test_amounts_that_are_no_numbers_are_refused_and_named(driver: str, value: str) -> None:
    with pytest.raises(BadRequest) as refused:
        schedulers(scheduler_driver=driver).default.check(a_spec(extra={"resources:CUSTOM_GPU": value}))
    assert refused.value.field == "flavor.extra_specs"


def test_a_scheduler_that_refuses_affinity_hosts_too_small_says_so() -> None:
    table = a_table([a_host("1f", vcpus=3), a_host("2f", vcpus=9)])
    offer = offer_of("FilterScheduler", table, a_spec(4, policy=Policy.AFFINITY, alternates=2))
    assert [bundle.host_id for bundle in offer.bundles] == ["2f"]
    assert offer.why[-1] == FunnelStep("free_slots", "no_free_slots", 2, 1)


def test_plugins_are_shared_values() -> None:
    plugins = schedulers().default.plugins
    assert isinstance(plugins, Plugins)
    assert all(isinstance(host_filter, BaseHostFilter) for host_filter in plugins.filters.default)
