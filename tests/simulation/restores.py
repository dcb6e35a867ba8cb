"""The operators of zones that are put back from a copy: they recover them, and repair what differs then."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.simulation import restore_points as points
from tests.simulation import restore_rules as rules
from tests.simulation.furniture import FLAVORS, PROJECT
from tests.simulation.journal import Change
from tests.simulation.leases import Writer
from tests.simulation.liar import Liar
from tests.simulation.operators import Operators
from tests.simulation.over_zones import OverZones
from tests.simulation.restore_plan import RestorePlan
from tests.simulation.restore_points import Line
from tests.simulation.restore_rules import Restored
from tests.simulation.site import START_S, Site
from tests.simulation.stage import Stage
from tests.simulation.users import Illegal, Users
from zonesched.store import copies

DOWN_S = 1.0
PAUSE_S = 2.0
LONGEST_SILENCE_S = 45.0
"""Longer than an agent is paused."""

MOST_ROUNDS = 12
"""Repairs of the whole tree, before what they still change is wrong."""


class Restores:
    """`wrong` is what breaks P11. `last`: by zone, its last restore.

    `zones`: restored at some time. `recovering`: those that act on none of their rows yet.
    """

    def __init__(
        self,
        stage: Stage,
        plans: Sequence[RestorePlan],
        sites: Mapping[str, Site],
        users: Users,
        operators: Operators,
        liar: Liar,
        on_restored: Callable[[str], None],
    ) -> None:
        self.zones = frozenset(plan.zone for plan in plans)
        self.last: dict[str, Restored] = {}
        self.recovering: set[str] = set()
        self._stage = stage
        self._plans = plans
        self._sites = sites
        self._users = users
        self._operators = operators
        self._liar = liar
        self._on_restored = on_restored
        self._wrong: list[str] = []
        self._listed: set[str] = set()
        self._unknown: dict[str, set[str]] = {}
        self._found: dict[str, set[str]] = {}
        self._copies: dict[RestorePlan, bytes] = {}
        self._copied_in_move: set[RestorePlan] = set()
        self._pending = len(plans)
        self._over_zones = OverZones(stage, sites, users, operators)
        self._entries = rules.Entries(stage.reach, self.last)

    @property
    def wrong(self) -> list[str]:
        return [*self._wrong, *self._entries.wrong]

    def begin(self) -> None:
        """Make the copies and put them back, each at its time from now on."""
        if not self._plans:
            return
        baton = self._stage.baton
        self._stage.network.listeners.append(self._entries.listen)
        for plan in self._plans:
            if plan.awaits:
                self._users.begin("restore", partial(self._restore_in, plan))
                continue
            baton.at(baton.now + plan.copied_at_s, partial(self._copy, plan))
            baton.at(
                baton.now + plan.restored_at_s,
                lambda p=plan: self._users.begin("restore", partial(self._restore, p)),
            )
        self._users.begin("audits", self._end)

    def _copy(self, plan: RestorePlan) -> None:
        self._copies[plan] = self._sites[plan.zone].rows.serialize()
        self._copied_in_move.discard(plan)
        if self._over_zones.under_way(self._sites[plan.zone]):
            self._copied_in_move.add(plan)
        self._stage.note("operator", f"copies {plan.zone}")

    def _restore_in(self, plan: RestorePlan) -> None:
        """Put a zone back while a move is under way, or from a copy that was made in it."""
        baton, site = self._stage.baton, self._sites[plan.zone]
        baton.pause(plan.copied_at_s)
        self._over_zones.begin(plan.awaits, site, lambda: self._copy(plan))
        if plan.is_copied_in:
            self._copy(plan)
            baton.pause(plan.restored_at_s - plan.copied_at_s)
        self._restore(plan)

    # -- one restore ---------------------------------------------------------------------------------------

    def _restore(self, plan: RestorePlan) -> None:
        site, baton, met = self._sites[plan.zone], self._stage.baton, self._stage.reach.met
        self._stage.storm.count("zone_restored")
        met.update(points.before(site.rows))
        met.update(points.IN_MOVE[kind] for kind in self._over_zones.under_way(site))
        met.update([points.COPIED_IN_MOVE] if plan in self._copied_in_move else [])
        met.update(self._kinds(site))
        site.go_down()
        self._stage.troubled_until[site.name] = float("inf")
        baton.pause(DOWN_S)
        boots, had = rules.own_boots(site.rows), points.later(site.rows)
        if site.name in self.last:
            boots |= self.last[site.name].forgotten
        _put_back(site, self._copies[plan])
        has = points.later(site.rows)
        met.update(name for name in had if not had[name] <= has[name])
        self.last[site.name] = rules.restored(site.rows, baton.now, boots)
        self.recovering.add(site.name)
        self._on_restored(site.name)
        site.come_up()
        self._recover(site)
        self._pending -= 1

    def _kinds(self, site: Site) -> list[str]:
        met = [points.LEAF if not site.child_ids else points.MIDDLE] if site.plan.parent else [points.ROOT]
        met += [points.AGAIN] if site.name in self.last else []
        met += [points.IN_RECOVERY] if site.name in self.recovering else []
        return met + ([points.NEIGHBOURS] if self.last.keys() - {site.name} else [])

    def _recover(self, site: Site) -> None:
        """Set right what a neighbour needs to be heard, and repair until the recovery has ended."""
        self._exchange_secrets(site)
        while site.name in self.recovering:
            self._end_what_is_gone(site)
            self._operators.readmit_all(site)
            met = {points.TWICE} if site.rows.execute(_FOUND_TWICE).fetchall() else set()
            lines = self._repair(site, delete_unknown=False)
            if site.name not in self.recovering:
                self._stage.reach.met.update(met)
            self._stage.baton.pause(PAUSE_S)
            self._stage.reach.met.update(points.decided(lines))

    def _exchange_secrets(self, site: Site) -> None:
        """Let parent and child agree on a secret again: one of them may have an old one now."""
        for child in self._sites.values():
            if child.plan.parent and site.name in (child.name, child.plan.parent):
                self._users.rotate_again(self._sites[child.plan.parent], child)

    def _end_what_is_gone(self, site: Site) -> None:
        """Remove the parents that are none, and what was removed since the copy: child zones and hosts."""
        gone = ["stranger", *(["parent"] if not site.plan.parent or site.name in self._users.removed else ())]
        for name in gone:
            self._ask(site, "DELETE", f"/users/{name}?force=true")
        for name, child_id in site.child_ids.items():
            if name in self._users.removed:
                self._ask(site, "DELETE", f"/zones/{child_id}?force=true")
        self._operators.remove_again(site)

    # -- after the storm -----------------------------------------------------------------------------------

    def _end(self) -> None:
        """Repair all zones, from below, until nothing changes; then let agents end what is nobody's."""
        while self._stage.storm.is_raging or self._pending or self._liar.is_lying:
            self._stage.baton.pause(PAUSE_S)
        for name in sorted(self.last):
            self._set_right(self._sites[name])
        self._repair_all(delete_unknown=False)
        for name in sorted(self.last):
            for uuid in sorted(self._unknown[name] - self._listed):
                self._wrong.append(f"P11 {name}: {uuid} is nobody's, and no audit has listed it")
        self._end_unknown()
        # An agent that was paused meanwhile tells once more what its zone's operator had ended.
        self._stage.baton.pause(LONGEST_SILENCE_S)
        self._end_unknown()

    def _end_unknown(self) -> None:
        self._repair_all(delete_unknown=True)
        for name in sorted(self.last):
            self._enable_hosts(self._sites[name])

    def _repair_all(self, *, delete_unknown: bool) -> None:
        lines: list[Line] = []
        for _ in range(MOST_ROUNDS):
            self._stage.baton.pause(PAUSE_S)
            lines = []
            for site in reversed(list(self._sites.values())):
                lines += self._repair(site, delete_unknown=delete_unknown)
            self._stage.reach.met.update(points.decided(lines))
            if not any(line["repaired"] for line in lines):
                return
        self._wrong += [f"P11: repaired again and again: {line}" for line in lines if line["repaired"]]

    def _repair(self, site: Site, *, delete_unknown: bool) -> Sequence[Line]:
        body = {"repair": {"delete_unknown": delete_unknown}}
        answer = self._users.ask_as_operator(site, "POST", "/audit", body)
        lines: Sequence[Line] = answer.json()["inconsistencies"]
        for line in lines:
            self._stage.note("operator", f"{site.name}: {line['kind']} {line['subject']}: {line['action']}")
            words = line["subject"].split()
            self._listed.update(words)
            if line["kind"] == "child_has_unknown_instance" and not line["repaired"] and delete_unknown:
                (child,) = (name for name, id_ in site.child_ids.items() if id_ == words[-1])
                self._ask(self._sites[child], "DELETE", f"/servers/{words[1]}")
        return lines

    def _set_right(self, site: Site) -> None:
        """Do again what operators did between the copy and the restore."""
        for name, (vcpus, ram_mb) in FLAVORS.items():
            flavor = {"id": name, "name": name, "vcpus": vcpus, "ram": ram_mb, "disk": 0}
            self._ask(site, "POST", "/flavors", {"flavor": flavor})
        self._ask(site, "PUT", f"/limits/projects/{PROJECT}", {"limits": {"project_instances": None}})
        if site.plan.parent and site.name not in self._users.removed:
            self._ask(site, "PUT", "/limits/parents/parent", {"limits": {"parent_instances": None}})
        for name, child_id in site.child_ids.items():
            if name not in self._users.removed:
                self._ask(site, "PUT", f"/zones/{child_id}", {"zone": {"state": "enabled"}})
        self._enable_hosts(site)

    def _enable_hosts(self, site: Site) -> None:
        answer = self._users.ask_as_operator(site, "GET", "/os-services?binary=nova-compute")
        for service in answer.json()["services"]:
            change = {"status": "enabled", "forced_down": False}
            self._ask(site, "PUT", f"/os-services/{service['id']}", change)

    def _ask(self, site: Site, method: str, path: str, body: Any = None) -> None:
        with suppress(Illegal):
            self._users.ask_as_operator(site, method, path, body)

    # -- what a commit shows -------------------------------------------------------------------------------

    def look(self, zone: str, writer: Writer, changes: Sequence[Change]) -> None:
        """Look at a commit of a zone that recovers: only its operator's calls may change what it has."""
        for change in changes if writer.task != "serve" else ():
            if change.what not in ("shrunk", "agent down"):
                done = f"{change.what} {change.step}"
                self._wrong.append(f"P11 {zone}: {writer.task} acts before the recovery has ended: {done}")

    def is_recovering(self, zone: str) -> bool:
        """Tell whether a zone still acts on none of its rows after a commit."""
        if zone not in self.recovering:
            return False
        site = self._sites[zone]
        if site.rows.execute("SELECT 1 FROM unheard LIMIT 1").fetchone() is not None:
            self._found[zone] = {uuid for (uuid,) in site.rows.execute("SELECT uuid FROM found_instances")}
            return True
        self.recovering.remove(zone)
        self._stage.troubled_until[zone] = self._stage.baton.now + START_S
        self._stage.note("operator", f"the recovery of {zone} has ended")
        there, below = rules.on_machines(site), set[rules.Key]()
        for name in site.child_ids:
            if name not in self._users.removed | self._liar.suspects and name not in self.last:
                below |= rules.in_child(self._sites[name].rows)
        self._wrong += rules.decided_wrong(site, there, below, self.last[zone].living)
        if self._liar.name in site.child_ids:
            liar_id = site.child_ids[self._liar.name]
            self._wrong += rules.stolen(site, there | below, self.last[zone], liar_id)
        self._wrong += rules.lives_on(site, self.last[zone].living - self._found.get(zone, set()))
        self._unknown[zone] = {uuid for uuid, _ in rules.unplaced(site, there | below)}
        return False


_FOUND_TWICE = "SELECT 1 FROM found_instances GROUP BY uuid HAVING count(*) > 1"


def _put_back(site: Site, copy: bytes) -> None:
    """Put a copy back by the code of `zonesched db restore`, which is about files."""
    with tempfile.TemporaryDirectory(prefix="zonesched-restored-") as folder:
        database, source = Path(folder) / "zone.sqlite", Path(folder) / "copy.sqlite"
        database.write_bytes(site.rows.serialize())
        source.write_bytes(copy)
        incarnation = site.clock.random_bytes(16).hex()
        copies.restore(database, source, incarnation, is_other_zone_allowed=False)
        with closing(sqlite3.connect(database)) as rows:
            # A database in memory has no write-ahead log.
            rows.execute("PRAGMA journal_mode=DELETE")
            rows.backup(site.rows)
