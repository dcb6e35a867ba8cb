"""Race of the writers of four real processes for free slots: exactly as many win, on both databases."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RACE = Path(__file__).parents[2] / "benchmarks" / "race.py"


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_exactly_what_fits_wins_and_nobody_waits_in_a_circle(database: str) -> None:
    command = [sys.executable, str(RACE), "--database", database, "--slots", "151", "--hosts", "10"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    line = json.loads(done.stdout.splitlines()[-1])
    assert (line["slots"], line["won"], line["claimed"], line["deadlocks"]) == (151, 151, 151, 0)
    assert (line["processes"], line["writers"], done.returncode) == (4, 16, 0), done.stderr
    assert line["claims_per_s"] > 0
