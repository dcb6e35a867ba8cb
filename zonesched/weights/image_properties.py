"""Weighs hosts by the images of the instances that they have."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Self

from zonesched.conf import Conf
from zonesched.model.arrays import Floats
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec
from zonesched.ratios import read_ratios
from zonesched.weights.built_in import BuiltInWeigher


class ImagePropertiesWeigher(BuiltInWeigher):
    """Prefers hosts whose instances have images like the request's, or with a negative multiplier unlike it.

    Raw value: the number of image properties that the living instances on the host, including those of this
    request, have in common with the request's image, summed over the instances. With the option
    `image_props_weight_setting`, a list of name=ratio, each property counts its ratio, and others do not
    count. The scale is always 0 to 1: one property in common is worth one multiplier.
    Multiplier: option `image_props_weight_multiplier` (0.0: does nothing), or the aggregate metadata of
    that name.

    Example: with `image_props_weight_setting = os_distro=10, os_type=1`, a request for debian on linux
    gives a host with one instance of debian and one of fedora, both linux, the raw value 12.
    """

    multiplier_key = "image_props_weight_multiplier"
    minval = 0.0
    maxval = 1.0

    def __init__(self, multiplier: float = 1.0, ratios: Iterable[tuple[str, float]] = ()) -> None:
        """`ratios`: how much each property counts; 1 each if empty."""
        super().__init__(multiplier)
        self._ratios = dict(ratios)

    @classmethod
    def from_conf(cls, conf: Conf) -> Self:
        return cls(conf[cls.multiplier_key], read_ratios(conf.image_props_weight_setting).items())

    def weighs(self, spec: RequestSpec) -> bool:
        return any(map(self._ratio, spec.image.properties))

    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        keys = (*host_state.table.images.of_row(host_state.row), spec.image_key)
        return host_state.image_score(self._scores(keys, spec))

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Floats:
        return hosts.image_score(self._scores((*hosts.table.images.keys(), spec.image_key), spec))

    def _scores(self, image_keys: Iterable[str], spec: RequestSpec) -> Mapping[str, float]:
        """Return how much one instance of each image counts for this request."""
        return {key: self._score(json.loads(key), spec) for key in image_keys}

    def _score(self, properties: Mapping[str, str], spec: RequestSpec) -> float:
        wanted = sorted(spec.image.properties.items())
        score = 0.0
        for name, text in wanted:
            if properties.get(name) == text:
                score += self._ratio(name)
        return score

    def _ratio(self, name: str) -> float:
        return self._ratios.get(name, 0.0) if self._ratios else 1.0
