"""One zone's machines: its database, its keys, its processes and machines, which come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy.exc import DBAPIError

from tests.simulation import databases
from tests.simulation.clock import MachineClock
from tests.simulation.furniture import furnish
from tests.simulation.leases import Writer
from tests.simulation.machine import Door, Machine
from tests.simulation.running import Running
from tests.simulation.stage import Stage
from tests.simulation.tree_plan import ZonePlan
from tests.simulation.zone_process import ZoneProcess
from zonesched import conf as options
from zonesched.compute.driver import DriverSettings
from zonesched.errors import DatabaseFull
from zonesched.model.views import ChildForm
from zonesched.services.audit import repair
from zonesched.services.children import children

TIMES = {
    "boot_lease": 8.0,
    "boot_poll_interval": 4.0,
    "build_plan_ttl": 12.0,
    "build_timeout": 2.0,
    "hold": 6.0,
    "hold_margin": 1.0,
    "max_hold": 60.0,
    "instance_build_timeout": 14.0,
    "instance_sync_interval": 6.0,
    "retry_pause": 1.5,
    "retry_pause_max": 5.0,
    "retry_window": 60.0,
    "select_timeout": 2.0,
    "service_down_time": 11.0,
    "zone_db_check_interval": 5.0,
    "zone_poll_timeout": 1.0,
}
"""Options in seconds, a few times shorter than their defaults: so is the simulated time of a seed."""

FIRST_USER = "admin"
"""The user who boots in a zone until an operator gives that to another one."""

AWAY_S = (2.0, 2.0, 20.0)
"""Longest absences of a process: shorter and longer than a lease and a hold."""

START_S = 5.0
"""After so long a new process has done all its background work once."""


class Site:
    """A zone, whoever works for it just now."""

    def __init__(
        self,
        stage: Stage,
        plan: ZonePlan,
        database: str,
        number: int,
        on_commit: Callable[[str, Writer], None],
        running: Running,
    ) -> None:
        self.name = plan.name
        self.plan = plan
        self.url = f"http://127.0.0.1:{7001 + number}"
        self.rows = databases.connect(database)
        self.clock = MachineClock(stage.baton, f"{stage.seed}/{plan.name}")
        self.uuid = ""
        self.child_ids: dict[str, str] = {}
        self.processes: list[ZoneProcess] = []
        self._stage = stage
        self._on_commit = on_commit
        self._keys = [self.clock.random_bytes(32).hex()]
        self._secret_key = self.clock.random_bytes(32).hex()
        self._options: dict[str, Any] = {}
        self._started = 0
        self._times_down = 0
        self._is_down = False
        made = furnish(self.rows, self.clock)
        self.secrets = made.secrets
        self.user = FIRST_USER
        self.groups = made.groups
        self.all_groups = {id: name for name, id in made.groups.items()}
        self.machines = self._machines(running)
        self._database = databases.Database(database)
        self._conf: options.Conf | None = None
        stage.network.register(self.name, self.url)

    def set_up(self, given: dict[str, Any]) -> None:
        """The first process, and the hosts, as their agent registers them."""
        self._options = given
        process = self._new_process()
        zone = process.open(self._current_conf(), self._database)
        self.uuid = zone.uuid
        process.serve()
        for machine in self.machines:
            agent = machine.start()
            agent.agent.step()
            agent.work()

    def adopt(self, child: Site) -> None:
        """Make another site's zone a child of this one's."""
        zone = self.processes[0].zone
        assert zone is not None
        form = ChildForm(child.name, child.url, "parent", child.secrets["parent"])
        self.child_ids[child.name] = children.add(zone, form).id

    def poll(self) -> None:
        """Let the first process hear how its children are."""
        zone = self.processes[0].zone
        assert zone is not None
        zone.children.poll()

    def repair(self) -> None:
        """Run `zonesched audit --repair` in the first process that has the zone open."""
        while not (opened := [process.zone for process in self.processes if process.zone is not None]):
            self._stage.baton.pause(1.0)
        repair.run(opened[0])

    # -- processes -----------------------------------------------------------------------------------------

    def start_process(self) -> None:
        """One more process opens the zone, and serves once it has; one that cannot ends."""
        process = self._new_process()

        def main() -> None:
            try:
                process.open(self._current_conf(), self._database)
            except (DBAPIError, DatabaseFull):
                process.die()
            else:
                process.serve()

        self._stage.baton.spawn(process, "main", main)

    def _new_process(self) -> ZoneProcess:
        self._started += 1
        process = ZoneProcess(
            f"{self.name}/{self._started}",
            stage=self._stage,
            site=self.name,
            clock=self.clock,
            on_commit=lambda writer: self._on_commit(self.name, writer),
            on_death=self._process_died,
        )
        self.processes.append(process)
        return process

    def _process_died(self, process: ZoneProcess) -> None:
        self.processes.remove(process)
        baton, storm = self._stage.baton, self._stage.storm
        back_in_s = storm.random.uniform(0.1, storm.random.choice(AWAY_S)) if storm.is_raging else 0.2
        self._stage.trouble(self.name, baton.now + back_in_s + START_S)
        times_down = self._times_down
        baton.at(baton.now + back_in_s, lambda: self._come_back(times_down))

    def _come_back(self, times_down: int) -> None:
        """Start a process in place of one that died, unless all were started anew meanwhile."""
        if not self._is_down and times_down == self._times_down:
            self.start_process()

    def go_down(self) -> None:
        """End all processes; none is started before `come_up`."""
        self._times_down += 1
        self._is_down = True
        for process in list(self.processes):
            process.die()

    def come_up(self) -> None:
        """Start all processes of the zone, on whatever its database is by now."""
        self._is_down = False
        self._database.disconnect()
        for _ in range(self.plan.processes):
            self.start_process()

    def rotate_key(self) -> None:
        """Seal under a new key from the next start on, and start all processes anew, one after the other."""
        self._keys = [self.clock.random_bytes(32).hex(), *self._keys[:1]]
        self._conf = None
        for process in list(self.processes):
            process.die()

    # -- machines ------------------------------------------------------------------------------------------

    def _machines(self, running: Running) -> list[Machine]:
        """Make the machines of the zone's hosts."""
        machines: list[Machine] = []
        hosts = list(self.plan.hosts)
        for number, count in enumerate(self.plan.machines):
            machine = Machine(
                f"{self.name}-{number}-agent",
                stage=self._stage,
                clock=self.clock,
                door=Door(self.url, self.secrets["compute"]),
                hosts=tuple(hosts[:count]),
                settings=DriverSettings(
                    build_seconds=self.plan.build_s,
                    failure_rate=self.plan.failure_rate,
                    seed=self.name,
                    action_seconds=self.plan.build_s / 2,
                    action_failure_rate=self.plan.action_failure_rate,
                ),
                fence_after_s=self.plan.fence_after_s,
                running=running,
            )
            machines.append(machine)
            del hosts[:count]
        return machines

    # -- the rest ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give the database back."""
        self._database.disconnect()
        self.rows.close()

    def _current_conf(self) -> options.Conf:
        if self._conf is None:
            self._conf = options.load(
                overrides={
                    "zone_name": self.name,
                    "build_plan_encryption_key": self._keys,
                    "secret_encryption_key": self._secret_key,
                    "child_networks": ["loopback"],
                    **TIMES,
                    **self._options,
                    **self.plan.limits,
                }
            )
        return self._conf
