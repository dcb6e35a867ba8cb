"""The image of an instance: the one of its boot, until it is rebuilt."""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.model.request_spec import Image


@dataclass(frozen=True)
class AsBooted:
    """Image or flavor that the instance's boot has asked for."""


AS_BOOTED = AsBooted()

InstanceImage = Image | AsBooted


def image_of(image: InstanceImage, booted: Image) -> Image:
    """Return the image itself; `booted`: the one of the instance's boot."""
    return booted if isinstance(image, AsBooted) else image
