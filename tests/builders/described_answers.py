"""Real answers of zones, compared with the forms that the OpenAPI document says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema_rs
import orjson

from zonesched.api.answer import Answer
from zonesched.api.openapi_answers.answers import ANSWERS
from zonesched.api.route import REFUSED, Route

MOST_OF_A_KIND = 40
"""Answers of one operation and status that a process compares: more would say little more."""

WITHOUT_FORM = ("nothing", "Prometheus text", REFUSED)

compared: Counter[str] = Counter()
"""How many answers this process has compared, by operation and status."""


def described(route: Route) -> Iterator[str]:
    """List the keys of a call's answers that have a form."""
    for status, text in ((route.status, route.answer), *route.other_answers):
        if text not in WITHOUT_FORM:
            yield f"{route.operation_id} {status}"


def mismatches(route: Route, answer: Answer) -> Iterator[str]:
    """Find where an answer is not as it is described."""
    key = f"{route.operation_id} {answer.status}"
    if answer.body is None or compared[key] >= MOST_OF_A_KIND or answer.media_type != "application/json":
        return
    compared[key] += 1
    if key not in ANSWERS:
        yield f"{key}: is not described"
        return
    body = orjson.loads(answer.body if isinstance(answer.body, bytes) else orjson.dumps(answer.body))
    for error in _validator(key).iter_errors(body):
        at = "/".join(map(str, error.instance_path))
        yield f"{key}: {at}: {error.message[:400]}"


@cache
def _validator(key: str) -> Any:
    return jsonschema_rs.validator_for(dict(ANSWERS[key]))
