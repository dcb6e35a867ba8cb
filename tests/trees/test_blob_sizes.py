"""Sizes of sealed entries: a child that does not fit is refused, one that grows costs no select."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, boot, counts, rows
from tests.builders.child_app import ChildApp, an_info
from tests.builders.tree import Answer, Tree, a_host
from tests.builders.wsgi_transport import Dead, Replace
from zonesched.model.caller import Role
from zonesched.model.request_spec import Flavor, Image, RequestSpec, ScoreWeighing, Unweighed
from zonesched.model.request_wire import spec_to_wire
from zonesched.model.views import ChildForm
from zonesched.seal.entry_form import MAX_GROWN_BYTES
from zonesched.services.catalog import users
from zonesched.services.children import children
from zonesched.services.select import select

pytestmark = pytest.mark.once

SPEC = RequestSpec(
    request_id="11111111-1111-4111-8111-111111111111",
    project_id="project-1",
    num_instances=2,
    flavor=Flavor("f1", "small", 1, 1024, 1),
    image=Image("", ""),
    weighing=Unweighed(),
    time_budget_s=10.0,
)
LIAR = "http://127.0.0.1:7999"


def zone_json(tree: Tree, child: str, **changes: Any) -> dict[str, Any]:
    """Body with which an admin adds a zone of the tree to its root."""
    below = tree.nodes[child]
    secret = users.create(below.zone.store, below.zone.clock, "above", Role.PARENT, "-").secret
    return {"name": child, "api_url": below.url, "username": "above", "password": secret} | changes


def fault_of(answer: Answer) -> tuple[int, str, str]:
    fault = answer.json["badRequest"]
    return answer.status, fault["error_code"], fault["field"]


def blob_sizes(tree: Tree, *names: str) -> list[int]:
    return [tree.nodes[name].zone.envelope.blob_size for name in names]


def states(tree: Tree, name: str) -> list[tuple[str, str]]:
    return [
        (c.state, c.last_error)
        for c in children.list_children(tree.nodes[name].zone.store, tree.nodes[name].zone.children)
    ]


# -- added and changed -------------------------------------------------------------------------------------


def test_a_child_whose_blobs_do_not_fit_is_refused_when_it_is_added(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.add("root", build_plan_blob_size=512)
    tree.add("leaf", build_plan_blob_size=385)
    admin = tree.nodes["root"].client()

    answer = admin.post("/zones", {"zone": zone_json(tree, "leaf")})

    assert fault_of(answer) == (400, "child_blob_too_large", "zone.api_url")
    assert admin.get("/zones").json["zones"] == []


def test_a_child_is_refused_when_it_is_moved_to_where_blobs_do_not_fit(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.add("root", build_plan_blob_size=512)
    tree.add("leaf", parent="root")
    tree.add("large", build_plan_blob_size=1024)
    (before,) = children.list_children(tree.nodes["root"].zone.store, tree.nodes["root"].zone.children)
    moved = zone_json(tree, "large", weight_scale=2.0)

    answer = tree.nodes["root"].client().call("PUT", f"/zones/{before.id}", {"zone": moved})

    assert fault_of(answer) == (400, "child_blob_too_large", "zone.api_url")
    assert children.list_children(tree.nodes["root"].zone.store, tree.nodes["root"].zone.children) == [before]


def test_a_zone_is_not_its_own_child(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.add("root")
    admin = tree.nodes["root"].client()

    answer = admin.post("/zones", {"zone": zone_json(tree, "root")})

    assert fault_of(answer) == (400, "child_is_self", "zone.api_url")
    assert admin.get("/zones").json["zones"] == []


@pytest.mark.parametrize("fault", [Dead(), Replace(status=404), Replace(body=b"{}")])
def test_a_child_that_does_not_answer_well_yet_is_added_and_polled_later(tmp_path: Path, fault: Any) -> None:
    tree = Tree(tmp_path)
    tree.add("root")
    leaf = tree.add("leaf", hosts_=[a_host("h1")])
    tree.network.fault(leaf.url, fault)

    answer = tree.nodes["root"].client().post("/zones", {"zone": zone_json(tree, "leaf")})
    tree.network.heal(leaf.url)
    tree.poll(1)

    assert answer.status == 201
    assert states(tree, "root") == [("ready", "")]


# -- growing -----------------------------------------------------------------------------------------------


def test_a_first_child_of_a_child_costs_no_select_before_the_next_poll(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    for name, parent in [("top", ""), ("root", "top"), ("region", "root")]:
        tree.add(name, parent=parent)
    tree.register("region", [a_host("r1", vcpus=1)])
    tree.poll()
    tree.add("leaf", parent="region", hosts_=[a_host("h1", vcpus=1)])
    tree.nodes["region"].zone.children.poll()

    plan = select.decide(tree.nodes["top"].zone, SPEC, "caller").plan

    assert (len(plan.entries), plan.complete) == (2, True)
    assert blob_sizes(tree, "region", "root", "top") == [512, 768, 1024]


def test_what_a_child_offered_while_it_was_removed_still_finds_room(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    region = tree.add("region")
    leaf = tree.add("leaf", hosts_=[a_host("h1")])
    child_id = tree.join("region", "leaf")
    tree.poll()
    parent = users.create(region.zone.store, region.zone.clock, "above", Role.PARENT, "-")
    region.secrets["above"] = parent.secret

    def removed_meanwhile(environ: Any, start: Any) -> Any:
        children.remove(region.zone, child_id)
        return leaf.app(environ, start)

    tree.network.mount(leaf.url, removed_meanwhile)
    spec = spec_to_wire(replace(SPEC, weighing=ScoreWeighing(())))
    answer = region.client("above").post("/zones/select", {"version": 1, "request_spec": spec})

    assert (answer.status, len(answer.json["weights"])) == (200, 2)
    assert children.list_children(region.zone.store, region.zone.children) == []


def test_a_child_that_grows_too_large_goes_offline_and_says_why(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.add("root", build_plan_blob_size=512)
    tree.add("region", parent="root", hosts_=[a_host("r1")])
    tree.poll()
    before = states(tree, "root")

    tree.add("leaf", parent="region")
    tree.poll()

    assert (before, states(tree, "root")) == ([("ready", "")], [("offline", "child_blob_too_large")])


@pytest.mark.parametrize("claimed", [MAX_GROWN_BYTES - 127, 65_000, 65_536])
def test_a_child_that_claims_too_large_blobs_counts_as_one_with_the_smallest(
    tmp_path: Path, claimed: int
) -> None:
    tree = Tree(tmp_path)
    tree.add("root")
    region = tree.add("region", parent="root", hosts_=[a_host("r1")])
    liar = ChildApp()
    tree.network.mount(LIAR, liar)
    children.add(region.zone, ChildForm("liar", LIAR, "parent", "secret"))
    liar.answers("GET", "/zones/info", 200, an_info(1, blob_size=claimed))

    tree.poll()

    assert states(tree, "region") == [("offline", "child_blob_too_large")]
    assert states(tree, "root") == [("ready", "")]
    assert blob_sizes(tree, "region", "root") == [512, 768]


def test_zones_that_register_each_other_grow_to_a_limit_and_then_say_so(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.add("one")
    tree.add("two", parent="one")
    tree.join("two", "one")

    tree.poll(3 * 32)

    assert max(blob_sizes(tree, "one", "two")) == MAX_GROWN_BYTES
    assert ("offline", "child_blob_too_large") in states(tree, "one") + states(tree, "two")


def test_sixteen_zones_above_one_another_fit(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    names = [f"z{number}" for number in range(select.MAX_PATH)]
    for above, name in zip(["", *names], names, strict=False):
        tree.add(name, parent=above)
    tree.register(names[-1], [a_host("h1")])
    tree.poll(1)

    plan = select.decide(tree.nodes["z0"].zone, SPEC, "caller").plan

    assert (len(plan.entries), plan.complete) == (2, True)
    assert blob_sizes(tree, "z0") == [MAX_GROWN_BYTES // 2]


def test_a_boot_of_many_instances_with_large_entries_fits_into_its_childs_body(tmp_path: Path) -> None:
    # Given: a child that fills one host after the other, so that the next ones are spare
    tree = Tree(tmp_path)
    tree.add("root", build_plan_blob_size=9216, ram_weight_multiplier=-1.0, cpu_weight_multiplier=-1.0)
    large = [a_host(f"h{n}", vcpus=4000, ram_mb=4_000_000, disk_gb=40_000) for n in range(4)]
    tree.add("leaf", parent="root", build_plan_blob_size=8192, hosts_=large)
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)

    # When
    reservation_id = boot(tree, num_instances=400)
    tree.step("root")

    # Then: with three spare entries for each build, a call would be larger than 16 MiB
    bodies = [len(sent.body) for sent in tree.network.sent if sent.url.endswith("/servers")]
    assert len(bodies) == 1
    assert 4 * 2**20 < bodies[0] < 5 * 2**20
    assert rows(tree, "leaf", "SELECT state, count(*) FROM placements GROUP BY state") == [("confirmed", 400)]
    assert counts(tree, reservation_id) == {"BUILD": 400}
