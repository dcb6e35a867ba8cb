"""States of found instances as text: what was observed of them, and what a child gives back."""

from __future__ import annotations

from typing import Any

import orjson

from zonesched.model.named_boot import GivenBack, ImageAndFlavor, Requested
from zonesched.model.observed_state import Observed, Power, Resizes
from zonesched.model.request_wire import spec_from_row, spec_to_row
from zonesched.store.instance_states import flavor_from_text, flavor_text, image_from_text, image_text


def observed_text(observed: Observed) -> str:
    """Return the text of a report on an instance."""
    resizes = observed.resizes
    return _text(
        {
            "generation": observed.generation,
            "power": observed.power.value,
            "reason": observed.reason,
            "rebuilds": observed.rebuilds,
            "resizes": [resizes.begun, resizes.confirmed, resizes.reverted],
        }
    )


def observed_from_text(text: str) -> Observed:
    """Return the report of a text."""
    known = orjson.loads(text)
    return Observed(
        known["generation"],
        Power(known["power"]),
        known["reason"],
        known["rebuilds"],
        Resizes(*known["resizes"]),
    )


def given_back_text(given_back: GivenBack) -> str:
    """Return the text of what a child gives back."""
    return _text(
        {
            "reservation_id": given_back.requested.reservation_id,
            "spec": spec_to_row(given_back.requested.spec),
            "settled": _texts(given_back.settled),
            "desired": _texts(given_back.desired),
        }
    )


def given_back_from_text(text: str) -> GivenBack:
    """Return what a child gives back, from its text."""
    known = orjson.loads(text)
    return GivenBack(
        Requested(known["reservation_id"], spec_from_row(known["spec"])),
        settled=_image_and_flavor(known["settled"]),
        desired=_image_and_flavor(known["desired"]),
    )


def _text(known: dict[str, Any]) -> str:
    return orjson.dumps(known).decode()


def _texts(known: ImageAndFlavor) -> dict[str, str]:
    return {"image": image_text(known.image), "flavor": flavor_text(known.flavor)}


def _image_and_flavor(texts: dict[str, str]) -> ImageAndFlavor:
    return ImageAndFlavor(image_from_text(texts["image"]), flavor_from_text(texts["flavor"]))
