"""Name, description, metadata and tags of a server, and the filters that clients send with lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.builders.tree import Answer, Node, Tree
from zonesched.model.caller import Role
from zonesched.services.catalog import users

UUID = "00000000-0000-4000-8000-00000000dead"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Tree(tmp_path).add("leaf")
    for name, project in (("ann", "p1"), ("ben", "p2")):
        node.secrets[name] = users.create(node.zone.store, node.zone.clock, name, Role.MEMBER, project).secret
    form = {"name": "small", "id": "f-1", "vcpus": 1, "ram": 64, "disk": 1}
    assert node.client().post("/flavors", {"flavor": form}).status == 200
    yield node
    node.zone.stop()


def server(node: Node, **members: Any) -> str:
    body = {"server": {"name": "web", "flavorRef": "f-1", **members}}
    return str(node.client("ann").post("/servers", body).json["server"]["id"])


def ask(node: Node, method: str, path: str, body: Any = None, user: str = "ann") -> Answer:
    return node.client(user).call(method, f"/servers/{path}", body)


def test_its_name_and_description_change(node: Node) -> None:
    uuid = server(node, description="old", metadata={"a": "1"})

    renamed = ask(node, "PUT", uuid, {"server": {"name": "db"}}).json["server"]
    described = ask(node, "PUT", uuid, {"server": {"description": None}}).json["server"]

    assert (renamed["name"], renamed["description"]) == ("db", "old")
    assert (described["name"], described["description"], described["metadata"]) == ("db", None, {"a": "1"})
    assert ask(node, "GET", uuid).json["server"] == described


def test_a_boot_in_a_list_has_the_name_of_its_first_server_whatever_the_others_are_called(node: Node) -> None:
    first = server(node, min_count=2)
    [second] = [one for one in node.client("ann").get("/servers").json["servers"] if one["id"] != first]

    ask(node, "PUT", second["id"], {"server": {"name": "a"}})

    assert [boot["name"] for boot in node.client("ann").get("/reservations").json["reservations"]] == [
        "web-1"
    ]
    ask(node, "PUT", first, {"server": {"name": "z"}})
    assert [boot["name"] for boot in node.client("ann").get("/reservations").json["reservations"]] == ["z"]


def test_metadata_is_added_replaced_and_removed(node: Node) -> None:
    uuid = server(node, metadata={"a": "1"})

    added = ask(node, "POST", f"{uuid}/metadata", {"metadata": {"b": "2"}})
    one = ask(node, "PUT", f"{uuid}/metadata/a", {"meta": {"a": "9"}})
    removed = ask(node, "DELETE", f"{uuid}/metadata/b")

    assert added.json == {"metadata": {"a": "1", "b": "2"}}
    assert one.json == {"meta": {"a": "9"}}
    assert removed.status == 204
    assert ask(node, "GET", f"{uuid}/metadata").json == {"metadata": {"a": "9"}}
    assert ask(node, "GET", f"{uuid}/metadata/a").json == {"meta": {"a": "9"}}
    assert ask(node, "PUT", f"{uuid}/metadata", {"metadata": {"c": "3"}}).json == {"metadata": {"c": "3"}}
    assert ask(node, "GET", uuid).json["server"]["metadata"] == {"c": "3"}


def test_members_change_the_name_and_tags_of_a_locked_server_and_not_its_metadata(node: Node) -> None:
    # given
    uuid = server(node, metadata={"a": "1"})
    ask(node, "POST", f"{uuid}/action", {"lock": None}, "admin")

    # when
    refused = [
        ask(node, "POST", f"{uuid}/metadata", {"metadata": {"b": "2"}}),
        ask(node, "PUT", f"{uuid}/metadata", {"metadata": {}}),
        ask(node, "PUT", f"{uuid}/metadata/a", {"meta": {"a": "2"}}),
        ask(node, "DELETE", f"{uuid}/metadata/a"),
    ]
    renamed = ask(node, "PUT", uuid, {"server": {"name": "db"}})
    tagged = ask(node, "PUT", f"{uuid}/tags/blue")

    # then
    codes = {(answer.status, answer.json["conflictingRequest"]["error_code"]) for answer in refused}
    assert codes == {(409, "server_locked")}
    assert (renamed.status, tagged.status) == (200, 201)
    assert ask(node, "GET", f"{uuid}/metadata").json == {"metadata": {"a": "1"}}
    by_admin = ask(node, "PUT", f"{uuid}/metadata/a", {"meta": {"a": "2"}}, "admin")
    assert by_admin.status == 200


@pytest.mark.parametrize("name", ["a\u3000b", "a\u00a0b", "\U0001f469\u200d\U0001f4bb", "\ue000"])
def test_every_key_and_tag_that_is_taken_is_found_by_its_url(node: Node, name: str) -> None:
    uuid = server(node, tags=[name], metadata={name: "value"})

    assert ask(node, "GET", f"{uuid}/metadata/{quote(name)}").json == {"meta": {name: "value"}}
    assert ask(node, "DELETE", f"{uuid}/metadata/{quote(name)}").status == 204
    assert ask(node, "DELETE", f"{uuid}/tags/{quote(name)}").status == 204


@pytest.mark.parametrize("tag", ["why?", "#1", "100%", "%2F", "a b", "日本"])
def test_the_location_of_a_new_tag_leads_to_it(node: Node, tag: str) -> None:
    uuid = server(node)

    added = ask(node, "PUT", f"{uuid}/tags/{quote(tag)}")

    path = added.headers["Location"].removeprefix("http://localhost")
    assert (added.status, node.client("ann").get(path).status) == (201, 204)


def test_tags_are_added_replaced_and_removed(node: Node) -> None:
    uuid = server(node, tags=["blue"])

    statuses = [ask(node, "PUT", f"{uuid}/tags/red").status for _ in range(2)]

    assert statuses == [201, 204]
    assert ask(node, "GET", f"{uuid}/tags").json == {"tags": ["blue", "red"]}
    assert [ask(node, "GET", f"{uuid}/tags/{tag}").status for tag in ("red", "none")] == [204, 404]
    assert [ask(node, "DELETE", f"{uuid}/tags/red").status for _ in range(2)] == [204, 404]
    assert ask(node, "PUT", f"{uuid}/tags", {"tags": ["x", "y", "x"]}).json == {"tags": ["x", "y"]}
    assert ask(node, "DELETE", f"{uuid}/tags").status == 204
    assert ask(node, "GET", uuid).json["server"]["tags"] == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "", {"server": {"name": ""}}),
        ("PUT", "", {"server": {"flavorRef": "x"}}),
        ("PUT", "", {"server": {"name": 7}}),
        ("POST", "/metadata", {"metadata": {"a": 1}}),
        ("POST", "/metadata", {"metadata": {f"k{n}": "v" for n in range(128)}}),
        ("PUT", "/metadata/a", {"meta": {"b": "1"}}),
        ("PUT", "/metadata/a", {"meta": {}}),
        ("PUT", "/metadata/a", {"meta": {"a": "1", "b": "2"}}),
        ("PUT", "/tags", {"tags": ["a,b"]}),
        ("PUT", "/tags", {"tags": ["t"] * 51}),
        ("PUT", "/tags/a,b", None),
        ("PUT", "/tags/" + "x" * 61, None),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(node: Node, method: str, path: str, body: Any) -> None:
    uuid = server(node, metadata={"z": "1"}, tags=["t"])
    before = ask(node, "GET", uuid).json

    assert ask(node, method, uuid + path, body).status == 400
    assert ask(node, "GET", uuid).json == before


def test_a_server_has_at_most_50_tags(node: Node) -> None:
    uuid = server(node, tags=[f"t{n}" for n in range(50)])

    assert ask(node, "PUT", f"{uuid}/tags/one-more").status == 400
    assert ask(node, "PUT", f"{uuid}/tags/t0").status == 204


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "", {"server": {"name": "x"}}),
        ("GET", "/metadata", None),
        ("POST", "/metadata", {"metadata": {"a": "1"}}),
        ("DELETE", "/metadata/a", None),
        ("GET", "/tags", None),
        ("PUT", "/tags/red", None),
        ("DELETE", "/tags", None),
        ("GET", "/ips", None),
        ("GET", "/os-interface", None),
        ("GET", "/os-volume_attachments", None),
        ("GET", "/os-security-groups", None),
    ],
)
def test_a_server_of_others_and_a_deleted_one_are_not_found(
    node: Node, method: str, path: str, body: Any
) -> None:
    uuid = server(node)
    assert ask(node, method, uuid + path, body, user="ben").status == 404
    assert ask(node, method, UUID + path, body).status == 404

    ask(node, "DELETE", uuid)

    assert ask(node, method, uuid + path, body).status == 404


def test_a_zone_keeps_no_networks_and_volumes(node: Node) -> None:
    uuid = server(node)

    assert ask(node, "GET", f"{uuid}/ips").json == {"addresses": {}}
    assert ask(node, "GET", f"{uuid}/os-interface").json == {"interfaceAttachments": []}
    assert ask(node, "GET", f"{uuid}/os-volume_attachments").json == {"volumeAttachments": []}


@pytest.mark.parametrize(
    ("server_has", "name"), [({"security_groups": [{"name": "web"}]}, "web"), ({}, "default")]
)
def test_a_security_group_has_all_members_of_novas(node: Node, server_has: Any, name: str) -> None:
    uuid = server(node, **server_has)

    of_owner, of_admin = (
        ask(node, "GET", f"{uuid}/os-security-groups", user=user).json for user in ("ann", "admin")
    )

    group = {"id": name, "name": name, "description": "", "tenant_id": "p1", "rules": []}
    assert of_owner == of_admin == {"security_groups": [group]}


class TestLists:
    def ids(self, node: Node, query: str) -> list[str]:
        reply = node.client("ann").get(f"/servers/detail?{query}")
        assert reply.status == 200, reply.json
        return [found["id"] for found in reply.json["servers"]]

    def test_they_are_filtered_by_flavor(self, node: Node) -> None:
        uuid = server(node)

        assert self.ids(node, "flavor=f-1") == [uuid]
        assert self.ids(node, "flavor=f-2") == []

    def test_changes_since_lists_deleted_ones_too(self, node: Node) -> None:
        uuid = server(node)
        changed_at = ask(node, "GET", uuid).json["server"]["updated"]
        ask(node, "DELETE", uuid)

        assert self.ids(node, f"changes-since={changed_at}") == [uuid]
        assert self.ids(node, "changes-since=2999-01-01T00:00:00") == []
        assert self.ids(node, "changes-since=1970-01-01T00:00:00Z") == [uuid]
        assert self.ids(node, "changes-before=1970-01-01T00:00:00Z") == []
        assert self.ids(node, "") == []
        assert self.ids(node, "deleted=True") == self.ids(node, "status=deleted") == [uuid]

    def test_what_a_zone_does_not_know_is_ignored(self, node: Node) -> None:
        uuid = server(node)
        assert self.ids(node, "unknown=x&tenant_id=p1") == [uuid]

    @pytest.mark.parametrize(
        "query", ["changes-since=yesterday", "status=NONE", "limit=-1", "deleted=perhaps"]
    )
    def test_nonsense_in_a_known_one_is_refused(self, node: Node, query: str) -> None:
        assert node.client("ann").get(f"/servers?{query}").status == 400

    @pytest.mark.parametrize(
        ("limit", "said"), [("-1", "greater than or equal to 0"), ("5000000000000", "less than or equal to")]
    )
    def test_a_number_out_of_range_is_not_said_to_be_no_number(
        self, node: Node, limit: str, said: str
    ) -> None:
        refused = node.client("ann").get(f"/servers?limit={limit}").json["badRequest"]
        assert (refused["error_code"], refused["field"]) == ("out_of_range", "limit")
        assert said in refused["message"]


class TestLocalDisk:
    """OpenStack's clients name the local disk of the image that a server boots from."""

    def boot(self, node: Node, *disks: dict[str, Any], image_ref: str = "i-1") -> Answer:
        node.client().post("/images", {"image": {"id": "i-1", "name": "debian"}})
        form = {"name": "s", "flavorRef": "f-1", "imageRef": image_ref, "block_device_mapping_v2": disks}
        return node.client("ann").post("/servers", {"server": form})

    DISK = {"boot_index": 0, "source_type": "image", "destination_type": "local", "uuid": "i-1"}

    @pytest.mark.parametrize("image_ref", ["i-1", ""])
    def test_it_names_the_image(self, node: Node, image_ref: str) -> None:
        made = self.boot(node, {**self.DISK, "delete_on_termination": True}, image_ref=image_ref)

        uuid = made.json["server"]["id"]
        assert ask(node, "GET", uuid).json["server"]["image"]["id"] == "i-1"

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"destination_type": "moon"}, "0.destination_type"),
            ({"source_type": "blank"}, "0.source_type"),
            ({"source_type": {}}, "0.source_type"),
            ({"boot_index": 1}, "0.boot_index"),
            ({"boot_index": "1"}, "0.boot_index"),
            ({"delete_on_termination": "False"}, "0.delete_on_termination"),
            ({"delete_on_termination": False}, "0.delete_on_termination"),
            ({"volume_size": 3}, "0.volume_size"),
            ({"uuid": "i-2"}, "0.uuid"),
        ],
    )
    def test_other_disks_are_refused_by_name(self, node: Node, change: dict[str, Any], field: str) -> None:
        refused = self.boot(node, {**self.DISK, **change})

        assert refused.status == 400
        assert refused.json["badRequest"]["field"] == f"server.block_device_mapping_v2.{field}"

    @pytest.mark.parametrize(
        ("disks", "reason"),
        [
            ([{**DISK, "destination_type": "volume", "volume_size": 3, "volume_type": "ssd"}], "no volumes"),
            (
                [{"boot_index": 0, "source_type": "volume", "destination_type": "volume", "uuid": "v"}],
                "no volumes",
            ),
            ([{"source_type": "snapshot", "destination_type": "volume", "uuid": "s"}], "no volumes"),
            ([DISK, {"source_type": "blank", "destination_type": "volume", "volume_size": 1}], "no volumes"),
            ([DISK, {"source_type": "blank", "destination_type": "local", "guest_format": "swap"}], "flavor"),
        ],
    )
    def test_volumes_and_more_disks_are_refused_with_the_reason(
        self, node: Node, disks: list[dict[str, Any]], reason: str
    ) -> None:
        refused = self.boot(node, *disks)

        assert refused.status == 400
        assert refused.json["badRequest"]["field"] == "server.block_device_mapping_v2"
        assert reason in refused.json["badRequest"]["message"]

    def test_its_numbers_and_truths_may_be_texts(self, node: Node) -> None:
        assert (
            self.boot(node, {**self.DISK, "boot_index": "0", "delete_on_termination": "True"}).status == 202
        )

    def test_a_second_disk_is_refused(self, node: Node) -> None:
        assert self.boot(node, self.DISK, self.DISK).status == 400
