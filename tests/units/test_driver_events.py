"""Events of drivers with mistakes: each is logged, and costs no other instance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from tests.builders.clock import FakeClock
from tests.units.test_agent import A, B, ZoneStandIn
from zonesched.compute.agent import Agent, Rhythm
from zonesched.compute.desired_state import Observed, Power
from zonesched.compute.driver import DriverSettings
from zonesched.compute.driver_events import readable
from zonesched.compute.fake import FakeDriver
from zonesched.compute.inventory import InventoryHost
from zonesched.compute.machine import Built, Changed, Destroyed, Failed, Fenced, Found, Key, Left, Wanted
from zonesched.errors import ConfigError

WRONG: list[Any] = [
    Built(Wanted(A, "h1")),  # type: ignore[arg-type]
    Built(A, Power.RUNNING),  # type: ignore[arg-type]
    Changed(A, Observed(None)),  # type: ignore[arg-type]
    Failed(A, OSError("no disk")),  # type: ignore[arg-type]
    Left(A, "2"),  # type: ignore[arg-type]
    Destroyed(Key("a", "1")),  # type: ignore[arg-type]
    Fenced("a"),  # type: ignore[arg-type]
    Found((A, "b")),  # type: ignore[arg-type]
    ("built", A),
    None,
]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_wrong_event_is_left_out_and_logged(wrong: object, caplog: pytest.LogCaptureFixture) -> None:
    assert readable([wrong, Built(B)]) == [Built(B)]
    assert repr(wrong) in caplog.text


def test_why_an_instance_has_ended_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    readable(
        [Changed(A, Observed(3, Power.STOPPED, "process_failed")), Changed(B, Observed(3, Power.PAUSED))]
    )
    assert caplog.messages == [f"instance {A.uuid}, attempt {A.attempt}, is stopped: process_failed"]


def test_no_agent_starts_whose_driver_finds_an_instance_without_a_key() -> None:
    class FindsTexts(FakeDriver):
        def found(self) -> Sequence[Key]:
            return [A, "b"]  # type: ignore[list-item]

    clock = FakeClock()

    with pytest.raises(ConfigError, match=r"found\(\) must return keys, and returned .*'b'"):
        Agent(ZoneStandIn([A]), FindsTexts(DriverSettings(), clock), clock, [InventoryHost("h1")], Rhythm())


def test_an_event_of_the_wrong_form_costs_no_other_instance() -> None:
    class ForgetsTheKey(FakeDriver):
        def spawn(self, wanted: Wanted) -> None:
            self._happened.append(Built(wanted if wanted.key == A else wanted.key))  # type: ignore[arg-type]

    clock, zone = FakeClock(), ZoneStandIn([A, B])

    Agent(zone, ForgetsTheKey(DriverSettings(), clock), clock, [InventoryHost("h1")], Rhythm()).step()

    assert zone.status == {A: "BUILD", B: "ACTIVE"}


@pytest.mark.parametrize("wrong", [None, "soon", math.nan, RuntimeError("no hypervisor")], ids=repr)
def test_a_wrong_time_of_the_next_event_is_logged_once_and_the_driver_polled_with_the_zone(
    wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class ForgetsTheTime(FakeDriver):
        told: Any = 60.0

        def next_event_s(self) -> float:
            if isinstance(self.told, Exception):
                raise self.told
            told: float = self.told
            return told

    # given an agent whose driver has told it a time at its start
    clock = FakeClock()
    driver = ForgetsTheTime(DriverSettings(build_seconds=1.0), clock)
    zone, rhythm = ZoneStandIn([A]), Rhythm(poll_s=2.0)
    agent = Agent(zone, driver, clock, [InventoryHost("h1")], rhythm)
    # when it tells none any more
    driver.told = wrong
    pauses = []
    for _ in range(3):
        pauses.append(agent.step())
        clock.advance(rhythm.poll_s)
    # then its events are heard at each poll of the zone, and the log has one line
    assert pauses == [rhythm.poll_s] * 3
    assert zone.status == {A: "ACTIVE"}
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert said.startswith("next_event_s of the driver ") and repr(wrong) in said
    # until it has told one and again none
    driver.told = 60.0
    agent.step()
    driver.told = wrong
    agent.step()
    assert caplog.text.count("next_event_s of the driver") == 2
