"""Mistakes of plugins: an error at start or in the plugin's name, and never another choice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.builders.hosts import a_context, a_host, a_spec, a_table
from zonesched import conf
from zonesched.errors import ConfigError
from zonesched.filters.contract import AbstractHostFilter, BaseHostFilter, FilterFailed
from zonesched.model.host_table import HostTable
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec
from zonesched.scheduler.base_scheduler import BaseScheduler
from zonesched.scheduler.host_costs import BaseHostCost
from zonesched.scheduler.offer import OfferRequest
from zonesched.scheduler.schedulers import Schedulers
from zonesched.weights.contract import BaseHostWeigher, WeigherFailed


class FewerIsBetter(BaseHostWeigher):
    """Turns the sign of a column in place, not of a copy."""

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Any:
        numbers = hosts.num_instances
        numbers *= -1.0
        return numbers


class ForgetsTheFull(BaseHostFilter):
    """Takes its own demand from a column that other filters read after it."""

    def passes(self, hosts: HostView, spec: RequestSpec) -> Any:
        left = hosts.left("VCPU")
        left -= 1000.0
        return left > -1e9


class AndsInPlace(BaseHostFilter):
    """Narrows an answer that the check of free slots reads after it."""

    def passes(self, hosts: HostView, spec: RequestSpec) -> Any:
        passed = hosts.have_left("VCPU", 1)
        passed &= hosts.num_instances > 99
        return ~passed


class DisablesHosts(BaseHostFilter):
    """Writes to the table itself."""

    def passes(self, hosts: HostView, spec: RequestSpec) -> Any:
        hosts.enabled[:] = False
        return hosts.everyone


class ReadsItsFactorLate(BaseHostWeigher):
    """Has a multiplier at the start of the zone and none later."""

    asked = 0

    def weight_multiplier(self) -> float:
        self.asked += 1
        if self.asked > 1:
            raise RuntimeError("the file is gone")
        return -1.0

    def _weigh_object(self, host_state: Any, spec: RequestSpec) -> float:
        return float(host_state.free_ram_mb)


class KeyIsANumber(ReadsItsFactorLate):
    multiplier_key: Any = 5


class SignIsAText(ReadsItsFactorLate):
    multiplier_key = "key"
    multiplier_sign: Any = "-"


class SignIsTwo(ReadsItsFactorLate):
    multiplier_key = "key"
    multiplier_sign = 2.0


class LeastIsAText(ReadsItsFactorLate):
    min_multiplier: Any = "0"


class LeastIsNaN(ReadsItsFactorLate):
    min_multiplier = math.nan


class ForgetsItsBase(BaseScheduler):
    def __init__(self, plugins: Any, name: str) -> None:
        self.plugins = plugins


class Awaits(BaseHostFilter):
    async def host_passes(self, host_state: Any, spec: RequestSpec) -> bool:  # type: ignore[override]
        return False


class YieldsItsQuery(AbstractHostFilter):
    def instance_type_to_filter(self, instance_type: Any) -> Any:
        yield instance_type


class WeighsLater(BaseHostWeigher):
    async def weighs(self, spec: RequestSpec) -> bool:  # type: ignore[override]
        return False


class YieldsWeights(BaseScheduler):
    def weigh(self, hosts: HostView, spec: RequestSpec) -> Any:
        yield 1


class YieldsCosts(BaseHostCost):
    def host_cost(self, host_state: Any, spec: RequestSpec) -> Any:
        yield 1.0


async def cost_later(host_state: Any, spec: RequestSpec) -> float:
    return 1.0


class YieldsToItself(BaseHostFilter):
    """Has a generator of its own, which only its own code asks."""

    def demands(self) -> Any:
        yield True

    def host_passes(self, host_state: Any, spec: RequestSpec) -> bool:
        return all(self.demands())


def a_small_table() -> HostTable:
    return a_table([a_host("1a", owners={"one": 12}), a_host("2b", ram_mb=32_768, owners={"one": 3})])


def named(plugin: Any) -> str:
    return f"{__name__}.{plugin.__name__}"


def a_scheduler(**options: Any) -> BaseScheduler:
    return Schedulers.from_conf(conf.load([], options)).default


def picks(scheduler: BaseScheduler, table: HostTable) -> list[str]:
    offer = scheduler.offer(OfferRequest(table, a_spec(1), a_context("request-1")))
    return [pick.host_id for pick in offer.picks]


@pytest.mark.parametrize("plugin", [ForgetsTheFull, AndsInPlace, DisablesHosts])
def test_a_filter_that_writes_to_a_column_fails_and_changes_nothing(plugin: type) -> None:
    table = a_small_table()
    before = picks(a_scheduler(), table)

    with pytest.raises(FilterFailed, match=plugin.__name__):
        picks(a_scheduler(enabled_filters=[named(plugin)]), table)

    assert picks(a_scheduler(), table) == before == ["1a"]


def test_a_weigher_that_writes_to_a_column_fails_and_changes_nothing() -> None:
    table = a_small_table()

    with pytest.raises(WeigherFailed, match="FewerIsBetter"):
        picks(a_scheduler(weight_classes=[named(FewerIsBetter)]), table)

    assert table.num_instances.tolist() == [12.0, 3.0]


@pytest.mark.parametrize("copies", [None, np.array([0, 1])])
def test_no_column_of_a_view_can_be_written_to(copies: Any) -> None:
    """Columns with instances virtually placed are copies, which only one call sees."""
    view = HostView(a_small_table(), np.array([0, 1]), a_spec(1), a_context("request-1"), copies)

    for name in ("VCPU", "MEMORY_MB", "DISK_GB"):
        columns = [view.left(name), view.free(name), view.used(name), view.capacity(name), view.admits(name)]
        assert not any(column.flags.writeable for column in [*columns, view.have_left(name, 1)])
    assert not any(column.flags.writeable for column in (view.enabled, view.up, view.failed_builds))


def test_a_multiplier_is_read_once_at_start() -> None:
    scheduler = a_scheduler(weight_classes=[named(ReadsItsFactorLate)])

    assert picks(scheduler, a_small_table()) == ["2b"]


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        (KeyIsANumber, "the multiplier_key of .* is not a text"),
        (SignIsAText, "the multiplier_sign of .* is neither 1.0 nor -1.0"),
        (SignIsTwo, "the multiplier_sign of .* is neither 1.0 nor -1.0"),
        (LeastIsAText, "the min_multiplier of .* is not a number"),
        (LeastIsNaN, "the min_multiplier of .* is not a number"),
    ],
)
def test_a_weigher_that_declares_nonsense_stops_the_start(plugin: type, said: str) -> None:
    with pytest.raises(ConfigError, match=f"Option weight_classes: {said}"):
        a_scheduler(weight_classes=[named(plugin)])


def test_a_scheduler_that_forgets_its_base_stops_the_start() -> None:
    with pytest.raises(ConfigError, match=r"ForgetsItsBase does not call super\(\).__init__"):
        a_scheduler(scheduler_driver=named(ForgetsItsBase))


@pytest.mark.parametrize(
    ("option", "plugin", "method"),
    [
        ("enabled_filters", Awaits, ".host_passes"),
        ("available_filters", YieldsItsQuery, ".instance_type_to_filter"),
        ("weight_classes", WeighsLater, ".weighs"),
        ("scheduler_driver", YieldsWeights, ".weigh"),
        ("least_cost_functions", YieldsCosts, ".host_cost"),
        ("least_cost_functions", cost_later, ""),
    ],
)
def test_a_method_that_gives_no_answer_but_a_coroutine_or_generator_stops_the_start(
    option: str, plugin: Any, method: str
) -> None:
    value = {"scheduler_driver": named(plugin), "least_cost_functions": [f"{named(plugin)}=1"]}

    with pytest.raises(
        ConfigError, match=f"Option {option}: {named(plugin)}{method} is a coroutine or a gen"
    ):
        a_scheduler(**{option: value.get(option, [named(plugin)])})


def test_a_generator_that_only_the_plugin_asks_is_its_own_affair() -> None:
    assert picks(a_scheduler(enabled_filters=[named(YieldsToItself)]), a_small_table()) == ["1a"]
