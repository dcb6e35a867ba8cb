"""The users: they boot and delete, repeat what got no answer, and remember what they were promised."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import requests

from tests.simulation.baton import Process
from tests.simulation.furniture import GROUPS
from tests.simulation.network import OPERATOR, Wire, a_request
from tests.simulation.plan import DELETE, DELETE_IF_TAKEN, FORCE_DELETE, RESTORE, BootPlan, MigrationPlan
from tests.simulation.reach_points import GROUP_GONE, LOCK_REFUSED, USER_REFUSED
from tests.simulation.site import FIRST_USER, Site
from tests.simulation.stage import Stage

TIMEOUT_S = 3.0
FLAVOR_AWAY = b"flavor_unknown"
LOCKED = b"server_locked"
GROUP_AWAY = b"server_group_unknown"
RECOVERING = b"zone_restored"
ALL_HAS_COME_S = 45.0
"""So long after a call nothing of it is on its way any more, nor kept by somebody to be sent again."""

PATIENCE_S = 120.0
"""Patience of operators: a call that they give up could take effect after the one that replaced it."""


@dataclass
class Promise:
    """A boot that was accepted: its reservation, and the instances that its user has deleted since.

    `restored`: those of them that may live again, since the user has restored them; `restores`: how often
    each was restored, and `restoring`: which of them while nobody has answered that yet.
    """

    boot: BootPlan
    zone: str
    reservation_id: str
    deleted: set[str] = field(default_factory=set)
    restored: set[str] = field(default_factory=set)
    restores: Counter[str] = field(default_factory=Counter)
    restoring: set[str] = field(default_factory=set)


class Refused(Exception):
    """The zone has answered, and what it says is no passing trouble."""


def _body_of(action: str) -> dict[str, Any]:
    """Make the body of an action of the plan."""
    key, _, name = action.partition(" ")
    if name:
        return {key: {"flavorRef" if key == "resize" else "imageRef": name}}
    return {"reboot": {"type": key}} if key in ("SOFT", "HARD") else {key: None}


class GroupAway(Exception):
    """The zone has no such server group any more."""


class Illegal(Exception):
    """The instance's status does not take the action."""


