"""Options that are lists of name=number: metrics, image properties, cost functions.

>>> read_ratios(["load=1.0", "heat = -0.5"])
{'load': 1.0, 'heat': -0.5}
"""

from __future__ import annotations

from collections.abc import Iterable

from zonesched.decimal_text import decimal_number


def read_ratios(items: Iterable[str]) -> dict[str, float]:
    """Return the numbers by name, in order. Raise ValueError whose text is the item that is refused."""
    found: dict[str, float] = {}
    for item in items:
        name, _, text = (part.strip() for part in item.rpartition("="))
        number = decimal_number(text)
        if not name or "=" in name or name in found or number is None:
            raise ValueError(item)
        found[name] = number
    return found
