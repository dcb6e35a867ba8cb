"""Lines on children that are not called, of which each poll and each boot would write one."""

from __future__ import annotations

import logging

import pytest

from tests.builders.clock import FakeClock
from zonesched.zones.refusal_lines import MAX_REASONS, REPEAT_S, RefusalLines

A, B = "https://a", "https://b"


def test_each_reason_is_logged_once_in_a_while_for_each_child(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    lines = RefusalLines(logging.getLogger("zones"), clock)
    for _ in range(5):
        lines.warn(A, "expired")
        lines.warn(A, "unknown authority")
        lines.warn(B, "expired")
    assert caplog.messages == ["expired", "unknown authority", "expired"]

    clock.advance(REPEAT_S)
    lines.warn(A, "expired")
    assert caplog.messages[3:] == ["expired"]


def test_a_child_with_ever_new_reasons_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    lines = RefusalLines(logging.getLogger("zones"), FakeClock())
    for number in range(100):
        lines.warn(A, f"reason {number}")
    assert len(caplog.messages) == MAX_REASONS
