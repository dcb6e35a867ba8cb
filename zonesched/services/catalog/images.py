"""Images: ids, names and the properties that filters read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from zonesched.errors import BadRequest, Conflict, NotFound
from zonesched.model.catalog import CatalogImage
from zonesched.model.request_spec import MAX_TEXTS_BYTES, Flavor, Image, are_too_large
from zonesched.store import images as rows
from zonesched.store.store import Store, Transaction

NO_IMAGE = CatalogImage(Image("", "", {}))
"""Image of a request that names none."""

MAX_PROPERTIES = 128
MAX_SHOWN = 255
"""Characters of an unknown reference that its refusal repeats."""


def list_images(store: Store) -> list[CatalogImage]:
    """List all images, by name."""
    return store.read(rows.read_all)


def show(store: Store, image_id: str) -> CatalogImage:
    """Show one image. Raises NotFound."""
    return store.read(lambda tx: _existing(tx, image_id))


def create(store: Store, new: CatalogImage) -> CatalogImage:
    """Add an image. Raises Conflict for an id in use, and BadRequest; names may repeat."""
    _check(new.image.properties, "image.properties")

    def fn(tx: Transaction) -> None:
        if rows.read_one(tx, new.image.id):
            raise Conflict("There is an image of that id.", code="image_exists", field="image.id")
        rows.insert(tx, new)

    store.write(fn)
    return new


def set_properties(
    store: Store, image_id: str, changed: Callable[[Mapping[str, str]], Mapping[str, str]]
) -> CatalogImage:
    """Replace the properties of an image by `changed` of the present ones; its instances keep theirs.

    Raises NotFound, and BadRequest for too many.
    """

    def fn(tx: Transaction) -> CatalogImage:
        found = _found(rows.lock(tx, image_id))
        properties = changed(found.image.properties)
        _check(properties, "metadata")
        rows.set_properties(tx, image_id, properties)
        return replace(found, image=replace(found.image, properties=properties))

    return store.write(fn)


def _check(properties: Mapping[str, str], field: str) -> None:
    """Raise BadRequest for too many properties, or too large ones."""
    if len(properties) > MAX_PROPERTIES or are_too_large(properties):
        message = f"{field}: an image has at most {MAX_PROPERTIES} properties, of {MAX_TEXTS_BYTES} bytes."
        raise BadRequest(message, code="too_long", field=field)


def delete(store: Store, image_id: str) -> None:
    """Remove an image. Raises NotFound."""

    def fn(tx: Transaction) -> None:
        _found(rows.lock(tx, image_id))
        rows.delete(tx, image_id)

    store.write(fn)


def resolve(store: Store, ref: str, field: str = "server.imageRef") -> CatalogImage:
    """Look up the image that a request names by id, by name, or by a link that ends in its id; "" names none.

    `field`: of the request, for errors. Raises BadRequest for an unknown one, and for a name that several
    images have.
    """
    if not ref:
        return NO_IMAGE
    found = store.read(lambda tx: _named(tx, ref))
    if not found:
        raise BadRequest(
            f"{field} names no image of this zone by id, name or link: {ref[:MAX_SHOWN]!r}.",
            code="image_unknown",
            field=field,
        )
    if len(found) > 1:
        raise BadRequest(
            f"{field} names several images: give an id.",
            code="image_ambiguous",
            field=field,
        )
    return found[0]


def check_fits(image: CatalogImage, flavor: Flavor, field: str = "server.flavorRef") -> None:
    """Raise BadRequest for a flavor that is smaller than the image needs, as OpenStack Nova does.

    A flavor whose disk is 0 has the image's own size.
    """
    if flavor.ram_mb < image.min_ram_mb:
        raise BadRequest(
            f"{field}: the image needs {image.min_ram_mb} MB of RAM.",
            code="flavor_too_small",
            field=field,
        )
    if 0 < flavor.disk_gb < image.min_disk_gb:
        raise BadRequest(
            f"{field}: the image needs a disk of {image.min_disk_gb} GB.",
            code="flavor_too_small",
            field=field,
        )


def _named(tx: Transaction, ref: str) -> list[CatalogImage]:
    by_id = rows.read_one(tx, ref)
    if by_id is not None:
        return [by_id]
    linked = rows.read_one(tx, ref.rpartition("/")[2])
    return rows.read_by_name(tx, ref) or ([linked] if linked is not None else [])


def _existing(tx: Transaction, image_id: str) -> CatalogImage:
    return _found(rows.read_one(tx, image_id))


def _found(image: CatalogImage | None) -> CatalogImage:
    if image is None:
        raise NotFound("There is no such image.", code="image_not_found", field="id")
    return image
