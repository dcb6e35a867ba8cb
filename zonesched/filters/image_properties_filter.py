"""Filter for hosts that can run the image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from zonesched.conf import Conf
from zonesched.errors import BadRequest
from zonesched.filters.image_demands import ImageDemands, image_demands
from zonesched.filters.shared_facts_filter import Question, SharedFactsFilter, any_host
from zonesched.model.dictionary_encoded import Lasting
from zonesched.model.host_row import SharedFacts
from zonesched.model.request_spec import RequestSpec


class ImagePropertiesFilter(SharedFactsFilter):
    """Passes hosts that support the image's architecture, hypervisor type and version, and vm mode.

    Reads: the image properties `hw_architecture`, `img_hv_type`, `hw_vm_mode` and
    `img_hv_requested_version`, or their older names `architecture`, `hypervisor_type`, `vm_mode` and
    `hypervisor_version_requires`. A missing property demands nothing; the option
    `image_properties_default_architecture`, if set, is the architecture of an image that names none. The
    capability `supported_instances` of a host is a list of [architecture, hypervisor type, vm mode], of which
    one must have everything that the image demands; without it the host has its `hypervisor_type` only. The
    capability `hypervisor_version` is 2012000 or "2.12.0". A required version is one or more bounds,
    `>=6.0,<7`; a host that reports no version meets them all. Case is ignored, and OpenStack's names for the
    same thing are equal (amd64 and x86_64, hv and hvm, ...).

    Example: an image with `hw_architecture = aarch64` and `img_hv_type = qemu` goes to hosts that report
    `"supported_instances": [["aarch64", "qemu", "hvm"]]`.
    """

    code = "image_not_supported"
    RUN_ON_REBUILD = True

    def __init__(self, default_architecture: str = "") -> None:
        self._default_architecture = default_architecture

    @classmethod
    def from_conf(cls, conf: Conf) -> Self:
        return cls(conf.image_properties_default_architecture)

    def question(self, spec: RequestSpec) -> Question:
        try:
            demands = image_demands(spec.image.properties, self._default_architecture)
        except ValueError as error:
            raise BadRequest(
                f"image.properties.{error}", code="image_property_invalid", field="image.properties"
            ) from None
        return _RunsImage(demands) if demands else any_host


@dataclass(frozen=True)
class _RunsImage(Lasting):
    demands: ImageDemands

    def __call__(self, facts: SharedFacts) -> bool:
        return self.demands.met_by(facts.capabilities)
