"""POST /zones/select: what a parent is offered, what it is refused, and what it is told of the reasons."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import sqlalchemy as sa

from tests.builders.child_app import ChildApp, an_info
from tests.builders.one_zone import put_instance, put_place, put_reservation
from tests.builders.scenes import built_once
from tests.builders.tree import Answer, Node, Tree, a_host
from zonesched.model.build_plan import FunnelStep, Refusal
from zonesched.model.place import LocalPlace
from zonesched.model.placement import PlacementState
from zonesched.model.request_spec import (
    CostFunction,
    CostWeighing,
    Flavor,
    Image,
    Policy,
    RequestSpec,
    ScoreWeighing,
    Unweighed,
    WeigherScale,
)
from zonesched.model.request_wire import content_digest, spec_to_wire
from zonesched.model.views import ChildChange, ChildForm
from zonesched.scheduler.merge import adjust
from zonesched.seal.entry_form import MAX_BLOB_BYTES, blob_to_text
from zonesched.seal.envelope import Bound, OpenedEntry
from zonesched.services.catalog import users
from zonesched.services.children import children
from zonesched.services.hosts import hosts
from zonesched.services.select import select
from zonesched.services.select.explain import explain
from zonesched.store.placements import ClaimedHost
from zonesched.zones.answers import MAX_COUNT, MAX_WHY, read_offer

pytestmark = pytest.mark.once

WEIGHING = ScoreWeighing((WeigherScale("RAMWeigher", 0.0, 65536.0, 1.0),))
LIAR = "http://127.0.0.1:7999"
REQUEST = "11111111-1111-4111-8111-111111111111"


def a_spec(count: int = 1, **changes: Any) -> RequestSpec:
    spec = RequestSpec(
        request_id=REQUEST,
        project_id="project-1",
        num_instances=count,
        flavor=Flavor("f1", "small", 1, 1024, 1),
        image=Image("", ""),
        weighing=WEIGHING,
        path=("10101010-1010-4010-8010-101010101010",),
    )
    return replace(spec, **changes)


def asking(**extra_specs: str) -> Flavor:
    return Flavor("f1", "small", 1, 1024, 1, {k.replace("_", ":", 1): v for k, v in extra_specs.items()})


def ask(node: Node, spec: RequestSpec, **changes: Any) -> Answer:
    """A select as the zone's parent in the tree makes it; `changes` to the request_spec on the wire."""
    parent = next(user for user in node.secrets if user.startswith("parent-"))
    body = {"version": 1, "request_spec": {**spec_to_wire(spec), **changes}}
    return node.client(parent).post("/zones/select", body)


def decided(tree: Tree, spec: RequestSpec, name: str = "root") -> select.Decision:
    zone = tree.nodes[name].zone
    return select.decide(zone, replace(spec, path=()), zone.uuid)


def asked_of(tree: Tree, name: str) -> int:
    """Count the selects that a zone got."""
    url = tree.nodes[name].url
    return sum(sent.url == f"{url}/zones/select" for sent in tree.network.sent)


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    """root -> region -> leaf, each with hosts."""
    tree = Tree(tmp_path)
    tree.add("root", hosts_=[a_host("r1")])
    tree.add("region", parent="root", hosts_=[a_host("g1"), a_host("g2", vcpus=0)])
    tree.add("leaf", parent="region", hosts_=[a_host("l1"), a_host("l2"), a_host("l3", ram_mb=512)])
    tree.poll(1)
    return tree


# -- the weighing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "weighing",
    [
        ScoreWeighing((*WEIGHING.scales, WeigherScale("own.RackWeigher", 0.0, 1.0, 1.0))),
        CostWeighing("own.Scheduler"),
        CostWeighing("LeastCostScheduler", (CostFunction("own_cost", 1.0),)),
    ],
    ids=["weigher", "driver", "function"],
)
def test_a_zone_that_cannot_weigh_so_offers_nothing_and_says_so(tree: Tree, weighing: Any) -> None:
    answer = ask(tree.nodes["leaf"], a_spec(weighing=weighing))

    assert answer.status == 200
    assert answer.json["weights"] == answer.json["alternates"] == answer.json["bundles"] == []
    assert answer.json["complete"] is False
    assert answer.json["why"] == [{"filter": "weighing", "code": "weighing_unknown"}]


