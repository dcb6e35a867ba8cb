"""Filters, weighers, costs and schedulers as users write them, loaded by dotted path in tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.builders.clock import FakeClock
from zonesched.conf import Conf
from zonesched.filters.contract import AbstractHostFilter, BaseHostFilter
from zonesched.filters.retry_filter import RetryFilter
from zonesched.model.arrays import Bools, Ints
from zonesched.model.host_state import HostState, HostTuple
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec
from zonesched.scheduler.base_scheduler import BaseScheduler
from zonesched.scheduler.host_costs import BaseHostCost
from zonesched.weights.contract import BaseHostWeigher


def install(folder: Path, entry_points: str) -> None:
    """Make a folder of Python's path look as if a package with these entry points were installed there."""
    installed = folder / "acme-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(entry_points)


class OddRamFilter(BaseHostFilter):
    """Passes hosts with an even number of GB free, and so changes its mind with each instance of one GB."""

    code = "odd_ram"

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return host_state.free_ram_mb // 1024 % 2 == 0


class OddRamOnceFilter(OddRamFilter):
    """A variant of OddRamFilter that gives the same answer throughout a request."""

    run_filter_once_per_request = True


class GpuKindFilter(BaseHostFilter):
    """Passes hosts with a GPU; reads capabilities only."""

    code = "no_gpu"
    shared_facts_only = True
    asked = 0

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        type(self).asked += 1
        return bool(host_state.capabilities.get("gpu"))


class FreelyCodedFilter(GpuKindFilter):
    """Has a code of characters that calls between zones do not have in codes."""

    code = "No GPU!"


class BrokenFilter(BaseHostFilter):
    """Raises, with something in its message that must stay inside."""

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        raise ZeroDivisionError(f"on {host_state.host}")


class ExitingFilter(BaseHostFilter):
    """Ends the program, as its author takes a zone to be one."""

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        sys.exit("no such host")


class WrongShapeFilter(BaseHostFilter):
    """Gives one answer too many."""

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        return np.ones(len(hosts) + 1, dtype=np.bool_)


class MostlyFreeFilter(AbstractHostFilter):
    """The document's form: twice the flavor's memory must be free, and the host not be called host-3f."""

    code = "mostly_taken"

    def instance_type_to_filter(self, instance_type: Any) -> Any:
        return 2 * instance_type["memory_mb"]

    def filter_hosts(self, host_list: list[HostTuple], query: Any) -> list[HostTuple]:
        return [
            (name, capabilities)
            for name, capabilities in host_list
            if capabilities["free_ram_mb"] >= query and name != "host-3f"
        ]


class _CapabilityWeigher(BaseHostWeigher):
    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        return float(host_state.capabilities[type(self).__name__])


class W1(_CapabilityWeigher):
    pass


class W2(_CapabilityWeigher):
    def weight_multiplier(self) -> float:
        return 2.0


class W3(_CapabilityWeigher):
    pass


class BrokenAfterPicksFilter(BaseHostFilter):
    """Raises when it is to say whether it must be asked again."""

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return True

    def changes_with_picks(self, spec: RequestSpec) -> bool:
        raise KeyError(spec.request_id)


class BrokenChoiceWeigher(BaseHostWeigher):
    """Raises when it is to say whether a request concerns it."""

    def weighs(self, spec: RequestSpec) -> bool:
        raise KeyError(spec.request_id)


class NanWeigher(BaseHostWeigher):
    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        return float("nan") if host_state.host == "host-2f" else 1.0


class InfiniteWeigher(BaseHostWeigher):
    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        return float("inf") if host_state.host == "host-2f" else 1.0


class CountedWeigher(BaseHostWeigher):
    """Has something to say of requests that ask it, and none but aggregates give it a multiplier."""

    multiplier_key = "counted_weight_multiplier"
    asked = 0

    def weight_multiplier(self) -> float:
        return 0.0

    def weighs(self, spec: RequestSpec) -> bool:
        return bool(spec.hints.get("ask"))

    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        type(self).asked += 1
        return float(host_state.free_ram_mb)


class NanMultiplierWeigher(BaseHostWeigher):
    def weight_multiplier(self) -> float:
        return float("nan")


class NumpyMultiplierWeigher(W1):
    """Has a multiplier that is a number, and no float."""

    def weight_multiplier(self) -> Any:
        return np.float32(2.5)


class CrossedBoundsWeigher(W1):
    """Mixes up its bounds."""

    minval = 5.0
    maxval = 1.0


class EndlessBoundWeigher(W1):
    """Declares a bound that no score can be scaled by."""

    minval = -float("inf")


class TextBoundWeigher(W1):
    """Declares a bound that is no number."""

    minval: Any = "0"


class MultiplierOfHostWeigher(BaseHostWeigher):
    """Asks for a host where none is given, as the weighers of later OpenStack do."""

    def weight_multiplier(self, host_state: HostState) -> float:  # type: ignore[override]
        return 1.0


class BrokenWeigher(BaseHostWeigher):
    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        raise KeyError(host_state.host)


