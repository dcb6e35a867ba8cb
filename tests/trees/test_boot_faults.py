"""P2 and P6 in boots: calls between zones lost, doubled, late or refused; users who change their mind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.boots import BODY, FLAVOR, a_building_tree, a_small_tree, boot, counts, rows
from tests.builders.crashes import heal, inconsistencies
from tests.builders.parent_calls import RESERVATION, a_spec, hold, of_builds, offered, send, uuid
from tests.builders.timed_network import NEVER, SideBySide, TimedNetwork, Timeline
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead, Duplicate, Fault, LostReply, Replace, Slow
from zonesched.model.placement import PlacementState
from zonesched.services import background
from zonesched.services.children import children
from zonesched.store import reservations
from zonesched.zones import parts
from zonesched.zones.client import BUDGET_HEADER

State = PlacementState

FAULTS: dict[str, Callable[[str], Fault]] = {
    "lost reply": lambda path: LostReply(times=1, path=path),
    "lost replies": lambda path: LostReply(times=3, path=path),
    "twice": lambda path: Duplicate(path=path),
    "late": lambda path: Slow(1000.0, times=2, path=path),
    "dead for a while": lambda path: Dead(times=4, path=path),
    "garbage": lambda path: Replace(times=1, path=path, status=200, body=b"{]"),
    "server error": lambda path: Replace(times=1, path=path, status=500, body=b"secret"),
}


@pytest.mark.slow
@pytest.mark.parametrize("edge", ["region", "leaf-a", "leaf-b"])
@pytest.mark.parametrize("path", ["/zones/select", "/servers", "/confirm"])
@pytest.mark.parametrize("kind", FAULTS)
def test_a_faulty_call_changes_nothing_in_the_end(tmp_path: Path, edge: str, path: str, kind: str) -> None:
    tree = a_small_tree(tmp_path)
    tree.network.fault(tree.nodes[edge].url, FAULTS[kind](path))

    reservation_id = boot(tree)
    tree.settle(3)
    tree.network.heal(tree.nodes[edge].url)
    heal(tree)

    assert inconsistencies(tree) == []
    assert counts(tree, reservation_id) in ({"BUILD": 12}, {"ERROR": 12})


@pytest.mark.parametrize(("parent", "child"), [("root", "leaf-b"), ("region", "leaf-a")])
def test_a_child_that_another_process_has_removed_is_given_nothing_more(
    tmp_path: Path, parent: str, child: str
) -> None:
    tree = a_small_tree(tmp_path)
    # given two processes of a zone: one of them works, and still knows the child that the other removes
    working = tree.nodes[parent]
    tree.restart(parent)
    (child_id,) = [
        c.id for c in children.list_children(working.zone.store, working.zone.children) if c.name == child
    ]
    children.remove(tree.nodes[parent].zone, child_id)
    tree.nodes[parent] = working
    tree.network.mount(working.url, working.app)

    reservation_id = boot(tree, num_instances=8)
    tree.settle(3)

    there = rows(tree, parent, f"SELECT state, reason FROM placements WHERE child_id = '{child_id}'")
    assert set(there) == {("failed", "zone_lost")}
    assert counts(tree, reservation_id) == {"BUILD": 8}


def test_a_boot_that_waited_for_all_children_goes_to_the_best_host(tmp_path: Path) -> None:
    # given: a zone that knows of no host when it is asked
    tree = Tree(tmp_path)
    root = tree.add("root")
    hosts = [a_host(f"h{number}", ram_mb=8192 * number) for number in range(1, 9)]
    leaf = tree.add("leaf", parent="root", hosts_=hosts)
    root.client().post("/flavors", FLAVOR)
    tree.network.fault(leaf.url, Dead())
    tree.poll()
    reservation_ids = [boot(tree, num_instances=1) for _ in range(2)]
    tree.settle()

    # when its child is back
    tree.network.heal(leaf.url)
    tree.poll()
    tree.clock.advance(root.zone.conf.retry_pause_max)
    tree.settle()

    # then
    assert [counts(tree, reservation_id) for reservation_id in reservation_ids] == [{"BUILD": 1}] * 2
    placed = rows(tree, "leaf", "SELECT h.name FROM placements p JOIN hosts h ON h.id = p.host_id")
    assert sorted(placed) == [("h7",), ("h8",)]


@pytest.mark.parametrize(
    ("hanging", "ends_after_s"), [(["/servers"], 13.0), (["/servers", "/reservations"], 200.0)]
)
def test_a_child_that_hangs_when_it_is_to_hold_costs_no_boot_that_fits_elsewhere(
    tmp_path: Path, hanging: list[str], ends_after_s: float
) -> None:
    clock = Timeline()
    tree = Tree(tmp_path, clock, network=(network := TimedNetwork(clock)), executor=SideBySide(clock))
    tree.add("root")
    for name in ("a", "b", "c"):
        tree.add(name, parent="root", hosts_=[a_host(name, vcpus=16)])
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    # It goes on to offer its host. Cancels that hang are repeated one after the other here.
    network.takes = {tree.nodes["a"].url + path: NEVER for path in hanging}
    began_at = clock.now()

    reservation_id = boot(tree, num_instances=6)
    while clock.now() < began_at + ends_after_s:
        tree.settle(2)
        tree.clock.advance(1.0)
        tree.beat()

    assert placed_in(tree, "root") == {"b": 3, "c": 3}
    assert counts(tree, reservation_id) == {"BUILD": 6}


def test_a_boot_after_one_that_a_child_kept_waiting_tries_the_others_first(tmp_path: Path) -> None:
    # given a child with the best host, which hangs when it is to hold
    clock = Timeline()
    tree = Tree(tmp_path, clock, network=(network := TimedNetwork(clock)), executor=SideBySide(clock))
    root = tree.add("root").zone
    tree.add("a", parent="root", hosts_=[a_host("a", vcpus=16, ram_mb=65536)])
    tree.add("b", parent="root", hosts_=[a_host("b", vcpus=16)])
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    network.takes = {tree.nodes["a"].url + "/servers": NEVER}

    def boot_one() -> float:
        began_at = clock.monotonic()
        boot(tree, num_instances=1)
        background.work_on_boots(root)
        return clock.monotonic() - began_at

    # when
    waited_s, next_waited_s = boot_one(), boot_one()

    # then the first waits for it, and the next one does not, whatever its polls say
    assert (waited_s, next_waited_s) == ((root.conf.hold - root.conf.hold_margin) / 2, 0.0)
    tree.poll()
    assert {c.name: c.last_error for c in children.list_children(root.store, root.children)} == {
        "a": "child_hold_timeout",
        "b": "",
    }
    assert boot_one() == 0.0

    # and when its minute is over it is tried again, and counts as any other once it holds
    network.takes = {}
    tree.clock.advance(61.0)
    tree.beat()
    assert boot_one() == 0.0
    assert [c.last_error for c in children.list_children(root.store, root.children)] == ["", ""]
    assert placed_in(tree, "root") == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    ("budget_s", "bytes_of_a_call", "counts"),
    [(0.05, parts.MOST_BYTES, 0), (4.0, parts.MOST_BYTES, 0), (10.0, parts.MOST_BYTES, 1), (10.0, 1, 0)],
)
def test_only_a_child_that_had_time_to_hold_counts_as_slow_to_hold(
    two_leaves: tuple[Tree, TimedNetwork],
    monkeypatch: pytest.MonkeyPatch,
    budget_s: float,
    bytes_of_a_call: int,
    counts: int,
) -> None:
    tree, network = two_leaves
    monkeypatch.setattr(parts, "MOST_BYTES", bytes_of_a_call)
    region = tree.nodes["region"]
    network.takes = {tree.nodes["a"].url + "/servers": NEVER}

    spec = a_spec(4)
    blobs = dict(enumerate(offered(region, "parent-root", spec)))
    send(region, "parent-root", replace(spec, time_budget_s=budget_s), blobs)

    assert len(region.zone.children.holds.last()) == counts


def test_no_worker_waits_for_the_cancels_of_a_child_that_hangs(tmp_path: Path) -> None:
    clock = Timeline()
    tree = Tree(tmp_path, clock, network=(network := TimedNetwork(clock)), executor=SideBySide(clock))
    root = tree.add("root").zone
    tree.add("a", parent="root", hosts_=[a_host("a", vcpus=16)])
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    network.takes = {tree.nodes["a"].url + path: NEVER for path in ("/servers", "/reservations")}
    began_at = clock.now()

    boot(tree, num_instances=1)
    background.work_on_boots(root)

    assert rows(tree, "root", "SELECT state FROM placements") == [("cancelling",)]
    to_hold_s = (root.conf.hold - root.conf.hold_margin) / 2
    assert clock.now() - began_at <= to_hold_s + root.conf.retry_pause


def test_a_boot_that_has_its_min_count_waits_for_no_answer_of_a_child_that_hangs(tmp_path: Path) -> None:
    # given a child that offers its host, and hangs when it is to hold it and to cancel that
    clock = Timeline()
    tree = Tree(tmp_path, clock, network=(network := TimedNetwork(clock)), executor=SideBySide(clock))
    tree.add("root")
    for name in ("a", "b"):
        tree.add(name, parent="root", hosts_=[a_host(name, vcpus=4)])
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    network.takes = {tree.nodes["a"].url + path: NEVER for path in ("/servers", "/reservations")}

    # when
    reservation_id = boot(tree, num_instances=4, min_count=2)
    background.work_on_boots(tree.nodes["root"].zone)

    # then what the other one holds is built, while the rest may still be
    assert placed_in(tree, "root") == {"b": 2}
    assert counts(tree, reservation_id) == {"BUILD": 4}


@pytest.fixture
def two_leaves(tmp_path: Path) -> tuple[Tree, TimedNetwork]:
    """A region whose two leaves get half of a boot each."""
    clock = Timeline()
    network = TimedNetwork(clock)
    tree = Tree(tmp_path, clock, network=network, executor=SideBySide(clock))
    tree.add("root")
    tree.add("region", parent="root")
    for name in ("a", "b"):
        tree.add(name, parent="region", hosts_=[a_host(name, vcpus=4)])
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    return tree, network


def test_one_leaf_that_hangs_when_it_is_to_confirm_leaves_no_others_unknown(
    two_leaves: tuple[Tree, TimedNetwork],
) -> None:
    tree, network = two_leaves
    network.takes = {tree.nodes["a"].url + "/reservations": NEVER}

    reservation_id = boot(tree, num_instances=4)
    background.work_on_boots(tree.nodes["root"].zone)

    assert placed_in(tree, "region") == {"b": 2}
    assert placed_in(tree, "root") == {"region": 2}
    assert counts(tree, reservation_id) == {"BUILD": 2, "UNKNOWN": 2}


@pytest.mark.parametrize("budget", ["10", "2.5", "0.001"])
def test_one_leaf_that_hangs_when_it_is_to_cancel_keeps_no_others_waiting(
    two_leaves: tuple[Tree, TimedNetwork], budget: str
) -> None:
    tree, network = two_leaves
    region = tree.nodes["region"]
    assert of_builds(hold(region, "parent-root", range(4)), "state") == ["held"] * 4
    network.takes = {tree.nodes["a"].url + "/reservations": NEVER}
    began_at = tree.clock.monotonic()

    body = {"builds": [{"uuid": uuid(number), "attempt": 1} for number in range(4)]}
    answer = region.client("parent-root").post(
        f"/reservations/{RESERVATION}/cancel", body, headers={BUDGET_HEADER: budget}
    )

    assert Counter(of_builds(answer, "state")) == {"gone": 2, "pending": 2}
    assert tree.clock.monotonic() - began_at < max(0.1, float(budget))


@pytest.mark.parametrize("budget", ["", "-1", "1e3", "soon", "99999", "٣"])
def test_a_time_budget_that_is_no_number_of_seconds_is_refused(
    two_leaves: tuple[Tree, TimedNetwork], budget: str
) -> None:
    body = {"builds": [{"uuid": uuid(1), "attempt": 1}]}
    client = two_leaves[0].nodes["region"].client("parent-root")
    answer = client.post(f"/reservations/{RESERVATION}/confirm", body, headers={BUDGET_HEADER: budget})
    assert (answer.status, answer.json["badRequest"]["field"]) == (400, BUDGET_HEADER)


def placed_in(tree: Tree, name: str) -> Counter[str]:
    """The confirmed places of a zone by the name of its child."""
    statement = (
        "SELECT z.name FROM placements p JOIN children z ON z.id = p.child_id WHERE p.state = 'confirmed'"
    )
    return Counter(child for (child,) in rows(tree, name, statement))


def test_an_unanswered_confirm_is_unknown_until_it_is_answered(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    for edge in ("region", "leaf-b"):
        tree.network.fault(tree.nodes[edge].url, LostReply(path="/reservations"))

    reservation_id = boot(tree)
    tree.settle()

    assert counts(tree, reservation_id)["UNKNOWN"] > 0
    for edge in ("region", "leaf-b"):
        tree.network.heal(tree.nodes[edge].url)
    heal(tree)
    assert counts(tree, reservation_id) == {"BUILD": 12}
    assert inconsistencies(tree) == []


def test_what_is_deleted_while_a_child_is_away_is_deleted_when_it_is_back(tmp_path: Path) -> None:
    tree = a_building_tree(tmp_path)
    root = tree.nodes["root"].client()
    uuids = [s["id"] for s in root.get("/servers").json["servers"]]
    assert len(uuids) == 12

    tree.network.fault(tree.nodes["region"].url, Dead())
    assert {root.delete(f"/servers/{uuid}").status for uuid in uuids} == {204}
    assert root.get("/servers").json["servers"] == []
    assert inconsistencies(tree) != []

    tree.network.heal(tree.nodes["region"].url)
    heal(tree)
    assert inconsistencies(tree) == []
    assert {root.delete(f"/servers/{uuid}").status for uuid in uuids} == {404}


@pytest.mark.parametrize("after_rounds", [0, 1, 2])
def test_an_instance_deleted_while_it_is_placed_leaves_nothing(tmp_path: Path, after_rounds: int) -> None:
    tree = a_small_tree(tmp_path)
    tree.network.fault(tree.nodes["leaf-b"].url, LostReply(times=2, path="/servers"))
    root = tree.nodes["root"].client()
    reservation_id = boot(tree)
    tree.settle(after_rounds)

    for server in root.get(f"/servers?reservation_id={reservation_id}").json["servers"][:7]:
        assert root.delete(f"/servers/{server['id']}").status == 204
    heal(tree)

    assert inconsistencies(tree) == []
    assert counts(tree, reservation_id) == {"BUILD": 5, "DELETED": 7}


def test_a_batch_that_does_not_fit_leaves_nothing(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)

    reservation_id = boot(tree, num_instances=27)
    tree.settle()

    assert counts(tree, reservation_id) == {"ERROR": 27}
    assert inconsistencies(tree) == []


def test_min_count_takes_what_fits(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)

    reservation_id = boot(tree, num_instances=30, min_count=20)
    tree.settle()

    assert counts(tree, reservation_id) == {"BUILD": 26, "ERROR": 4}
    assert inconsistencies(tree) == []
    # One select has all that there is, and says what was offered.
    read = tree.nodes["root"].zone.store.read
    (made,) = read(lambda tx: reservations.read_ids(tx, [reservation_id])).values()
    assert (made.selects, made.why.own.offered, [c.offered for c in made.why.children]) == (1, 2, [16, 8])


def test_a_repeat_under_the_same_key_is_the_same_boot(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    root = tree.nodes["root"].client()
    key = {"Idempotency-Key": "k-1"}

    first = root.post("/zones/boot", BODY, headers=key)
    second = root.post("/zones/boot", BODY, headers=key)
    other = root.post("/zones/boot", {"server": BODY["server"] | {"num_instances": 3}}, headers=key)

    assert first.json == second.json
    assert (other.status, other.json["conflictingRequest"]["error_code"]) == (409, "idempotency_key_reused")
    assert len(root.get("/servers").json["servers"]) == 12


def test_an_affinity_group_is_on_one_host(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    answer = (
        tree.nodes["root"]
        .client()
        .post(
            "/zones/boot",
            {
                "server": {"name": "vm", "flavorRef": "small", "num_instances": 6},
                "os:scheduler_hints": {"group_policy": "affinity"},
            },
        )
    )
    assert answer.status == 202, answer.body
    tree.settle()

    assert counts(tree, answer.json["reservation_id"]) == {"BUILD": 6}
    assert inconsistencies(tree) == []
    on_hosts = "SELECT host_id FROM placements WHERE kind = 'host'"
    places = [(name, row) for name in tree.nodes for row in rows(tree, name, on_hosts)]
    assert len(places) == 6
    assert len(set(places)) == 1


def test_a_server_that_is_looked_at_before_its_confirm_is_answered_is_placed_again_all_the_same(
    tmp_path: Path,
) -> None:
    # Given: a zone that no confirm has reached, and that has given its holds up since
    tree = a_small_tree(tmp_path)
    root, leaf = tree.nodes["root"].client(), tree.nodes["leaf-b"]
    tree.network.fault(leaf.url, Dead(path="/confirm"))
    reservation_id = boot(tree)
    tree.settle(1)
    held = [uuid for uuid, *_ in rows(tree, "leaf-b")]
    tree.clock.advance(60)
    tree.step("leaf-b")
    assert held
    assert counts(tree, reservation_id) == {"BUILD": 12 - len(held), "UNKNOWN": len(held)}

    # When
    tree.network.heal(leaf.url)
    seen = {root.get(f"/servers/{uuid}").json["server"]["status"] for uuid in held}
    heal(tree)

    # Then
    assert seen == {"UNKNOWN"}
    assert counts(tree, reservation_id) == {"BUILD": 12}
    assert inconsistencies(tree) == []
