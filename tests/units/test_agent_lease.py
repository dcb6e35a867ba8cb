"""The lease of an agent that fences: from when it counts, what comes before it, and its terms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from tests.builders.clock import FakeClock
from zonesched.compute.agent import Agent, Rhythm
from zonesched.compute.client import ZoneIdentity
from zonesched.compute.connection import ZoneUnavailable
from zonesched.compute.driver import DriverSettings
from zonesched.compute.fake import FakeDriver
from zonesched.compute.inventory import InventoryHost
from zonesched.compute.lease import Lease
from zonesched.compute.machine import Fetched, Report
from zonesched.compute.restored_zone import Running

FENCE_S = 60.0
HELD, REFUSED, PROMISED, LISTED = "held", "refused", "promised", "listed"


class Scene:
    """An agent, its zone and its driver; `done`: leases, promises and lists, in their order."""

    def __init__(self, left: Lease | None = None, fence_after_s: float = FENCE_S) -> None:
        self.clock = FakeClock()
        self.done: list[str] = []
        self.is_away = False
        self.answers_after_s = 0.0
        self.driver = Driver(self)
        if left is not None:
            self.driver.hold(left)
        rhythm = Rhythm(heartbeat_s=FENCE_S / 3, poll_s=1000 * FENCE_S, fence_after_s=fence_after_s)
        self.agent = Agent(Zone(self), self.driver, self.clock, [InventoryHost("h1")], rhythm)

    def step(self) -> list[str]:
        """Let the agent do what is due; return what it did."""
        self.done.clear()
        self.agent.step()
        return list(self.done)

    def answer(self, done: str = "") -> None:
        if self.is_away:
            raise ZoneUnavailable("gone")
        self.done += [done] if done else []
        self.clock.advance(self.answers_after_s)


class Driver(FakeDriver):
    def __init__(self, scene: Scene) -> None:
        super().__init__(DriverSettings(), scene.clock)
        self._scene = scene
        self.is_full = False

    def hold(self, lease: Lease) -> None:
        self._scene.done.append(REFUSED if self.is_full else HELD)
        if self.is_full:
            raise OSError("no space left")
        super().hold(lease)


class Zone:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def register(self, hosts: Sequence[InventoryHost], fence_after_s: float = math.inf) -> ZoneIdentity:
        self._scene.answer(PROMISED if fence_after_s == FENCE_S else "")
        return ZoneIdentity("nova", "zone-uuid")

    def beat(self, fence_after_s: float = math.inf) -> None:
        self._scene.answer(PROMISED)
        assert fence_after_s == FENCE_S

    def fetch(self) -> Fetched:
        self._scene.answer(LISTED)
        return Fetched(())

    def tell(self, running: Sequence[Running]) -> None:
        raise AssertionError("the zone was not restored")

    def report(self, reports: Sequence[Report]) -> None:
        raise AssertionError("there is nothing to report")

    def bring_console(self, ask_id: str, output: str | None) -> None:
        raise AssertionError("no console was asked for")


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_one_that_starts_ends_nothing_and_prolongs_nothing_before_its_zone_answers() -> None:
    # given an agent on a machine without a lease, and one that took the place of another there
    first = Scene()
    second = Scene(Lease(3, first.clock.monotonic() + 1.0))

    assert first.driver.lease() == Lease(0, first.clock.monotonic() + FENCE_S)
    assert second.driver.lease() == Lease(3, second.clock.monotonic() + 1.0)


def test_without_fencing_there_is_no_lease_and_one_that_was_left_gets_no_end() -> None:
    without = Scene(fence_after_s=math.inf)
    clock = without.clock
    left = Scene(Lease(3, clock.monotonic() + 1.0), fence_after_s=math.inf)

    assert without.step() == [LISTED]
    assert left.step() == [LISTED, HELD]
    assert left.driver.lease() == Lease(4, math.inf)


def test_a_lease_counts_from_the_moment_at_which_the_promise_was_sent(scene: Scene) -> None:
    # given a zone that answers slowly
    scene.answers_after_s = 4.0
    registered_at = scene.clock.monotonic() + scene.answers_after_s

    scene.step()

    assert scene.driver.lease().until_s == registered_at + FENCE_S


def test_somebody_keeps_the_promise_before_the_zone_hears_it_and_a_lease_begins_with_a_new_list(
    scene: Scene,
) -> None:
    assert scene.step() == [HELD, PROMISED, HELD, PROMISED, LISTED, HELD]


def test_a_registration_promises_nothing_where_nobody_would_keep_it(scene: Scene) -> None:
    scene.driver.is_full = True

    assert scene.step() == [REFUSED, REFUSED, LISTED]


def test_a_lease_is_prolonged_thrice_in_its_time_in_its_term_and_without_another_list(scene: Scene) -> None:
    scene.step()
    term, began_at = scene.driver.lease().term, scene.clock.monotonic()

    steps = []
    for _ in range(6):
        scene.clock.advance(FENCE_S / 6)
        steps.append(scene.step())

    assert steps == [[], [PROMISED, HELD]] * 3
    assert scene.driver.lease() == Lease(term, began_at + 2 * FENCE_S)


@pytest.mark.parametrize("late_s", [0.0, 1.0])
def test_after_its_lease_has_run_out_it_takes_another_term_with_a_list_from_after_the_promise(
    scene: Scene, late_s: float
) -> None:
    # given an agent whose zone is away for as long as its lease
    scene.step()
    term = scene.driver.lease().term
    scene.is_away = True
    scene.clock.advance(FENCE_S + late_s)
    assert scene.step() == []
    assert scene.agent.has_lapsed
    # when the zone is back
    scene.is_away = False
    scene.clock.advance(Rhythm().longest_retry_s)
    # then what was to be started before is not: it may run on another host by now
    assert scene.step() == [PROMISED, LISTED, HELD]
    assert scene.driver.lease() == Lease(term + 1, scene.clock.monotonic() + FENCE_S)


def test_a_lease_that_runs_out_while_its_zone_answers_has_run_out(scene: Scene) -> None:
    scene.step()
    term = scene.driver.lease().term
    scene.clock.advance(FENCE_S - 1.0)
    scene.answers_after_s = 2.0

    assert scene.step() == [PROMISED, LISTED, HELD]
    assert scene.driver.lease().term == term + 1


def test_one_that_cannot_write_its_lease_calls_on_while_it_lasts_and_then_promises_nothing(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    # given an agent whose disk is full
    scene.step()
    scene.driver.is_full = True
    # when it cannot prolong its lease, but that has not ended
    scene.clock.advance(FENCE_S / 3)
    assert scene.step() == [PROMISED, REFUSED]
    # then it tries again after a while, and hears the zone meanwhile
    assert scene.step() == []
    scene.agent.wake()
    assert scene.step() == [LISTED]
    scene.clock.advance(FENCE_S / 6)
    assert scene.step() == [REFUSED]
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert errors == ["the lease cannot be renewed: no space left"]
    # and the zone hears nothing of it once it has
    scene.clock.advance(FENCE_S)
    assert scene.step() == [REFUSED]
    scene.agent.wake()
    scene.clock.advance(Rhythm().longest_retry_s)
    assert scene.step() == [REFUSED]
    # and hears it again once there is room
    scene.driver.is_full = False
    scene.clock.advance(Rhythm().longest_retry_s)
    assert scene.step() == [HELD, PROMISED, LISTED, HELD]
