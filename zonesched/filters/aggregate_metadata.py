"""What the aggregates of a host say together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zonesched.model.aggregate import Aggregate


def values_by_key(aggregates: Iterable[Aggregate]) -> Mapping[str, frozenset[str]]:
    """Every value of each key in the metadata of all aggregates; a value may name several with commas."""
    found: dict[str, set[str]] = {}
    for aggregate in aggregates:
        for key, text in aggregate.metadata.items():
            found.setdefault(key, set()).update(value.strip() for value in text.split(","))
    return {key: frozenset(values - {""}) for key, values in found.items()}


def values_of(aggregates: Iterable[Aggregate], key: str) -> frozenset[str]:
    """Every value of one key; empty where no aggregate has it."""
    return values_by_key(aggregates).get(key, frozenset())
