"""The timed faults of a storm: each kind strikes in some zone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from tests.simulation.guard import Guard
from tests.simulation.operators import Operators
from tests.simulation.outages import Outages
from tests.simulation.returns import Returns
from tests.simulation.settings import Settings
from tests.simulation.site import START_S, Site
from tests.simulation.stage import Stage
from tests.simulation.users import Users
from tests.simulation.zone_process import TROUBLE_S


class Strikes:
    """`are_heard`: zones whose agents come back, however late."""

    def __init__(
        self,
        stage: Stage,
        sites: Mapping[str, Site],
        *,
        outages: Outages,
        operators: Operators,
        settings: Settings,
        users: Users,
        returns: Returns,
        guard: Guard,
        are_heard: Collection[str],
    ) -> None:
        self._stage = stage
        self._sites = sites
        self._outages = outages
        self._operators = operators
        self._settings = settings
        self._users = users
        self._returns = returns
        self._guard = guard
        self._are_heard = are_heard

    def strike(self, kind: str) -> None:
        """Let a fault happen in some zone."""
        self._stage.storm.count(kind)
        strike: dict[str, Callable[[Site], None]] = {
            "partition": self._cut,
            "process_frozen": self._freeze,
            "clock_set": self._set_clock,
            "key_rotated": lambda site: site.rotate_key(),
            "secret_rotated": self._rotate_secret,
            "agent_killed": self._outages.kill_agent,
            "host_away": self._outages.turn_off,
            "host_shrunk": self._outages.shrink,
            "child_slow": self._slow_down,
            "database_full": self._fill,
            "child_removed": self._remove_for_a_while,
            "host_evacuated": self._operators.evacuate,
            "host_drained": self._operators.drain_host,
            "zone_drained": self._drain,
            "deleted_below": self._delete_below,
            "host_disabled": self._settings.disable_host,
            "host_forced_down": self._settings.force_host_down,
            "host_removed": self._settings.remove_host,
            "ratio_lowered": self._settings.lower_ratio,
            "flavor_removed": self._settings.remove_flavor,
            "quota_lowered": self._settings.lower_quota,
            "group_removed": self._settings.remove_group,
            "server_locked": self._settings.lock_server,
            "user_changed": self._settings.change_user,
            "rows_repaired": self._settings.repair,
            "agent_lost": self._outages.lose,
            "agent_late": self._outages.hold_up,
            "agent_doubled": self._operators.double,
            "state_folder_lost": self._operators.reinstall,
            "server_ended": self._outages.end_server,
            "server_lost": lambda site: self._outages.lose_server(site, list(self._sites.values())),
        }
        site = self._stage.storm.random.choice(list(self._sites.values()))
        # An agent that never comes back is never heard.
        if (kind, site.name) not in {("agent_lost", name) for name in self._are_heard}:
            strike[kind](site)

    def _cut(self, site: Site) -> None:
        until = self._stage.baton.now + self._stage.storm.random.uniform(1.0, 20.0)
        for other in (site.plan.parent, "users", *(machine.name for machine in site.machines)):
            if other and self._stage.storm.random.random() < 0.7:
                self._stage.network.cut(site.name, other, until)

    def _freeze(self, site: Site) -> None:
        if site.processes:
            process = self._stage.storm.random.choice(site.processes)
            process.frozen_until = self._stage.baton.now + self._stage.storm.random.uniform(0.5, 10.0)
            self._stage.trouble(site.name, process.frozen_until + START_S)

    def _fill(self, site: Site) -> None:
        until = self._stage.baton.now + self._stage.storm.random.uniform(1.0, 12.0)
        self._stage.full_until[site.name] = until
        self._stage.trouble(site.name, until + TROUBLE_S)

    def _set_clock(self, site: Site) -> None:
        self._guard.note_time(site.name)
        site.clock.set_forward_s += self._stage.storm.random.choice((-20.0, -5.0, 5.0, 20.0, 60.0))

    def _rotate_secret(self, site: Site) -> None:
        if site.plan.parent:
            self._users.rotate_secret(self._sites[site.plan.parent], site)

    def _remove_for_a_while(self, site: Site) -> None:
        if site.plan.parent:
            self._returns.remove(self._sites[site.plan.parent], site)

    def _drain(self, site: Site) -> None:
        if site.plan.parent:
            self._operators.drain_zone(self._sites[site.plan.parent], site)

    def _delete_below(self, site: Site) -> None:
        if site.plan.parent:
            self._operators.delete_below(self._sites[site.plan.parent], site)

    def _slow_down(self, site: Site) -> None:
        until = self._stage.baton.now + self._stage.storm.random.uniform(2.0, 20.0)
        self._stage.network.slow_until[site.name] = until
