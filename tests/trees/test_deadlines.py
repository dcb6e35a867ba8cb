"""P6: nothing is waited for after the deadline, and what answers in time is never lost for what does not."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from werkzeug.serving import make_server

from tests.builders.child_app import an_info
from tests.builders.crashes import heal, inconsistencies
from tests.builders.raw_server import Conversation, RawServer, answer
from tests.builders.timed_network import NEVER, SideBySide, TimedNetwork, Timeline
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead, Fault, Replace, Tamper
from zonesched import conf as options
from zonesched.api.app import create_app
from zonesched.model.build_plan import BuildPlan
from zonesched.model.caller import Caller, Role
from zonesched.model.place import LocalPlace
from zonesched.model.request_spec import Flavor, Image, RequestSpec
from zonesched.model.views import ChildForm
from zonesched.seal.entry_form import blob_to_text
from zonesched.seams import SystemClock
from zonesched.services import background
from zonesched.services.catalog import users
from zonesched.services.children import children
from zonesched.services.hosts import hosts
from zonesched.services.select import select
from zonesched.services.zone import Zone

pytestmark = pytest.mark.once

BUDGET_S = 10.0
LATE_S = 10.0
"""More than a select takes beside other tests; a third of the time that a child hangs on a real socket."""

RESERVE_S = 0.25


def a_spec(count: int = 100, budget_s: float = BUDGET_S) -> RequestSpec:
    return RequestSpec(
        request_id="11111111-1111-4111-8111-111111111111",
        project_id="project-1",
        num_instances=count,
        flavor=Flavor("f1", "small", 1, 1024, 1),
        image=Image("", ""),
        time_budget_s=budget_s,
    )


class TimedTree(Tree):
    """A tree whose calls take time; every zone has one host with room for its own number of instances."""

    network: TimedNetwork

    def __init__(self, folder: Path) -> None:
        clock = Timeline()
        super().__init__(folder, clock, network=TimedNetwork(clock), executor=SideBySide(clock))
        self.child_ids: dict[str, str] = {}

    def grow(self, parents: dict[str, str], **overrides: Any) -> None:
        """Zones by name with their parents' names, root first; each has room for 1 instance."""
        for name, parent in parents.items():
            self.add(name, hosts_=[a_host(f"{name}-host", vcpus=1)], **overrides)
            if parent:
                self.child_ids[self.join(parent, name)] = name
        self.poll(1)

    def takes(self, name: str, seconds: float) -> None:
        self.network.takes[self.nodes[name].url] = seconds

    def decide(self, spec: RequestSpec | None = None) -> tuple[BuildPlan, float]:
        """The root's plan, and the seconds it took."""
        root = self.nodes["root"].zone
        started = self.clock.monotonic()
        plan = select.decide(root, spec or a_spec(), root.uuid).plan
        return plan, self.clock.monotonic() - started

    def offers(self, plan: BuildPlan) -> Counter[str]:
        """Count the entries of a plan by child of the root, and of the root itself."""
        return Counter(
            "root" if isinstance(entry.place, LocalPlace) else self.child_ids[entry.place.child_id]
            for entry in plan.entries
        )

    def budgets(self, call: str = "/zones/select") -> dict[str, list[float]]:
        """The time that each zone was given by each such call it got."""
        name_of = {f"{node.url}{call}": node.name for node in self.nodes.values()}
        found: dict[str, list[float]] = {name: [] for name in self.nodes}
        for sent in self.network.sent:
            if sent.url in name_of:
                body = orjson.loads(sent.body)
                found[name_of[sent.url]].append(body["request_spec"]["time_budget_s"])
        return found


@pytest.fixture
def tree(tmp_path: Path) -> TimedTree:
    return TimedTree(tmp_path)


