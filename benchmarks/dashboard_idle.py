"""Measure the processor time that ten viewers of the dashboard cost a zone in which nothing happens."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
# Not this folder: its select.py would stand in for Python's own module.
sys.path[0] = str(CHECKOUT)

import click

from benchmarks.zone_trees.cpu import cpu_seconds
from benchmarks.zone_trees.viewer import Viewer
from tests.builders.real_processes import children_of, free_ports
from zonesched.demo.processes import Processes
from zonesched.demo.run import DemoRun
from zonesched.demo.tree import DemoZone
from zonesched.demo.waiting import Waiter
from zonesched.seams import SystemClock

VIEWERS = 10
PAUSE_S, MINUTE_S = 15.0, 60.0
"""Seconds between two questions for news of a page on which nothing changes, as in live.js."""


@click.command()
def main() -> None:
    """Measure a minute without viewers, then one with them; print a line of JSON with both."""
    clock, processes = SystemClock(), Processes()
    with tempfile.TemporaryDirectory() as folder:
        port = free_ports(2)
        zones = [DemoZone("root", "", 0, port, 200), DemoZone("leaf", "root", 1, port + 1, 200)]
        run = DemoRun(zones, Path(folder), clock, processes, Waiter(clock, time.sleep, processes.check))
        try:
            run.start_zones()
            run.start_agents()
            run.join()
            run.wait_until_ready()
            run.boot(200)
            [master] = [pid for pid in children_of(os.getpid()) if is_root(pid)]
            links = [run.admin(run.root).call("POST", "/sign-in-links") for _ in range(VIEWERS)]
            viewers = [Viewer(port, link["sign_in_link"]["path"]) for link in links]
            before = cpu_seconds([master])
            time.sleep(MINUTE_S)
            alone = cpu_seconds([master]) - before
            before = cpu_seconds([master])
            watch(viewers)
            watched = cpu_seconds([master]) - before
        finally:
            processes.stop()
    line = {
        "benchmark": "dashboard_idle",
        "viewers": VIEWERS,
        "alone_s": round(alone, 2),
        "watched_s": round(watched, 2),
        "viewers_percent_of_core": round(100 * (watched - alone) / MINUTE_S, 2),
    }
    print(json.dumps(line))


def watch(viewers: list[Viewer]) -> None:
    """Ask as ten open pages of the tree do, for a minute."""
    began = time.monotonic()
    for viewer in viewers:
        viewer.get("tree")
    while (spent_s := time.monotonic() - began) < MINUTE_S:
        for viewer in viewers:
            viewer.get("news")
        time.sleep(max(0.0, PAUSE_S - (time.monotonic() - began - spent_s)))


def is_root(pid: int) -> bool:
    """Tell whether the process is the root zone's first."""
    return f"{os.sep}root{os.sep}zone.conf" in Path(f"/proc/{pid}/cmdline").read_bytes().decode(
        errors="replace"
    )


if __name__ == "__main__":
    main()
