"""Only hosts that can run the image."""

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
    `hypervisor_version_requires`. A property that the image does not have is not demanded; the option
    `image_properties_default_architecture`, where it is set, stands for an architecture that is not named. Of
    a host it reads the capabilities `supported_instances` (a list of [architecture, hypervisor type, vm
    mode], one of which must have all that is demanded; of a host without it, `hypervisor_type` alone) and
    `hypervisor_version` (2012000 or "2.12.0"). A required version is one or more bounds, `>=6.0,<7`; a host
    that reports no version meets them all. Case makes no difference, nor do OpenStack's names for the
    same thing (amd64 and x86_64, hv and hvm, ...).

    Example: an image with `hw_architecture = aarch64` and `img_hv_type = qemu` goes to hosts that report
    `"supported_instances": [["aarch64", "qemu", "hvm"]]`.
    """

    code = "image_not_supported"

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
