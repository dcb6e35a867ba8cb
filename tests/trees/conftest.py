"""Fixtures that several modules of this folder use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from flask import Request

from tests.builders.described_answers import mismatches
from tests.builders.sealed_builds import stage
from zonesched.api import dispatch
from zonesched.api.answer import Answer
from zonesched.api.call import Site
from zonesched.api.route import Route
from zonesched.model.caller import Caller

__all__ = ["stage"]


@pytest.fixture(autouse=True)
def answers_are_as_described(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compare what every zone of a test answers with its OpenAPI document."""
    answered, wrong = dispatch._answer, list[str]()

    def compared(
        site: Site, route: Route, caller: Caller, request: Request, args: Mapping[str, Any]
    ) -> Answer:
        answer = answered(site, route, caller, request, args)
        wrong.extend(mismatches(route, answer))
        return answer

    monkeypatch.setattr(dispatch, "_answer", compared)
    yield
    assert not wrong, "\n".join(wrong)
