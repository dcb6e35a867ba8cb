"""The benchmark of selects over many child zones: real zones, whole plans, a line for each size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.zone_trees.cpu import ProcessorClock

pytestmark = pytest.mark.once

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fan_out.py"


def test_the_clock_counts_the_time_of_a_process_and_of_those_that_it_has_started() -> None:
    busy = "import time; [None for _ in iter(lambda: time.process_time() < 0.2, False)]; print(); input()"
    command = [sys.executable, "-c", busy]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout
        started.stdout.readline()
        both, its_own = ProcessorClock.of_children(os.getpid()), ProcessorClock([started.pid])

        assert started.pid in both.pids and os.getpid() in both.pids
        assert 0.2 <= its_own.seconds() < both.seconds()
        started.kill()


@pytest.mark.slow
def test_all_children_are_asked_and_a_line_is_written_for_each_size() -> None:
    asked = ["--children", "2", "--hosts", "4", "--selects", "3", "--instances", "1", "--instances", "6"]
    done = subprocess.run([sys.executable, SCRIPT, *asked], capture_output=True, text=True, timeout=240)

    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["instances"], one["least_fits"], one["incomplete"]) for one in lines] == [
        (1, 1, 0),
        (6, 6, 0),
    ]
    assert all(0 < one["cpu_p50_ms"] <= one["cpu_p99_ms"] for one in lines)
    assert all(one["cpu_p50_ms"] <= one["p50_ms"] + 1 for one in lines)
