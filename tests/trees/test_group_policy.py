"""A server group's policy over a tree: whoever boots, from where, at the same time, or dies on the way."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.builders.boots import settle_until_killed
from tests.builders.crashes import Seams, heal
from tests.builders.grouped import (
    a_tree,
    boot,
    counts,
    delete_all,
    hosts_of,
    make,
    meanwhile,
    shown,
    wrong,
    zones_with_a_place,
)
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead, Duplicate, LostReply
from zonesched.services import background

pytestmark = pytest.mark.same_statements

# -- affinity: one place -----------------------------------------------------------------------------------


@pytest.mark.parametrize("flavor", ["only-a", "only-b", "only-r"])
def test_a_group_grows_on_its_host_until_that_is_full(tmp_path: Path, flavor: str) -> None:
    tree = a_tree(tmp_path)
    group = make(tree, "affinity")

    boots = [boot(tree, group, 3, flavor)]
    tree.settle()
    for _ in range(2):
        boots.append(boot(tree, group, 2))
        tree.settle()
    too_many = boot(tree, group, 2)
    tree.settle()

    # 16 VCPU hold 8 instances of 2: seven are there, and two more do not fit together.
    assert [counts(tree, b) for b in boots] == [{"BUILD": 3}, {"BUILD": 2}, {"BUILD": 2}]
    assert list(hosts_of(tree, *boots).values()) == [7]
    (reason,) = shown(tree, too_many)["reasons"]
    assert (reason["code"], reason["count"]) == ("group_place_full", 2)
    assert hosts_of(tree, too_many) == {}
    assert wrong(tree) == []


def test_a_full_place_says_so_to_the_owner_of_the_instance(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, vcpus=4)
    group = make(tree, "affinity")
    boot(tree, group, 2, "only-r")
    tree.settle()

    too_many = boot(tree, group)
    tree.settle()

    (instance,) = shown(tree, too_many)["instances"]
    server = tree.nodes["root"].client().get(f"/servers/{instance['uuid']}").json["server"]
    assert server["fault"]["error_code"] == "group_place_full"
    assert "The place of the server group has no room" in server["fault"]["message"]
    assert "group_elsewhere" in shown(tree, too_many)["reasons"][0]["refused_by"]


def test_only_the_child_with_the_group_is_asked(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    group = make(tree, "affinity")
    boot(tree, group, 1, "only-a")
    tree.settle()
    tree.network.sent.clear()

    boot(tree, group)
    tree.settle()

    asked = {
        sent.url.removesuffix("/zones/select")
        for sent in tree.network.sent
        if sent.url.endswith("/zones/select")
    }
    assert asked == {tree.nodes[name].url for name in ("region", "leaf-a")}


def test_a_group_on_an_own_host_asks_no_child(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    group = make(tree, "affinity")
    boot(tree, group, 1, "only-r")
    tree.settle()
    tree.network.sent.clear()

    second = boot(tree, group)
    tree.settle()

    assert counts(tree, second) == {"BUILD": 1}
    assert not [sent for sent in tree.network.sent if sent.url.endswith("/zones/select")]


def test_while_the_child_with_the_group_is_away_nobody_else_takes_it(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    group = make(tree, "affinity")
    boot(tree, group, 1, "only-b")
    tree.settle()
    tree.network.fault(tree.nodes["leaf-b"].url, Dead())
    tree.poll()

    second = boot(tree, group)
    for _ in range(6):
        tree.settle(1)
        tree.clock.advance(10)

    assert shown(tree, second)["reasons"][0]["code"] == "no_valid_host_incomplete"
    tree.network.heal(tree.nodes["leaf-b"].url)
    heal(tree)
    assert wrong(tree) == []


def test_the_place_goes_with_the_last_instance(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    group = make(tree, "affinity")
    first = boot(tree, group, 2, "only-a")
    tree.settle()
    assert zones_with_a_place(tree) == ["leaf-a", "region", "root"]
    elsewhere = boot(tree, group, 1, "only-b")
    tree.settle()

    delete_all(tree, first)
    tree.settle()

    assert counts(tree, elsewhere) == {"ERROR": 1}
    assert zones_with_a_place(tree) == []
    second = boot(tree, group, 1, "only-b")
    tree.settle()
    assert counts(tree, second) == {"BUILD": 1}
    assert zones_with_a_place(tree) == ["leaf-b", "root"]
    assert wrong(tree) == []


def test_the_place_stays_while_one_instance_is_there(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    group = make(tree, "affinity")
    first = boot(tree, group, 1, "only-a")
    tree.settle()
    second = boot(tree, group)
    tree.settle()

    delete_all(tree, first)
    elsewhere = boot(tree, group, 1, "only-b")
    tree.settle()

    assert counts(tree, elsewhere) == {"ERROR": 1}
    assert zones_with_a_place(tree) == ["leaf-a", "region", "root"]
    assert list(hosts_of(tree, second).values()) == [1]


@pytest.mark.own_statements
def test_a_group_is_not_its_childrens(tmp_path: Path) -> None:
    """Two parents that name the same group do not meet in it."""
    tree = Tree(tmp_path)
    tree.add("leaf", hosts_=[a_host("h1", vcpus=2), a_host("h2", vcpus=2, traits=["CUSTOM_H2"])])
    boots = {}
    for name in ("one", "two"):
        node = tree.add(name)
        tree.join(name, "leaf")
        specs = {"trait:CUSTOM_H2": "required" if name == "two" else "forbidden"}
        small = {"name": "small", "vcpus": 1, "ram": 512, "disk": 1, "extra_specs": specs}
        node.client().post("/flavors", {"flavor": small})
        tree.poll()
        made = node.client().post("/os-server-groups", {"server_group": {"name": "g", "policy": "affinity"}})
        tree_sql(tree, name, f"UPDATE server_groups SET id = '{'a' * 36}'")
        assert made.status == 200
        body = {
            "server": {"name": "vm", "flavorRef": "small", "num_instances": 2},
            "os:scheduler_hints": {"group": "g"},
        }
        boots[name] = node.client().post("/zones/boot", body).json["reservation_id"]
    tree.settle()

    assert [hosts_of(tree, boots[name]) for name in ("one", "two")] == [{"h1": 2}, {"h2": 2}]
    assert zones_with_a_place(tree) == ["leaf", "leaf", "one", "two"]


def tree_sql(tree: Tree, name: str, statement: str) -> None:
    store = tree.nodes[name].zone.store
    store.write(lambda tx: tx.exec_driver_sql(statement))


# -- affinity: races ---------------------------------------------------------------------------------------


def work(tree: Tree) -> None:
    """The root's worker takes one boot and carries it on."""
    background.work_on_boots(tree.nodes["root"].zone)


