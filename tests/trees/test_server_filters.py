"""Filters and order of a list of servers, as OpenStack's clients send them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.builders.played_agent import PlayedAgent
from tests.builders.stores import statements_read_by
from tests.builders.tree import Node, Tree, a_host
from zonesched.services.owners import servers

FLAVOR = {"name": "small", "id": "f-1", "vcpus": 1, "ram": 64, "disk": 1}
OTHER = {**FLAVOR, "id": "f-2", "name": "other"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A zone with the servers web-1, web-2 and db, oldest first; the first runs on h1, the others on h2."""
    tree = Tree(tmp_path_factory.mktemp("filters"))
    node = tree.add("leaf", hosts_=[a_host("h1", zone="az1"), a_host("h2", zone="az2")])
    for flavor in (FLAVOR, OTHER):
        node.client().post("/flavors", {"flavor": flavor})
    node.client().post("/images", {"image": {"id": "i-1", "name": "debian"}})
    node.client("member").post("/os-keypairs", {"keypair": {"name": "k", "public_key": KEY}})
    boot(tree, "web-1", availability_zone="az1", tags=["a", "b"], imageRef="i-1")
    boot(tree, "web-2", availability_zone="az2", tags=["a"], key_name="k", config_drive=True)
    boot(tree, "db", availability_zone="az2", flavorRef="f-2", description="rows")
    PlayedAgent(node).converge()
    [db] = node.client("member").get("/servers?name=db").json["servers"]
    actions: list[Any] = [{"os-stop": None}, {"lock": {}}]
    for action in actions:
        assert node.client("member").post(f"/servers/{db['id']}/action", action).status == 202
    PlayedAgent(node).converge()
    yield node
    node.zone.stop()


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIR8NN31+uZVnUHOsErnpvtav8YLp4KkCLaIRa00BkHY x@y"


def boot(tree: Tree, name: str, **members: Any) -> None:
    server = {"name": name, "flavorRef": "f-1", **members}
    assert tree.nodes["leaf"].client("member").post("/servers", {"server": server}).status == 202
    tree.settle()
    tree.clock.advance(10.25)


def listed(node: Node, query: str, user: str = "member") -> list[str]:
    answer = node.client(user).get(f"/servers/detail?{query}")
    assert answer.status == 200, answer.body
    return [server["name"] for server in answer.json["servers"]]


