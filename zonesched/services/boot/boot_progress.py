"""Progress of a boot and the next step of its worker, as pure functions of rows.

Send      builds are decided and unanswered: ask the children (again)
Place     instances without a place: take the next offers, or select
Wait      until a hold that a child may still have expires, or for a zone that did not answer, unless enough
          is held to confirm it meanwhile
GiveUp    fewer than min_count can be placed: cancel and release everything
DropHeld  an affinity request that lost a part: cancel the rest and place all of it again
DropLate  holds too short to confirm: cancel them and place again
Confirm   enough is held: confirm it everywhere
Close     no further instance can be placed: end those without a place in ERROR
Finish    all is decided, or only confirms are unanswered, which the calls loop repeats
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from zonesched.model.placement import (
    COUNTED_STATUSES,
    LIVING_STATUSES,
    OCCUPYING,
    InstanceStatus,
    PlacementState,
)
from zonesched.model.present_request import AS_REQUESTED, PresentForm
from zonesched.store.instances import Member
from zonesched.store.placements import Placement

State = PlacementState


class Step(enum.Enum):
    SEND = "send"
    PLACE = "place"
    WAIT = "wait"
    GIVE_UP = "give_up"
    DROP_HELD = "drop_held"
    DROP_LATE = "drop_late"
    CONFIRM = "confirm"
    CLOSE = "close"
    FINISH = "finish"


@dataclass(frozen=True)
class Progress:
    """The living instances of a reservation, grouped by the state of their present placement.

    `retried`: uuids of instances of which a build has failed on its host, and of those that are unshelved.
    Their places count in none of `wanted`, `promised` and `possible`: they were built before, and their loss
    ends none of the others. `kept`: uuids of those that were shelved, or have left their hosts, and rest or
    are placed again: each counts as one that has a place, since it rests again where it finds none.
    `needing` are of one form: `later` as many need a place next, of another flavor or image, since they were
    resized or rebuilt. `forms`: those of such instances, by uuid.
    """

    needing: tuple[Member, ...]
    unanswered: tuple[Placement, ...]
    waiting: tuple[Placement, ...]
    held: tuple[Placement, ...]
    confirming: tuple[Placement, ...]
    confirmed: tuple[Placement, ...]
    retried: frozenset[str] = frozenset()
    kept: tuple[str, ...] = ()
    failed_builds: int = 0
    later: int = 0
    forms: Mapping[str, PresentForm] = field(default_factory=dict)

    @property
    def form(self) -> PresentForm:
        """The form of those that need a place."""
        return self.needing[0].form if self.needing else AS_REQUESTED

    @property
    def form_count(self) -> int:
        """The number of forms, that of the boot included, for each of which its instances need a select."""
        changed: list[PresentForm] = []
        for form in self.forms.values():
            if form not in changed:
                changed.append(form)
        return 1 + len(changed)

    @property
    def promised(self) -> int:
        """The number of instances that have a place now, or need none to be kept."""
        return self._counted((*self.held, *self.confirming, *self.confirmed)) + len(self.kept)

    @property
    def wanted(self) -> int:
        """The number of instances that have a place or still need one."""
        return self.promised + self._counted((*self.needing, *self.unanswered, *self.waiting))

    @property
    def needs_batch(self) -> bool:
        """Tell whether an instance needs a place together with the others of an affinity request."""
        return any(not one.is_unshelving for one in self.needing)

    def possible(self, offered: int) -> int:
        """Return how many instances have a place after `offered` more entries, in the order of `needing`."""
        return self.promised + self._counted((*self.waiting, *self.needing[:offered]))

    def _counted(self, those: Sequence[Member | Placement]) -> int:
        return sum(one.uuid not in self.retried for one in those) if self.retried else len(those)

    @property
    def once_held(self) -> Progress:
        """The progress once children hold all that is unanswered."""
        return replace(self, unanswered=(), held=self.held + self.unanswered)

    def unanswered_by_form(self) -> Sequence[tuple[PresentForm, Sequence[Placement]]]:
        """Group the unanswered builds by the forms of their instances, all of a new boot in one."""
        groups: list[tuple[PresentForm, list[Placement]]] = []
        for place in self.unanswered:
            form = self.forms.get(place.uuid, AS_REQUESTED)
            alike = next((places for other, places in groups if other == form), None)
            if alike is None:
                groups.append((form, [place]))
            else:
                alike.append(place)
        return groups

    def late(self, now: float, hold_margin_s: float) -> tuple[Placement, ...]:
        """Return the holds that would expire too soon after a confirm."""
        return tuple(p for p in self.held if p.hold_expires_at < now + hold_margin_s)


def progress(members: Sequence[Member], placements: Sequence[Placement]) -> Progress:
    """Group the living instances by their present placement; ended instances do not count."""
    by_key = {p.key: p for p in placements}
    needing: list[Member] = []
    kept: list[str] = []
    groups: dict[PlacementState, list[Placement]] = {state: [] for state in State}
    for member in members:
        if member.status in COUNTED_STATUSES and member.is_unshelving:
            kept.append(member.uuid)
        if member.status not in LIVING_STATUSES:
            continue
        placement = by_key.get((member.uuid, member.attempt))
        if member.status is InstanceStatus.ACTIVE and placement and placement.state is State.RELEASING:
            # It was shelved, and its agent has yet to end it.
            kept.append(member.uuid)
            continue
        if placement is None or placement.state not in OCCUPYING:
            needing.append(member)
        else:
            groups[placement.state].append(placement)
    retried = frozenset(one.uuid for one in members if one.failed_builds or one.is_unshelving)
    # The batch first: offers go to the instances whose loss would end it.
    needing.sort(key=lambda one: one.uuid in retried)
    alike = tuple(one for one in needing if one.form == needing[0].form)
    return Progress(
        needing=alike,
        unanswered=tuple(groups[State.INTENDED]),
        waiting=tuple(groups[State.CANCELLING]),
        held=tuple(groups[State.HELD]),
        confirming=tuple(groups[State.CONFIRMING]),
        # It returns to a parked place from a move that has failed.
        confirmed=(*groups[State.CONFIRMED], *groups[State.PARKED]),
        retried=retried,
        kept=tuple(kept),
        failed_builds=sum(one.failed_builds for one in members),
        later=len(needing) - len(alike),
        forms={one.uuid: one.form for one in members if one.form is not AS_REQUESTED},
    )


def with_places(at: Progress, made: Sequence[Placement]) -> Progress | None:
    """Return the progress after a place was written for each that needed one; None if some have none."""
    unanswered = tuple(p for p in made if p.state is State.INTENDED)
    held = tuple(p for p in made if p.state is State.HELD)
    if at.later or len(unanswered) + len(held) != len(at.needing):
        return None
    return replace(at, needing=(), unanswered=at.unanswered + unanswered, held=at.held + held)


def with_holds(at: Progress, held: Sequence[Placement]) -> Progress | None:
    """Return the progress after children hold all that was unanswered; None if something else became of some.

    `held`: those placements as they are now, in any order.
    """
    by_key = {p.key: p for p in held}
    if by_key.keys() != {p.key for p in at.unanswered}:
        return None
    return replace(at, unanswered=(), held=at.held + tuple(by_key[p.key] for p in at.unanswered))


def next_step(
    at: Progress,
    *,
    min_count: int,
    whole: bool,
    can_place: bool,
    now: float,
    hold_margin_s: float,
    places_at: float = 0.0,
) -> Step:
    """Return the next step; `can_place` is false once neither offers nor selects are left.

    `places_at` (epoch seconds): the next select runs no earlier, so that zones that did not answer get time.
    `min_count`: without the instances that their user has deleted. `whole`: the instances go to one place
    together (affinity).
    """
    if at.unanswered:
        return Step.SEND
    if whole and at.needs_batch and (at.held or at.waiting or at.confirming or at.confirmed):
        return _regroup(at)
    if at.needing and now < places_at:
        return Step.WAIT
    if at.needing and can_place:
        return Step.PLACE
    is_enough = at.promised >= min_count
    if at.waiting and not (at.held and is_enough):
        return Step.WAIT
    if not is_enough:
        return Step.GIVE_UP
    if at.held:
        return Step.DROP_LATE if at.late(now, hold_margin_s) else Step.CONFIRM
    return Step.CLOSE if at.needing else Step.FINISH


def _regroup(at: Progress) -> Step:
    if at.confirming or at.confirmed:
        return Step.GIVE_UP
    return Step.DROP_HELD if at.held else Step.WAIT