def test_its_parent_has_its_own_offers_and_is_incomplete(tree: Tree) -> None:
    tree.add("odd", parent="root", hosts_=[a_host("o1")], weight_classes=["RAMWeigher"])
    tree.poll(1)
    # What odd was started without.
    odd = tree.nodes["odd"].zone.schedulers.default.plugins.weighers.known
    del odd["DiskWeigher"]  # type: ignore[attr-defined]

    decision = decided(tree, a_spec(50, weighing=Unweighed()))
    plan = decision.plan

    assert len(plan.entries) == 50
    assert plan.complete is False
    assert "weighing_unknown" in {step.code for step in decision.trace.why}


# -- the key -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [[], ["c286696d887c9aa0611bbb3e2025a45b"], ["ab" * 16]])
def test_a_zone_without_a_key_refuses_select_and_boots_its_own_hosts(tree: Tree, keys: list[str]) -> None:
    tree.add("keyless", parent="root", hosts_=[a_host("k1")], build_plan_encryption_key=keys)
    keyless = tree.nodes["keyless"]
    tree.add("below", parent="keyless", hosts_=[a_host("b1")])
    tree.poll(1)

    answer = ask(keyless, a_spec())
    assert answer.status == 503
    assert answer.json["serviceUnavailable"]["error_code"] == "zone_has_no_key"
    assert asked_of(tree, "below") == 0

    plan = decided(tree, a_spec(100)).plan
    assert (plan.complete, asked_of(tree, "keyless")) == (False, 0)

    own = keyless.client()
    own.post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 1024, "disk": 1}})
    booted = own.post("/zones/boot", {"server": {"name": "vm", "flavorRef": "small", "num_instances": 3}})
    tree.settle(1)
    shown = own.get(f"/reservations/{booted.json['reservation_id']}").json["reservation"]
    assert [status for _, status in map(dict.values, shown["instances"])] == ["BUILD"] * 3


# -- how much a parent may learn ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "alternates", "offered"),
    [(1, 0, (1, 0)), (4, 3, (4, 1)), (5, 3, (5, 0)), (20, 3, (5, 0)), (1, 1, (1, 1)), (2, 9, (2, 3))],
)
def test_an_answer_never_has_more_entries_than_the_zone_allows(
    tree: Tree, count: int, alternates: int, offered: tuple[int, int]
) -> None:
    many = [a_host(f"m{n}") for n in range(9)]
    tree.add("tight", parent="root", hosts_=many, max_entries_per_select=5)

    answer = ask(tree.nodes["tight"], a_spec(count, alternates=alternates))

    assert (len(answer.json["weights"]), len(answer.json["alternates"])) == offered


@pytest.mark.parametrize(("count", "alternates", "bundles"), [(5, 3, 1), (2, 3, 2), (1, 9, 5), (3, 0, 1)])
def test_bundles_are_counted_by_their_entries(tree: Tree, count: int, alternates: int, bundles: int) -> None:
    many = [a_host(f"m{n}") for n in range(9)]
    tree.add("tight", parent="root", hosts_=many, max_entries_per_select=5)

    answer = ask(tree.nodes["tight"], a_spec(count, alternates=alternates, policy=Policy.AFFINITY))

    assert [len(bundle["blobs"]) for bundle in answer.json["bundles"]] == [count] * bundles


@pytest.mark.parametrize("zone", ["tight", "between"])
def test_a_group_larger_than_an_answer_gets_no_offer_that_says_there_may_be_places(
    tree: Tree, zone: str
) -> None:
    tree.add("between", parent="root")
    tree.add("tight", parent="between", hosts_=[a_host("m1")], max_entries_per_select=5)
    tree.poll()

    answer = ask(tree.nodes[zone], a_spec(6, policy=Policy.AFFINITY))

    assert answer.status == 200, answer.body
    offered = {key: answer.json[key] for key in ("weights", "alternates", "bundles", "complete", "more")}
    assert offered == {"weights": [], "alternates": [], "bundles": [], "complete": True, "more": True}


def test_bundles_of_another_zone_hide_that_one_may_have_more(tree: Tree) -> None:
    tree.add("between", parent="root", hosts_=[a_host("b1")])
    tree.add("tight", parent="between", hosts_=[a_host("m1")], max_entries_per_select=5)
    tree.poll()

    answer = ask(tree.nodes["between"], a_spec(6, policy=Policy.AFFINITY))

    assert (len(answer.json["bundles"]), answer.json["more"]) == (1, False)


# -- why not -----------------------------------------------------------------------------------------------


