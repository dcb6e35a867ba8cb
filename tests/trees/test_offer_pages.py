"""Offers in pages: what a zone answers to a request for a page, and what it asks its own children for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.builders.boots import FLAVOR
from tests.builders.crashes import inconsistencies
from tests.builders.scenes import built_once
from tests.builders.tree import Answer, Node, Tree, a_host
from zonesched.model.build_plan import ChildBlob
from zonesched.model.decision_trace import ChildOutcome
from zonesched.model.request_spec import Flavor, Image, Policy, RequestSpec, ScoreWeighing, WeigherScale
from zonesched.model.request_wire import content_digest, spec_to_wire
from zonesched.seal.envelope import Bound, OpenedEntry
from zonesched.services.catalog import users
from zonesched.services.select import select

pytestmark = pytest.mark.once

COUNT = 24
SPREAD = ScoreWeighing((WeigherScale("RAMWeigher", 0.0, 65536.0, 1.0),))
STACK = ScoreWeighing((WeigherScale("RAMWeigher", 0.0, 65536.0, -1.0),))


def a_spec(**changes: Any) -> RequestSpec:
    spec = RequestSpec(
        request_id="11111111-1111-4111-8111-111111111111",
        project_id="project-1",
        num_instances=COUNT,
        flavor=Flavor("f1", "small", 1, 1024, 1),
        image=Image("", ""),
        weighing=SPREAD,
        path=("10101010-1010-4010-8010-101010101010",),
    )
    return replace(spec, **changes)


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    """root -> large (the best hosts), small -> below; each asks for its share, however small."""
    tree = Tree(tmp_path)
    tree.add("root", select_page=1)
    tree.add(
        "large", parent="root", select_page=1, hosts_=[a_host(f"b{n}", ram_mb=60_000 - n) for n in range(3)]
    )
    tree.add("small", parent="root", select_page=1, hosts_=[a_host("s1", ram_mb=9_000)])
    tree.add("below", parent="large", hosts_=[a_host(f"d{n}", ram_mb=59_000 - n) for n in range(2)])
    tree.poll(2)
    return tree


def ask(node: Node, spec: RequestSpec, *page: int) -> Answer:
    """A select of the zone's parent, for a page (skip, entries) or for all."""
    body: dict[str, Any] = {"version": 1, "request_spec": spec_to_wire(spec)}
    if page:
        body["page"] = dict(zip(("skip", "entries"), page, strict=True))
    return node.client("parent-root").post("/zones/select", body)


def decided(tree: Tree, spec: RequestSpec) -> select.Decision:
    root = tree.nodes["root"].zone
    return select.decide(root, replace(spec, path=()), root.uuid)


def opened(node: Node, spec: RequestSpec, answer: Answer) -> list[object]:
    """The place in each entry of the answer, as the zone itself opens it."""
    parent = next(user for user in users.list_users(node.zone.store) if user.name == "parent-root")
    bound = Bound(node.zone.uuid, parent.id, spec.project_id, content_digest(spec))
    blobs = [entry["blob"] for entry in answer.json["weights"]]
    found = node.zone.envelope.open_entries(bound, blobs)
    assert all(isinstance(one, OpenedEntry) for one in found)
    return [one.place for one in found if isinstance(one, OpenedEntry)]


def code_of(refused: Answer) -> str:
    (fault,) = refused.json.values()
    return str(fault["error_code"])


def weights(answer: Answer) -> list[tuple[int, int]]:
    return [(entry["weight"], entry["tie"]) for entry in answer.json["weights"]]


# -- what a zone answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("weighing", [SPREAD, STACK], ids=["spread", "stack"])
@pytest.mark.parametrize("size", [1, 5, 23, 24])
def test_the_pages_of_a_zone_with_children_are_its_whole_sequence(
    tree: Tree, weighing: ScoreWeighing, size: int
) -> None:
    node, spec = tree.nodes["large"], a_spec(weighing=weighing)
    whole = ask(node, spec)

    pages = [ask(node, spec, skip, size) for skip in range(0, COUNT, size)]

    assert [line for page in pages for line in weights(page)] == weights(whole)
    assert [page.json["more"] for page in pages] == [*[True] * (len(pages) - 1), False]
    assert whole.json["more"] is False
    own = [place for page in pages for place in opened(node, spec, page) if not isinstance(place, ChildBlob)]
    assert own == [place for place in opened(node, spec, whole) if not isinstance(place, ChildBlob)]


def test_a_page_after_the_last_host_is_empty_and_the_last(tree: Tree) -> None:
    spec = a_spec()
    short = ask(tree.nodes["small"], spec, 0, 20)
    beyond = ask(tree.nodes["small"], spec, 20, 4)

    assert (len(short.json["weights"]), short.json["more"]) == (8, False)
    assert (beyond.json["weights"], beyond.json["more"], beyond.json["complete"]) == ([], False, True)


def test_all_pages_together_end_at_the_limit_of_one_answer(tree: Tree) -> None:
    node, spec = tree.nodes["large"], a_spec()
    node.zone.conf.set_override("max_entries_per_select", 10)

    pages = [ask(node, spec, skip, 6) for skip in (0, 6, 12)]

    assert [len(page.json["weights"]) for page in pages] == [6, 4, 0]
    assert [page.json["more"] for page in pages] == [True, True, True]


def test_an_affinity_request_has_no_pages(tree: Tree) -> None:
    refused = ask(tree.nodes["large"], a_spec(policy=Policy.AFFINITY), 0, 5)

    assert (refused.status, code_of(refused)) == (400, "page_unsupported")


