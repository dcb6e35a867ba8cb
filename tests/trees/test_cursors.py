"""Sealed cursors, which a parent gets in place of the zone's own count of transactions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.tree import Tree, a_host
from zonesched.errors import ConfigError
from zonesched.seal.cursors import Cursor, CursorBox

BOX = CursorBox("ab" * 32)
PLACES = st.builds(
    Cursor,
    number=st.integers(0, 2**63),
    until=st.integers(0, 2**63),
    uuid=st.uuids().map(str) | st.just(""),
    epoch=st.binary(min_size=16, max_size=16).filter(any).map(bytes.hex) | st.just(""),
)


@given(place=PLACES)
def test_a_place_is_read_back_and_always_told_in_112_characters(place: Cursor) -> None:
    cursor = BOX.write("parent-1", place)

    assert BOX.read("parent-1", cursor) == place
    assert len(cursor) == 112
    assert BOX.write("parent-1", place) == cursor


@given(place=PLACES)
def test_another_caller_or_another_zone_cannot_read_it(place: Cursor) -> None:
    cursor = BOX.write("parent-1", place)

    for box, caller in ((BOX, "parent-2"), (CursorBox("cd" * 32), "parent-1")):
        with pytest.raises(ValueError):
            box.read(caller, cursor)
        assert box.write(caller, place) != cursor


@given(at=st.integers(0, 111), to=st.sampled_from("AZaz09-_.=+ "))
def test_a_changed_one_is_not_read(at: int, to: str) -> None:
    cursor = BOX.write("parent-1", Cursor(7, 9, "11111111-1111-4111-8111-111111111111", "ab" * 16))
    changed = cursor[:at] + to + cursor[at + 1 :]

    if changed != cursor:
        with pytest.raises(ValueError):
            BOX.read("parent-1", changed)


@pytest.mark.parametrize(
    "text", ["x", "17.11111111-1111-4111-8111-111111111111", "A" * 111, "A" * 112, "é" * 112]
)
def test_what_is_no_cursor_is_not_read(text: str) -> None:
    with pytest.raises(ValueError):
        BOX.read("parent-1", text)


def test_a_secret_of_another_form_is_refused() -> None:
    with pytest.raises(ConfigError):
        CursorBox("ab" * 31)


def test_the_zone_tells_nothing_of_what_it_does_for_others(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.add("root")
    tree.add("other")
    leaf = tree.add("leaf", parent="root", hosts_=[a_host("l1")])
    tree.join("other", "leaf")
    ours, theirs = leaf.client("parent-root"), leaf.client("parent-other")

    first = ours.get("/reservations?cursor=").json["cursor"]
    tree.register("leaf", [a_host("l2")])
    again = ours.get(f"/reservations?cursor={first}").json["cursor"]

    assert (len(first), again) == (112, first)
    assert theirs.get("/reservations?cursor=").json["cursor"] != first
    for cursor in (first, "17.x", "17.11111111-1111-4111-8111-111111111111"):
        refused = theirs.get(f"/reservations?cursor={cursor}")
        assert (refused.status, refused.json["badRequest"]["error_code"]) == (400, "cursor_invalid")