@built_once
def an_explaining_tree(folder: Path, leaf: str, region: str) -> Tree:
    """4 hosts in region and 5 in its leaf; one and two of them have the trait."""
    fast: dict[str, Any] = {"traits": ["CUSTOM_FAST"]}
    tree = Tree(folder)
    tree.add("root")
    own = [a_host("g1", **fast), *(a_host(f"g{n}") for n in range(2, 5))]
    tree.add("region", parent="root", hosts_=own, explain_to_parent=region)
    below = [a_host("l1", **fast), a_host("l2", **fast), *(a_host(f"l{n}") for n in range(3, 6))]
    tree.add("leaf", parent="region", hosts_=below, explain_to_parent=leaf)
    tree.poll(1)
    return tree


def why_of(tmp_path: Path, leaf: str, region: str) -> list[dict[str, Any]]:
    """Reasons of region, for its hosts and its leaf's."""
    tree = an_explaining_tree(tmp_path, leaf, region)
    answer = ask(tree.nodes["region"], a_spec(flavor=asking(trait_CUSTOM_FAST="required")))
    assert answer.json["complete"] is True
    why: list[dict[str, Any]] = answer.json["why"]
    return why


def test_counts_add_up_over_the_subtree(tmp_path: Path) -> None:
    why = why_of(tmp_path, "counts", "counts")

    assert {"filter": "TraitsFilter", "code": "traits_not_met", "before": 9, "after": 3} in why
    assert {line["before"] for line in why} == {9, 3}
    assert [line["filter"] for line in why] == sorted(line["filter"] for line in why)


def test_a_zone_tells_its_own_counts_where_its_child_tells_reasons(tmp_path: Path) -> None:
    why = why_of(tmp_path, "reasons", "counts")

    assert {"filter": "TraitsFilter", "code": "traits_not_met", "before": 4, "after": 1} in why


@pytest.mark.parametrize("leaf", ["none", "reasons", "counts"])
def test_reasons_name_what_refused_any_host_and_nothing_else(tmp_path: Path, leaf: str) -> None:
    assert why_of(tmp_path, leaf, "reasons") == [{"filter": "TraitsFilter", "code": "traits_not_met"}]


@pytest.mark.parametrize("leaf", ["none", "reasons", "counts"])
def test_none_tells_nothing_also_of_what_is_below(tmp_path: Path, leaf: str) -> None:
    assert why_of(tmp_path, leaf, "none") == []


# -- what a parent may ask ---------------------------------------------------------------------------------


@pytest.mark.parametrize("hint", ["force_hosts", "force_nodes", "ignore_hosts", "build_near_host_ip", "cidr"])
def test_hints_that_name_hosts_or_addresses_are_refused(tree: Tree, hint: str) -> None:
    leaf = tree.nodes["leaf"]
    blob = ask(leaf, a_spec()).json["weights"][0]["blob"]
    hints = {hint: "l1"}
    build = {"reservation_id": REQUEST, "builds": [{"uuid": REQUEST, "attempt": 1, "blobs": [blob]}]}

    answers = [
        ask(leaf, a_spec(), hints=hints),
        leaf.client("parent-region").post(
            "/servers", {"server": build, "request_spec": {**spec_to_wire(a_spec()), "hints": hints}}
        ),
    ]

    for answer in answers:
        assert answer.status == 403
        assert answer.json["forbidden"]["error_code"] == "hint_refused"
        assert answer.json["forbidden"]["field"] == f"request_spec.hints.{hint}"


@pytest.mark.parametrize(
    ("words", "true_of_l1"),
    [
        (("hostname", "host", "name", "hypervisor_hostname", "nodename"), "l1"),
        (("address", "host_ip", "ip"), "10.0.0.1"),
        (("id", "uuid", "host_id"), ""),
        (("availability_zone", "zone"), "az1"),
        (("service", "service_id"), "agent"),
    ],
)
def test_queries_see_neither_names_nor_addresses_nor_ids(
    tree: Tree, words: tuple[str, ...], true_of_l1: str
) -> None:
    leaf = tree.nodes["leaf"]
    ids = {view.name: view.id for view in hosts.list_hypervisors(leaf.zone)}

    for word in words:
        for query in (f'["=", "${word}", "{true_of_l1 or ids["l1"]}"]', f'["=", "${word}", "${word}"]'):
            answer = ask(leaf, a_spec(), filter_query=query)
            assert (answer.status, answer.json["badRequest"]["error_code"]) == (400, "filter_query_invalid")


