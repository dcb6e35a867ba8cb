"""The benchmark of an action on a whole boot: real zones, all servers, and a line that counts the calls."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.once]

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "stop.py"


def test_all_servers_of_a_boot_are_stopped_and_started_again_over_three_levels() -> None:
    asked = ["--tree", "1,1,2", "--hosts", "4", "--instances", "20", "--rounds", "1"]
    done = subprocess.run([sys.executable, SCRIPT, *asked], capture_output=True, text=True, timeout=240)

    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout)
    assert (line["tree"], line["instances"], line["actions"]) == ([1, 1, 2], 20, 2)
    # Each of the three children is told of all its servers at once.
    assert line["desired_calls_max"] == 3 <= line["calls_max"]
    assert line["accepted_p50_ms"] > 0 and 0 < line["reached_p50_ms"] <= line["reached_max_ms"]
