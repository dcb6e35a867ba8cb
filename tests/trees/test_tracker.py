"""The agent's usage ledger: its sums, its excesses, and their reports to the zone."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.one_zone import AGENT, a_form, a_zone, add_hosts, boot_on, put_instance, put_place, sql
from tests.builders.scenes import built_once
from tests.builders.tree import Client, Tree, a_host
from tests.builders.wire import Wire
from zonesched.compute.agent import Agent, Rhythm
from zonesched.compute.client import AgentClient
from zonesched.compute.driver import DriverSettings
from zonesched.compute.fake import FakeDriver
from zonesched.compute.inventory import InventoryHost
from zonesched.compute.machine import Key, Local, Phase
from zonesched.compute.tracker import COMPARE_S, Tracker
from zonesched.compute.usage_ledger import (
    Booked,
    Claim,
    Excess,
    HostClass,
    Statement,
    UsageLedger,
    compare,
    present,
    unreported,
)
from zonesched.model.agent_claims import BookedClass, ClaimedInstance
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.services.audit import audit, repair
from zonesched.services.hosts import hosts
from zonesched.store.placements import ClaimedHost

A, B = Key("a", 1), Key("b", 1)
TWO = Claim("h1", {"VCPU": 2})
VCPU = ("h1", "VCPU")


def told(*wanted: Key, used: int | None = None, held: int = 0, known: int = 0) -> Statement:
    """The zone's word: 2 VCPU for each that it wants on h1, and what is booked there."""
    booked = Booked(2 * len(wanted) + held if used is None else used, held, known)
    return Statement(dict.fromkeys(wanted, TWO), {VCPU: booked})


# -- the ledger --------------------------------------------------------------------------------------------

claims = st.builds(
    Claim,
    st.sampled_from(["h1", "h2"]),
    st.dictionaries(st.sampled_from(["VCPU", "MEMORY_MB", "PGPU"]), st.integers(1, 9)),
)
keys = st.builds(Key, st.sampled_from("abcdef"), st.integers(1, 2))
wishes = st.dictionaries(keys, claims)
booked = st.dictionaries(
    st.tuples(st.sampled_from(["h1", "h2"]), st.sampled_from(["VCPU", "MEMORY_MB", "PGPU"])),
    st.builds(Booked, st.integers(0, 99), st.integers(0, 9), st.integers(-9, 9)),
)
statements = st.builds(Statement, wishes, booked)
looks = st.lists(st.tuples(st.frozensets(keys), statements), max_size=4)


def sums(taken: Mapping[Key, Claim]) -> dict[HostClass, int]:
    found: dict[HostClass, int] = {}
    for claim in taken.values():
        for name, amount in claim.resources.items():
            found[claim.host, name] = found.get((claim.host, name), 0) + amount
    return found


def after(history: list[tuple[frozenset[Key], Statement]]) -> UsageLedger:
    ledger = UsageLedger()
    for here, statement in history:
        ledger = compare(ledger, here, statement)
    return ledger


@given(history=looks, here=wishes, more=wishes)
def test_what_stands_still_counts_as_the_sum_of_what_is_here(
    history: list[tuple[frozenset[Key], Statement]], here: dict[Key, Claim], more: dict[Key, Claim]
) -> None:
    still = (frozenset(here), Statement(here | more))

    ledger = after([*history, still, still])

    assert ledger.counted == Counter(
        sums({key: claim for key, claim in (here | more).items() if key in here})
    )


@given(here=st.frozensets(keys), statement=statements)
def test_what_has_just_changed_counts_as_the_zone_has_it(here: frozenset[Key], statement: Statement) -> None:
    assert compare(UsageLedger(), here, statement).counted == Counter(sums(statement.wanted))


@given(history=looks, here=st.frozensets(keys), statement=statements)
def test_the_zones_word_of_an_instance_replaces_what_the_ledger_had(
    history: list[tuple[frozenset[Key], Statement]], here: frozenset[Key], statement: Statement
) -> None:
    ledger = compare(after(history), here, statement)

    assert {key: ledger.entries[key].claim for key in statement.wanted} == statement.wanted


@given(history=looks, here=st.frozensets(keys), statement=statements)
def test_each_excess_and_nothing_else_is_between_counted_and_claimed(
    history: list[tuple[frozenset[Key], Statement]], here: frozenset[Key], statement: Statement
) -> None:
    ledger = compare(after(history), here, statement)

    amounts = {d.place: d.amount for d in ledger.excesses}
    places = ledger.counted.keys() | statement.booked.keys()
    for place in places:
        row = statement.booked.get(place, Booked(0))
        assert ledger.counted.get(place, 0) - (row.used - row.held) == amounts.get(place, 0)
    assert amounts.keys() <= places
    assert 0 not in amounts.values()


@given(history=looks, here=st.frozensets(keys), statement=statements)
def test_once_it_was_told_there_is_nothing_more_to_tell(
    history: list[tuple[frozenset[Key], Statement]], here: frozenset[Key], statement: Statement
) -> None:
    ledger = compare(after(history), here, statement)
    amounts = unreported(ledger, statement)

    rows = dict(statement.booked)
    for place, amount in amounts.items():
        row = rows.get(place, Booked(0))
        rows[place] = Booked(row.used, row.held, amount)
    assert unreported(ledger, Statement(statement.wanted, rows)) == {}


