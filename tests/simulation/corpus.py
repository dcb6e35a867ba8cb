"""The corpus: few seeds that together meet every row and point, in `corpus.json`; CI plays them.

Each name is one seed's to meet. `unmet` has the names that no seed played so far has met.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.reach_points import POINTS
from tests.simulation.reach_rows import rows

PATH = Path(__file__).with_name("corpus.json")
EVERY_NAME: Sequence[str] = (*rows(), *POINTS)


@dataclass(frozen=True)
class Corpus:
    """Names of rows and points by the seed that has to meet them, and the names without a seed."""

    meets: Mapping[int, Sequence[str]]
    unmet: Sequence[str]


def read() -> Corpus:
    """Read the stored corpus."""
    stored = json.loads(PATH.read_text())
    return Corpus({int(seed): names for seed, names in stored["meets"].items()}, stored["unmet"])


def write(corpus: Corpus) -> None:
    """Store a corpus in place of the former one."""
    PATH.write_text(json.dumps({"meets": corpus.meets, "unmet": corpus.unmet}, indent=1) + "\n")


def smallest(met: Mapping[int, Collection[str]], cpu_s: Mapping[int, float]) -> Corpus:
    """Choose cheap seeds that meet all that these seeds have met; `cpu_s`: what each costs.

    The seed with the most new names for its time comes first; one whose names others have is left out again.
    """
    names = {seed: frozenset(found) & frozenset(EVERY_NAME) for seed, found in met.items()}
    chosen: list[int] = []
    left = _union(names.values())
    while left:
        best = max(sorted(names), key=lambda seed: len(names[seed] & left) / max(cpu_s[seed], 0.05))
        chosen.append(best)
        left -= names[best]
    for seed in sorted(chosen, key=lambda seed: -cpu_s[seed]):
        if names[seed] <= _union(names[other] for other in chosen if other != seed):
            chosen.remove(seed)
    seed_of = {name: seed for seed in sorted(chosen, reverse=True) for name in names[seed]}
    meets = {seed: [name for name in EVERY_NAME if seed_of.get(name) == seed] for seed in sorted(chosen)}
    return Corpus(meets, [name for name in EVERY_NAME if name not in seed_of])


def per_thousand(met: Iterable[Collection[str]]) -> Mapping[str, float]:
    """Return how many of 1,000 seeds meet each row and point."""
    played = list(met)
    return {
        name: round(1000 * sum(name in found for found in played) / max(1, len(played)), 1)
        for name in EVERY_NAME
    }


def _union(found: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*found)