def test_requested_filters_are_added_and_never_take_the_place_of_the_zones_own(tree: Tree) -> None:
    own = ["ComputeFilter", "tests.builders.own_plugins.GpuKindFilter"]
    gpu: dict[str, Any] = {"capabilities": {"gpu": "a100"}}
    some = [a_host("plain", ram_mb=65536), a_host("gpu", **gpu), a_host("small-gpu", ram_mb=4096, **gpu)]
    tree.add("gpus", parent="root", hosts_=some, enabled_filters=own)
    gpus = tree.nodes["gpus"]

    def offered(**changes: Any) -> int:
        # Bundles of one are hosts.
        spec = a_spec(alternates=9, policy=Policy.AFFINITY)
        return len(ask(gpus, spec, **changes).json["bundles"])

    assert offered() == 2
    assert offered(filters=["AllHostsFilter"]) == 2
    assert offered(filters=["JSONFilter"], filter_query='[">=", "$free_ram_mb", 8192]') == 1
    assert offered(filter_query='["<", "$free_ram_mb", 8192]') == 1


def test_a_zone_that_does_not_know_a_filter_offers_nothing_and_says_so(tree: Tree) -> None:
    answer = ask(tree.nodes["leaf"], a_spec(), filters=["own.Filter"])

    assert answer.status == 200
    assert answer.json["weights"] == answer.json["alternates"] == answer.json["bundles"] == []
    # A boot that asked again would hear the same.
    assert answer.json["complete"] is True
    assert answer.json["why"] == [{"filter": "own.Filter", "code": "filter_unknown"}]


@pytest.mark.parametrize(
    ("option", "plugin", "told"),
    [
        ("enabled_filters", "BrokenFilter", {"filter": "filters", "code": "filter_failed"}),
        ("weight_classes", "BrokenWeigher", {"filter": "weighing", "code": "weigher_failed"}),
    ],
)
def test_a_plugin_below_that_fails_is_told_upward_by_its_code_alone(
    tree: Tree, option: str, plugin: str, told: Any
) -> None:
    options: dict[str, Any] = {option: [f"tests.builders.own_plugins.{plugin}"]}
    broken = tree.add("broken", parent="root", hosts_=[a_host("b1")], **options)
    scale = ScoreWeighing((WeigherScale(f"tests.builders.own_plugins.{plugin}", 0.0, 1.0, 1.0),))
    spec = a_spec(weighing=scale) if option == "weight_classes" else a_spec()

    answer = ask(broken, spec)

    assert (answer.status, answer.json["complete"], answer.json["weights"]) == (200, False, [])
    assert answer.json["why"] == [told]
    assert b"b1" not in answer.body and plugin.encode() not in answer.body


def test_a_boot_is_told_that_a_weigher_below_fails(tree: Tree) -> None:
    """It misses its hint; its bounds are declared, so it takes part."""
    path = "tests.builders.own_plugins.BoundedWeigher"
    root = tree.add("top", weight_classes=[path], max_attempts=1)
    tree.add("below", parent="top", hosts_=[a_host("b1")], weight_classes=[path])
    tree.poll(2)
    root.client().post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 1, "disk": 1}})

    made = root.client().post("/zones/boot", {"server": {"name": "vm", "flavorRef": "small"}})

    tree.settle(1)
    path = f"/reservations/{made.json['reservation_id']}"
    [reason] = root.client().get(path).json["reservation"]["reasons"]
    assert (reason["code"], reason["refused_by"]) == ("no_valid_host_incomplete", ["weigher_failed"])


# -- who is asked ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"flavor": Flavor("f", "f", 17, 1024, 1)},
        {"flavor": asking(resources_CUSTOM_GPU="1")},
        {"flavor": asking(trait_CUSTOM_FAST="required")},
        {"flavor": asking(zone_tier="gold")},
        {"availability_zone": "az2"},
    ],
    ids=["amount", "class", "trait", "zone-capability", "availability-zone"],
)
def test_a_child_known_not_to_fit_is_not_asked_and_counts_as_answered(tree: Tree, changes: Any) -> None:
    plan = decided(tree, a_spec(5, **changes)).plan

    assert plan.complete is True
    assert asked_of(tree, "region") == 0


def test_a_child_is_never_judged_by_what_is_free(tree: Tree) -> None:
    for node in tree.nodes.values():
        node.client().post("/flavors", {"flavor": {"name": "all", "vcpus": 16, "ram": 32768, "disk": 500}})
    full = tree.nodes["leaf"].client()
    full.post("/zones/boot", {"server": {"name": "vm", "flavorRef": "all", "num_instances": 2}})
    tree.settle(1)
    tree.poll(1)

    plan = decided(tree, a_spec(500)).plan

    assert asked_of(tree, "leaf") == 1
    assert plan.complete is True


