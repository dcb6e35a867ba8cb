"""Desired states on their way from a zone to the child that has the instances, and the child's answers."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace

from zonesched.model.desired_state import Desired, InstanceState
from zonesched.model.observed_state import NO_RESIZES, Power, Resizes
from zonesched.model.placement import Attempt
from zonesched.model.request_spec import Flavor, Image

MAX_PER_CALL = 1000

MAX_IMAGES = 8
"""Different images in one call, and likewise different flavors."""


@dataclass(frozen=True)
class DesiredOf:
    """The desired state of one attempt of an instance."""

    uuid: str
    attempt: int
    desired: Desired

    @property
    def key(self) -> Attempt:
        return Attempt(self.uuid, self.attempt)


class Taken(enum.Enum):
    """STORED: the child has this desired state or a later one. GONE: it does not have the attempt.

    DIFFERENT: it has another desired state of the same generation, since one of the two databases was put
    back from a copy. UNSUPPORTED: it is of a version without this call, or without lines of this form.
    """

    STORED = "stored"
    DIFFERENT = "different"
    GONE = "gone"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True)
class DesiredAnswer:
    """A child's answer for one attempt; the numbers are those that it has stored, 0 where it has none."""

    uuid: str
    attempt: int
    taken: Taken
    generation: int = 0
    reboots: int = 0
    rebuilds: int = 0
    resizes: Resizes = NO_RESIZES

    @property
    def key(self) -> Attempt:
        return Attempt(self.uuid, self.attempt)


def by_form(told: Sequence[DesiredOf]) -> Sequence[Sequence[DesiredOf]]:
    """Group desired states whose lines have the same members, power, image and flavor.

    The lines of a group differ in ids and counts alone, so a zone that can read one of them can read all.
    """
    groups: list[tuple[tuple[object, ...], list[DesiredOf]]] = []
    for one in told:
        desired = one.desired
        has = (bool(desired.rebuilds), desired.resizes != NO_RESIZES)
        form = (*has, desired.power, desired.reboot_type, desired.image, desired.flavor)
        lines = next((lines for known, lines in groups if known == form), None)
        if lines is None:
            groups.append((form, [one]))
        else:
            lines.append(one)
    return [lines for _, lines in groups]


def contradicts(known: InstanceState, desired: Desired) -> bool:
    """Tell whether what is known of a generation is another desired state than the one of a call.

    What was refused is no longer desired here, so a repeat that asks for it is the same.
    """
    stored, observed = known.desired, known.observed
    if stored.generation != desired.generation:
        return False
    if observed.generation == stored.generation and observed.reason:
        return stored.reboots != desired.reboots
    return _asked(stored) != _asked(desired)


def _asked(desired: Desired) -> tuple[Power, int, int, Resizes]:
    return desired.power, desired.reboots, desired.rebuilds, desired.resizes


def with_image(known: InstanceState, desired: Desired) -> InstanceState:
    """Return a state with the image of its last rebuild, of which only the count was known.

    An agent said how many there were to rows that were put back from a copy. The image of as many is told by
    this desired state or by a later one.
    """
    stored = known.desired
    is_same = desired.generation >= stored.generation and desired.rebuilds == stored.rebuilds
    is_known = not stored.rebuilds or isinstance(stored.image, Image)
    if not is_same or is_known or not isinstance(desired.image, Image):
        return known
    is_done = known.observed.rebuilds >= stored.rebuilds
    image = desired.image if is_done else known.image
    return replace(known, desired=replace(stored, image=desired.image), image=image)


def told(before: Desired, desired: Desired) -> Desired:
    """Return a parent's desired state as a child stores it.

    Only a rebuild that the child does not have yet comes with its image, and only a resize with its flavor.
    A parent that was put back from a copy lacks some; those stay.
    """
    stored = desired
    if not (desired.rebuilds > before.rebuilds and isinstance(desired.image, Image)):
        stored = replace(stored, rebuilds=before.rebuilds, image=before.image)
    if desired.resizes.lacks(before.resizes):
        return replace(stored, resizes=before.resizes, flavor=before.flavor)
    if desired.resizes.begun <= before.resizes.begun:
        return replace(stored, flavor=before.flavor)
    if isinstance(desired.flavor, Flavor):
        return stored
    return replace(stored, resizes=before.resizes, flavor=before.flavor)
