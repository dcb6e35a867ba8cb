"""What the aggregates of a host say together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zonesched.model.aggregate import Aggregate


def values_by_key(aggregates: Iterable[Aggregate]) -> Mapping[str, frozenset[str]]:
    """Every value of each key in the metadata of all aggregates; a value may name several with commas."""
    found: dict[str, set[str]] = {}
    for aggregate in aggregates:
        for key, text in aggregate.metadata.items():
            found.setdefault(key, set()).update(_values(text))
    return {key: frozenset(values) for key, values in found.items()}


def values_of(aggregates: Iterable[Aggregate], key: str) -> frozenset[str]:
    """Every value of one key; empty where no aggregate has it."""
    texts = (aggregate.metadata.get(key, "") for aggregate in aggregates)
    return frozenset(value for text in texts for value in _values(text))


def _values(text: str) -> set[str]:
    return {value.strip() for value in text.split(",")} - {""}
