"""Zones without authentication: a tree of them boots, and everybody may be everyone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.routes import ROUTES, UUID, lines_of
from tests.builders.scenes import built_once
from tests.builders.tree import Client, Node, Tree
from zonesched.dashboard.mounting import add_dashboard
from zonesched.zones.client import ROLE_HEADER

pytestmark = pytest.mark.once

HOST = {"name": "h", "inventories": {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 8192}}}


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    """A root and its child, each with a host, neither with authentication; made by calls alone."""
    tree = Tree(tmp_path)
    root, child = (tree.add(name, auth_strategy="noauth") for name in ("root", "child"))
    for node in (root, child):
        assert nobody(node).call("PUT", "/hosts", {"service": "agent", "hosts": [HOST]}).status == 200
        assert nobody(node).post("/hosts/beat", {"service": "agent"}).status == 204
    zone = {"name": "child", "api_url": child.url, "username": "whoever", "password": "whatever"}
    assert nobody(root).post("/zones", {"zone": zone}).status == 201
    tree.poll()
    flavor = {"name": "small", "vcpus": 1, "ram": 512, "disk": 0}
    assert nobody(root).post("/flavors", {"flavor": flavor}).status == 200
    return tree


def nobody(node: Node) -> Client:
    """Calls without credentials."""
    return node.client("")


def run_what_is_wanted(node: Node) -> int:
    """Let an agent take a step; return the number of instances it was to run."""
    wanted = nobody(node).get("/hosts/instances?service=agent").json["instances"]
    reports = [{"uuid": w["uuid"], "attempt": w["attempt"], "state": "active"} for w in wanted]
    assert nobody(node).post("/hosts/reports", {"service": "agent", "reports": reports}).status == 204
    return len(wanted)


def test_a_tree_boots_to_active_and_ends(tree: Tree) -> None:
    root, child = tree.nodes["root"], tree.nodes["child"]
    server = {"name": "vm", "flavorRef": "small", "num_instances": 12}

    accepted = nobody(root).post("/zones/boot", {"server": server})
    assert accepted.status == 202, accepted.body
    tree.settle()
    assert run_what_is_wanted(root) + run_what_is_wanted(child) == 12
    tree.clock.advance(60)
    tree.settle()

    shown = nobody(root).get(f"/reservations/{accepted.json['reservation_id']}").json["reservation"]
    assert shown["counts"] == {"ACTIVE": 12}
    below = [i["uuid"] for i in nobody(child).get("/hosts/instances?service=agent").json["instances"]]
    assert len(below) >= 4
    fresh = nobody(root).get(f"/servers/{below[0]}").json["server"]
    assert (fresh["status"], fresh["stale"], fresh["tenant_id"]) == ("ACTIVE", False, "noauth")
    for node in (root, child):
        assert nobody(node).get("/audit").json["inconsistencies"] == []

    for instance in shown["instances"]:
        assert nobody(root).delete(f"/servers/{instance['uuid']}").status == 204
    tree.settle()
    assert run_what_is_wanted(root) + run_what_is_wanted(child) == 0
    for node in (root, child):
        assert nobody(node).get("/audit").json["inconsistencies"] == []


def call_each_route(noauth: Node, **headers: str) -> Iterator[tuple[str, str, int]]:
    """Call every route; method, URL and status of each."""
    for method, url in sorted(ROUTES):
        path = url.replace("{id}", UUID).replace("{key}", "k").replace("{name}", "nobody-of-this-name")
        json: Any = None if method in ("GET", "DELETE") else {}
        yield method, url, nobody(noauth).call(method, path, json, headers=headers).status


def test_a_url_with_another_project_is_told_the_only_one(noauth: Node) -> None:
    assert nobody(noauth).get("/v2.1/noauth/servers").status == 200
    refusal = nobody(noauth).get("/v2.1/demo/servers").json["badRequest"]
    assert "'noauth', the only project of a zone with noauth" in refusal["message"]


def test_every_call_is_everybodys(noauth: Node) -> None:
    for method, url, status in call_each_route(noauth):
        assert status not in (401, 403), (method, url)
        assert status < 500, (method, url)


def test_a_role_that_is_named_is_the_callers(noauth: Node) -> None:
    for method, url, status in call_each_route(noauth, **{ROLE_HEADER: "compute"}):
        may = any("compute" in {role.value for role in line.roles} for line in lines_of(method, url))
        assert (status == 403) is not may, (method, url)


@pytest.mark.parametrize("role", ["", "king", "ADMIN", "admin, parent"])
def test_a_role_that_there_is_not_is_refused(noauth: Node, role: str) -> None:
    reply = nobody(noauth).call("GET", "/servers", headers={ROLE_HEADER: role})
    assert (reply.status, reply.json["badRequest"]["field"]) == (400, ROLE_HEADER)
    assert "admin, member, reader, compute, parent" in reply.json["badRequest"]["message"]


def test_with_authentication_a_named_role_counts_for_nothing(tmp_path: Path) -> None:
    node = Tree(tmp_path).add("leaf")
    reply = node.client("reader").call("GET", "/users", headers={ROLE_HEADER: "admin"})
    assert reply.status == 403


@pytest.fixture(scope="module")
def noauth(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return Tree(tmp_path_factory.mktemp("noauth")).add("open", auth_strategy="noauth")


@pytest.mark.parametrize(
    ("host", "forced", "status"),
    [
        ("localhost:8774", False, 200),
        ("127.0.0.1", False, 200),
        ("[::1]:8774", False, 200),
        ("evil.example:8774", False, 403),
        ("127.0.0.1.evil.example", False, 403),
        ("localhost@evil.example", False, 403),
        ("[", False, 403),
        ("zone.example", True, 200),
    ],
)
@pytest.mark.parametrize("path", ["/servers", "/dashboard/sign-in"])
def test_a_site_whose_name_leads_here_is_not_answered(
    tmp_path: Path, path: str, host: str, forced: bool, status: int
) -> None:
    node = Tree(tmp_path).add("zone", auth_strategy="noauth", noauth_force=forced)
    add_dashboard(node.app)

    answer = nobody(node).call("GET", path, headers={"Host": host})

    assert answer.status == status
    if status == 403:
        assert answer.json["forbidden"]["error_code"] == "host_not_loopback"
    node.zone.stop()