SMALL = {"flavor": {"name": "small", "vcpus": 1, "ram": 64, "disk": 1}}
FOUR = {"root": "", "a": "root", "b": "root", "c": "root", "d": "root"}
HEALTHY = Counter({"root": 1, "a": 1, "b": 1, "d": 1})
CHAIN = {"root": "", "z1": "root", "z2": "z1", "z3": "z2"}


def test_a_parent_gets_no_more_time_than_its_child_allows_whatever_it_asks_for(tree: TimedTree) -> None:
    tree.grow({"root": "", "middle": "root", "leaf": "middle"}, max_time_budget=20.0)
    tree.takes("leaf", NEVER)

    tree.decide(a_spec(budget_s=3600.0))

    assert tree.budgets()["middle"] == [3600.0 - RESERVE_S]
    assert tree.budgets()["leaf"] == [20.0 - RESERVE_S]


# -- slow and dead children --------------------------------------------------------------------------------


def test_one_child_of_four_that_is_dead_costs_no_time_and_its_own_offers_only(tree: TimedTree) -> None:
    tree.grow(FOUR)
    tree.network.fault(tree.nodes["c"].url, Dead())

    plan, took_s = tree.decide()

    assert (tree.offers(plan), plan.complete, took_s) == (HEALTHY, False, 0.0)


@pytest.mark.parametrize("answers_after_s", [BUDGET_S - RESERVE_S, BUDGET_S, 60.0, NEVER])
def test_a_child_that_answers_too_late_is_not_waited_for(tree: TimedTree, answers_after_s: float) -> None:
    tree.grow(FOUR)
    tree.takes("c", answers_after_s)
    tree.takes("a", 9.0)

    plan, took_s = tree.decide()

    assert (tree.offers(plan), plan.complete) == (HEALTHY, False)
    assert took_s == pytest.approx(BUDGET_S - RESERVE_S)


def test_a_child_that_is_slow_and_in_time_is_heard(tree: TimedTree) -> None:
    tree.grow(FOUR)
    for name in "abcd":
        tree.takes(name, 9.7)

    plan, took_s = tree.decide()

    assert (tree.offers(plan).total(), plan.complete) == (5, True)
    assert took_s == pytest.approx(9.7)


def test_all_children_silent_leaves_the_own_offers(tree: TimedTree) -> None:
    tree.grow(FOUR)
    for name in "abcd":
        tree.takes(name, NEVER)

    plan, took_s = tree.decide()

    assert (tree.offers(plan), plan.complete) == (Counter(root=1), False)
    assert took_s < BUDGET_S


def test_a_slow_grandchild_loses_nothing_of_the_healthy_child_above_it(tree: TimedTree) -> None:
    tree.grow({"root": "", "region": "root", "slow": "region", "healthy": "region", "other": "root"})
    tree.takes("slow", NEVER)

    plan, took_s = tree.decide()

    # region's own and healthy's come through region.
    assert (tree.offers(plan), plan.complete) == (Counter(root=1, region=2, other=1), False)
    assert took_s < BUDGET_S - RESERVE_S


@pytest.mark.parametrize("budget_s", [BUDGET_S, 1.0, 0.2])
def test_a_slow_zone_at_the_end_of_a_chain_loses_itself_only(tree: TimedTree, budget_s: float) -> None:
    tree.grow(CHAIN)
    tree.takes("z3", NEVER)

    plan, took_s = tree.decide(a_spec(budget_s=budget_s))

    assert (tree.offers(plan), plan.complete) == (Counter(root=1, z1=2), False)
    assert took_s < budget_s


# -- the budget --------------------------------------------------------------------------------------------


def test_each_hop_keeps_a_reserve_and_passes_on_the_rest(tree: TimedTree) -> None:
    tree.grow(CHAIN)

    tree.decide()

    assert tree.budgets() == {"root": [], "z1": [9.75], "z2": [9.5], "z3": [9.25]}


def test_of_a_short_budget_a_fifth_is_kept(tree: TimedTree) -> None:
    tree.grow(CHAIN)

    tree.decide(a_spec(budget_s=1.0))

    given = tree.budgets()
    assert [*given["z1"], *given["z2"], *given["z3"]] == pytest.approx([0.8, 0.64, 0.512])


