"""Desired states numbered anew, above those of a child that knows more.

Rows here or there were put back from a copy.
"""

from __future__ import annotations

from dataclasses import astuple, replace

from zonesched.model.desired_call import DesiredAnswer, Taken
from zonesched.model.desired_state import Desired, InstanceState
from zonesched.model.instance_image import AsBooted
from zonesched.model.named_boot import GivenBack
from zonesched.model.observed_state import MAX_ADOPTED, Resizes, is_ahead


def is_overtaken(state: InstanceState, told: Desired, answer: DesiredAnswer) -> bool:
    """Tell whether the child knows a later generation, or another desired state of the one it was told."""
    # Another process may have told the same, and have numbered it anew or seen its end since.
    is_other = answer.taken is Taken.DIFFERENT and state.is_pending
    # The next one could not be told to any zone.
    is_other &= told.generation == state.desired.generation and answer.generation <= MAX_ADOPTED
    return is_ahead(answer.generation, state.desired.generation) or is_other


def may_lack(state: InstanceState, answer: DesiredAnswer) -> bool:
    """Tell whether the child may know an image or a flavor that is not known here."""
    return _lacks_image(state, answer) or _may_lack_flavor(state, answer)


def knows_count_alone(answer: DesiredAnswer, theirs: GivenBack | None) -> bool:
    """Tell whether a child knows of its rebuilds only how many an agent has done, and not the last image.

    It was put back from a copy. `theirs`: as it was given back, in the child's own terms.
    """
    return bool(answer.rebuilds) and theirs is not None and isinstance(theirs.desired.image, AsBooted)


def overtaking(
    state: InstanceState, answer: DesiredAnswer, theirs: GivenBack | None, *, count_alone: bool = False
) -> InstanceState:
    """Return the state with a generation above the child's, which may have told its agent of its own since.

    What is under way here comes on top of what the child was told. `theirs`: the image and the flavor that
    it has given back; None where it did not have the instance. `count_alone`: it lacks the image of its last
    rebuild. Where that is the one under way here, an agent has done it, and it is not asked for once more.
    """
    generation = max(answer.generation, state.desired.generation) + 1
    asked, done = state.desired.resizes, state.observed.resizes
    is_rebuild, is_resize = _is_rebuild_wanted(state), asked.begun > done.begun
    # A lying child counts any number: the next one could not be told to any zone.
    rebuilds = min(answer.rebuilds, MAX_ADOPTED)
    begun, confirmed, reverted = (min(count, MAX_ADOPTED) for count in astuple(answer.resizes))
    is_done = count_alone and is_rebuild and rebuilds == state.desired.rebuilds
    after = numbered(state, generation, reboots=answer.reboots, rebuilds=rebuilds - is_done)
    resizes = Resizes(
        begun + is_resize,
        confirmed + (asked.confirmed > done.confirmed),
        reverted + (asked.reverted > done.reverted),
    )
    desired = replace(after.desired, resizes=resizes)
    if theirs is not None and not is_done and _lacks_image(state, answer):
        after = replace(after, image=theirs.settled.image)
        if not is_rebuild:
            desired = replace(desired, image=theirs.desired.image)
            # At its next place it is built with the image of that rebuild.
            after = replace(after, rebuilt_by=answer.generation)
    if theirs is not None and _may_lack_flavor(state, answer):
        after = replace(after, flavor=theirs.settled.flavor)
        if not is_resize:
            desired = replace(desired, flavor=theirs.desired.flavor)
    return replace(after, desired=desired)


def numbered(state: InstanceState, generation: int, *, reboots: int, rebuilds: int) -> InstanceState:
    """Return the state with a later generation. What is under way comes on top of these counts.

    It is not deleted for good: its owner may have restored it since the copy was made.
    """
    is_reboot, is_rebuild = state.rebooted_by == state.desired.generation, _is_rebuild_wanted(state)
    return replace(
        state,
        desired=replace(
            state.desired,
            generation=generation,
            reboots=generation if is_reboot else reboots,
            rebuilds=rebuilds + is_rebuild,
        ),
        rebooted_by=generation if is_reboot else state.rebooted_by,
        rebuilt_by=generation if is_rebuild else state.rebuilt_by,
        reclaim_at=0.0,
    )


def _is_rebuild_wanted(state: InstanceState) -> bool:
    return state.rebuilt_by == state.desired.generation


def _lacks_image(state: InstanceState, answer: DesiredAnswer) -> bool:
    """Tell whether the child has been told of rebuilds that are not known here, but for one under way."""
    return answer.rebuilds > state.desired.rebuilds - _is_rebuild_wanted(state)


def _may_lack_flavor(state: InstanceState, answer: DesiredAnswer) -> bool:
    """Tell whether the child has been told of all resizes that are known here, but for one under way."""
    asked = state.desired.resizes
    return answer.resizes.begun >= asked.begun - (asked.begun > state.observed.resizes.begun)
