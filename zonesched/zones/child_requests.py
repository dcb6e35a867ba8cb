"""Parsing of a request that a child gives back to its parent, which has forgotten it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from zonesched.model.controls import CONTROLS_OF_ASCII
from zonesched.model.instance_image import AS_BOOTED
from zonesched.model.named_boot import GivenBack, ImageAndFlavor, Requested
from zonesched.model.request_spec import Flavor, Image, RequestSpec, are_too_large
from zonesched.zones.answers import UUID, parsed
from zonesched.zones.unverified import Invalid, Unverified

MAX_ITEMS = 128
MAX_AMOUNT = 2**31 - 1
_NAME = re.compile(rf"[^{CONTROLS_OF_ASCII}]{{1,255}}")
_TEXT = re.compile(rf"[^{CONTROLS_OF_ASCII}]{{0,255}}")


def read_request(body: bytes) -> GivenBack:
    """Parse the answer of GET /servers/{uuid}/request."""
    return parsed(body, _given_back)


def _given_back(answer: Unverified) -> GivenBack:
    sent = answer.object("request")
    reservation_id = sent.text("reservation_id", UUID)
    spec = RequestSpec(
        request_id=reservation_id,
        project_id=sent.text("project_id", _NAME),
        num_instances=1,
        flavor=_flavor(answer.object("flavor")),
        image=_image(answer.object("image")),
    )
    settled, desired = (_image_and_flavor(answer.object(name)) for name in ("settled", "desired"))
    return GivenBack(Requested(reservation_id, spec), settled, desired)


def _image_and_flavor(known: Unverified) -> ImageAndFlavor:
    return ImageAndFlavor(
        _image(known.object("image")) if known.has("image") else AS_BOOTED,
        _flavor(known.object("flavor")) if known.has("flavor") else AS_BOOTED,
    )


def _flavor(flavor: Unverified) -> Flavor:
    amounts = [flavor.whole(name, 0, MAX_AMOUNT) for name in ("vcpus", "ram", "disk", "ephemeral", "swap")]
    vcpus, ram_mb, disk_gb, ephemeral_gb, swap_mb = amounts
    return Flavor(
        flavor.text("id", _NAME),
        flavor.text("name", _NAME),
        vcpus,
        ram_mb,
        disk_gb,
        _texts(flavor.object("extra_specs")),
        ephemeral_gb,
        swap_mb,
    )


def _image(image: Unverified) -> Image:
    return Image(image.text("id", _TEXT), image.text("name", _TEXT), _texts(image.object("properties")))


def _texts(item: Unverified) -> Mapping[str, str]:
    names = item.names()
    if len(names) > MAX_ITEMS or not all(_NAME.fullmatch(name) for name in names):
        raise Invalid
    texts = {name: item.text(name, _TEXT) for name in names}
    if are_too_large(texts):
        raise Invalid
    return texts
