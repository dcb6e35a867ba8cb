"""Writing transactions against each other, statement by statement; docs/simulation.md says what is played."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import combinations_with_replacement
from pathlib import Path

import pytest

from tests.builders.migrated import a_database
from tests.builders.postgresql import databases
from tests.interleaving import schedule
from tests.interleaving.kinds import DANGEROUS, KINDS, Kind
from tests.interleaving.order import TO_THE_END, After, Given, Order
from tests.interleaving.player import Blow
from tests.interleaving.removal import rewritten, without_lock
from tests.interleaving.scene import Scene
from tests.interleaving.schedule import Schedules
from zonesched.services.zone import Zone

pytestmark = [pytest.mark.postgresql, pytest.mark.slow]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    path = tmp_path / "zone.sqlite"
    found = Scene.open(tmp_path, a_database(path), databases().connection(path))
    yield found
    found.close()


def schedules(scene: Scene, pair: str) -> Schedules:
    return Schedules(scene, [KINDS[name] for name in pair.split("+")])


def test_dangerous_kinds_leave_sound_rows_in_any_order(scene: Scene) -> None:
    wrong: list[str] = []
    for pair in combinations_with_replacement(DANGEROUS, 2):
        played = schedules(scene, "+".join(pair)).play(3, seed=1)
        wrong += [f"{one.repeat}: {one.wrong}" for one in played if one.wrong]

    assert wrong == []


def test_three_at_a_time_leave_sound_rows(scene: Scene) -> None:
    played = list(schedules(scene, "hold+cancel+reap").play(8, seed=1))

    assert [one.wrong for one in played] == [()] * len(played)


# Orders in which a transaction of the one is interrupted by all that the other does.
SECOND = {
    "host_removed+host_removed": "3a3b",
    "child_removed+child_removed": "1a33b",
    "flavor_spec+flavor_spec": "2a1b1a2b",
    "flavor_deleted+flavor_deleted": "3a1b1a3b",
    "flavor_shared+private_flavor_deleted": "2a4b3a",
    "image_property+image_property": "2a1b1a2b",
    "image_deleted+image_deleted": "2a1b1a2b",
    "group_created+group_created": "2a1b1a2b",
    "keypair_added+keypair_added": "3a2b1a2b",
    "child_renamed+child_disabled": "2a7b5a",
    "child_renamed+child_answered": "2a4b5a",
    "child_renamed+sync": "3a24b4a",
    "child_removed+delete_in_child": "1a25b3a7b21a11b",
    "agent_removed+agent_removed": "4a4b",
    "spare_registers+host_taken_over": "4a16b10a",
    "setting_of_removed+host_removed": "1a20b4a",
    "evacuated_of_removed+host_removed": "1a20b4a",
    "recovered+agent_told": "14a8b144a",
    "renamed+secrets_encrypted": "4a11b4a",
    "child_forgot+start_in_child": "7b2a6b",
    "group_deleted+group_deleted": "2a1b1a2b",
    "parent_limited+parent_user_deleted": "2a9b7a",
    "arrivals_evacuated+move_reported": "4b5a23b33a",
    "aggregate_ratio+aggregate_named": "1a1b14a14b",
    "aggregate_deleted+aggregate_deleted": "3a1b2a1b",
    "silent_host_evacuated+agent_back": "19a14b62a",
    "silent_server_evacuated+agent_back": "13a14b18a",
    "arrivals_evacuated_in_recovery+move_reported": "3a27b42a",
}


def test_who_comes_second_finds_what_the_first_has_done(scene: Scene) -> None:
    played = [schedules(scene, pair).judged(Given.from_text(order)) for pair, order in SECOND.items()]

    assert {one.repeat: one.wrong for one in played if one.wrong} == {}


@pytest.mark.parametrize(
    "pair",
    [
        "inventory+host_disabled",
        "repair+host_disabled",
        "aggregate_joined+host_removed",
        "person_deleted+password_set",
        "password_set+link_followed",
        "person_deleted+link_followed",
    ],
)
def test_who_locks_the_same_rows_locks_them_in_one_order(scene: Scene, pair: str) -> None:
    played = schedules(scene, pair).play(20, seed=1)

    assert [one.order for one in played if one.conflicts["40P01"]] == []


@pytest.mark.parametrize(
    "pair",
    [
        "hosts_followed+hold",
        "hosts_followed+inventory",
        "hosts_followed+host_evacuated",
        "hosts_followed+server_evacuated",
        "hosts_followed+build_timeout",
        "feed_followed+cancel",
        "feed_followed+parent_delete",
    ],
)
def test_who_follows_the_changes_misses_none(scene: Scene, pair: str) -> None:
    played = list(schedules(scene, pair).play(20, seed=1))

    # They compare at their second look what they know with what a new reader finds.
    assert {one.repeat: one.wrong for one in played if one.wrong} == {}


def test_a_worker_whose_lease_is_over_claims_nothing_for_a_move(scene: Scene) -> None:
    # It is interrupted by one whose clock says that its lease is over.
    interrupted = After("a", "^INSERT INTO placements")

    assert schedules(scene, "move+move_overdue").judged(interrupted).wrong == ()


def strokes(blow: Blow, steps: Sequence[str]) -> list[int]:
    """The steps, by their numbers from 1, at which a blow differs from none."""
    return [n for n, step in enumerate(steps, 1) if blow is Blow.DIES or step == "COMMIT"]


@pytest.mark.parametrize(
    ("pair", "order"), [("batch", ""), ("batch+lease_taken_over", "4b"), ("batch+new_deleted", "6b")]
)
def test_each_boot_of_a_batch_is_decided_once_though_its_process_is_struck_at_any_step(
    scene: Scene, pair: str, order: str
) -> None:
    found, steps = schedules(scene, pair), schedules(scene, "batch").judged(Given([])).statements[0]
    wrong: list[object] = []
    for blow in Blow:
        for at in strokes(blow, steps):
            played = found.struck(Given.from_text(order), at, blow)
            undecided = scene.watch.execute("SELECT id FROM reservations WHERE state = 'open'").fetchall()
            if played.wrong or undecided:
                wrong.append((blow, at, played.order, played.wrong, undecided))

    assert wrong == []


CAPACITY = r"AND inventories\.used \+ [^<]*<= inventories\.capacity"


@pytest.mark.parametrize(
    ("removal", "pair", "order", "found"),
    [
        (rewritten(CAPACITY), "hold+quota", Given([("a", TO_THE_END)]), "P3"),
        (rewritten("^INSERT INTO placements", "INSERT INTO nowhere"), "hold+reap", Given([]), "error a"),
        (
            without_lock("group", "group_policy.refused"),
            "group_apart+group_apart",
            Given([("a", 17), ("b", 22)]),
            "audit: group_host_overfull",
        ),
        (
            without_lock("instances", "confirm._decide_confirm"),
            "confirm+reap",
            Given([("a", 2), ("b", 24)]),
            "outcome of no order",
        ),
        (
            without_lock("boots", "locks.call"),
            "sent_again+sent_deleted",
            Given([("a", 12), ("b", TO_THE_END)]),
            "audit: claim_without_instance",
        ),
    ],
    ids=["capacity", "error", "audit", "outcome", "boots"],
)
def test_a_removed_lock_or_condition_is_seen(
    scene: Scene, removal: AbstractContextManager[None], pair: str, order: Order, found: str
) -> None:
    with removal:
        played = schedules(scene, pair).judged(order)

    assert any(wrong.startswith(found) for wrong in played.wrong), played.wrong


def test_what_a_second_look_finds_is_a_violation(scene: Scene) -> None:
    def lacks(scene: Scene, zone: Zone, number: int) -> None:
        if number in scene.looked:
            raise AssertionError("a change is missing")
        scene.looked.add(number)

    kind = Kind("lacks", lacks, looks_again=True)

    assert Schedules(scene, [kind]).judged(Given([])).wrong == (
        "second look a: AssertionError a change is missing",
    )


def test_an_outcome_is_that_of_the_order_in_which_its_transactions_ended(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "MOST_WHOLE", 0)
    found = schedules(scene, "first_unshelved+second_unshelved")

    played = found.judged(Given.from_text("3a2b18a44b"))

    assert (played.wrong, played.is_undecided) == ((), False)


def test_an_outcome_that_no_order_played_brings_about_is_undecided(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "MOST_WHOLE", 0)
    with without_lock("instances", "confirm._decide_confirm"):
        played = schedules(scene, "confirm+reap").judged(Given([("a", 2), ("b", 24)]))

    assert (played.wrong, played.is_undecided) == ((), True)


def test_a_violation_is_repeated_by_its_order(scene: Scene) -> None:
    with without_lock("instances", "confirm._decide_confirm"):
        first = schedules(scene, "confirm+reap").judged(Given([("a", 2), ("b", 24)]))
        again = schedules(scene, "confirm+reap").judged(Given.from_text(first.order))

    assert first.wrong
    assert (again.order, again.wrong) == (first.order, first.wrong)
