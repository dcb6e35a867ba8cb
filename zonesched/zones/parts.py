"""Calls about many builds, made in parts where a child takes fewer of them in one call.

What a zone takes is set by its own operator, who need not be that of its parent. A part that is refused for
its size has changed nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import TypeVar

from zonesched.errors import ChildRefused, ChildUnreachable
from zonesched.model.placement import Build, BuildAnswer
from zonesched.zones import answers
from zonesched.zones.call import Reply

MOST_BYTES = 8 * 2**20
"""Limit of the sealed entries in one call; a zone takes bodies of 16 MiB by default."""

T = TypeVar("T")


class TakesFewer(ChildRefused):
    """The child refused the call for the number of its builds, or for its size."""


def check_size(reply: Reply) -> Reply:
    """Return an answer. Raises TakesFewer."""
    is_long = reply.status == HTTPStatus.BAD_REQUEST and answers.error_code(reply.body) == "too_long"
    if is_long or reply.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        raise TakesFewer(reply.status)
    return reply


def first_size(builds: Sequence[Build]) -> int:
    """Return how many of these builds are sent in the first call."""
    largest = max((sum(map(len, b.blobs)) for b in builds), default=0)
    return max(1, min(len(builds), MOST_BYTES // max(1, largest)))


def in_parts(
    items: Sequence[T], size: int, ask: Callable[[Sequence[T], float], Sequence[BuildAnswer]]
) -> list[BuildAnswer]:
    """Ask about `size` items at a time, about half as many where so many are refused; return the answers.

    Each part gets its share of the time that is left: else one that waits for a child zone further down would
    leave none to the others. The answers of the parts before one that fails are kept. Raises ChildUnreachable
    if the first one fails.
    """
    answered: list[BuildAnswer] = []
    at = 0
    while at < len(items):
        some = items[at : at + size]
        parts_left = math.ceil((len(items) - at) / size)
        # An answer that comes when the time is over is lost, and those before it as well: some of it is left.
        share = 1 / (parts_left + bool(answered))
        try:
            answered += ask(some, share)
        except TakesFewer:
            if len(some) > 1:
                size = (len(some) + 1) // 2
                continue
            if not answered:
                raise
            break
        except ChildUnreachable:
            if not answered:
                raise
            break
        at += len(some)
    return answered
