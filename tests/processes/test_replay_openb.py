"""The replay of a recorded cluster: what is read, in which order it goes, what the checker finds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.openb import cards, checker, forms, history, order, report, trace
from benchmarks.openb.history import Deleted, Placed
from benchmarks.openb.main import main
from benchmarks.openb.order import AsRecorded, Check, Create, Delete, KeepAll, KeepSome, Trim
from benchmarks.openb.replay import Record
from benchmarks.openb.trace import CPU, GPU, MEMORY, Lifetime, Node, Shape, Task, TraceError
from benchmarks.zone_trees.tree import parent_of
from tests.builders.one_zone import a_form, a_zone, add_hosts, boot_on, put_place, sql
from zonesched.store.placements import ClaimedHost

pytestmark = pytest.mark.sqlite

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "replay_openb.py"
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,4096,2,V100M16\nn1,8000,8192,0,\n"


def a_task(name: str = "t", began_at: float = 0.0, ended_at: float = 1.0, **shape: Any) -> Task:
    asked = {"cpu_milli": 1000, "memory_mib": 512, "cards": 0, "card_milli": 0} | shape
    return Task(name, Shape(**asked), Lifetime(began_at, ended_at))


def a_node(name: str = "n", cards: int = 2, model: str = "T4") -> Node:
    return Node(name, cpu_milli=8000, memory_mib=4096, cards=cards, model=model)


def written(folder: Path, text: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(text)
    return path


# -- reading -----------------------------------------------------------------------------------------------


def test_nodes_are_read_with_their_cards_in_thousandths(tmp_path: Path) -> None:
    first, second = trace.read_nodes(written(tmp_path, NODES))
    assert first.capacity == {CPU: 8000, MEMORY: 4096, GPU: 2000}
    assert second.capacity == {CPU: 8000, MEMORY: 8192}


def test_tasks_are_read_with_all_columns(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "p0,4000,1024,2,1000,V100M16|V100M32,LS,Running,5,90,7\n"
        "p1,4000,0,1,460,,BE,Running,6,,7\n",
    )
    first, second = trace.read_tasks(path)
    assert first.shape.amounts == {CPU: 4000, MEMORY: 1024, GPU: 2000}
    assert first.shape.models == ("V100M16", "V100M32")
    assert first.lifetime == Lifetime(5.0, 90.0)
    assert second.shape.amounts == {CPU: 4000, GPU: 460}
    assert second.lifetime == Lifetime(6.0, float("inf"))


@pytest.mark.parametrize("more", ["", ",gpu_spec"])
def test_a_file_may_end_after_five_or_six_columns(tmp_path: Path, more: str) -> None:
    text = f"name,cpu_milli,memory_mib,num_gpu,gpu_milli{more}\np0,1,2,1,500{',T4' if more else ''}\n"
    (task,) = trace.read_tasks(written(tmp_path, text))
    assert task == Task("p0", Shape(1, 2, 1, 500, ("T4",) if more else ()), None)


HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name,cpu_milli\np,1\n", "no column memory_mib, num_gpu, gpu_milli"),
        (HEAD, "nothing in it"),
        (HEAD + "p,1,2,0,0,0,1\n" + "q,x,2,0,0,0,1\n", "line 3: cpu_milli is 'x'"),
        (HEAD + "p,-1,2,0,0,0,1\n", "line 2: cpu_milli"),
        (HEAD + "p,1,,0,0,0,1\n", "line 2: memory_mib is empty"),
        (HEAD + "p,1\n", "line 2: memory_mib is empty"),
        (HEAD + "p,1,2,1,1001,0,1\n", "line 2: gpu_milli is 1001"),
        (HEAD + "p,1,4294967296,0,0,0,1\n", "line 2: memory_mib"),
        (HEAD + "p,1,2,0,0,nan,1\n", "line 2: creation_time"),
        (HEAD + "p,1,2,0,0,0,-5\n", "line 2: deletion_time"),
        (HEAD + "p,1,2,0,0,0,1\np,1,2,0,0,0,1\n", "p is there twice"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(TraceError) as caught:
        trace.read_tasks(written(tmp_path, text))
    assert told in str(caught.value)
    assert "trace.csv" in str(caught.value)


def test_a_folder_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        trace.read_nodes(tmp_path)


# -- forms -------------------------------------------------------------------------------------------------


def test_a_node_is_a_host_with_its_model_as_a_trait() -> None:
    form = forms.host_form(a_node("n0", cards=2, model="V100-m16"))
    assert form == {
        "name": "n0",
        "inventories": {CPU: {"total": 8000}, MEMORY: {"total": 4096}, GPU: {"total": 2000}},
        "traits": ["CUSTOM_GPU_V100_M16"],
    }
    assert forms.host_form(a_node(cards=0, model=""))["traits"] == []


def test_a_shape_is_a_flavor_without_vcpus_and_disk() -> None:
    form = forms.flavor_form(Shape(6000, 12288, 1, 460, ("T4", "P100")), "shape-1")["flavor"]
    assert (form["vcpus"], form["ram"], form["disk"]) == (0, 12288, 0)
    assert form["extra_specs"] == {
        "resources:CUSTOM_CPU_MILLI": "6000",
        "resources:CUSTOM_GPU_MILLI": "460",
        "traits:any_of": "CUSTOM_GPU_T4,CUSTOM_GPU_P100",
    }


# -- order -------------------------------------------------------------------------------------------------

some_tasks = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=30).map(
    lambda times: [a_task(f"t{i}", began, began + took) for i, (began, took) in enumerate(times)]
)


def alive_after_each(steps: list[order.Step]) -> list[list[str]]:
    """The names alive after each step, oldest first, where nothing is refused."""
    alive: list[str] = []
    seen: list[list[str]] = []
    for step in steps:
        match step:
            case Create(task):
                alive.append(task.name)
            case Delete(task):
                alive.remove(task.name)
            case Trim(count):
                del alive[: max(0, len(alive) - count)]
        seen.append(list(alive))
    return seen


@given(some_tasks)
def test_keeping_all_creates_in_order_of_time_and_checks_before_it_deletes(tasks: list[Task]) -> None:
    steps = list(order.steps(tasks, KeepAll(), check_every=7))
    created = [step.task for step in steps if isinstance(step, Create)]
    assert created == sorted(tasks, key=lambda task: task.lifetime.began_at)  # type: ignore[union-attr]
    assert steps[-2:] == [Check(), Trim(0)]
    assert steps.count(Check()) == len(tasks) // 7 + 1


@given(some_tasks, st.integers(1, 5))
def test_keeping_some_never_has_more_alive(tasks: list[Task], count: int) -> None:
    alive = alive_after_each(list(order.steps(tasks, KeepSome(count), check_every=100)))
    assert max(map(len, alive)) == min(count, len(tasks))
    assert alive[-1] == []


@given(some_tasks)
def test_as_recorded_each_task_lives_once_and_no_more_than_recorded(tasks: list[Task]) -> None:
    steps = list(order.steps(tasks, AsRecorded(), check_every=100))
    alive = alive_after_each(steps)
    assert Counter(s.task.name for s in steps if isinstance(s, Create)) == {t.name: 1 for t in tasks}
    assert alive[-1] == []
    lives = [task.lifetime for task in tasks if task.lifetime is not None]
    recorded = max(sum(a.began_at <= b.began_at < a.ended_at for a in lives) for b in lives)
    instant = any(a.began_at == a.ended_at for a in lives)
    assert max(map(len, alive)) <= recorded + instant


@pytest.mark.parametrize("live", [KeepAll(), AsRecorded()])
def test_without_times_tasks_come_in_line_order_and_stay(live: order.Live) -> None:
    tasks = [replace(a_task(name), lifetime=None) for name in ("c", "a", "b")]
    assert list(order.steps(tasks, live, check_every=2)) == [
        Create(tasks[0]),
        Create(tasks[1]),
        Check(),
        Create(tasks[2]),
    ]


# -- cards -------------------------------------------------------------------------------------------------


def test_a_task_that_fits_the_host_may_fit_no_card() -> None:
    rack = cards.CardRack({"n": a_node(cards=2)})
    part = Shape(0, 0, 1, 700)
    assert rack.put("a", "n", part)
    assert rack.put("b", "n", part)
    assert not rack.put("c", "n", Shape(0, 0, 1, 600))
    assert rack.put("d", "n", Shape(0, 0, 1, 300))
    rack.take_away("a")
    assert rack.put("c", "n", Shape(0, 0, 1, 600))


def test_several_cards_have_to_be_different_ones() -> None:
    rack = cards.CardRack({"n": a_node(cards=2)})
    assert rack.put("a", "n", Shape(0, 0, 1, 1))
    assert not rack.put("b", "n", Shape(0, 0, 2, 1000))
    rack.take_away("a")
    assert rack.put("b", "n", Shape(0, 0, 2, 1000))


def test_a_task_without_cards_fits_any_host() -> None:
    assert cards.CardRack({"n": a_node(cards=0)}).put("a", "n", Shape(1, 1, 0, 0))


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 1000)), max_size=40))
def test_cards_are_never_over_full_and_all_comes_back(asked: list[tuple[int, int]]) -> None:
    rack = cards.CardRack({"n": a_node(cards=3)})
    taken = {
        str(i): n * milli
        for i, (n, milli) in enumerate(asked)
        if rack.put(str(i), "n", Shape(0, 0, n, milli))
    }
    assert sum(taken.values()) <= 3000
    for task in taken:
        rack.take_away(task)
    assert rack.put("whole", "n", Shape(0, 0, 3, 1000))


# -- history -----------------------------------------------------------------------------------------------


def test_the_peak_is_of_one_moment_per_class_and_over_commitment_is_found_when_it_was() -> None:
    node = a_node(cards=2)
    big = a_task("big", cpu_milli=6000, cards=1, card_milli=1000)
    events: list[Placed | Deleted] = [
        Placed("u1", big),
        Deleted("u1"),
        Placed("u2", big),
        Placed("u3", big),
        Deleted("u3"),
    ]
    found = history.retrace(events, {"u1": "n", "u2": "n", "u3": "n"}, {"n": node})
    assert found.peak == {CPU: 12000, MEMORY: 1024, GPU: 2000}
    assert found.over_committed == (f"event 3, big: n has 8000 {CPU} and gave 12000",)
    assert found.no_single_card == 0


def test_an_instance_without_a_known_host_is_left_out() -> None:
    events: list[Placed | Deleted] = [Placed("u1", a_task()), Deleted("u1")]
    assert history.retrace(events, {}, {"n": a_node()}).peak == {CPU: 0, MEMORY: 0, GPU: 0}


# -- checker -----------------------------------------------------------------------------------------------

TAKES = {CPU: 1000, MEMORY: 512}


class Checked:
    """A real zone's database with one node, and what is told to be accepted there."""

    def __init__(self, folder: Path) -> None:
        self.zone = a_zone(folder)
        self.node = a_node("n0", cards=0)
        (self.host_id,) = add_hosts(self.zone, a_form("n0", **self.node.capacity))
        self.database = Path(str(self.zone.store.engine.url.database))
        self.accepted: dict[str, Task] = {}

    def boot(self) -> str:
        uuid = boot_on(self.zone, self.host_id, TAKES)
        self.accepted[uuid] = a_task()
        return uuid

    def findings(self) -> checker.Findings:
        rows = checker.read_rows("leaf", self.database)
        return checker.check([rows], {"n0": self.node}, self.accepted)


