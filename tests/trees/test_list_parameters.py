"""Filters and pages of lists, as OpenStack's clients ask for them: none is taken and then ignored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.played_agent import PlayedAgent
from tests.builders.tree import Node, Tree, a_host

LARGER = {"flavor": {"name": "larger", "vcpus": 2, "ram": 1024, "disk": 20}}
IMAGES = (
    {"name": "b", "id": "i-b", "min_disk": 1, "properties": {"os": "linux"}},
    {"name": "a", "id": "i-a", "min_disk": 2, "properties": {"os": "linux"}},
    {"name": "c", "id": "i-c", "min_ram": 64},
)
TIMES = ("2100-01-01T00:00:00Z", "2000-01-01T00:00:00Z")
HERE = "http://localhost"
LISTS_OF_OPENSTACK = """
    /servers /flavors /images /extensions /os-keypairs /os-server-groups /os-aggregates /os-services
    /os-hypervisors /os-hosts /os-migrations /os-simple-tenant-usage /os-availability-zone
    /os-availability-zone/detail /servers/{id}/os-interface /servers/{id}/migrations
    /servers/{id}/os-instance-actions /servers/{id}/os-volume_attachments
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A zone with three images, and with a server that was migrated and then resized."""
    tree = Tree(tmp_path_factory.mktemp("lists"))
    node = tree.add("leaf", hosts_=[a_host("h1"), a_host("h2")])
    for flavor in (FLAVOR, LARGER):
        node.client().post("/flavors", flavor)
    for image in IMAGES:
        node.client().post("/images", {"image": image})
        tree.clock.advance(10)
    agent = PlayedAgent(node)

    def settle() -> None:
        for _ in range(3):
            tree.settle()
            agent.converge()
        tree.clock.advance(10)

    server = {"name": "vm", "flavorRef": "small", "imageRef": ""}
    uuid = node.client("member").post("/servers", {"server": server}).json["server"]["id"]
    settle()
    larger: dict[str, Any] = {"resize": {"flavorRef": "larger"}}
    for action in ({"migrate": None}, larger, {"confirmResize": None}):
        assert node.client().post(f"/servers/{uuid}/action", action).status in (202, 204)
        settle()
    yield node
    node.zone.stop()


def ask(node: Node, path: str, minor: int = 98, user: str = "admin") -> Any:
    headers = {"OpenStack-API-Version": f"compute 2.{minor}"}
    answer = node.client(user).call("GET", path, headers=headers)
    assert answer.status == 200, answer.json
    return answer.json


def followed(node: Node, path: str, noun: str, links: str) -> list[Any]:
    """Read a list page by page."""
    found, pages = [], 0
    while path:
        page = ask(node, path)
        found += page[noun]
        path = next((link["href"] for link in page.get(links, [])), "").removeprefix(HERE)
        pages += 1
        assert pages < 10
    return found


def server_id(node: Node) -> str:
    (only,) = ask(node, "/servers?all_tenants=1")["servers"]
    return str(only["id"])


def migrations(node: Node, query: str) -> list[str]:
    return [one["migration_type"] for one in ask(node, f"/os-migrations?{query}")["migrations"]]


@pytest.mark.own_statements
@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("", ["resize", "migration"]),
        ("migration_type=migration", ["migration"]),
        ("migration_type=resize", ["resize"]),
        ("migration_type=live-migration", []),
        ("project_id=nobody", []),
        ("user_id=nobody", []),
        (f"changes-since={TIMES[0]}", []),
        (f"changes-since={TIMES[1]}", ["resize", "migration"]),
        (f"changes-before={TIMES[0]}", ["resize", "migration"]),
        (f"changes-before={TIMES[1]}", []),
        ("limit=1", ["resize"]),
        ("status=confirmed", ["resize", "migration"]),
        ("status=running", []),
    ],
)
def test_migrations(node: Node, query: str, kinds: list[str]) -> None:
    assert migrations(node, query) == kinds


def test_migrations_of_a_project_and_of_a_user(node: Node) -> None:
    (first, *_) = ask(node, "/os-migrations")["migrations"]

    for name in ("project_id", "user_id"):
        assert migrations(node, f"{name}={first[name]}") == ["resize", "migration"]


def test_pages_of_migrations(node: Node) -> None:
    whole = ask(node, "/os-migrations")["migrations"]

    assert followed(node, "/os-migrations?limit=1", "migrations", "migrations_links") == whole
    assert "migrations_links" not in ask(node, "/os-migrations?limit=1", minor=58)
    assert (
        node.client().get("/os-migrations?marker=none").json["badRequest"]["error_code"] == "marker_unknown"
    )


@pytest.mark.parametrize(
    ("query", "actions"),
    [
        ("", ["confirmResize", "resize", "migrate", "create"]),
        ("limit=2", ["confirmResize", "resize"]),
        (f"changes-since={TIMES[0]}", []),
        (f"changes-since={TIMES[1]}", ["confirmResize", "resize", "migrate", "create"]),
        (f"changes-before={TIMES[1]}", []),
    ],
)
def test_actions_of_a_server(node: Node, query: str, actions: list[str]) -> None:
    found = ask(node, f"/servers/{server_id(node)}/os-instance-actions?{query}")["instanceActions"]

    assert [one["action"] for one in found] == actions


def test_pages_of_actions(node: Node) -> None:
    path = f"/servers/{server_id(node)}/os-instance-actions"
    whole = ask(node, path)["instanceActions"]

    assert followed(node, f"{path}?limit=1", "instanceActions", "links") == whole
    assert "links" not in ask(node, f"{path}?limit=1", minor=57)
    assert node.client().get(f"{path}?marker=none").json["badRequest"]["error_code"] == "marker_unknown"


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", "abc"),
        ("tag=x", ""),
        ("owner=admin", ""),
        ("protected=true", ""),
        ("protected=false", "abc"),
        ("os_hidden=true", ""),
        ("os_hidden=false", "abc"),
        ("os=linux", "ab"),
        ("sort=name:desc", "cba"),
        ("sort=status:asc,name:desc", "cba"),
        ("sort_key=created_at&sort_dir=desc", "cab"),
        ("sort_key=min_ram", "cab"),
        ("status=queued", ""),
        ("status=in:queued,active", "abc"),
        ("disk_format=raw", "abc"),
        ("disk_format=qcow2", ""),
        ("disk_format=in:qcow2,raw&container_format=bare", "abc"),
        ("size_max=5", "abc"),
        ("size_max=20000000000", "abc"),
        ("size_min=-1", "abc"),
        ("size_min=1", ""),
        ("min_disk=1", "b"),
        ("min_ram=64", "c"),
        ("visibility=private", ""),
    ],
)
def test_images(node: Node, query: str, names: str) -> None:
    found = ask(node, f"/image/v2/images?{query}")["images"]

    assert "".join(one["name"] for one in found) == names


def test_an_order_of_images_that_a_zone_does_not_have_is_refused(node: Node) -> None:
    for query in ("sort_key=colour", "sort=name:sideways", "sort_key=name&sort_dir=up"):
        refused = node.client().get(f"/image/v2/images?{query}")
        assert refused.status == 400, query
        assert refused.json["badRequest"]["field"] in query


def test_pages_of_images_keep_their_filters(node: Node) -> None:
    first = ask(node, "/image/v2/images?os=linux&sort=name:desc&limit=1")
    second = ask(node, "/image" + first["next"])

    assert [one["name"] for one in (*first["images"], *second["images"])] == ["b", "a"]
    assert "next" not in second


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", "abc"),
        ("minDisk=2", "a"),
        ("minRam=64", "c"),
        ("status=ACTIVE", "abc"),
        ("status=saving", ""),
        ("type=snapshot", ""),
        ("server=x", ""),
        (f"changes-since={TIMES[0]}", ""),
        (f"changes-since={TIMES[1]}", "abc"),
        ("limit=2", "ab"),
        ("marker=i-a", "bc"),
    ],
)
def test_images_of_the_compute_api(node: Node, query: str, names: str) -> None:
    for path in ("/images", "/images/detail"):
        assert "".join(one["name"] for one in ask(node, f"{path}?{query}")["images"]) == names


def test_an_image_has_the_same_size_in_both_apis(node: Node) -> None:
    (of_compute, *_), (found, *_) = (
        ask(node, path)["images"] for path in ("/images/detail", "/image/v2/images")
    )

    assert of_compute["OS-EXT-IMG-SIZE:size"] == found["size"] == 0


def test_pages_of_images_of_the_compute_api(node: Node) -> None:
    whole = ask(node, "/images/detail")["images"]

    assert followed(node, "/images/detail?limit=1", "images", "images_links") == whole


def test_an_admin_reads_the_limits_of_another_project(node: Node) -> None:
    assert node.client().call("PUT", "/os-quota-sets/p1", {"quota_set": {"instances": 7}}).status == 200

    absolute = ask(node, "/limits?tenant_id=p1")["limits"]["absolute"]

    assert (absolute["maxTotalInstances"], absolute["totalInstancesUsed"]) == (7, 0)
    assert node.client("member").get("/limits?tenant_id=p1").json["forbidden"]["field"] == "tenant_id"
    own = ask(node, "/os-migrations")["migrations"][0]["project_id"]
    assert (
        ask(node, f"/limits?tenant_id={own}", user="member")["limits"]["absolute"]["totalInstancesUsed"] == 1
    )


@pytest.mark.parametrize(
    "path",
    [
        "/servers?limit=0",
        "/servers?name=^v&limit=0",
        "/servers/{id}/os-instance-actions?limit=0",
        "/flavors?limit=0",
        "/images?limit=0",
        "/image/v2/images?limit=0",
        "/os-keypairs?limit=0",
        "/os-migrations?limit=0",
        "/os-simple-tenant-usage?limit=0",
        "/reservations?limit=0",
    ],
)
def test_a_page_of_no_items_has_no_next_one(node: Node, path: str) -> None:
    empty = ask(node, path.format(id=server_id(node)))

    assert [value for value in empty.values() if isinstance(value, list)] == [[]]
    assert "next" not in empty


@pytest.mark.own_statements
@pytest.mark.parametrize(("path", "noun"), [("/os-aggregates", "aggregates"), ("/os-services", "services")])
def test_openstacksdk_reads_lists_that_nova_does_not_page(node: Node, path: str, noun: str) -> None:
    for number in range(3):
        aggregate = {"name": f"a{number}-{noun}"}
        assert node.client().post("/os-aggregates", {"aggregate": aggregate}).status == 200
    whole = ask(node, path)[noun]

    found, page = [], ask(node, f"{path}?limit=2")[noun]
    while page:
        found += page
        page = ask(node, f"{path}?limit=2&marker={page[-1]['id']}")[noun]

    assert found == whole
    assert len(whole) >= 3
    assert ask(node, f"{path}?limit=0")[noun] == whole
    unknown = node.client().get(f"{path}?marker=none").json["badRequest"]
    assert unknown["error_code"] == "marker_unknown"


def test_lists_that_are_always_empty_take_a_page(node: Node) -> None:
    path = f"/servers/{server_id(node)}/os-volume_attachments?limit=1&offset=1"

    assert ask(node, path) == {"volumeAttachments": []}


@pytest.mark.parametrize("key", ["ephemeral_gb", "rxtx_factor", "disabled", "is_public"])
def test_flavors_in_each_order(node: Node, key: str) -> None:
    assert len(ask(node, f"/flavors?sort_key={key}")["flavors"]) == 2


@pytest.mark.parametrize("path", LISTS_OF_OPENSTACK.split())
@pytest.mark.parametrize("minor", [1, 98])
def test_unknown_parameters_of_openstacks_lists_are_ignored(node: Node, path: str, minor: int) -> None:
    path = path.replace("{id}", server_id(node))

    assert ask(node, f"{path}?unknown=1&limit=1000", minor) is not None


def test_a_zones_own_lists_refuse_unknown_parameters(node: Node) -> None:
    for path in ("/reservations", "/zones", "/users", "/audit"):
        refused = node.client().get(f"{path}?unknown=1").json["badRequest"]
        assert (refused["error_code"], refused["field"]) == ("unknown_field", "unknown"), path