@pytest.mark.parametrize("page", [(-1, 5), (0, 0), (0, 2**31), (2**31, 1)])
def test_a_page_that_is_none_is_refused(tree: Tree, page: tuple[int, int]) -> None:
    refused = ask(tree.nodes["large"], a_spec(), *page)

    assert (refused.status, code_of(refused)) == (400, "out_of_range")


# -- what it asks its children for -------------------------------------------------------------------------


Change = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]
"""The answer to a select, from what was asked and what the zone answers."""


class Between:
    """A real zone behind somebody who may answer a select in its place, or change its answer."""

    def __init__(self, node: Node, change: Change) -> None:
        self._app = node.app
        self._change = change
        self.pages: list[dict[str, int]] = []

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read()
        environ["wsgi.input"] = BytesIO(body)
        status: list[str] = []
        answer = b"".join(self._app(environ, lambda said, *_: status.append(said)))  # type: ignore[arg-type]
        if environ["PATH_INFO"].endswith("/zones/select"):
            self.pages.append(orjson.loads(body).get("page", {}))
            answer = orjson.dumps(self._change(orjson.loads(body), orjson.loads(answer)))
        start(status[0], [("Content-Type", "application/json")])
        return [answer]


def between(tree: Tree, name: str, change: Change) -> Between:
    found = Between(tree.nodes[name], change)
    tree.network.mount(tree.nodes[name].url, found)
    return found


def as_it_is(asked: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    return answer


def of_children(tree: Tree, decision: select.Decision) -> Counter[str]:
    """How many entries of the plan are in each child of the root."""
    names = {known.child.id: known.child.name for known in tree.nodes["root"].zone.children.snapshot()}
    places = [entry.place for entry in decision.plan.entries]
    return Counter(names[place.child_id] for place in places if isinstance(place, ChildBlob))


def test_a_child_is_asked_for_its_share_and_for_the_rest_where_the_best_hosts_are(tree: Tree) -> None:
    large, small = between(tree, "large", as_it_is), between(tree, "small", as_it_is)

    decision = decided(tree, a_spec())

    assert of_children(tree, decision) == {"large": COUNT}
    assert large.pages == [{"skip": 0, "entries": 18}, {"skip": 18, "entries": 6}]
    assert small.pages == [{"skip": 0, "entries": 18}]
    assert decision.plan.complete


def test_few_instances_are_asked_for_at_once(tree: Tree) -> None:
    tree.nodes["root"].zone.conf.set_override("select_page", COUNT)
    large = between(tree, "large", as_it_is)

    decided(tree, a_spec())

    assert large.pages == [{}]


def test_a_child_that_does_not_say_that_it_has_pages_is_asked_for_all(tree: Tree) -> None:
    def older(node: Node) -> Callable[[dict[str, Any], Any], Iterable[bytes]]:
        def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            told = b"".join(node.app(environ, lambda *_: None))  # type: ignore[arg-type]
            answer = orjson.loads(told)
            del answer["zone"]["has_pages"]
            start("200 OK", [("Content-Type", "application/json")])
            return [orjson.dumps(answer)]

        return app

    tree.network.mount(tree.nodes["large"].url, older(tree.nodes["large"]))
    tree.nodes["root"].zone.children.poll()
    large = between(tree, "large", as_it_is)

    decision = decided(tree, a_spec())

    assert large.pages == [{}]
    assert of_children(tree, decision) == {"large": COUNT}


def test_a_page_that_does_not_come_leaves_the_plan_incomplete_and_what_came_is_used(tree: Tree) -> None:
    def fails_later(asked: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        return {} if asked["page"]["skip"] else answer

    between(tree, "large", fails_later)

    decision = decided(tree, a_spec())

    assert of_children(tree, decision) == {"large": 18, "small": 6}
    assert not decision.plan.complete
    traces = {trace.name: (trace.outcome, trace.offered) for trace in decision.trace.children}
    assert traces["large"] == (ChildOutcome.INCOMPLETE, 18)


def test_without_time_left_no_further_page_is_asked_for(tree: Tree) -> None:
    root = tree.nodes["root"].zone

    def takes_long(asked: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        tree.clock.advance(20.0)
        return answer

    large = between(tree, "large", takes_long)

    decision = select.decide(root, replace(a_spec(), path=(), time_budget_s=10.0), root.uuid)

    assert len(large.pages) == 1
    assert not decision.plan.complete


def test_a_child_that_always_has_more_is_asked_twice_at_most(tree: Tree) -> None:
    def has_more(asked: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        return {**answer, "more": True}

    large, small = between(tree, "large", has_more), between(tree, "small", has_more)

    decision = decided(tree, a_spec())

    assert len(decision.plan.entries) == COUNT
    assert (len(large.pages), len(small.pages)) == (2, 1)


def test_a_child_that_offers_the_same_places_on_both_pages_gets_each_of_them_once(tree: Tree) -> None:
    first: list[Any] = []

    def repeats(asked: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        if not asked["page"]["skip"]:
            first[:] = answer["weights"]
            return answer
        return {**answer, "weights": first[: asked["page"]["entries"]]}

    between(tree, "large", repeats)
    root = tree.nodes["root"].client()
    root.post("/flavors", FLAVOR)
    server = {"name": "vm", "flavorRef": "small", "num_instances": COUNT}
    made = root.post("/zones/boot", {"server": server})

    tree.settle()

    path = f"/reservations/{made.json['reservation_id']}"
    assert root.get(path).json["reservation"]["counts"] == {"BUILD": COUNT}
    assert inconsistencies(tree) == []
