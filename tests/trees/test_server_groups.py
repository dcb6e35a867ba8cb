"""/os-server-groups: OpenStack's two forms, whose groups they are, and how a boot names one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.scenes import built_once
from tests.builders.tree import Answer, Client, Node, Tree, a_host
from zonesched.model.caller import Role
from zonesched.services.catalog import users

SMALL = {"flavor": {"name": "small", "vcpus": 1, "ram": 512, "disk": 1}}


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    node = tree.add("root", hosts_=[a_host("h1"), a_host("h2")])
    node.client().post("/flavors", SMALL)
    return tree


@pytest.fixture
def node(tree: Tree) -> Node:
    return tree.nodes["root"]


def another(node: Node, name: str = "alice", project: str = "project-2") -> Client:
    """A member of another project."""
    made = users.create(node.zone.store, node.zone.clock, name, Role.MEMBER, project)
    node.secrets[name] = made.secret
    return node.client(name)


def make(client: Client, **group: Any) -> Any:
    answer = client.post("/os-server-groups", {"server_group": {"name": "web", "policy": "affinity"} | group})
    assert answer.status == 200, answer.body
    return answer.json["server_group"]


def boot(client: Client, hints: dict[str, Any], **server: Any) -> Answer:
    body = {"server": {"name": "vm", "flavorRef": "small", **server}, "os:scheduler_hints": hints}
    return client.post("/zones/boot", body)


def error(answer: Answer) -> tuple[int, str, str]:
    (body,) = answer.json.values()
    return answer.status, body["error_code"], body.get("field", "")


# -- the registry ------------------------------------------------------------------------------------------


# `openstack server group create --rule max_server_per_host=2` sends a text.
@pytest.mark.parametrize("most", [2, "2"])
def test_a_group_is_shown_in_both_of_openstacks_forms(node: Node, most: object) -> None:
    client = node.client("member")

    made = make(client, name="db", policy="anti-affinity", rules={"max_server_per_host": most})

    assert made == {
        "id": made["id"],
        "name": "db",
        "policy": "anti-affinity",
        "policies": ["anti-affinity"],
        "rules": {"max_server_per_host": 2},
        "members": [],
        "metadata": {},
        "project_id": "project-1",
        "user_id": made["user_id"],
    }
    assert client.get(f"/os-server-groups/{made['id']}").json == {"server_group": made}
    assert client.get("/os-server-groups").json == {"server_groups": [made]}


@pytest.mark.parametrize("policy", ["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"])
def test_the_older_form_names_the_policy_in_a_list(node: Node, policy: str) -> None:
    body = {"server_group": {"name": "web", "policies": [policy]}}

    made = node.client("member").post("/v2.1/os-server-groups", body).json["server_group"]

    assert (made["policy"], made["policies"]) == (policy, [policy])
    assert made["rules"] == ({"max_server_per_host": 1} if policy == "anti-affinity" else {})


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"policy": "affinity"}, "missing_field", "server_group.name"),
    ({"name": "", "policy": "affinity"}, "invalid_value", "server_group.name"),
    ({"name": "w"}, "missing_field", "server_group.policy"),
    ({"name": "w", "policies": []}, "missing_field", "server_group.policy"),
    ({"name": "w", "policy": "near"}, "invalid_value", "server_group.policy"),
    ({"name": "w", "policies": ["affinity", "soft-affinity"]}, "too_long", "server_group.policies"),
    ({"name": "w", "policy": "affinity", "policies": ["affinity"]}, "invalid_value", "server_group.policies"),
    (
        {"name": "w", "policy": "affinity", "rules": {"max_server_per_host": 2}},
        "invalid_value",
        "server_group.rules",
    ),
    (
        {"name": "w", "policy": "anti-affinity", "rules": {"max_server_per_host": 0}},
        "out_of_range",
        "server_group.rules.max_server_per_host",
    ),
    (
        {"name": "w", "policy": "anti-affinity", "rules": {"max_server_per_host": "two"}},
        "wrong_type",
        "server_group.rules.max_server_per_host",
    ),
    ({"name": "w", "policy": "affinity", "members": []}, "unknown_field", "server_group.members"),
]


@pytest.mark.parametrize(("group", "code", "field"), WRONG)
def test_a_group_that_cannot_be_made_is_a_bad_request(
    node: Node, group: dict[str, Any], code: str, field: str
) -> None:
    answer = node.client().post("/os-server-groups", {"server_group": group})

    assert (answer.status, answer.json["badRequest"]["field"]) == (400, field)
    if code != "invalid_value":
        assert answer.json["badRequest"]["error_code"] == code
    assert node.client().get("/os-server-groups").json == {"server_groups": []}


def test_a_group_of_another_project_is_not_there(node: Node) -> None:
    group = make(node.client("member"))
    alice = another(node)
    url = f"/os-server-groups/{group['id']}"

    assert error(alice.get(url)) == (404, "server_group_not_found", "id")
    assert error(alice.delete(url)) == (404, "server_group_not_found", "id")
    assert alice.get("/os-server-groups").json == {"server_groups": []}
    assert node.client("reader").get(url).status == 200


def test_an_admin_sees_every_projects_groups_when_asking_for_them(node: Node) -> None:
    group = make(another(node))
    admin = node.client()

    assert admin.get("/os-server-groups").json["server_groups"] == []
    assert admin.get("/os-server-groups?all_projects=true").json["server_groups"] == [group]
    assert admin.get(f"/os-server-groups/{group['id']}").status == 200
    refused = node.client("member").get("/os-server-groups?all_projects=true")
    assert error(refused) == (403, "forbidden", "all_projects")


def test_groups_are_listed_page_by_page_oldest_first(tree: Tree, node: Node) -> None:
    client = node.client()
    names = []
    for number in range(3):
        names.append(make(client, name=f"g{number}")["name"])
        tree.clock.advance(1.0)

    pages = [client.get(f"/os-server-groups?limit=2&offset={n}").json["server_groups"] for n in (0, 2)]

    assert [[group["name"] for group in page] for page in pages] == [names[:2], names[2:]]
    # As in OpenStack Nova, whose other lists are empty then.
    assert len(client.get("/os-server-groups?limit=0").json["server_groups"]) == 3


def test_the_page_after_a_group_is_listed_by_its_id(tree: Tree, node: Node) -> None:
    client = node.client()
    # Two of the same moment.
    ids = [make(client, name=f"g{number}")["id"] for number in range(2)]
    tree.clock.advance(1.0)
    ids = [*sorted(ids), make(client, name="g2")["id"]]
    stranger = another(node)

    pages: list[list[str]] = [[""]]
    while pages[-1]:
        listed = client.get(f"/os-server-groups?limit=1&marker={pages[-1][-1]}").json["server_groups"]
        pages.append([group["id"] for group in listed])

    assert pages == [[""], *([id] for id in ids), []]
    refused = stranger.get(f"/os-server-groups?marker={ids[0]}")
    assert error(refused) == (400, "marker_unknown", "marker")


def test_a_project_has_a_limited_number_of_groups(tmp_path: Path) -> None:
    node = Tree(tmp_path).add("root", max_server_groups=2)
    for name in ("a", "b"):
        make(node.client("member"), name=name)

    refused = node.client("member").post(
        "/os-server-groups", {"server_group": {"name": "c", "policy": "affinity"}}
    )

    assert error(refused) == (403, "too_many_server_groups", "server_group")
    make(another(node), name="c")


def test_clients_read_how_many_groups_a_project_may_have(tmp_path: Path) -> None:
    node = Tree(tmp_path).add("root", max_server_groups=2)
    member, admin = node.client("member"), node.client()
    quotas = "/os-quota-sets/project-1"

    absolute = member.get("/limits").json["limits"]["absolute"]
    shown = [member.get(quotas).json, admin.get("/os-quota-class-sets/default").json]
    same, other = (
        admin.call("PUT", quotas, {"quota_set": {"server_groups": count}}).status for count in (2, -1)
    )

    assert absolute["maxServerGroups"] == 2
    assert [next(iter(one.values()))["server_groups"] for one in shown] == [2, 2]
    assert (same, other) == (200, 400)


def test_a_deleted_group_is_gone(node: Node) -> None:
    client = node.client("member")
    url = f"/os-server-groups/{make(client)['id']}"

    assert client.delete(url).status == 204

    assert client.get(url).status == client.delete(url).status == 404


# -- joining one -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["id", "name"])
def test_a_boot_names_its_group_by_id_or_by_name(tree: Tree, node: Node, key: str) -> None:
    client = node.client("member")
    group = make(client, policy="soft-affinity")

    answer = boot(client, {"group": group[key]}, num_instances=2)
    tree.settle()

    assert answer.status == 202, answer.body
    uuids = [i["uuid"] for i in _reservation(client, answer)["instances"]]
    assert client.get(f"/os-server-groups/{group['id']}").json["server_group"]["members"] == uuids


def test_a_deleted_instance_is_no_member_any_more(tree: Tree, node: Node) -> None:
    client = node.client("member")
    group = make(client)
    first, second = (
        _reservation(client, boot(client, {"group": "web"}))["instances"][0]["uuid"] for _ in range(2)
    )
    tree.settle()

    assert client.delete(f"/servers/{first}").status == 204

    assert client.get(f"/os-server-groups/{group['id']}").json["server_group"]["members"] == [second]


@pytest.mark.parametrize("hints", ["os:scheduler_hints", "OS-SCH-HNT:scheduler_hints"])
def test_an_unknown_group_is_a_bad_request(node: Node, hints: str) -> None:
    body = {"server": {"name": "vm", "flavorRef": "small"}, hints: {"group": "web"}}

    answer = node.client().post("/servers", body)

    assert error(answer) == (400, "server_group_unknown", f"{hints}.group")
    assert node.client().get("/servers").json == {"servers": []}


def test_a_group_of_another_project_is_unknown_to_a_boot(node: Node) -> None:
    group = make(another(node))

    assert error(boot(node.client(), {"group": group["id"]}))[1] == "server_group_unknown"
    assert error(boot(node.client(), {"group": "web"}))[1] == "server_group_unknown"


def test_a_name_of_several_groups_names_none(node: Node) -> None:
    client = node.client("member")
    first, _ = make(client), make(client)

    assert error(boot(client, {"group": "web"})) == (
        400,
        "server_group_ambiguous",
        "os:scheduler_hints.group",
    )
    assert boot(client, {"group": first["id"]}).status == 202


@pytest.mark.parametrize("group", [1, None, ["web"], {"id": "web"}])
def test_a_group_that_is_no_text_is_a_bad_request(node: Node, group: Any) -> None:
    assert error(boot(node.client(), {"group": group})) == (400, "wrong_type", "os:scheduler_hints.group")


@pytest.mark.parametrize("policy", ["anti-affinity", "soft-anti-affinity", "soft-affinity"])
def test_a_boot_on_one_host_joins_no_group_of_another_policy(node: Node, policy: str) -> None:
    client = node.client("member")
    make(client, policy=policy)

    refused = boot(client, {"group": "web", "group_policy": "affinity"})

    assert error(refused) == (400, "hints_contradict", "os:scheduler_hints.group_policy")


def test_members_of_a_deleted_group_go_on_and_nobody_joins_it(tree: Tree, node: Node) -> None:
    client = node.client("member")
    group = make(client)
    answer = boot(client, {"group": "web"})
    tree.settle()

    client.delete(f"/os-server-groups/{group['id']}")

    assert _reservation(client, answer)["counts"] == {"BUILD": 1}
    assert error(boot(client, {"group": group["id"]}))[1] == "server_group_unknown"


def _reservation(client: Client, answer: Answer) -> Any:
    assert answer.status == 202, answer.body
    return client.get(f"/reservations/{answer.json['reservation_id']}").json["reservation"]
