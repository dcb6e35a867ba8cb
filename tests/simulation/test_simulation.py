"""Whole trees under faults, seed by seed; docs/simulation.md says what is played and what is checked."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.planted.bugs import BUGS
from tests.simulation import corpus
from tests.simulation.baton import Task
from tests.simulation.run import simulate
from zonesched.compute import machine
from zonesched.model.placement import OCCUPYING, PlacementState
from zonesched.services.audit import repair
from zonesched.services.boot import boot_progress
from zonesched.store import instance_actions, instance_states, new_placements

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
SMALL, OTHER = 14, 16
"""Seeds of one zone, with some faults."""


def test_equal_seeds_give_equal_traces() -> None:
    first, second, other = simulate(SMALL), simulate(SMALL), simulate(OTHER)

    assert first.wrong == second.wrong == ()
    assert first.struck and first.digest == second.digest
    assert other.digest != first.digest


def test_a_seed_leaves_no_task_behind() -> None:
    simulate(SMALL)

    gc.collect()
    assert not [one for one in gc.get_objects() if isinstance(one, Task)]


@pytest.mark.slow
def test_no_trace_depends_on_how_python_hashes() -> None:
    digests = {_digest(hash_seed) for hash_seed in ("1", "2")}

    assert len(digests) == 1


def _digest(hash_seed: str) -> str:
    ran = subprocess.run(
        [sys.executable, "benchmarks/simulate.py", "--seed", "7"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("seed 7: trace ")]
    return line


@pytest.mark.slow
@pytest.mark.parametrize("seed", corpus.read().meets)
def test_nothing_is_lost_twice_or_too_much(seed: int) -> None:
    outcome = simulate(seed)

    assert outcome.wrong == (), f"python benchmarks/simulate.py --seed {seed} --trace"
    missed = set(corpus.read().meets[seed]) - set(outcome.met)
    assert not missed, "python benchmarks/simulate.py --seeds 200 --corpus"


def entries_are_never_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    differing: Callable[[Any], tuple[Any, ...]] = new_placements._differing

    def without_key(p: Any) -> tuple[Any, ...]:
        uuid, _, *where = differing(p)
        return (uuid, None, *where)

    monkeypatch.setattr(new_placements, "_differing", without_key)


def an_unanswered_confirm_counts_as_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    occupying = OCCUPYING - {PlacementState.CONFIRMING}
    monkeypatch.setattr(boot_progress, "OCCUPYING", occupying)


def agents_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine._Draft, "_let_go", lambda self, key: None)


def actions_reach_their_end_unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_actions, "reached", lambda tx, generations, now: None)


def children_are_told_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_states, "due_to_tell", lambda tx, now, busy, most: [])


def agents_stop_nothing_that_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    def claim(draft: machine._Draft, wanted: machine.Wanted, local: machine.Local | None) -> None:
        left = machine.Report(wanted.key, machine.ReportState.LEFT, left_for=wanted.leaves_for)
        draft.unreported[wanted.key] = left

    monkeypatch.setattr(machine._Draft, "_make_leave", claim)


def nothing_is_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "run", lambda zone: [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "promise", "likely"),
    [
        (entries_are_never_used_up, "P5", 11),
        (an_unanswered_confirm_counts_as_refused, "P2", 695002),
        (agents_end_nothing, "P2", 6),
        (actions_reach_their_end_unnoticed, "P9", 6),
        (children_are_told_no_state, "P9", 6),
        (agents_stop_nothing_that_leaves, "P8", 39),
        (nothing_is_repaired, "repair", 57),
    ],
)
def test_a_planted_bug_is_found(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], promise: str, likely: int
) -> None:
    """One of 100 seeds finds it; a seed that has found it before is played first."""
    plant(monkeypatch)

    played = map(simulate, (likely, *(seed for seed in range(100) if seed != likely)))

    assert any(line.startswith(promise) for outcome in played for line in outcome.wrong)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rule", "likely"),
    [
        ("old lease still writes", "lease z", 2),
        ("confirm on own authority", "IllegalMove", 399),
        ("confirm answered for a child", "is confirmed in", 49),
        ("anti-affinity off by one", "group z", 78),
        ("holds are never reaped", "over and still there", 39),
        ("found nowhere and not ended", "P11 z", 520),
        ("a restored zone works on", "P11 z", 562),
        ("a parent's quota off by one", "quota z", 490295),
    ],
)
def test_a_planted_line_is_found(tmp_path: Path, name: str, rule: str, likely: int) -> None:
    # given a checkout with one wrong line, and what was compiled of the others
    for part in ("zonesched", "tests", "benchmarks"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("*-pytest-*", "*.pyc.*"))
    (bug,) = [bug for bug in BUGS if bug.name == name]
    bug.plant(tmp_path)
    # when seeds are played there until one fails by that rule, from one on that has failed before
    seeds = ["--first-seed", str(likely), "--seeds", "100", "--jobs", "1"]
    play = [sys.executable, "-u", "benchmarks/simulate.py", *seeds]
    with subprocess.Popen(
        play, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as ran:
        assert ran.stdout is not None
        found = next((line for line in ran.stdout if line.startswith("seed ") and rule in line), "")
        ran.kill()
    # then one of them is found
    assert found