def test_a_claim_whose_instance_is_not_built_yet_is_no_excess_at_first() -> None:
    first = compare(UsageLedger(), frozenset(), told(A))
    assert first.excesses == ()
    assert compare(first, frozenset(), told(A)).excesses == (Excess("h1", "VCPU", 0, 2),)
    assert compare(first, frozenset({A}), told(A)).excesses == ()


def test_an_instance_that_does_not_end_is_an_excess_from_the_second_comparison_on() -> None:
    running = compare(UsageLedger(), frozenset({A, B}), told(A, B))
    ending = compare(running, frozenset({A, B}), told(B))
    assert ending.excesses == ()
    stuck = compare(ending, frozenset({A, B}), told(B))
    assert stuck.excesses == (Excess("h1", "VCPU", 4, 2),)
    assert compare(stuck, frozenset({B}), told(B)).excesses == ()


def test_holds_are_claims_that_no_agent_has_to_know() -> None:
    still = compare(UsageLedger(), frozenset({A}), told(A, held=6))
    assert compare(still, frozenset({A}), told(A, held=6)).excesses == ()


def test_what_is_booked_beyond_the_claims_is_an_excess_at_once() -> None:
    assert compare(UsageLedger(), frozenset({A}), told(A, used=5)).excesses == (Excess("h1", "VCPU", 2, 5),)


def test_a_failed_build_claims_nothing() -> None:
    assert present({A: Local(Phase.FAILED), B: Local(Phase.DESTROYING)}) == {B}


def test_the_zone_is_told_what_it_does_not_know_and_what_is_over() -> None:
    differs = compare(UsageLedger(), frozenset(), told(used=5))
    assert unreported(differs, told(used=5)) == {VCPU: -5}
    assert unreported(differs, told(used=5, known=-5)) == {}
    assert unreported(compare(UsageLedger(), frozenset(), told()), told(known=-5)) == {VCPU: 0}


# -- the zone's side ---------------------------------------------------------------------------------------


def test_a_zone_says_what_is_claimed_and_what_of_it_is_held(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    one, _ = add_hosts(zone, a_form("h1"), a_form("idle"))
    (other,) = add_hosts(zone, a_form("h2"), service="other")
    boot_on(zone, other)
    uuid = boot_on(zone, one, {"VCPU": 2})
    for state in (PlacementState.HELD, PlacementState.CONFIRMED):
        status = InstanceStatus.BUILD if state is PlacementState.HELD else InstanceStatus.ERROR
        put_place(zone, put_instance(zone, status=status), ClaimedHost(one, {"VCPU": 3}), state=state)

    found = hosts.claimed(zone.store, AGENT, "agent")

    assert found.instances == [ClaimedInstance(uuid, 1, "h1", {"VCPU": 2})]
    assert found.booked == [BookedClass("h1", "VCPU", used=8, held=6, excess=0)]


def test_what_an_agent_says_of_others_hosts_and_of_no_class_is_left_out(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    own, other = add_hosts(zone, a_form("h1")) + add_hosts(zone, a_form("h2"), service="other")

    amounts = {("h1", "VCPU"): 3, ("h1", "NONE"): 1, ("h2", "VCPU"): 4, ("nowhere", "VCPU"): 5}
    hosts.note_excesses(zone.store, AGENT, "agent", amounts)

    assert hosts.show_hypervisor(zone, own).resources["VCPU"].agent_excess == 3
    assert hosts.show_hypervisor(zone, other).resources["VCPU"].agent_excess == 0


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ({"host": "h1", "resource_class": "vcpu", "excess": 1}, "excesses.0.resource_class"),
        ({"host": "h1", "resource_class": "VCPU", "excess": 2**31}, "excesses.0.excess"),
        ({"host": "h1", "resource_class": "VCPU", "excess": "1"}, "excesses.0.excess"),
        ({"host": "h1", "resource_class": "VCPU"}, "excesses.0.excess"),
    ],
)
def test_an_excess_that_cannot_be_is_refused(tmp_path: Path, line: dict[str, object], field: str) -> None:
    node = Tree(tmp_path).add("zone", hosts_=[a_host("h1")])

    answer = node.client("compute").post("/hosts/excesses", {"service": "agent", "excesses": [line]})

    assert answer.status == 400
    ((_, fault),) = answer.json.items()
    assert fault["field"] == field


# -- an agent and its zone ---------------------------------------------------------------------------------


class Clinging(FakeDriver):
    """A driver that does not get rid of instances while it `clings`."""

    clings = False

    def destroy(self, key: Key) -> None:
        if not self.clings:
            super().destroy(key)


@built_once
def a_zone_with_a_flavor(folder: Path) -> Tree:
    tree = Tree(folder)
    admin = tree.add("zone", hosts_=[a_host("h1", vcpus=8)]).client()
    admin.post("/flavors", {"flavor": {"name": "f", "id": "f", "vcpus": 2, "ram": 64, "disk": 1}})
    return tree


