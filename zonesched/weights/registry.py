"""The weighers of a zone by name: the built-in ones, and those that its configuration names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from zonesched.conf import Conf
from zonesched.errors import ConfigError, WeighingUnknown
from zonesched.model.arrays import Floats
from zonesched.model.host_view import HostView
from zonesched.model.metadata_numbers import MetadataNumbers
from zonesched.plugin import ANY_ERROR, created, load_named
from zonesched.weights.affinity import ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher
from zonesched.weights.build_failure import BuildFailureWeigher
from zonesched.weights.contract import BaseHostWeigher
from zonesched.weights.cpu import CPUWeigher
from zonesched.weights.cross_zone import CrossZoneWeigher
from zonesched.weights.disk import DiskWeigher
from zonesched.weights.hypervisor_version import HypervisorVersionWeigher
from zonesched.weights.image_properties import ImagePropertiesWeigher
from zonesched.weights.io_ops import IoOpsWeigher
from zonesched.weights.metrics import MetricsWeigher
from zonesched.weights.num_instances import NumInstancesWeigher
from zonesched.weights.ram import RAMWeigher

BUILT_IN: Mapping[str, type[BaseHostWeigher]] = {
    cls.__name__: cls
    for cls in (
        RAMWeigher,
        CPUWeigher,
        DiskWeigher,
        IoOpsWeigher,
        BuildFailureWeigher,
        MetricsWeigher,
        ServerGroupSoftAffinityWeigher,
        ServerGroupSoftAntiAffinityWeigher,
        HypervisorVersionWeigher,
        NumInstancesWeigher,
        ImagePropertiesWeigher,
        CrossZoneWeigher,
    )
}

OPTION = "weight_classes"
ENTRY_POINTS = "zonesched.weighers"
ALL_WEIGHERS = ("all_weighers", "nova.scheduler.weights.all_weighers")
"""Names for all built-in weighers together, here and in the original documents."""


@dataclass(frozen=True)
class HostWeighers:
    """The weighers of this zone's own requests, and all weighers that a parent's scale may name.

    `factors` are the multipliers of all known ones, read once. `overrides` reads the multipliers that
    aggregates set, by weigher that lets them.
    """

    configured: Mapping[str, BaseHostWeigher]
    known: Mapping[str, BaseHostWeigher]
    factors: Mapping[str, float]
    overrides: Mapping[str, MetadataNumbers]

    @classmethod
    def from_conf(cls, conf: Conf) -> HostWeighers:
        """Raise ConfigError that names an unknown weigher and the known ones."""
        names = [n for name in conf[OPTION] for n in (BUILT_IN if name in ALL_WEIGHERS else [name])]
        own = {name: _load(name, conf) for name in names if name not in BUILT_IN}
        known = {name: built_in.from_conf(conf) for name, built_in in BUILT_IN.items()} | own
        factors = {name: _multiplier(name, weigher) for name, weigher in known.items()}
        for name, weigher in known.items():
            _check(name, weigher)
        with_key = {name: weigher for name, weigher in known.items() if weigher.multiplier_key}
        return cls(
            configured={name: known[name] for name in names},
            known=known,
            factors=factors,
            overrides={
                name: MetadataNumbers(weigher.multiplier_key, weigher.min_multiplier)
                for name, weigher in with_key.items()
            },
        )

    def named(self, name: str) -> BaseHostWeigher:
        """Return the weigher of this name. Raise WeighingUnknown."""
        if name not in self.known:
            raise WeighingUnknown(f"This zone has no weigher {name!r}.")
        return self.known[name]

    def multipliers(self, name: str, of_scale: float, hosts: HostView) -> float | Floats:
        """Return the factor of a weigher's scaled value: one number, or one per host.

        A host whose aggregates set no multiplier has `of_scale`, which every zone uses.
        """
        numbers = self.overrides.get(name)
        if numbers is None or not hosts.table.has_metadata(numbers.key):
            return of_scale
        sign = self.known[name].multiplier_sign
        return hosts.numbers_by_aggregates(
            lambda aggregates: sign * numbers.smallest(aggregates, sign * of_scale)
        )


def _multiplier(name: str, weigher: BaseHostWeigher) -> float:
    try:
        multiplier = float(weigher.weight_multiplier())
    except ANY_ERROR as error:
        raise ConfigError(
            f"Option {OPTION}: the multiplier of {name} cannot be read: {error!r}", field=OPTION
        ) from error
    if not math.isfinite(multiplier):
        raise ConfigError(f"Option {OPTION}: the multiplier of {name} is not a finite number.", field=OPTION)
    return multiplier


def _check(name: str, weigher: BaseHostWeigher) -> None:
    """Raise ConfigError for what a weigher declares wrongly."""
    declared: tuple[object, ...] = (weigher.multiplier_key or "", weigher.min_multiplier)
    key, minimum = declared
    if not _are_bounds(weigher.minval, weigher.maxval):
        problem = "minval and maxval of {} are not finite numbers, lower one first."
    elif not isinstance(key, str):
        problem = "the multiplier_key of {} is not a text."
    elif weigher.multiplier_sign not in (1.0, -1.0):
        problem = "the multiplier_sign of {} is neither 1.0 nor -1.0."
    elif not isinstance(minimum, int | float) or math.isnan(minimum):
        problem = "the min_multiplier of {} is not a number."
    else:
        return
    raise ConfigError(f"Option {OPTION}: {problem.format(name)}", field=OPTION)


def _are_bounds(*declared: object) -> bool:
    given = [bound for bound in declared if bound is not None]
    numbers = [bound for bound in given if isinstance(bound, int | float) and math.isfinite(bound)]
    return len(numbers) == len(given) and numbers == sorted(numbers)


def _load(path: str, conf: Conf) -> BaseHostWeigher:
    loaded = load_named(OPTION, ENTRY_POINTS, path, BUILT_IN)
    if isinstance(loaded, type) and issubclass(loaded, BaseHostWeigher):
        made = created(OPTION, path, lambda: loaded.from_conf(conf))
        if isinstance(made, BaseHostWeigher):
            return made
    raise ConfigError(f"Option {OPTION}: {path} is not a BaseHostWeigher.", field=OPTION)
