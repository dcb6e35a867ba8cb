"""Images: ids, names and the properties that filters read."""

from __future__ import annotations

from zonesched.errors import BadRequest, Conflict, NotFound
from zonesched.model.request_spec import Image
from zonesched.services.zone import Zone
from zonesched.store import images as rows
from zonesched.store.store import Transaction

NO_IMAGE = Image("", "", {})
"""Image of a request that names none."""

MAX_SHOWN = 255
"""Characters of an unknown reference that its refusal repeats."""


def list_images(zone: Zone) -> list[Image]:
    """List all images, by name."""
    return zone.store.read(rows.read_all)


def show(zone: Zone, image_id: str) -> Image:
    """Show one image. Raises NotFound."""
    return zone.store.read(lambda tx: _existing(tx, image_id))


def create(zone: Zone, image: Image) -> Image:
    """Add an image. Raises Conflict for an id in use; names may repeat."""

    def fn(tx: Transaction) -> None:
        if rows.read_one(tx, image.id):
            raise Conflict("There is an image of that id.", code="image_exists", field="image.id")
        rows.insert(tx, image)

    zone.store.write(fn)
    return image


def delete(zone: Zone, image_id: str) -> None:
    """Remove an image. Raises NotFound."""

    def fn(tx: Transaction) -> None:
        _existing(tx, image_id)
        rows.delete(tx, image_id)

    zone.store.write(fn)


def resolve(zone: Zone, ref: str) -> Image:
    """Look up the image that a request names by id, by name, or by a link that ends in its id; "" names none.

    Raises BadRequest for an unknown one, and for a name that several images have.
    """
    if not ref:
        return NO_IMAGE
    found = zone.store.read(lambda tx: _named(tx, ref))
    if not found:
        raise BadRequest(
            f"server.imageRef names no image of this zone by id, name or link: {ref[:MAX_SHOWN]!r}.",
            code="image_unknown",
            field="server.imageRef",
        )
    if len(found) > 1:
        raise BadRequest(
            "server.imageRef names several images: give an id.",
            code="image_ambiguous",
            field="server.imageRef",
        )
    return found[0]


def _named(tx: Transaction, ref: str) -> list[Image]:
    by_id = rows.read_one(tx, ref)
    if by_id is not None:
        return [by_id]
    linked = rows.read_one(tx, ref.rpartition("/")[2])
    return rows.read_by_name(tx, ref) or ([linked] if linked is not None else [])


def _existing(tx: Transaction, image_id: str) -> Image:
    found = rows.read_one(tx, image_id)
    if found is None:
        raise NotFound("There is no such image.", code="image_not_found", field="id")
    return found
