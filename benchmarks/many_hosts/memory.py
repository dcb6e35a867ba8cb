"""Memory of one worker of a zone, in MB, by number of hosts; prints JSON lines.

A zone of so many hosts, each with some instances, is made in SQLite. A fresh process then opens it, makes
its HTTP app as a served worker does, reads all hosts, and makes selects while claims change hosts in between.
What is measured is that process: its resident set once everything is imported (`started_mb`), with all hosts
read (`loaded_mb`), after the selects (`steady_mb`), and the most it ever was (`peak_mb`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.many_hosts.stored import a_stored_zone, put_instances

HOSTS = (1_000, 10_000, 100_000)
TARGET_HOSTS = 100_000
TARGET_MB = 300.0
CHECKOUT = Path(__file__).resolve().parents[2]


def measure(hosts: int, instances_per_host: int, selects: int) -> dict[str, Any]:
    """One line."""
    with tempfile.TemporaryDirectory() as folder:
        zone = a_stored_zone(Path(folder), hosts)
        put_instances(zone, instances_per_host)
        zone.stop()
        command = [sys.executable, "-m", "benchmarks.many_hosts.memory_worker", folder, str(selects)]
        done = subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"memory: the worker with {hosts} hosts ended with {done.returncode}")
    line = {
        "name": "memory",
        "hosts": hosts,
        "instances_per_host": instances_per_host,
        "selects": selects,
        "database": "SQLite WAL, synchronous=FULL",
        **json.loads(done.stdout),
    }
    if hosts == TARGET_HOSTS:
        line |= {"target_peak_mb": TARGET_MB, "reached": line["peak_mb"] <= TARGET_MB}
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hosts", type=int, nargs="+", default=HOSTS, help="hosts of the zone")
    parser.add_argument("--instances-per-host", type=int, default=5, help="living instances on each host")
    parser.add_argument("--selects", type=int, default=50, help="selects before the steady state is measured")
    arguments = parser.parse_args()
    for hosts in arguments.hosts:
        print(json.dumps(measure(hosts, arguments.instances_per_host, arguments.selects)), flush=True)


if __name__ == "__main__":
    main()
