"""Quotas and rate limits: refusals name the time to retry, and a child that refuses so is asked later."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.builders.clock import FakeClock
from tests.builders.one_zone import sql
from tests.builders.rerun import meeting_another_transaction
from tests.builders.scenes import built_once
from tests.builders.stores import statements_read_by
from tests.builders.tree import Answer, Node, Tree, a_host
from tests.builders.wsgi_transport import Replace
from zonesched.errors import OverLimit
from zonesched.model.caller import Role
from zonesched.model.openstack_time import iso_time
from zonesched.services import background
from zonesched.services.catalog import users
from zonesched.services.state import quotas
from zonesched.services.state.rate_limits import COUNT_S, AddLock, CachedCounts, RateLimiter
from zonesched.store import usage

FLAVOR = {"flavor": {"name": "small", "vcpus": 1, "ram": 64, "disk": 1}}

A_MINUTE = {
    "verb": "POST",
    "value": 5,
    "remaining": 4,
    "unit": "MINUTE",
    "next-available": "2023-11-14T22:13:20Z",
}
"""A rate of 5 of which one was used at the start of the test's clock."""


@built_once
def a_zone_with_a_flavor(folder: Path, **options: Any) -> Tree:
    tree = Tree(folder)
    tree.add("zone", hosts_=[a_host("h1")], **options).client().post("/flavors", FLAVOR)
    return tree


def a_node(tmp_path: Path, **options: Any) -> Node:
    return a_zone_with_a_flavor(tmp_path, **options).nodes["zone"]


def boot(node: Node, count: int = 1, user: str = "member", **headers: str) -> Answer:
    server = {"name": "vm", "flavorRef": "small", "num_instances": count}
    return node.client(user).post("/zones/boot", {"server": server}, headers=headers)


def dry_run(node: Node, user: str, count: int = 1) -> Answer:
    server = {"name": "vm", "flavorRef": "small", "num_instances": count}
    return node.client(user).post("/zones/boot", {"server": server, "dry_run": True})


def selects_of(node: Node, parent: str) -> int:
    """Count the selects that count for a parent, from its own limits."""
    rates = node.client(parent).get("/limits").json["limits"]["rate"]
    [limit] = next(rate["limit"] for rate in rates if rate["name"] == "parent_selects_per_hour")
    return int(limit["value"] - limit["remaining"])


def refused(answer: Answer) -> tuple[int, str]:
    """The status and the code; when to come again is told twice, alike."""
    (fault,) = answer.json.values()
    assert answer.headers["Retry-After"] == str(fault["retryAfter"])
    assert int(answer.headers["Retry-After"]) >= 1
    return answer.status, fault["error_code"]


# -- shares ------------------------------------------------------------------------------------------------


def test_a_rate_fills_evenly() -> None:
    clock = FakeClock()
    rate = RateLimiter(clock)

    first = [rate.take("a", 6) for _ in range(7)]
    clock.advance(10)

    assert first == [0] * 6 + [10]
    assert [rate.take("a", 6), rate.take("a", 6), rate.take("b", 6)] == [0, 10, 0]


def test_what_exceeds_a_rate_is_made_up_for() -> None:
    clock = FakeClock()
    rate = RateLimiter(clock)

    assert rate.take("a", 60, 90) == 0
    assert rate.take("a", 60) == 31
    clock.advance(31)
    assert rate.take("a", 60) == 0


def test_a_number_is_counted_before_anybody_is_refused() -> None:
    clock, there = FakeClock(), [0]
    numbers = CachedCounts(clock)

    def add(more: int) -> bool:
        return numbers.add("a", more, 10, lambda: there[0])

    passed = [add(6), add(4)]
    there[0] = 3
    again = add(7)
    there[0] = 10

    assert (passed, again, add(1)) == ([True, True], True, False)


def test_a_number_is_not_believed_for_long() -> None:
    clock = FakeClock()
    numbers = CachedCounts(clock)
    numbers.add("a", 1, 10, lambda: 0)

    assert numbers.add("a", 1, 10, lambda: 99)
    clock.advance(COUNT_S)
    assert not numbers.add("a", 1, 10, lambda: 99)


