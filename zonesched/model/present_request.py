"""The request of an instance as it would have to be for the instance as it is now."""

from __future__ import annotations

from dataclasses import replace

from zonesched.model.desired_state import InstanceState
from zonesched.model.instance_flavor import flavor_of
from zonesched.model.instance_image import image_of
from zonesched.model.request_spec import RequestSpec


def as_now(booted: RequestSpec, state: InstanceState) -> RequestSpec:
    """Return the request of its boot with the flavor and the image that it has."""
    flavor, image = flavor_of(state.present_flavor, booted.flavor), image_of(state.image, booted.image)
    return replace(booted, flavor=flavor, image=image)
