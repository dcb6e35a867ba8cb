"""One process of a compute agent: the real agent, client and fake driver, behind the simulated network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from tests.simulation.baton import Process, ProcessDied
from tests.simulation.clock import MachineClock
from tests.simulation.executor import BatonExecutor
from tests.simulation.network import Wire
from tests.simulation.stage import Stage
from zonesched.compute.agent import Agent, Rhythm
from zonesched.compute.client import AgentClient
from zonesched.compute.connection import ZoneConnection
from zonesched.compute.desired_state import Desired
from zonesched.compute.driver import DriverSettings
from zonesched.compute.fake import FakeDriver
from zonesched.compute.inventory import InventoryHost
from zonesched.compute.machine import DriverEvent, Key, Left, Phase, ReportState, Wanted

RHYTHM = Rhythm(heartbeat_s=4.0, poll_s=3.0, first_retry_s=0.5, longest_retry_s=5.0)


class CountingDriver(FakeDriver):
    """The fake driver; `applied` counts the desired states that it has begun to apply, over all agents.

    `stopped`: what any agent has stopped for a move; it stays so, although the next one stops it once more.
    """

    def __init__(
        self,
        settings: DriverSettings,
        clock: MachineClock,
        applied: Counter[tuple[Key, int]],
        stopped: set[Key],
    ) -> None:
        super().__init__(settings, clock)
        self._applied = applied
        self._stopped = stopped

    def poll(self) -> Sequence[DriverEvent]:
        happened = super().poll()
        self._stopped.update(event.key for event in happened if isinstance(event, Left))
        return happened

    def spawn(self, wanted: Wanted) -> None:
        self._stopped.discard(wanted.key)
        super().spawn(wanted)

    def come_back(self, wanted: Wanted) -> None:
        self._stopped.discard(wanted.key)
        super().come_back(wanted)

    def apply(self, key: Key, desired: Desired) -> None:
        before = self._applying.get(key)
        super().apply(key, desired)
        self._applied[key, desired.generation] += self._applying.get(key) is not before


class AgentProcess(Process):
    """The agent of some hosts of one zone; what its predecessor knew is lost."""

    def __init__(
        self,
        name: str,
        *,
        stage: Stage,
        clock: MachineClock,
        url: str,
        secret: str,
        hosts: Sequence[InventoryHost],
        settings: DriverSettings,
        applied: Counter[tuple[Key, int]],
        stopped: set[Key],
        on_death: Callable[[AgentProcess], None],
    ) -> None:
        super().__init__(name)
        self._stage = stage
        self._on_death = on_death
        self._stopped = stopped
        connection = ZoneConnection(url, "compute", secret, timeout_s=5.0)
        connection._session.mount("http://", Wire(stage.network, name, self._touch))
        client = AgentClient(connection, name)
        self.agent = Agent(client, CountingDriver(settings, clock, applied, stopped), clock, hosts, RHYTHM)
        self._clock = clock

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

    def has_unreported_builds(self) -> bool:
        """Tell whether it has fetched builds that it has not reported."""
        state = self.agent.state
        is_built = any(report.state is ReportState.ACTIVE for report in state.unreported.values())
        return is_built or any(local.phase is Phase.BUILDING for local in state.instances.values())

    def may_run(self, is_out_of_reach: bool) -> set[Key]:
        """Instances that may run on its hosts; out of reach, that is all that it had begun to build."""
        local = self.agent.state.instances
        phases = {Phase.BUILT, Phase.LEAVING} | ({Phase.BUILDING} if is_out_of_reach else set())
        return {key for key in local if local[key].phase in phases and key not in self._stopped}

    def die(self) -> None:
        """Nothing of it goes on."""
        if not self.is_dead:
            self._stage.baton.kill(self)
            self._on_death(self)

    def _touch(self, what: str) -> None:
        if self.is_dead:
            raise ProcessDied
        self._stage.baton.pause(0.001)
