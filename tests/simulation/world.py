"""One seed, played: the tree is set up in calm; the storm; all is healed and has to come to rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.simulation.actions import Seen
from tests.simulation.agent_process import AgentProcess
from tests.simulation.answers import Answers
from tests.simulation.baton import Process
from tests.simulation.checker import Expected, Promised, inconsistencies
from tests.simulation.damage import damage
from tests.simulation.forger import Forger
from tests.simulation.furniture import GROUPS
from tests.simulation.guard import Guard
from tests.simulation.journal import Journals
from tests.simulation.leases import Writer
from tests.simulation.liar import Liar
from tests.simulation.liars import liar_of
from tests.simulation.machine import Machine
from tests.simulation.operators import Operators
from tests.simulation.outages import Outages
from tests.simulation.plan import Plan
from tests.simulation.pruned import RETENTION_S, left_over
from tests.simulation.repeats import too_many
from tests.simulation.restore_plan import restores_of
from tests.simulation.restore_rules import stale_hosts
from tests.simulation.restores import Restores
from tests.simulation.returns import Returns
from tests.simulation.running import Running
from tests.simulation.settings import Settings
from tests.simulation.site import Site
from tests.simulation.stage import Stage
from tests.simulation.strikes import Strikes
from tests.simulation.tree_plan import PARENT_INSTANCES
from tests.simulation.users import Users
from zonesched.model.request_spec import GroupPolicy
from zonesched.services.placing.pruning import NEXT_ROUND_S

LOOK_EACH_S = 1.0
LIES_GO_ON_S = 20.0
"""Seconds after the storm until an operator removes a liar."""

STAY_S = 5.0
"""Seconds that all must stay as it is once it is as it must be."""


class World:
    """The sites of a plan, and what happens to them; `databases` names those of this world alone."""

    def __init__(self, stage: Stage, plan: Plan, databases: str) -> None:
        self.plan = plan
        self.stage = stage
        self.converged_s = 0.0
        self.running = Running()
        self.outages = Outages(stage, self.running)
        self.sites: dict[str, Site] = {}
        for number, zone in enumerate(plan.zones):
            self.sites[zone.name] = Site(
                stage, zone, f"{databases}/{zone.name}", number, self._committed, self.running
            )
        self.databases = {name: site.rows for name, site in self.sites.items()}
        self.journals = Journals(self.databases)
        clocks = {name: site.clock for name, site in self.sites.items()}
        self.liar = liar_of(stage, plan, self.sites)
        self.running.machines += [
            machine
            for name, site in self.sites.items()
            for machine in site.machines
            if name not in self.liar.suspects
        ]
        quotas = {
            zone.name: zone.limits[PARENT_INSTANCES] for zone in plan.zones if PARENT_INSTANCES in zone.limits
        }
        self.guard = Guard(stage, self.databases, clocks, self.liar.suspects, quotas)
        self.answers = Answers(stage)
        self.users = Users(stage, self.sites)
        self.operators = Operators(stage, self.users, self.outages)
        self.settings = Settings(stage, self.users)
        lied_to = next((zone.parent for zone in plan.zones if zone.name == self.liar.name), "")
        drawn = restores_of(stage.seed, plan.zones, beside_liar=type(self.liar) is not Liar, lied_to=lied_to)
        plans = [one for one in drawn if one.zone not in self.liar.suspects]
        self.restores = Restores(
            stage, plans, self.sites, self.users, self.operators, self.liar, self._restored
        )
        self.users.forgetful = self.restores.zones
        self.returns = Returns(stage, self.users, are_planned=not (plans or self.liar.name))
        self.forger = Forger(stage, self.sites)
        self.strikes = Strikes(
            stage,
            self.sites,
            outages=self.outages,
            operators=self.operators,
            settings=self.settings,
            users=self.users,
            returns=self.returns,
            guard=self.guard,
            are_heard=self.restores.zones,
        )
        self._operator = Process("operator")
        self._is_set_up = False
        self._is_spoilt = False

    def play(self) -> list[str]:
        """Description of the fault, if any."""
        self._set_up()
        self._storm()
        if self._is_broken:
            return [*self.guard.wrong, *self.running.wrong, *self.restores.wrong]
        heal_at = self._end_lies(self._heal())
        calls, writes = self.stage.network.calls.copy(), self.stage.writes.copy()
        wrong = self._come_to_rest(heal_at)
        wrong += too_many(
            self.stage.network.calls - calls,
            self.stage.writes - writes,
            seconds=self.stage.baton.now - heal_at,
            processes=max(zone.processes for zone in self.plan.zones),
            instances=sum(boot.count for boot in self.plan.boots),
        )
        if not wrong and self.stage.seed % 4 == 0:
            self.users.delete_everything()
            wrong = self._come_to_rest(self.stage.baton.now)
        if not wrong and self.stage.seed % 8 == 0:
            wrong = self._forget_everything()
        if not wrong and self.stage.seed % 4 == 1:
            wrong = self._spoil_and_repair()
        twice = [line for machine in self._machines() for line in machine.applied_twice()]
        return [
            *self.users.wrong,
            *self.settings.wrong,
            *self.liar.believed,
            *self.forger.wrong,
            *self.restores.wrong,
            *self.returns.wrong,
            *self.answers.wrong,
            *self.guard.wrong,
            *self.running.wrong,
            *twice,
            *wrong,
        ]

    def close(self) -> None:
        """End all that still runs, and give the databases back."""
        self.stage.baton.close()
        for site in self.sites.values():
            site.close()

    @property
    def _is_broken(self) -> bool:
        """Tell whether a rule was broken that holds at every moment."""
        return bool(self.guard.wrong or self.running.wrong or self.restores.wrong)

    def _machines(self) -> Iterator[Machine]:
        for site in self.sites.values():
            yield from site.machines

    def _committed(self, zone: str, writer: Writer) -> None:
        if not self._is_spoilt:
            news = self.journals.news(zone)
            self.stage.reach.committed(zone, writer, news.changes)
            self.guard.wrong += self.liar.look(zone, news.changes)
            was_recovering = zone in self.restores.recovering
            if self.restores.is_recovering(zone):
                self.restores.look(zone, writer, news.changes)
                return
            if was_recovering:
                self.guard.look_again(zone, writer)
            else:
                self.guard.look(zone, writer, news.tables)

    def _restored(self, zone: str) -> None:
        """Go on with a zone whose rows were put back from a copy."""
        self.journals.skip(zone)
        self.stage.reach.forget(zone)
        self.guard.forget(zone)

    def _look_at_time(self) -> None:
        self.guard.look_at_time()
        self.running.look()
        self._look_at_children()
        self.stage.baton.at(self.stage.baton.now + LOOK_EACH_S, self._look_at_time)

    def _look_at_children(self) -> None:
        for site in self.sites.values():
            opened = [process.zone for process in site.processes if process.zone is not None]
            known = [one for zone in opened for one in zone.children.snapshot()]
            self.stage.reach.looked(one.status for one in known)

    # -- before --------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        baton = self.stage.baton
        baton.spawn(self._operator, "set-up", self._build_tree)
        baton.run(baton.now + 600.0, lambda: self._is_set_up)
        assert self._is_set_up, "the tree was not set up"

    def _build_tree(self) -> None:
        below: dict[str, list[str]] = {}
        for zone in reversed(self.plan.zones):
            site = self.sites[zone.name]
            site.set_up(self.plan.options)
            for child in below.get(zone.name, []):
                site.adopt(self.sites[child])
            site.poll()
            for _ in range(zone.processes - 1):
                site.start_process()
            below.setdefault(zone.parent, []).append(zone.name)
        self._is_set_up = True

    # -- the storm -----------------------------------------------------------------------------------------

    def _storm(self) -> None:
        baton, storm = self.stage.baton, self.stage.storm
        storm.is_raging = True
        begins_at = baton.now
        self.liar.begin(self.plan.storm_s)
        self.restores.begin()
        self._look_at_time()
        self.users.start(self.plan.boots, self.plan.migrations)
        for after_s, kind in storm.moments(self.plan.storm_s):
            baton.at(begins_at + after_s, lambda k=kind: self.strikes.strike(k))
        baton.run(begins_at + self.plan.storm_s, lambda: self._is_broken)

    # -- after ---------------------------------------------------------------------------------------------

    def _heal(self) -> float:
        """All faults stop; the moment of it."""
        self.stage.storm.is_raging = False
        self.stage.network.heal()
        self.stage.full_until.clear()
        for site in self.sites.values():
            for process in site.processes:
                process.frozen_until = 0.0
            for machine in site.machines:
                self.outages.bring_back(machine)
        self.stage.note("storm", "over")
        return self.stage.baton.now

    def _end_lies(self, heal_at: float) -> float:
        """The operator of a liar's parent removes it, whatever it has of theirs; the moment of it."""
        if self.liar.name:
            self.stage.baton.run(heal_at + LIES_GO_ON_S)
            liar = self.sites[self.liar.name]
            if liar.plan.parent:
                self.users.remove_child(self.sites[liar.plan.parent], liar)
        self.liar.end()
        return self.stage.baton.now

    def _come_to_rest(self, since: float) -> list[str]:
        """Go on until all is as it must be, and see that it stays so; what is wrong at last."""
        baton = self.stage.baton
        bound_s = self.bound_s()
        wrong = ["nothing was looked at"]
        # A rule that was broken on the way is enough.
        while wrong and not self._is_broken and baton.now - since < bound_s:
            baton.run(baton.now + LOOK_EACH_S)
            wrong = self._wrong_now()
            if not wrong:
                self.converged_s = max(self.converged_s, baton.now - since)
                baton.run(baton.now + STAY_S)
                wrong = self._wrong_now()
        return [] if self._is_broken else wrong

    def _forget_everything(self) -> list[str]:
        """Let the time pass for which ended boots are kept; what is left of them then."""
        was_removed = self.users.removed | self.returns.again
        # A zone keeps what its admin has deleted of its parent's: nobody says when that has read it.
        is_kept = self.liar.name or self.restores.last or was_removed or self.operators.deleted_below
        if is_kept or any(machine.is_lost for machine in self._machines()):
            # What nobody can ask for, or may still run, stays.
            return []
        for site in self.sites.values():
            site.clock.set_forward_s += RETENTION_S
        self.stage.baton.run(self.stage.baton.now + 2 * NEXT_ROUND_S)
        return list(left_over(self.databases))

    def _spoil_and_repair(self) -> list[str]:
        """Spoil what is all right in one zone, see that it shows, and repair it; what is wrong then."""
        sites = [site for site in self.sites.values() if site.plan.hosts] or list(self.sites.values())
        site = self.stage.storm.random.choice(sites)
        self._is_spoilt = True
        done = damage(site.rows, self.stage.storm.random)
        self.stage.note("operator", f"spoils {site.name}: {done}")
        if not done:
            return []
        if not self._wrong_now():
            return [f"repair: nobody sees that in {site.name} {done}"]
        repaired_at = self.stage.baton.now
        self.stage.baton.spawn(self._operator, "repair", site.repair)
        wrong = self._come_to_rest(repaired_at)
        return [f"repair of {done}: {line}" for line in wrong]

    def bound_s(self) -> float:
        """Seconds after which everything must have come to rest."""
        return 180.0

    def _wrong_now(self) -> list[str]:
        if self.users.busy:
            return ["users still wait for answers"]
        promised = [
            Promised(
                p.zone,
                p.reservation_id,
                p.boot.count,
                p.boot.least,
                frozenset(p.deleted),
                frozenset(p.restored),
            )
            for p in self.users.promises
        ]
        sites = self.sites.values()
        expected = Expected(
            promised=promised,
            running={name: _running(site) for name, site in self.sites.items()},
            seen={name: _seen(site) for name, site in self.sites.items()},
            removed=frozenset(self.users.removed),
            were_removed=frozenset(self.users.removed | self.returns.again),
            liar=self.liar.name,
            restored=self.restores.last,
            deleted_below=frozenset(self.operators.deleted_below),
            lost_hosts={name: _lost_hosts(site) for name, site in self.sites.items()},
            affine=frozenset(
                id for site in sites for id, name in site.all_groups.items() if name == "affinity"
            ),
            most_per_host={
                id: GROUPS[name][1]
                for site in sites
                for id, name in site.all_groups.items()
                if GROUPS[name][0] is GroupPolicy.ANTI_AFFINITY
            },
        )
        stale = [line for name in self.restores.last for line in stale_hosts(self.sites[name])]
        return [*stale, *inconsistencies(self.databases, expected)]


def _agents(site: Site) -> Iterator[AgentProcess]:
    """Return the agents that live."""
    for machine in site.machines:
        if machine.live_agent is not None:
            yield machine.live_agent


def _running(site: Site) -> set[tuple[str, int]]:
    return {(key.uuid, key.attempt) for agent in _agents(site) for key in agent.running()}


def _seen(site: Site) -> Mapping[tuple[str, int], Seen]:
    return {key: seen for agent in _agents(site) for key, seen in agent.seen().items()}


def _lost_hosts(site: Site) -> frozenset[str]:
    return frozenset(host.name for machine in site.machines if machine.is_lost for host in machine.hosts)