def test_the_reserve_is_what_the_zone_is_configured_to_keep(tree: TimedTree) -> None:
    tree.grow(CHAIN, select_reserve=1.5)

    tree.decide()

    assert tree.budgets()["z2"] == [7.0]


def read_slowly(tree: TimedTree, name: str, seconds: float) -> None:
    """From now on the zone's database takes this long for each read."""
    store, read = tree.nodes[name].zone.store, tree.nodes[name].zone.store.read

    def slow(fn: Callable[[Any], Any]) -> Any:
        tree.clock.advance(seconds)
        return read(fn)

    store.read = slow  # type: ignore[method-assign]


def write_slowly(tree: TimedTree, name: str, seconds: float) -> None:
    """From now on the zone's database takes this long for each write."""
    store, write = tree.nodes[name].zone.store, tree.nodes[name].zone.store.write

    def slow(fn: Callable[[Any], Any]) -> Any:
        tree.clock.advance(seconds)
        return write(fn)

    store.write = slow  # type: ignore[method-assign]


def test_what_a_zone_takes_for_itself_is_not_passed_on(tree: TimedTree) -> None:
    tree.grow({"root": "", "a": "root"})
    read_slowly(tree, "root", 0.5)

    _, took_s = tree.decide()

    assert tree.budgets()["a"] == [pytest.approx(BUDGET_S - RESERVE_S - took_s)]
    assert took_s >= 0.5


def test_a_zone_passes_builds_on_with_the_time_that_it_has_left(tree: TimedTree) -> None:
    tree.grow({"root": "", "z1": "root", "z2": "z1"})
    tree.nodes["root"].client().post("/flavors", SMALL)
    write_slowly(tree, "z1", 0.5)

    boot = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 3}}
    assert tree.nodes["root"].client().post("/zones/boot", boot).status == 202
    tree.settle()

    given = tree.budgets("/servers")
    assert len(given["z1"]) == len(given["z2"]) == 1
    assert 0 < given["z2"][0] <= given["z1"][0] - RESERVE_S - 0.5


def test_without_time_left_nobody_is_asked(tree: TimedTree) -> None:
    tree.grow({"root": "", "a": "root"})
    read_slowly(tree, "root", BUDGET_S)

    plan, _ = tree.decide()

    assert (tree.offers(plan), plan.complete) == (Counter(root=1), False)
    assert tree.budgets()["a"] == []


# -- children that answer nonsense -------------------------------------------------------------------------


A_BLOB = blob_to_text(bytes(256))


def entry(weight: Any = 0, blob: Any = A_BLOB) -> dict[str, Any]:
    return {"weight": weight, "tie": 0, "blob": blob}


def offer(**changes: Any) -> bytes:
    members = {"version": 1, "weights": [], "alternates": [], "complete": True, "expires_in": 60.0, "why": []}
    return orjson.dumps(members | changes)


def blobs(count: int) -> list[dict[str, Any]]:
    return [entry(blob=blob_to_text(number.to_bytes(256, "big"))) for number in range(count)]


