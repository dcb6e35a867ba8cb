"""The registry of images in the form of OpenStack's Image API, version 2, to read.

OpenStack's clients look images up there by name before they boot from one.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.api.page import page_of
from zonesched.model.catalog import CatalogImage
from zonesched.model.openstack_time import iso_time
from zonesched.services.catalog import images

MOUNT = "/image"
VERSION = "v2.9"


def list_versions(call: Call) -> Answer:
    """List the versions of the Image API."""
    return ok({"versions": [_version(call)]})


def show_version(call: Call) -> Answer:
    """Show the version of the Image API."""
    return ok({"version": _version(call)})


def list_all(call: Call) -> Answer:
    """List images, by default by name; with `name` or `id`, those of one or, after `in:`, of several."""
    found = [_json(image) for image in images.list_images(call.zone.store) if _is_asked(call, image)]
    # The first key last: a sort leaves those that are equal by it in the order of the others.
    for key, is_descending in reversed(call.query.order()):
        found.sort(key=itemgetter(key), reverse=is_descending)
    page, marker = page_of(call, found, itemgetter("id"))
    body: dict[str, Any] = {"images": page, "first": "/v2/images", "schema": "/v2/schemas/images"}
    if marker:
        body["next"] = f"/v2/images?{call.links.next_query(marker)}"
    return ok(body)


def show(call: Call) -> Answer:
    """Show one image, its properties beside its other members."""
    return ok(_json(images.show(call.zone.store, call.args["id"])))


def _version(call: Call) -> dict[str, Any]:
    links = [{"rel": "self", "href": f"{call.links.base}{MOUNT}/v2/"}]
    return {"id": VERSION, "status": "CURRENT", "links": links}


def _is_asked(call: Call, found: CatalogImage) -> bool:
    query, image = call.query, found.image
    shown = _json(found)
    return (
        all(not values or shown[name] in values for name, values in query.choices().items())
        and query.min_disk in (None, found.min_disk_gb)
        and query.min_ram in (None, found.min_ram_mb)
        and query.size_min <= shown["size"] <= query.size_max
        and query.visibility in ("", "public", "all")
        and not (query.protected or query.os_hidden or query.owner or query.tag)
        and all(image.properties.get(name) == value for name, value in query.properties().items())
    )


def _json(found: CatalogImage) -> dict[str, Any]:
    image = found.image
    added_at = iso_time(found.created_at)
    return {
        **image.properties,
        "id": image.id,
        "name": image.name,
        "status": "active",
        "visibility": "public",
        "protected": False,
        "os_hidden": False,
        "min_disk": found.min_disk_gb,
        "min_ram": found.min_ram_mb,
        "size": 0,
        "virtual_size": None,
        "checksum": None,
        "os_hash_algo": None,
        "os_hash_value": None,
        "owner": None,
        "container_format": "bare",
        "disk_format": "raw",
        "tags": [],
        "created_at": added_at,
        "updated_at": added_at,
        "self": f"/v2/images/{image.id}",
        "file": f"/v2/images/{image.id}/file",
        "schema": "/v2/schemas/image",
    }
