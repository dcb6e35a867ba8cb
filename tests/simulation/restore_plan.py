"""Restores of a seed, drawn apart from everything else: none in most, so that these play as before."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.simulation.restore_points import BUILD, MOVES
from tests.simulation.theme import OLD_ENTRIES, theme_of
from tests.simulation.tree_plan import ZonePlan

SHARE = 0.1
SHARE_BESIDE_LIAR = 0.3
"""Share of the seeds with a hostile neighbour, which are few, in which a zone is put back too."""

LATEST_COPY_S = 7.0
BETWEEN_S = (0.5, 9.0)


@dataclass(frozen=True)
class RestorePlan:
    """A zone is copied, and the copy is put back, so many seconds after the storm begins.

    `awaits`: a move or a build that is under way then, or at the time of the copy where `is_copied_in`.
    """

    zone: str
    copied_at_s: float
    restored_at_s: float
    awaits: str = ""
    is_copied_in: bool = False


def restores_of(
    seed: int, zones: Sequence[ZonePlan], *, beside_liar: bool, lied_to: str = ""
) -> tuple[RestorePlan, ...]:
    """Draw the restores: of a root, a leaf or a zone between; in some seeds again, or of a neighbour too."""
    if theme_of(seed).is_restored and len(zones) > 1 and not beside_liar:
        return (_awaiting(seed, zones),)
    draw = random.Random(f"restores/liar/{seed}" if beside_liar else f"restores/{seed}")
    if draw.random() >= (SHARE_BESIDE_LIAR if beside_liar else SHARE):
        return ()
    first = _drawn(draw, zones)
    if lied_to and draw.random() < 0.7:
        (first,) = (zone for zone in zones if zone.name == lied_to)
    made = [_restore(draw, first.name, 0.5)]
    kind = draw.random()
    if kind < 0.25:
        made.append(_restore(draw, first.name, draw.choice((made[0].copied_at_s, made[0].restored_at_s))))
    elif kind < 0.5:
        near = [one for one in zones if one.name == first.parent or one.parent == first.name]
        made += [_restore(draw, draw.choice(near).name, 0.5)] if near else []
    return tuple(_at_once(seed, made))


def _at_once(seed: int, plans: Sequence[RestorePlan]) -> list[RestorePlan]:
    """Let every second one of two neighbours be put back together with the other one."""
    draw = random.Random(f"restores/at once/{seed}")
    first, *others = plans
    return [
        first,
        *(
            one
            if one.zone == first.zone or draw.random() < 0.5
            else replace(
                one,
                copied_at_s=first.copied_at_s + draw.uniform(0.0, 0.5),
                restored_at_s=first.restored_at_s + draw.uniform(0.0, 0.5),
            )
            for one in others
        ),
    ]


def _awaiting(seed: int, zones: Sequence[ZonePlan]) -> RestorePlan:
    """Draw the restore that the seed's theme wants: in a move, or while builds are on their way."""
    draw = random.Random(f"restores/awaiting/{seed}")
    if theme_of(seed).fault == OLD_ENTRIES:
        return replace(_restore(draw, draw.choice(zones[1:]).name, 0.0), awaits=BUILD)
    drawn = _restore(draw, _drawn(draw, zones).name, 0.5)
    return replace(drawn, awaits=draw.choice(MOVES), is_copied_in=draw.random() < 0.4)


def _drawn(draw: random.Random, zones: Sequence[ZonePlan]) -> ZonePlan:
    parents = {zone.parent for zone in zones}
    root, *below = zones
    middles = [zone for zone in below if zone.name in parents]
    leaves = [zone for zone in below if zone.name not in parents]
    kinds = [[root], middles, middles, leaves, leaves, leaves]
    return draw.choice(draw.choice([kind for kind in kinds if kind]))


def _restore(draw: random.Random, zone: str, from_s: float) -> RestorePlan:
    copied_at_s = from_s + draw.uniform(0.0, LATEST_COPY_S)
    return RestorePlan(zone, copied_at_s, copied_at_s + draw.uniform(*BETWEEN_S))
