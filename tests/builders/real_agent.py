"""An agent of a zone of a tree: the real one, with the fake driver, by HTTP over the tree's network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.builders.tree import Tree
from zonesched.compute.agent import Agent, Rhythm
from zonesched.compute.client import AgentClient
from zonesched.compute.connection import ZoneConnection
from zonesched.compute.driver import DriverSettings
from zonesched.compute.fake import FakeDriver
from zonesched.compute.inventory import InventoryHost
from zonesched.compute.machine import Built, Key, Phase, Wanted
from zonesched.compute.state_folder import NO_IDENTITY, of_folder
from zonesched.seams import Clock


def a_machine(name: str, vcpus: int = 16) -> InventoryHost:
    totals = {"VCPU": vcpus, "MEMORY_MB": 2048 * vcpus, "DISK_GB": 500}
    return InventoryHost(name, inventories={c: {"total": n} for c, n in totals.items()})


class RealAgent:
    """The agent of some hosts of one zone; `spawned`: every attempt that it was ever told to build.

    `state_folder`: where it keeps its id, None for an agent without one.
    """

    def __init__(
        self,
        tree: Tree,
        zone: str,
        hosts: Sequence[InventoryHost],
        service: str = "agent",
        state_folder: Path | None = None,
    ) -> None:
        self._tree = tree
        node = tree.nodes[zone]
        connection = ZoneConnection(node.url, "compute", node.secrets["compute"], adapter=tree.network)
        self.driver = _Spawns(DriverSettings(), tree.clock)
        identity = NO_IDENTITY if state_folder is None else of_folder(state_folder, tree.clock)
        self._client, self._hosts = AgentClient(connection, service, identity), hosts
        self.start_again()
        self.work()

    def start_again(self) -> None:
        """Start the agent, which finds what its driver runs, and knows nothing else of it."""
        self._agent = Agent(self._client, self.driver, self._tree.clock, self._hosts, Rhythm())

    @property
    def running(self) -> set[Key]:
        """The instances that it has, but for those that it could not build."""
        return {key for key, local in self._agent.state.instances.items() if local.phase is Phase.BUILT}

    def uuids(self) -> set[str]:
        return {key.uuid for key in self.running}

    @property
    def zone_uuid(self) -> str:
        """The zone in which it is registered, "" for none."""
        return self._agent.zone.uuid

    def rebuilds(self, uuid: str) -> int:
        """Number of times that an instance was rebuilt here."""
        found = [local for key, local in self._agent.state.instances.items() if key.uuid == uuid]
        return found[-1].observed.rebuilds

    def builds(self, seconds: float = 0.0, failure_rate: float = 0.0) -> None:
        """Let its next builds take so long, and so many of them fail."""
        self.driver._settings = DriverSettings(build_seconds=seconds, failure_rate=failure_rate)

    def step(self) -> None:
        """Do what is due."""
        self._agent.step()

    def work(self) -> None:
        """Do all there is to do by now, and after each of the next polls."""
        for _ in range(4):
            self._agent.step()
            self._tree.clock.advance(16)
        self._agent.step()


class _Spawns(FakeDriver):
    """The fake driver, which remembers what it was told to build, and finds what runs for a later agent."""

    def __init__(self, settings: DriverSettings, clock: Clock) -> None:
        super().__init__(settings, clock)
        self.spawned: list[Key] = []

    def found(self) -> Sequence[Key]:
        self._happened += [Built(key, observed) for key, observed in self._built.items()]
        return sorted(self._built)

    def spawn(self, wanted: Wanted) -> None:
        self.spawned.append(wanted.key)
        super().spawn(wanted)
