"""The calls of the original documents' client, as it made them: those for zones, and what is routed by uuid.

`zone-info`, `zone-list`, `zone-add`, `zone-delete` and `zone-boot` were its commands. All of its calls go to
the root; the servers are in the lowest of three zones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.played_agent import PlayedAgent
from tests.builders.scenes import built_once
from tests.builders.tree import Answer, Tree, a_host
from zonesched.model.caller import Role
from zonesched.services.catalog import users

pytestmark = pytest.mark.once

HOSTS = [f"leaf-host-{number}" for number in range(1, 4)]


class Client:
    """The documents' client, as the root's admin: its commands by name. `mount` stands before each path."""

    def __init__(self, tree: Tree, mount: str) -> None:
        self.root, self.mount = tree.nodes["root"], mount

    def call(self, method: str, path: str, body: Any = None) -> Answer:
        return self.root.client().call(method, self.mount + path, body)

    def zone_info(self) -> dict[str, Any]:
        return dict(self.call("GET", "/zones/info").json["zone"])

    def zone_list(self) -> list[dict[str, Any]]:
        return list(self.call("GET", "/zones/detail").json["zones"])

    def zone_add(self, name: str, api_url: str, username: str, password: str) -> Answer:
        zone = {"name": name, "api_url": api_url, "username": username, "password": password}
        return self.call("POST", "/zones", {"zone": {**zone, "weight_offset": 0.0, "weight_scale": 1.0}})

    def zone_delete(self, id: str) -> int:
        return self.call("DELETE", f"/zones/{id}").status

    def zone_boot(self, count: int) -> str:
        """Its boots had counts; the document's own example has `num_instances`."""
        server = {"name": "vm", "imageRef": "linux", "flavorRef": "small", "metadata": {"a": "b"}}
        answer = self.call(
            "POST", "/zones/boot", {"server": {**server, "min_count": count, "max_count": count}}
        )
        assert answer.status == 202, answer.body
        return str(answer.json["reservation_id"])

    def list(self, reservation_id: str) -> list[dict[str, Any]]:
        return list(self.call("GET", f"/servers/detail?reservation_id={reservation_id}").json["servers"])

    def act(self, uuid: str, body: Any) -> int:
        return self.call("POST", f"/servers/{uuid}/action", body).status


@built_once
def a_tree(folder: Path) -> Tree:
    """A root, a region and a leaf, of which the leaf alone has hosts; and a zone that nobody knows yet."""
    tree = Tree(folder)
    tree.add("root")
    tree.add("region", parent="root")
    tree.add("leaf", parent="region", hosts_=[a_host(name) for name in HOSTS])
    tree.add("extra")
    tree.poll()
    admin = tree.nodes["root"].client()
    admin.post("/flavors", FLAVOR)
    admin.post("/images", {"image": {"name": "linux"}})
    return tree


class Scene:
    """Such a tree, with the leaf's agent and a client of the documents."""

    def __init__(self, folder: Path, mount: str) -> None:
        self.tree = a_tree(folder)
        self.extra = self.tree.nodes["extra"]
        self.agent = PlayedAgent(self.tree.nodes["leaf"])
        self.client = Client(self.tree, mount)

    def go_on(self) -> None:
        for _ in range(3):
            self.tree.clock.advance(10.0)
            self.tree.settle(2)
            self.agent.converge()
        self.tree.settle(3)

    def booted(self, count: int) -> list[str]:
        reservation_id = self.client.zone_boot(count)
        self.go_on()
        return [server["id"] for server in self.client.list(reservation_id)]

    def status(self, uuid: str) -> str:
        return str(self.client.call("GET", f"/servers/{uuid}").json["server"]["status"])


@pytest.fixture(params=["", "/v2.1"], ids=["as-the-documents-spell-it", "below-the-version"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path, request.param)
    yield made
    for node in made.tree.nodes.values():
        node.zone.stop()


def test_zone_info_shows_the_zone_and_what_its_whole_tree_has(scene: Scene) -> None:
    info = scene.client.zone_info()

    assert info["name"] == "root"
    assert not [name for name in (*HOSTS, "region", "leaf") if name in str(info)]


def test_zone_add_list_and_delete(scene: Scene) -> None:
    store, clock = scene.extra.zone.store, scene.extra.zone.clock
    secret = users.create(store, clock, "parent-root", Role.PARENT, "").secret

    added = scene.client.zone_add("extra", scene.extra.url, "parent-root", secret)
    listed = {zone["name"]: zone for zone in scene.client.zone_list()}

    assert added.status == 201
    assert listed.keys() == {"region", "extra"}
    assert secret not in str(listed) + str(added.json)
    assert scene.client.zone_delete(listed["extra"]["id"]) == 204
    assert [zone["name"] for zone in scene.client.zone_list()] == ["region"]
    assert scene.client.zone_delete(listed["extra"]["id"]) == 404


def test_zone_boot_builds_in_the_lowest_zone(scene: Scene) -> None:
    reservation_id = scene.client.zone_boot(5)
    scene.go_on()

    servers = scene.client.list(reservation_id)
    assert [server["status"] for server in servers] == ["ACTIVE"] * 5
    assert {server["child_zone"] for server in servers} == {"region"}
    assert [server["metadata"] for server in servers] == [{"a": "b"}] * 5
    assert len(scene.agent.running) == 5


@pytest.mark.parametrize(
    ("there", "status", "back"),
    [
        ({"pause": None}, "PAUSED", {"unpause": None}),
        ({"suspend": None}, "SUSPENDED", {"resume": None}),
        ({"os-stop": None}, "SHUTOFF", {"os-start": None}),
        ({"reboot": {"type": "HARD"}}, "ACTIVE", {"reboot": {"type": "SOFT"}}),
    ],
)
def test_actions_are_routed_from_the_root_to_the_lowest_zone(
    scene: Scene, there: Any, status: str, back: Any
) -> None:
    [uuid, other] = scene.booted(2)

    assert scene.client.act(uuid, there) == 202
    scene.go_on()
    assert (scene.status(uuid), scene.status(other)) == (status, "ACTIVE")
    assert scene.client.act(uuid, back) == 202
    scene.go_on()
    assert (scene.status(uuid), scene.status(other)) == ("ACTIVE", "ACTIVE")


def test_show_and_delete_are_routed_from_the_root_to_the_lowest_zone(scene: Scene) -> None:
    [uuid, other] = scene.booted(2)

    assert scene.client.call("DELETE", f"/servers/{uuid}").status == 204
    scene.go_on()

    assert scene.client.call("GET", f"/servers/{uuid}").status == 404
    assert scene.status(other) == "ACTIVE"
    assert [line["uuid"] for line in scene.agent.work()] == [other]


def test_a_console_is_refused_at_the_root_and_changes_nothing(scene: Scene) -> None:
    [uuid] = scene.booted(1)

    assert scene.client.act(uuid, {"os-getVNCConsole": {"type": "novnc"}}) == 400
    assert scene.status(uuid) == "ACTIVE"
