"""The benchmarks: comparing orders, drawing charts, what cannot be run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import boot_work, heartbeats, metrics
from benchmarks.against_nova.environment import NoEnvironment, nova_python
from benchmarks.against_nova.hosts import plain_hosts, problem
from benchmarks.against_nova.order import RESOLUTION, Comparison, compare
from benchmarks.against_nova.our_side import OurSide
from benchmarks.charts.log_log import Chart, axis, svg
from benchmarks.charts.main import charts, lines_of
from benchmarks.many_hosts.hosts import a_table
from benchmarks.many_hosts.memory import measure
from benchmarks.many_hosts.own_filters import OncePerClass, OncePerHost
from benchmarks.many_hosts.select_times import a_request, a_scheduler
from zonesched.filters.contract import BaseHostFilter
from zonesched.model.host_state import HostState
from zonesched.model.host_table import HostTable
from zonesched.model.request_spec import RequestSpec

CHECKOUT = Path(__file__).parents[2]
KEPT = CHECKOUT / "docs" / "benchmarks"


def run(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, CHECKOUT / "benchmarks" / script, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


# -- against Nova ------------------------------------------------------------------------------------------


THEIRS = [("a", 3.0), ("b", 2.0), ("c", 2.0 - RESOLUTION / 2), ("d", 1.0)]


@pytest.mark.parametrize(
    ("ours", "same"),
    [
        (["a", "b", "c", "d"], True),
        (["a", "c", "b", "d"], True),
        (["b", "a", "c", "d"], False),
        (["a", "b", "c"], False),
        (["a", "b", "c", "e"], False),
        (["a", "b", "c", "d", "d"], False),
    ],
    ids=["the same", "a tie the other way", "exchanged", "one missing", "another one", "one twice"],
)
def test_an_order_is_the_same_but_for_ties(ours: list[str], same: bool) -> None:
    assert compare(THEIRS, ours) == Comparison(same, tied_pairs=1)


def test_our_side_ranks_the_hosts_that_may_take_the_request_once_each() -> None:
    hosts = plain_hosts(200)
    _, ranked = OurSide(hosts).rank()
    working = {host.name for host in hosts if host.enabled and host.up and host.num_instances < 50}
    assert len(set(ranked)) == len(ranked)
    assert 100 < len(ranked) < len(working)
    assert set(ranked) < working


def test_nova_is_told_all_of_each_host() -> None:
    hosts = plain_hosts(3)
    told = json.loads(json.dumps(problem(hosts)))
    assert [host["name"] for host in told["hosts"]] == ["host-0", "host-1", "host-2"]
    assert told["hosts"][1]["ram_used_mb"] == hosts[1].ram_used_mb


def test_an_environment_that_is_complete_is_not_made_again(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.touch()
    (tmp_path / "complete").write_text("nova~=34.0")
    assert nova_python(tmp_path) == python
    assert python.read_bytes() == b""


def test_an_environment_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    with pytest.raises(NoEnvironment, match="no environment could be made in"):
        nova_python(in_the_way / "nova")


def test_an_order_of_one_host_is_refused() -> None:
    done = run("vs_nova.py", "--hosts", "1")
    assert done.returncode == 2
    assert "an order needs at least 2 hosts" in done.stderr


# -- select ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table() -> HostTable:
    """100,000 hosts, which no select changes."""
    return a_table(100_000, classes=16)


@pytest.mark.slow
@pytest.mark.parametrize(("own_filter", "asked"), [(OncePerClass, 16), (OncePerHost, 100_000)])
def test_a_filter_with_only_host_passes_works_at_100_000_hosts(
    table: HostTable, own_filter: type[BaseHostFilter], asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    host_passes, rows = own_filter.host_passes, list[int]()

    def counted(self: BaseHostFilter, host_state: HostState, spec: RequestSpec) -> bool:
        rows.append(host_state.row)
        return host_passes(self, host_state, spec)

    monkeypatch.setattr(own_filter, "host_passes", counted)
    name = {OncePerClass: "once per class", OncePerHost: "once per host"}[own_filter]
    request = a_request(table, "spread", 1, 0)

    offer = a_scheduler("spread", 5, name).offer(request)

    step = next(step for step in offer.why if step.filter == own_filter.__name__)
    assert len(rows) == len(set(rows)) == min(asked, step.before)
    assert 0 < step.after < step.before <= table.size
    best = HostState(table, table.row_of(offer.picks[0].host_id))
    assert host_passes(own_filter(), best, request.spec)


# -- memory ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_worker_is_measured_as_it_grows() -> None:
    line = measure(hosts=50, instances_per_host=2, selects=2)
    assert 0 < line["started_mb"] <= line["loaded_mb"] <= line["peak_mb"]
    assert line["placed"] > 1


# -- heartbeats --------------------------------------------------------------------------------------------


def test_every_agent_is_written_down(tmp_path: Path) -> None:
    line = heartbeats.measure(tmp_path, agents=3, host_count=7, threads=2, database_url="")
    assert (line["agents"], line["hosts"], line["rows_written"]) == (3, 7, 3)


def test_agents_without_a_host_are_refused_before_anything_is_measured() -> None:
    done = run("heartbeats.py", "--hosts", "2", "--agents", "3")
    assert (done.returncode, done.stdout) == (2, "")
    assert "each of 3 agents needs one" in done.stderr


# -- boot work ---------------------------------------------------------------------------------------------


def test_every_boot_is_placed_while_its_work_is_measured(tmp_path: Path) -> None:
    line = boot_work.measure(tmp_path, 20, clients=3, instances=2, rounds=2, database_url="")
    assert (line["clients"], line["instances"], line["unplaced"]) == (3, 2, 0)
    assert line["call_ms"] and line["work_ms"]


# -- metrics -----------------------------------------------------------------------------------------------


def test_a_scrape_is_measured(tmp_path: Path) -> None:
    line = metrics.measure(tmp_path, instances=150, host_count=3, scrapes=2, database_url="")
    assert (line["instances"], line["hosts"]) == (150, 3)
    assert line["bytes"] > 1000


# -- interleaving ------------------------------------------------------------------------------------------


def test_fewer_schedules_than_are_dealt_out_are_refused() -> None:
    done = run("interleave_removals.py", "--schedules", "2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--schedules" in done.stderr


# -- sealing -----------------------------------------------------------------------------------------------


def test_sealing_is_measured_for_a_leaf_and_for_a_middle_zone() -> None:
    done = run("seal.py", "--entries", "3", "--rounds", "2")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["level"], line["entries"]) for line in lines] == [("leaf", 3), ("middle", 3)]


# -- charts ------------------------------------------------------------------------------------------------


def a_line(hosts: int, instances: int, p50_ms: float, **more: Any) -> dict[str, Any]:
    on = {"mode": "spread", "classes": 16, "weigher_columns": 5, "own_filter": "none"}
    machine = {"cpus": 2, "clock": "wall"}
    measured = {"hosts": hosts, "instances": instances, "p50_ms": p50_ms}
    return {"name": "select", **measured, **on, **machine, **more}


def test_a_chart_has_a_line_for_each_number_of_instances_and_of_hosts() -> None:
    drawn = charts([a_line(1_000, 1, 0.5), a_line(10_000, 1, 0.9), a_line(1_000, 10, 0.7)])
    assert drawn["select_spread_by_hosts.svg"].lines == {
        "1 instance": [(1_000, 0.5), (10_000, 0.9)],
        "10 instances": [(1_000, 0.7)],
    }
    assert drawn["select_spread_by_instances.svg"].lines["1,000 hosts"] == [(1, 0.5), (10, 0.7)]


def test_what_was_measured_otherwise_is_drawn_by_itself() -> None:
    lines = [
        a_line(1_000, 1, 1.0),
        a_line(1_000, 1, 2.0, mode="stack"),
        a_line(1_000, 1, 3.0, mode="anti-affinity"),
        a_line(1_000, 1, 4.0, classes=1_000),
        a_line(1_000, 1, 9.0, weigher_columns=12),
        a_line(1_000, 1, 5.0, own_filter="once per host"),
    ]
    drawn = charts(lines)
    by_hosts = {name: chart.lines for name, chart in drawn.items() if "by_instances" not in name}
    assert by_hosts == {
        "select_spread_by_hosts.svg": {"1 instance": [(1_000, 1.0)]},
        "select_stack_by_hosts.svg": {"1 instance": [(1_000, 2.0)]},
        "select_anti_affinity_by_hosts.svg": {"1 instance": [(1_000, 3.0)]},
        "select_no_classes_by_hosts.svg": {"1 instance": [(1_000, 4.0)]},
        "select_own_filter.svg": {"none": [(1_000, 1.0)], "once per host": [(1_000, 5.0)]},
    }


def test_only_what_was_measured_is_drawn() -> None:
    stacked = charts([a_line(1_000, 1, 0.5, mode="stack")])
    assert set(stacked) == {"select_stack_by_hosts.svg", "select_stack_by_instances.svg"}
    with pytest.raises(ValueError, match=r"there is no line of benchmarks/select\.py"):
        charts([])


def a_boot(database: str, hosts: int, clients: int, boots_per_s: float, **others: Any) -> dict[str, Any]:
    shape = {"tree": [1], "instances": 1, "processes": 1, "cpus": 2}
    measured = {"database": database, "hosts": hosts, "clients": clients, "boots_per_s": boots_per_s}
    return {"benchmark": "boot", **shape, **measured, **others}


def test_boots_are_drawn_by_clients_and_by_hosts_and_only_of_one_instance_in_one_zone() -> None:
    lines = [
        a_boot("sqlite", 10_000, 8, 300.0),
        a_boot("sqlite", 10_000, 1, 90.0),
        a_boot("sqlite", 1_000, 8, 400.0),
        a_boot("postgresql", 10_000, 8, 150.0),
        a_boot("sqlite", 10_000, 2, 1.0, instances=1000),
        a_boot("sqlite", 10_000, 3, 1.0, tree=[1, 3]),
        a_boot("sqlite", 10_000, 4, 1.0, processes=2),
    ]
    assert {name: chart.lines for name, chart in charts(lines).items()} == {
        "boots_by_clients.svg": {"SQLite": [(1, 90.0), (8, 300.0)], "PostgreSQL": [(8, 150.0)]},
        "boots_by_hosts.svg": {"SQLite": [(1_000, 400.0), (10_000, 300.0)], "PostgreSQL": [(10_000, 150.0)]},
    }


def test_a_long_run_is_drawn_by_what_is_there_at_the_end_of_each_part() -> None:
    run = {"benchmark": "c2m", "regions": 10, "cpus": 2, "instances": 30, "by_part": [[0, 5.0], [20, 4.0]]}
    (drawn,) = charts([run]).values()
    assert drawn.lines == {"SQLite": [(20, 5.0), (30, 4.0)]}


def test_an_axis_has_whole_decades_and_is_logarithmic() -> None:
    found = axis([2.0, 90.0], start=0.0, end=100.0)
    assert list(found.decades) == [0, 1, 2]
    assert [found.at(value) for value in (1.0, 10.0, 100.0)] == [0.0, 50.0, 100.0]
    assert list(axis([1.0], 0.0, 1.0).decades) == [0, 1]


def test_a_chart_is_well_formed_and_names_its_lines() -> None:
    chart = Chart("a < b", "hosts", "ms", {"one": [(1.0, 1.0), (10.0, 1.1)], "two": [(1.0, 1.0)]})
    drawn = ElementTree.fromstring(svg(chart))
    texts = drawn.iter("{http://www.w3.org/2000/svg}text")
    heights = {found.text: float(found.get("y", "0")) for found in texts}
    assert {"a < b", "hosts", "ms", "one", "two"} <= heights.keys()
    assert abs(heights["one"] - heights["two"]) >= 15


def test_only_lines_of_known_benchmarks_are_drawn() -> None:
    text = '{"name": "refresh"}\n\n' + json.dumps(a_line(1_000, 1, 1.0))
    assert all(name.startswith("select_spread_") for name in charts(lines_of(text)))
    with pytest.raises(ValueError, match="line 2 is no JSON"):
        lines_of('{"name": "select"}\nnot')


def test_what_cannot_be_drawn_is_said_without_a_trace(tmp_path: Path) -> None:
    done = run("plot.py", tmp_path / "missing.jsonl", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("plot: ")
    assert "Traceback" not in done.stderr


def test_the_charts_of_the_documentation_are_drawn_from_the_lines_beside_them() -> None:
    drawn = charts(lines_of("".join(path.read_text() for path in sorted(KEPT.glob("*.jsonl")))))
    assert {path.name for path in KEPT.glob("*.svg")} == drawn.keys()
    for name, chart in drawn.items():
        assert (KEPT / name).read_text() == svg(chart), f"run benchmarks/plot.py for {name}"
