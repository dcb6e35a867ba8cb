"""Booting and what became of it, over HTTP, in OpenStack's shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.scenes import built_once
from tests.builders.spec_bodies import a_spec
from tests.builders.tree import Answer, Node, Tree, a_host
from zonesched.model.caller import Role
from zonesched.model.request_wire import spec_to_wire
from zonesched.services.catalog import users

UUID = "00000000-0000-4000-8000-00000000dead"


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    runs = {"supported_instances": [["x86_64", "kvm", "hvm"]]}
    forms = [a_host(f"secret-host-{n}", capabilities=runs) for n in range(4)]
    node = tree.add("leaf", hosts_=forms, max_instances_per_request=50)
    flavor = {"id": "f1", "name": "small", "vcpus": 1, "ram": 512, "disk": 5}
    assert node.client().post("/flavors", {"flavor": flavor}).status == 200
    assert node.client().post("/images", {"image": {"id": "i1", "name": "linux"}}).status == 201
    node.secrets["parent"] = users.create(node.zone.store, node.zone.clock, "parent", Role.PARENT, "").secret
    stranger = users.create(node.zone.store, node.zone.clock, "stranger", Role.MEMBER, "project-2")
    node.secrets["stranger"] = stranger.secret
    return tree


@pytest.fixture
def node(tree: Tree) -> Node:
    return tree.nodes["leaf"]


def a_body(**changes: Any) -> dict[str, Any]:
    return {"server": {"name": "web", "flavorRef": "f1", "imageRef": "i1", **changes}}


def count(node: Node) -> int:
    return len(node.client().get("/servers?all_tenants=1").json["servers"])


def without_ids(reply: Answer) -> tuple[int, bytes, dict[str, str]]:
    ids = {"x-openstack-request-id", "x-compute-request-id", "Date"}
    return reply.status, reply.body, {k: v for k, v in reply.headers.items() if k not in ids}


# -- boot --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "/v2.1"])
def test_a_server_is_accepted_in_openstacks_shape(node: Node, prefix: str) -> None:
    reply = node.client("member").post(f"{prefix}/servers", a_body(security_groups=[{"name": "web"}]))
    assert reply.status == 202
    server = reply.json["server"]
    assert set(server) == {"id", "links", "adminPass", "OS-DCF:diskConfig", "security_groups"}
    assert reply.headers["Location"] == f"http://localhost/v2.1/servers/{server['id']}"
    assert server["security_groups"] == [{"name": "web"}]
    assert len(server["adminPass"]) == 12


def test_only_the_asked_for_reservation_takes_the_servers_place(node: Node) -> None:
    reply = node.client("member").post("/servers", a_body(return_reservation_id=True, min_count=2))
    assert set(reply.json) == {"reservation_id"}
    assert count(node) == 2


def test_boot_answers_with_a_reservation_to_follow(tree: Tree, node: Node) -> None:
    member = node.client("member")
    reply = member.post("/zones/boot", a_body(num_instances=5))
    assert (reply.status, set(reply.json)) == (202, {"reservation_id"})
    tree.settle()
    reservation = member.get(f"/reservations/{reply.json['reservation_id']}").json["reservation"]
    assert reservation["num_instances"] == 5
    assert sum(reservation["counts"].values()) == 5
    assert len(reservation["instances"]) == 5
    listed = member.get(f"/servers?reservation_id={reply.json['reservation_id']}").json["servers"]
    assert {s["id"] for s in listed} == {i["uuid"] for i in reservation["instances"]}


def test_a_repeat_under_the_same_key_is_the_same_boot(node: Node) -> None:
    member, key = node.client("member"), {"headers": {"Idempotency-Key": "once"}}
    first = member.post("/zones/boot", a_body(num_instances=2), **key)
    again = member.post("/zones/boot", a_body(num_instances=2), **key)
    assert again.json == first.json
    assert count(node) == 2
    other = member.post("/zones/boot", a_body(num_instances=3), **key)
    assert (other.status, other.json["conflictingRequest"]["field"]) == (409, "Idempotency-Key")
    assert count(node) == 2


@pytest.mark.parametrize("named", ["flavors", "images", "os-server-groups"])
def test_a_repeat_is_answered_when_what_it_names_was_removed(node: Node, named: str) -> None:
    """A client whose answer was lost repeats its call, after operators and users have gone on."""
    admin, key = node.client(), {"headers": {"Idempotency-Key": "once"}}
    group = {"server_group": {"name": "apart", "policy": "anti-affinity"}}
    ids = {"flavors": "f1", "images": "i1"}
    ids["os-server-groups"] = admin.post("/os-server-groups", group).json["server_group"]["id"]
    body = {**a_body(), "os:scheduler_hints": {"group": ids["os-server-groups"]}}
    first = admin.post("/zones/boot", body, **key)
    removed = admin.delete(f"/{named}/{ids[named]}")

    again = admin.post("/zones/boot", body, **key)
    another = admin.post("/zones/boot", {**body, "server": {**body["server"], "name": "db"}}, **key)

    assert (first.status, removed.status in (202, 204)) == (202, True)
    assert (again.status, again.json) == (202, first.json)
    assert another.status == 400


@pytest.mark.parametrize("key", ["x" * 256, "a b", "ä"])
def test_a_key_has_a_form(node: Node, key: str) -> None:
    reply = node.client("member").post("/servers", a_body(), headers={"Idempotency-Key": key})
    assert (reply.status, reply.json["badRequest"]["field"]) == (400, "Idempotency-Key")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"num_instances": 0}, "num_instances"),
        ({"num_instances": -3}, "num_instances"),
        ({"num_instances": 2.5}, "num_instances"),
        ({"num_instances": 10**9}, "num_instances"),
        ({"num_instances": 51}, "num_instances"),
        ({"num_instances": "3"}, "num_instances"),
        ({"num_instances": 2, "min_count": 3}, "min_count"),
        ({"flavorRef": "none"}, "flavorRef"),
        ({"imageRef": "none"}, "imageRef"),
        ({"filter": "NoSuchFilter"}, "filters"),
        ({"filters": ["NoSuchFilter"]}, "filters"),
        ({"personality": [{"path": "/a", "contents": "YQ=="}]}, "personality"),
        ({"block_device_mapping_v2": [{}]}, "block_device_mapping_v2.0.source_type"),
    ],
)
def test_a_boot_that_cannot_be_honoured_creates_nothing(
    node: Node, changes: dict[str, Any], field: str
) -> None:
    reply = node.client("member").post("/zones/boot", a_body(**changes))
    assert reply.status == 400
    assert reply.json["badRequest"]["field"] == f"server.{field}"
    assert count(node) == 0


def test_a_hint_of_the_wrong_type_creates_nothing(node: Node) -> None:
    body = {**a_body(), "os:scheduler_hints": {"query": ["="]}}
    reply = node.client("member").post("/servers", body)
    assert (reply.status, reply.json["badRequest"]["field"]) == (400, "os:scheduler_hints.query")
    assert count(node) == 0


@pytest.mark.parametrize("hints", ["os:scheduler_hints", "OS-SCH-HNT:scheduler_hints"])
def test_a_hint_that_a_filter_cannot_read_is_named_as_it_was_sent(node: Node, hints: str) -> None:
    body = {**a_body(filters=["JSONFilter"]), hints: {"query": '["nonsense"]'}}
    reply = node.client("member").post("/zones/boot", body)
    refused = reply.json["badRequest"]
    assert (reply.status, refused["error_code"]) == (400, "filter_query_invalid")
    assert refused["field"] == f"{hints}.query"
    assert refused["message"].startswith(f"{hints}.query: ")
    assert count(node) == 0


@pytest.mark.parametrize("hint", ["target_cell", "different_cell"])
def test_a_hint_that_nothing_honours_creates_nothing(node: Node, hint: str) -> None:
    reply = node.client("member").post("/servers", {**a_body(), "os:scheduler_hints": {hint: UUID}})
    assert (reply.status, reply.json["badRequest"]["field"]) == (400, f"os:scheduler_hints.{hint}")
    assert count(node) == 0


# -- list, show, delete ------------------------------------------------------------------------------------


def test_a_server_is_shown_in_openstacks_shape(tree: Tree, node: Node) -> None:
    kept = {
        "metadata": {"role": "web"},
        "key_name": "k",
        "tags": ["blue"],
        "description": "a web server",
        "security_groups": [{"name": "web"}],
    }
    made = node.client("member").post("/servers", a_body(config_drive=True, **kept)).json["server"]
    tree.settle()
    server = node.client("member").get(f"/servers/{made['id']}").json["server"]
    assert server["status"] in ("BUILD", "ACTIVE")
    assert server["tenant_id"] == "project-1"
    assert {key: server[key] for key in kept} == kept
    assert server["config_drive"] == "True"
    assert (server["flavor"]["original_name"], server["image"]["id"]) == ("small", "i1")
    assert len(server["hostId"]) == 56
    assert server["OS-EXT-AZ:availability_zone"] == "az1"
    assert {"OS-EXT-STS:vm_state", "OS-EXT-STS:task_state", "OS-EXT-STS:power_state"} <= set(server)
    assert server["created"].endswith("Z")


def test_a_server_without_an_image_is_shown_so(node: Node) -> None:
    made = node.client("member").post("/servers", {"server": {"name": "w", "flavorRef": "small"}})
    shown = node.client("member").get(f"/servers/{made.json['server']['id']}").json["server"]
    assert (shown["image"], shown["flavor"]["original_name"]) == ("", "small")


def test_only_the_zones_admin_sees_the_host(tree: Tree, node: Node) -> None:
    made = node.client("member").post("/servers", a_body()).json["server"]
    tree.settle()
    shown = node.client().get(f"/servers/{made['id']}").json["server"]
    assert shown["OS-EXT-SRV-ATTR:host"].startswith("secret-host-")
    for who in ("member", "reader"):
        for path in (f"/servers/{made['id']}", "/servers/detail", "/servers"):
            assert b"secret-host" not in node.client(who).get(path).body


def test_a_server_without_room_says_why(tree: Tree, node: Node) -> None:
    node.client().post("/flavors", {"flavor": {"id": "f2", "name": "big", "vcpus": 99, "ram": 1, "disk": 1}})
    made = node.client("member").post("/servers", a_body(flavorRef="f2")).json["server"]
    tree.settle()
    server = node.client("member").get(f"/servers/{made['id']}").json["server"]
    assert server["status"] == "ERROR"
    assert server["fault"]["code"] == 500
    assert server["fault"]["error_code"].startswith("no_valid_host")
    assert "secret-host" not in server["fault"]["message"]


def test_another_projects_instance_is_not_found(tree: Tree, node: Node) -> None:
    made = node.client("member").post("/servers", a_body()).json["server"]
    reservation = node.client("member").post("/zones/boot", a_body()).json["reservation_id"]
    tree.settle()
    for who in ("stranger", "parent"):
        stranger = node.client(who)
        for path in (f"/servers/{made['id']}", f"/reservations/{reservation}"):
            nowhere = path.rpartition("/")[0] + "/" + UUID
            assert without_ids(stranger.get(path)) == without_ids(stranger.get(nowhere))
            assert stranger.get(path).status == 404
        assert stranger.delete(f"/servers/{made['id']}").status == 404
        assert stranger.get("/servers").json == {"servers": []}
    assert node.client("stranger").get("/servers/detail").json == {"servers": []}
    assert node.client("member").get(f"/servers/{made['id']}").status == 200


def test_only_an_admin_lists_all_projects(node: Node) -> None:
    node.client("member").post("/servers", a_body())
    assert len(node.client().get("/servers?all_tenants=1").json["servers"]) == 1
    assert node.client("stranger").get("/servers?all_tenants=1").status == 403
    assert node.client("stranger").get("/servers?all_tenants=0").status == 200


def test_pages_follow_each_other_to_the_end(node: Node) -> None:
    member = node.client("member")
    member.post("/zones/boot", a_body(num_instances=5))
    seen: list[str] = []
    path = "/servers/detail?limit=2&name=web"
    for _ in range(3):
        page = member.get(path).json
        seen += [server["id"] for server in page["servers"]]
        if "servers_links" not in page:
            break
        (link,) = page["servers_links"]
        assert link["rel"] == "next"
        path = link["href"].removeprefix("http://localhost")
    assert len(seen) == len(set(seen)) == 5


def test_a_list_is_filtered(tree: Tree, node: Node) -> None:
    member = node.client("member")
    member.post("/servers", a_body(name="alpha"))
    member.post("/servers", a_body(name="beta"))
    assert [s["name"] for s in member.get("/servers?name=alpha").json["servers"]] == ["alpha"]
    assert member.get("/servers?status=error").json["servers"] == []
    assert member.get("/servers?marker=" + UUID).status == 400


def test_another_projects_instance_as_marker_is_the_same_as_an_unknown_one(node: Node) -> None:
    theirs = node.client("member").post("/servers", a_body()).json["server"]["id"]
    for path in ("/servers", "/servers/detail"):
        unknown, other = (node.client("stranger").get(f"{path}?marker={id}") for id in (UUID, theirs))
        assert (other.status, other.json) == (unknown.status, unknown.json)
        assert other.json["badRequest"]["error_code"] == "marker_unknown"
    assert node.client("member").get(f"/servers?marker={theirs}").status == 200
    assert node.client().get(f"/servers?all_tenants=1&marker={theirs}").status == 200


def test_another_projects_boot_as_marker_is_the_same_as_an_unknown_one(node: Node) -> None:
    body = a_body(return_reservation_id=True)
    theirs = node.client("member").post("/servers", body).json["reservation_id"]
    unknown, other = (node.client("stranger").get(f"/reservations?marker={id}") for id in (UUID, theirs))
    assert (other.status, other.json) == (unknown.status, unknown.json)
    assert other.json["badRequest"]["error_code"] == "marker_unknown"
    assert node.client("member").get(f"/reservations?marker={theirs}").status == 200
    assert node.client().get(f"/reservations?all_tenants=1&marker={theirs}").status == 200


def test_a_delete_answers_once(tree: Tree, node: Node) -> None:
    made = node.client("member").post("/servers", a_body()).json["server"]
    tree.settle()
    reply = node.client("member").delete(f"/servers/{made['id']}")
    assert (reply.status, reply.body) == (204, b"")
    assert node.client("member").get(f"/servers/{made['id']}").status == 404
    assert node.client("member").delete(f"/servers/{made['id']}").status == 404
    assert node.client().get("/audit").json == {"inconsistencies": []}


# -- a parent ----------------------------------------------------------------------------------------------


def select(node: Node, **changes: Any) -> Answer:
    spec = {**spec_to_wire(a_spec(flavor=SMALL)), **changes}
    return node.client("parent").post("/zones/select", {"version": 1, "request_spec": spec})


def build(node: Node, blobs: list[str], uuid: str = UUID, attempt: int = 1, **changes: Any) -> Answer:
    spec = {**spec_to_wire(a_spec(flavor=SMALL)), **changes}
    builds = [{"uuid": uuid, "attempt": attempt, "blobs": blobs}]
    server = {"reservation_id": UUID, "hold_s": 30, "builds": builds}
    return node.client("parent").post("/servers", {"server": server, "request_spec": spec})


SMALL = a_spec().flavor.__class__("f1", "small", 1, 512, 5)


def test_a_parent_selects_builds_confirms_and_deletes(tree: Tree, node: Node) -> None:
    offer = select(node).json
    assert (offer["version"], offer["complete"], len(offer["weights"])) == (1, True, 2)
    reply = build(node, [offer["weights"][0]["blob"]])
    (held,) = reply.json["builds"]
    assert (reply.status, held["state"], held["uuid"]) == (202, "held", UUID)
    assert 0 < held["hold_s"] <= 30
    attempts = {"builds": [{"uuid": UUID, "attempt": 1}]}
    parent = node.client("parent")
    assert parent.post(f"/reservations/{UUID}/confirm", attempts).json["builds"][0]["state"] == "confirmed"
    assert parent.get("/reservations").json["instances"][0]["uuid"] == UUID
    shown = parent.get(f"/servers/{UUID}").json["server"]
    told = {"id", "status", "attempt", "state", "reason", "reservation_id"}
    assert set(shown) == told
    assert [s["id"] for s in parent.get("/servers").json["servers"]] == [UUID]
    assert parent.delete(f"/servers/{UUID}").status == 204
    assert node.client("member").get(f"/servers/{UUID}").status == 404


def test_a_parent_is_told_which_of_its_attempts_an_instance_is_at(node: Node) -> None:
    parent = node.client("parent")
    for attempt in (5, 9):
        assert build(node, [select(node).json["weights"][0]["blob"]], attempt=attempt).status == 202
        assert parent.get(f"/servers/{UUID}").json["server"]["attempt"] == attempt
        assert [s["attempt"] for s in parent.get("/servers").json["servers"]] == [attempt]
        attempts = {"builds": [{"uuid": UUID, "attempt": attempt}]}
        assert parent.post(f"/reservations/{UUID}/cancel", attempts).json["builds"][0]["state"] == "gone"


def test_a_cancelled_hold_is_gone(node: Node) -> None:
    blob = select(node).json["weights"][0]["blob"]
    build(node, [blob])
    attempts = {"builds": [{"uuid": UUID, "attempt": 1}]}
    reply = node.client("parent").post(f"/reservations/{UUID}/cancel", attempts)
    assert reply.json["builds"][0]["state"] == "gone"


def test_the_users_form_with_one_blob_is_answered_with_its_ids(node: Node) -> None:
    blob = select(node).json["weights"][0]["blob"]
    body = {**a_body(blob=blob, imageRef="linux"), "request_spec": spec_to_wire(a_spec(flavor=SMALL))}
    reply = node.client("parent").post("/servers", body)
    assert reply.status == 202
    (held,) = reply.json["builds"]
    assert held["state"] == "held"
    assert node.client().get(f"/servers/{held['uuid']}").json["server"]["name"] == "web"
    assert node.client("parent").get(f"/reservations/{reply.json['reservation_id']}").status == 200


def test_all_blobs_that_do_not_open_are_refused_alike(node: Node) -> None:
    blob = select(node).json["weights"][0]["blob"]
    flipped = blob[:-9] + ("A" if blob[-9] != "A" else "B") + blob[-8:]
    spoilt = ["", "A", "?" * 100, blob[:-4], blob[:40], flipped, blob + "AAAA", blob.lower(), "A" * 100_000]
    replies = [without_ids(build(node, [b])) for b in spoilt]
    replies.append(without_ids(build(node, [blob], flavor=spec_to_wire(a_spec())["flavor"])))
    replies.append(without_ids(build(node, [blob], project_id="other")))
    assert {status for status, _, _ in replies} == {400}
    assert len({(status, body) for status, body, _ in replies}) == 1
    assert all(headers == replies[0][2] for _, _, headers in replies)
    assert count(node) == 0
    assert build(node, [blob]).status == 202


@pytest.mark.parametrize("hint", ["force_hosts", "ignore_hosts", "force_nodes", "cidr"])
def test_a_parents_hints_of_hosts_are_refused(node: Node, hint: str) -> None:
    assert select(node, hints={hint: ["secret-host-1"]}).status == 403


def test_a_member_cannot_send_a_parents_form(node: Node) -> None:
    reply = node.client("member").post("/servers", a_body(blob="AAAA"))
    assert (reply.status, reply.json["badRequest"]["field"]) == (400, "server.blob")


# -- hosts -------------------------------------------------------------------------------------------------


def test_an_agent_registers_and_the_admin_sees_its_hosts(node: Node) -> None:
    agent = node.client("compute")
    inventories = {"VCPU": {"total": 8, "reserved": 1}, "MEMORY_MB": {"total": 1024, "allocation_ratio": 1.5}}
    host = {"name": "new-1", "address": "10.9.9.9", "inventories": inventories, "traits": ["SSD"]}
    reply = agent.call("PUT", "/hosts", {"service": "agent-2", "hosts": [host]})
    assert [h["name"] for h in reply.json["hosts"]] == ["new-1"]
    assert agent.post("/hosts/beat", {"service": "agent-2"}).status == 204
    shown = node.client().get(f"/os-hypervisors/{reply.json['hosts'][0]['id']}").json["hypervisor"]
    assert (shown["hypervisor_hostname"], shown["state"], shown["traits"]) == ("new-1", "up", ["SSD"])
    assert shown["resources"]["VCPU"]["capacity"] == 7
    assert shown["resources"]["MEMORY_MB"]["capacity"] == 1536
    names = {
        h["hypervisor_hostname"] for h in node.client().get("/os-hypervisors/detail").json["hypervisors"]
    }
    assert "new-1" in names
    assert node.client().get(f"/os-hypervisors/{UUID}").status == 404


def test_an_agent_makes_an_instance_active(tree: Tree, node: Node) -> None:
    made = node.client("member").post("/servers", a_body()).json["server"]
    tree.settle()
    agent = node.client("compute")
    (wanted,) = agent.get("/hosts/instances?service=agent").json["instances"]
    assert wanted["uuid"] == made["id"]
    assert wanted["host"].startswith("secret-host-")
    assert wanted["flavor"]["ram"] == 512
    report = {"uuid": wanted["uuid"], "attempt": wanted["attempt"], "state": "active"}
    assert agent.post("/hosts/reports", {"service": "agent", "reports": [report]}).status == 204
    server = node.client("member").get(f"/servers/{made['id']}").json["server"]
    assert (server["status"], server["OS-EXT-STS:power_state"]) == ("ACTIVE", 1)