@pytest.fixture
def checked(tmp_path: Path) -> Checked:
    return Checked(tmp_path)


def test_the_checker_finds_nothing_in_a_good_zone(checked: Checked) -> None:
    checked.boot()
    checked.boot()
    assert checked.findings() == checker.Findings()


def test_the_checker_finds_more_used_than_there_is(checked: Checked) -> None:
    checked.boot()
    sql(checked.zone, "update inventories set capacity = 900, used = 1000 where resource_class = :c", c=CPU)
    (told,) = checked.findings().over_committed
    assert "capacity is 900, rightly 8000" in told
    checked.node = replace(checked.node, cpu_milli=900)
    assert any("claims take 1000, capacity is 900" in line for line in checked.findings().over_committed)


def test_the_checker_finds_used_that_is_not_the_sum_of_claims(checked: Checked) -> None:
    checked.boot()
    sql(checked.zone, "update inventories set used = 0 where resource_class = :c", c=MEMORY)
    assert checked.findings().over_committed == ("leaf, n0 MEMORY_MB: used is 0, claims take 512",)


def test_the_checker_finds_a_lost_instance(checked: Checked) -> None:
    checked.accepted["nowhere"] = a_task("pod")
    (told,) = checked.findings().lost
    assert told == "nowhere (pod) was accepted and has no confirmed claim"