class Users:
    """Everybody who calls zones from outside. They never die."""

    def __init__(self, stage: Stage, sites: dict[str, Site]) -> None:
        self.promises: list[Promise] = []
        self.wrong: list[str] = []
        self.busy = 0
        self._stage = stage
        self._sites = sites
        self._process = Process("users")
        self._wire = Wire(stage.network, "users", lambda what: None)
        self._operator = Wire(stage.network, OPERATOR, lambda what: None)
        self.removed: set[str] = set()
        self._rotating: set[str] = set()
        self._rotated: set[str] = set()
        self._again: set[str] = set()
        self.forgetful: frozenset[str] = frozenset()

    def start(self, boots: tuple[BootPlan, ...], migrations: tuple[MigrationPlan, ...]) -> None:
        """Each boot and each move at its time, from now on."""
        baton = self._stage.baton
        for move in migrations:
            baton.at(baton.now + move.at_s, lambda m=move: self.begin("move", partial(self._move, m)))
        for number, boot in enumerate(boots):
            self.busy += 1
            start_at = baton.now + boot.at_s
            baton.at(start_at, lambda b=boot, n=number: self._spawn(f"boot-{n}", b, n))

    def delete_everything(self) -> None:
        """Each instance that anybody still has."""
        for promise in self.promises:
            self.begin("delete-all", partial(self._delete_all, promise))

    def rotate_secret(self, parent: Site, child: Site) -> None:
        """The parent's user gets a new secret in the child, and then the parent is told it.

        Whoever does that looks later on whether it works: a call of his own that came late, or once more, has
        given the user another secret.
        """
        if child.name in self._rotating | self.removed:
            return
        self._rotating.add(child.name)
        self._rotated.add(child.name)

        def rotate() -> None:
            works = False
            while not works:
                body: dict[str, Any] = {"user": {"new_secret": True}}
                made = self._insist(child, "PUT", "/users/parent", body, may_be_gone=True, by=self._operator)
                if made.status_code == 404:
                    # Its operator has removed a parent that has removed it.
                    break
                child.secrets["parent"] = made.json()["user"]["secret"]
                self._stage.baton.pause(self._stage.storm.random.uniform(0.1, 5.0))
                body = {"zone": {"password": child.secrets["parent"]}}
                path = f"/zones/{parent.child_ids[child.name]}"
                with suppress(Refused):
                    # The child may have been put back to its former secret meanwhile.
                    self._insist(parent, "PUT", path, body, may_be_gone=True, by=self._operator)
                # Nobody waits for that: what does not work is not at rest before he has done it again.
                self.busy -= 1
                self._stage.baton.pause(ALL_HAS_COME_S)
                self.busy += 1
                works = self.lets_in(child, "parent") and child.name not in self._again
                self._again.discard(child.name)
            self._rotating.remove(child.name)

        self.begin("rotate", rotate)

    def rotate_again(self, parent: Site, child: Site) -> None:
        """Rotate a secret once more, if it ever was; one that is under way goes on with another secret."""
        if child.name in self._rotating:
            self._again.add(child.name)
        elif child.name in self._rotated:
            self.rotate_secret(parent, child)

    def remove_child(self, parent: Site, child: Site, then: Callable[[], None] = lambda: None) -> None:
        """The parent gives a child up, with all that it has there; `then` is done after that."""
        if child.name in self.removed:
            return
        self.removed.add(child.name)

        def remove() -> None:
            path = f"/zones/{parent.child_ids[child.name]}?force=true"
            self._insist(parent, "DELETE", path, may_be_gone=True, by=self._operator)
            then()

        self.begin("remove", remove)

    def begin(self, name: str, fn: Callable[[], None]) -> None:
        """Do something that has to end before all is at rest."""
        self.busy += 1

        def work() -> None:
            try:
                fn()
            except Refused as error:
                self.wrong.append(f"a user was refused: {error}")
            finally:
                self.busy -= 1

        self._stage.baton.spawn(self._process, name, work)

    def _spawn(self, name: str, boot: BootPlan, number: int) -> None:
        self._stage.baton.spawn(self._process, name, lambda: self._live(boot, number))

    def _live(self, boot: BootPlan, number: int) -> None:
        try:
            promise = self._boot(boot, number)
            if boot.actions:
                self.begin(f"act-{number}", partial(self._act_some, promise))
            self._delete_some(promise)
        except Refused as error:
            self.wrong.append(f"a user was refused: {error}")
        finally:
            self.busy -= 1

    def _boot(self, boot: BootPlan, number: int) -> Promise:
        """Boot; where the group is removed, in another one of the same name, which is another request."""
        site, key = self._sites[boot.zone], f"key-{number}"
        while True:
            group_id = site.groups.get(boot.group, "")
            try:
                return self._boot_in(site, boot, number, key, group_id)
            except GroupAway:
                self._stage.reach.met[GROUP_GONE] += 1
                if site.groups[boot.group] == group_id:
                    self._make_group(site, boot.group)
                key += "-again"

    def _make_group(self, site: Site, name: str) -> None:
        policy, most = GROUPS[name]
        rules = {} if most == 1 else {"rules": {"max_server_per_host": most}}
        body = {"server_group": {"name": name, "policy": policy.value, **rules}}
        made = self._insist(site, "POST", "/os-server-groups", body)
        group_id = made.json()["server_group"]["id"]
        site.groups[name] = group_id
        site.all_groups[group_id] = name

    def _boot_in(self, site: Site, boot: BootPlan, number: int, key: str, group_id: str) -> Promise:
        server: dict[str, Any] = {
            "name": f"vm-{number}",
            "flavorRef": boot.flavor,
            "num_instances": boot.count,
            "min_count": boot.min_count,
            "max_count": boot.count,
        }
        hints: dict[str, Any] = {}
        if group_id:
            hints["group"] = group_id
        if boot.together:
            hints["group_policy"] = "affinity"
        body = {"server": server, "os:scheduler_hints": hints}
        answer = self._insist(site, "POST", "/zones/boot", body, {"Idempotency-Key": key})
        promise = Promise(boot, boot.zone, answer.json()["reservation_id"])
        self.promises.append(promise)
        if self._stage.storm.strikes("call_twice"):
            self._repeat(site, promise, body, key)
        return promise

    def _repeat(self, site: Site, promise: Promise, body: Any, key: str) -> None:
        """Send a boot again that was accepted: the answer is the same, whatever was removed since."""
        try:
            again = self._insist(site, "POST", "/zones/boot", body, {"Idempotency-Key": key})
            is_same = again.json()["reservation_id"] == promise.reservation_id
        except GroupAway:
            is_same = False
        if not is_same and site.name not in self.forgetful:
            self.wrong.append(f"P2: a repeat of boot {promise.reservation_id} made another one, or none")

    def _delete_some(self, promise: Promise) -> None:
        started_at = self._stage.baton.now
        for number, after_s in enumerate(sorted(promise.boot.delete_after_s)):
            self._stage.baton.pause(max(0.0, started_at + after_s - self._stage.baton.now))
            self._delete_one(promise, number)

    def _delete_one(self, promise: Promise, number: int, *, is_final: bool = False) -> None:
        """Delete the instance of this number, if there is one."""
        instances = self._instances(promise)
        if number < len(instances):
            self._delete(promise, instances[number], is_final=is_final)

    def _restore_one(self, promise: Promise, number: int) -> None:
        """Restore the instance of this number, if it was deleted: whether it still may be is not known."""
        instances = self._instances(promise)
        uuid = instances[number] if number < len(instances) else ""
        if uuid not in promise.deleted:
            return
        promise.restored.add(uuid)
        promise.restores[uuid] += 1
        promise.restoring.add(uuid)
        self._act(promise, f"/servers/{uuid}/action", {RESTORE: None})
        promise.restoring.discard(uuid)

    def _act_some(self, promise: Promise) -> None:
        started_at, is_taken = self._stage.baton.now, False
        for action in promise.boot.actions:
            self._stage.baton.pause(max(0.0, started_at + action.after_s - self._stage.baton.now))
            body = _body_of(action.body)
            if action.body in (DELETE, DELETE_IF_TAKEN, FORCE_DELETE):
                if action.body != DELETE_IF_TAKEN or is_taken:
                    self._delete_one(promise, action.number, is_final=action.body == FORCE_DELETE)
            elif action.body == RESTORE:
                self._restore_one(promise, action.number)
            elif action.on_all:
                is_taken = self._act(promise, f"/reservations/{promise.reservation_id}/action", body)
            else:
                instances = self._instances(promise)
                if action.number < len(instances):
                    is_taken = self._act(promise, f"/servers/{instances[action.number]}/action", body)

    def _act(self, promise: Promise, path: str, body: Any) -> bool:
        """Act until there is an answer; an action that is illegal by then is none of a fault."""
        try:
            self._insist(self._sites[promise.zone], "POST", path, body, may_be_gone=True)
        except Illegal:
            return False
        return True

    def _move(self, move: MigrationPlan) -> None:
        """Move one of the servers that the zone has, if it can be moved now."""
        site = self._sites[move.zone]
        listed = self._insist(site, "GET", "/servers?all_tenants=true", user=FIRST_USER).json()["servers"]
        uuids = sorted(server["id"] for server in listed)
        if uuids:
            with suppress(Illegal):
                path = f"/servers/{uuids[move.number % len(uuids)]}/action"
                body = {"migrate": {"host": move.host} if move.host else None}
                self._insist(site, "POST", path, body, may_be_gone=True, user=FIRST_USER)

    def _delete_all(self, promise: Promise) -> None:
        for uuid in self._instances(promise):
            if uuid not in promise.deleted - promise.restored:
                # Any other delete is undone where a driver fails.
                self._delete(promise, uuid, is_final=True)

    def _instances(self, promise: Promise) -> list[str]:
        site = self._sites[promise.zone]
        path = f"/reservations/{promise.reservation_id}"
        answer = self._insist(site, "GET", path, may_be_gone=site.name in self.forgetful)
        if answer.status_code == 404:
            return []
        return [instance["uuid"] for instance in answer.json()["reservation"]["instances"]]

    def _delete(self, promise: Promise, uuid: str, *, is_final: bool = False) -> None:
        # From here on it may be deleted, whether or not the answer comes.
        promise.deleted.add(uuid)
        restores = promise.restores[uuid]
        is_alone = uuid not in promise.restoring
        site, path = self._sites[promise.zone], f"/servers/{uuid}"
        if is_final:
            self._insist(site, "POST", f"{path}/action", {FORCE_DELETE: None}, may_be_gone=True)
        else:
            self._insist(site, "DELETE", path, may_be_gone=True)
        if is_alone and restores == promise.restores[uuid]:
            promise.restored.discard(uuid)

    def _insist(
        self,
        site: Site,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        may_be_gone: bool = False,
        by: Wire | None = None,
        user: str = "",
    ) -> requests.Response:
        """Ask until there is an answer that is none of passing trouble. Raises Refused.

        `user`: "" for whoever boots in the zone at the moment of each call. The operator is its admin.
        """
        while True:
            name = FIRST_USER if by is self._operator else user or site.user
            answer = self._ask(by or self._wire, site, method, path, body, headers or {}, name)
            if answer is not None and answer.status_code < 300:
                return answer
            if answer is not None and answer.status_code == 401 and name != FIRST_USER:
                # An operator has given the user another secret, or has removed him for another one.
                self._stage.reach.met[USER_REFUSED] += 1
                self._stage.baton.pause(1.0)
                continue
            if answer is not None and answer.status_code < 500 and answer.status_code != 429:
                if may_be_gone and answer.status_code == 404:
                    return answer
                # 400: it has the flavor to which it was to be resized.
                is_action = path.endswith("/action") or "/os-services/" in path or by is self._operator
                # Or it is on the host to which it was to be moved, which may be removed by now.
                is_same = (
                    answer.status_code == 400 and body is not None and body.keys() & {"resize", "migrate"}
                )
                told = answer.raw.read()
                if FLAVOR_AWAY in told:
                    # An operator makes it anew.
                    self._stage.baton.pause(1.0)
                    continue
                if LOCKED in told:
                    self._stage.reach.met[LOCK_REFUSED] += 1
                    if method == "DELETE" or body == {FORCE_DELETE: None}:
                        # An admin unlocks it.
                        self._stage.baton.pause(1.0)
                        continue
                if GROUP_AWAY in told:
                    raise GroupAway(path)
                if is_action and (answer.status_code == 409 or is_same):
                    raise Illegal(path)
                raise Refused(f"{method} {path}: {answer.status_code} {told!r}")
            if answer is not None and body is not None and "evacuate" in body:
                answer.raw.seek(0)
                if RECOVERING in answer.raw.read():
                    # What is to be done to a machine may keep its agent from being heard.
                    raise Illegal(path)
            self._stage.baton.pause(self._stage.storm.random.uniform(0.5, 2.0))

    def ask_as_operator(self, site: Site, method: str, path: str, body: Any = None) -> requests.Response:
        """Ask until there is an answer; what is gone is none of a fault. Raises Illegal and Refused."""
        return self._insist(site, method, path, body, may_be_gone=True, by=self._operator)

    def lets_in(self, site: Site, user: str, secret: str = "") -> bool:
        """Tell whether the zone knows the user by a secret, or by the last one that it returned."""
        while True:
            answer = self._ask(self._operator, site, "GET", "/zones/info", None, {}, user, secret)
            # 403: it is not for members.
            if answer is not None and answer.status_code in (200, 401, 403):
                return answer.status_code != 401
            self._stage.baton.pause(1.0)

    def _ask(
        self,
        wire: Wire,
        site: Site,
        method: str,
        path: str,
        body: Any,
        headers: dict[str, str],
        user: str,
        secret: str = "",
    ) -> requests.Response | None:
        pair = base64.b64encode(f"{user}:{secret or site.secrets[user]}".encode()).decode()
        request = a_request(
            method, f"{site.url}/v2.1{path}", {"Authorization": f"Basic {pair}", **headers}, body
        )
        try:
            return wire.send(request, timeout=PATIENCE_S if wire is self._operator else TIMEOUT_S)
        except requests.RequestException:
            return None