class World:
    """A zone behind its real application, its agent with a fake driver, and the agent's tracker."""

    def __init__(self, folder: Path) -> None:
        self.tree = a_zone_with_a_flavor(folder)
        self.node = self.tree.nodes["zone"]
        self.admin: Client = self.node.client()
        self.driver = Clinging(DriverSettings(), self.tree.clock)
        client = AgentClient(Wire(self.tree, "zone"), "agent")  # type: ignore[arg-type]
        self.agent = Agent(
            client, self.driver, self.tree.clock, [InventoryHost("h1", inventories=SIZE)], Rhythm()
        )
        self.tracker = Tracker(self.agent, client)

    def boot(self, count: int) -> list[str]:
        body = {"server": {"name": "vm", "flavorRef": "f", "num_instances": count}}
        assert self.admin.post("/zones/boot", body).status == 202
        self.tree.settle()
        self.pass_by()
        servers = self.admin.get("/servers/detail").json["servers"]
        assert {server["status"] for server in servers} == {"ACTIVE"}
        return [server["id"] for server in servers]

    def pass_by(self) -> None:
        """The time of one look."""
        for _ in range(3):
            self.agent.step()
            self.tree.clock.advance(COMPARE_S / 3)
        self.tree.settle(1)
        assert self.tracker.step() == COMPARE_S

    def vcpus(self) -> tuple[int, int]:
        """Operator's view: the used amount, and how much more the agent counts."""
        (host,) = self.admin.get("/os-hypervisors/detail").json["hypervisors"]
        use = host["resources"]["VCPU"]
        return use["used"], use["agent_excess"]


SIZE = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 4096}, "DISK_GB": {"total": 100}}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_an_agent_whose_instances_are_what_is_claimed_differs_at_no_look(world: World) -> None:
    first, *_ = world.boot(3)
    for _ in range(3):
        world.pass_by()
        assert world.vcpus() == (6, 0)
    world.admin.delete(f"/servers/{first}")
    for _ in range(3):
        world.pass_by()
        assert (world.vcpus(), world.tracker.ledger.excesses) == ((4, 0), ())


def test_an_instance_that_does_not_end_is_reported_until_it_has(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    # given: two instances, one of which cannot be got rid of
    caplog.set_level(logging.WARNING, "zonesched.compute.tracker")
    first, _ = world.boot(2)
    world.driver.clings = True
    world.admin.delete(f"/servers/{first}")

    # when
    for _ in range(4):
        world.pass_by()

    # then: the claim is given back all the same, and what the agent counts more is told once
    assert world.vcpus() == (2, 2)
    assert [message for message in caplog.messages if "VCPU" in message] == [
        "usage ledger differs: host=h1 resource_class=VCPU counted=4 claimed=2; the claims stand"
    ]

    # when
    world.driver.clings = False
    world.pass_by()

    # then
    assert world.vcpus() == (2, 0)
    assert caplog.messages[-1] == "usage ledger agrees again: host=h1 resource_class=VCPU"


def test_a_stored_use_beyond_the_claims_is_reported_and_repaired(
    world: World,
) -> None:
    world.boot(1)
    sql(world.node.zone, "update inventories set used = 7 where resource_class = 'VCPU'")

    world.pass_by()

    assert world.vcpus() == (7, -5)
    assert [found.kind for found in audit.run(world.node.zone)] == ["used_differs"]
    repair.run(world.node.zone)
    world.pass_by()
    assert world.vcpus() == (2, 0)


def test_the_next_agent_takes_back_what_the_one_before_has_told(world: World) -> None:
    first, _ = world.boot(2)
    world.driver.clings = True
    world.admin.delete(f"/servers/{first}")
    for _ in range(4):
        world.pass_by()
    assert world.vcpus() == (2, 2)

    client = AgentClient(Wire(world.tree, "zone"), "agent")  # type: ignore[arg-type]
    driver = FakeDriver(DriverSettings(), world.tree.clock)
    world.agent = Agent(client, driver, world.tree.clock, [InventoryHost("h1", inventories=SIZE)], Rhythm())
    world.tracker = Tracker(world.agent, client)
    world.pass_by()

    assert world.vcpus() == (2, 0)


def test_a_tracker_is_no_sign_that_its_agent_lives(world: World) -> None:
    zone, heard = world.node.zone, "select report_count from services where name = 'agent'"
    world.agent.step()
    zone.heartbeats.write()
    before = sql(zone, heard)
    # Longer than a service that was just written down is left alone.
    world.tree.clock.advance(2e5)

    world.tracker.step()
    zone.heartbeats.write()
    assert sql(zone, heard) == before

    world.agent.step()
    zone.heartbeats.write()
    assert sql(zone, heard) != before


def test_a_zone_that_is_away_is_asked_at_the_next_look(world: World) -> None:
    world.boot(1)
    tracker = Tracker(world.agent, AgentClient(Wire(world.tree, "zone"), "nobody"))  # type: ignore[arg-type]

    assert tracker.step() == COMPARE_S

    assert tracker.ledger == UsageLedger()
