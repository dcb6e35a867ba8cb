"""The registry of images in the Compute API's older form: ids, names and the properties that filters read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from zonesched.api.answer import Answer, no_content, ok
from zonesched.api.call import Call
from zonesched.api.links import Links
from zonesched.api.metadata_item import item_of, value_of, without
from zonesched.api.page import page_of
from zonesched.model.catalog import CatalogImage
from zonesched.model.openstack_time import iso_time
from zonesched.services.catalog import images


def list_brief(call: Call) -> Answer:
    """List images, with id and name."""
    return _list(call, _brief)


def list_detail(call: Call) -> Answer:
    """List images, in full."""
    return _list(call, _full)


def _list(call: Call, json_of: Callable[[CatalogImage, Links], dict[str, Any]]) -> Answer:
    found = [one for one in images.list_images(call.zone.store) if call.query.has(one)]
    page, marker = page_of(call, found, lambda one: one.image.id)
    body: dict[str, Any] = {"images": [json_of(one, call.links) for one in page]}
    if marker:
        body["images_links"] = call.links.next_page(marker)
    return ok(body)


def show(call: Call) -> Answer:
    """Show one image."""
    return ok({"image": _full(images.show(call.zone.store, call.args["id"]), call.links)})


def list_metadata(call: Call) -> Answer:
    """List an image's properties."""
    return ok({"metadata": dict(_properties(call))})


def show_metadata(call: Call) -> Answer:
    """Show one of an image's properties."""
    key = call.args["key"]
    return ok({"meta": {key: value_of(_properties(call), key)}})


def add_metadata(call: Call) -> Answer:
    """Add properties to an image, or change some; the rest stays."""
    return _set_metadata(call, lambda present: {**present, **call.body.metadata})


def replace_metadata(call: Call) -> Answer:
    """Replace all properties of an image."""
    return _set_metadata(call, lambda present: call.body.metadata)


def set_metadata(call: Call) -> Answer:
    """Add or change one property of an image, which URL and body name."""
    meta = item_of(call)
    _set_metadata(call, lambda present: {**present, **meta})
    return ok({"meta": meta})


def remove_metadata(call: Call) -> Answer:
    """Remove one property of an image."""
    _set_metadata(call, lambda present: without(present, call.args["key"]))
    return no_content()


def _set_metadata(call: Call, changed: Callable[[Mapping[str, str]], Mapping[str, str]]) -> Answer:
    found = images.set_properties(call.zone.store, call.args["id"], changed)
    return ok({"metadata": dict(found.image.properties)})


def _properties(call: Call) -> Mapping[str, str]:
    return images.show(call.zone.store, call.args["id"]).image.properties


def create(call: Call) -> Answer:
    """Add an image."""
    zone = call.zone
    new = images.create(zone.store, call.body.to_image(zone.clock.new_uuid(), zone.clock.now()))
    return Answer(201, {"image": _full(new, call.links)})


def delete(call: Call) -> Answer:
    """Remove an image; its instances stay as they are."""
    images.delete(call.zone.store, call.args["id"])
    return no_content()


def _brief(found: CatalogImage, links: Links) -> dict[str, Any]:
    image = found.image
    return {"id": image.id, "name": image.name, "links": links.of("images", image.id)}


def _full(found: CatalogImage, links: Links) -> dict[str, Any]:
    properties = dict(found.image.properties)
    return {
        **_brief(found, links),
        "status": "ACTIVE",
        "progress": 100,
        "minDisk": found.min_disk_gb,
        "minRam": found.min_ram_mb,
        "OS-EXT-IMG-SIZE:size": 0,
        "created": iso_time(found.created_at),
        "updated": iso_time(found.created_at),
        "metadata": properties,
        "properties": properties,
    }
