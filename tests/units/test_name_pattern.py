"""Regular expressions of strangers: matched as Python would, in time linear in the text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonesched.model.name_pattern import is_pattern, literal, searching

pytestmark = pytest.mark.once

ATOMS = st.sampled_from(["a", "b", ".", "a*", "b+", "[ab]", "(a|b)", "^", "$", r"\d", "a?"])


@given(st.lists(ATOMS, max_size=6).map("".join), st.text(alphabet="ab1", max_size=8))
def test_a_match_is_pythons(pattern: str, text: str) -> None:
    assert searching(pattern)(text) == bool(re.search(pattern, text))


@given(
    st.text(alphabet="ab.+*?()[]{}^$|\\\\", max_size=8),
    st.text(alphabet="ab(", max_size=2),
    st.integers(0, 20),
)
def test_a_literal_is_found_in_what_contains_its_text(text: str, around: str, most: int) -> None:
    pattern = literal(text, most)

    assert searching(pattern)(f"{around}{text}{around}")
    assert len(pattern) <= most
    assert most < 16 or searching(pattern)(around) == (text in around)


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(a|a)*$", "(.*.*)*x", "(a?){60}a{60}$"])
@pytest.mark.timeout(5)
def test_none_of_them_runs_away(pattern: str) -> None:
    assert searching(pattern)("a" * 254 + "!") is False


@pytest.mark.parametrize("pattern", ["(", "[a", "*", r"(?=a)", r"(a)\1", "(((a{999}){999}){999})"])
def test_what_is_none_or_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        searching(pattern)


@pytest.mark.parametrize(("text", "expected"), [("web-1", False), ("web.1", True), ("^w", True), ("", False)])
def test_only_a_text_with_special_characters_is_a_pattern(text: str, expected: bool) -> None:
    assert is_pattern(text) is expected
