"""How long an agent's promise to end its instances takes to be kept."""

from __future__ import annotations

MARGIN_S, MARGIN_SHARE = 5.0, 0.1
"""Time to end all instances, and the share of the fence time by which two clocks may run apart."""


def fenced_after_s(fence_after_s: float) -> float:
    """Seconds without a heartbeat after which nothing runs on the hosts of an agent that fences."""
    return fence_after_s * (1.0 + MARGIN_SHARE) + MARGIN_S
