"""Allocation ratios that aggregates set: the smallest of a host's aggregates overrides the host's own ratio.

>>> aggregate_ratios([{"cpu_allocation_ratio": "4"}, {"allocation_ratio:VCPU": "2.5", "kind": "ssd"}])
{'VCPU': 2.5}
>>> unusable_ratios({"ram_allocation_ratio": "much", "kind": "ssd"})
['ram_allocation_ratio']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zonesched.decimal_text import decimal_number
from zonesched.model.request_spec import DISK_GB, MEMORY_MB, VCPU

MAX_RATIO = 1_000_000.0
SCOPE = "allocation_ratio:"
"""Prefix of a resource class's name in the metadata key of its ratio."""

_NOVAS_KEYS: Mapping[str, str] = {
    "cpu_allocation_ratio": VCPU,
    "ram_allocation_ratio": MEMORY_MB,
    "disk_allocation_ratio": DISK_GB,
}


def aggregate_ratios(metadata_of_each: Iterable[Mapping[str, str]]) -> Mapping[str, float]:
    """Return the smallest ratio by resource class, among set values that are numbers from 0 to MAX_RATIO."""
    found: dict[str, float] = {}
    for metadata in metadata_of_each:
        for key, text in metadata.items():
            resource_class = _class_of(key)
            ratio = _ratio(text) if resource_class else None
            if ratio is not None:
                found[resource_class] = min(found.get(resource_class, MAX_RATIO), ratio)
    return found


def unusable_ratios(metadata: Mapping[str, str]) -> list[str]:
    """Return the keys of ratios whose value is not a ratio, sorted."""
    return sorted(key for key, text in metadata.items() if _class_of(key) and _ratio(text) is None)


def _class_of(key: str) -> str:
    """Return the resource class whose ratio the key sets; "" for any other key."""
    return _NOVAS_KEYS.get(key) or (key.removeprefix(SCOPE) if key.startswith(SCOPE) else "")


def _ratio(text: str) -> float | None:
    ratio = decimal_number(text)
    return ratio if ratio is not None and 0 <= ratio <= MAX_RATIO else None
