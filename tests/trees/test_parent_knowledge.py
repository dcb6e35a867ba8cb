"""Knowledge that a determined parent gets by selects, and their number: the table of docs/security.md."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.builders.one_zone import sql
from tests.builders.scenes import built_once
from tests.builders.tree import Node, Tree, a_host
from zonesched.model.caller import Role
from zonesched.model.request_spec import Flavor, Image, Policy, RequestSpec
from zonesched.model.request_wire import spec_to_wire
from zonesched.services.catalog import users

RAM = {"name": "score", "scales": [{"weigher": "RAMWeigher", "low": 0.0, "high": 9000.0, "multiplier": 1.0}]}
GROUP = "a9b0c0de-0000-4000-8000-000000000001"
RACK = "capabilities:rack"
PARENT = "10101010-1010-4010-8010-101010101010"


class Curious:
    """A parent that counts its selects."""

    def __init__(self, tree: Tree, user: str) -> None:
        self.selects = 0
        self._client = tree.nodes["leaf"].client(user)

    def ask(self, count: int = 1, ram: int = 1, extra: dict[str, str] | None = None, **changes: Any) -> Any:
        """The answer to a select for instances of one VCPU."""
        self.selects += 1
        flavor = Flavor(changes.pop("flavor_id", "f"), "f", 1, ram, 1, extra or {})
        policy = changes.pop("policy", Policy.EACH)
        spec = RequestSpec(f"r{self.selects}", "p1", count, flavor, Image("", ""), policy=policy)
        path = {"path": [PARENT], "weighing": RAM}
        body = {"version": 1, "request_spec": {**spec_to_wire(spec), **path, **changes}}
        answer = self._client.post("/zones/select", body)
        assert answer.status == 200, answer.body
        return answer.json

    def fits(self, **asked: Any) -> bool:
        return bool(self.ask(**asked)["weights"])


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    """A zone with two parents, three hosts, and an instance of its own on each."""
    tree = Tree(tmp_path)
    tree.add("root")
    rack: dict[str, Any] = {"capabilities": {"rack": "B-7 east", "slots": 300}}
    leaf = tree.add("leaf", parent="root", hosts_=[a_host(f"l{n}", ram_mb=32768, **rack) for n in range(3)])
    leaf.secrets["other"] = users.create(leaf.zone.store, leaf.zone.clock, "other", Role.PARENT, "-").secret
    leaf.client().post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 500, "disk": 1}})
    leaf.client("member").post(
        "/zones/boot", {"server": {"name": "vm", "flavorRef": "small", "num_instances": 3}}
    )
    tree.settle()
    return tree


def own_instances(tree: Tree) -> list[str]:
    listed = tree.nodes["leaf"].client().get("/servers?all_tenants=1").json["servers"]
    return [server["id"] for server in listed]


def test_hints_say_nothing_of_instances_of_other_callers(tree: Tree) -> None:
    theirs = own_instances(tree)
    assert len(theirs) == 3
    curious = Curious(tree, "other")
    for uuids in (theirs, theirs[:1]):
        assert not curious.fits(hints={"same_host": uuids})
        assert len(curious.ask(9, hints={"different_host": uuids})["weights"]) == 9
    # Nothing tells them from instances that do not exist.
    nobodys = ["00000000-0000-4000-8000-00000000dead"]
    answers = [curious.ask(hints={"same_host": uuids}) for uuids in (theirs, nobodys)]
    assert answers[0]["why"] == answers[1]["why"]


def test_free_ram_of_the_best_host_takes_as_many_selects_as_its_number_has_bits(tree: Tree) -> None:
    curious = Curious(tree, "other")
    low, high = 0, 32768
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if curious.fits(ram=middle) else (low, middle - 1)
    assert low == 32768 - 500
    assert curious.selects <= math.ceil(math.log2(32768)) + 1


def test_a_number_among_the_capabilities_takes_as_many_selects_as_it_has_bits(tree: Tree) -> None:
    curious, (low, high) = Curious(tree, "other"), (0, 1023)
    while low < high:
        middle = (low + high + 1) // 2
        is_more = curious.fits(extra={"capabilities:slots": f">= {middle}"})
        low, high = (middle, high) if is_more else (low, middle - 1)
    assert low == 300
    assert curious.selects == 10


def test_the_number_of_hosts_takes_one_select(tree: Tree) -> None:
    curious = Curious(tree, "other")
    group = {"name": "anti-affinity", "id": GROUP, "max_server_per_host": 1}
    assert len(curious.ask(50, group=group)["weights"]) == 3
    assert curious.selects == 1


@pytest.mark.parametrize(("weigher", "raw"), [("NumInstancesWeigher", 1), ("RAMWeigher", 32268)])
def test_a_raw_value_of_the_best_host_takes_one_select(tree: Tree, weigher: str, raw: int) -> None:
    curious = Curious(tree, "other")
    scale = {"weigher": weigher, "low": 0.0, "high": 2.0**20, "multiplier": 1.0}
    [entry] = curious.ask(weighing={"name": "score", "scales": [scale]})["weights"]
    assert round((4 * 10**15 - entry["weight"]) / 10**9 * 2**20) == raw
    assert curious.selects == 1


@pytest.mark.parametrize("path", [[PARENT], []])
@pytest.mark.parametrize("demand", ["s>= A", "s> A", "s<= C", "s< C", "<in> B", "<in> eas", "<all-in> B e"])
def test_no_text_is_read_letter_by_letter(tree: Tree, demand: str, path: list[str]) -> None:
    curious = Curious(tree, "other")
    assert not curious.fits(extra={RACK: demand}, path=path)
    # The zone's own users read as Nova's documents say.
    leaf = tree.nodes["leaf"]
    leaf.client().post("/flavors", {"flavor": {"name": "own", "vcpus": 1, "ram": 1, "disk": 1, "id": "own"}})
    leaf.client().post("/flavors/own/os-extra_specs", {"extra_specs": {RACK: demand}})
    assert room_of(leaf, "own") == 9


def room_of(node: Node, flavor: str) -> int:
    """The number of instances of 9 that fit, by a dry run of a member."""
    body = {"server": {"name": "vm", "flavorRef": flavor, "num_instances": 9}, "dry_run": True}
    return int(node.client("member").post("/zones/boot", body).json["dry_run"]["fits"])


def test_a_whole_word_of_a_text_takes_one_select_to_confirm(tree: Tree) -> None:
    curious = Curious(tree, "other")
    assert curious.fits(extra={RACK: "<in> east"})
    assert not curious.fits(extra={RACK: "<in> west"})
    assert curious.selects == 2


def test_one_select_asks_for_255_values_of_a_capability(tree: Tree) -> None:
    curious = Curious(tree, "other")
    guesses = [f"B-{n} east" for n in range(253)]
    query = orjson.dumps(["in", "$capabilities.rack", *guesses]).decode()
    assert curious.fits(filter_query=query, filters=["JsonFilter"])
    assert curious.selects == 1


@pytest.mark.parametrize("path", [[PARENT], []])
def test_type_affinity_says_nothing_of_instances_of_other_callers(tree: Tree, path: list[str]) -> None:
    leaf, curious = tree.nodes["leaf"], Curious(tree, "other")
    [[theirs]] = sql(leaf.zone, "SELECT DISTINCT flavor_id FROM instances")
    asked = {"filters": ["TypeAffinityFilter"], "path": path, "flavor_id": theirs}
    # One on each of three hosts, as if nobody had any there.
    assert len(curious.ask(9, **asked)["weights"]) == 3


def test_whether_two_own_instances_share_a_host_takes_one_select(tree: Tree) -> None:
    # given: instances of the root, on hosts of the leaf
    root, leaf = tree.nodes["root"], tree.nodes["leaf"]
    tree.poll(2)
    root.client().post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 500, "disk": 1}})
    body = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 4}}
    assert root.client("member").post("/zones/boot", body).status == 202
    tree.settle()
    own = "SELECT p.uuid, p.host_id, i.project_id FROM placements p JOIN instances i ON i.uuid = p.uuid"
    placed = sql(leaf.zone, f"{own} WHERE i.caller_id != :own", own=leaf.zone.uuid)
    assert len(placed) == 4 and len({host for _, host, _ in placed}) == 3

    for (one, here, project), (other, there, _) in itertools.combinations(placed, 2):
        curious = Curious(tree, "parent-root")
        fits = curious.fits(hints={"same_host": [one], "different_host": [other]}, project_id=project)
        assert curious.selects == 1
        assert fits is (here != there)


def test_the_same_request_again_shows_each_host_under_the_same_number(tree: Tree) -> None:
    # given: a request of one instance on each host
    group = {"name": "anti-affinity", "id": GROUP, "max_server_per_host": 1}
    curious = Curious(tree, "other")

    def weight_by_tie(**changes: Any) -> dict[int, int]:
        entries = curious.ask(9, request_id="again", group=group, **changes)["weights"]
        return {entry["tie"]: entry["weight"] for entry in entries}

    before = weight_by_tie()
    assert len(before) == 3
    # when: another caller boots on one of them
    body = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 1}}
    assert tree.nodes["leaf"].client("member").post("/zones/boot", body).status == 202
    tree.settle()
    # then
    after = weight_by_tie()
    assert after.keys() == before.keys()
    assert sum(after[tie] != before[tie] for tie in before) == 1
    # Another request has other numbers for the same hosts.
    assert weight_by_tie(ram=2).keys() != before.keys()


def test_capacities_are_told_in_classes_and_ranges_exactly(tree: Tree) -> None:
    told = tree.nodes["leaf"].client("parent-root").get("/zones/info").json["zone"]
    assert told["services"]["compute"]["DISK_GB"] == "448.0,512.0"
    # 32768 MB less 500: a tree weighs as one flat zone would.
    assert told["weighers"]["RAMWeigher"] == "32268.0,32268.0"


@pytest.mark.parametrize("key", ["num_instances", "num_io_ops"])
def test_counts_of_everybodys_instances_are_not_compared(tree: Tree, key: str) -> None:
    curious = Curious(tree, "other")
    assert not curious.fits(extra={f"capabilities:{key}": "<= 100"})
    assert not curious.fits(extra={f"capabilities:{key}": ">= 0"})


def test_with_explain_none_only_the_time_tells_whether_children_were_asked(tmp_path: Path) -> None:
    # given: a zone without hosts, whose child can hold no host's worth of the first request
    tree = Tree(tmp_path)
    tree.add("root")
    tree.add("leaf", parent="root", explain_to_parent="none")
    tree.add("below", parent="leaf", hosts_=[a_host("b1", ram_mb=32768)])
    tree.poll(3)
    curious, answers, calls = Curious(tree, "parent-root"), [], []

    for asked in ({"ram": 10**6}, {"extra": {RACK: "none"}}):
        tree.network.sent.clear()
        answer = curious.ask(**asked)
        answers.append((answer["weights"], answer["alternates"], answer["why"], answer["complete"]))
        calls.append(sum(sent.url.endswith("/zones/select") for sent in tree.network.sent))

    assert answers[0] == answers[1] == ([], [], [], True)
    assert calls == [0, 1]
