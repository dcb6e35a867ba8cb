"""The request as plugins read it, also those that were written for OpenStack Nova."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.builders.hosts import a_spec
from zonesched.model.request_spec import Flavor


def test_a_flavor_has_novas_names() -> None:
    flavor = a_spec(ram_mb=512, disk_gb=7).flavor
    assert (flavor.memory_mb, flavor.root_gb, flavor.flavorid, flavor.swap) == (512, 7, "small", 0)


def test_a_request_has_its_flavors_amounts_by_novas_names() -> None:
    flavor = Flavor("f", "f", vcpus=2, ram_mb=512, disk_gb=7, ephemeral_gb=3, swap_mb=64)
    spec = replace(a_spec(), flavor=flavor)

    assert (spec.vcpus, spec.memory_mb) == (2, 512)
    assert (spec.root_gb, spec.ephemeral_gb, spec.swap) == (7, 3, 64)


@pytest.mark.parametrize(
    ("hints", "value"),
    [
        ({}, "none"),
        ({"near": "a"}, "a"),
        ({"near": ["a"]}, "a"),
        ({"near": ["a", "b"]}, ["a", "b"]),
        ({"near": []}, []),
    ],
)
def test_a_hint_is_read_as_in_nova(hints: dict[str, Any], value: object) -> None:
    assert a_spec(hints=hints).get_scheduler_hint("near", "none") == value


def test_a_hint_that_is_not_there_is_none() -> None:
    assert a_spec().get_scheduler_hint("near") is None


@pytest.mark.parametrize(
    ("extra", "taken"),
    [
        ({"resources:PCPU": "4"}, {"PCPU": 4}),
        ({"resources:PCPU": "0"}, {}),
        ({"resources:PCPU": "3", "resources:VCPU": "1"}, {"PCPU": 3, "VCPU": 1}),
        ({"resources:CUSTOM_PCPU": "1"}, {"CUSTOM_PCPU": 1, "VCPU": 4}),
    ],
)
def test_dedicated_cpus_take_the_place_of_the_flavors_own(
    extra: dict[str, str], taken: dict[str, int]
) -> None:
    assert a_spec(vcpus=4, ram_mb=0, disk_gb=0, extra=extra).resources == taken


def test_groups_of_resources_add_up_on_their_host() -> None:
    spec = a_spec(
        vcpus=4,
        ram_mb=0,
        disk_gb=0,
        extra={
            "resources1:CUSTOM_GPU": "1",
            "resources_second-GPU:CUSTOM_GPU": "2",
            "resources:CUSTOM_NIC": "1",
            "resources3:VCPU": "2",
            "trait1:CUSTOM_FAST": "required",
            "trait_second-GPU:CUSTOM_SPOT": "forbidden",
            "traits:any_of": "A,B",
        },
    )

    assert spec.resources == {"CUSTOM_GPU": 3, "CUSTOM_NIC": 1, "VCPU": 2}
    assert spec.traits.required == {"CUSTOM_FAST"}
    assert spec.traits.forbidden == {"CUSTOM_SPOT"}
    assert spec.traits.any_of == (frozenset("AB"),)


@pytest.mark.parametrize(
    "key", ["my_resources:X", "resources one:X", "resources" + "a" * 65 + ":X", "resource:X"]
)
def test_other_extra_specs_ask_for_no_resources(key: str) -> None:
    assert a_spec(vcpus=1, ram_mb=0, disk_gb=0, extra={key: "5"}).resources == {"VCPU": 1}
