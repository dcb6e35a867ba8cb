"""The operators of zones: they fence and evacuate machines, and drain hosts and child zones."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tests.simulation import reach_points as points
from tests.simulation.machine import Machine
from tests.simulation.outages import Outages
from tests.simulation.site import Site
from tests.simulation.stage import Stage
from tests.simulation.users import Illegal, Users

PAUSE_S = 2.0
MOST_LOOKS = 4
REFUSED_AT_MOST_S = 90.0
"""An agent that fences gets its place back sooner than this after another one has ended."""
"""How often an operator of a drain looks for what is left."""

_CONFIRMED_ON = "SELECT uuid FROM placements WHERE host_id = ? AND state = 'confirmed' ORDER BY uuid"
_OF_PARENT = (
    "SELECT i.uuid FROM instances i JOIN users u ON u.id = i.caller_id AND u.name = 'parent'"
    " WHERE i.status IN ('ACTIVE', 'OFFLOADED', 'BUILD') ORDER BY i.uuid"
)
_ACTED_ON = (
    "SELECT p.uuid FROM placements p JOIN instances i ON i.uuid = p.uuid AND i.attempt = p.number"
    " WHERE p.child_id = ? AND ((p.state, p.reason) = ('releasing', 'shelved')"
    " OR EXISTS (SELECT 1 FROM instance_actions a WHERE a.uuid = p.uuid AND a.finished_at = 0.0))"
    " ORDER BY p.uuid"
)


class Operators:
    """Each of their works takes a while; no fault hits their calls, but zones may be down or refuse them.

    `deleted_below`: instances that were deleted in a zone that its parent had sent them to.
    """

    def __init__(self, stage: Stage, users: Users, outages: Outages) -> None:
        self._stage = stage
        self._random = stage.storm.random
        self._users = users
        self._outages = outages
        self.deleted_below: set[str] = set()
        # Its own draw, so that the other seeds play as they would without this.
        self._are_evacuated_alone = random.Random(f"evacuated/alone/{stage.seed}").random() < 0.3

    def evacuate(self, site: Site) -> None:
        """Evacuate a machine that nobody hears of any more, once it is off or has fenced itself.

        It comes back later and must not run what was moved, or its hosts are removed for good.
        """
        machine = self._outages.one_of(site)
        if machine is None:
            return
        machine.is_reserved = True
        if machine.fence_after_s < math.inf and self._random.random() < 0.7:
            self._users.begin("evacuate", lambda: self._evacuate_fenced(site, machine))
        else:
            machine.kill_agent()
            self._users.begin("evacuate", lambda: self._evacuate_off(site, machine))

    def reinstall(self, site: Site) -> None:
        """Install a machine anew: its agent has another id, and its zone refuses it for a while."""
        machine = self._outages.one_of(site)
        if machine is not None:
            machine.is_reserved = True
            machine.power_off()
            machine.lose_state_folder()
            self._users.begin("evacuate", lambda: self._evacuate_until_heard(site, machine))

    def double(self, site: Site) -> None:
        """Give another machine the name of one for a while; help the first one back if it stays refused."""
        doubled = self._outages.double(site)
        if doubled is not None:
            machine, ends_at = doubled
            self._stage.baton.at(
                ends_at + REFUSED_AT_MOST_S,
                lambda: self._users.begin("evacuate", lambda: self._readmit(site, machine)),
            )

    def drain_host(self, site: Site) -> None:
        """Disable a host, move its servers away, and enable it later."""
        machine = self._outages.one_of(site)
        if machine is not None:
            name = self._random.choice(machine.hosts).name
            self._users.begin("drain-host", lambda: self._drain_host(site, name))

    def drain_zone(self, parent: Site, child: Site) -> None:
        """Disable a child zone, let its servers leave, and enable it later."""
        self._users.begin("drain-zone", lambda: self._drain_zone(parent, child))

    def delete_below(self, parent: Site, child: Site) -> None:
        """Delete a server of a zone's parent in the zone itself, if possible while it is acted on."""
        self._users.begin("delete-below", lambda: self._delete_below(parent, child))

    # -- machines ------------------------------------------------------------------------------------------

    def _evacuate_off(self, site: Site, machine: Machine) -> None:
        """Turn it off, and say that nothing runs there."""
        self._pause(0.0, 6.0)
        machine.power_off()
        self._outages.end_doubles(machine.name)
        ids = self._host_ids(site, machine)
        self._force_down(site, ids, True)
        for id in ids.values():
            self._evacuate(site, id, is_fenced=True)
        if self._random.random() < 0.3:
            machine.is_removed = True
            self._remove_all(site, ids)
            return
        self._pause(1.0, 30.0)
        self._bring_back(site, machine, ids)

    def _readmit(self, site: Site, machine: Machine) -> None:
        """Turn a machine off whose agent is refused, and start it again."""
        agent = machine.live_agent
        if agent is not None and agent.is_refused and not machine.is_reserved:
            machine.is_reserved = True
            machine.power_off()
            self._evacuate_until_heard(site, machine)

    def _evacuate_until_heard(self, site: Site, machine: Machine) -> None:
        """Say that nothing runs on a machine that was turned off, until its next agent is registered."""
        self._pause(0.5, 3.0)
        self._outages.end_doubles(machine.name)
        ids = self._host_ids(site, machine)
        machine.start().work()
        while (agent := machine.live_agent) is not None and not agent.agent.zone.uuid:
            for id in ids.values():
                self._evacuate(site, id, is_fenced=True)
            self._pause(PAUSE_S, PAUSE_S)
        machine.is_reserved = False

    def _evacuate_fenced(self, site: Site, machine: Machine) -> None:
        """Cut it off, and ask until its agent has ended everything by its own clock, or is back."""
        until = self._stage.baton.now + self._random.uniform(12.0, 40.0)
        if self._random.random() < 0.5:
            machine.kill_agent()
        else:
            self._stage.network.cut(site.name, machine.name, until)
        ids = self._host_ids(site, machine)
        self._force_down(site, ids, True)
        while self._stage.baton.now < until:
            for id in ids.values():
                self._evacuate(site, id, is_fenced=False)
            self._pause(PAUSE_S, PAUSE_S)
        self._bring_back(site, machine, ids)

    def _bring_back(self, site: Site, machine: Machine, ids: Mapping[str, str]) -> None:
        machine.is_reserved = False
        if self._random.random() < 0.5:
            self._outages.bring_back(machine)
        self._force_down(site, ids, False)
        self._outages.bring_back(machine)

    def _host_ids(self, site: Site, machine: Machine) -> dict[str, str]:
        """Return the ids of a machine's hosts by name."""
        answer = self._users.ask_as_operator(site, "GET", "/os-services?binary=nova-compute")
        names = {host.name for host in machine.hosts}
        found = {one["host"]: one["id"] for one in answer.json()["services"] if one["host"] in names}
        return dict(sorted(found.items()))

    def _force_down(self, site: Site, ids: Mapping[str, str], is_down: bool) -> None:
        for id in ids.values():
            self._users.ask_as_operator(site, "PUT", f"/os-services/{id}", {"forced_down": is_down})

    def _evacuate(self, site: Site, id: str, *, is_fenced: bool) -> None:
        body = {"evacuate": {"fenced": is_fenced}}
        if self._are_evacuated_alone:
            there = site.rows.execute(_CONFIRMED_ON, (id,)).fetchall()
            for (uuid,) in there:
                with suppress(Illegal):
                    answer = self._users.ask_as_operator(site, "POST", f"/servers/{uuid}/action", body)
                    self._stage.reach.met[points.EVACUATED_ALONE] += answer.status_code < 300
                self._pause(0.0, 1.0)
        with suppress(Illegal):
            self._users.ask_as_operator(site, "POST", f"/os-services/{id}/action", body)

    def readmit_all(self, site: Site) -> None:
        """Help the agents of a restored zone whose services belong to others by its rows."""
        for machine in site.machines:
            self._readmit(site, machine)

    def remove_again(self, site: Site) -> None:
        """Remove the hosts of machines that were removed, which rows put back from a copy have again."""
        for machine in site.machines:
            if machine.is_removed and (ids := self._host_ids(site, machine)):
                self._force_down(site, ids, True)
                self._remove_all(site, ids)

    def _remove_all(self, site: Site, ids: Mapping[str, str]) -> None:
        for id in ids.values():
            self._remove(site, id)

    def _remove(self, site: Site, id: str) -> None:
        """Remove a host: moves and builds that have claims there end first."""
        while True:
            with suppress(Illegal):
                self._users.ask_as_operator(site, "DELETE", f"/os-services/{id}")
                return
            self._pause(PAUSE_S, PAUSE_S)
            self._evacuate(site, id, is_fenced=True)

    # -- servers of a parent -------------------------------------------------------------------------------

    def _delete_below(self, parent: Site, child: Site) -> None:
        ends_at, acted_on = self._stage.baton.now + self._random.uniform(0.0, 10.0), list[str]()
        while not acted_on and self._stage.storm.is_raging and self._stage.baton.now < ends_at:
            acted_on = _acted_on(parent, child)
            self._pause(0.0, 0.5)
        of_parent = [uuid for (uuid,) in child.rows.execute(_OF_PARENT).fetchall()]
        if uuids := [uuid for uuid in acted_on if uuid in of_parent] or of_parent:
            uuid = self._random.choice(uuids)
            self.deleted_below.add(uuid)
            met = points.DELETED_IN_ACTION if uuid in acted_on else points.DELETED_BELOW
            self._stage.reach.met[met] += 1
            with suppress(Illegal):
                self._users.ask_as_operator(child, "DELETE", f"/servers/{uuid}")

    # -- drains --------------------------------------------------------------------------------------------

    def _drain_host(self, site: Site, name: str) -> None:
        answer = self._users.ask_as_operator(site, "GET", f"/os-services?host={name}&binary=nova-compute")
        services = answer.json()["services"]
        if not services:
            # Its operator has removed it.
            return
        path = f"/os-services/{services[0]['id']}"
        self._users.ask_as_operator(site, "PUT", path, {"status": "disabled"})
        for _ in range(MOST_LOOKS):
            listed = self._users.ask_as_operator(site, "GET", f"/servers?all_tenants=true&host={name}")
            for uuid in sorted(server["id"] for server in listed.json()["servers"]):
                with suppress(Illegal):
                    self._users.ask_as_operator(site, "POST", f"/servers/{uuid}/action", {"migrate": None})
            self._pause(PAUSE_S, PAUSE_S)
        self._pause(0.0, 10.0)
        self._users.ask_as_operator(site, "PUT", path, {"status": "enabled"})

    def _drain_zone(self, parent: Site, child: Site) -> None:
        path = f"/zones/{parent.child_ids[child.name]}"
        self._set_state(parent, path, "disabled")
        for _ in range(MOST_LOOKS):
            with suppress(Illegal):
                self._users.ask_as_operator(parent, "POST", f"{path}/action", {"drain": {"count": 3}})
            self._pause(PAUSE_S, PAUSE_S)
        self._pause(0.0, 10.0)
        self._set_state(parent, path, "enabled")

    def _set_state(self, parent: Site, path: str, state: str) -> None:
        body: dict[str, Any] = {"zone": {"state": state}}
        self._users.ask_as_operator(parent, "PUT", path, body)

    def _pause(self, least_s: float, most_s: float) -> None:
        self._stage.baton.pause(self._random.uniform(least_s, most_s))


def _acted_on(parent: Site, child: Site) -> list[str]:
    """Return the servers that a parent has in a child and that are leaving it or have an open action."""
    found = parent.rows.execute(_ACTED_ON, (parent.child_ids[child.name],)).fetchall()
    return [uuid for (uuid,) in found]