def test_a_count_that_takes_long_is_believed_for_longer() -> None:
    """Two million instances take a second to count, while nobody else can write."""
    clock = FakeClock()
    numbers = CachedCounts(clock, most_share=0.01)
    counts = 0

    def count() -> int:
        nonlocal counts
        counts += 1
        clock.advance(1)
        return 5

    numbers.add("a", 1, 100, count)
    clock.advance(98)
    assert (numbers.add("a", 1, 100, count), counts) == (True, 1)
    clock.advance(1)
    assert (numbers.add("a", 1, 100, count), counts) == (True, 2)


def test_a_long_count_is_not_repeated_for_each_refusal() -> None:
    """A project at its limit could keep the only writer of a zone busy with counts of its instances."""
    clock, there = FakeClock(), [10]
    numbers = CachedCounts(clock, most_share=0.01)
    counts = 0

    def add(limit: int = 10) -> bool:
        def count() -> int:
            nonlocal counts
            counts += 1
            clock.advance(1)
            return there[0]

        return numbers.add("a", 1, limit, count)

    refused = [add(), add(), add()]
    there[0] = 9
    before = counts
    clock.advance(30)

    assert (refused, before) == ([False] * 3, 1)
    assert (add(), counts) == (True, 2)


def test_who_is_refused_is_admitted_as_soon_as_the_limit_is_raised() -> None:
    clock = FakeClock()
    numbers = CachedCounts(clock, most_share=0.01)

    def count() -> int:
        clock.advance(1)
        return 10

    assert not numbers.add("a", 1, 10, count)
    assert numbers.add("a", 1, 11, count)


# -- users -------------------------------------------------------------------------------------------------


def test_a_project_has_as_many_instances_as_it_may(tmp_path: Path) -> None:
    node = a_node(tmp_path, project_instances=3)

    answers = [boot(node, 2), boot(node, 2), boot(node, 1)]

    assert [a.status for a in answers] == [202, 429, 202]
    assert refused(answers[1]) == (429, "project_instances")
    assert sql(node.zone, "select count(*) from instances") == [(3,)]


@pytest.mark.postgresql
def test_boots_at_the_same_time_take_no_more_than_a_project_may_have(tmp_path: Path) -> None:
    node = a_node(tmp_path, project_instances=7)
    start = threading.Barrier(16)

    def boot_two(_: int) -> int:
        start.wait()
        return boot(node, 2).status

    for _ in range(3):
        with ThreadPoolExecutor(16) as threads:
            found = sorted(threads.map(boot_two, range(16)))
        assert found == [202] * 3 + [429] * 13
        assert sql(node.zone, "select count(*) from instances where status <> 'DELETED'") == [(6,)]
        sql(node.zone, "update instances set status = 'DELETED'")


@pytest.mark.postgresql
@pytest.mark.parametrize(("option", "refusal"), [("project_open_boots", 429), ("max_open_boots", 503)])
def test_no_more_boots_of_the_same_moment_are_under_way_than_may_be(
    tmp_path: Path, option: str, refusal: int
) -> None:
    node = a_node(tmp_path, **{option: 7})
    start = threading.Barrier(16)

    def boot_one(_: int) -> int:
        start.wait()
        return boot(node).status

    for _ in range(3):
        with ThreadPoolExecutor(16) as threads:
            found = sorted(threads.map(boot_one, range(16)))
        assert found == [202] * 7 + [refusal] * 9
        assert sql(node.zone, "select count(*) from reservations where state = 'open'") == [(7,)]
        sql(node.zone, "update reservations set state = 'done'")


