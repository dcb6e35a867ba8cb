"""Asking several children side by side, under one deadline.

Each child is a lane of the executor: however slow it is and however many callers there are, it ties up the
few threads of its lane and costs no offers but its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from zonesched.errors import ChildUnreachable
from zonesched.seams import Clock, Done, Executor, Failed, Late

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Question(Generic[T]):
    """One call to one child; `ask` gets the moment, in monotonic seconds, by which it has to end."""

    child_id: str
    ask: Callable[[float], T]


def fan_out(
    executor: Executor, clock: Clock, questions: Sequence[Question[T]], timeout_s: float
) -> list[Done[T] | Failed | Late]:
    """One outcome for each question, in their order, after at most `timeout_s`.

    A failure is a ChildUnreachable, also where an unforeseen error met a child's answer.
    """
    ends_at = clock.monotonic() + timeout_s
    calls = [(question.child_id, partial(question.ask, ends_at)) for question in questions]
    return [_foreseen(outcome) for outcome in executor.gather(calls, timeout_s)]


def _foreseen(outcome: Done[T] | Failed | Late) -> Done[T] | Failed | Late:
    if isinstance(outcome, Failed) and not isinstance(outcome.error, ChildUnreachable):
        log.error("a child's answer could not be taken", exc_info=outcome.error)
        return Failed(
            ChildUnreachable("The answer of the child zone cannot be used.", code="child_invalid_answer")
        )
    return outcome