@pytest.mark.parametrize(
    ("edge", "flavor", "only_one"),
    [
        ("leaf-b", "only-r", "r"),
        ("leaf-b", "only-a", "a"),
        ("region", "only-b", "b"),
        ("region", "only-c", "c"),
    ],
)
def test_a_group_has_one_place_whoever_boots_into_it_first(
    tmp_path: Path, edge: str, flavor: str, only_one: str
) -> None:
    """The second boot is placed while the first one's select is on its way, by a trait of its own."""
    tree = a_tree(tmp_path)
    group = make(tree, "affinity")
    late = boot(tree, group, 2)
    early: list[str] = []

    def overtake() -> None:
        early.append(boot(tree, group, 2, flavor))
        work(tree)

    meanwhile(tree, edge, "/zones/select", overtake)
    tree.settle()

    assert counts(tree, early[0]) == counts(tree, late) == {"BUILD": 2}
    ((host, count),) = hosts_of(tree, early[0], late).items()
    assert (host[0], count) == (only_one, 4)
    assert wrong(tree) == []


def test_a_middle_zone_lets_one_of_two_have_the_groups_place(tmp_path: Path) -> None:
    """Both go to the region, whose row decides between leaf-a and leaf-c."""
    tree = a_tree(tmp_path)
    group = make(tree, "affinity")
    late = boot(tree, group, 2, "only-a")
    early: list[str] = []

    def overtake() -> None:
        early.append(boot(tree, group, 2, "only-c"))
        work(tree)

    meanwhile(tree, "region", "/zones/select", overtake)
    tree.settle()

    assert counts(tree, early[0]) == {"BUILD": 2}
    assert {name[0] for name in hosts_of(tree, early[0])} == {"c"}
    assert counts(tree, late) == {"ERROR": 2}
    assert shown(tree, late)["reasons"][0]["code"] == "group_place_full"
    assert wrong(tree) == []


