"""One hostile neighbour in some seeds, drawn apart from everything else: nothing at all in the others."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from tests.simulation.child_liar import ChildLiar
from tests.simulation.liar import Liar
from tests.simulation.parent_liar import ParentLiar
from tests.simulation.plan import Plan
from tests.simulation.site import Site
from tests.simulation.stage import Stage

SHARE = 0.12


def liar_of(stage: Stage, plan: Plan, sites: Mapping[str, Site]) -> Liar:
    """Return the hostile neighbour of a seed; one that does nothing in most seeds."""
    draw = random.Random(f"lies/{stage.seed}")
    below = [zone for zone in plan.zones if zone.parent]
    if draw.random() >= SHARE or not below:
        return Liar()
    chosen = draw.choice(below)
    if draw.random() < 0.6:
        subtree = _subtree(plan, chosen.name)
        return ChildLiar(stage, sites[chosen.parent], sites[chosen.name], subtree, draw)
    return ParentLiar(stage, sites[chosen.name], draw)


def _subtree(plan: Plan, top: str) -> Sequence[str]:
    names = [top]
    for zone in plan.zones:
        if zone.parent in names:
            names.append(zone.name)
    return names