def test_a_count_has_what_waits_for_its_lock() -> None:
    numbers, written, counted = CachedCounts(FakeClock()), [1], []

    def let_another_count_first() -> None:
        lock = AddLock(add=lambda: None, count=lambda: None)
        counted.append(numbers.add("a", 3, 4, lambda: written[0], lock))
        written[0] += 3

    admitted = [
        numbers.add("a", 1, 4, lambda: 0),
        numbers.add("a", 3, 4, lambda: written[0], AddLock(let_another_count_first, lambda: None)),
        numbers.add("a", 1, 5, lambda: written[0], AddLock(lambda: None, lambda: None)),
    ]

    assert (admitted, counted) == ([True, True, True], [False])


def test_what_is_deleted_makes_room(tmp_path: Path) -> None:
    node = a_node(tmp_path, project_instances=1)
    boot(node)
    (uuid,) = sql(node.zone, "select uuid from instances")[0]

    node.client("member").delete(f"/servers/{uuid}")

    assert boot(node).status == 202


def test_another_project_has_its_own_share(tmp_path: Path) -> None:
    node = a_node(tmp_path, project_instances=1)
    boot(node)
    sql(node.zone, "update instances set project_id = 'another'")
    node.zone.clock.advance(COUNT_S)  # type: ignore[attr-defined]

    assert boot(node).status == 202


@pytest.mark.parametrize(
    ("option", "code", "status"),
    [("project_open_boots", "project_open_boots", 429), ("max_open_boots", "zone_busy", 503)],
)
def test_only_so_many_boots_are_under_way(tmp_path: Path, option: str, code: str, status: int) -> None:
    node = a_node(tmp_path, **{option: 2})

    answers = [boot(node) for _ in range(3)]
    while background.work_on_boots(node.zone) == 0.0:
        pass

    assert refused(answers[2]) == (status, code)
    assert boot(node).status == 202


def test_a_project_boots_so_often_in_a_minute(tmp_path: Path) -> None:
    node = a_node(tmp_path, project_boots_per_minute=2)

    answers = [boot(node) for _ in range(3)]

    assert refused(answers[2]) == (429, "project_boots_per_minute")
    node.zone.clock.advance(float(answers[2].headers["Retry-After"]))  # type: ignore[attr-defined]
    assert boot(node).status == 202


def test_a_boot_whose_transaction_is_run_again_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = a_node(tmp_path, project_boots_per_minute=2)
    with meeting_another_transaction(node.zone.store, monkeypatch):
        assert boot(node).status == 202

    answers = [boot(node).status for _ in range(2)]

    assert answers == [202, 429]


