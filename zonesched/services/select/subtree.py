"""What a zone and its children have together: its own first, and no more than a parent reads.

Each part is limited as `zones.answers` limits it, and to a share of an answer's bytes; so a child that tells
of very much cannot make its parent's own answer one that nobody takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Generic, NamedTuple, TypeVar

from zonesched.scheduler.scale import Range, merge_ranges
from zonesched.zones.answers import MAX_CAPABILITIES, MAX_INFO_ITEMS

NAME_BYTES = 300_000
"""Of the names in one part of the answer: an answer has five, and 4 MiB at most."""

VALUE_BYTES = 4096
"""Of the values of one capability."""

T = TypeVar("T")


class Told(NamedTuple, Generic[T]):
    """A part of the answer; `whole` is false where something was left out."""

    part: T
    whole: bool


def texts(own: Set[str], below: Iterable[Set[str]]) -> Told[list[str]]:
    """All names that occur, sorted."""
    names = frozenset(own).union(*below)
    kept = _own_first(own, names, MAX_INFO_ITEMS)
    return Told(sorted(kept), len(kept) == len(names))


def ranges(own: Mapping[str, Range], below: Iterable[Mapping[str, Range]]) -> Told[dict[str, str]]:
    """The documents' form of each range, "min,max" over all that occur, by name."""
    merged = merge_ranges(own, *below)
    kept = _own_first(own.keys(), merged.keys(), MAX_INFO_ITEMS)
    told = {name: f"{merged[name].low!r},{merged[name].high!r}" for name in sorted(kept)}
    return Told(told, len(kept) == len(merged))


def capabilities(
    own: Mapping[str, frozenset[str]], below: Iterable[Mapping[str, frozenset[str]]]
) -> Told[list[str]]:
    """Lines of "key=value;value" with all values that occur, sorted by key."""
    merged: dict[str, frozenset[str]] = {}
    for one in (own, *below):
        for key, values in one.items():
            merged[key] = merged.get(key, frozenset()) | values
    told = _own_first(own.keys(), merged.keys(), MAX_CAPABILITIES)
    whole = len(told) == len(merged)
    lines = []
    for key in sorted(told):
        kept = _own_first(own.get(key, frozenset()), merged[key], MAX_INFO_ITEMS, VALUE_BYTES)
        whole = whole and len(kept) == len(merged[key])
        lines.append(f"{key}={';'.join(sorted(kept))}")
    return Told(lines, whole)


def _own_first(own: Set[str], names: Set[str], most: int, most_bytes: int = NAME_BYTES) -> list[str]:
    kept: list[str] = []
    for name in (*sorted(own), *sorted(names - own)):
        most_bytes -= len(name.encode("utf-8", "surrogatepass")) + 1
        if most_bytes < 0 or len(kept) == most:
            break
        kept.append(name)
    return kept
