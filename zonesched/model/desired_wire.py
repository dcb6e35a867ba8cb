"""Desired states of a parent's instances as JSON: an image stands there once, whoever is rebuilt from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zonesched.model.desired_call import DesiredOf
from zonesched.model.request_spec import Image
from zonesched.model.request_wire import image_to_wire


def desired_to_wire(told: Sequence[DesiredOf]) -> dict[str, Any]:
    """Return the body of a call; a line has the position of its image among `images`."""
    images: list[Image] = []
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
        lines.append(line)
    return {"servers": lines, "images": list(map(image_to_wire, images))} if images else {"servers": lines}