NONSENSE = {
    "nothing": b"",
    "garbage": b"\x00\xff\xfe<html>",
    "not-whole": offer()[:-1],
    "list": b"[]",
    "deep": b"[" * 100_000,
    "nan": offer().replace(b"60.0", b"NaN"),
    "infinite": offer().replace(b"60.0", b"1e999"),
    "negative-expiry": offer(expires_in=-1.0),
    "nan-weight": offer(weights=[entry()]).replace(b'"weight":0', b'"weight":NaN'),
    "fraction": offer(weights=[entry(0.5)]),
    "weight-as-text": offer(weights=[entry("0")]),
    "weight-as-truth": offer(weights=[entry(True)]),
    "weight-below-0": offer(weights=[entry(-1)]),
    "weight-above-2-to-53": offer(weights=[entry(2**53)]),
    "too-many": offer(weights=blobs(101)),
    "too-many-alternates": offer(alternates=blobs(1)),
    "bundles-nobody-asked-for": offer(bundles=[{"weight": 0, "tie": 0, "blobs": [A_BLOB]}]),
    "two-lengths": offer(weights=[entry(), entry(blob=blob_to_text(bytes(255)))]),
    "long-blob": offer(weights=[entry(blob=blob_to_text(bytes(8065)))]),
    "twice-the-same": offer(weights=[entry(), entry()]),
    "no-base64url": offer(weights=[entry(blob="!" * 342)]),
    "other-version": offer(version=2),
    "no-version": b'{"weights": [], "complete": true, "expires_in": 1.0}',
    "complete-as-text": offer(complete="true"),
    "named-twice": b'{"version": 1, "version": 1, "weights": [], "complete": true, "expires_in": 1.0}',
    "too-much-why": offer(why=[{"filter": "F", "code": f"c{n}"} for n in range(65)]),
    "why-with-text": offer(why=[{"filter": "F", "code": "the host x1 is full"}]),
    "too-large": offer(padding="x" * 200_000),
}


def test_nonsense_counts_as_no_answer(tree: TimedTree) -> None:
    tree.grow({"root": "", "a": "root", "c": "root"}, child_answer_bytes=100_000)
    for name, body in NONSENSE.items():
        plan, took_s = decide_with(tree, Replace(body=body))

        assert (tree.offers(plan), plan.complete, took_s) == (Counter(root=1, a=1), False, 0.0), name


def test_any_other_status_counts_as_no_answer(tree: TimedTree) -> None:
    tree.grow({"root": "", "a": "root", "c": "root"})
    elsewhere = {"Location": tree.nodes["a"].url + "/zones/select"}
    for status in (201, 204, 301, 302, 400, 401, 403, 404, 429, 500, 503):
        plan, _ = decide_with(tree, Replace(status=status, body=offer(), headers=elsewhere))

        assert (tree.offers(plan), plan.complete) == (Counter(root=1, a=1), False), status


def decide_with(tree: TimedTree, fault: Fault) -> tuple[BuildPlan, float]:
    """The root's plan with a fault on the way to c, which was ready before; the seconds it took."""
    url = tree.nodes["c"].url
    tree.network.heal(url)
    tree.poll(1)
    healthy, _ = tree.decide()
    assert tree.offers(healthy) == Counter(root=1, a=1, c=1)
    tree.network.fault(url, fault)
    return tree.decide()


def test_a_compressed_answer_counts_as_none(tree: TimedTree) -> None:
    tree.grow({"root": "", "a": "root", "c": "root"})
    tree.network.fault(tree.nodes["c"].url, Replace(body=offer(), headers={"Content-Encoding": "gzip"}))

    plan, _ = tree.decide()

    assert (tree.offers(plan), plan.complete) == (Counter(root=1, a=1), False)


def test_nonsense_from_a_grandchild_stops_at_its_parent(tree: TimedTree) -> None:
    tree.grow(CHAIN)
    tree.network.fault(tree.nodes["z3"].url, Tamper(lambda body: body.replace(b"weight", b"w\xff")))

    plan, _ = tree.decide()

    assert (tree.offers(plan), plan.complete) == (Counter(root=1, z1=2), False)


# -- zones that are no tree --------------------------------------------------------------------------------


def test_a_loop_of_zones_ends_and_asks_each_once(tree: TimedTree) -> None:
    tree.grow({"root": "", "a": "root"})
    tree.join("a", "root")
    tree.poll(3)

    plan, _ = tree.decide()

    assert (tree.offers(plan), plan.complete) == (Counter(root=1, a=1), True)
    assert {name: len(given) for name, given in tree.budgets().items()} == {"root": 0, "a": 1}


