"""Calls that /openapi.json describes, made by Schemathesis to a zone with hosts: the zone does as it says."""

from __future__ import annotations

import base64
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from benchmarks.fuzzing.site import ROLES, a_site

with warnings.catch_warnings():
    # The packages that it brings along warn about themselves.
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis import checks

pytestmark = [pytest.mark.once, pytest.mark.slow]

CALLS_EACH = 4
LEFT_OUT = (
    # Wrong passwords are counted, and soon answered with 429.
    "ignored_auth",
    # A schema cannot say which names there are, or what only one role may ask for.
    "positive_data_acceptance",
)


def success_is_described(context: Any, response: Any, case: Any) -> None:
    """A status that is no fault stands in the description by its number."""
    described = case.operation.definition.raw["responses"]
    assert response.status_code >= 400 or str(response.status_code) in described, response.status_code


def test_every_call_answers_as_it_is_described_whoever_makes_it(tmp_path: Path) -> None:
    # given a zone of its own for each role: to think of a call takes longer than to make it as each of them
    sites = {role: a_site(tmp_path / role).tree.nodes["zone"] for role in ROLES}
    left_out = [checks.CHECKS.get_one(name) for name in LEFT_OUT]
    described = schemathesis.openapi.from_wsgi("/openapi.json", sites["admin"].app)
    made = 0
    for result in described.get_all_operations():
        operation = result.ok()

        # when each call is made as each role, then its answer is as described
        @settings(
            max_examples=CALLS_EACH,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy())
        def call(case: Any) -> None:
            nonlocal made
            made += 1
            for role, node in sites.items():
                pair = base64.b64encode(f"{role}:{node.secrets[role]}".encode()).decode()
                case.call_and_validate(
                    app=node.app,
                    headers={"Authorization": f"Basic {pair}"},
                    additional_checks=[success_is_described],
                    excluded_checks=left_out,
                )

        call()
    assert made > CALLS_EACH * len(described.raw_schema["paths"])
    for node in sites.values():
        node.zone.stop()
