"""A root and a leaf of real processes, both with hosts and agents, as the demo starts them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.builders.real_processes import free_ports
from zonesched.demo.processes import Processes
from zonesched.demo.run import DemoRun
from zonesched.demo.tree import DemoZone
from zonesched.demo.waiting import Waiter
from zonesched.seams import SystemClock


@contextmanager
def two_zones(folder: Path, hosts: int) -> Iterator[DemoRun]:
    """Zones with so many hosts each; ready, and ended with the block."""
    port = free_ports(2)
    zones = [DemoZone("root", "", 0, port, hosts), DemoZone("leaf", "root", 1, port + 1, hosts)]
    clock, processes = SystemClock(), Processes()
    try:
        run = DemoRun(zones, folder, clock, processes, Waiter(clock, time.sleep, processes.check))
        run.start_zones()
        run.join()
        run.start_agents()
        run.wait_until_ready()
        yield run
    finally:
        processes.stop()
