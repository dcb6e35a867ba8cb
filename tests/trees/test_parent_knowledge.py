"""Knowledge that a determined parent gets by selects, and their number: the table of docs/security.md."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.tree import Tree, a_host
from zonesched.model.caller import Role
from zonesched.model.request_spec import Flavor, Image, Policy, RequestSpec
from zonesched.model.request_wire import spec_to_wire
from zonesched.services.catalog import users

RAM = {"name": "score", "scales": [{"weigher": "RAMWeigher", "low": 0.0, "high": 9000.0, "multiplier": 1.0}]}
GROUP = "a9b0c0de-0000-4000-8000-000000000001"
RACK = "capabilities:rack"
LETTERS = [chr(code) for code in range(32, 127)]


class Curious:
    """A parent that counts its selects."""

    def __init__(self, tree: Tree, user: str) -> None:
        self.selects = 0
        self._client = tree.nodes["leaf"].client(user)

    def ask(self, count: int = 1, ram: int = 1, extra: dict[str, str] | None = None, **changes: Any) -> Any:
        """The answer to a select for instances of one VCPU."""
        self.selects += 1
        flavor = Flavor("f", "f", 1, ram, 1, extra or {})
        policy = changes.pop("policy", Policy.EACH)
        spec = RequestSpec(f"r{self.selects}", "p1", count, flavor, Image("", ""), policy=policy)
        path = {"path": ["10101010-1010-4010-8010-101010101010"], "weighing": RAM}
        body = {"version": 1, "request_spec": {**spec_to_wire(spec), **path, **changes}}
        answer = self._client.post("/zones/select", body)
        assert answer.status == 200, answer.body
        return answer.json

    def fits(self, **asked: Any) -> bool:
        return bool(self.ask(**asked)["weights"])


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    """A zone with two parents, three hosts, and an instance of its own on each."""
    tree = Tree(tmp_path)
    tree.add("root")
    rack = {"capabilities": {"rack": "B-7 east"}}
    leaf = tree.add("leaf", parent="root", hosts_=[a_host(f"l{n}", ram_mb=32768, **rack) for n in range(3)])
    leaf.secrets["other"] = users.create(leaf.zone, "other", Role.PARENT, "-").secret
    leaf.client().post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 500, "disk": 1}})
    leaf.client("member").post(
        "/zones/boot", {"server": {"name": "vm", "flavorRef": "small", "num_instances": 3}}
    )
    tree.settle()
    yield tree


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


def test_a_text_takes_seven_selects_a_letter(tree: Tree) -> None:
    # given: a capability whose name is known, and texts of printable ASCII
    curious, known = Curious(tree, "other"), ""
    while not (known and curious.fits(extra={RACK: f"s== {known}"})):
        low, high = 0, len(LETTERS) - 1
        while low < high:
            middle = (low + high + 1) // 2
            is_more = curious.fits(extra={RACK: f"s>= {known}{LETTERS[middle]}"})
            low, high = (middle, high) if is_more else (low, middle - 1)
        known += LETTERS[low]
    assert known == "B-7 east"
    # One more for each letter, to see whether it was the last.
    assert curious.selects <= (7 + 1) * len(known) + 1


@pytest.mark.parametrize("key", ["num_instances", "num_io_ops"])
def test_counts_of_everybodys_instances_are_not_compared(tree: Tree, key: str) -> None:
    curious = Curious(tree, "other")
    assert not curious.fits(extra={f"capabilities:{key}": "<= 100"})
    assert not curious.fits(extra={f"capabilities:{key}": ">= 0"})
