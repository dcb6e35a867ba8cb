"""Many children that answer at their bound to several selects: memory is bounded, honest ones are heard."""

from __future__ import annotations

import base64
import threading
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.builders.child_app import an_info
from tests.builders.tree import Tree, a_host
from zonesched.model.build_plan import BuildPlan, ChildBlob
from zonesched.model.request_spec import Flavor, Image, RequestSpec
from zonesched.model.views import ChildForm
from zonesched.seams import ThreadExecutor
from zonesched.services import background
from zonesched.services.children import children
from zonesched.services.select import select
from zonesched.zones import answer_room

pytestmark = [pytest.mark.once, pytest.mark.slow]

MIB = 2**20
LIARS = 20
INSTANCES = 100
BLOB_BYTES = 4095
SELECTS = 4
HEADERS = [("Content-Type", "application/json")]


def a_spec() -> RequestSpec:
    return RequestSpec(
        request_id="11111111-1111-4111-8111-111111111111",
        project_id="project-1",
        num_instances=INSTANCES,
        flavor=Flavor("f1", "small", 1, 64, 1),
        image=Image("", ""),
        time_budget_s=30.0,
    )


def an_offer(count: int) -> bytes:
    """Return as many entries of the worst weight, with large blobs."""
    blobs = [number.to_bytes(BLOB_BYTES, "big") for number in range(count)]
    weights = [
        {"weight": 2**53 - 1, "tie": 0, "blob": base64.urlsafe_b64encode(blob).decode()} for blob in blobs
    ]
    return orjson.dumps({"version": 1, "weights": weights, "complete": True, "expires_in": 60.0})


OFFERS = {count: an_offer(count) for count in (1, INSTANCES)}


class Liar:
    """A child that offers as much as it was asked for, in entries as large as it may."""

    def __init__(self, number: int) -> None:
        self._info = orjson.dumps(an_info(number, blob_size=BLOB_BYTES))

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        body = self._info
        if environ["PATH_INFO"].endswith("/select"):
            asked = orjson.loads(environ["wsgi.input"].read())
            body = OFFERS[asked["request_spec"]["num_instances"]]
        start_response("200 OK", [*HEADERS, ("Content-Length", str(len(body)))])
        return [body]


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    """root -> 20 liars, honest (with room for 4)."""
    executor = ThreadExecutor()
    tree = Tree(tmp_path, executor=executor)
    root = tree.add("root").zone
    tree.add("honest", parent="root", hosts_=[a_host("h1", vcpus=4)])
    for number in range(1, LIARS + 1):
        url = f"http://127.0.0.1:{7500 + number}"
        tree.network.mount(url, Liar(number))
        children.add(root, ChildForm(f"liar-{number}", url, "parent-root", "secret"))
    background.poll_children(root)
    assert len(root.children.active()) == LIARS + 1
    yield tree
    executor.stop()


def decide_at_once(tree: Tree) -> list[BuildPlan]:
    """Plans of several selects at the same time, each of another caller."""
    root = tree.nodes["root"].zone
    plans: list[BuildPlan] = []

    def decide(caller: str) -> None:
        plans.append(select.decide(root, a_spec(), caller).plan)

    threads = [threading.Thread(target=decide, args=(f"caller-{number}",)) for number in range(SELECTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return plans


def of_honest(tree: Tree, plan: BuildPlan) -> int:
    names = {known.child.id: known.child.name for known in tree.nodes["root"].zone.children.snapshot()}
    places = [entry.place for entry in plan.entries if isinstance(entry.place, ChildBlob)]
    return Counter(names[place.child_id] for place in places)["honest"]


def test_answers_at_their_bound_take_a_bounded_memory_together(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree.nodes["root"].zone.children._room, "_half", 4 * MIB)
    decide_at_once(tree)

    tracemalloc.start()
    plans = decide_at_once(tree)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 24 * MIB
    assert [of_honest(tree, plan) for plan in plans] == [4] * SELECTS
    assert not any(plan.complete for plan in plans)


def test_answers_that_fit_together_are_all_taken(tree: Tree) -> None:
    # 20 of 0.5 MB for each of four callers.
    assert SELECTS * LIARS * len(OFFERS[INSTANCES]) < answer_room.TOTAL_BYTES // 2

    plans = decide_at_once(tree)

    assert [of_honest(tree, plan) for plan in plans] == [4] * SELECTS
    assert all(plan.complete for plan in plans)
