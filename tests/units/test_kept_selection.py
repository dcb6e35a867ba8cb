"""Selections that are kept with a table: each later request gets the offer of a selection from all hosts."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.hosts import SEEDS, SERVICE, a_host, a_spec, a_table, schedulers
from zonesched.errors import BadRequest, ZoneschedError
from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Floats
from zonesched.model.host_row import HostUse, flavor_key
from zonesched.model.host_state import HostState
from zonesched.model.host_table import HostTable
from zonesched.model.host_uses import HostUses
from zonesched.model.host_view import HostView
from zonesched.model.new_instances import NewInstances
from zonesched.model.request_context import MoveFrom, RequestContext
from zonesched.model.request_spec import (
    DISK_GB,
    MEMORY_MB,
    VCPU,
    NoGroup,
    Policy,
    RequestSpec,
    ScoreWeighing,
    Unweighed,
    WeigherScale,
    Weighing,
)
from zonesched.scheduler import filter_scheduler, funnel
from zonesched.scheduler.base_scheduler import BaseScheduler, Offer, OfferRequest
from zonesched.scheduler.kept_selection import MAX_KEPT
from zonesched.weights.contract import BaseHostWeigher
from zonesched.weights.registry import BUILT_IN

DEFAULT_FILTERS = (
    "ComputeFilter,AvailabilityZoneFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,CoreFilter,"
    "RamFilter,DiskFilter,ResourceClassFilter,TraitsFilter"
)
MORE_FILTERS = ("NumInstancesFilter", "IoOpsFilter", "TypeAffinityFilter", "MetricsFilter")
MULTIPLIERS = st.dictionaries(
    st.sampled_from([weigher.multiplier_key for weigher in BUILT_IN.values()]),
    st.sampled_from([-1.0, -1e-9, 0.0, 0.3, 1.0, 2e6]),
    max_size=4,
)
HOSTS = 120
UNWEIGHED = Unweighed()
ENOUGH = {VCPU: 1, MEMORY_MB: 1_024, DISK_GB: 10}


def offered(scheduler: BaseScheduler, request: OfferRequest, *, anew: bool = False) -> Offer | str:
    """The offer, or the code of the fault."""
    try:
        return BaseScheduler.offer(scheduler, request) if anew else scheduler.offer(request)
    except ZoneschedError as fault:
        return fault.code


def some_hosts(rng: random.Random) -> HostTable:
    """Hosts of which many are alike, and most take the requests of these tests."""
    return a_table(
        [
            a_host(
                f"{number:x}f",
                vcpus=rng.choice([2, 4, 4, 8]),
                ram_mb=rng.choice([4_096, 8_192, rng.randint(4_096, 8_192)]),
                disk_gb=rng.choice([40, 80]),
                service=rng.choice([SERVICE, SERVICE, "agent-2"]),
                enabled=rng.random() < 0.95,
                metrics={"load": float(rng.randint(0, 3))},
            )
            for number in range(rng.choice([20, 60, HOSTS]))
        ],
        {SERVICE: True, "agent-2": True},
    )


class Changes:
    """Lets the hosts of a table change as those of a zone do."""

    def __init__(self, rng: random.Random, table: HostTable) -> None:
        self._rng, self._table = rng, table
        self._placed: list[NewInstances] = []

    def make_one(self) -> None:
        match self._rng.randrange(8):
            case 0 | 1 | 2:
                self._place()
            case 3 if self._placed:
                self._table.take_off(self._placed.pop(self._rng.randrange(len(self._placed))))
            case 4:
                self._table.apply_uses(HostUses.of({name: self._some_use() for name in self._some_names(3)}))
            case 5 if self._rng.random() < 0.3:
                name = self._some_names(1)[0]
                self._table.apply([a_host(name, vcpus=self._rng.choice([1, 16]), metrics={"load": 1.0})])
            case 6 if self._rng.random() < 0.3:
                self._table.set_services_up({SERVICE: True, "agent-2": self._rng.random() < 0.5})
            case 7 if self._rng.random() < 0.2:
                self._table.apply([], removed=self._some_names(1))

    def _place(self) -> None:
        copies = {name: self._rng.randint(1, 2) for name in self._some_names(3)}
        flavor, image = flavor_key("", "small"), "{}"
        new = NewInstances(copies, ENOUGH, "owner-1", flavor, image)
        self._placed.append(new)
        self._table.place(new)

    def _some_use(self) -> HostUse:
        used = {name: self._rng.randint(0, 3) * amount for name, amount in ENOUGH.items()}
        return HostUse(
            used, {"owner-1": 1}, num_building=self._rng.randint(0, 2), failed_builds=self._rng.randint(0, 1)
        )

    def _some_names(self, most: int) -> list[str]:
        return [f"{self._rng.randrange(HOSTS):x}f" for _ in range(self._rng.randint(1, most))]


def a_scale(rng: random.Random) -> ScoreWeighing:
    """The scale of a parent, which changes now and then: of any weighers, some without an extent."""
    highest = rng.choice([8_192.0, 8_192.0, 8_192.0, 16_384.0])
    other = WeigherScale(rng.choice(["IoOpsWeigher", "DiskWeigher", "CPUWeigher"]), 0.0, 8.0, -1.0)
    none = WeigherScale("BuildFailureWeigher", 0.0, rng.choice([0.0, 0.0, 0.0, 1.0]), -1e6)
    return ScoreWeighing(
        (WeigherScale("RAMWeigher", 0.0, highest, 1.0), other, none)[: rng.choice([2, 3, 3])]
    )


def a_request(
    rng: random.Random, table: HostTable, number: int, weighing: Weighing = UNWEIGHED
) -> OfferRequest:
    """One of a few kinds of requests."""
    spec = a_spec(
        rng.choice([1, 1, 1, 1, 7]),
        request_id=f"request-{number}",
        vcpus=rng.choice([1, 1, 1, 2]),
        alternates=rng.choice([0, 0, 3]),
        extra=rng.choice([{}, {}, {"capabilities:free_ram_mb": ">= 2048"}]),
        weighing=weighing,
    )
    context = RequestContext("owner-1", tie_key=f"{rng.getrandbits(128):032x}")
    return OfferRequest(table, spec, context, scored=rng.choice([0, 3, 3, 10]))


@pytest.mark.slow
@given(SEEDS, st.lists(st.sampled_from(MORE_FILTERS), unique=True, max_size=2), MULTIPLIERS)
def test_a_later_request_gets_what_a_selection_from_all_hosts_gives(
    seed: int, more_filters: list[str], multipliers: dict[str, float]
) -> None:
    # given hosts, and a scheduler with some filters and multipliers
    rng = random.Random(seed)
    factors = {name: abs(factor) if "soft" in name else factor for name, factor in multipliers.items()}
    options = {"metrics_weight_setting": ["load=2"], "metrics_required": False, "max_io_ops_per_host": 3}
    filters = ",".join([DEFAULT_FILTERS, *more_filters])
    scheduler = schedulers(enabled_filters=filters, **options, **factors).default
    table = some_hosts(rng)
    changes = Changes(rng, table)

    # when requests follow each other while hosts change, then each gets the offer that it would get alone
    for number in range(12):
        for _ in range(rng.randint(0, 3)):
            changes.make_one()
        request = a_request(rng, table, number)
        assert offered(scheduler, request) == offered(scheduler, request, anew=True)


@pytest.mark.slow
@given(SEEDS, MULTIPLIERS)
def test_so_does_one_that_brings_the_scale_of_a_parent(seed: int, multipliers: dict[str, float]) -> None:
    # given hosts, and the scale of a parent
    rng = random.Random(seed)
    factors = {name: abs(factor) if "soft" in name else factor for name, factor in multipliers.items()}
    scheduler = schedulers(enabled_filters=DEFAULT_FILTERS, **factors).default
    table, weighing = some_hosts(rng), a_scale(rng)
    changes = Changes(rng, table)

    # when requests with it follow each other, and some with another one or with none
    for number in range(12):
        for _ in range(rng.randint(0, 3)):
            changes.make_one()
        weighing = a_scale(rng) if rng.random() < 0.2 else weighing
        request = a_request(rng, table, number, weighing if rng.random() < 0.8 else UNWEIGHED)

        # then each gets the offer that it would get alone
        assert offered(scheduler, request) == offered(scheduler, request, anew=True)


@pytest.mark.slow
@given(SEEDS, st.sampled_from([1.0, -1.0]))
def test_requests_that_take_what_they_get_and_give_it_back(seed: int, multiplier: float) -> None:
    # given many hosts that differ by their RAM alone
    rng = random.Random(seed)
    scheduler = schedulers(ram_weight_multiplier=multiplier).default
    table = a_table([a_host(f"{n:x}f", ram_mb=rng.randint(32_768, 65_536)) for n in range(HOSTS)])
    placed: list[NewInstances] = []

    # when each request takes its host, and some instances end
    for number in range(40):
        request = replace(a_single(table, a_spec(), number), scored=rng.choice([0, 3]))
        offer = offered(scheduler, request)

        # then each gets the offer that it would get alone
        assert offer == offered(scheduler, request, anew=True)
        assert isinstance(offer, Offer)
        placed.append(NewInstances({offer.picks[0].host_id: 1}, ENOUGH, "owner-1", "small", "{}"))
        table.place(placed[-1])
        if rng.random() < 0.4:
            table.take_off(placed.pop(rng.randrange(len(placed))))


class Funnels:
    """Counts the selections from all hosts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.run = 0
        inner = funnel.run_funnel

        def counted(*args: object) -> object:
            self.run += 1
            return inner(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(filter_scheduler, "run_funnel", counted)


def a_single(table: HostTable, spec: RequestSpec, number: int, **context: object) -> OfferRequest:
    known = RequestContext("owner-1", tie_key=f"{number:032x}", **context)  # type: ignore[arg-type]
    return OfferRequest(table, replace(spec, request_id=f"request-{number}"), known, scored=10)


def test_requests_of_one_flavor_ask_only_about_changed_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    # given hosts that differ
    funnels, scheduler = Funnels(monkeypatch), schedulers().default
    table = a_table([a_host(f"{n:x}f", vcpus=4 + n % 5, ram_mb=8_192 + n) for n in range(40)])

    # when each of some requests takes its host
    for number in range(10):
        [pick] = scheduler.offer(a_single(table, a_spec(), number)).picks
        table.place(NewInstances({pick.host_id: 1}, ENOUGH, "owner-1", "small", "{}"))

    # then all hosts went through the funnel once, and once more for each kind of change to all of them
    assert funnels.run == 1
    table.set_services_up({SERVICE: True})
    scheduler.offer(a_single(table, a_spec(), 11))
    table.apply([a_host("1f")])
    scheduler.offer(a_single(table, a_spec(), 12))
    assert funnels.run == 3


def test_requests_with_the_scale_of_a_parent_ask_only_about_changed_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given hosts that differ, and a scale in which build failures have no extent
    funnels, scheduler = Funnels(monkeypatch), schedulers().default
    table = a_table([a_host(f"{n:x}f", vcpus=4 + n % 5, ram_mb=8_192 + n) for n in range(40)])
    ram, failures = (
        WeigherScale("RAMWeigher", 0.0, 8_192.0, 1.0),
        WeigherScale("BuildFailureWeigher", 0.0, 0.0, 1.0),
    )

    def ask(number: int, *scales: WeigherScale) -> None:
        spec = replace(a_spec(), weighing=ScoreWeighing(scales))
        [pick] = scheduler.offer(a_single(table, spec, number)).picks
        table.place(NewInstances({pick.host_id: 1}, ENOUGH, "owner-1", "small", "{}"))

    # when each of some requests takes its host
    for number in range(5):
        ask(number, ram, failures)
        ask(number, replace(ram, high=16_384.0), failures)

    # then all hosts went through the funnel once, and once more for a weigher that had no extent
    assert funnels.run == 1
    ask(10, ram, replace(failures, high=1.0))
    assert funnels.run == 2


def test_a_table_keeps_few_selections(monkeypatch: pytest.MonkeyPatch) -> None:
    funnels, scheduler = Funnels(monkeypatch), schedulers().default
    table = a_table([a_host(f"{n:x}f") for n in range(40)])
    flavors = [a_spec(ram_mb=ram_mb) for ram_mb in range(1, MAX_KEPT + 2)]
    for number, spec in enumerate([*flavors, flavors[-1], flavors[0]]):
        scheduler.offer(a_single(table, spec, number))
    assert funnels.run == len(flavors) + 1


@pytest.mark.parametrize(
    "options",
    [
        {"weight_classes": ["RAMWeigher"], "ram_weight_multiplier": -1.0},
        {"weight_classes": ["CPUWeigher"]},
        {"enabled_filters": ["NumInstancesFilter"], "max_instances_per_host": 0},
    ],
    ids=["multiplier", "weigher", "filter"],
)
def test_a_scheduler_with_other_options_takes_nothing_that_the_first_one_kept(
    options: dict[str, object],
) -> None:
    table = a_table([a_host(f"{n:x}f", vcpus=40 - n, ram_mb=8_192 + n) for n in range(40)])
    schedulers(weight_classes=["RAMWeigher"]).default.offer(a_single(table, a_spec(), 1))

    request, other = a_single(table, a_spec(), 2), schedulers(**options).default

    assert offered(other, request) == offered(other, request, anew=True)


class Odd(BaseHostFilter):
    """A filter that is not built in."""

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return spec.request_id != "request-1"


def test_nothing_is_kept_that_may_depend_on_more_than_hosts_and_flavor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given requests with demands of their own, or answered by a filter of somebody else's
    funnels, table = Funnels(monkeypatch), a_table([a_host(f"{n:x}f") for n in range(40)])
    scheduler = schedulers().default
    odd = schedulers(enabled_filters=f"ComputeFilter,{__name__}.Odd").default
    requests = [
        a_single(table, a_spec(policy=Policy.AFFINITY, group=NoGroup()), 1),
        a_single(table, a_spec(hints={"same_host": ["uuid"]}), 1, same_hosts=frozenset({"1f"})),
        a_single(table, a_spec(), 1, tried_hosts=frozenset({"1f"})),
        a_single(table, a_spec(), 1, moves=MoveFrom("1f")),
    ]

    # when they are asked between others
    for request in requests:
        assert offered(scheduler, request) == offered(scheduler, request, anew=True)
    first, second = (odd.offer(a_single(table, a_spec(), number)) for number in (0, 1))

    # then none of them is kept
    assert (len(first.picks), len(second.picks)) == (1, 0)
    assert funnels.run == 2
    assert scheduler.offer(a_single(table, a_spec(), 2)).picks


class OddWeigher(BaseHostWeigher):
    """A weigher that is not built in: a host is the better for one request, and the worse for the next."""

    minval, maxval = -1.0, 1.0

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Floats:
        sign = 1.0 if spec.request_id == "request-0" else -1.0
        return np.where(hosts.row_numbers == 0, sign, 0.0)


def test_nothing_is_kept_that_a_weigher_of_somebody_else_weighs() -> None:
    scheduler = schedulers(weight_classes=f"{__name__}.OddWeigher").default
    table = a_table([a_host(f"{n:x}f") for n in range(40)])
    for number in range(3):
        request = a_single(table, a_spec(), number)
        assert offered(scheduler, request) == offered(scheduler, request, anew=True)


class Asking(BaseHostFilter):
    """A filter that is not built in, and writes down the requests that it checks."""

    checked: ClassVar[list[str]] = []

    def check(self, spec: RequestSpec) -> None:
        self.checked.append(spec.request_id)

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return True


def test_a_request_is_checked_if_it_differs_from_the_last_one() -> None:
    # given a request that was found right
    scheduler = schedulers().default
    scheduler.check(a_spec())

    # then one like it is right, and each that is wrong is refused each time
    scheduler.check(a_spec(7, request_id="request-2"))
    wrong = [
        a_spec(extra={"resources:VCPU": "many"}),
        a_spec(filters=("JsonFilter",), filter_query="no JSON"),
        a_spec(filters=("NoSuchFilter",)),
    ]
    for spec in (*wrong, *wrong):
        with pytest.raises(BadRequest):
            scheduler.check(spec)


def test_a_filter_of_somebody_else_checks_every_request() -> None:
    scheduler = schedulers(enabled_filters=f"ComputeFilter,{__name__}.Asking").default
    for number in range(3):
        scheduler.check(a_spec(request_id=f"request-{number}"))
    assert Asking.checked == ["request-0", "request-1", "request-2"]
