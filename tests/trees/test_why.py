"""Why a boot went where it went: what each reader is told, zone by zone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.scenes import built_once
from tests.builders.tree import Answer, Node, Tree, a_host
from tests.builders.wsgi_transport import Dead, Slow
from zonesched.services.catalog import users

pytestmark = pytest.mark.once

FAST: dict[str, Any] = {"traits": ["CUSTOM_FAST"]}


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    """root (2 hosts) -> region (2), slow (1), plain (1, without the trait); flavors at the root."""
    tree = Tree(tmp_path)
    root = tree.add("root", hosts_=[a_host("r1", **FAST), a_host("r2", ram_mb=1024, **FAST)])
    tree.add("region", parent="root", hosts_=[a_host("g1", vcpus=4, **FAST), a_host("g2")])
    tree.add("slow", parent="root", hosts_=[a_host("s1", **FAST)])
    tree.add("plain", parent="root", hosts_=[a_host("p1")])
    tree.poll(2)
    specs = {"trait:CUSTOM_FAST": "required"}
    for name, ram, extra in (("fast", 2048, specs), ("small", 512, {})):
        flavor = {"name": name, "id": name, "vcpus": 1, "ram": ram, "disk": 1}
        root.client().post("/flavors", {"flavor": flavor})
        if extra:
            root.client().post(f"/flavors/{name}/os-extra_specs", {"extra_specs": extra})
    return tree


def boot(node: Node, flavor: str = "fast", count: int = 1, **server: Any) -> str:
    form = {"name": "vm", "flavorRef": flavor, "num_instances": count, **server}
    answer = node.client("member").post("/zones/boot", {"server": form})
    assert answer.status == 202
    reservation_id: str = answer.json["reservation_id"]
    return reservation_id


def read(node: Node, reservation_id: str, who: str = "admin") -> Any:
    return node.client(who).get(f"/reservations/{reservation_id}").json["reservation"]


def lines(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(line.values()) for line in found]


def test_the_operator_sees_its_own_funnel_and_each_child_by_itself(tree: Tree) -> None:
    tree.network.fault(tree.nodes["slow"].url, Slow(delay_s=60.0, path="/select"))
    root = tree.nodes["root"]
    reservation_id = boot(root, count=100)
    tree.settle(1)

    why = read(root, reservation_id)["why"]

    own = why["own"]
    assert own["steps"][0]["before"] == 2
    assert ("RamFilter", "not_enough_ram", 2, 1) in lines(own["steps"])
    assert own["steps"][-1]["after"] == 1
    assert own["offered"] == 16
    assert lines(own["runs_out"]) == [("MEMORY_MB", "not_enough_ram", 1, 0)]
    assert [(host["host"], len(host["scores"]) > 0) for host in own["best"]] == [("r1", True)]
    region, slow, plain = why["children"]
    assert (region["name"], region["outcome"], region["code"], region["offered"]) == (
        "region",
        "answered",
        "",
        4,
    )
    assert region["why"] == [{"filter": "TraitsFilter", "code": "traits_not_met"}]
    assert region["runs_out"] == [{"filter": "VCPU", "code": "not_enough_vcpus"}]
    assert (slow["outcome"], slow["code"], slow["offered"]) == ("unreachable", "child_timeout", 0)
    assert (plain["outcome"], plain["code"]) == ("ineligible", "traits_not_met")


@pytest.mark.parametrize("name", ["region", "slow"])
def test_a_child_that_is_away_was_not_asked_and_says_why(tree: Tree, name: str) -> None:
    tree.network.fault(tree.nodes[name].url, Dead())
    tree.poll(3)
    root = tree.nodes["root"]
    reservation_id = boot(root)
    tree.settle(1)

    child = next(c for c in read(root, reservation_id)["why"]["children"] if c["name"] == name)

    assert (child["outcome"], child["code"]) == ("not_ready", "child_unreachable")


def test_a_child_without_word_from_below_is_incomplete(tree: Tree) -> None:
    tree.add("leaf", parent="region", hosts_=[a_host("l1", **FAST)])
    root = tree.nodes["root"]
    reservation_id = boot(root)
    tree.settle(1)

    region = read(root, reservation_id)["why"]["children"][0]

    assert (region["name"], region["outcome"]) == ("region", "incomplete")


def test_the_tenant_reads_reasons_and_never_a_host_a_child_or_a_count(tree: Tree) -> None:
    root = tree.nodes["root"]
    reservation_id = boot(root, count=100)
    tree.settle(1)

    found = read(root, reservation_id, "member")
    server = root.client("member").get(f"/servers/{found['instances'][0]['uuid']}")

    assert "why" not in found
    expected = {"not_enough_ram", "not_enough_vcpus", "traits_not_met"}
    assert set(found["reasons"][0].pop("refused_by")) == expected
    assert found["reasons"] == [{"code": "no_valid_host", "count": 100}]
    fault = server.json["server"]["fault"]
    assert fault["error_code"] == "no_valid_host"
    assert all(code in fault["message"] for code in expected)
    for name in ("r1", "r2", "g1", "region", "slow", "plain"):
        assert name not in fault["message"]
        assert name not in str(found)


def test_a_request_that_fits_nowhere_names_what_is_fixed(tree: Tree) -> None:
    root = tree.nodes["root"]
    reservation_id = boot(root, "small", availability_zone="az9")
    tree.settle(1)

    found = read(root, reservation_id)

    assert found["reasons"][0]["refused_by"] == ["wrong_availability_zone"]
    outcomes = {(child["outcome"], child["code"]) for child in found["why"]["children"]}
    assert outcomes == {("ineligible", "wrong_availability_zone")}


def test_what_a_child_decided_for_its_parent_is_the_parents(tree: Tree) -> None:
    root, region = tree.nodes["root"], tree.nodes["region"]
    reservation_id = boot(root, count=20)
    tree.settle(1)

    theirs = read(region, reservation_id)
    of_parent = region.client("parent-root").get(f"/reservations/{reservation_id}").json["reservation"]

    assert theirs["why"]["own"]["steps"] == theirs["why"]["children"] == []
    assert "why" not in of_parent


# -- one host ----------------------------------------------------------------------------------------------


def why_host(node: Node, reservation_id: str, host: str, who: str = "admin") -> Answer:
    return node.client(who).get(f"/reservations/{reservation_id}/why?host={host}")


def test_the_operator_asks_what_every_filter_says_of_one_host(tree: Tree) -> None:
    root = tree.nodes["root"]
    reservation_id = boot(root)
    tree.settle(1)

    small = why_host(root, reservation_id, "r2").json["host"]
    by_id = why_host(root, reservation_id, small["id"]).json["host"]

    assert by_id == small
    refusing = [line["code"] for line in small["filters"] if not line["passes"]]
    assert refusing == ["not_enough_ram", "no_free_slots"]
    assert (small["passes"], isinstance(small["weight"], int)) == (False, True)
    large = why_host(root, reservation_id, "r1").json["host"]
    assert large["passes"] is True
    assert {"RAMWeigher", "CPUWeigher"} <= {part["weigher"] for part in large["scores"]}


def test_a_child_is_asked_about_its_own_hosts_also_for_its_parents_boots(tree: Tree) -> None:
    root, region = tree.nodes["root"], tree.nodes["region"]
    reservation_id = boot(root, count=20)
    tree.settle(1)

    said = why_host(region, reservation_id, "g2").json["host"]

    assert [line["code"] for line in said["filters"] if not line["passes"]] == ["traits_not_met"]
    assert why_host(root, reservation_id, "g2").status == 404


@pytest.mark.parametrize(
    ("who", "path", "status", "code"),
    [
        ("admin", "?host=nobody", 404, "host_not_found"),
        ("admin", "", 400, "missing_field"),
        ("member", "?host=r1", 403, "role_forbidden"),
        ("reader", "?host=r1", 403, "role_forbidden"),
    ],
)
def test_other_questions_are_refused(tree: Tree, who: str, path: str, status: int, code: str) -> None:
    root = tree.nodes["root"]
    reservation_id = boot(root)

    answer = root.client(who).get(f"/reservations/{reservation_id}/why{path}")

    assert answer.status == status
    (fault,) = answer.json.values()
    assert fault["error_code"] == code
    assert why_host(root, "no-such-boot", "r1").json["itemNotFound"]["error_code"] == "reservation_not_found"


# -- how much a parent is told -----------------------------------------------------------------------------


def told_to_root(tree: Tree) -> Any:
    root = tree.nodes["root"]
    reservation_id = boot(root, count=100)
    tree.settle(1)
    return next(c for c in read(root, reservation_id)["why"]["children"] if c["name"] == "region")


@pytest.mark.parametrize(
    ("how_much", "why", "limits"),
    [
        ("none", [], []),
        ("reasons", [("TraitsFilter", "traits_not_met")], [("VCPU", "not_enough_vcpus")]),
        ("default", [("TraitsFilter", "traits_not_met")], [("VCPU", "not_enough_vcpus")]),
        ("counts", [("TraitsFilter", "traits_not_met", 2, 1)], [("VCPU", "not_enough_vcpus", 1, 0)]),
    ],
)
def test_each_parent_is_told_as_much_as_is_set_for_it(
    tree: Tree, how_much: str, why: Any, limits: Any
) -> None:
    admin = tree.nodes["region"].client()

    answer = admin.call("PUT", "/users/parent-root", {"user": {"explain_to_parent": how_much}})
    child = told_to_root(tree)

    assert answer.json["user"]["explain_to_parent"] == how_much
    refusing = [line for line in lines(child["why"]) if len(line) == 2 or line[2] > line[3]]
    assert (refusing, lines(child["runs_out"])) == (why, limits)


def test_another_parent_is_told_as_the_zone_says(tree: Tree) -> None:
    region = tree.nodes["region"]
    made = region.client().post(
        "/users", {"user": {"name": "parent-2", "role": "parent", "explain_to_parent": "none"}}
    )

    assert made.json["user"]["explain_to_parent"] == "none"
    listed = {user["name"]: user for user in region.client().get("/users").json["users"]}
    assert listed["parent-root"]["explain_to_parent"] == "default"
    assert "explain_to_parent" not in listed["admin"]
    assert told_to_root(tree)["why"] != []


@pytest.mark.parametrize(("count", "offered", "runs_out"), [(14, 14, False), (30, 20, True)])
def test_what_runs_out_in_a_child_is_told_if_its_zones_together_offer_too_little(
    tree: Tree, count: int, offered: int, runs_out: bool
) -> None:
    # given: region has room for 4, and the zone below it for 16
    tree.add("leaf", parent="region", hosts_=[a_host("l1", **FAST)])
    tree.poll(3)
    root = tree.nodes["root"]
    server = {"name": "vm", "flavorRef": "fast", "num_instances": count}

    said = root.client().post("/zones/boot", {"server": server, "dry_run": True}).json["dry_run"]

    region = next(child for child in said["why"]["children"] if child["name"] == "region")
    assert (region["offered"], region["runs_out"] != []) == (offered, runs_out)


@pytest.mark.parametrize(
    ("user", "change", "code"),
    [
        ("parent-root", {"explain_to_parent": "all"}, "invalid_value"),
        ("parent-root", {"explain_to_parent": "none", "new_secret": True}, "missing_field"),
        ("parent-root", {}, "missing_field"),
        ("member", {"explain_to_parent": "counts"}, "no_parent"),
    ],
)
def test_a_change_that_is_none_is_refused_and_changes_nothing(
    tree: Tree, user: str, change: dict[str, Any], code: str
) -> None:
    admin = tree.nodes["region"].client()
    before = admin.get("/users").json

    answer = admin.call("PUT", f"/users/{user}", {"user": change})

    assert answer.status == 400
    assert answer.json["badRequest"]["error_code"] == code
    assert admin.get("/users").json == before


def test_only_a_parent_is_made_with_explanations(tree: Tree) -> None:
    form = {"name": "ann", "role": "member", "project_id": "p", "explain_to_parent": "none"}

    answer = tree.nodes["region"].client().post("/users", {"user": form})

    assert answer.json["badRequest"]["error_code"] == "no_parent"
    assert "ann" not in [user.name for user in users.list_users(tree.nodes["region"].zone.store)]
