"""Answers to a parent about its builds, as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from zonesched.model.placement import BuildAnswer


def answers_json(answers: Iterable[BuildAnswer]) -> dict[str, Any]:
    """Return one line per attempt; `hold_s` is 0 unless it is held."""
    return {
        "builds": [
            {
                "uuid": answer.uuid,
                "attempt": answer.attempt,
                "state": answer.state.value,
                "hold_s": answer.hold_s,
                "reason": answer.reason,
            }
            for answer in answers
        ]
    }
