"""Faults of machines and their agents: they die, pause, shrink and come back, each by itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.simulation.agent_process import AgentProcess
from tests.simulation.machine import Machine
from tests.simulation.running import Running
from tests.simulation.site import Site
from tests.simulation.stage import Stage
from zonesched.compute.machine import Key

LOOK_FOR_BUILDS_EACH_S = 0.005
LOOK_FOR_RESIZES_EACH_S = 0.25

_RESIZED = "SELECT uuid FROM moves WHERE state = 'verifying'"


class Outages:
    """Outages of machines in a storm; an operator's machines are left alone."""

    def __init__(self, stage: Stage, running: Running) -> None:
        self._stage = stage
        self._random = stage.storm.random
        self._running = running
        self._doubles: list[tuple[str, Machine]] = []
        # Its own draw, so that the other seeds play as they would without this.
        self._loses_resized = random.Random(f"lost/resized/{stage.seed}").random() < 0.3

    def one_of(self, site: Site) -> Machine | None:
        """Draw a machine whose agent lives."""
        alive = [one for one in site.machines if one.live_agent is not None and not one.is_reserved]
        return self._random.choice(alive) if alive else None

    def kill_agent(self, site: Site) -> None:
        """Kill an agent; in every second case its machine starts anew."""
        machine = self.one_of(site)
        if machine is not None:
            if self._random.random() < 0.5:
                machine.power_off()
            self._down(machine, 3.0)

    def turn_off(self, site: Site) -> None:
        """Turn a machine off for a while."""
        machine = self.one_of(site)
        if machine is not None:
            machine.power_off()
            self._down(machine, 20.0)

    def shrink(self, site: Site) -> None:
        """Take some capacity from a machine, whose agent starts anew."""
        machine = self.one_of(site)
        if machine is not None:
            machine.shrink()
            machine.power_off()
            self._down(machine, 2.0)

    def lose(self, site: Site) -> None:
        """Let a machine run on with what it has, never to be heard of again."""
        machine = self.one_of(site)
        if machine is not None and not self._awaits_build(machine, lambda: self.lose(site)):
            machine.is_lost = True
            machine.kill_agent()

    def hold_up(self, site: Site) -> None:
        """Pause an agent, mostly for longer than a build may take.

        It then continues with the state it had.
        """
        machine = self.one_of(site)
        if machine is not None and not self._awaits_build(machine, lambda: self.hold_up(site)):
            agent: AgentProcess | None = machine.live_agent
            assert agent is not None
            agent.frozen_until = self._stage.baton.now + self._random.uniform(5.0, 40.0)

    def double(self, site: Site) -> tuple[Machine, float] | None:
        """Give another machine the name of one; return that one, and the time at which the other one ends.

        Where nobody hears of the first one for long enough, and nothing may run there any more, the second
        one takes its place.
        """
        machine = self.one_of(site)
        if machine is None:
            return None
        if self._random.random() < 0.3:
            machine.kill_agent()
            back_at = self._stage.baton.now + self._random.uniform(5.0, 40.0)
            self._stage.baton.at(back_at, lambda: self.bring_back(machine))
        double = machine.like_this()
        self._doubles.append((machine.name, double))
        if machine in self._running.machines:
            self._running.machines.append(double)
        double.start().work()
        ends_at = self._stage.baton.now + self._random.uniform(5.0, 40.0)
        self._stage.baton.at(ends_at, double.power_off)
        return machine, ends_at

    def end_doubles(self, of: str) -> None:
        """Turn off all machines that have the name of this machine."""
        for name, double in self._doubles:
            if name == of:
                double.power_off()

    def end_server(self, site: Site) -> None:
        """Let a server shut itself down."""
        self._strike_server(site, Machine.end_by_itself)

    def lose_server(self, site: Site, sites: Sequence[Site]) -> None:
        """Let a server be lost on its host, past its agent; in some seeds a resized one of any zone."""
        if self._loses_resized:
            self._lose_resized(sites)
        else:
            self._strike_server(site, Machine.lose)

    def _lose_resized(self, sites: Sequence[Site]) -> None:
        """Lose a server whose resize waits for its owner, once there is one."""
        there: list[tuple[Machine, Key]] = []
        for site in sites:
            resized = {uuid for (uuid,) in site.rows.execute(_RESIZED)}
            alive = [one for one in site.machines if one.live_agent is not None and not one.is_reserved]
            there += [(one, key) for one in alive for key in sorted(one.servers()) if key.uuid in resized]
        if there:
            machine, key = there[0]
            machine.lose(key)
        elif self._stage.storm.is_raging:
            again_at = self._stage.baton.now + LOOK_FOR_RESIZES_EACH_S
            self._stage.baton.at(again_at, lambda: self._lose_resized(sites))

    def _strike_server(self, site: Site, strike: Callable[[Machine, Key], None]) -> None:
        machine = self.one_of(site)
        if machine is not None and (servers := machine.servers()):
            strike(machine, self._random.choice(sorted(servers)))

    def bring_back(self, machine: Machine) -> None:
        """Start a machine's agent if it is dead and may come back."""
        if machine.live_agent is None and not machine.is_lost and not machine.is_reserved:
            machine.start().work()

    def _down(self, machine: Machine, most_s: float) -> None:
        machine.kill_agent()
        back_at = self._stage.baton.now + self._random.uniform(0.5, most_s)
        self._stage.baton.at(back_at, lambda: self.bring_back(machine))

    def _awaits_build(self, machine: Machine, again: Callable[[], None]) -> bool:
        """Tell whether to strike later: most faults can happen to builds that are not reported yet."""
        agent = machine.live_agent
        if not self._stage.storm.is_raging or agent is None or agent.has_unreported_builds():
            return False
        self._stage.baton.at(self._stage.baton.now + LOOK_FOR_BUILDS_EACH_S, again)
        return True
