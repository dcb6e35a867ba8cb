"""The steps of a move: of a built instance to another host of its zone, or to another flavor on any of them.

A move keeps the present place and makes a second one; both are claimed as long as either may be used. The
new place is built only after the agent of the old one has reported the instance stopped, so it never runs at
two places. A failed move ends at the old place, once nothing is left at the new one.

`store.moves` refuses any other step.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple


class MoveKind(enum.Enum):
    MIGRATION = "migration"
    RESIZE = "resize"


class MoveState(enum.Enum):
    """PLACING: a host is looked for. LEAVING: the old agent is to stop it. ARRIVING: the new one builds it.

    VERIFYING: it was resized, and its owner has yet to confirm or revert that. RETURNING: the new place has
    failed, or the resize is reverted, and its agent has yet to report that nothing is left there.
    """

    __hash__ = object.__hash__

    PLACING = "placing"
    LEAVING = "leaving"
    ARRIVING = "arriving"
    VERIFYING = "verifying"
    RETURNING = "returning"
    DONE = "done"
    FAILED = "failed"
    REVERTED = "reverted"


_S = MoveState
LIVING_MOVES = frozenset({_S.PLACING, _S.LEAVING, _S.ARRIVING, _S.VERIFYING, _S.RETURNING})
"""States of a move that has not ended; an instance has at most one move in such a state."""


class MoveStep(NamedTuple):
    """One step from a state to the next."""

    before: MoveState
    after: MoveState


class IllegalStep(AssertionError):
    """A move was about to take an illegal step: a defect of this program, never of its input."""


STEPS: Mapping[MoveStep, str] = {
    MoveStep(_S.PLACING, _S.LEAVING): "a second place is claimed",
    MoveStep(_S.PLACING, _S.FAILED): "no local host has room, or the server has ended",
    MoveStep(_S.LEAVING, _S.ARRIVING): "the old agent reports it stopped: the new place is the present one",
    MoveStep(_S.LEAVING, _S.FAILED): "not stopped in time, or by its driver; or the server has ended",
    MoveStep(_S.ARRIVING, _S.DONE): "the new agent reports it built, and it was not resized",
    MoveStep(_S.ARRIVING, _S.VERIFYING): "the new agent reports it built with its new flavor",
    MoveStep(_S.ARRIVING, _S.RETURNING): "not built there, or not in time",
    MoveStep(_S.ARRIVING, _S.FAILED): "the server has ended, or no agent has seen the new place",
    MoveStep(_S.VERIFYING, _S.DONE): "the resize is confirmed, or the server is deleted",
    MoveStep(_S.VERIFYING, _S.RETURNING): "the resize is reverted",
    MoveStep(_S.VERIFYING, _S.FAILED): "the server has failed, or its old host is gone for good",
    MoveStep(_S.RETURNING, _S.FAILED): (
        "nothing is left at the new place, the server has ended, or its old host is gone for good"
    ),
    MoveStep(_S.RETURNING, _S.REVERTED): "nothing is left at the new place of a reverted resize",
}
"""All steps of a move, and when each happens. A shelved server has ended, as far as moves go."""

MESSAGES: Mapping[str, str] = {
    "folder_not_copied": "The new host could not copy the folder of the server from its old host.",
    "folder_not_shared": "The new host cannot reach the folder of the server on its old host.",
    "move_no_valid_host": "No other host of the zone has room for the server.",
    "move_not_built": "The new host could not build the server; it is back on its host.",
    "move_not_left": "The host could not stop the server for the move.",
    "move_not_left_in_time": "The host did not stop the server in time for the move.",
    "move_shelved": "The server was shelved before the move was done.",
    "move_under_way": "Another move of the server has not ended.",
    "move_timeout": "The new host did not build the server in time; it is back on its host.",
    "resize_lost": "The zone that has the server has lost the resize; the server has its flavor of before.",
    "resize_no_valid_host": "No host of the zone that has the server has room for it with this flavor.",
    "resize_not_open": "The zone that has the server has no resize of it to confirm or to revert.",
}
"""Messages by the stable reason code of a move that failed."""
