"""Metadata of all aggregates of a host together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zonesched.model.aggregate import Aggregate


def values_by_key(aggregates: Iterable[Aggregate]) -> Mapping[str, frozenset[str]]:
    """Return every value of each key; a text holds several values, separated by commas.

    An empty text is one empty value, as in OpenStack Compute: a key without a value is not a missing key.
    """
    found: dict[str, set[str]] = {}
    for aggregate in aggregates:
        for key, text in aggregate.metadata.items():
            found.setdefault(key, set()).update(_values(text))
    return {key: frozenset(values) for key, values in found.items()}


def values_of(aggregates: Iterable[Aggregate], key: str) -> frozenset[str]:
    """Return every value of one key; empty where no aggregate has the key."""
    texts = (aggregate.metadata[key] for aggregate in aggregates if key in aggregate.metadata)
    return frozenset(value for text in texts for value in _values(text))


def _values(text: str) -> set[str]:
    return {value.strip() for value in text.split(",")}
