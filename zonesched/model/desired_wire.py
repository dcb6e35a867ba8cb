"""Desired states of a parent's instances as JSON: an image or a flavor stands there once, whoever gets it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zonesched.model.desired_call import DesiredOf
from zonesched.model.observed_state import NO_RESIZES, Resizes
from zonesched.model.request_spec import Flavor, Image
from zonesched.model.request_wire import flavor_to_wire, image_to_wire


def desired_to_wire(told: Sequence[DesiredOf]) -> dict[str, Any]:
    """Return the body of a call; a line has the position of its image or flavor among those of all lines."""
    images: list[Image] = []
    flavors: list[Flavor] = []
    lines: list[dict[str, Any]] = []
    for one in told:
        desired = one.desired
        line: dict[str, Any] = {
            "uuid": one.uuid,
            "attempt": one.attempt,
            "generation": desired.generation,
            "power": desired.power.value,
            "reboots": desired.reboots,
            "reboot_type": desired.reboot_type.value,
        }
        if desired.rebuilds:
            line["rebuilds"] = desired.rebuilds
        if isinstance(desired.image, Image):
            if desired.image not in images:
                images.append(desired.image)
            line["image"] = images.index(desired.image)
        if desired.resizes != NO_RESIZES:
            line["resizes"] = resizes_to_wire(desired.resizes)
        if isinstance(desired.flavor, Flavor):
            if desired.flavor not in flavors:
                flavors.append(desired.flavor)
            line["flavor"] = flavors.index(desired.flavor)
        lines.append(line)
    body: dict[str, Any] = {"servers": lines}
    if images:
        body["images"] = list(map(image_to_wire, images))
    if flavors:
        body["flavors"] = list(map(flavor_to_wire, flavors))
    return body


def resizes_to_wire(resizes: Resizes) -> dict[str, int]:
    """Return the counts of resizes as an object."""
    return {
        "begun": resizes.begun,
        "confirmed": resizes.confirmed,
        "reverted": resizes.reverted,
    }
