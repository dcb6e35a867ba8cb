"""Reach of seeds: the journal of a database, the choice of a corpus, and the rows that are made."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.moving import act, last, on_h1
from tests.builders.played_agent import PlayedAgent
from tests.builders.tree import Tree, a_host
from tests.simulation import corpus, journal
from tests.simulation.journal import Change, News
from tests.simulation.reach_points import COMMIT_POINTS, Commit, History
from tests.simulation.reach_rows import IMPOSSIBLE, answer_row, rows
from zonesched.model.action_table import LEGAL_IN, Action, Illegal, judge
from zonesched.model.desired_state import Desired, InstanceState
from zonesched.model.observed_state import Observed, Resizes
from zonesched.model.placement import BuildState, InstanceStatus, PlacementState
from zonesched.model.placement_moves import AFTER_ANSWER, CHILD_MOVES, LOCAL_MOVES, Move
from zonesched.store import instance_actions
from zonesched.store.metadata import metadata
from zonesched.store.store import Store
from zonesched.store.tables import reservations

pytestmark = pytest.mark.once

INTENDED = Change("child place", "u", 1, "", "intended", "", "r c1")


def test_a_journal_has_what_was_committed_and_nothing_else(tmp_path: Path) -> None:
    # given a database with a journal and a reservation
    store = Store.open(f"sqlite:///{tmp_path}/zone.sqlite")
    metadata.create_all(store.engine)
    with sqlite3.connect(tmp_path / "zone.sqlite") as connection:
        journal.keep(connection)
    connection.isolation_level = None
    journals = journal.Journals({"z0": connection})
    values = {column.name: 0 for column in reservations.columns} | {"id": "r", "state": "open", "reason": ""}
    store.write(lambda tx: tx.execute(reservations.insert().values(values)))
    made = journals.news("z0")
    # when one change is committed and another one is not
    store.write(lambda tx: tx.execute(reservations.update().values(state="settled")))
    with pytest.raises(ZeroDivisionError):
        store.write(lambda tx: (tx.execute(reservations.update().values(state="open")), 1 // 0))
    # then the journal has the first
    changed = journals.news("z0")
    steps = [one.step for one in (*made.changes, *changed.changes) if one.what == "reservation"]
    assert steps == ["open", "open -> settled"]
    # and names the tables of which a guard reads what has changed
    assert made.tables == frozenset({"reservations"})
    assert not changed.tables
    assert journals.news("z0") == News((), frozenset())
    connection.close()
    store.close()


def test_every_move_of_a_place_is_a_row() -> None:
    names = rows()

    for kind, moves in (("host", LOCAL_MOVES), ("child", CHILD_MOVES)):
        for move in moves:
            assert f"{kind} place: {move.before.value} -> {move.after.value}" in names
    for state, answer in AFTER_ANSWER:
        assert answer_row(state, answer.value) in names
    assert not set(IMPOSSIBLE) & set(names)


def test_the_corpus_has_the_cheapest_seeds_that_meet_all() -> None:
    one, two, three = corpus.EVERY_NAME[:3]
    met = {1: [one, two], 2: [two, three], 3: [one, two, three], 4: [one]}

    chosen = corpus.smallest(met, {1: 1.0, 2: 1.0, 3: 9.0, 4: 0.1})

    assert set(chosen.meets) == {2, 4}
    assert sorted(name for names in chosen.meets.values() for name in names) == sorted([one, two, three])
    assert one not in chosen.unmet and corpus.EVERY_NAME[3] in chosen.unmet


def test_the_stored_corpus_names_every_row_and_point_once() -> None:
    stored = corpus.read()
    named = [name for names in stored.meets.values() for name in names]

    assert sorted(named) == sorted(corpus.EVERY_NAME)
    assert stored.unmet == []


@pytest.mark.parametrize("answer", [state for state in BuildState if state is not BuildState.GONE])
def test_a_place_that_is_released_goes_by_the_end_of_its_delete_alone(answer: BuildState) -> None:
    assert answer_row(PlacementState.RELEASING, answer.value) not in rows()
    assert (PlacementState.RELEASING, answer) not in AFTER_ANSWER


def after(moves: Iterable[Move], *first: PlacementState) -> set[PlacementState]:
    """All states that a place may have after one of these."""
    known: set[PlacementState] = set()
    found = set(first)
    while found != known:
        known = set(found)
        found |= {move.after for move in moves if move.before in known}
    return found


def test_no_place_is_held_after_its_cancel() -> None:
    assert "inbound: cancel, held" not in rows()
    assert PlacementState.HELD not in after(LOCAL_MOVES, PlacementState.GONE)
    assert PlacementState.HELD not in after(CHILD_MOVES, PlacementState.GONE, PlacementState.CANCELLING)


def test_a_place_that_its_parent_knows_to_be_held_is_not_held_after_its_confirm() -> None:
    # A parent confirms what it was told to be held; the transaction of the confirm moves it on.
    assert "inbound: confirm, held" not in rows()
    for moves in (LOCAL_MOVES, CHILD_MOVES):
        moved_on = {move.after for move in moves if move.before is PlacementState.HELD}
        assert PlacementState.HELD not in after(moves, *moved_on)


def test_a_parent_cancels_nothing_that_it_has_confirmed() -> None:
    assert "inbound: cancel, confirmed" not in rows()
    assert PlacementState.CANCELLING not in after(CHILD_MOVES, PlacementState.CONFIRMING)
    assert PlacementState.CONFIRMING not in after(CHILD_MOVES, PlacementState.CANCELLING)


AT_REST = InstanceState()
OFFERED = InstanceState(
    desired=Desired(generation=1, resizes=Resizes(begun=1)),
    observed=Observed(generation=1, resizes=Resizes(begun=1)),
)
"""A server whose resize waits for its owner to confirm or revert it."""


@pytest.mark.parametrize(
    ("action", "before"),
    [
        (Action.REBUILD, AT_REST),
        (Action.SHELVE, AT_REST),
        (Action.RESIZE, AT_REST),
        (Action.CONFIRM_RESIZE, OFFERED),
        (Action.REVERT_RESIZE, OFFERED),
    ],
)
def test_no_action_is_accepted_before_the_end_of_one_that_is_never_superseded(
    action: Action, before: InstanceState
) -> None:
    # given an action that was accepted and is under way
    desired = judge(action, InstanceStatus.ACTIVE, before)
    assert isinstance(desired, Desired)
    pending = before.wanting(desired)
    # when any other one is asked for
    others = set(LEGAL_IN) - {Action.MIGRATE}
    answers = {other: judge(other, InstanceStatus.ACTIVE, pending) for other in others}
    # then none makes a later state that could be reached first
    assert [other for other, answer in answers.items() if not isinstance(answer, Illegal)] == []
    assert f"action: {action.recorded_as}, superseded" not in rows()


def test_a_migration_ends_with_its_move_alone(tmp_path: Path) -> None:
    # given an open migration, which has no generation
    tree = Tree(tmp_path)
    node = tree.add("leaf", hosts_=[a_host("h1", vcpus=4)])
    node.client().post("/flavors", FLAVOR)
    uuid = on_h1(tree, PlayedAgent(node))
    assert act(node, uuid, {"migrate": None}).status == 202
    # when any generation of the server is reached
    store = node.zone.store
    store.write(lambda tx: instance_actions.reached(tx, {uuid: (1000, "")}, node.zone.clock.now()))
    # then it has not ended, and so it is never superseded
    assert last(node, uuid) == ("migrate", None, "")
    assert "action: migrate, superseded" not in rows()


def test_an_offer_of_a_child_that_has_mostly_failed_counts_as_one_of_an_unreliable_child() -> None:
    # given a boot whose only place in a child has failed
    history = History()
    history.take([INTENDED, Change("child place", "u", 1, "intended", "failed", "", "r c1")])
    is_met = COMMIT_POINTS["an unreliable child's offer was used"]
    # when another instance is sent there, or elsewhere
    there = Change("child place", "v", 1, "", "intended", "", "r c1")
    elsewhere = Change("child place", "v", 1, "", "intended", "", "r c2")
    # then it counts there alone
    assert is_met(Commit((there,), history))
    assert not is_met(Commit((elsewhere,), history))
