"""Calls under `/v2.1/{project_id}`, as catalogs and clients of OpenStack Nova may spell them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.tree import Node, Tree, a_host
from zonesched.model.caller import Role
from zonesched.services.catalog import users

HERE = "http://localhost"
PROJECT = "a1b2c3"
SPELLED = f"/v2.1/{PROJECT}"

SAME = (
    *("/servers", "/servers/detail", "/flavors", "/os-keypairs", "/limits", "/v2/images", "/extensions"),
    *(f"/os-quota-sets/{PROJECT}", f"/os-simple-tenant-usage/{PROJECT}", "/os-availability-zone"),
)


@pytest.fixture
def node(tmp_path: Any) -> Iterator[Node]:
    node = Tree(tmp_path).add("leaf", hosts_=[a_host("h1")])
    for name, project in (("ann", PROJECT), ("eve", "d4e5f6"), ("zoe", "Café 1")):
        made = users.create(node.zone.store, node.zone.clock, name, Role.MEMBER, project)
        node.secrets[name] = made.secret
    node.client().post("/flavors", FLAVOR)
    yield node
    node.zone.stop()


def boot(node: Node, name: str, mount: str = SPELLED) -> Any:
    body = {"server": {"name": name, "flavorRef": "small", "imageRef": ""}}
    return node.client("ann").post(f"{mount}/servers", body)


def test_links_and_pages_have_the_project_where_the_url_has_it(node: Node) -> None:
    made = [boot(node, f"vm-{n}") for n in range(3)]
    uuids = [reply.json["server"]["id"] for reply in made]
    client = node.client("ann")

    assert [reply.status for reply in made] == [202] * 3
    assert made[0].headers["Location"] == f"{HERE}{SPELLED}/servers/{uuids[0]}"
    shown = client.get(f"{SPELLED}/servers/{uuids[0]}").json["server"]
    assert shown["links"][0]["href"] == f"{HERE}{SPELLED}/servers/{uuids[0]}"
    assert client.get(f"/v2.1/servers/{uuids[0]}").json["server"]["links"][0]["href"] == (
        f"{HERE}/v2.1/servers/{uuids[0]}"
    )
    listed, path = [], f"{SPELLED}/servers/detail?limit=2"
    while path:
        page = client.get(path).json
        listed += [one["id"] for one in page["servers"]]
        path = page.get("servers_links", [{"href": ""}])[0]["href"].removeprefix(HERE)
        assert not path or path.startswith(f"{SPELLED}/servers/detail?")
    assert sorted(listed) == sorted(uuids)


@pytest.mark.parametrize("path", SAME)
def test_a_call_is_the_same_with_the_project(node: Node, path: str) -> None:
    client = node.client("ann")
    with_project, without = client.get(SPELLED + path), client.get("/v2.1" + path)

    assert (with_project.status, without.status) == (200, 200)
    assert with_project.body.replace(SPELLED.encode(), b"/v2.1") == without.body


@pytest.mark.parametrize(
    ("user", "mount"), [("eve", SPELLED), ("ann", "/v2.1/d4e5f6"), ("ann", "/v2.1/x%20y")]
)
def test_the_project_of_another_is_refused_as_by_nova(node: Node, user: str, mount: str) -> None:
    for method, path in (("GET", "/servers"), ("DELETE", "/servers/x"), ("GET", "/os-services")):
        reply = node.client(user).call(method, mount + path)
        fault = reply.json["badRequest"]
        assert (reply.status, fault["error_code"], fault["field"]) == (400, "project_mismatch", "project_id")
        assert "doesn't match Context's project_id" in fault["message"]


def test_credentials_are_asked_for_first(node: Node) -> None:
    assert node.client("").get(f"{SPELLED}/servers").status == 401


def test_a_project_may_have_any_name_that_no_call_begins_with(node: Node) -> None:
    mount = "/v2.1/Caf%C3%A9%201"
    client = node.client("zoe")
    body = {"server": {"name": "vm", "flavorRef": "small", "imageRef": ""}}
    uuid = client.post(f"{mount}/servers", body).json["server"]["id"]

    link = client.get(f"{mount}/servers").json["servers"][0]["links"][0]["href"]
    assert link == f"{HERE}{mount}/servers/{uuid}"
    assert client.get(link.removeprefix(HERE)).status == 200


@pytest.mark.parametrize("project", ["100% #1", "what?", "a%2Fb", "проект"])
def test_a_link_to_a_project_of_any_name_leads_there(node: Node, project: str) -> None:
    # given two servers of one project, in pages of one
    made = users.create(node.zone.store, node.zone.clock, "max", Role.MEMBER, project)
    node.secrets["max"] = made.secret
    client, headers = node.client("max"), {"OpenStack-API-Version": "compute 2.40"}
    body = {"server": {"name": "vm", "flavorRef": "small", "imageRef": "", "min_count": 2}}
    assert client.post("/servers", body).status == 202
    # when
    path = f"/os-simple-tenant-usage/{quote(project)}?detailed=1&limit=1"
    usage = client.call("GET", path, headers=headers).json
    next_path = usage["tenant_usage_links"][0]["href"].removeprefix(HERE)
    next_page = client.call("GET", next_path, headers=headers)
    (shown,) = client.get("/identity/v3/projects").json["projects"]
    itself = client.get(shown["links"]["self"].removeprefix(HERE))
    # then
    assert len(next_page.json["tenant_usage"]["server_usages"]) == 1
    assert itself.json["project"] == shown


@pytest.mark.parametrize(
    "path", ["/v2.1/servrs", f"/{PROJECT}/servers", f"{SPELLED}/servrs", "/v2.1//servers"]
)
def test_what_no_call_has_is_unknown_as_before(node: Node, path: str) -> None:
    reply = node.client("ann").get(path)
    assert (reply.status, reply.json["itemNotFound"]["error_code"]) == (404, "url_unknown")


def test_the_version_is_found_below_a_project(node: Node) -> None:
    assert node.client("").get(f"{SPELLED}/").json == node.client("").get("/v2.1/").json