def test_boots_that_a_rate_refuses_do_not_count_as_instances(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = a_zone_with_a_flavor(tmp_path, project_boots_per_minute=60, project_instances=100)
    node, clock = tree.nodes["zone"], tree.clock
    count = usage.instances

    def slow(*args: Any) -> int:
        clock.advance(0.2)
        return count(*args)

    # So long a count is believed for a while, also where it refuses.
    monkeypatch.setattr(usage, "instances", slow)
    while (answer := boot(node)).status == 202:
        pass
    assert refused(answer) == refused(boot(node, 30)) == (429, "project_boots_per_minute")
    clock.advance(2)

    assert boot(node, 10).status == 202


def test_a_repeat_of_an_accepted_boot_is_answered_whatever_the_limits(tmp_path: Path) -> None:
    node = a_node(tmp_path, project_instances=1, project_boots_per_minute=1)
    key: dict[str, Any] = {"Idempotency-Key": "k1"}
    first = boot(node, **key)

    assert boot(node, **key).json == first.json


def test_a_project_sees_its_limits(tmp_path: Path) -> None:
    node = a_node(tmp_path, project_instances=9, project_boots_per_minute=5)
    boot(node, 2)

    limits = node.client("member").get("/limits").json["limits"]

    assert limits["absolute"]["project_instances"] == 9
    assert limits["absolute"]["project_instances_used"] == 2
    rates = {rate["name"]: rate["limit"] for rate in limits["rate"]}
    assert rates == {
        "project_boots_per_minute": [A_MINUTE],
        "project_dry_runs_per_minute": [{**A_MINUTE, "value": 600, "remaining": 600}],
    }


@pytest.mark.sqlite
@pytest.mark.parametrize("path", ["/limits", "/os-quota-sets/project-1/detail"])
def test_a_projects_servers_are_counted_once_for_its_limits_and_its_use(tmp_path: Path, path: str) -> None:
    node = a_node(tmp_path)
    boot(node, 2)

    statements = statements_read_by(node.zone.store, lambda: node.client("member").get(path))

    assert sum("FROM instances" in statement for statement in statements) == 1


def test_a_project_makes_so_many_dry_runs_in_a_minute_and_its_children_hear_of_no_more(
    tmp_path: Path,
) -> None:
    tree = Tree(tmp_path)
    root = tree.add("root", project_dry_runs_per_minute=2)
    leaf = tree.add("leaf", parent="root", hosts_=[a_host("h1")])
    tree.poll()
    for project in ("project-1", "project-2"):
        root.secrets[project] = users.create(
            root.zone.store, root.zone.clock, project, Role.MEMBER, project
        ).secret
    root.client().post("/flavors", FLAVOR)
    before = selects_of(leaf, "parent-root")

    answers = [dry_run(root, "project-1") for _ in range(3)]

    assert [answer.status for answer in answers] == [200, 200, 429]
    assert refused(answers[2]) == (429, "project_dry_runs_per_minute")
    assert selects_of(leaf, "parent-root") == before + 2
    assert dry_run(root, "project-2").status == 200
    assert boot(root, user="project-1").status == 202
    tree.clock.advance(float(answers[2].headers["Retry-After"]))
    assert dry_run(root, "project-1").status == 200


def test_a_project_makes_as_many_dry_runs_as_it_alone_may(tmp_path: Path) -> None:
    node = a_node(tmp_path, project_dry_runs_per_minute=1)

    give(node, "projects/project-1", project_dry_runs_per_minute=2)

    assert [dry_run(node, "member").status for _ in range(3)] == [200, 200, 429]


def test_a_dry_run_tells_a_project_of_no_more_room_than_it_may_use(tmp_path: Path) -> None:
    node = a_node(tmp_path, project_instances=3)

    assert dry_run(node, "member", 3).json["dry_run"]["fits"] == 3
    assert refused(dry_run(node, "member", 4)) == refused(boot(node, 4)) == (429, "project_instances")
    give(node, "projects/project-1", project_instances=4)
    assert dry_run(node, "member", 4).status == 200
    assert dry_run(node, "admin", 1000).status == 200


# -- limits of their own -----------------------------------------------------------------------------------


def overrides(node: Node) -> Any:
    return node.client().get("/limits/overrides").json


def give(node: Node, path: str, **limits: int | None) -> Answer:
    return node.client().call("PUT", f"/limits/{path}", {"limits": limits})


def project_of(node: Node) -> str:
    """Limits of members."""
    boot(node)
    return str(sql(node.zone, "select project_id from instances")[0][0])


def test_a_project_has_as_many_instances_as_it_alone_may(tmp_path: Path) -> None:
    node = a_node(tmp_path, project_instances=1)
    project = project_of(node)
    refused_before = boot(node).status

    given = give(node, f"projects/{project}", project_instances=2)
    answers = [boot(node), boot(node)]
    give(node, f"projects/{project}", project_instances=None)

    assert (refused_before, given.status) == (429, 200)
    assert given.json["limits"]["absolute"]["project_instances"] == 2
    assert given.json["limits"]["overrides"] == {"project_instances": 2}
    assert [a.status for a in answers] == [202, 429]
    assert overrides(node) == {"projects": {}, "parents": {}}


def test_a_limit_of_its_own_holds_for_one_project_and_is_shown_to_it(tmp_path: Path) -> None:
    node = a_node(tmp_path, project_boots_per_minute=9)

    give(node, "projects/other", project_boots_per_minute=1, project_open_boots=3)
    give(node, f"projects/{project_of(node)}", project_boots_per_minute=5)

    (rate, _) = node.client("member").get("/limits").json["limits"]["rate"]
    assert rate["limit"] == [A_MINUTE]
    other = node.client().get("/limits/projects/other").json["limits"]
    assert (other["absolute"]["project_open_boots"], other["rate"][0]["limit"][0]["value"]) == (3, 1)
    assert overrides(node)["projects"]["other"] == {"project_boots_per_minute": 1, "project_open_boots": 3}


def test_another_process_goes_by_a_limit_of_its_own_soon(tmp_path: Path) -> None:
    node = a_node(tmp_path, project_open_boots=1)
    project = project_of(node)
    sql(node.zone, f"insert into quota_overrides values ('{project}', 'project_open_boots', 2)")

    before = boot(node).status
    node.zone.clock.advance(COUNT_S)  # type: ignore[attr-defined]

    assert (before, boot(node).status) == (429, 202)


@pytest.mark.parametrize(
    ("path", "limits", "expected"),
    [
        ("projects/p", {}, (400, "invalid_value", "limits")),
        ("projects/p", {"project_instances": "5"}, (400, "wrong_type", "limits.project_instances")),
        ("projects/p", {"project_instances": -1}, (400, "out_of_range", "limits.project_instances")),
        ("projects/p", {"project_open_boots": 0}, (400, "out_of_range", "limits.project_open_boots")),
        ("projects/p", {"parent_instances": 5}, (400, "unknown_field", "limits.parent_instances")),
        ("parents/nobody", {"parent_instances": 5}, (404, "user_not_found", "name")),
        ("parents/member", {"parent_instances": 5}, (400, "no_parent", "name")),
    ],
)
def test_limits_that_cannot_be_are_refused(
    tmp_path: Path, path: str, limits: dict[str, Any], expected: tuple[int, str, str]
) -> None:
    node = a_node(tmp_path)
    answer = give(node, path, **limits)
    (fault,) = answer.json.values()
    assert (answer.status, fault["error_code"], fault["field"]) == expected
    assert overrides(node) == {"projects": {}, "parents": {}}


def test_usage_counts_a_parents_instances_apart(tmp_path: Path) -> None:
    node = a_node(tmp_path)
    boot(node, 2)

    assert node.zone.store.read(lambda tx: usage.instances(tx, "some-parent")) == 0


# -- parents -----------------------------------------------------------------------------------------------


@built_once
def a_tree(tmp_path: Path, **options: Any) -> Tree:
    """A root without hosts over two children; the options are the first one's, which has the better host."""
    tree = Tree(tmp_path)
    tree.add("root", retry_pause=1.0, max_attempts=3)
    tree.add("leaf", parent="root", hosts_=[a_host("h1", ram_mb=60_000)], **options)
    tree.add("spare", parent="root", hosts_=[a_host("h2", ram_mb=1024)])
    # The trials of the new children count against limits per minute.
    tree.clock.advance(60)
    tree.beat()
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    return tree


def placed(tree: Tree) -> dict[str, int]:
    """Count the instances of each child zone."""
    statement = "select count(*) from instances where status != 'DELETED'"
    return {name: sql(tree.nodes[name].zone, statement)[0][0] for name in ("leaf", "spare")}


def test_a_parent_selects_so_often_in_a_minute(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, parent_selects_per_minute=1)
    for _ in range(2):
        boot(tree.nodes["root"])
        tree.settle()

    assert placed(tree) == {"leaf": 1, "spare": 1}


def test_a_parent_selects_so_often_in_an_hour_whatever_it_may_in_a_minute(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, parent_selects_per_hour=6)
    leaf, quotas = tree.nodes["leaf"], tree.nodes["leaf"].zone.quotas
    users.create(leaf.zone.store, leaf.zone.clock, "other", Role.PARENT, "-")
    [[parent_id]] = sql(leaf.zone, "select id from users where name = 'other'")
    for _ in range(6):
        quotas.admit_select(parent_id)

    with pytest.raises(OverLimit, match="parent_selects_per_hour is 6 here") as refused:
        quotas.admit_select(parent_id)
    given = give(leaf, "parents/other", parent_selects_per_hour=7)
    quotas.admit_select(parent_id)
    tree.clock.advance(1200)

    assert refused.value.retry_after_s == 600
    assert given.json["limits"]["overrides"] == {"parent_selects_per_hour": 7}
    rates = leaf.client().get("/limits/parents/other").json["limits"]["rate"]
    [hour] = [rate["limit"] for rate in rates if rate["name"] == "parent_selects_per_hour"]
    now = iso_time(tree.clock.now())
    one = {"verb": "POST", "value": 7, "remaining": 2, "unit": "HOUR", "next-available": now}
    assert hour == [one]


def test_a_select_refused_by_one_rate_uses_up_none(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, parent_selects_per_minute=1, parent_selects_per_hour=2)
    quotas = tree.nodes["leaf"].zone.quotas
    quotas.admit_select("parent-root")
    for _ in range(5):
        with pytest.raises(OverLimit, match="parent_selects_per_minute"):
            quotas.admit_select("parent-root")

    tree.clock.advance(60)
    quotas.admit_select("parent-root")


def test_a_parent_has_limits_of_its_own_until_it_is_removed(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, parent_selects_per_minute=1000)
    leaf = tree.nodes["leaf"]

    given = give(leaf, "parents/parent-root", parent_instances=1, parent_selects_per_minute=1)
    boot(tree.nodes["root"], 3)
    tree.settle()

    assert given.json["limits"]["overrides"] == {"parent_instances": 1, "parent_selects_per_minute": 1}
    assert overrides(leaf)["parents"] == {"parent-root": given.json["limits"]["overrides"]}
    assert placed(tree)["leaf"] <= 1
    leaf.client().delete("/users/parent-root?force=true")
    assert overrides(leaf) == {"projects": {}, "parents": {}}


def test_a_busy_child_is_not_down_and_is_asked_again_after_its_time(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, parent_selects_per_minute=1)
    root = tree.nodes["root"]
    for _ in range(2):
        boot(root)
        tree.settle()
    state = root.client().get("/zones/detail").json["zones"][0]
    tree.clock.advance(61)
    boot(root)
    tree.settle()

    assert (state["state"], state["last_error"]) == ("ready", "child_busy")
    assert placed(tree) == {"leaf": 2, "spare": 1}


def test_while_a_child_is_busy_nobody_asks_it(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, parent_selects_per_minute=1)
    for _ in range(4):
        boot(tree.nodes["root"])
        tree.settle()

    asked = [s for s in tree.network.sent if s.url.startswith(tree.nodes["leaf"].url) and "select" in s.url]
    assert len(asked) == 2


def test_a_boot_that_finds_only_busy_children_asks_again(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    root = tree.nodes["root"]
    for name in ("leaf", "spare"):
        busy = Replace(times=1, path="/select", status=503, headers={"Retry-After": "1"})
        tree.network.fault(tree.nodes[name].url, busy)
    boot(root)
    tree.settle(1)
    first = placed(tree)
    tree.clock.advance(3)
    tree.settle()

    assert first == {"leaf": 0, "spare": 0}
    assert sum(placed(tree).values()) == 1


def test_a_parent_has_as_many_instances_as_it_may(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, parent_instances=2)
    boot(tree.nodes["root"], 2)
    tree.settle()
    boot(tree.nodes["root"])
    tree.settle()

    assert placed(tree) == {"leaf": 2, "spare": 1}
    reached = tree.nodes["leaf"].client("parent-root").get("/limits").json["limits"]["absolute"]
    assert (reached["parent_instances"], reached["parent_instances_used"]) == (2, 2)


def test_a_boot_that_its_children_may_not_take_from_us_does_not_end_for_want_of_room(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, parent_instances=0)
    root = tree.nodes["root"]
    give(tree.nodes["spare"], "parents/parent-root", parent_instances=0)

    accepted = boot(root)
    tree.settle()

    shown = root.client().get(f"/reservations/{accepted.json['reservation_id']}").json["reservation"]
    assert [reason["code"] for reason in shown["reasons"]] == ["no_valid_host_incomplete"]


def test_a_parent_is_told_so_many_entries_in_a_minute(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, parent_entries_per_minute=1)
    boot(tree.nodes["root"], 3)
    tree.settle()
    boot(tree.nodes["root"], 3)
    tree.settle()

    assert placed(tree) == {"leaf": 3, "spare": 3}


def test_entries_of_selects_at_the_same_time_are_all_made_up_for(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, parent_entries_per_minute=10)
    quotas = tree.nodes["leaf"].zone.quotas

    def is_admitted() -> bool:
        try:
            quotas.admit_select("parent")
        except OverLimit as error:
            assert error.code == "parent_entries_per_minute"
            return False
        return True

    at_once = [is_admitted() for _ in range(3)]
    for _ in range(3):
        quotas.note_entries("parent", 10)
    tree.clock.advance(119)
    too_early = is_admitted()
    tree.clock.advance(7)

    assert (at_once, too_early, is_admitted()) == ([True] * 3, False, True)


@pytest.mark.parametrize("told", ["", "soon", "0", "-1", "9" * 30])
def test_a_refusal_without_a_time_is_a_failure(tmp_path: Path, told: str) -> None:
    tree = a_tree(tmp_path)
    tree.network.fault(tree.nodes["leaf"].url, Replace(status=503, headers={"Retry-After": told}))

    tree.poll(3)

    state = tree.nodes["root"].client().get("/zones/detail").json["zones"][0]
    assert (state["state"], state["last_error"]) == ("offline", "child_failed")


def test_a_child_that_is_busy_when_it_is_polled_is_not_down(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    tree.network.fault(tree.nodes["leaf"].url, Replace(status=503, headers={"Retry-After": "5"}))

    tree.poll(9)

    assert tree.nodes["root"].client().get("/zones/detail").json["zones"][0]["state"] == "ready"


def test_only_so_many_selects_are_under_way(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, api_threads=4)
    slots = tree.nodes["leaf"].zone.select_slots
    with ExitStack() as others:
        for parent in ("one", "another", "a third"):
            others.enter_context(slots.of_parent(parent))
        boot(tree.nodes["root"])
        tree.settle()
        while_full = placed(tree)
    tree.clock.advance(5)
    boot(tree.nodes["root"])
    tree.settle()

    assert while_full == {"leaf": 0, "spare": 1}
    assert placed(tree) == {"leaf": 1, "spare": 1}


def test_instances_in_error_take_nothing_of_a_quota(tmp_path: Path) -> None:
    node = a_node(tmp_path, project_instances=20)
    too_many = boot(node, 20)
    while background.work_on_boots(node.zone) == 0.0:
        pass

    assert too_many.status == 202
    assert {row.status for row in sql(node.zone, "select status from instances")} == {"ERROR"}
    assert boot(node, 10).status == 202
    assert refused(boot(node, 11)) == (429, "project_instances")


def test_a_project_keeps_no_more_instances_in_error_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a project with more instances in ERROR than it may keep, and another one
    monkeypatch.setattr(quotas, "FAILED_BESIDE", 15)
    tree = a_zone_with_a_flavor(tmp_path, project_instances=20)
    node, zone = tree.nodes["zone"], tree.nodes["zone"].zone
    node.secrets["ann"] = users.create(zone.store, zone.clock, "ann", Role.MEMBER, "project-2").secret
    for _ in range(2):
        assert boot(node, 20).status == 202
        while background.work_on_boots(zone) == 0.0:
            pass

    # when both boot, and again once enough of them were deleted
    tree.clock.advance(COUNT_S)
    full, others = boot(node), boot(node, user="ann")
    for (uuid,) in sql(zone, "select uuid from instances where status = 'ERROR' limit 6"):
        assert node.client("member").delete(f"/servers/{uuid}").status == 204
    with_room = boot(node)

    # then
    assert refused(full) == (429, "project_failed_instances")
    assert (others.status, with_room.status) == (202, 202)
