"""Which weighers a zone knows, by name: built-in ones, and those its configuration names by dotted path."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from zonesched.conf import Conf
from zonesched.errors import ConfigError, WeighingUnknown
from zonesched.plugin import load_dotted
from zonesched.weights.contract import BaseHostWeigher
from zonesched.weights.cpu import CPUWeigher
from zonesched.weights.disk import DiskWeigher
from zonesched.weights.ram import RAMWeigher

BUILT_IN: Mapping[str, type[BaseHostWeigher]] = {
    cls.__name__: cls for cls in (CPUWeigher, DiskWeigher, RAMWeigher)
}

OPTION = "weight_classes"


@dataclass(frozen=True)
class HostWeighers:
    """The weighers that this zone's own requests are weighed with, and all that a parent's scale may name."""

    configured: Mapping[str, BaseHostWeigher]
    known: Mapping[str, BaseHostWeigher]

    @classmethod
    def from_conf(cls, conf: Conf) -> HostWeighers:
        """Raises ConfigError that names an unknown weigher and the known ones."""
        own = {name: _load(name, conf) for name in conf[OPTION] if name not in BUILT_IN}
        known = {name: built_in.from_conf(conf) for name, built_in in BUILT_IN.items()} | own
        for name, weigher in known.items():
            if not math.isfinite(weigher.weight_multiplier()):
                raise ConfigError(f"The multiplier of {name} is no finite number.", field=OPTION)
        return cls({name: known[name] for name in conf[OPTION]}, known)

    def named(self, name: str) -> BaseHostWeigher:
        """Raises WeighingUnknown."""
        if name not in self.known:
            raise WeighingUnknown(f"There is no weigher {name!r} here.")
        return self.known[name]


def _load(path: str, conf: Conf) -> BaseHostWeigher:
    loaded = load_dotted(OPTION, path, BUILT_IN)
    if isinstance(loaded, type) and issubclass(loaded, BaseHostWeigher):
        return loaded.from_conf(conf)
    raise ConfigError(f"Option {OPTION}: {path} is no BaseHostWeigher.", field=OPTION)
