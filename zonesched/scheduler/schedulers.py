"""The schedulers of a zone: the one its own requests take, and the one that a parent's weighing asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from zonesched.conf import Conf
from zonesched.errors import ConfigError, WeighingUnknown
from zonesched.model.request_spec import CostWeighing, ScoreWeighing, Unweighed, Weighing
from zonesched.plugin import load_named
from zonesched.scheduler.availability_zone import AvailabilityZoneScheduler
from zonesched.scheduler.base_scheduler import BaseScheduler
from zonesched.scheduler.caching import CachingScheduler
from zonesched.scheduler.chance import ChanceScheduler
from zonesched.scheduler.fake import FakeScheduler
from zonesched.scheduler.filter_scheduler import FilterScheduler
from zonesched.scheduler.least_cost import LeastCostScheduler
from zonesched.scheduler.offer import OfferRequest
from zonesched.scheduler.plugins import Plugins
from zonesched.scheduler.scale import Range
from zonesched.scheduler.simple import SimpleScheduler

DRIVERS: Mapping[str, type[BaseScheduler]] = {
    cls.__name__: cls
    for cls in (
        FilterScheduler,
        BaseScheduler,
        LeastCostScheduler,
        ChanceScheduler,
        AvailabilityZoneScheduler,
        SimpleScheduler,
        CachingScheduler,
        FakeScheduler,
    )
}

OPTION = "scheduler_driver"
ENTRY_POINTS = "zonesched.scheduler_drivers"


@dataclass(frozen=True)
class Schedulers:
    """`default` is the configured driver; `known` are the built-in ones and it, by name."""

    default: BaseScheduler
    known: Mapping[str, BaseScheduler]

    @classmethod
    def from_conf(cls, conf: Conf) -> Schedulers:
        """Raises ConfigError that names the option, what is unknown and what is known."""
        plugins = Plugins.from_conf(conf)
        known = {name: driver(plugins) for name, driver in DRIVERS.items()}
        name = conf[OPTION]
        default = known[name] if name in known else _load(name)(plugins, name)
        return cls(default, known | {default.name: default})

    def prepare(
        self, request: OfferRequest, child_ranges: Mapping[str, Range], has_children: bool
    ) -> tuple[BaseScheduler, OfferRequest]:
        """Choose the scheduler of a request, and complete the request for it.

        Where nobody has chosen a weighing, it is chosen by what children told, or else with the offer itself.
        Raises WeighingUnknown, and what choosing one raises.
        """
        spec = request.spec
        if isinstance(spec.weighing, Unweighed) and has_children:
            weighing = self.default.choose_weighing(request.table, spec, child_ranges)
            spec = replace(spec, weighing=weighing)
        return self.for_weighing(spec.weighing), replace(request, spec=spec)

    def for_weighing(self, weighing: Weighing) -> BaseScheduler:
        """The scheduler that weighs so. Raises WeighingUnknown if this zone lacks any part of it."""
        match weighing:
            case Unweighed():
                return self.default
            case ScoreWeighing(scales):
                for scale in scales:
                    self.default.plugins.weighers.named(scale.weigher)
                is_own = isinstance(self.default, FilterScheduler)
                return self.default if is_own else self.known[FilterScheduler.__name__]
            case CostWeighing(driver, functions):
                if driver not in self.known:
                    raise WeighingUnknown(f"There is no scheduler driver {driver!r} here.")
                for function in functions:
                    self.default.plugins.costs.named(function.name)
                return self.known[driver]


def _load(path: str) -> type[BaseScheduler]:
    loaded = load_named(OPTION, ENTRY_POINTS, path, DRIVERS)
    if isinstance(loaded, type) and issubclass(loaded, BaseScheduler):
        return loaded
    raise ConfigError(f"Option {OPTION}: {path} is no BaseScheduler.", field=OPTION)
