"""The result of one attack: each bound, and whether it held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .attack import Attack
from .condition import MOST_GROWN_MB
from .measuring import FLOOR_S, bound_s, p99
from .tree import SELECT_TIMEOUT_S

ROOT = "root"


@dataclass(frozen=True)
class Times:
    """Selects of the callers by zone, in seconds: in calm and during the attack.

    A select that is faster than `floor_s` is never late.
    """

    calm: Mapping[str, Sequence[float]]
    attacked: Mapping[str, Sequence[float]]
    floor_s: float = FLOOR_S

    def bounds(self, attack: Attack) -> Mapping[str, float]:
        """The bound of a select by zone.

        A caller whose select asks a silent child decides by its time budget how long it waits for it.
        """
        found = {zone: bound_s(seconds, self.floor_s) for zone, seconds in self.calm.items()}
        if attack.is_silent:
            found[ROOT] = SELECT_TIMEOUT_S + self.floor_s
        return found

    def late(self, attack: Attack) -> Sequence[str]:
        """A line for each caller with a select later than its bound."""
        lines = []
        for zone, bound in self.bounds(attack).items():
            attacked = self.attacked[zone]
            over = [seconds for seconds in attacked if seconds > bound]
            if over or not attacked:
                lines.append(
                    f"{zone}: {len(over)} of {len(attacked)} selects over {bound:.2f} s, the latest"
                    f" {max(attacked, default=0.0):.2f} (calm p99 {p99(self.calm[zone]):.3f})"
                )
        return lines


@dataclass(frozen=True)
class Verdict:
    """The measurements of one attack; the lists have a line for each bound that did not hold."""

    attack: Attack
    times: Times
    grown_mb: float
    answers: Mapping[str, int]
    late: Sequence[str] = ()
    unrecovered: Sequence[str] = ()
    leaks: Sequence[str] = ()
    broken: Sequence[str] = ()
    recovered_s: float = 0.0

    @property
    def over(self) -> Sequence[str]:
        """Every bound that did not hold, in words."""
        grown = [f"a process grew by {self.grown_mb:.0f} MB"] if self.grown_mb > MOST_GROWN_MB else []
        return [
            *(f"late: {line}" for line in self.late),
            *grown,
            *(f"unrecovered: {line}" for line in self.unrecovered),
            *(f"leaked: {text}" for text in self.leaks),
            *(f"broken: {line}" for line in self.broken),
        ]

    def line(self) -> str:
        """The verdict in one line."""
        latest = " ".join(
            f"{zone} {1000 * p99(self.times.calm[zone]):.0f}/{1000 * max(seconds, default=0.0):.0f}"
            for zone, seconds in self.times.attacked.items()
        )
        answers = " ".join(f"{status}:{count}" for status, count in self.answers.items()) or "none"
        return (
            f"{'OVER' if self.over else 'held'} {self.attack.name}: ms {latest};"
            f" +{max(0.0, self.grown_mb):.0f} MB; well after {self.recovered_s:.1f} s; answers {answers}"
        )


@dataclass
class Summary:
    """All verdicts of a run."""

    verdicts: list[Verdict] = field(default_factory=list)

    def numbers(self) -> dict[str, object]:
        """The totals: each count is of attacks, `grown_mb` the most that a process grew."""
        found = self.verdicts
        return {
            "attacks": len(found),
            "late": sum(1 for one in found if one.late),
            "grown_mb": round(max((one.grown_mb for one in found), default=0.0), 1),
            "unrecovered": sum(1 for one in found if one.unrecovered),
            "leaks": sum(1 for one in found if one.leaks),
            "broken": sum(1 for one in found if one.broken),
        }

    @property
    def is_over(self) -> bool:
        return any(one.over for one in self.verdicts)
