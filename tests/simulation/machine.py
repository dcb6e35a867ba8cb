"""One machine of a zone: its hosts, what runs on them, and its agents, one after the other."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tests.simulation.agent_process import AgentProcess, CountingDriver
from tests.simulation.clock import MachineClock
from tests.simulation.running import Running
from tests.simulation.stage import Stage
from zonesched.compute.driver import DriverSettings
from zonesched.compute.inventory import InventoryHost
from zonesched.compute.machine import Key


@dataclass(frozen=True)
class Door:
    """The zone that a machine belongs to: its URL, and the secret of its agents."""

    url: str
    secret: str


class Machine:
    """Instances outlive its agent unless it was off; then those run again that the zone wants.

    `is_lost`: nobody hears of it ever again, and what ran on it runs on. `is_reserved`: an operator is about
    to take it away or to bring it back, and no fault does. `is_removed`: its hosts were removed for good.
    """

    def __init__(
        self,
        name: str,
        *,
        stage: Stage,
        clock: MachineClock,
        door: Door,
        hosts: tuple[InventoryHost, ...],
        settings: DriverSettings,
        fence_after_s: float,
        running: Running,
    ) -> None:
        self.name = name
        self.hosts = hosts
        self.agent: AgentProcess | None = None
        self.is_lost = False
        self.is_reserved = False
        self.is_removed = False
        self.applied: Counter[tuple[Key, int]] = Counter()
        self.stopped: set[Key] = set()
        self.fence_after_s = fence_after_s
        self._service = name
        self._state_folders = 1
        self._stage = stage
        self._clock = clock
        self._door = door
        self._settings = settings
        self._running = running
        self._driver: CountingDriver | None = None

    def start(self) -> AgentProcess:
        """Start an agent, which does not work yet."""
        if self._driver is None:
            self._driver = CountingDriver(self._settings, self._clock, self)
        else:
            self._driver.outlive()
        self.agent = AgentProcess(
            self.name,
            stage=self._stage,
            clock=self._clock,
            url=self._door.url,
            secret=self._door.secret,
            hosts=self.hosts,
            driver=self._driver,
            fence_after_s=self.fence_after_s,
            service=self._service,
            agent_id=str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{self.name}/{self._state_folders}")),
        )
        return self.agent

    def like_this(self) -> Machine:
        """Return another machine, which was given the name and hosts of this one, and has nothing of it."""
        made = Machine(
            f"{self.name}-double",
            stage=self._stage,
            clock=self._clock,
            door=self._door,
            hosts=self.hosts,
            settings=self._settings,
            fence_after_s=self.fence_after_s,
            running=self._running,
        )
        made._service = self._service
        return made

    def lose_state_folder(self) -> None:
        """Let the next agent have another id."""
        self._state_folders += 1

    def servers(self) -> Sequence[Key]:
        """Return the instances that run as they should, and do nothing else just now."""
        return () if self._driver is None else self._driver.running()

    def end_by_itself(self, key: Key) -> None:
        """One of `servers` shuts itself down."""
        assert self._driver is not None
        self._driver.end_by_itself(key)

    def lose(self, key: Key) -> None:
        """One of `servers` is gone, with all that this machine had of it."""
        assert self._driver is not None
        self._driver.lose(key)

    @property
    def live_agent(self) -> AgentProcess | None:
        """Return the agent, unless it is dead."""
        return None if self.agent is None or self.agent.is_dead else self.agent

    def kill_agent(self) -> None:
        """End the agent alone."""
        if self.agent is not None:
            self.agent.die()

    def power_off(self) -> None:
        """End the agent and all instances."""
        self.kill_agent()
        self._driver = None

    def may_run(self) -> set[Key]:
        """Return what may run here; while nobody hears of the agent, also all that it had begun to build."""
        if self._driver is None or self.agent is None:
            return set()
        is_alone = self.agent.is_dead or self.agent.frozen_until > self._stage.baton.now
        return self._driver.may_run(is_alone)

    def starts(self, key: Key) -> None:
        """An instance begins to run."""
        self._running.starts(self, key)

    def applied_twice(self) -> Iterator[str]:
        """P9: the effect of an action happens once, whatever agent it is that acts."""
        for (key, generation), count in self.applied.items():
            if count > 1:
                yield f"P9 {self.name}: generation {generation} of {key.uuid} was applied {count} times"

    def shrink(self) -> None:
        """Take a vCPU from each host; the next agent reports that."""
        self.hosts = tuple(_with_vcpus(host, -1) for host in self.hosts)


def _with_vcpus(host: InventoryHost, more: int) -> InventoryHost:
    vcpus = host.inventories["VCPU"]
    changed = {**vcpus, "total": max(1, vcpus["total"] + more)}
    return replace(host, inventories={**host.inventories, "VCPU": changed})