def test_the_checker_finds_a_held_place_that_was_told_to_be_confirmed(checked: Checked) -> None:
    uuid = checked.boot()
    sql(checked.zone, "update placements set state = 'held'")
    assert checked.findings().lost == (f"{uuid} (t) was accepted and has no confirmed claim",)


def test_the_checker_finds_a_claim_of_another_size_or_on_another_model(checked: Checked) -> None:
    uuid = checked.boot()
    checked.accepted[uuid] = a_task("pod", cpu_milli=2000, models=("P100",))
    size, model = checked.findings().lost
    assert "it asked" in size
    assert "another model" in model


def test_the_checker_finds_an_instance_placed_twice(checked: Checked) -> None:
    uuid = checked.boot()
    put_place(checked.zone, uuid, ClaimedHost(checked.host_id, TAKES), number=2)
    assert checked.findings().double_placed == (f"{uuid} on n0, n0",)


def test_the_checker_finds_a_claim_that_nobody_was_told_of(checked: Checked) -> None:
    uuid = checked.boot()
    checked.accepted.clear()
    assert checked.findings().stray == (f"{uuid} on n0",)


def test_the_host_of_an_instance_is_known_after_its_release(checked: Checked) -> None:
    uuid = checked.boot()
    sql(checked.zone, "update placements set state = 'released'")
    assert checker.hosts_of([checker.read_rows("leaf", checked.database)]) == {uuid: "n0"}


