"""Images: ids, names and properties, and how a request names one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.one_zone import a_zone
from zonesched.errors import BadRequest, Conflict, NotFound
from zonesched.model.catalog import CatalogImage
from zonesched.model.request_spec import Image
from zonesched.services.catalog import images

PLAIN = Image("i-1", "plain", {"os": "linux", "arch": "x86_64"})


def test_an_image_is_kept_as_it_was_made(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)

    made = images.create(zone.store, CatalogImage(PLAIN))

    assert made == CatalogImage(PLAIN)
    assert images.show(zone.store, "i-1") == CatalogImage(PLAIN)
    assert images.list_images(zone.store) == [CatalogImage(PLAIN)]


@pytest.mark.parametrize("ref", ["i-1", "plain", "http://zone/v2.1/images/i-1"])
def test_a_request_names_an_image_by_id_name_or_link(tmp_path: Path, ref: str) -> None:
    zone = a_zone(tmp_path)
    images.create(zone.store, CatalogImage(PLAIN))

    assert images.resolve(zone.store, ref) == CatalogImage(PLAIN)


def test_a_request_may_name_no_image(tmp_path: Path) -> None:
    assert images.resolve(a_zone(tmp_path).store, "") == CatalogImage(Image("", "", {}))


@pytest.mark.parametrize("ref", ["none", "http://zone/images/", "http://zone/images/plain"])
def test_an_unknown_image_is_a_bad_request(tmp_path: Path, ref: str) -> None:
    zone = a_zone(tmp_path)
    images.create(zone.store, CatalogImage(PLAIN))

    with pytest.raises(BadRequest) as refused:
        images.resolve(zone.store, ref)

    assert (refused.value.code, refused.value.field) == ("image_unknown", "server.imageRef")


def test_a_name_of_several_images_names_none(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    images.create(zone.store, CatalogImage(PLAIN))
    images.create(zone.store, CatalogImage(Image("i-2", "plain")))

    with pytest.raises(BadRequest) as refused:
        images.resolve(zone.store, "plain")

    assert refused.value.code == "image_ambiguous"
    assert images.resolve(zone.store, "i-2").image.id == "i-2"


def test_an_id_in_use_is_refused(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    images.create(zone.store, CatalogImage(PLAIN))

    with pytest.raises(Conflict) as refused:
        images.create(zone.store, CatalogImage(Image("i-1", "other")))

    assert refused.value.code == "image_exists"


def test_a_removed_image_is_gone(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    images.create(zone.store, CatalogImage(PLAIN))

    images.delete(zone.store, "i-1")

    assert images.list_images(zone.store) == []
    for call in (images.show, images.delete):
        with pytest.raises(NotFound):
            call(zone.store, "i-1")


def test_properties_are_measured_together(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    largest = {f"{n:03}": "v" * 253 for n in range(32)}
    images.create(zone.store, CatalogImage(Image("i", "i", largest)))

    with pytest.raises(BadRequest) as on_create:
        images.create(zone.store, CatalogImage(Image("j", "j", {**largest, "k": "v"})))
    with pytest.raises(BadRequest) as on_change:
        images.set_properties(zone.store, "i", lambda known: {**known, "k": "v"})

    assert (on_create.value.code, on_create.value.field) == ("too_long", "image.properties")
    assert (on_change.value.code, on_change.value.field) == ("too_long", "metadata")