def test_the_loser_of_a_full_place_ends_with_the_reason(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, vcpus=4)
    group = make(tree, "affinity")
    late = boot(tree, group, 1)

    def overtake() -> None:
        boot(tree, group, 2, "only-c")
        work(tree)

    meanwhile(tree, "leaf-b", "/zones/select", overtake)
    tree.settle()

    assert shown(tree, late)["reasons"][0]["code"] == "group_place_full"
    assert wrong(tree) == []


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["affinity", "anti-affinity"])
def test_many_boots_at_once_keep_the_policy(tmp_path: Path, policy: str) -> None:
    tree = a_tree(tmp_path, hosts_per_zone=3)
    group = make(tree, policy)
    boots = [boot(tree, group, count, min_count=1) for count in (1, 2, 1, 3, 1, 2, 1, 2)]
    start = threading.Barrier(4)

    def worker() -> None:
        start.wait()
        while background.work_on_boots(tree.nodes["root"].zone) == 0.0:
            pass

    threads = [threading.Thread(target=worker) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    heal(tree)

    placed = hosts_of(tree, *boots)
    if policy == "affinity":
        assert len(placed) == 1
        assert placed.total() <= 8
    else:
        assert set(placed.values()) == {1}
        assert placed.total() <= 12
    assert placed.total() == sum(counts(tree, b).get("BUILD", 0) for b in boots)
    assert placed.total() >= 6
    assert wrong(tree) == []


# -- affinity: what is lost on the way ---------------------------------------------------------------------


def test_a_hold_that_is_over_gives_the_place_back(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    group = make(tree, "affinity")
    region = tree.nodes["region"].url
    tree.network.fault(region, LostReply(path="/servers"))
    tree.network.fault(region, Dead(path="/cancel"))
    first = boot(tree, group, 2, "only-a")
    tree.settle()
    assert zones_with_a_place(tree) == ["leaf-a", "region", "root"]

    tree.clock.advance(60)
    tree.network.heal(region)
    tree.network.fault(region, Dead())
    # What is held below is let go of first, and over the next time.
    for node in (*tree.nodes.values(), *tree.nodes.values()):
        background.reap(node.zone)

    assert zones_with_a_place(tree) == []
    tree.network.heal(region)
    tree.poll()
    delete_all(tree, first)
    second = boot(tree, group, 2, "only-b")
    heal(tree)
    assert counts(tree, second) == {"BUILD": 2}
    assert wrong(tree) == []


def test_a_repeated_build_takes_no_second_place(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    group = make(tree, "affinity")
    for edge in ("region", "leaf-a", "leaf-b"):
        tree.network.fault(tree.nodes[edge].url, Duplicate(path="/servers"))

    boots = [boot(tree, group, 2, "only-a")]
    tree.settle()
    boots.append(boot(tree, group, 2))
    tree.settle()

    assert [counts(tree, b) for b in boots] == [{"BUILD": 2}, {"BUILD": 2}]
    assert list(hosts_of(tree, *boots).values()) == [4]
    assert wrong(tree) == []


def test_a_child_removed_by_force_takes_the_place_along(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    group = make(tree, "affinity")
    first = boot(tree, group, 2, "only-b")
    tree.settle()
    root = tree.nodes["root"].client()
    (child,) = [z for z in root.get("/zones/detail").json["zones"] if z["name"] == "leaf-b"]

    assert root.delete(f"/zones/{child['id']}?force=true").status == 204

    assert counts(tree, first) == {"ERROR": 2}
    assert zones_with_a_place(tree) == ["leaf-b"]
    second = boot(tree, group)
    tree.settle()
    assert counts(tree, second) == {"BUILD": 1}


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["root", "region", "leaf-a"])
def test_a_zone_killed_at_any_step_of_a_groups_boot(tmp_path: Path, victim: str) -> None:
    """Before and after each commit and call, that of the group's place among them."""
    before = a_tree(tmp_path, hosts_per_zone=1)
    group = make(before, "affinity")
    kill_at, killed = 0, True
    while killed:
        kill_at += 1
        tree = before.copy_to(tmp_path / str(kill_at))
        tree.poll()
        first = boot(tree, group, 3, "only-a")
        seams = Seams(tree, victim, kill_at)

        killed = settle_until_killed(tree, seams)

        heal(tree)
        second = boot(tree, group, 2)
        heal(tree)
        assert wrong(tree) == [], f"killed at {kill_at}"
        assert counts(tree, second) == {"BUILD": 2}, f"killed at {kill_at}"
        # What its zone was killed for may have ended the first one; the second then chose the place.
        assert counts(tree, first) in ({"BUILD": 3}, {"ERROR": 3}), f"killed at {kill_at}"
        assert len(hosts_of(tree, first, second)) == 1
        assert counts(tree, first) == {"BUILD": 3} or victim != "root"
    assert kill_at > 5


# -- anti-affinity -----------------------------------------------------------------------------------------


def test_each_instance_has_a_host_of_its_own_over_the_whole_tree(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    group = make(tree, "anti-affinity")

    first = boot(tree, group, 5)
    tree.settle()
    second = boot(tree, group, 3)
    tree.settle()

    assert counts(tree, first) == {"BUILD": 5}
    assert counts(tree, second) == {"BUILD": 3}
    assert set(hosts_of(tree, first, second).values()) == {1}
    assert wrong(tree) == []


def test_more_instances_than_hosts_are_all_or_nothing(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    group = make(tree, "anti-affinity")

    too_many = boot(tree, group, 9)
    tree.settle()

    assert counts(tree, too_many) == {"ERROR": 9}
    (reason,) = shown(tree, too_many)["reasons"]
    assert reason["code"] == "no_valid_host"
    assert wrong(tree) == []


def test_as_many_as_there_are_hosts_where_fewer_will_do(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    group = make(tree, "anti-affinity")
    boot(tree, group, 1, "only-a")
    tree.settle()

    rest = boot(tree, group, 9, min_count=1)
    tree.settle()

    assert counts(tree, rest) == {"BUILD": 7, "ERROR": 2}
    assert set(hosts_of(tree, rest).values()) == {1}
    assert wrong(tree) == []


def test_a_host_takes_as_many_as_the_rule_says(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    group = make(tree, "anti-affinity", most=3)

    boots = [boot(tree, group, count) for count in (10, 10, 4)]
    tree.settle()
    one_more = boot(tree, group)
    tree.settle()

    assert hosts_of(tree, *boots) == {f"{mark}{n}": 3 for mark in "abcr" for n in (1, 2)}
    assert counts(tree, one_more) == {"ERROR": 1}
    assert wrong(tree) == []


def test_a_host_is_free_again_for_the_group_once_its_instance_is_deleted(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, hosts_per_zone=1)
    group = make(tree, "anti-affinity")
    first = boot(tree, group, 4)
    tree.settle()

    delete_all(tree, first)
    tree.settle()
    second = boot(tree, group, 4)
    tree.settle()

    assert counts(tree, second) == {"BUILD": 4}


def test_groups_do_not_keep_each_other_out(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, hosts_per_zone=1)
    boots = []
    for _ in range(3):
        boots.append(boot(tree, make(tree, "anti-affinity"), 4))
        tree.settle()

    assert [counts(tree, b) for b in boots] == [{"BUILD": 4}] * 3


@pytest.mark.parametrize("edge", ["region", "leaf-b"])
@pytest.mark.parametrize("path", ["/zones/select", "/servers"])
def test_boots_that_overtake_each_other_never_share_a_host(tmp_path: Path, edge: str, path: str) -> None:
    """Both have planned the same host; the claim lets one of them have it, and the other goes elsewhere."""
    tree = a_tree(tmp_path)
    group = make(tree, "anti-affinity")
    late = boot(tree, group, 7)
    early: list[str] = []

    def overtake() -> None:
        early.append(boot(tree, group, 1))
        work(tree)

    meanwhile(tree, edge, path, overtake)
    tree.settle()

    assert (counts(tree, early[0]), counts(tree, late)) == ({"BUILD": 1}, {"BUILD": 7})
    placed = hosts_of(tree, early[0], late)
    assert (len(placed), set(placed.values())) == (8, {1})
    assert wrong(tree) == []


@pytest.mark.parametrize("policy", ["soft-affinity", "soft-anti-affinity"])
def test_a_soft_policy_keeps_nobody_out(tmp_path: Path, policy: str) -> None:
    tree = a_tree(tmp_path, hosts_per_zone=1)
    group = make(tree, policy)

    first = boot(tree, group, 32)
    tree.settle()

    assert counts(tree, first) == {"BUILD": 32}
    assert zones_with_a_place(tree) == []
    assert wrong(tree) == []
