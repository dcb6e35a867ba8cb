"""One process of a compute agent: the real agent, client and fake driver, behind the simulated network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from tests.simulation.baton import Process, ProcessDied
from tests.simulation.clock import MachineClock
from tests.simulation.executor import BatonExecutor
from tests.simulation.network import Wire
from tests.simulation.stage import Stage
from zonesched.compute.agent import OF_ANOTHER_AGENT, Agent, Rhythm
from zonesched.compute.client import AgentClient
from zonesched.compute.connection import ZoneConnection
from zonesched.compute.desired_state import Desired, Power
from zonesched.compute.driver import DRIVER_FAILED, DriverSettings
from zonesched.compute.fake import FakeDriver, _chance
from zonesched.compute.inventory import InventoryHost
from zonesched.compute.machine import (
    Built,
    Changed,
    DriverEvent,
    Failed,
    Fenced,
    Key,
    Left,
    Phase,
    ReportState,
    Wanted,
)
from zonesched.compute.state_folder import AgentIdentity

LOST = "domain_lost"
HEARTBEAT_S, POLL_S, FIRST_RETRY_S, LONGEST_RETRY_S = 4.0, 3.0, 0.5, 5.0


class Memory(Protocol):
    """Facts about a machine that outlive its agents and its drivers.

    `applied` counts the desired states that any agent has begun to apply. `stopped`: instances that do not
    run, for a move or since the lease was over; they stay so, although the next agent stops them once more.
    """

    applied: Counter[tuple[Key, int]]
    stopped: set[Key]

    def starts(self, key: Key) -> None:
        """An instance begins to run."""


class CountingDriver(FakeDriver):
    """The fake driver, which knows what runs, also when its agent is dead."""

    def __init__(self, settings: DriverSettings, clock: MachineClock, memory: Memory) -> None:
        super().__init__(settings, clock)
        self._memory = memory

    def may_run(self, is_alone: bool) -> set[Key]:
        """Return the instances that may run; without an agent, also all that it had begun to build."""
        if not self._lease.is_held(self._clock.monotonic()):
            return set()
        running = self._built.keys() - self._memory.stopped
        return running | self._building.keys() if is_alone else running

    def outlive(self) -> None:
        """Lose the agent, and report everything to the next one."""
        if not self._lease.is_held(self._clock.monotonic()):
            # Nothing runs any more, although no agent was there to see it.
            self._fence()
        self._happened = []
        for key, observed in self._built.items():
            if key in self._fenced:
                self._happened.append(Fenced(key))
            elif key not in self._leaving:
                self._happened.append(Built(key, observed))
            elif key in self._memory.stopped:
                self._happened.append(Left(key, self._leaving[key]))

    def found(self) -> Sequence[Key]:
        return [*self._built, *self._building]

    def poll(self) -> Sequence[DriverEvent]:
        if not self._lease.is_held(self._clock.monotonic()):
            self._memory.stopped.update(self._built)
        happened = [self._as_it_goes(event) for event in super().poll()]
        for event in happened:
            if isinstance(event, Left) and not event.reason:
                self._memory.stopped.add(event.key)
            elif isinstance(event, Built):
                self._memory.starts(event.key)
        return happened

    def _as_it_goes(self, event: DriverEvent) -> DriverEvent:
        """Let some stops for a move fail: nothing is stopped."""
        if not isinstance(event, Left) or event.key in self._memory.stopped:
            return event
        fails = _chance(self._settings.seed, event.key, "leave") < self._settings.action_failure_rate
        return replace(event, reason=DRIVER_FAILED) if fails else event

    def running(self) -> Sequence[Key]:
        """Return the instances that run as they should, and do nothing else just now."""
        busy = self._memory.stopped | self._applying.keys() | self._leaving.keys() | self._fenced
        found = (key for key, observed in self._built.items() if observed.power is Power.RUNNING)
        return [key for key in found if key not in busy]

    def end_by_itself(self, key: Key) -> None:
        """A server shuts itself down; its host keeps it."""
        self._built[key] = replace(self._built[key], power=Power.STOPPED, reason="ended_by_itself")
        self._happened.append(Changed(key, self._built[key]))

    def lose(self, key: Key) -> None:
        """A server and all that its host had of it are gone, past its agent."""
        del self._built[key]
        self._happened.append(Failed(key, LOST))

    def spawn(self, wanted: Wanted) -> None:
        self._memory.stopped.discard(wanted.key)
        super().spawn(wanted)

    def leave(self, wanted: Wanted) -> None:
        if wanted.key not in self._built:
            # It ran before the machine was off, or never.
            self._memory.stopped.add(wanted.key)
        super().leave(wanted)

    def come_back(self, wanted: Wanted) -> None:
        self._memory.stopped.discard(wanted.key)
        super().come_back(wanted)

    def _fence(self) -> None:
        # The end of the lease cuts them short: the next agent, or this one, applies them from the beginning.
        for key, desired in self._applying.items():
            self._memory.applied[key, desired.generation] -= 1
        super()._fence()

    def apply(self, key: Key, desired: Desired) -> None:
        before = self._applying.get(key)
        super().apply(key, desired)
        self._memory.applied[key, desired.generation] += self._applying.get(key) is not before


class AgentProcess(Process):
    """An agent of one machine; the instances may outlive it, its own memory does not."""

    def __init__(
        self,
        name: str,
        *,
        stage: Stage,
        clock: MachineClock,
        url: str,
        secret: str,
        hosts: Sequence[InventoryHost],
        driver: CountingDriver,
        fence_after_s: float,
        service: str,
        agent_id: str,
    ) -> None:
        super().__init__(name)
        self._stage = stage
        connection = ZoneConnection(url, "compute", secret, timeout_s=5.0)
        connection._session.mount("http://", Wire(stage.network, name, self._touch))
        client = AgentClient(connection, service, AgentIdentity(agent_id))
        rhythm = Rhythm(HEARTBEAT_S, POLL_S, FIRST_RETRY_S, LONGEST_RETRY_S, fence_after_s)
        self.agent = Agent(client, driver, clock, hosts, rhythm)

    def work(self) -> None:
        """Go on for as long as it lives."""
        BatonExecutor(self._stage.baton, self).start_loop("agent", self.agent.step)

    def running(self) -> set[Key]:
        """Instances that run on its hosts."""
        local = self.agent.state.instances
        return {key for key in local if local[key].phase is Phase.BUILT}

    def seen(self) -> dict[tuple[str, int], tuple[int, str, int]]:
        """Generation, power and rebuilds of each built instance, by uuid and attempt."""
        local = self.agent.state.instances
        return {
            (key.uuid, key.attempt): (
                one.observed.generation,
                one.observed.power.value,
                one.observed.rebuilds,
            )
            for key, one in local.items()
            if one.phase is Phase.BUILT
        }

    @property
    def is_refused(self) -> bool:
        """Tell whether its service is another agent's, as its zone has said last."""
        return not self.agent.zone.uuid and OF_ANOTHER_AGENT in self.agent._put_off_why

    def has_unreported_builds(self) -> bool:
        """Tell whether it has fetched builds that it has not reported."""
        state = self.agent.state
        is_built = any(report.state is ReportState.ACTIVE for report in state.unreported.values())
        return is_built or any(local.phase is Phase.BUILDING for local in state.instances.values())

    def die(self) -> None:
        """Nothing of it goes on."""
        if not self.is_dead:
            self._stage.baton.kill(self)

    def _touch(self, what: str) -> None:
        if self.is_dead:
            raise ProcessDied
        self._stage.baton.pause(0.001)