def test_a_loop_that_cannot_be_seen_from_outside_ends_all_the_same(tree: TimedTree) -> None:
    tree.grow({"root": "", "a": "root", "b": "a"})
    tree.join("b", "a")
    tree.join("b", "root")
    # Zones that tell of another uuid than they have: only they themselves can know that it is a loop.
    for name, uuid in (
        ("root", "88888888-8888-4888-8888-888888888888"),
        ("a", "99999999-9999-4999-8999-999999999999"),
    ):

        def lie(body: bytes, uuid: str = uuid) -> bytes:
            return orjson.dumps({"zone": orjson.loads(body)["zone"] | {"uuid": uuid}})

        tree.network.fault(tree.nodes[name].url, Tamper(lie, path="/info"))
    tree.poll(1)

    plan, _ = tree.decide()

    assert (tree.offers(plan), plan.complete) == (Counter(root=1, a=2), True)
    assert {name: len(given) for name, given in tree.budgets().items()} == {"root": 1, "a": 2, "b": 1}


def test_a_zone_with_two_parents_is_offered_by_both_and_built_once(tree: TimedTree) -> None:
    tree.grow({"root": "", "left": "root", "right": "root", "shared": "left"})
    tree.child_ids[tree.join("right", "shared")] = "shared"
    tree.poll(1)
    root = tree.nodes["root"].client()
    root.post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 1024, "disk": 1}})

    plan, _ = tree.decide()
    server = {"name": "vm", "flavorRef": "small", "num_instances": 5, "min_count": 1}
    booted = root.post("/zones/boot", {"server": server})
    heal(tree)

    assert (tree.offers(plan), plan.complete) == (Counter(root=1, left=2, right=2), True)
    shown = root.get(f"/reservations/{booted.json['reservation_id']}").json["reservation"]
    assert shown["counts"] == {"BUILD": 4, "ERROR": 1}
    assert inconsistencies(tree) == []


@pytest.mark.slow
def test_a_chain_that_is_too_long_ends_with_its_sixteenth_zone(tree: TimedTree) -> None:
    names = ["root", *(f"z{number}" for number in range(1, 18))]
    tree.grow(dict(zip(names, ["", *names], strict=False)))
    tree.poll(1)

    plan, _ = tree.decide()

    assert (tree.offers(plan), plan.complete) == (Counter(root=1, z1=15), False)
    asked = [name for name, given in tree.budgets().items() if given]
    assert asked == names[1:17]


# -- a zone that has just started --------------------------------------------------------------------------


def test_children_that_were_not_heard_yet_are_missing(tree: TimedTree) -> None:
    tree.grow({"root": "", "a": "root"})
    tree.restart("root")

    plan, _ = tree.decide()

    assert (tree.offers(plan), plan.complete) == (Counter(root=1), False)


def test_boots_from_before_a_restart_wait_for_the_children(tree: TimedTree) -> None:
    tree.grow({"root": "", "a": "root", "b": "a"})
    user = tree.nodes["root"].client()
    user.post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 1024, "disk": 1}})
    server = {"name": "vm", "flavorRef": "small", "num_instances": 3}
    booted = user.post("/zones/boot", {"server": server}).json["reservation_id"]
    tree.restart("root")
    # The process that is gone has left its lease behind.
    tree.clock.advance(tree.nodes["root"].zone.conf.boot_lease)

    tree.settle(1)
    assert "root: a reservation is open" in inconsistencies(tree)
    tree.poll(1)
    tree.settle(1)

    shown = tree.nodes["root"].client().get(f"/reservations/{booted}").json["reservation"]
    assert (shown["counts"], inconsistencies(tree)) == ({"BUILD": 3}, [])


# -- real threads, real sockets ----------------------------------------------------------------------------


