"""Calls of OpenStack for what a zone does not keep say so, and those for images change what filters read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.scenes import built_once
from tests.builders.tree import Answer, Node, Tree, a_host
from zonesched.model.caller import Role
from zonesched.services.catalog import users

pytestmark = pytest.mark.once

FLAVOR = {"name": "small", "id": "f-1", "vcpus": 1, "ram": 64, "disk": 1}
ID = "00000000-0000-4000-8000-00000000dead"


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.add("zone", hosts_=[a_host("h1"), a_host("h2")])
    return tree


@pytest.fixture
def node(tree: Tree) -> Iterator[Node]:
    node = tree.nodes["zone"]
    for name, project in (("ann", "p1"), ("ben", "p2")):
        node.secrets[name] = users.create(node.zone.store, node.zone.clock, name, Role.MEMBER, project).secret
    node.client().post("/flavors", {"flavor": FLAVOR})
    node.client().post("/images", {"image": {"id": "i-1", "name": "plain", "properties": {"a": "1"}}})
    yield node
    node.zone.stop()


@pytest.fixture
def uuid(node: Node) -> str:
    body = {"server": {"name": "web", "flavorRef": "f-1", "imageRef": "plain"}}
    return str(node.client("ann").post("/servers", body).json["server"]["id"])


def code(reply: Answer) -> tuple[int, str]:
    ((fault,),) = [reply.json.values()]
    return reply.status, fault["error_code"]


OF_SERVERS = [
    ("GET", "ips/private", (404, "network_not_found")),
    ("POST", "os-interface", (409, "networks_unsupported")),
    ("GET", f"os-interface/{ID}", (404, "interface_not_found")),
    ("DELETE", f"os-interface/{ID}", (404, "interface_not_found")),
    ("POST", "os-volume_attachments", (409, "volumes_unsupported")),
    ("GET", f"os-volume_attachments/{ID}", (404, "volume_not_attached")),
    ("PUT", f"os-volume_attachments/{ID}", (404, "volume_not_attached")),
    ("DELETE", f"os-volume_attachments/{ID}", (404, "volume_not_attached")),
    ("POST", "shares", (409, "shares_unsupported")),
    ("GET", f"shares/{ID}", (404, "share_not_attached")),
    ("DELETE", f"shares/{ID}", (404, "share_not_attached")),
]


@pytest.mark.parametrize(("method", "path", "expected"), OF_SERVERS)
def test_it_is_refused_by_its_name_and_changes_nothing(
    node: Node, uuid: str, method: str, path: str, expected: tuple[int, str]
) -> None:
    before = node.client("ann").get(f"/servers/{uuid}").json

    reply = node.client("ann").call(method, f"/servers/{uuid}/{path}", {})

    assert code(reply) == expected
    assert node.client("ann").get(f"/servers/{uuid}").json == before


@pytest.mark.parametrize(("method", "path"), [*((m, p) for m, p, _ in OF_SERVERS), ("GET", "shares")])
def test_another_projects_server_is_not_found(node: Node, uuid: str, method: str, path: str) -> None:
    assert code(node.client("ben").call(method, f"/servers/{uuid}/{path}", {})) == (404, "instance_not_found")


def test_a_server_has_no_shares(node: Node, uuid: str) -> None:
    assert node.client("ann").get(f"/servers/{uuid}/shares").json == {"shares": []}


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/os-agents", (410, "call_removed")),
        ("POST", "/os-agents", (410, "call_removed")),
        ("PUT", "/os-agents/1", (410, "call_removed")),
        ("DELETE", "/os-agents/1", (410, "call_removed")),
        ("GET", "/os-console-auth-tokens/x", (404, "console_token_not_found")),
    ],
)
def test_what_is_no_servers_is_refused_likewise(
    node: Node, method: str, path: str, expected: tuple[int, str]
) -> None:
    assert code(node.client().call(method, path, {})) == expected


# -- images of an aggregate's hosts ------------------------------------------------------------------------


def test_images_are_not_fetched_to_the_hosts_of_an_aggregate(node: Node) -> None:
    admin, body = node.client(), {"cache": [{"id": "i-1"}]}
    number = admin.post("/os-aggregates", {"aggregate": {"name": "rack"}}).json["aggregate"]["id"]

    refused = code(admin.post(f"/os-aggregates/{number}/images", body))

    assert refused == (409, "image_cache_unsupported")
    assert code(admin.post("/os-aggregates/77/images", body)) == (404, "aggregate_not_found")


# -- properties of images ----------------------------------------------------------------------------------


def test_properties_of_an_image_change(node: Node) -> None:
    admin, path = node.client(), "/images/i-1/metadata"

    added = admin.post(path, {"metadata": {"b": "2"}})
    one = admin.call("PUT", f"{path}/a", {"meta": {"a": "9"}})
    removed = admin.call("DELETE", f"{path}/b")

    assert added.json == {"metadata": {"a": "1", "b": "2"}}
    assert one.json == {"meta": {"a": "9"}}
    assert removed.status == 204
    assert node.client("ann").get("/image/v2/images/i-1").json["a"] == "9"
    assert admin.call("PUT", path, {"metadata": {"c": "3"}}).json == {"metadata": {"c": "3"}}
    assert node.client("ann").get(path).json == {"metadata": {"c": "3"}}


def test_a_server_keeps_the_properties_that_its_image_had(node: Node, uuid: str) -> None:
    node.client().post("/images/i-1/metadata", {"metadata": {"a": "other"}})

    assert node.client("ann").get(f"/servers/{uuid}").json["server"]["image"]["properties"] == {"a": "1"}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "", {"metadata": {"a": 1}}, 400),
        ("POST", "", {"metadata": {f"k{n}": "v" for n in range(128)}}, 400),
        ("PUT", "/a", {"meta": {"b": "1"}}, 400),
        ("PUT", "/a", {"meta": {}}, 400),
        ("DELETE", "/none", None, 404),
    ],
)
def test_bad_properties_are_refused_and_change_nothing(
    node: Node, method: str, path: str, body: Any, status: int
) -> None:
    assert node.client().call(method, f"/images/i-1/metadata{path}", body).status == status
    assert node.client().call(method, f"/images/none/metadata{path}", body).status in (400, 404)
    assert node.client().get("/images/i-1/metadata").json == {"metadata": {"a": "1"}}


# -- audits of usage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "period"),
    [
        ("2026-03-17 12:00:00", ("2026-02-01 00:00:00", "2026-03-01 00:00:00")),
        ("2026-01-01T00:00:00", ("2025-12-01 00:00:00", "2026-01-01 00:00:00")),
    ],
)
def test_no_host_has_run_an_audit_of_usage(node: Node, before: str, period: tuple[str, str]) -> None:
    found = node.client().get(f"/os-instance_usage_audit_log/{before}").json["instance_usage_audit_log"]

    assert (found["period_beginning"], found["period_ending"]) == period
    assert (found["num_hosts"], found["hosts_not_run"], found["log"]) == (2, ["h1", "h2"], {})
    assert found["overall_status"] == "0 of 2 hosts done. 0 errors."


def test_the_present_audit_is_of_the_last_month(node: Node) -> None:
    found = node.client().get("/os-instance_usage_audit_log").json["instance_usage_audit_logs"]

    assert found["period_beginning"] < found["period_ending"]


@pytest.mark.parametrize("before", ["soon", "0001-01-15", "-1"])
def test_a_time_that_is_none_is_refused(node: Node, before: str) -> None:
    assert code(node.client().get(f"/os-instance_usage_audit_log/{before}")) == (400, "invalid_value")