@pytest.mark.own_statements
@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["db", "web-2", "web-1"]),
        ("name=web", ["web-2", "web-1"]),
        ("name=^web-[12]$", ["web-2", "web-1"]),
        ("name=WEB", []),
        ("name=^WEB", []),
        ("name=%25", []),
        ("name=_", []),
        ("name=(1|b)$", ["db", "web-1"]),
        ("flavor=f-2", ["db"]),
        ("image=i-1", ["web-1"]),
        ("tags=a", ["web-2", "web-1"]),
        ("tags=a,b", ["web-1"]),
        ("tags-any=b,c", ["web-1"]),
        ("not-tags=a,b", ["db", "web-2"]),
        ("not-tags-any=a,b", ["db"]),
        ("tags=a&not-tags=b", ["web-2"]),
        ("locked=true", ["db"]),
        ("locked=0", ["web-2", "web-1"]),
        ("key_name=k", ["web-2"]),
        ("config_drive=1", ["web-2"]),
        ("config_drive=False", ["db", "web-1"]),
        ("availability_zone=az1", ["web-1"]),
        ("description=rows", ["db"]),
        ("hostname=web-1", ["web-1"]),
        ("vm_state=stopped", ["db"]),
        ("power_state=4", ["db"]),
        ("task_state=spawning", []),
        ("progress=100", ["web-2", "web-1"]),
        ("progress=50", []),
        ("launch_index=7", ["db", "web-2", "web-1"]),
        *(
            (f"status={status}", [])
            for status in ("MIGRATING", "password", "RESCUE", "SHELVED", "SOFT_DELETED")
        ),
        ("status=ACTIVE&status=shutoff", ["db", "web-2", "web-1"]),
        ("status=ERROR&status=ACTIVE&status=ACTIVE", ["web-2", "web-1"]),
        ("status=RESCUE&status=SHUTOFF", ["db"]),
        ("status=RESCUE&status=MIGRATING", []),
        ("status=", ["db", "web-2", "web-1"]),
        ("status=DELETED&status=PAUSED", []),
        ("limit=5000", ["db", "web-2", "web-1"]),
        ("limit=0", []),
        ("limit=0&name=^w", []),
        ("user_id=somebody", []),
        ("user_id={user}", ["db", "web-2", "web-1"]),
        ("display_name=web", ["web-2", "web-1"]),
        ("display_name=^web-1$", ["web-1"]),
        ("display_description=rows", ["db"]),
        ("image_ref=i-1", ["web-1"]),
        ("pinned_availability_zone=az1", ["web-1"]),
        ("auto_disk_config=False", ["db", "web-2", "web-1"]),
        ("auto_disk_config=True", []),
        ("created_at={day}", ["db", "web-2", "web-1"]),
        ("created_at={day} {time}", ["web-2"]),
        ("created_at={day}T{time}Z", ["web-2"]),
        ("created_at=1999", []),
        ("launched_at={day}", ["db", "web-2", "web-1"]),
        ("launched_at=1999", []),
        ("terminated_at={day}", []),
        ("kernel_id=aki-1", []),
        ("ramdisk_id=ari-1", []),
        ("root_device_name=vda", []),
        ("ip=10", []),
        ("ip6=fe80", []),
        ("host=h1", ["db", "web-2", "web-1"]),
        ("unknown=1", ["db", "web-2", "web-1"]),
        ("sort_key=display_name&sort_dir=asc", ["db", "web-1", "web-2"]),
        ("sort_key=name", ["web-2", "web-1", "db"]),
        ("sort_key=vm_state&sort_dir=asc&sort_key=name", ["web-1", "web-2", "db"]),
        ("sort_key=power_state&sort_key=name&sort_dir=asc", ["web-1", "web-2", "db"]),
        ("sort_key=locked_by&sort_key=name&sort_dir=asc", ["web-1", "web-2", "db"]),
        ("sort_key=instance_type_id&sort_dir=desc&sort_key=name", ["db", "web-2", "web-1"]),
        ("sort_key=kernel_id&sort_key=name&sort_dir=asc", ["db", "web-1", "web-2"]),
        ("sort_key=launch_index&sort_key=name&sort_dir=asc", ["db", "web-1", "web-2"]),
        ("sort_key=created_at&sort_dir=asc", ["web-1", "web-2", "db"]),
        ("sort_dir=asc&name=^w", ["web-1", "web-2"]),
        ("sort_key=project_id&sort_key=name", ["web-2", "web-1", "db"]),
        ("sort_key=project_id&sort_dir=desc&sort_key=name&sort_dir=asc", ["db", "web-1", "web-2"]),
        ("sort_key=project_id&sort_key=user_id&sort_key=name&sort_dir=asc", ["db", "web-1", "web-2"]),
        ("sort_key=name&sort_dir=asc&sort_key=display_name&sort_dir=desc", ["db", "web-1", "web-2"]),
    ],
)
def test_a_list_has_what_the_filters_ask_for_in_its_order(node: Node, query: str, names: list[str]) -> None:
    [web_2] = node.client("member").get("/servers/detail?name=web-2").json["servers"]
    day, time = web_2["created"].removesuffix("Z").split("T")

    assert listed(node, query.format(user=web_2["user_id"], day=day, time=time)) == names


@pytest.mark.own_statements
@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("all_tenants=1&host=h1", ["web-1"]),
        ("all_tenants=1&launch_index=7", []),
        ("all_tenants=1&launch_index=0", ["db", "web-2", "web-1"]),
        ("all_tenants=1&node=h2", ["db", "web-2"]),
        ("all_tenants=1&project_id=nobody", []),
        ("all_tenants=1&tenant_id={project}", ["db", "web-2", "web-1"]),
        ("all_tenants=1&tenant_id={project}&locked=0&sort_key=name", ["web-2", "web-1"]),
        ("all_tenants=1&tenant_id={project}&sort_key=vm_state&sort_key=name", ["db", "web-2", "web-1"]),
        ("all_tenants=1&user_id={user}&limit=1", ["db"]),
        # As `nova list --user` asks.
        ("user_id={user}", ["db", "web-2", "web-1"]),
        ("user_id=nobody", []),
    ],
)
def test_an_admin_filters_by_host_project_and_user(node: Node, query: str, names: list[str]) -> None:
    [first, *_] = node.client("member").get("/servers/detail").json["servers"]
    filled = query.format(project=first["tenant_id"], user=first["user_id"])

    assert listed(node, filled, "admin") == names


def test_what_changed_before_a_moment_is_found_by_its_uuid_too(node: Node) -> None:
    [db, *_] = node.client("member").get("/servers/detail?name=db").json["servers"]

    assert listed(node, f"changes-before={db['updated']}&uuid={db['id']}") == ["db"]
    assert listed(node, "changes-before=2000-01-01T00:00:00Z") == []
    assert listed(node, f"uuid={db['id']}") == ["db"]


