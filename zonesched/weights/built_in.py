"""The base of the built-in weighers: the multiplier is an option, named as its metadata key."""

from __future__ import annotations

from typing import Self

from zonesched.conf import Conf
from zonesched.weights.contract import BaseHostWeigher


class BuiltInWeigher(BaseHostWeigher):
    """A weigher whose multiplier is an option named `multiplier_key`."""

    def __init__(self, multiplier: float = 1.0) -> None:
        self._multiplier = multiplier

    @classmethod
    def from_conf(cls, conf: Conf) -> Self:
        return cls(conf[cls.multiplier_key])

    def weight_multiplier(self) -> float:
        return self.multiplier_sign * self._multiplier
