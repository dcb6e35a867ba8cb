"""A lying child: it offers the best of everything and keeps nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.builders.boots import FLAVOR
from tests.builders.one_zone import put_instance, put_place, put_reservation, sql
from tests.builders.scenes import built_once
from tests.builders.tree import Node, Tree, a_host
from tests.builders.wsgi_transport import Tamper
from zonesched.model.build_plan import BuildPlan, ChildBlob, Entry
from zonesched.model.placement import PlacementState
from zonesched.model.request_spec import Flavor, Image, Policy, RequestSpec, Unweighed
from zonesched.services.select import select
from zonesched.store.placements import AskedChild

pytestmark = pytest.mark.once

REQUEST = "11111111-1111-4111-8111-111111111111"
State = PlacementState


class Liar:
    """A real zone behind someone who changes what it offers, and refuses what it is sent."""

    def __init__(self, node: Node) -> None:
        self._app = node.app

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read()
        environ["wsgi.input"] = BytesIO(body)
        if environ["REQUEST_METHOD"] == "POST" and environ["PATH_INFO"].endswith("/servers"):
            return self._refuse(body, start)
        answer = b"".join(self._app(environ, lambda *_: None))  # type: ignore[arg-type]
        if environ["PATH_INFO"].endswith("/zones/select"):
            offer = orjson.loads(answer)
            for entry in (*offer["weights"], *offer["alternates"], *offer["bundles"]):
                entry["weight"] = 0
            answer = orjson.dumps(offer)
        start("200 OK", [("Content-Type", "application/json")])
        return [answer]

    def _refuse(self, body: bytes, start: Callable[..., Any]) -> Iterable[bytes]:
        builds = orjson.loads(body)["server"]["builds"]
        lines = [
            {"uuid": build["uuid"], "attempt": build["attempt"], "state": "failed", "reason": "no_free_slots"}
            for build in builds
        ]
        start("202 ACCEPTED", [("Content-Type", "application/json")])
        return [orjson.dumps({"builds": lines})]


@built_once
def a_tree(folder: Path, honest_vcpus: int = 16) -> Tree:
    """root -> honest, liar."""
    tree = Tree(folder)
    tree.add("root")
    tree.add("honest", parent="root", hosts_=[a_host(f"h{n}", vcpus=honest_vcpus) for n in range(2)])
    liar = tree.add("liar", parent="root", hosts_=[a_host("x1", vcpus=400, ram_mb=2**20, disk_gb=10_000)])
    tree.poll()
    tree.network.mount(liar.url, Liar(liar))
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    return tree


def boot(tree: Tree, count: int, **hints: Any) -> dict[str, int]:
    """The counts by status of a boot, once all has gone on as far as it does."""
    root = tree.nodes["root"].client()
    server = {"name": "vm", "flavorRef": "small", "num_instances": count}
    made = root.post("/zones/boot", {"server": server} | hints)
    assert made.status == 202, made.body
    tree.settle()
    shown: dict[str, int] = root.get(f"/reservations/{made.json['reservation_id']}").json["reservation"][
        "counts"
    ]
    return shown


@pytest.mark.parametrize("count", [1, 10])
def test_a_child_that_promises_all_and_keeps_nothing_loses_its_second_chance(
    tmp_path: Path, count: int
) -> None:
    assert boot(a_tree(tmp_path), count) == {"BUILD": count}


def test_a_group_goes_elsewhere_too(tmp_path: Path) -> None:
    hints = {"os:scheduler_hints": {"policy": "affinity"}}

    assert boot(a_tree(tmp_path), 5, **hints) == {"BUILD": 5}


# -- by the rows -------------------------------------------------------------------------------------------


def plan(tree: Tree, count: int, request_id: str = REQUEST, **changes: Any) -> BuildPlan:
    spec = RequestSpec(
        request_id=request_id,
        project_id="project-1",
        num_instances=count,
        flavor=Flavor("f1", "small", 1, 1024, 1),
        image=Image("", ""),
        weighing=Unweighed(),
        time_budget_s=10.0,
    )
    zone = tree.nodes["root"].zone
    return select.decide(zone, replace(spec, **changes), zone.uuid).plan


def put_places(tree: Tree, child: str, *states: PlacementState) -> None:
    """States of some builds of REQUEST in a child."""
    zone = tree.nodes["root"].zone
    (child_id,) = (k.child.id for k in zone.children.snapshot() if k.child.name == child)
    put_reservation(zone, REQUEST)
    for state in states:
        uuid = put_instance(zone, reservation_id=REQUEST)
        put_place(zone, uuid, AskedChild(child_id, ()), reservation_id=REQUEST, state=state)


def names(tree: Tree, entries: Iterable[Entry]) -> list[str]:
    by_id = {k.child.id: k.child.name for k in tree.nodes["root"].zone.children.snapshot()}
    places = [entry.place for entry in entries]
    return [by_id[place.child_id] for place in places if isinstance(place, ChildBlob)]


@pytest.mark.parametrize("lost", [State.FAILED, State.GONE, State.CANCELLING])
def test_after_it_a_child_that_kept_less_than_it_lost_comes_last(
    tmp_path: Path, lost: PlacementState
) -> None:
    tree = a_tree(tmp_path, honest_vcpus=1)
    before = names(tree, plan(tree, 4, alternates=2).entries)

    put_places(tree, "liar", lost, lost, State.CONFIRMED)
    after = plan(tree, 4, alternates=2)

    assert before == ["liar"] * 4
    assert names(tree, after.entries) == ["honest", "honest", "liar", "liar"]
    assert names(tree, after.alternates) == ["liar", "liar"]
    assert names(tree, plan(tree, 4, "another").entries) == ["liar"] * 4


def test_a_child_that_lost_a_place_long_ago_has_its_turn_when_the_server_is_placed_again(
    tmp_path: Path,
) -> None:
    tree = a_tree(tmp_path)
    put_places(tree, "liar", State.FAILED)
    lately = names(tree, plan(tree, 1).entries)

    tree.clock.advance(3600.0)
    tree.beat()
    tree.poll()

    assert (lately, names(tree, plan(tree, 1).entries)) == (["honest"], ["liar"])


@pytest.mark.parametrize("held", [State.HELD, State.CONFIRMING, State.CONFIRMED])
def test_a_child_that_lost_some_races_keeps_its_turn(tmp_path: Path, held: PlacementState) -> None:
    tree = a_tree(tmp_path)

    put_places(tree, "liar", State.FAILED, held)

    assert names(tree, plan(tree, 4).entries) == ["liar"] * 4


@pytest.mark.parametrize(("reason", "first"), [("hold_late", "liar"), ("no_answer", "honest")])
def test_a_hold_that_its_parent_did_not_keep_is_no_fault_of_the_child(
    tmp_path: Path, reason: str, first: str
) -> None:
    tree = a_tree(tmp_path, honest_vcpus=1)
    put_places(tree, "liar", State.GONE, State.CANCELLING)
    sql(tree.nodes["root"].zone, "UPDATE placements SET reason = :reason", reason=reason)

    assert names(tree, plan(tree, 1).entries) == [first]


def test_a_child_does_not_excuse_the_loss_of_its_hold_with_a_reason_of_its_parent(tmp_path: Path) -> None:
    # given a child that holds, and answers the confirm as if its parent had been late
    tree = a_tree(tmp_path)
    liar = tree.nodes["liar"]
    tree.network.mount(liar.url, liar.app)

    def late(body: bytes) -> bytes:
        lines = orjson.loads(body)["builds"]
        return orjson.dumps({"builds": [line | {"state": "gone", "reason": "hold_late"} for line in lines]})

    tree.network.fault(liar.url, Tamper(late, path="/confirm"))

    # then
    assert boot(tree, 12) == {"BUILD": 12}
    lost = sql(tree.nodes["root"].zone, "SELECT DISTINCT reason FROM placements WHERE state = 'gone'")
    assert [tuple(row) for row in lost] == [("hold_gone",)]


@pytest.mark.parametrize("held_s", [0.0, 10.0, 10.9])
def test_a_child_that_holds_too_shortly_ends_no_hold_of_others(tmp_path: Path, held_s: float) -> None:
    # given a child that holds, and says that it does so for a time in which nobody can confirm
    tree = a_tree(tmp_path)
    liar = tree.nodes["liar"]
    tree.network.mount(liar.url, liar.app)

    def short(body: bytes) -> bytes:
        lines = orjson.loads(body)["builds"]
        return orjson.dumps({"builds": [line | {"hold_s": held_s} for line in lines]})

    tree.network.fault(liar.url, Tamper(short, method="POST", path="/servers"))

    assert boot(tree, 12) == {"BUILD": 12}
    confirmed = sql(
        tree.nodes["root"].zone,
        "SELECT DISTINCT c.name FROM placements p JOIN children c ON c.id = p.child_id"
        " WHERE p.state = 'confirmed'",
    )
    assert [tuple(row) for row in confirmed] == [("honest",)]


def test_its_bundles_and_alternates_come_last_as_well(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    put_places(tree, "liar", State.FAILED)

    group = plan(tree, 2, policy=Policy.AFFINITY, alternates=2)
    single = plan(tree, 1, alternates=3)

    assert [names(tree, bundle.entries[:1]) for bundle in group.bundles] == [["honest"], ["honest"], ["liar"]]
    assert names(tree, single.alternates) == ["honest", "liar"]


def test_a_child_that_is_the_only_one_is_asked_again_all_the_same(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, honest_vcpus=0)
    put_places(tree, "liar", State.FAILED)

    assert names(tree, plan(tree, 3).entries) == ["liar"] * 3
