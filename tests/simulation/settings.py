"""Settings that operators change while boots depend on them, each put back after a while.

Hosts are disabled and forced down, ratios leave less than is used, flavors are removed and made anew, quotas
are too small for those who race for the last place, and repairs run beside boots. Users are given other
secrets, or removed while their boots go on; that is not taken back.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tests.simulation.furniture import FLAVORS, PROJECT
from tests.simulation.machine import Machine
from tests.simulation.reach_points import HOST_KEPT, HOST_REMOVED, USER_REMOVED
from tests.simulation.site import FIRST_USER, Site
from tests.simulation.stage import Stage
from tests.simulation.users import ALL_HAS_COME_S, Illegal, Users

SMALL_QUOTAS = (0, 1, 2, 3)


class Settings:
    """Each change is made, lasts for a while, and is taken back; no fault hits the calls."""

    def __init__(self, stage: Stage, users: Users) -> None:
        self._stage = stage
        self._random = stage.storm.random
        self._users = users
        self._removed_flavors: set[tuple[str, str]] = set()
        self._changing_user: set[str] = set()
        self.wrong: list[str] = []

    def disable_host(self, site: Site) -> None:
        """Disable a host for a while."""
        self._change_host(site, {"status": "disabled"}, {"status": "enabled"})

    def force_host_down(self, site: Site) -> None:
        """Take a host for down although its agent works on."""
        self._change_host(site, {"forced_down": True}, {"forced_down": False})

    def remove_host(self, site: Site) -> None:
        """Remove a host that is taken for down although its agent works on: what may run there keeps it."""
        machines = [machine for machine in site.machines if not machine.is_reserved]
        if machines:
            name = self._random.choice(self._random.choice(machines).hosts).name
            self._users.begin("remove-host", lambda: self._remove_host(site, name))

    def lower_ratio(self, site: Site) -> None:
        """Put a host into an aggregate whose ratio leaves less capacity than may be used."""
        if site.machines:
            name = self._random.choice(self._random.choice(site.machines).hosts).name
            self._users.begin("ratio", lambda: self._lower_ratio(site, name))

    def remove_flavor(self, site: Site) -> None:
        """Remove a flavor that boots name, and make it anew."""
        name = self._random.choice(sorted(FLAVORS))
        if (site.name, name) not in self._removed_flavors:
            self._removed_flavors.add((site.name, name))
            self._users.begin("flavor", lambda: self._remove_flavor(site, name))

    def remove_group(self, site: Site) -> None:
        """Remove a server group: its members stay as they are, and a user who needs it makes another one."""
        group_id = site.groups[self._random.choice(sorted(site.groups))]
        self._users.begin("group", lambda: self._ask(site, "DELETE", f"/os-server-groups/{group_id}"))

    def change_user(self, site: Site) -> None:
        """Give who boots in a zone another secret, or remove him and let another user of his project boot.

        In a zone that will be put back from a copy, nobody could say which users it has by then.
        """
        if site.name not in self._users.forgetful | self._changing_user:
            self._changing_user.add(site.name)
            self._users.begin("user", lambda: self._change_user(site))

    def lock_server(self, site: Site) -> None:
        """Lock a server of a zone's own users, who may do nothing with it for a while.

        Not where a zone is put back from a copy, which may have a lock that was ended since.
        """
        if site.name not in self._users.forgetful:
            self._users.begin("lock", lambda: self._lock_server(site))

    def lower_quota(self, site: Site) -> None:
        """Let the users' project or a parent have fewer instances than it asks for."""
        most = self._random.choice(SMALL_QUOTAS)
        if site.plan.parent and self._random.random() < 0.5:
            self._users.begin("quota", lambda: self._limit(site, "parents/parent", "parent_instances", most))
        else:
            path = f"projects/{PROJECT}"
            self._users.begin("quota", lambda: self._limit(site, path, "project_instances", most))

    def repair(self, site: Site) -> None:
        """Repair what an audit finds while all goes on."""
        body = {"repair": {"delete_unknown": False}}
        self._users.begin("repair", lambda: self._ask(site, "POST", "/audit", body))

    # -- works ---------------------------------------------------------------------------------------------

    def _change_host(self, site: Site, change: dict[str, Any], back: dict[str, Any]) -> None:
        machines = [machine for machine in site.machines if not machine.is_reserved]
        if machines:
            machine = self._random.choice(machines)
            self._users.begin("host", lambda: self._change_service(site, machine, change, back))

    def _change_service(
        self, site: Site, machine: Machine, change: dict[str, Any], back: dict[str, Any]
    ) -> None:
        name = self._random.choice(machine.hosts).name
        services = self._ask(site, "GET", f"/os-services?host={name}&binary=nova-compute")["services"]
        # Without one, its operator has removed the host.
        for service in services:
            self._ask(site, "PUT", f"/os-services/{service['id']}", change)
            self._pause()
            self._ask(site, "PUT", f"/os-services/{service['id']}", back)

    def _remove_host(self, site: Site, name: str) -> None:
        for service in self._ask(site, "GET", f"/os-services?host={name}&binary=nova-compute")["services"]:
            path = f"/os-services/{service['id']}"
            self._ask(site, "PUT", path, {"forced_down": True})
            self._pause()
            try:
                self._ask(site, "DELETE", path)
                self._stage.reach.met[HOST_REMOVED] += 1
            except Illegal:
                self._stage.reach.met[HOST_KEPT] += 1
            self._ask(site, "PUT", path, {"forced_down": False})

    def _lower_ratio(self, site: Site, name: str) -> None:
        wanted = f"low-{self._stage.baton.now}"
        with suppress(Illegal):
            self._ask(site, "POST", "/os-aggregates", {"aggregate": {"name": wanted}})
        if not (path := self._path_of_aggregate(site, wanted)):
            return
        ratio = self._random.choice(("0.25", "0.5"))
        self._ask(
            site, "POST", f"{path}/action", {"set_metadata": {"metadata": {"cpu_allocation_ratio": ratio}}}
        )
        with suppress(Illegal):
            self._ask(site, "POST", f"{path}/action", {"add_host": {"host": name}})
        self._pause()
        # The number of one that a restored zone has forgotten may be that of another one by now.
        if path := self._path_of_aggregate(site, wanted):
            with suppress(Illegal):
                self._ask(site, "POST", f"{path}/action", {"remove_host": {"host": name}})
            self._ask(site, "DELETE", path)

    def _path_of_aggregate(self, site: Site, name: str) -> str:
        """Find an aggregate; "" where the zone was restored from a copy without it."""
        listed = self._ask(site, "GET", "/os-aggregates")["aggregates"]
        return next((f"/os-aggregates/{one['id']}" for one in listed if one["name"] == name), "")

    def _remove_flavor(self, site: Site, name: str) -> None:
        vcpus, ram_mb = FLAVORS[name]
        self._ask(site, "DELETE", f"/flavors/{name}")
        self._pause()
        flavor = {"id": name, "name": name, "vcpus": vcpus, "ram": ram_mb, "disk": 0}
        with suppress(Illegal):
            self._ask(site, "POST", "/flavors", {"flavor": flavor})
        self._removed_flavors.remove((site.name, name))

    def _change_user(self, site: Site) -> None:
        if site.user == FIRST_USER:
            # The admin stays: he is the operator.
            site.user = self._new_user(site)
        self._pause()
        former, secret = site.user, site.secrets[site.user]
        if self._random.random() < 0.5:
            renewed = self._new_secret(site, former)
            self._see_refused(site, former, secret)
            self._pause_until_told()
            site.secrets[former] = renewed
        else:
            name = self._new_user(site)
            if boots := _open_boots(site, former):
                self._stage.reach.met[USER_REMOVED] += boots
            self._ask(site, "DELETE", f"/users/{former}")
            self._see_refused(site, former, secret)
            self._pause_until_told()
            site.user = name
        self._see_let_in(site)

    def _new_user(self, site: Site) -> str:
        name = f"tenant-{self._stage.baton.now}"
        body = {"user": {"name": name, "role": "member", "project_id": PROJECT}}
        with suppress(Illegal):
            self._ask(site, "POST", "/users", body)
        # The answer of a call that is repeated has none.
        site.secrets[name] = self._new_secret(site, name)
        return name

    def _new_secret(self, site: Site, name: str) -> str:
        body = {"user": {"new_secret": True}}
        made = self._users.ask_as_operator(site, "PUT", f"/users/{name}", body)
        return str(made.json()["user"]["secret"])

    def _see_refused(self, site: Site, name: str, secret: str) -> None:
        if self._users.lets_in(site, name, secret):
            self.wrong.append(f"{site.name} lets {name} in by a secret that has ended")

    def _see_let_in(self, site: Site) -> None:
        """Make another secret as long as an earlier call that came late has replaced the last one."""
        works = False
        while not works:
            # Nobody waits for that, unless he is refused.
            self._users.busy -= 1
            self._stage.baton.pause(ALL_HAS_COME_S)
            self._users.busy += 1
            works = self._users.lets_in(site, site.user)
            if not works:
                site.secrets[site.user] = self._new_secret(site, site.user)
        self._changing_user.remove(site.name)

    def _lock_server(self, site: Site) -> None:
        if site.user == FIRST_USER and site.name not in self._changing_user:
            # Locks are not for admins.
            self._changing_user.add(site.name)
            site.user = self._new_user(site)
            self._users.begin("user", lambda: self._see_let_in(site))
        while self._stage.storm.is_raging and not (found := site.rows.execute(_OWN_SERVERS).fetchall()):
            self._stage.baton.pause(1.0)
        if self._stage.storm.is_raging:
            (uuid,) = self._random.choice(found[:2])
            for body in ({"lock": {"locked_reason": "maintenance"}}, {"unlock": None}):
                with suppress(Illegal):
                    self._ask(site, "POST", f"/servers/{uuid}/action", body)
                self._pause()

    def _limit(self, site: Site, path: str, limit: str, most: int) -> None:
        self._ask(site, "PUT", f"/limits/{path}", {"limits": {limit: most}})
        self._pause()
        self._ask(site, "PUT", f"/limits/{path}", {"limits": {limit: None}})

    def _ask(self, site: Site, method: str, path: str, body: Any = None) -> Any:
        answer = self._users.ask_as_operator(site, method, path, body)
        return answer.json() if method == "GET" else None

    def _pause_until_told(self) -> None:
        self._stage.baton.pause(self._random.uniform(0.0, 3.0))

    def _pause(self) -> None:
        self._stage.baton.pause(self._random.uniform(0.5, 12.0))


_OWN_SERVERS = (
    "SELECT uuid FROM instances i WHERE caller_id = (SELECT zone_uuid FROM identity)"
    " AND status IN ('ACTIVE', 'OFFLOADED') ORDER BY"
    " (SELECT count(*) FROM instance_actions a WHERE a.uuid = i.uuid) DESC, uuid"
)
"""Select the servers of the zone's own users, those with the most actions first: more will come to them."""


def _open_boots(site: Site, user: str) -> int:
    """Count the boots of a user that are not settled yet."""
    (found,) = site.rows.execute(
        "SELECT count(*) FROM reservations r JOIN users u ON u.id = r.user_id"
        " WHERE u.name = ? AND r.state = 'open'",
        (user,),
    ).fetchone()
    return int(found)