@pytest.mark.own_statements
@pytest.mark.parametrize(
    "query",
    [
        "name=^w",
        "name=^w&sort_key=display_name&sort_dir=asc",
        "sort_key=vm_state&sort_dir=asc&sort_key=name",
        "config_drive=0&sort_key=power_state&sort_key=locked_by",
        "tags=a",
        "sort_key=project_id&sort_dir=desc&sort_key=name&sort_dir=asc",
        "sort_key=user_id&sort_dir=asc&sort_key=project_id&sort_dir=desc&sort_key=created_at&sort_dir=desc",
    ],
)
def test_a_filtered_list_is_paged(node: Node, query: str) -> None:
    whole = listed(node, query)
    found, path = [], f"/servers?{query}&limit=1"

    while path:
        answer = node.client("member").get(path).json
        found += [server["name"] for server in answer["servers"]]
        links = answer.get("servers_links", [])
        path = links[0]["href"].removeprefix("http://localhost") if links else ""

    assert found == whole


def test_one_call_looks_at_so_many_servers_and_says_where_to_go_on(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "SEARCHED_AT_ONCE", 1)
    monkeypatch.setattr(servers, "MOST_SEARCHED", 2)

    first = node.client("member").get("/servers?name=1$").json
    rest = node.client("member").get(first["servers_links"][0]["href"].removeprefix("http://localhost")).json

    assert first["servers"] == []
    assert [server["name"] for server in rest["servers"]] == ["web-1"]
    assert "servers_links" not in rest


@pytest.mark.parametrize(
    ("query", "user", "orders"),
    [
        ("tags=none&sort_key=name", "member", 1),
        ("tags=none&all_tenants=1&sort_key=uuid", "admin", 1),
        ("ip=10.0.0.1", "member", 0),
    ],
)
def test_a_search_puts_the_servers_into_order_once_and_only_where_one_may_be_found(
    node: Node, monkeypatch: pytest.MonkeyPatch, query: str, user: str, orders: int
) -> None:
    monkeypatch.setattr(servers, "SEARCHED_AT_ONCE", 1)
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    sa.event.listen(node.zone.store.engine, "before_cursor_execute", note)
    try:
        assert listed(node, query, user) == []
    finally:
        sa.event.remove(node.zone.store.engine, "before_cursor_execute", note)

    assert sum("FROM instances" in one and "LIMIT" in one for one in statements) == orders


@pytest.mark.parametrize("name", ["host", "node"])
def test_the_servers_of_a_host_are_found_among_any_number_of_others(
    node: Node, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(servers, "SEARCHED_AT_ONCE", 1)
    monkeypatch.setattr(servers, "MOST_SEARCHED", 1)

    assert listed(node, f"all_tenants=1&{name}=h1", "admin") == ["web-1"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("name=(", "name"),
        ("name=(a)\\1", "name"),
        ("sort_key=secret", "sort_key.0"),
        ("sort_dir=up", "sort_dir.0"),
        ("sort_key=name&sort_key=secret", "sort_key.1"),
        ("sort_key=name&sort_dir=asc&sort_dir=desc", "sort_dir"),
        ("sort_key=name" + "&sort_key=name" * 11, "sort_key"),
        ("limit=1&limit=2", "limit"),
        ("status=ACTIVE&status=RUNNING", "status.1"),
        ("status=ACTIVE" + "&status=ACTIVE" * 20, "status"),
        ("locked=perhaps", "locked"),
        ("power_state=on", "power_state"),
        ("changes-before=soon", "changes-before"),
        ("tags=" + "a" * 5000, "tags"),
    ],
)
def test_nonsense_is_refused_by_name(node: Node, query: str, field: str) -> None:
    refused = node.client("member").get(f"/servers?{query}")

    assert (refused.status, refused.json["badRequest"]["field"]) == (400, field)


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("name=^web-1$", {"web-1"}),
        ("tags=b", {"web-1"}),
        ("tags=none", set()),
        ("key_name=k", {"web-2"}),
        ("description=rows&locked=true", {"db"}),
        ("locked=true", {"db"}),
    ],
)
def test_the_places_of_a_server_that_its_name_or_its_tags_leave_out_are_not_read(
    node: Node, query: str, read: set[str]
) -> None:
    servers_ = node.client("member").get("/servers").json["servers"]

    statements = statements_read_by(node.zone.store, lambda: listed(node, query))

    of_places = [statement for statement in statements if "FROM placements" in statement]
    assert {one["name"] for one in servers_ if any(one["id"] in text for text in of_places)} == read
