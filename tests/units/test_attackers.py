"""The attacks of the benchmark: their names, their bounds, their place in the documentation."""

from __future__ import annotations

import math
import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.attackers import handshakes
from benchmarks.attackers.attack import Attack, Role
from benchmarks.attackers.attacker import Answer, Attacker
from benchmarks.attackers.attacks import ALL, BY_NAME
from benchmarks.attackers.child_moods import MOODS, answer
from benchmarks.attackers.child_server import Question
from benchmarks.attackers.condition import MOST_GROWN_MB
from benchmarks.attackers.measuring import FLOOR_S, bound_s, p99
from benchmarks.attackers.run import chosen
from benchmarks.attackers.scene import Scene
from benchmarks.attackers.tree import SELECT_TIMEOUT_S
from benchmarks.attackers.verdict import Summary, Times, Verdict
from benchmarks.attackers.wire import a_spec
from tests.builders.spec_bodies import a_spec as a_request
from zonesched.api.schemas.select import SelectBody
from zonesched.zones.answers import read_offer

SECURITY = Path(__file__).parents[2] / "docs" / "security.md"
CALM = {"root": [0.1] * 100, "middle": [0.01] * 100}


def an_attack(name: str = "member-something", *, is_silent: bool = False) -> Attack:
    return Attack(name, "does something", lambda attacker: None, is_silent=is_silent)


def a_verdict(attacked: dict[str, list[float]], attack: Attack | None = None) -> Verdict:
    kind = attack or an_attack()
    times = Times(CALM, attacked)
    return Verdict(kind, times, grown_mb=1.0, answers={"200": 1}, late=times.late(kind))


def an_attacker(*forbidden: str) -> Attacker:
    scene = Scene({}, "", "", {"member": ("name", "secret")}, {"member": forbidden}, {})
    return Attacker(scene, "member", "root", seconds=0.0, seed=1)


def test_each_attack_is_named_once_after_its_role() -> None:
    assert len(ALL) == len(BY_NAME) > 40
    assert {attack.role for attack in ALL} == set(Role)


def test_the_table_of_security_names_every_attack_and_no_other() -> None:
    roles = "|".join(role.value for role in Role)
    table = [line for line in SECURITY.read_text().splitlines() if line.startswith("| a")]
    named = {
        name for line in table for name in re.findall(rf"`((?:{roles})-[a-z-]+)`", line.rsplit("|", 2)[1])
    }
    assert named == set(BY_NAME)


def test_some_attacks_are_chosen_by_name() -> None:
    assert [attack.name for attack in chosen(ALL, ["parent-replays"], tls=False)] == ["parent-replays"]
    assert chosen(ALL, [], tls=True) == list(ALL)
    with pytest.raises(KeyError):
        chosen(ALL, ["unknown"], tls=False)


def test_handshakes_are_attacked_only_where_zones_serve_https() -> None:
    left_out = set(ALL) - set(chosen(ALL, [], tls=False))
    assert {attack.name for attack in left_out} == {attack.name for attack in handshakes.ATTACKS}
    with pytest.raises(ValueError, match="stranger-broken-records"):
        chosen(ALL, ["stranger-broken-records"], tls=False)


def test_a_select_is_late_above_three_times_the_calm_p99_and_above_the_floor() -> None:
    assert p99([*[1.0] * 99, 9.0]) == 1.0
    assert p99([*[1.0] * 98, 9.0, 9.0]) == 9.0
    assert bound_s(CALM["root"]) == pytest.approx(0.3)
    assert bound_s(CALM["middle"]) == FLOOR_S

    assert a_verdict({"root": [0.29], "middle": [0.24]}).over == []
    assert bound_s(CALM["root"], floor_s=0.4) == 0.4
    (late,) = a_verdict({"root": [0.29, 0.31], "middle": [0.24]}).over
    assert late.startswith("late: root: 1 of 2 selects over 0.30 s, the latest 0.31")
    assert len(a_verdict({"root": [0.31], "middle": [0.26]}).over) == 2


def test_a_refused_select_and_a_caller_without_any_are_late() -> None:
    assert len(a_verdict({"root": [math.inf], "middle": [0.01]}).over) == 1
    assert len(a_verdict({"root": [], "middle": [0.01]}).over) == 1


def test_only_a_select_that_asks_a_silent_child_may_use_up_its_time_budget() -> None:
    silent = an_attack("child-something", is_silent=True)
    assert a_verdict({"root": [SELECT_TIMEOUT_S], "middle": [0.01]}, silent).over == []
    assert len(a_verdict({"root": [SELECT_TIMEOUT_S + 0.3], "middle": [0.01]}, silent).over) == 1
    assert len(a_verdict({"root": [0.1], "middle": [SELECT_TIMEOUT_S]}, silent).over) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"grown_mb": MOST_GROWN_MB + 1},
        {"unrecovered": ["x"]},
        {"leaks": ["x"]},
        {"broken": ["x"]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_each_bound_counts(change: dict[str, object]) -> None:
    held = a_verdict({"root": [0.1], "middle": [0.01]})
    over = replace(held, **change)  # type: ignore[arg-type]
    assert not Summary([held]).is_over
    assert Summary([held, over]).is_over
    told = Summary([held, over]).numbers()
    assert told["attacks"] == 2
    assert (
        sum(1 for name in ("late", "unrecovered", "leaks", "broken") if told[name])
        + (told["grown_mb"] == MOST_GROWN_MB + 1)
        == 1
    )


def test_what_an_attacker_may_not_read_is_found_in_an_answer() -> None:
    attacker = an_attacker("host-7", "secret-of-another")
    attacker.look_at(b'{"name": "host-8"}', b"nothing")
    assert attacker.leaks == set()
    attacker.look_at(b'{"name": "host-77"}')
    assert attacker.leaks == {"host-7"}


def test_a_fault_of_the_zone_is_a_broken_promise() -> None:
    attacker = an_attacker()
    attacker.count(Answer(400, b""), "GET /x")
    assert attacker.broken == []
    attacker.count(Answer(500, b""), "GET /x")
    assert attacker.broken == ["GET /x is a 500"]


def test_the_scene_reaches_the_attackers_process(tmp_path: Path) -> None:
    scene = Scene(
        {"root": "http://127.0.0.1:1"}, "c", "", {"member": ["n", "s"]}, {"member": ["x"]}, {"a": "b"}
    )
    scene.write(tmp_path / "scene.json")
    assert Scene.read(tmp_path / "scene.json") == scene


@pytest.mark.parametrize("mood", sorted(set(MOODS) - {"silent"}))
def test_a_played_child_answers_each_select_in_bytes(mood: str) -> None:
    over = threading.Event()
    pieces = iter(answer(mood, Question("POST", "/zones/select", {"request_spec": a_spec()}), over))
    assert isinstance(next(pieces), bytes)
    over.set()
    assert all(isinstance(piece, bytes) for piece in pieces)


def test_an_honest_child_offers_what_a_zone_takes() -> None:
    question = Question("POST", "/zones/select", {"request_spec": a_spec(num_instances=3)})
    (whole,) = answer("honest", question, threading.Event())
    spec = a_request(num_instances=3)
    assert len(read_offer(whole.partition(b"\r\n\r\n")[2], spec, 256).entries) == 3


def test_what_attackers_send_as_a_spec_is_one() -> None:
    SelectBody.model_validate({"version": 1, "request_spec": a_spec()})
