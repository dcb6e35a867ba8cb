"""Quantiles of measured times."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the first of the ordered values that has this share of them before it, or the last.

    >>> quantile([1.0, 2.0, 3.0, 4.0], 0.5)
    3.0
    """
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
