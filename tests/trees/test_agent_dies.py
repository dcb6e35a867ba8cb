"""An agent that dies at any of its calls, to its zone or its driver: each instance converges, built once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, boot, counts
from tests.builders.clock import FakeClock
from tests.builders.crashes import Killed, inconsistencies
from tests.builders.tree import Node, Tree, a_host
from zonesched.compute.agent import Agent, Rhythm
from zonesched.compute.client import ZoneIdentity
from zonesched.compute.driver import DriverSettings
from zonesched.compute.fake import FakeDriver
from zonesched.compute.inventory import InventoryHost
from zonesched.compute.machine import Fetched, Key, Report, Wanted
from zonesched.model.agent_instances import AgentReport, AgentState
from zonesched.services.hosts import hosts

pytestmark = pytest.mark.once


class Host:
    """State that outlives an agent: the running instances, and how often each attempt was built."""

    def __init__(self) -> None:
        self.running: set[Key] = set()
        self.built: list[Key] = []


class LastingDriver(FakeDriver):
    """A fake driver whose instances run on in `host`, and are found there."""

    def __init__(self, settings: DriverSettings, clock: FakeClock, host: Host) -> None:
        super().__init__(settings, clock)
        self._host = host

    def found(self) -> Sequence[Key]:
        for key in sorted(self._host.running):
            super().spawn(Wanted(key, "h", is_active=True))
        return sorted(self._host.running)

    def spawn(self, wanted: Wanted) -> None:
        if wanted.key not in self._host.running:
            self._host.running.add(wanted.key)
            self._host.built.append(wanted.key)
        super().spawn(wanted)

    def destroy(self, key: Key) -> None:
        self._host.running.discard(key)
        super().destroy(key)


class ZoneInProcess:
    """An agent's zone, called without HTTP."""

    def __init__(self, node: Node) -> None:
        self._zone = node.zone
        assert node.compute is not None
        self._caller = node.compute

    def register(self, offered: Sequence[InventoryHost], fence_after_s: float = math.inf) -> ZoneIdentity:
        hosts.register(self._zone, self._caller, "agent", [])
        return ZoneIdentity()

    def beat(self, fence_after_s: float = math.inf) -> None:
        hosts.beat(self._zone, self._caller, "agent")

    def fetch(self) -> Fetched:
        found = hosts.desired(self._zone.store, self._zone.heartbeats, self._caller, "agent")
        wanted = tuple(
            Wanted(Key(d.uuid, d.attempt), d.host, is_active=d.status.value == "ACTIVE") for d in found
        )
        releasing = hosts.releasing(self._zone.store, self._zone.heartbeats, self._caller, "agent")
        return Fetched(wanted, tuple(Key(*one) for one in releasing))

    def report(self, reports: Sequence[Report]) -> None:
        told = [AgentReport(r.key.uuid, r.key.attempt, AgentState(r.state.value), r.reason) for r in reports]
        hosts.report(self._zone, self._caller, "agent", told)


class Dying:
    """Stands before a zone or a driver; the n-th call, counted over both, is never made or never heard of."""

    calls = 0

    def __init__(self, real: Any, count: Callable[[], None]) -> None:
        self._real, self._count = real, count

    def __getattr__(self, name: str) -> Any:
        if name == "traits":
            return self._real.traits

        def call(*args: Any) -> Any:
            self._count()
            answer = getattr(self._real, name)(*args)
            self._count()
            return answer

        return call


def a_life(tree: Tree, host: Host, dies_at: int, failure_rate: float) -> bool:
    """One agent from its start to its death, or to the end of what there is to do; whether it died."""
    touched = 0

    def count() -> None:
        nonlocal touched
        touched += 1
        if touched == dies_at:
            raise Killed

    settings = DriverSettings(build_seconds=1.0, failure_rate=failure_rate, seed="s")
    driver = LastingDriver(settings, tree.clock, host)
    zone = Dying(ZoneInProcess(tree.nodes["root"]), count)
    with suppress(Killed):
        agent = Agent(zone, Dying(driver, count), tree.clock, [InventoryHost("h1")], Rhythm())
        for _ in range(8):
            agent.step()
            tree.clock.advance(1.0)
            tree.settle(1)
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("failure_rate", [0.0, 0.3])
def test_an_agent_that_dies_at_any_call_costs_no_instance(tmp_path: Path, failure_rate: float) -> None:
    before = Tree(tmp_path)
    before.add("root", hosts_=[a_host(f"h{n}") for n in range(24)], max_attempts=8)
    before.nodes["root"].client().post("/flavors", FLAVOR)
    reservation_id = boot(before, num_instances=3)
    before.settle()
    before.stop()
    dies_at, died = 0, True
    while died:
        dies_at += 1
        tree, host = before.copy_to(tmp_path / str(dies_at)), Host()

        died = a_life(tree, host, dies_at, failure_rate)
        for lives in range(4):
            a_life(tree, host, 0, failure_rate)
            if lives and counts(tree, reservation_id) == {"ACTIVE": 3}:
                break

        assert counts(tree, reservation_id) == {"ACTIVE": 3}, f"died at {dies_at}"
        wanted = {key.key for key in ZoneInProcess(tree.nodes["root"]).fetch().wanted}
        assert host.running == wanted, f"died at {dies_at}"
        assert len(set(host.built)) == len(host.built), f"died at {dies_at}"
        assert inconsistencies(tree) == []
    assert dies_at > 10
