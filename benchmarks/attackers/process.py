"""The processes of the attackers: one for each attack, and one that plays a child zone all the time.

A real attacker has a machine of its own. On the one machine of a benchmark its process has the lowest
priority, so that its own processor time is not counted as time that it takes from others.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import click

from . import child_moods
from .attacker import Attacker
from .attacks import BY_NAME, CLEAN_UPS
from .child_server import PlayedChild
from .scene import Scene

LOWEST_PRIORITY = 19


@click.group()
def main() -> None:
    """Play one of the attackers."""


@main.command()
@click.argument("name")
@click.option("--scene", "path", type=click.Path(path_type=Path), required=True)
@click.option("--seconds", type=float, required=True)
@click.option("--seed", type=int, required=True)
def attack(name: str, path: Path, seconds: float, seed: int) -> None:
    """Wait for a line on standard input, attack, print the findings, then delete the attacker's instances."""
    os.nice(LOWEST_PRIORITY)
    kind, scene = BY_NAME[name], Scene.read(path)
    sys.stdin.readline()
    began_at = time.monotonic()
    attacker = Attacker(scene, kind.role.value, kind.zone, seconds, seed)
    kind.run(attacker)
    found = {
        "seconds": time.monotonic() - began_at,
        "answers": {str(status): count for status, count in sorted(attacker.statuses.items())},
        "leaks": sorted(attacker.leaks),
        "broken": attacker.broken,
    }
    print(json.dumps(found), flush=True)
    clean_up = CLEAN_UPS.get(kind.role)
    if clean_up is not None:
        clean_up(attacker)
    print("{}", flush=True)


@main.command()
@click.option("--port", type=int, required=True)
@click.option("--forbidden", type=click.Path(path_type=Path), required=True)
@click.option("--others", type=click.Path(path_type=Path), required=True)
@click.option("--certificate", type=click.Path(path_type=Path))
def child(port: int, forbidden: Path, others: Path, certificate: Path | None) -> None:
    """Play a child zone until the process is ended."""
    child_moods.prepare()
    child_moods.others.extend(json.loads(others.read_text()))
    with PlayedChild(port, json.loads(forbidden.read_text()), child_moods.answer, certificate) as server:
        server.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    main()
