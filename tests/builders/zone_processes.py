"""Zones as real processes: configuration, start, answers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from zonesched.cli.main import run
from zonesched.cli.session import Session

CHECKOUT = Path(__file__).parents[2]


@contextmanager
def launched(module: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A module of the package as a process; it is killed when the block ends."""
    command = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=CHECKOUT
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def write_conf(folder: Path, port: int, *lines: str) -> Path:
    path = folder / "zone.conf"
    options = [f"state_path = {folder}/state", f"bind_port = {port}", *lines]
    path.write_text("\n".join(("[DEFAULT]", *options)))
    return path


def answers(url: str) -> bool:
    try:
        return requests.get(url + "/readiness", timeout=5).status_code == 200
    except (requests.ConnectionError, requests.Timeout):
        return False


class Story:
    """Commands as the admin of one zone; what a command prints is its JSON."""

    def __init__(self, options: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
        self._options = options
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        # A command that waits for a real zone polls it more often than a person's would.
        session = Session(pause=lambda _: time.sleep(0.05))
        found = run([*self._options, *arguments], session)
        out, err = self._capsys.readouterr()
        assert found == code, (arguments, out, err)
        return out + err

    def json(self, *arguments: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self(*arguments, "--json"))
        return answer
