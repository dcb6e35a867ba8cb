"""Flavors, images and quotas as OpenStack's clients read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.tree import Node, Tree
from zonesched.model.caller import Role
from zonesched.services.catalog import users
from zonesched.store import reservations


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Tree(tmp_path).add("leaf")
    for name, project in (("ann", "p1"), ("ben", "p2")):
        node.secrets[name] = users.create(node.zone.store, node.zone.clock, name, Role.MEMBER, project).secret
    yield node
    node.zone.stop()


def add_flavor(node: Node, id: str, **members: Any) -> None:
    form = {"id": id, "name": f"name-{id}", "vcpus": 1, "ram": 64, "disk": 1, **members}
    assert node.client().post("/flavors", {"flavor": form}).status == 200


def add_image(node: Node, id: str, **members: Any) -> None:
    assert node.client().post("/images", {"image": {"id": id, "name": f"name-{id}", **members}}).status == 201


def ids(node: Node, path: str, user: str = "admin") -> list[str]:
    reply = node.client(user).get(path)
    assert reply.status == 200
    return [found["id"] for found in reply.json["images" if "images" in path else "flavors"]]


class TestFlavors:
    def test_one_that_is_not_public_is_seen_and_used_by_its_projects(self, node: Node) -> None:
        add_flavor(node, "open")
        add_flavor(node, "own", **{"os-flavor-access:is_public": False})

        granted = node.client().post("/flavors/own/action", {"addTenantAccess": {"tenant": "p1"}})

        assert granted.json == {"flavor_access": [{"flavor_id": "own", "tenant_id": "p1"}]}
        assert ids(node, "/flavors", "ann") == ["open", "own"]
        assert ids(node, "/flavors", "ben") == ["open"]
        assert node.client("ben").get("/flavors/own").status == 404
        assert node.client("ben").get("/flavors/own/os-extra_specs").status == 404
        boot = {"server": {"name": "s", "flavorRef": "own"}}
        refused = node.client("ben").post("/servers", boot)
        assert (refused.status, refused.json["badRequest"]["error_code"]) == (400, "flavor_unknown")
        assert node.client("ann").post("/servers", boot).status == 202

    def test_a_project_loses_its_access(self, node: Node) -> None:
        add_flavor(node, "own", **{"os-flavor-access:is_public": False})
        admin = node.client()
        admin.post("/flavors/own/action", {"addTenantAccess": {"tenant": "p1"}})

        assert admin.post("/flavors/own/action", {"addTenantAccess": {"tenant": "p1"}}).status == 409
        assert admin.post("/flavors/own/action", {"removeTenantAccess": {"tenant": "p2"}}).status == 404
        taken = admin.post("/flavors/own/action", {"removeTenantAccess": {"tenant": "p1"}})

        assert taken.json == {"flavor_access": []}
        assert ids(node, "/flavors", "ann") == []

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"addTenantAccess": {"tenant": "p"}, "removeTenantAccess": {"tenant": "p"}},
            {"addTenantAccess": {}},
            {"other": {"tenant": "p"}},
        ],
    )
    def test_an_action_is_one_of_two(self, node: Node, body: Any) -> None:
        add_flavor(node, "own", **{"os-flavor-access:is_public": False})
        assert node.client().post("/flavors/own/action", body).status == 400

    def test_a_public_one_has_no_list_of_projects(self, node: Node) -> None:
        add_flavor(node, "open")
        reply = node.client().get("/flavors/open/os-flavor-access")
        assert (reply.status, reply.json["itemNotFound"]["error_code"]) == (404, "flavor_is_public")

    def test_every_project_may_use_a_public_one_already(self, node: Node) -> None:
        add_flavor(node, "open")
        reply = node.client().post("/flavors/open/action", {"addTenantAccess": {"tenant": "p"}})
        assert (reply.status, reply.json["conflictingRequest"]["error_code"]) == (409, "flavor_access_exists")

    def test_an_admin_lists_public_ones_others_or_all(self, node: Node) -> None:
        add_flavor(node, "open")
        add_flavor(node, "own", **{"os-flavor-access:is_public": False})

        asked = {value: ids(node, f"/flavors?is_public={value}") for value in ("True", "False", "None")}

        assert asked == {"True": ["open"], "False": ["own"], "None": ["open", "own"]}
        assert ids(node, "/flavors?is_public=None", "ben") == ["open"]
        assert node.client().get("/flavors?is_public=perhaps").status == 400

    def test_an_admin_lists_those_of_the_own_project_with_the_public_ones(self, node: Node) -> None:
        boss = users.create(node.zone.store, node.zone.clock, "boss", Role.ADMIN, "p3")
        node.secrets["boss"] = boss.secret
        add_flavor(node, "open")
        for id, tenant in (("own", "p3"), ("others", "p4")):
            add_flavor(node, id, **{"os-flavor-access:is_public": False})
            node.client().post(f"/flavors/{id}/action", {"addTenantAccess": {"tenant": tenant}})

        yes, no = ("True", "1", "t", "yes", "ON"), ("False", "0", "f", "no", "OFF")
        asked = [ids(node, f"/flavors?is_public={value}", "boss") for value in (*yes, *no)]

        assert ids(node, "/flavors", "boss") == ["open", "own"]
        assert asked == [["open", "own"]] * len(yes) + [["others", "own"]] * len(no)

    def test_a_list_is_filtered_sorted_and_paged(self, node: Node) -> None:
        for id, ram, disk, factor in (("a", 64, 9, 2), ("b", 128, 1, 0.5), ("c", 256, 5, 1)):
            add_flavor(node, id, ram=ram, disk=disk, rxtx_factor=factor)

        assert ids(node, "/flavors/detail?minRam=128") == ["b", "c"]
        assert ids(node, "/flavors/detail?minDisk=5&unknown=ignored") == ["a", "c"]
        assert ids(node, "/flavors?sort_key=memory_mb&sort_dir=desc") == ["c", "b", "a"]
        assert ids(node, "/flavors?sort_key=rxtx_factor") == ["b", "c", "a"]
        assert ids(node, "/flavors?limit=2") == ["a", "b"]
        assert ids(node, "/flavors?limit=2&marker=b") == ["c"]
        assert node.client().get("/flavors?limit=0").json == {"flavors": []}
        page = node.client().get("/flavors?limit=2").json
        assert page["flavors_links"][0]["href"].endswith("marker=b")
        for wrong in ("marker=z", "limit=-1", "sort_key=colour", "sort_dir=up", "minRam=x"):
            assert node.client().get(f"/flavors?{wrong}").status == 400, wrong

    def test_values_may_be_spelled_as_nova_takes_them(self, node: Node) -> None:
        spelled = {
            "id": 7,
            "vcpus": "2",
            "ram": "64",
            "disk": "3",
            "swap": "512",
            "OS-FLV-EXT-DATA:ephemeral": "1",
            "rxtx_factor": "1.5",
            "os-flavor-access:is_public": "True",
        }
        form = {"name": "spelled", **spelled, "extra_specs": {"resources:CUSTOM_A": 2}}

        made = node.client().post("/flavors", {"flavor": form})
        some = node.client().post("/flavors/7/os-extra_specs", {"extra_specs": {"quota:x": 5000, "y": 0.5}})
        one = node.client().call("PUT", "/flavors/7/os-extra_specs/quota:x", {"quota:x": 6000})

        assert made.status == 200, made.body
        assert some.json == {"extra_specs": {"quota:x": "5000", "y": "0.5"}}
        assert one.json == {"quota:x": "6000"}
        flavor = node.client().get("/flavors/7").json["flavor"]
        sizes = ("id", "vcpus", "ram", "disk", "swap", "OS-FLV-EXT-DATA:ephemeral", "rxtx_factor")
        assert [flavor[name] for name in sizes] == ["7", 2, 64, 3, 512, 1, 1.5]
        assert flavor["os-flavor-access:is_public"] is True
        assert flavor["extra_specs"] == {"resources:CUSTOM_A": "2", "quota:x": "6000", "y": "0.5"}

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("vcpus", "two"),
            ("vcpus", 1.5),
            ("ram", True),
            ("ram", ""),
            ("id", True),
            ("rxtx_factor", 0),
            ("rxtx_factor", 1e39),
            ("rxtx_factor", "1e0"),
            ("os-flavor-access:is_public", "perhaps"),
            ("extra_specs", {"a": True}),
            ("extra_specs", {"a": None}),
            ("extra_specs", {"resources:CUSTOM_A": 1.5}),
        ],
    )
    def test_values_without_a_meaning_are_refused(self, node: Node, name: str, value: Any) -> None:
        form = {"name": "f", "vcpus": 1, "ram": 64, "disk": 1, name: value}

        refused = node.client().post("/flavors", {"flavor": form})

        assert refused.status == 400
        assert refused.json["badRequest"]["field"].startswith(f"flavor.{name}")

    def test_all_of_its_disks_count(self, node: Node) -> None:
        add_flavor(node, "f", disk=10, swap=1500, **{"OS-FLV-EXT-DATA:ephemeral": 5})

        flavor = node.client().get("/flavors/f").json["flavor"]
        assert (flavor["disk"], flavor["OS-FLV-EXT-DATA:ephemeral"], flavor["swap"]) == (10, 5, 1500)
        node.client().post("/servers", {"server": {"name": "s", "flavorRef": "f"}})
        [reservation] = node.client().get("/reservations").json["reservations"]
        found = node.zone.store.read(lambda tx: reservations.read_ids(tx, [reservation["id"]]))
        [spec] = [row.spec for row in found.values()]
        assert spec.resources["DISK_GB"] == 10 + 5 + 2

    def test_its_description_changes(self, node: Node) -> None:
        add_flavor(node, "f", description="old")

        reply = node.client().call("PUT", "/flavors/f", {"flavor": {"description": "new"}})

        assert reply.json["flavor"]["description"] == "new"
        assert node.client().get("/flavors/f").json["flavor"]["description"] == "new"
        assert node.client().call("PUT", "/flavors/f", {"flavor": {"ram": 1}}).status == 400
        assert node.client().call("PUT", "/flavors/z", {"flavor": {"description": ""}}).status == 404

    def test_one_extra_spec_is_set_by_its_url(self, node: Node) -> None:
        add_flavor(node, "f", extra_specs={"a": "1"})
        put = node.client().call

        assert put("PUT", "/flavors/f/os-extra_specs/b", {"b": "2"}).json == {"b": "2"}
        assert node.client().get("/flavors/f/os-extra_specs").json == {"extra_specs": {"a": "1", "b": "2"}}
        for wrong in ({"c": "2"}, {"b": "2", "c": "3"}, {}, {"b": None}):
            assert put("PUT", "/flavors/f/os-extra_specs/b", wrong).status == 400
        assert put("PUT", "/flavors/f/os-extra_specs/trait:X", {"trait:X": "maybe"}).status == 400


class TestImages:
    def test_they_are_found_by_name_and_id_in_the_image_api(self, node: Node) -> None:
        add_image(node, "i-1", properties={"os_type": "linux"}, min_disk=3, min_ram=64)
        add_image(node, "i-2", properties={"os_type": "windows"})
        path = "/image/v2/images"

        assert ids(node, path, "ann") == ["i-1", "i-2"]
        assert ids(node, f"{path}?name=name-i-1") == ["i-1"]
        assert ids(node, f"{path}?id=in:i-2,i-9") == ["i-2"]
        assert ids(node, f"{path}?name=in:name-i-1,name-i-2&limit=1&marker=i-1") == ["i-2"]
        assert ids(node, f"{path}?os_type=windows&sort=name:asc") == ["i-2"]
        assert ids(node, f"{path}?status=queued") == []
        assert node.client().get(f"{path}?limit=1").json["next"] == "/v2/images?limit=1&marker=i-1"
        assert node.client().get(f"{path}?marker=none").status == 400
        assert ids(node, "/v2.1/v2/images", "ann") == ["i-1", "i-2"]

    def test_one_is_shown_with_its_properties_flat(self, node: Node) -> None:
        add_image(node, "i-1", properties={"os_type": "linux", "status": "own"}, min_disk=3, min_ram=64)

        image = node.client("ann").get("/image/v2/images/i-1").json

        assert (image["os_type"], image["status"], image["min_disk"], image["min_ram"]) == (
            "linux",
            "active",
            3,
            64,
        )
        assert image["created_at"] == image["updated_at"]
        assert node.client("ann").get("/image/v2/images/i-9").status == 404

    def test_the_image_api_is_to_read(self, node: Node) -> None:
        for method, path in (("POST", ""), ("DELETE", "/i-1"), ("PATCH", "/i-1")):
            assert node.client().call(method, f"/image/v2/images{path}", {}).status == 405
        versions = node.client("").get("/image").json["versions"]
        assert versions[0]["links"][0]["href"] == "http://localhost/image/v2/"
        assert node.client("").get("/image/v2").json["version"]["status"] == "CURRENT"

    @pytest.mark.parametrize("needs", [{"min_ram": 65}, {"min_disk": 2}])
    def test_a_flavor_that_is_too_small_for_one_is_refused(self, node: Node, needs: dict[str, int]) -> None:
        add_flavor(node, "f")
        add_image(node, "i-1", **needs)

        reply = node.client().post("/servers", {"server": {"name": "s", "flavorRef": "f", "imageRef": "i-1"}})

        assert (reply.status, reply.json["badRequest"]["error_code"]) == (400, "flavor_too_small")


class TestQuotas:
    def test_the_quota_of_instances_is_set_and_reset(self, node: Node) -> None:
        admin = node.client()

        changed = admin.call("PUT", "/os-quota-sets/p1", {"quota_set": {"instances": 7, "cores": -1}})

        assert changed.json["quota_set"]["instances"] == 7
        assert node.client("ann").get("/os-quota-sets/p1").json["quota_set"]["instances"] == 7
        limits = node.client("ann").get("/limits?reserved=False").json["limits"]
        assert limits["absolute"]["project_instances"] == 7
        assert admin.delete("/os-quota-sets/p1").status == 202
        unset = admin.get("/os-quota-sets/p1/defaults").json["quota_set"]
        assert admin.get("/os-quota-sets/p1").json["quota_set"] == unset
        assert admin.get("/os-quota-class-sets/default").json["quota_class_set"]["cores"] == -1

    @pytest.mark.parametrize("asked", [-1, "-1", 2**31 - 1])
    def test_a_project_may_have_no_limit(self, node: Node, asked: int | str) -> None:
        admin = node.client()

        changed = admin.call("PUT", "/os-quota-sets/p1", {"quota_set": {"instances": asked, "force": "True"}})
        detail = admin.get("/os-quota-sets/p1/detail").json["quota_set"]
        absolute = node.client("ann").get("/limits").json["limits"]["absolute"]

        assert changed.json["quota_set"]["instances"] == -1
        assert detail["instances"]["limit"] == -1
        assert (absolute["maxTotalInstances"], absolute["project_instances"]) == (-1, 2**31 - 1)

    def test_a_quota_of_one_user_changes_nothing(self, node: Node) -> None:
        admin = node.client()
        admin.call("PUT", "/os-quota-sets/p1", {"quota_set": {"instances": 7}})

        changed = admin.call("PUT", "/os-quota-sets/p1?user_id=ann", {"quota_set": {"instances": 1}})
        reset = admin.delete("/os-quota-sets/p1?user_id=ann")

        assert [one.json["badRequest"]["field"] for one in (changed, reset)] == ["user_id", "user_id"]
        assert admin.get("/os-quota-sets/p1?user_id=ann").json["quota_set"]["instances"] == 7

    @pytest.mark.parametrize("minor", [1, 98])
    def test_quotas_of_older_versions_are_taken_as_they_are(self, node: Node, minor: int) -> None:
        headers = {"OpenStack-API-Version": f"compute 2.{minor}"}
        old = node.client().get("/os-quota-sets/p1").json["quota_set"]
        old = {**old, "floating_ips": "-1", "security_groups": -1, "injected_files": 0}
        del old["id"]

        same = node.client().call("PUT", "/os-quota-sets/p1", {"quota_set": old}, headers=headers)
        other = node.client().call("PUT", "/os-quota-sets/p1", {"quota_set": {"injected_files": 5}})

        assert (same.status, other.status) == (200, 400)
        assert other.json["badRequest"]["field"] == "quota_set.injected_files"

    @pytest.mark.parametrize("name", ["cores", "ram", "key_pairs", "server_groups"])
    def test_a_quota_that_a_zone_does_not_have_is_refused(self, node: Node, name: str) -> None:
        reply = node.client().call("PUT", "/os-quota-sets/p1", {"quota_set": {"instances": 7, name: 5}})

        assert (reply.status, reply.json["badRequest"]["field"]) == (400, f"quota_set.{name}")
        assert node.client().get("/os-quota-sets/p1").json["quota_set"]["instances"] != 7

    def test_a_member_reads_their_own(self, node: Node) -> None:
        assert node.client("ann").get("/os-quota-sets/p2").status == 404
        assert node.client("ann").call("PUT", "/os-quota-sets/p1", {"quota_set": {}}).status == 403


def test_extensions_are_listed(node: Node) -> None:
    listed = node.client("ann").get("/extensions").json["extensions"]
    alias = listed[0]["alias"]
    assert node.client("ann").get(f"/extensions/{alias}").json == {"extension": listed[0]}
    assert node.client("ann").get("/extensions/none").status == 404
