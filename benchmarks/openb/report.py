"""The one line of JSON that a replay ends with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any

from .checker import Findings
from .history import History
from .replay import Record
from .trace import CLASSES, Node


def report(
    record: Record, history: History, findings: Findings, nodes: Sequence[Node], audit_inconsistencies: int
) -> dict[str, Any]:
    """Everything that was measured; milliseconds are per boot, from its request to its outcome."""
    seconds = sum(record.seconds)
    return {
        "placed": record.placed,
        "refused": dict(sorted(record.refused.items())),
        "refused_by": dict(sorted(record.refused_by.items())),
        "p50_ms": milliseconds(record.seconds, 0.50),
        "p99_ms": milliseconds(record.seconds, 0.99),
        "boots_per_s": round(len(record.seconds) / seconds, 2) if seconds else 0.0,
        "peak_used": _peak_used(history.peak, nodes),
        "audit_inconsistencies": audit_inconsistencies,
        "no_single_card": history.no_single_card,
        "over_committed": len(history.over_committed) + len(findings.over_committed),
        "lost": len(findings.lost) + len(record.undecided),
        "double_placed": len(findings.double_placed),
        "stray_claims": len(findings.stray),
        "deleted": record.deleted,
    }


def faults(
    record: Record, history: History, findings: Findings, inconsistencies: Set[tuple[str, ...]]
) -> list[str]:
    """Everything that must not be, in words; nothing for a good run."""
    return [
        *history.over_committed,
        *findings.lines,
        *(f"neither claimed nor refused: {name}" for name in record.undecided),
        *(f"audit: {' '.join(inconsistency)}" for inconsistency in sorted(inconsistencies)),
    ]


def milliseconds(seconds: Sequence[float], share: float) -> float:
    """The smallest of the times that at least this share of them does not exceed; 0 without any."""
    if not seconds:
        return 0.0
    rank = max(1, math.ceil(share * len(seconds)))
    return round(sorted(seconds)[rank - 1] * 1000, 2)


def _peak_used(peak: Mapping[str, int], nodes: Sequence[Node]) -> dict[str, Any]:
    capacity: Counter[str] = Counter()
    for node in nodes:
        capacity.update(node.capacity)
    return {
        name: {
            "amount": peak[name],
            "capacity": capacity[name],
            "fraction": round(peak[name] / capacity[name], 4) if capacity[name] else 0.0,
        }
        for name in CLASSES
    }
