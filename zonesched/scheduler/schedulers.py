"""The schedulers of a zone: the configured one for its own requests, and the one for a parent's weighing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from zonesched.conf import Conf
from zonesched.errors import ConfigError, WeighingUnknown
from zonesched.model.request_spec import CostWeighing, ScoreWeighing, Unweighed, Weighing
from zonesched.plugin import created, load_named
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
    """The configured driver as `default`, and by name all `known` drivers: the built-in ones and it."""

    default: BaseScheduler
    known: Mapping[str, BaseScheduler]

    @classmethod
    def from_conf(cls, conf: Conf) -> Schedulers:
        """Raise ConfigError, which names the option, the unknown name and the known ones."""
        return cls._with(Plugins.from_conf(conf), conf)

    @classmethod
    def of_all_hosts(cls, conf: Conf) -> Schedulers:
        """Variant of `from_conf` for tables of all hosts.

        It demands also what the database demands of the hosts that it finds for a request.
        """
        return cls._with(Plugins.of_all_hosts(conf), conf)

    @classmethod
    def _with(cls, plugins: Plugins, conf: Conf) -> Schedulers:
        known = {name: driver(plugins) for name, driver in DRIVERS.items()}
        name = conf[OPTION]
        default = known[name] if name in known else _load(name, plugins)
        return cls(default, known | {default.name: default})

    def prepare(
        self, request: OfferRequest, child_ranges: Mapping[str, Range], has_children: bool
    ) -> tuple[BaseScheduler, OfferRequest]:
        """Choose the scheduler of a request, and complete the request for it.

        In a zone with children, choose the weighing from the ranges that they reported, unless the request
        has one; without children the offer itself chooses it. Raise WeighingUnknown, OutOfTime, and the
        errors of the driver's `choose_weighing`.
        """
        spec = request.spec
        if isinstance(spec.weighing, Unweighed) and has_children:
            weighing = self.default.choose_weighing(request.table, spec, child_ranges, request.deadline)
            request = replace(request, spec=replace(spec, weighing=weighing))
        return self.for_weighing(request.spec.weighing), request

    def for_weighing(self, weighing: Weighing) -> BaseScheduler:
        """Return the scheduler for a weighing. Raise WeighingUnknown if this zone lacks any part of it."""
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


def _load(path: str, plugins: Plugins) -> BaseScheduler:
    loaded = load_named(OPTION, ENTRY_POINTS, path, DRIVERS)
    if isinstance(loaded, type) and issubclass(loaded, BaseScheduler):
        made = created(OPTION, path, lambda: loaded(plugins, path))
        if not hasattr(made, "name"):
            raise ConfigError(f"Option {OPTION}: {path} does not call super().__init__.", field=OPTION)
        return made
    raise ConfigError(f"Option {OPTION}: {path} is not a subclass of BaseScheduler.", field=OPTION)
