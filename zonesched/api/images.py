"""The registry of images: ids, names and the properties that filters read."""

from __future__ import annotations

from typing import Any

from zonesched.api.answer import Answer, no_content, ok
from zonesched.api.call import Call
from zonesched.api.links import Links
from zonesched.model.request_spec import Image
from zonesched.services.catalog import images


def list_brief(call: Call) -> Answer:
    """All images, with id and name."""
    found = images.list_images(call.zone)
    return ok({"images": [_brief(image, call.links) for image in found]})


def list_detail(call: Call) -> Answer:
    """All images, in full."""
    return ok({"images": [_full(image, call.links) for image in images.list_images(call.zone)]})


def show(call: Call) -> Answer:
    """One image."""
    return ok({"image": _full(images.show(call.zone, call.args["id"]), call.links)})


def create(call: Call) -> Answer:
    """Add an image."""
    image = images.create(call.zone, call.body.to_image(call.zone.clock.new_uuid()))
    return Answer(201, {"image": _full(image, call.links)})


def delete(call: Call) -> Answer:
    """Remove an image; its instances stay as they are."""
    images.delete(call.zone, call.args["id"])
    return no_content()


def _brief(image: Image, links: Links) -> dict[str, Any]:
    return {"id": image.id, "name": image.name, "links": links.of("images", image.id)}


def _full(image: Image, links: Links) -> dict[str, Any]:
    properties = dict(image.properties)
    return {**_brief(image, links), "status": "ACTIVE", "metadata": properties, "properties": properties}