# -- report ------------------------------------------------------------------------------------------------


def test_percentiles_are_times_that_were_measured() -> None:
    seconds = [n / 1000 for n in range(1, 101)]
    assert report.milliseconds(seconds, 0.5) == 50.0
    assert report.milliseconds(seconds, 0.99) == 99.0
    assert report.milliseconds([], 0.5) == 0.0


def test_each_kind_of_fault_is_told() -> None:
    past = history.History({}, ("event 3: too much",), 0)
    findings = checker.Findings(("a",), ("b",), ("c",), ("d",))
    told = report.faults(Record(undecided=["pod"]), past, findings, {("leaf", "kind", "subject")})
    assert len(told) == 7
    none = history.History({}, (), 5)
    assert report.faults(Record(), none, checker.Findings(), set()) == []


def test_children_are_shared_out_evenly() -> None:
    assert [parent_of(n, 3, 9) for n in range(9)] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert [parent_of(n, 2, 3) for n in range(3)] == [0, 0, 1]


# -- the command -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--tree", "2,4"], "must begin with 1"),
        (["--tree", "1,3,2"], "no level may be smaller"),
        (["--tree", "1,x"], "not a list of numbers"),
        (["--tree", "1,99"], "at most 64"),
        (["--live", "some"], "neither all nor trace nor a number"),
        (["--live", "0"], "neither all nor trace nor a number"),
        (["--limit", "0"], "0 is not in the range"),
        (["--nodes", "/nowhere.csv"], "does not exist"),
        (["--pods", "NODES"], "names no column name"),
    ],
)
def test_wrong_arguments_are_told_before_anything_starts(
    tmp_path: Path, arguments: list[str], told: str
) -> None:
    nodes = written(tmp_path, NODES)
    given_ = ["--nodes", str(nodes), "--pods", str(nodes)]
    result = CliRunner().invoke(main, given_ + [str(nodes) if a == "NODES" else a for a in arguments])
    assert result.exit_code == 2
    assert told in result.output


TASKS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time
p0,1000,512,1,700,,0,90
p1,1000,512,1,700,V100M16|T4,1,90
p2,1000,512,1,600,,2,90
p3,1000,512,1,100,,3,90
p4,1000,512,0,0,,4,5
p5,1000,512,0,0,P100,6,9
p6,7000,6000,0,0,,7,90
"""


def running(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    nodes, tasks = folder / "nodes.csv", folder / "tasks.csv"
    nodes.write_text(NODES)
    tasks.write_text(TASKS)
    (folder / "tmp").mkdir()
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), "--nodes", str(nodes), "--pods", str(tasks), *arguments],
        env={**os.environ, "TMPDIR": str(folder / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background jobs ignore it, and so would what they start.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


def zones_in(folder: Path) -> list[str]:
    """Command lines of processes that run a zone of this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if "zonesched.serving" in line and str(folder) in line:
            found.append(line)
    return found


@pytest.mark.slow
def test_a_small_trace_goes_through_a_real_tree(tmp_path: Path) -> None:
    process = running(tmp_path, "--tree", "1,1,2")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    line = json.loads(out)
    assert (line["placed"], line["deleted"]) == (5, 5)
    assert line["refused"] == {"no_valid_host": 2}
    assert line["refused_by"]["not_enough_resources"] >= 1
    assert line["peak_used"][GPU] == {"amount": 2000, "capacity": 2000, "fraction": 1.0}
    assert line["no_single_card"] == 1
    assert (line["audit_inconsistencies"], line["lost"], line["over_committed"]) == (0, 0, 0)
    assert 0 < line["p50_ms"] <= line["p99_ms"]
    assert zones_in(tmp_path) == []
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.slow
def test_an_interrupt_ends_all_zones(tmp_path: Path) -> None:
    process = running(tmp_path, "--tree", "1,2")
    ends_at = time.monotonic() + 60
    while len(zones_in(tmp_path)) < 3:
        assert time.monotonic() < ends_at
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert zones_in(tmp_path) == []
    assert list((tmp_path / "tmp").iterdir()) == []
