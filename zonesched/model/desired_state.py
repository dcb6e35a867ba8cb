"""Desired and observed state of a built instance.

Actions do not travel; desired states do. Each accepted action makes a desired state of the next generation,
and status and task state follow from the newest desired and the last observed state: nobody clears a flag.
An instance that never had an action has no row: its state is `NEW`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

from zonesched.model.instance_flavor import InstanceFlavor
from zonesched.model.instance_image import AS_BOOTED, InstanceImage
from zonesched.model.observed_state import NO_MOVES, NO_RESIZES, MoveCounts, Observed, Power, Resizes


class RebootType(enum.Enum):
    SOFT = "SOFT"
    HARD = "HARD"


@dataclass(frozen=True)
class Desired:
    """The state that an instance should have. A later generation replaces an earlier one whole.

    `reboots`: the generation of the last reboot, later than that of any which rows put back from a copy lack.
    `rebuilds` counts all that were asked for at its place. So a repeated message is no second one.
    `image`: the one of the last rebuild; `flavor`: the one of the last resize that was not reverted.
    """

    generation: int = 0
    power: Power = Power.RUNNING
    reboots: int = 0
    reboot_type: RebootType = RebootType.SOFT
    rebuilds: int = 0
    image: InstanceImage = AS_BOOTED
    resizes: Resizes = NO_RESIZES
    flavor: InstanceFlavor = AS_BOOTED


@dataclass(frozen=True)
class InstanceState:
    """Desired and observed state.

    `rebooted_by`, `rebuilt_by`: generation of the last reboot and rebuild, 0 without one. `image`: the one
    that it has; the desired one while it is not being rebuilt. `flavor`: the one that it has or, while a
    resize is done and not confirmed, the one that a revert gives back. `reclaim_at`: when it is deleted for
    good, in epoch seconds; 0 unless its owner has deleted it and may still restore it.
    """

    desired: Desired = field(default_factory=Desired)
    observed: Observed = field(default_factory=Observed)
    rebooted_by: int = 0
    rebuilt_by: int = 0
    image: InstanceImage = AS_BOOTED
    moves: MoveCounts = NO_MOVES
    flavor: InstanceFlavor = AS_BOOTED
    reclaim_at: float = 0.0

    @property
    def is_pending(self) -> bool:
        """Tell whether the desired state is newer than the observed one."""
        return self.desired.generation > self.observed.generation

    @property
    def is_moving(self) -> bool:
        """Tell whether a move is under way."""
        return self.moves.begun > self.moves.ended

    @property
    def is_rebooting(self) -> bool:
        return self.rebooted_by > self.observed.generation

    @property
    def is_rebuilding(self) -> bool:
        return self.rebuilt_by > self.observed.generation

    @property
    def is_resizing(self) -> bool:
        """Tell whether a resize was asked for and has not ended."""
        return self.desired.resizes.begun > self.observed.resizes.begun

    @property
    def is_reverting(self) -> bool:
        return self.desired.resizes.reverted > self.observed.resizes.reverted

    @property
    def present_flavor(self) -> InstanceFlavor:
        """The flavor that it has."""
        return self.desired.flavor if self.observed.resizes.is_open else self.flavor

    def refused(self, reason: str) -> Observed:
        """Return the observed state where the desired one is refused: all is as it was."""
        return replace(self.observed, generation=self.desired.generation, reason=reason)

    def wanting(self, desired: Desired) -> InstanceState:
        """Return this state with a later desired state."""
        has_reboot = desired.reboots > self.desired.reboots
        has_rebuild = desired.rebuilds > self.desired.rebuilds
        return replace(
            self,
            desired=desired,
            rebooted_by=desired.generation if has_reboot else self.rebooted_by,
            rebuilt_by=desired.generation if has_rebuild else self.rebuilt_by,
        )

    def observing(self, observed: Observed) -> InstanceState:
        """Return this state with a later observed state.

        A power, rebuild or resize that was not done is no longer desired: nothing later must bring it about.
        """
        desired, resizes = self.desired, observed.resizes
        is_confirmed = resizes.confirmed > self.observed.resizes.confirmed
        # Rows put back from a copy may lack a whole resize before the last one.
        is_confirmed &= not resizes.is_open and resizes.begun == desired.resizes.begun
        flavor = desired.flavor if is_confirmed else self.flavor
        if observed.power is Power.OFFLOADED:
            flavor, resizes = self.present_flavor, NO_RESIZES
            observed = replace(observed, resizes=resizes)
        is_rebuilt = observed.rebuilds >= desired.rebuilds
        image = desired.image if is_rebuilt else self.image
        if observed.generation == desired.generation:
            desired = replace(desired, rebuilds=observed.rebuilds, image=image, resizes=resizes)
            desired = replace(desired, flavor=desired.flavor if resizes.is_open else flavor)
            if observed.reason and observed.power is not Power.OFFLOADED:
                desired = replace(desired, power=observed.power)
            if not is_rebuilt and not observed.reason:
                # A driver that knows no rebuilds has acted on the rest.
                observed = replace(observed, reason="rebuild_unsupported")
        # The moves of a later place are counted anew, in whatever zone it is.
        moves = NO_MOVES if observed.power is Power.OFFLOADED else self.moves
        return replace(
            self,
            desired=desired,
            observed=observed,
            image=image,
            moves=moves,
            flavor=flavor,
            reclaim_at=0.0 if self._is_refused(observed) else self.reclaim_at,
        )

    def _is_refused(self, observed: Observed) -> bool:
        """Tell whether the newest desired state is refused, and the instance still has its memory."""
        is_new = self.observed.generation < observed.generation == self.desired.generation
        return is_new and observed.reason != "" and observed.power not in (Power.STOPPED, Power.OFFLOADED)


NEW = InstanceState()


def is_news(state: InstanceState, observed: Observed) -> bool:
    """Tell whether a report says more than the last one; an old, repeated or impossible one does not.

    Within one generation only a server that ended or has no place is news: nothing but a later generation
    starts it again, so a late copy of an earlier report cannot bring it back.
    """
    known = state.observed
    if observed.generation != known.generation:
        return known.generation < observed.generation <= state.desired.generation
    if known.power is Power.OFFLOADED or observed.power is known.power:
        return False
    return observed.power is Power.OFFLOADED or (observed.power is Power.STOPPED and observed.reason != "")


class Result(enum.Enum):
    """Result of an action. SUPERSEDED: a later action's state was reached first."""

    DONE = "done"
    ERROR = "error"
    SUPERSEDED = "superseded"
