"""Options that are lists of name=number: metrics, image properties, cost functions.

>>> read_ratios(["load=1.0", "heat = -0.5"])
{'load': 1.0, 'heat': -0.5}
"""

from __future__ import annotations

import math
from collections.abc import Iterable


def read_ratios(items: Iterable[str]) -> dict[str, float]:
    """Return the numbers by name, in order. Raise ValueError whose text is the item that is refused."""
    found: dict[str, float] = {}
    for item in items:
        name, _, number = (part.strip() for part in item.rpartition("="))
        if not name or "=" in name or name in found or not _is_finite(number):
            raise ValueError(item)
        found[name] = float(number)
    return found


def _is_finite(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
