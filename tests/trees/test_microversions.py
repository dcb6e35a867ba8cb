"""Microversions of the API: negotiated as in OpenStack Nova, and the shapes that they decide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders.tree import Answer, Node, Tree
from zonesched.api.microversion import NEWEST

pytestmark = pytest.mark.once

NEWER, OLDER = "OpenStack-API-Version", "X-OpenStack-Nova-API-Version"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Tree(tmp_path_factory.mktemp("versions")).add("leaf")
    form = {"name": "small", "id": "f-1", "vcpus": 1, "ram": 64, "disk": 1, "extra_specs": {"k": "v"}}
    assert node.client().post("/flavors", {"flavor": form}).status == 200
    yield node
    node.zone.stop()


def ask(node: Node, path: str, headers: dict[str, str]) -> Answer:
    return node.client().call("GET", path, headers={NEWER: "", **headers})


def at(node: Node, minor: int, path: str) -> Any:
    return ask(node, path, {NEWER: f"compute 2.{minor}"}).json


@pytest.mark.parametrize(
    ("headers", "version"),
    [
        ({}, "2.1"),
        ({NEWER: "compute 2.53"}, "2.53"),
        ({NEWER: "COMPUTE latest"}, str(NEWEST)),
        ({NEWER: "identity 3.0, compute 2.9"}, "2.9"),
        ({NEWER: "volume 3.59"}, "2.1"),
        ({OLDER: "2.10"}, "2.10"),
        ({OLDER: "latest"}, str(NEWEST)),
        ({NEWER: "compute 2.5", OLDER: "2.10"}, "2.5"),
    ],
)
def test_an_answer_is_in_the_version_asked_for(node: Node, headers: dict[str, str], version: str) -> None:
    reply = ask(node, "/flavors", headers)

    assert reply.status == 200
    assert reply.headers[NEWER] == f"compute {version}"
    assert reply.headers[OLDER] == version
    assert reply.headers["Vary"] == f"{NEWER}, {OLDER}"


@pytest.mark.parametrize("asked", ["2", "2.x", "v2.1", "2.01", "-2.1", "2.1.1", "", "newest", "2.9999999"])
def test_nonsense_is_a_bad_request(node: Node, asked: str) -> None:
    reply = ask(node, "/flavors", {NEWER: f"compute {asked}"})

    assert reply.status == 400
    assert reply.json["badRequest"]["error_code"] == "microversion_invalid"
    assert reply.json["badRequest"]["field"] == NEWER


@pytest.mark.parametrize("asked", ["2.0", f"2.{NEWEST.minor + 1}", "1.9", "3.0", "2.100000"])
def test_a_version_that_a_zone_does_not_have_is_not_acceptable(node: Node, asked: str) -> None:
    reply = ask(node, "/flavors", {NEWER: f"compute {asked}"})

    fault = reply.json["computeFault"]
    assert (reply.status, fault["code"], fault["error_code"]) == (406, 406, "microversion_unsupported")
    assert str(NEWEST) in fault["message"]


def test_a_flavor_is_described_from_2_55_and_has_its_extra_specs_from_2_61(node: Node) -> None:
    shapes = {minor: at(node, minor, "/flavors/f-1")["flavor"] for minor in (54, 55, 60, 61, 74, 75)}

    assert ["description" in shapes[minor] for minor in (54, 55)] == [False, True]
    assert ["extra_specs" in shapes[minor] for minor in (60, 61)] == [False, True]
    assert [shapes[minor]["swap"] for minor in (74, 75)] == ["", 0]


def test_quotas_of_networks_end_with_2_36_and_of_files_with_2_57(node: Node) -> None:
    quotas = {minor: at(node, minor, "/os-quota-sets/p")["quota_set"] for minor in (35, 36, 56, 57)}

    assert ["floating_ips" in quotas[minor] for minor in (35, 36)] == [True, False]
    assert [quotas[minor].get("injected_files") for minor in (56, 57)] == [0, None]


def test_quota_classes_have_quotas_of_networks_up_to_2_49(node: Node) -> None:
    path = "/os-quota-class-sets/default"

    shown = [at(node, minor, path)["quota_class_set"].get("fixed_ips") for minor in (36, 49, 50)]
    changed = [
        node.client().call(
            "PUT",
            path,
            {"quota_class_set": {"fixed_ips": -1}},
            headers={"OpenStack-API-Version": f"compute 2.{minor}"},
        )
        for minor in (49, 50)
    ]

    assert shown == [-1, -1, None]
    assert [answer.json["quota_class_set"].get("fixed_ips") for answer in changed] == [-1, None]


def test_the_statuses_of_key_pairs_change_with_2_2(node: Node) -> None:
    client = node.client()

    def statuses(minor: int) -> tuple[int, int]:
        headers = {NEWER: f"compute 2.{minor}"}
        made = client.post("/os-keypairs", {"keypair": {"name": "k"}}, headers=headers)
        return made.status, client.call("DELETE", "/os-keypairs/k", headers=headers).status

    assert [statuses(1), statuses(2)] == [(200, 202), (201, 204)]


def test_from_2_92_key_pairs_are_only_imported(node: Node) -> None:
    headers = {NEWER: "compute 2.92"}
    reply = node.client().post("/os-keypairs", {"keypair": {"name": "k"}}, headers=headers)

    assert (reply.status, reply.json["badRequest"]["field"]) == (400, "keypair.public_key")


@pytest.fixture(scope="module")
def uuid(node: Node) -> str:
    group = {"server_group": {"name": "g", "policy": "soft-affinity"}}
    group_id = node.client().post("/os-server-groups", group).json["server_group"]["id"]
    server = {"name": "My server!", "flavorRef": "f-1", "description": "d", "tags": ["t"]}
    body = {"server": server, "os:scheduler_hints": {"group": group_id}}
    return str(node.client().post("/servers", body).json["server"]["id"])


@pytest.mark.parametrize(
    ("minor", "member"),
    [
        (9, "locked"),
        (19, "description"),
        (26, "tags"),
        (63, "trusted_image_certificates"),
        (71, "server_groups"),
        (73, "locked_reason"),
        (96, "pinned_availability_zone"),
    ],
)
def test_a_member_of_a_server_comes_with_its_version(node: Node, uuid: str, minor: int, member: str) -> None:
    before, since = (at(node, number, f"/servers/{uuid}")["server"] for number in (minor - 1, minor))

    assert member not in before
    assert member in since


def test_the_flavor_of_a_server_is_inline_from_2_47(node: Node, uuid: str) -> None:
    before, since = (at(node, number, f"/servers/{uuid}")["server"]["flavor"] for number in (46, 47))

    assert before["id"] == "f-1"
    assert since == {
        "original_name": "small",
        "vcpus": 1,
        "ram": 64,
        "disk": 1,
        "ephemeral": 0,
        "swap": 0,
        "extra_specs": {"k": "v"},
    }


def test_a_list_has_no_server_groups(node: Node, uuid: str) -> None:
    [listed] = [one for one in at(node, 96, "/servers/detail")["servers"] if one["id"] == uuid]
    shown = at(node, 96, f"/servers/{uuid}")["server"]

    assert len(shown.pop("server_groups")) == 1
    assert listed == shown
    assert listed["OS-EXT-SRV-ATTR:hostname"] == "my-server"


def test_the_image_of_a_server_has_its_properties_from_2_98(node: Node) -> None:
    client = node.client()
    client.post("/images", {"image": {"id": "i-1", "name": "plain", "properties": {"os": "linux"}}})
    body = {"server": {"name": "x", "flavorRef": "f-1", "imageRef": "i-1"}}
    uuid = client.post("/servers", body).json["server"]["id"]

    before, since = (at(node, minor, f"/servers/{uuid}")["server"]["image"] for minor in (97, 98))

    assert "properties" not in before
    assert since == {**before, "properties": {"os": "linux"}}