def test_a_child_that_lacks_word_from_below_is_asked_whatever_it_lists(tree: Tree) -> None:
    tree.add("mute", parent="region")
    tree.network.mount(tree.nodes["mute"].url, ChildApp())
    tree.poll(1)

    plan = decided(tree, a_spec(flavor=asking(trait_CUSTOM_FAST="required"))).plan

    assert asked_of(tree, "region") == 1
    assert plan.complete is False


# -- the path ----------------------------------------------------------------------------------------------


def test_a_zone_that_finds_itself_on_the_path_offers_nothing_and_is_complete(tree: Tree) -> None:
    leaf = tree.nodes["leaf"]

    answer = ask(leaf, a_spec(), path=["10101010-1010-4010-8010-101010101010", leaf.zone.uuid])

    assert (answer.json["weights"], answer.json["complete"]) == ([], True)


def test_the_end_of_a_full_path_offers_nothing_and_is_incomplete(tree: Tree) -> None:
    path = [tree.clock.new_uuid() for _ in range(16)]

    assert len(ask(tree.nodes["leaf"], a_spec(), path=path[:15]).json["weights"]) == 1
    answer = ask(tree.nodes["leaf"], a_spec(), path=path)

    assert (answer.json["weights"], answer.json["complete"]) == ([], False)
    assert answer.json["why"] == [{"filter": "path", "code": "path_too_long"}]


# -- a child that lies spoils its own offers only ----------------------------------------------------------


def a_lying_child(tree: Tree, offer: dict[str, Any], **info: Any) -> ChildApp:
    """A child of region that says this to a select."""
    app = ChildApp()
    app.answers("GET", "/zones/info", 200, an_info(7, **info))
    app.answers("POST", "/zones/select", 200, offer)
    tree.network.mount(LIAR, app)
    children.add(tree.nodes["region"].zone, ChildForm("liar", LIAR, "parent-region", "secret"))
    tree.poll(1)
    return app


def an_offer(**changes: Any) -> dict[str, Any]:
    entry = {"weight": 0, "tie": 0, "blob": blob_to_text(bytes(256))}
    return {
        "version": 1,
        "weights": [entry],
        "alternates": [],
        "complete": True,
        "expires_in": 60.0,
    } | changes


def test_offers_outlive_a_childs_offers_that_expire_at_once(tree: Tree) -> None:
    app = a_lying_child(tree, an_offer(expires_in=0.0))
    region = tree.nodes["region"]
    spec = a_spec(3)
    app.asked.clear()

    answer = ask(region, spec)
    tree.clock.advance(30)

    assert [asked.method for asked in app.asked].count("POST") == 1
    assert answer.json["expires_in"] == 0.0
    caller_id = next(u.id for u in users.list_users(region.zone.store) if u.name == "parent-root")
    bound = Bound(region.zone.uuid, caller_id, spec.project_id, content_digest(spec))
    for entry in answer.json["weights"]:
        [opened] = region.zone.envelope.open_entries(bound, [entry["blob"]])
        assert isinstance(opened, OpenedEntry)


@pytest.mark.parametrize("how_much", ["reasons", "counts"])
def test_reasons_that_a_child_makes_up_leave_the_answer_one_that_is_taken(tree: Tree, how_much: str) -> None:
    made_up = [
        {"filter": f"A{n:02}", "code": "no", "before": MAX_COUNT, "after": MAX_COUNT - 1}
        for n in range(MAX_WHY)
    ]
    a_lying_child(tree, an_offer(why=made_up))
    tree.nodes["region"].zone.conf.set_override("explain_to_parent", how_much)
    spec = a_spec(40, flavor=asking(trait_CUSTOM_FAST="forbidden"))
    vcpus_missing = {"filter": "CoreFilter", "code": "not_enough_vcpus"}

    why = ask(tree.nodes["region"], spec).json["why"]
    plan = decided(tree, spec).plan

    assert len(why) == MAX_WHY
    assert vcpus_missing.items() <= {**next(line for line in why if line["filter"] == "CoreFilter")}.items()
    assert (len(plan.entries), plan.complete) == (40, True)


