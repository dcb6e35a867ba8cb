"""One object wakes every listener of a zone; each verb reaches its own listeners and no others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.clock import FakeClock
from zonesched.model.placement import BuildState, InstanceChange, InstanceStatus
from zonesched.seams import ThreadLoop
from zonesched.services.children.changes import wake_for
from zonesched.services.state.boot_queue import BootQueue
from zonesched.services.state.wake import Wake


class CountingLoop:
    """A loop that pauses until it is woken, or that is busy with a step."""

    def __init__(self, *, pauses: bool = True) -> None:
        self.woken = 0
        self._pauses = pauses

    def wake(self) -> bool:
        self.woken += 1
        ends_pause, self._pauses = self._pauses, False
        return ends_pause


class RecordedNotifications:
    def __init__(self) -> None:
        self.sent: list[object] = []

    def boots(self) -> None:
        self.sent.append("boots")

    def hosts(self) -> None:
        self.sent.append("hosts")

    def agents(self, host_ids: Any) -> None:
        self.sent.append(list(host_ids))


@pytest.mark.parametrize(
    ("verb", "woken", "sent"),
    [
        (lambda wake: wake.boots(), (1, 0, 0), ["boots"]),
        (lambda wake: wake.boots_here(), (1, 0, 0), []),
        (lambda wake: wake.boots_elsewhere(), (0, 0, 0), ["boots"]),
        (lambda wake: wake.child_calls(), (0, 1, 0), []),
        (lambda wake: wake.sync(), (0, 0, 1), []),
        (lambda wake: wake.agents_of(["h1", "h2"]), (0, 0, 0), [["h1", "h2"]]),
        (lambda wake: wake.host_readers(), (0, 0, 0), ["hosts"]),
    ],
)
def test_each_verb_wakes_its_own_listeners(
    verb: Callable[[Wake], None], woken: tuple[int, int, int], sent: list[object]
) -> None:
    # given
    notifications: Any = RecordedNotifications()
    wake = Wake(BootQueue(), notifications)
    loops = [CountingLoop(), CountingLoop(), CountingLoop()]
    for listeners, loop in zip((wake.boot_loops, wake.child_call_loops, wake.sync_loops), loops, strict=True):
        listeners.append(loop)
    # when
    verb(wake)
    # then
    assert tuple(loop.woken for loop in loops) == woken
    assert notifications.sent == sent


@pytest.mark.parametrize(
    ("state", "status", "woken"),
    [
        (BuildState.FAILED, InstanceStatus.BUILD, (1, 0)),
        (BuildState.CONFIRMED, InstanceStatus.ERROR, (0, 1)),
        (BuildState.CONFIRMED, InstanceStatus.OFFLOADED, (1, 1)),
        (BuildState.CONFIRMED, InstanceStatus.ACTIVE, (0, 0)),
    ],
)
def test_a_childs_changes_wake_those_who_go_on_with_them(
    state: BuildState, status: InstanceStatus, woken: tuple[int, int]
) -> None:
    # given
    notifications: Any = RecordedNotifications()
    wake, boots, child_calls = Wake(BootQueue(), notifications), CountingLoop(), CountingLoop()
    wake.boot_loops.append(boots)
    wake.child_call_loops.append(child_calls)
    unchanged = InstanceChange("u0", 1, InstanceStatus.ACTIVE, BuildState.CONFIRMED)
    # when
    wake_for(wake, [unchanged, InstanceChange("u1", 1, status, state)])
    # then
    assert (boots.woken, child_calls.woken) == woken


@pytest.mark.parametrize(
    ("pauses", "new_boots", "woken"),
    [
        ((True, True, True), 1, (1, 0, 0)),
        ((False, True, True), 1, (1, 1, 0)),
        # Busy ones look once more after their steps.
        ((False, False, False), 1, (1, 1, 1)),
        ((True, True, True), 2, (2, 1, 0)),
    ],
)
def test_a_new_boot_wakes_one_worker_that_rests(
    pauses: tuple[bool, ...], new_boots: int, woken: tuple[int, ...]
) -> None:
    # given
    notifications: Any = RecordedNotifications()
    wake = Wake(BootQueue(), notifications)
    loops = [CountingLoop(pauses=one) for one in pauses]
    wake.boot_loops += loops
    # when
    for _ in range(new_boots):
        boot: Any = object()
        wake.new_boot(boot)
    # then
    assert tuple(loop.woken for loop in loops) == woken


@pytest.mark.parametrize(("in_step", "heard"), [(0, [True, False]), (1, [False, False, False])])
def test_a_loop_says_once_that_its_pause_was_ended(
    in_step: int, heard: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a loop that is woken so often while it steps, and twice while it pauses
    found: list[bool] = []

    class Pausing(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            found.extend([loop.wake(), loop.wake()])
            loop.stop()
            return True

    def step() -> float:
        found.extend(loop.wake() for _ in range(in_step))
        return 60.0

    monkeypatch.setattr(threading.Thread, "start", lambda thread: None)
    loop = ThreadLoop("paused", step)
    monkeypatch.setattr(loop, "_wake", Pausing())
    # when
    loop.thread.run()
    # then
    assert found == heard


def test_a_step_that_exits_ends_no_loop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # given a loop whose first step exits and whose second one is the last
    steps: list[str] = []

    def step() -> float:
        steps.append("step")
        if len(steps) == 1:
            raise SystemExit(3)
        loop.stop()
        return 0.0

    monkeypatch.setattr(ThreadLoop, "retry_pause_s", 0.0)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: None)
    loop = ThreadLoop("exits", step)
    # when
    loop.thread.run()
    # then
    assert len(steps) == 2
    assert "background step exits failed" in caplog.text


def test_a_wake_up_during_a_poll_makes_the_next_poll_due_at_once() -> None:
    # given
    boots = BootQueue()
    notifications: Any = RecordedNotifications()
    wake, clock = Wake(boots, notifications), FakeClock()
    seen = boots.wakes
    # when
    wake.boots_here()
    boots.polled(seen, clock.monotonic() + 60)
    # then
    assert boots.poll_at < clock.monotonic()
