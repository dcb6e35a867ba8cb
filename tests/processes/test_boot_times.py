"""The benchmark of boots: real zones, boots that are decided, a line that says so."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.boot_times.load import measure
from benchmarks.boot_times.stamps import Decisions, Stamps
from benchmarks.zone_trees.client import ZoneClient
from tests.builders.tree import Tree, a_host

pytestmark = pytest.mark.once

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "boot.py"
HAS_POSTGRESQL = importlib.util.find_spec("psycopg") and (
    shutil.which("initdb") or list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
)
NEEDS_POSTGRESQL = pytest.mark.skipif(not HAS_POSTGRESQL, reason="needs PostgreSQL and psycopg")


def test_a_boot_is_stamped_when_it_was_received_and_when_it_was_decided(tmp_path: Path) -> None:
    # given a boot that a zone has received
    tree = Tree(tmp_path)
    root = tree.add("root", hosts_=[a_host("h1")])
    root.client().post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 512, "disk": 1}})
    root.client().post("/servers", {"server": {"name": "vm", "flavorRef": "small"}})
    received_at = tree.clock.now()

    def stamps() -> tuple[float, float]:
        statement = "SELECT created_at, settled_at FROM reservations"
        return tuple(root.zone.store.read(lambda tx: tx.exec_driver_sql(statement).one()))

    assert stamps() == (received_at, 0.0)
    # when it is worked on some time later
    tree.clock.advance(3.0)
    tree.settle(1)
    # then the row says when that was
    assert stamps() == (received_at, received_at + 3.0)


def test_a_boot_of_each_client_is_measured_however_long_it_takes() -> None:
    class Client(ZoneClient):
        def __init__(self) -> None:
            pass

        def call(self, *_told: object) -> dict[str, str]:
            return {"reservation_id": "r-1"}

    class Decided(Decisions):
        def __init__(self) -> None:
            pass

        def wait(self, reservation_id: str, timeout_s: float) -> Stamps:
            return Stamps(received_at=1.0, settled_at=2.0, claimed=1)

    # given a machine on which no boot begins within the time that is measured
    clients: list[ZoneClient] = [Client(), Client(), Client()]
    # when boots are measured
    found = measure(clients, Decided(), "small", 1, warm_s=0.0, seconds=0.0, check=lambda: None)
    # then each client has had one
    assert len(found.boots) == len(found.waited_s) == 3
    assert found.seconds > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tree", "processes", "database"),
    [
        ([1], 2, "sqlite"),
        ([1, 1], 1, "sqlite"),
        pytest.param([1, 1], 2, "postgresql", marks=NEEDS_POSTGRESQL),
    ],
)
def test_boots_are_timed_through_a_tree_of_real_zones(tree: list[int], processes: int, database: str) -> None:
    asked = ["--hosts", "20", "--instances", "5", "--clients", "2", "--seconds", "0.5"]
    on = ["--tree", ",".join(map(str, tree)), "--processes", str(processes), "--database", database]
    done = subprocess.run([sys.executable, SCRIPT, *asked, *on], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout)
    assert (line["tree"], line["processes"], line["database"]) == (tree, processes, database)
    assert (line["hosts"], line["instances"]) == (20, 5)
    assert line["boots"] > 0 and line["unplaced"] == 0
    assert 0 < line["p50_ms"] <= line["p99_ms"]
    assert line["instances_per_s"] == pytest.approx(5 * line["boots_per_s"], abs=0.5)