class BoundedWeigher(BaseHostWeigher):
    """Depends on the request, so it declares both bounds."""

    minval = 0.0
    maxval = 10.0

    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        return float(spec.hints["level"])


def name_length_cost(host_state: HostState, spec: RequestSpec) -> float:
    """A plain function as a cost."""
    return float(len(host_state.host))


def infinite_cost(host_state: HostState, spec: RequestSpec) -> float:
    return float("inf")


class ByDiskScheduler(BaseScheduler):
    """The document's way: a subclass that overrides weigh_hosts with plain dicts."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.calls: list[list[str]] = []

    def weigh_hosts(self, spec: RequestSpec, hosts: list[HostTuple]) -> list[dict[str, Any]]:
        self.calls.append([name for name, _ in hosts])
        return [
            {"weight": report["disk_mb_used"], "hostname": name}
            for name, report in reversed(hosts)
            if not report.get("hidden")
        ]


class PickyScheduler(BaseScheduler):
    """Narrows what the zone's filters pass."""

    def filter_hosts(self, spec: RequestSpec, hosts: list[HostTuple]) -> list[HostTuple]:
        passed = super().filter_hosts(spec, hosts)
        return [(name, report) for name, report in passed if report["vcpus_used"] < 2]


class HintedScheduler(BaseScheduler):
    """Says of each host what the request's hints say."""

    def weigh_hosts(self, spec: RequestSpec, hosts: list[HostTuple]) -> list[dict[str, Any]]:
        return [{"weight": 1, "hostname": name} | dict(spec.hints) for name, _ in hosts]


class ToldScheduler(BaseScheduler):
    """Weighs all hosts at once, as a hint of the request says, whatever stands there."""

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Ints:
        told: Ints = spec.hints["told"]
        return told


class RaisingScheduler(BaseScheduler):
    def weigh_hosts(self, spec: RequestSpec, hosts: list[HostTuple]) -> list[dict[str, Any]]:
        raise RuntimeError("on purpose")


NOT_A_CLASS = 7


class RoomyFilter(AbstractHostFilter):
    """The document's form with a setting: RAM free times the zone's ratio covers the flavor's."""

    code = "not_roomy"

    def __init__(self, ratio: float) -> None:
        self._ratio = ratio

    @classmethod
    def from_conf(cls, conf: Conf) -> RoomyFilter:
        return cls(conf.ram_allocation_ratio)

    def instance_type_to_filter(self, instance_type: Any) -> Any:
        return instance_type.memory_mb

    def filter_hosts(self, host_list: list[HostTuple], query: Any) -> list[HostTuple]:
        return [host for host in host_list if host[1]["free_ram_mb"] * self._ratio >= query]


class RamFilter(BaseHostFilter):
    """Bears the name of a built-in one."""

    code = "not_this_ram"

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return host_state.host != "host-1f"


class RetryElsewhereFilter(RetryFilter):
    """Keeps a request that was refused before off host-3f as well."""

    code = "retried_elsewhere"

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return not (host_state.context.tried_hosts and host_state.uuid == "3f")

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        return BaseHostFilter.passes(self, hosts, spec)


class UnmakeableFilter(BaseHostFilter):
    """Cannot be made."""

    def __init__(self) -> None:
        raise OSError("no such device")


class UnmakeableWeigher(BaseHostWeigher):
    """Cannot be made either."""

    def __init__(self) -> None:
        raise OSError("no such device")


class UnmakeableCost(BaseHostCost):
    """Cannot be made either."""

    def __init__(self) -> None:
        raise OSError("no such device")


class UnmakeableScheduler(BaseScheduler):
    """Forgets what it is made with."""

    def __init__(self) -> None:
        pass


class UnreturnedFilter(BaseHostFilter):
    """Forgets to return what it made."""

    @classmethod
    def from_conf(cls, conf: Conf) -> Any:
        cls()


class UncodedFilter(BaseHostFilter):
    """Gives no reason for the hosts that it removes."""

    code: Any = None


class UncheckableFilter(BaseHostFilter):
    """Fails already when it looks at a request."""

    def check(self, spec: RequestSpec) -> None:
        raise ZeroDivisionError("on purpose")

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return True


class SlowFilter(BaseHostFilter):
    """Passes each host, after `seconds` of the test's clock."""

    clock = FakeClock()
    seconds = 0.0
    asked = 0

    @classmethod
    def takes(cls, clock: FakeClock, seconds: float) -> None:
        """Begin a test with this clock."""
        cls.clock, cls.seconds, cls.asked = clock, seconds, 0

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        SlowFilter.asked += 1
        self.clock.advance(self.seconds)
        return True


class SlowAgainFilter(SlowFilter):
    """Takes its time only for hosts that have an instance of the request."""

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return host_state.placed == 0 or super().host_passes(host_state, spec)


class SlowWeigher(BaseHostWeigher):
    """Weighs each host 1, after the time that SlowFilter takes."""

    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        return float(SlowFilter().host_passes(host_state, spec))
