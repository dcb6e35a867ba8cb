"""The request of an instance as it would have to be for the instance as it is now."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from zonesched.model.desired_state import InstanceState
from zonesched.model.instance_flavor import InstanceFlavor, flavor_of
from zonesched.model.instance_image import AS_BOOTED, InstanceImage, image_of
from zonesched.model.request_spec import RequestSpec


class PresentForm(NamedTuple):
    """Flavor and image that an instance has by now."""

    flavor: InstanceFlavor = AS_BOOTED
    image: InstanceImage = AS_BOOTED

    def requested(self, booted: RequestSpec) -> RequestSpec:
        """Return the request of its boot with this flavor and this image."""
        if self == AS_REQUESTED:
            return booted
        flavor, image = flavor_of(self.flavor, booted.flavor), image_of(self.image, booted.image)
        return replace(booted, flavor=flavor, image=image)


AS_REQUESTED = PresentForm()
"""The form of an instance that was neither resized nor rebuilt."""


def as_now(booted: RequestSpec, state: InstanceState) -> RequestSpec:
    """Return the request of its boot with the flavor and the image that it has."""
    return PresentForm(state.present_flavor, state.image).requested(booted)
