"""The operators of zones: they fence and evacuate machines, and drain hosts and child zones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tests.simulation.machine import Machine
from tests.simulation.outages import Outages
from tests.simulation.site import Site
from tests.simulation.stage import Stage
from tests.simulation.users import Illegal, Users

PAUSE_S = 2.0
MOST_LOOKS = 4
"""How often an operator of a drain looks for what is left."""


class Operators:
    """Each of their works takes a while; no fault hits their calls, but zones may be down or refuse them."""

    def __init__(self, stage: Stage, users: Users, outages: Outages) -> None:
        self._stage = stage
        self._random = stage.storm.random
        self._users = users
        self._outages = outages

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

    def drain_host(self, site: Site) -> None:
        """Disable a host, move its servers away, and enable it later."""
        machine = self._outages.one_of(site)
        if machine is not None:
            name = self._random.choice(machine.hosts).name
            self._users.begin("drain-host", lambda: self._drain_host(site, name))

    def drain_zone(self, parent: Site, child: Site) -> None:
        """Disable a child zone, let its servers leave, and enable it later."""
        self._users.begin("drain-zone", lambda: self._drain_zone(parent, child))

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
        with suppress(Illegal):
            body = {"evacuate": {"fenced": is_fenced}}
            self._users.ask_as_operator(site, "POST", f"/os-services/{id}/action", body)

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
