"""Two million instances, in small: real zones, all that was asked for, and a line that says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.boot_times.stamps import Stamps
from benchmarks.million.claiming import Claimed, rates

pytestmark = pytest.mark.once

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "c2m.py"


def test_the_rate_of_each_part_is_that_of_its_own_time() -> None:
    boots = [Claimed(ended_s, Stamps(0.0, 0.0, 100)) for ended_s in (4.0, 1.0, 2.0, 8.0)]

    assert rates(boots, 2) == [(0, 100.0), (200, 33.3)]


@pytest.mark.slow
def test_all_instances_are_claimed_and_what_is_there_can_be_seen() -> None:
    asked = ["--regions", "2", "--hosts", "10", "--instances", "250", "--at-once", "100", "--clients", "2"]
    done = subprocess.run([sys.executable, SCRIPT, *asked], capture_output=True, text=True, timeout=240)

    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout)
    assert (line["instances"], line["unplaced"], line["audit_differences"]) == (250, 0, 0)
    assert 0 < line["p50_ms"] <= line["p99_ms"]
    assert line["restart_s"] > 0 and line["peak_rss_mb"] > line["database_mb"] > 0
