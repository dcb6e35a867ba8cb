"""Attacks on a tree of real zones: the bounds hold, and no process is left by the tool."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.real_processes import interrupt, processes_of

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "hostile.py"
SOME = [
    "stranger-never-reads",
    "member-quote-bombs",
    "member-foreign-markers",
    "parent-mutated-entries",
    "agent-others-reports",
    "admin-child-urls",
    "child-large",
    "child-confirms-cancels",
]


LATE_S = "3"
"""Other tests run beside this one and make selects late. An attack that works stops a zone for longer."""

ON_TLS = ["stranger-held-handshakes", "stranger-bursts-of-handshakes", "stranger-broken-sessions"]


def test_some_attacks_of_each_kind_keep_all_bounds() -> None:
    # Over TLS: without it, there is nothing that does not happen here.
    done = subprocess.run(
        [sys.executable, SCRIPT, "--short", "--late-s", LATE_S, "--tls", *SOME, *ON_TLS],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout)
    assert line["attacks"] == len(SOME) + len(ON_TLS)
    found = {name: line[name] for name in ("late", "unrecovered", "leaks", "broken")}
    assert found == {"late": 0, "unrecovered": 0, "leaks": 0, "broken": 0}


def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    started = interrupt([SCRIPT, "--seconds", "60"], tmp_path)

    assert started == "hostile: starting 3 zones of 1 process(es)\n"
    assert processes_of(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
