"""Union of a zone's and its children's info, the zone's own items first, within a parent's limits.

Each part has the limits of `zones.answers` and a share of an answer's bytes, so that a child's large info
cannot make its parent's answer too large.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Generic, NamedTuple, TypeVar

from zonesched.scheduler.scale import Range, merge_ranges
from zonesched.zones.answers import MAX_CAPABILITIES, MAX_INFO_ITEMS, MAX_RAW_VALUE, WEIGHER_NAME

NAME_BYTES = 300_000
"""Limit of bytes for the names in one part of the answer: an answer has five, and 4 MiB at max_items."""

VALUE_BYTES = 4096
"""Limit of bytes for the values of one capability."""

T = TypeVar("T")


class Reported(NamedTuple, Generic[T]):
    """Part of the answer; `whole` is false if something was left out."""

    part: T
    whole: bool


def texts(own: Set[str], below: Iterable[Set[str]]) -> Reported[list[str]]:
    """Collect all names, sorted."""
    names = frozenset(own).union(*below)
    listed = _own_first(own, names, MAX_INFO_ITEMS)
    return Reported(sorted(listed), len(listed) == len(names))


def ranges(own: Mapping[str, Range], below: Iterable[Mapping[str, Range]]) -> Reported[dict[str, str]]:
    """Merge the ranges by name, in the documents' form "min,max".

    An end that no parent reads becomes the last that it does: a value beyond it keeps its order there. A name
    that no parent reads is left out.
    """
    merged = merge_ranges(own, *below)
    named = {name for name in merged if WEIGHER_NAME.fullmatch(name)}
    listed = _own_first(own.keys() & named, named, MAX_INFO_ITEMS)
    lines = {name: f"{_end(merged[name].low)!r},{_end(merged[name].high)!r}" for name in sorted(listed)}
    return Reported(lines, len(listed) == len(merged))


def _end(value: float) -> float:
    return min(max(value, -MAX_RAW_VALUE), MAX_RAW_VALUE)


def capabilities(
    own: Mapping[str, frozenset[str]], below: Iterable[Mapping[str, frozenset[str]]]
) -> Reported[list[str]]:
    """Merge capabilities into lines of "key=value;value", sorted by key."""
    merged: dict[str, frozenset[str]] = {}
    for one in (own, *below):
        for key, values in one.items():
            merged[key] = merged.get(key, frozenset()) | values
    names = _own_first(own.keys(), merged.keys(), MAX_CAPABILITIES)
    whole = len(names) == len(merged)
    lines = []
    for key in sorted(names):
        listed = _own_first(own.get(key, frozenset()), merged[key], MAX_INFO_ITEMS, VALUE_BYTES)
        whole = whole and len(listed) == len(merged[key])
        lines.append(f"{key}={';'.join(sorted(listed))}")
    return Reported(lines, whole)


def _own_first(own: Set[str], names: Set[str], max_items: int, max_bytes: int = NAME_BYTES) -> list[str]:
    listed: list[str] = []
    for name in (*sorted(own), *sorted(names - own)):
        max_bytes -= len(name.encode("utf-8", "surrogatepass")) + 1
        if max_bytes < 0 or len(listed) == max_items:
            break
        listed.append(name)
    return listed