def open_zone(folder: Path, name: str) -> Zone:
    clock = SystemClock()
    zone = Zone.open(
        options.load(
            overrides={
                "zone_name": name,
                "build_plan_encryption_key": [clock.random_bytes(32).hex()],
                "secret_encryption_key": clock.random_bytes(32).hex(),
                "child_networks": ["loopback"],
                "state_path": str(folder / name),
            }
        )
    )
    agent = Caller("agent-user", "agent", Role.COMPUTE, "")
    hosts.register(zone, agent, "agent", [a_host(f"{name}-host", vcpus=4)])
    hosts.beat(zone, agent, "agent")
    return zone


@contextmanager
def running(zone: Zone) -> Iterator[str]:
    """The zone's application behind a real server; its URL."""
    server = make_server("127.0.0.1", 0, create_app(zone), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answers_info_then(talk: Callable[[Conversation], None]) -> Callable[[Conversation], None]:
    """A peer that tells of itself as a zone should, and does something else with every other request."""

    def serve(conversation: Conversation) -> None:
        while request := conversation.read_request():
            if b"/zones/info" in request.partition(b"\r\n")[0]:
                conversation.say(answer(orjson.dumps(an_info(complete=False)), "200 OK"))
            else:
                talk(conversation)
                return

    return serve


@contextmanager
def real_root(folder: Path, talk: Callable[[Conversation], None]) -> Iterator[Zone]:
    """A root with 4 places, a healthy child with 4, and a child that talks so."""
    with ExitStack() as stack:
        below = open_zone(folder, "healthy")
        stack.callback(below.stop)
        secret = users.create(below.store, below.clock, "parent-root", Role.PARENT, "-").secret
        root = open_zone(folder, "root")
        stack.callback(root.stop)
        healthy_url = stack.enter_context(running(below))
        sick = stack.enter_context(RawServer(answers_info_then(talk)))
        children.add(root, ChildForm("healthy", healthy_url, "parent-root", secret))
        children.add(root, ChildForm("sick", sick.url, "parent-root", secret))
        background.poll_children(root)
        assert len(root.children.active()) == 2
        yield root


def drip(conversation: Conversation) -> None:
    conversation.drip(answer(offer(), "200 OK"), pause_s=1.0)


TALKS: dict[str, Callable[[Conversation], None]] = {
    "drips": drip,
    "drips-its-body": lambda c: (c.say(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"), drip(c))[0],
    "hangs": Conversation.hang,
    "closes": lambda c: None,
    "says-garbage": lambda c: c.say(b"\x16\x03\x01garbage\r\n\r\n"),
    "never-ends": lambda c: [c.say(b"HTTP/1.1 200 OK\r\n"), *(c.say(b"X: y\r\n") for _ in range(10_000))][0],
}


@pytest.mark.slow
@pytest.mark.parametrize("talk", TALKS.values(), ids=TALKS.keys())
def test_a_sick_peer_on_a_real_socket_costs_its_own_offers_only(
    tmp_path: Path, talk: Callable[[Conversation], None]
) -> None:
    with real_root(tmp_path, talk) as root:
        started = time.monotonic()
        plan = select.decide(root, a_spec(budget_s=2.5), root.uuid).plan
        took_s = time.monotonic() - started

    assert (len(plan.entries), plan.complete) == (8, False)
    assert took_s < LATE_S


@pytest.mark.slow
def test_many_selects_at_once_do_not_wait_in_line_for_a_child_that_hangs(tmp_path: Path) -> None:
    with real_root(tmp_path, Conversation.hang) as root:
        # The first call opens what all share.
        select.decide(root, replace(a_spec(), time_budget_s=1.0), root.uuid)
        plans: list[BuildPlan] = []

        def decide() -> None:
            plans.append(select.decide(root, a_spec(budget_s=2.5), root.uuid).plan)

        threads = [threading.Thread(target=decide) for _ in range(12)]
        started = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took_s = time.monotonic() - started

    assert [(len(plan.entries), plan.complete) for plan in plans] == [(8, False)] * 12
    assert took_s < LATE_S
