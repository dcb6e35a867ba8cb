"""An affinity group whose host is down: it goes on elsewhere, although its old claims are still there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.played_agent import PlayedAgent
from tests.builders.tree import Tree, a_host

FENCED = {"evacuate": {"fenced": True}}


class Scene:
    """A zone with three hosts, and two servers of one group on one of them."""

    def __init__(self, folder: Path, policy: str) -> None:
        self.tree = Tree(folder)
        self.node = self.tree.add("leaf", hosts_=[a_host(f"h{n}") for n in range(3)])
        self.admin, self.member = self.node.client(), self.node.client("member")
        self.agent = PlayedAgent(self.node)
        self.admin.post("/flavors", FLAVOR)
        group = {"server_group": {"name": "g", "policy": policy}}
        self.group = self.member.post("/os-server-groups", group).json["server_group"]["id"]
        self.servers = self.boot(2)
        self.settle()
        (self.host,) = set(self.hosts(self.servers))

    def boot(self, count: int) -> list[str]:
        server = {"name": "vm", "flavorRef": "small", "num_instances": count}
        body = {"server": server, "os:scheduler_hints": {"group": self.group}}
        boot = self.member.post("/zones/boot", body).json["reservation_id"]
        shown = self.member.get(f"/reservations/{boot}").json["reservation"]
        return [str(one["uuid"]) for one in shown["instances"]]

    def settle(self) -> None:
        for _ in range(3):
            self.tree.settle()
            self.agent.converge()

    def hosts(self, servers: list[str]) -> list[str]:
        shown = [self.admin.get(f"/servers/{uuid}").json["server"] for uuid in servers]
        assert {one["status"] for one in shown} == {"ACTIVE"}
        return [str(one["OS-EXT-SRV-ATTR:host"]) for one in shown]

    def force_down(self) -> str:
        """The id of the group's host, which is down now."""
        listed = self.admin.get("/os-hypervisors/detail").json["hypervisors"]
        host_id = next(str(one["id"]) for one in listed if one["hypervisor_hostname"] == self.host)
        assert self.admin.call("PUT", f"/os-services/{host_id}", {"forced_down": True}).status == 200
        return host_id


@pytest.mark.parametrize("policy", ["affinity", "soft-affinity"])
def test_a_group_that_is_evacuated_goes_on_together_elsewhere(tmp_path: Path, policy: str) -> None:
    scene = Scene(tmp_path, policy)
    host_id = scene.force_down()

    answer = scene.admin.post(f"/os-services/{host_id}/action", FENCED)
    scene.settle()

    assert answer.json == {"evacuated": 2, "moving": 0}
    (host,) = set(scene.hosts(scene.servers))
    assert host != scene.host
