"""A child's answer is bounded by the question: one that is too large costs its own offers, and no memory."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.builders.scenes import built_once
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Replace
from zonesched.errors import ChildUnreachable
from zonesched.model.place import LocalPlace
from zonesched.model.request_spec import Flavor, Image, Policy, RequestSpec
from zonesched.services.select import select
from zonesched.zones import answer_bounds
from zonesched.zones.call import BoundCall, Call, Reply, Rest
from zonesched.zones.transport import Transport, each_alone

pytestmark = pytest.mark.once

MIB = 2**20
INSTANCES = 1000
HEAD = b'{"version": 1, "complete": true, "expires_in": 60.0, "weights": [], "x": ['


def a_spec(count: int = INSTANCES, alternates: int = 3, policy: Policy = Policy.EACH) -> RequestSpec:
    return RequestSpec(
        request_id="11111111-1111-4111-8111-111111111111",
        project_id="project-1",
        num_instances=count,
        flavor=Flavor("f1", "small", 1, 64, 1),
        image=Image("", ""),
        alternates=alternates,
        policy=policy,
    )


def values(size: int) -> bytes:
    """A valid offer of that many bytes, nearly all of it small values that nobody asked for."""
    return HEAD + b"{}," * ((size - len(HEAD)) // 3 - 1) + b"{}]}"


class Watched:
    """A transport that notes how many bytes each answer could have had."""

    def __init__(self, transport: Transport) -> None:
        self.allowed: list[int] = []
        self._transport = transport

    def send(self, call: Call, timeout_s: float, max_bytes: int) -> Reply:
        self.allowed.append(max_bytes)
        return self._transport.send(call, timeout_s, max_bytes)

    def send_together(
        self, calls: Sequence[BoundCall], timeout_s: float, is_wanted: Callable[[], bool]
    ) -> Iterator[tuple[int, Reply | ChildUnreachable | Rest]]:
        return each_alone(self, calls)

    def check_url(self, unverified: str, timeout_s: float) -> str:
        return self._transport.check_url(unverified, timeout_s)


@built_once
def a_tree(folder: Path) -> Tree:
    """root -> good, bad; each with room for some."""
    tree = Tree(folder)
    tree.add("root", hosts_=[a_host("root-host", vcpus=2)])
    for name in ("good", "bad"):
        tree.add(name, hosts_=[a_host(f"{name}-host", vcpus=2)])
        tree.join("root", name)
    tree.poll(1)
    return tree


@pytest.mark.parametrize("size", [MIB, 12 * MIB], ids=["fits-the-bytes", "too-long"])
def test_values_that_nobody_asked_for_cost_a_child_its_offers_and_its_parent_no_memory(
    tmp_path: Path, size: int
) -> None:
    # given
    tree = a_tree(tmp_path)
    root = tree.nodes["root"].zone
    body = values(size)
    tree.network.fault(tree.nodes["bad"].url, Replace(body=body))
    # when
    tracemalloc.start()
    decision = select.decide(root, a_spec(), root.uuid)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # then
    offered = Counter(isinstance(entry.place, LocalPlace) for entry in decision.plan.entries)
    assert offered == {True: 2, False: 2}
    assert not decision.plan.complete
    assert [child.code for child in decision.trace.children if child.name == "bad"] == [
        "child_invalid_answer"
    ]
    assert peak < 8 * MIB


def test_values_in_the_refusal_of_a_cursor_cost_its_reader_no_memory(tmp_path: Path) -> None:
    # given
    tree = a_tree(tmp_path)
    root = tree.nodes["root"].zone
    body = b'{"badRequest": {"error_code": "cursor_invalid", "x": [' + b"{}," * 2_000_000 + b"{}]}}"
    assert len(body) < answer_bounds.CHANGES.max_bytes
    tree.network.fault(tree.nodes["bad"].url, Replace(status=400, body=body))
    (bad,) = (known.child.id for known in root.children.snapshot() if known.child.name == "bad")
    # when
    tracemalloc.start()
    with pytest.raises(ChildUnreachable) as failed:
        root.child_client(bad).changes("old", 5.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # then
    assert failed.value.code == "child_invalid_answer"
    assert peak < 32 * MIB


def test_no_more_is_read_than_the_entries_asked_for_can_take(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    root = tree.nodes["root"].zone
    watched: Any = Watched(root.transport)
    root.children._transport = watched
    for count in (1, INSTANCES):
        select.decide(root, a_spec(count), root.uuid)
    assert max(watched.allowed[:2]) < 0.1 * MIB
    assert max(watched.allowed[2:]) < 2 * MIB


@pytest.mark.parametrize(
    ("spec", "entries"),
    [
        (a_spec(1, 0), 1),
        (a_spec(1000, 3), 1003),
        (a_spec(10, 3, Policy.AFFINITY), 40),
        (a_spec(1000, 0, Policy.AFFINITY), 1000),
        (a_spec(100_000, 1000), 101_000),
    ],
)
def test_an_honest_answer_is_always_below_its_bound(spec: RequestSpec, entries: int) -> None:
    blob_bytes = 512
    entry = b'{"weight":9007199254740991,"tie":1048575,"blob":"' + b"x" * 683 + b'"},'
    why = b'{"filter":"%s","code":"%s","before":1000000000,"after":0},' % (b"F" * 128, b"c" * 64)
    body = HEAD + entry * entries + why * 128 + b"0]}"
    bound = answer_bounds.of_select(spec, blob_bytes)
    assert len(body) <= bound.max_bytes
    assert bound.fits(body)