def test_a_code_of_a_plugin_that_is_no_code_leaves_the_answer_one_that_is_taken(tmp_path: Path) -> None:
    # given
    tree = Tree(tmp_path)
    tree.add("root")
    some = [a_host("plain"), a_host("gpu", capabilities={"gpu": "a100"})]
    own = ["ComputeFilter", "tests.builders.own_plugins.FreelyCodedFilter"]
    tree.add("gpus", parent="root", hosts_=some, enabled_filters=own)
    tree.poll(1)

    # when
    decision = decided(tree, a_spec(3))

    # then
    assert (len(decision.plan.entries), decision.plan.complete) == (3, True)
    assert decision.trace.children[0].why == (Refusal("FreelyCodedFilter", "no_gpu_"),)


@pytest.mark.parametrize("name", ["zone", "n" * 129, "fewest-first", "", "own filter"])
@pytest.mark.parametrize("code", ["no_gpu", "NO-GPU", "c" * 65, "", "kein Gerät"])
def test_names_and_codes_of_plugins_are_read_by_a_parent(name: str, code: str) -> None:
    (line,) = explain([FunnelStep(name, code, 2, 1)], "counts")

    body = orjson.dumps(an_offer(why=[line]))

    assert read_offer(body, a_spec(), MAX_BLOB_BYTES).why == (FunnelStep(line["filter"], line["code"], 2, 1),)


def test_a_reason_without_counts_is_not_hidden_by_counts_of_a_zone_that_refused_none() -> None:
    bare = {"filter": "F", "code": "c"}

    assert explain([FunnelStep("F", "c", 0, 0), Refusal("F", "c")], "counts") == [bare]
    assert explain([FunnelStep("F", "c", 4, 4), Refusal("F", "c")], "counts") == [bare]
    assert explain([FunnelStep("F", "c", 4, 1), Refusal("F", "c")], "counts") == [
        {**bare, "before": 4, "after": 1}
    ]


def test_counts_stay_within_what_a_parent_takes() -> None:
    lines = explain([FunnelStep("F", "c", MAX_COUNT, MAX_COUNT - 5)] * 3, "counts")

    assert lines == [{"filter": "F", "code": "c", "before": MAX_COUNT, "after": MAX_COUNT}]


# -- and nothing else --------------------------------------------------------------------------------------


def everything_in(node: Node) -> dict[str, list[Any]]:
    """All rows of a zone."""

    def fn(tx: sa.Connection) -> dict[str, list[Any]]:
        names = sa.inspect(tx).get_table_names()
        return {name: list(tx.execute(sa.text(f"SELECT * FROM {name}"))) for name in names}

    return node.zone.store.read(fn)


def test_a_select_writes_nothing_anywhere(tree: Tree) -> None:
    before = {name: everything_in(node) for name, node in tree.nodes.items()}

    assert len(decided(tree, a_spec(20)).plan.entries) == 20
    assert ask(tree.nodes["region"], a_spec(20, policy=Policy.AFFINITY)).status == 200

    assert {name: everything_in(node) for name, node in tree.nodes.items()} == before


def test_a_host_that_failed_for_this_request_is_left_out_of_it_alone(tree: Tree) -> None:
    zone = tree.nodes["leaf"].zone
    names = {view.name: view.id for view in hosts.list_hypervisors(zone)}
    put_reservation(zone, REQUEST)
    lost = ClaimedHost(names["l1"], {"VCPU": 1})
    put_place(zone, put_instance(zone, reservation_id=REQUEST), lost, reservation_id=REQUEST,
              state=PlacementState.FAILED, claimed=False)  # fmt: skip

    def hosts_for(request_id: str) -> set[Any]:
        spec = a_spec(40, request_id=request_id)
        return {entry.place for entry in decided(tree, spec, "leaf").plan.entries}

    assert hosts_for(REQUEST) == {LocalPlace(names["l2"])}
    assert hosts_for("another") == {LocalPlace(names["l1"]), LocalPlace(names["l2"])}


def test_a_childs_weights_are_adjusted_by_its_offset_and_scale(tree: Tree) -> None:
    weights = [entry["weight"] for entry in ask(tree.nodes["region"], a_spec(30)).json["weights"]]
    child = tree.nodes["root"].zone.children.snapshot()[0].child
    change = ChildChange(weight_offset=-1000.0, weight_scale=0.5)
    children.change(tree.nodes["root"].zone, child.id, change)

    entries = decided(tree, a_spec(30)).plan.entries

    assert [entry.weight for entry in entries] == [adjust(weight, -1000.0, 0.5) for weight in weights]
