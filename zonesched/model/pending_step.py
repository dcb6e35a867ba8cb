"""The steps that pending instances of a boot wait for, as their owners see them."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class NextStep(enum.Enum):
    """The steps that a pending instance may wait for, in their order, by their codes on the wire."""

    BOOT_WORKER = "boot_worker"
    NEXT_SELECT = "next_select"
    HOLD_ANSWER = "hold_answer"
    CANCEL_ANSWER = "cancel_answer"
    OTHER_INSTANCES = "other_instances"
    PARENT_CONFIRM = "parent_confirm"
    CONFIRM_ANSWER = "confirm_answer"
    BUILD = "build"


@dataclass(frozen=True)
class PendingStep:
    """A number of instances that wait for the same step.

    `child_name`: the child zone that is to take it, for this zone's admin alone; "" for local hosts and for
    steps of the boot worker. `due_at`: when the next select is due (epoch seconds), 0 for any other step.
    """

    step: NextStep
    count: int
    child_name: str = ""
    due_at: float = 0.0
