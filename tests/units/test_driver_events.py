"""Events of drivers with mistakes: each is logged, and costs no other instance."""

from __future__ import annotations

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
