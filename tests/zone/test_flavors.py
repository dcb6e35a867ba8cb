"""Flavors: what may be asked for by name, and how a request names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.one_zone import a_zone
from zonesched.errors import BadRequest, Conflict, NotFound
from zonesched.model.catalog import CatalogFlavor
from zonesched.model.request_spec import Flavor
from zonesched.services.catalog import flavors

SMALL = Flavor("f-1", "small", 2, 2048, 10, {"trait:HW_NVME": "required"})


def test_a_flavor_is_kept_as_it_was_made(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)

    made = flavors.create(zone.store, CatalogFlavor(SMALL))

    assert made == CatalogFlavor(SMALL)
    assert flavors.show(zone.store, "f-1") == CatalogFlavor(SMALL)
    assert flavors.list_flavors(zone.store) == [CatalogFlavor(SMALL)]


def test_flavors_are_listed_by_name(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    for name in ("large", "tiny", "medium"):
        flavors.create(zone.store, CatalogFlavor(Flavor(f"id-{name}", name, 1, 1, 1)))

    assert [f.flavor.name for f in flavors.list_flavors(zone.store)] == ["large", "medium", "tiny"]


@pytest.mark.parametrize(
    "ref", ["f-1", "small", "http://zone/v2.1/flavors/f-1", "/flavors/f-1", "https://zone/flavors/f-1"]
)
def test_a_request_names_a_flavor_by_id_name_or_link(tmp_path: Path, ref: str) -> None:
    zone = a_zone(tmp_path)
    flavors.create(zone.store, CatalogFlavor(SMALL))

    assert flavors.resolve(zone.store, ref) == SMALL


@pytest.mark.parametrize("ref", ["", "none", "http://zone/flavors/", "f-1/", "/flavors/small", "SMALL"])
def test_an_unknown_flavor_is_a_bad_request(tmp_path: Path, ref: str) -> None:
    zone = a_zone(tmp_path)
    flavors.create(zone.store, CatalogFlavor(SMALL))

    with pytest.raises(BadRequest) as refused:
        flavors.resolve(zone.store, ref)

    assert (refused.value.code, refused.value.field) == ("flavor_unknown", "server.flavorRef")
    assert repr(ref) in refused.value.message


def test_an_id_goes_before_a_name_of_another_flavor(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    by_id = flavors.create(zone.store, CatalogFlavor(Flavor("x", "one", 1, 1, 1)))
    flavors.create(zone.store, CatalogFlavor(Flavor("y", "x", 1, 1, 1)))

    assert flavors.resolve(zone.store, "x") == by_id.flavor


@pytest.mark.parametrize("other", [Flavor("f-1", "other", 1, 1, 1), Flavor("other", "small", 1, 1, 1)])
def test_an_id_or_name_in_use_is_refused(tmp_path: Path, other: Flavor) -> None:
    zone = a_zone(tmp_path)
    flavors.create(zone.store, CatalogFlavor(SMALL))

    with pytest.raises(Conflict) as refused:
        flavors.create(zone.store, CatalogFlavor(other))

    assert refused.value.code == "flavor_exists"
    assert flavors.list_flavors(zone.store) == [CatalogFlavor(SMALL)]


def test_extra_specs_are_added_changed_and_removed(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    flavors.create(zone.store, CatalogFlavor(SMALL))

    flavors.set_extra_specs(zone.store, "f-1", {"trait:HW_NVME": "forbidden", "resources:PGPU": "1"})
    flavors.delete_extra_spec(zone.store, "f-1", "trait:HW_NVME")

    assert flavors.show(zone.store, "f-1").flavor.extra_specs == {"resources:PGPU": "1"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("resources:PGPU", "0"),
        ("resources:A_1", str(2**31 - 1)),
        ("trait:CUSTOM_x", "forbidden"),
        ("traits:any_of", "A,B;C"),
        ("zone:region", "north"),
        ("hw:cpu_policy", "dedicated"),
        ("resources1:VGPU", "1"),
        ("trait_nic:CUSTOM_FAST", "required"),
        ("group_policy", "none"),
        ("group_policy", "isolate"),
    ],
)
def test_extra_specs_that_are_understood(tmp_path: Path, key: str, value: str) -> None:
    zone = a_zone(tmp_path)

    flavors.create(zone.store, CatalogFlavor(Flavor("f", "f", 1, 1, 1, {key: value})))

    assert flavors.show(zone.store, "f").flavor.extra_specs == {key: value}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("resources:PGPU", "-1"),
        ("resources:PGPU", "1.5"),
        ("resources:PGPU", "1e3"),
        ("resources:PGPU", " 1"),
        ("resources:PGPU", ""),
        ("resources:PGPU", str(2**31)),
        ("resources:PGPU", "٣"),
        ("resources:pgpu", "1"),
        ("resources:", "1"),
        ("resources:" + "A" * 65, "1"),
        ("resources1:VGPU", "one"),
        ("resources1:vgpu", "1"),
        ("trait1:HW", "maybe"),
        ("group_policy", "apart"),
        ("trait:HW", "maybe"),
        ("trait:", "required"),
        ("trait:A B", "required"),
        ("traits:any_of", ""),
        ("traits:any_of", "A,,B"),
        ("traits:any_of", "A;"),
        ("k" * 256, "v"),
        ("k", "v" * 256),
    ],
)
def test_extra_specs_that_mean_nothing_are_refused(tmp_path: Path, key: str, value: str) -> None:
    zone = a_zone(tmp_path)
    flavors.create(zone.store, CatalogFlavor(SMALL))

    with pytest.raises(BadRequest) as on_create:
        flavors.create(zone.store, CatalogFlavor(Flavor("f", "f", 1, 1, 1, {key: value})))
    with pytest.raises(BadRequest):
        flavors.set_extra_specs(zone.store, "f-1", {key: value})

    assert on_create.value.field == f"extra_specs.{key}"
    assert flavors.list_flavors(zone.store) == [CatalogFlavor(SMALL)]


def test_extra_specs_are_counted(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    flavors.create(zone.store, CatalogFlavor(Flavor("f", "f", 1, 1, 1, {f"k{n}": "v" for n in range(128)})))

    with pytest.raises(BadRequest):
        flavors.set_extra_specs(zone.store, "f", {"one": "more"})


def test_extra_specs_are_measured_together(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    largest = {f"{n:03}": "v" * 253 for n in range(32)}
    flavors.create(zone.store, CatalogFlavor(Flavor("f", "f", 1, 1, 1, largest)))

    with pytest.raises(BadRequest) as refused:
        flavors.set_extra_specs(zone.store, "f", {"k": "v"})

    assert (refused.value.code, refused.value.field) == ("too_long", "extra_specs")


@pytest.mark.parametrize("field", ["vcpus", "ram", "disk"])
@pytest.mark.parametrize("amount", [-1, 2**31])
def test_amounts_have_bounds(tmp_path: Path, field: str, amount: int) -> None:
    vcpus, ram_mb, disk_gb = {"vcpus": 1, "ram": 1, "disk": 1, field: amount}.values()

    with pytest.raises(BadRequest) as refused:
        flavors.create(a_zone(tmp_path).store, CatalogFlavor(Flavor("f", "f", vcpus, ram_mb, disk_gb)))

    assert refused.value.field == f"flavor.{field}"


def test_a_removed_flavor_is_gone(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    flavors.create(zone.store, CatalogFlavor(SMALL))

    flavors.delete(zone.store, "f-1")

    assert flavors.list_flavors(zone.store) == []
    flavors.create(zone.store, CatalogFlavor(SMALL))


def test_what_does_not_exist_is_not_found(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    flavors.create(zone.store, CatalogFlavor(SMALL))

    for call in (
        lambda: flavors.show(zone.store, "none"),
        lambda: flavors.delete(zone.store, "none"),
        lambda: flavors.set_extra_specs(zone.store, "none", {}),
        lambda: flavors.delete_extra_spec(zone.store, "none", "k"),
        lambda: flavors.delete_extra_spec(zone.store, "f-1", "k"),
    ):
        with pytest.raises(NotFound):
            call()


def test_groups_that_no_host_can_keep_apart_are_refused(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    flavors.create(zone.store, CatalogFlavor(Flavor("f", "f", 1, 1, 1, {"resources1:VGPU": "1"})))
    flavors.set_extra_specs(zone.store, "f", {"group_policy": "isolate"})

    with pytest.raises(BadRequest) as refused:
        flavors.set_extra_specs(zone.store, "f", {"resources2:VGPU": "1"})

    assert refused.value.field == "extra_specs.group_policy"
