"""The request as plugins read it, also those that were written for OpenStack Nova."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.hosts import a_spec


def test_a_flavor_has_novas_names() -> None:
    flavor = a_spec(ram_mb=512, disk_gb=7).flavor
    assert (flavor.memory_mb, flavor.root_gb) == (512, 7)


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
