"""One select of one zone in process, milliseconds, by number of hosts and of instances; prints JSON lines.

Before each select a share of the hosts changes, as other boots' claims change them; taking these changes into
the table counts as part of the select. What is not in it: reading the changes from the database
(`--refresh` measures that by itself), sealing, HTTP.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.many_hosts.hosts import METRICS, a_table, changes
from benchmarks.many_hosts.stored import a_stored_zone, use_some
from zonesched import conf
from zonesched.model.host_table import HostTable
from zonesched.model.request_context import RequestContext
from zonesched.model.request_spec import (
    Flavor,
    GroupPolicy,
    Image,
    NoGroup,
    RequestSpec,
    ServerGroup,
)
from zonesched.scheduler.offer import OfferRequest
from zonesched.scheduler.schedulers import Schedulers

HOSTS = (1_000, 10_000, 100_000, 1_000_000)
INSTANCES = (1, 10, 100, 1_000, 10_000)
FEW_CLASSES = 16
TARGETS_MS: Mapping[tuple[str, int, int, int], float] = {
    ("spread", 100_000, 1, 5): 3.0,
    ("spread", 100_000, 1, 12): 5.0,
    ("spread", 100_000, 1_000, 5): 10.0,
}
"""p50 by (mode, hosts, instances, weigher columns), with few classes and 1 % of the hosts changed."""

FIVE_COLUMNS = ("RAMWeigher", "CPUWeigher", "DiskWeigher", "IoOpsWeigher", "NumInstancesWeigher")
TWELVE_COLUMNS = (*FIVE_COLUMNS, "BuildFailureWeigher", "HypervisorVersionWeigher", "MetricsWeigher")
"""MetricsWeigher reads three columns, and the scale of each of these is taken anew for each request."""

COLUMNS: Mapping[int, Sequence[str]] = {5: FIVE_COLUMNS, 12: TWELVE_COLUMNS}
"""Weighers by how many varying columns they read: free RAM, VCPUs and disk, and what is counted of a host."""

MODES = ("spread", "stack", "anti-affinity")


def a_scheduler(mode: str, columns: int) -> Any:
    sign = -1.0 if mode == "stack" else 1.0
    overrides: dict[str, Any] = {
        "weight_classes": list(COLUMNS[columns]),
        "ram_weight_multiplier": sign,
        "cpu_weight_multiplier": sign,
        "disk_weight_multiplier": sign,
        "num_instances_weight_multiplier": -0.5 * sign,
        "hypervisor_version_weight_multiplier": 0.25,
    }
    if columns == 12:
        overrides["metrics_weight_setting"] = [f"{name}=-1.0" for name in METRICS]
    loaded = conf.load([], overrides)
    return Schedulers.from_conf(loaded).default


def a_request(table: HostTable, mode: str, instances: int, number: int) -> OfferRequest:
    group = ServerGroup("group-1", GroupPolicy.ANTI_AFFINITY) if mode == "anti-affinity" else NoGroup()
    spec = RequestSpec(
        request_id=f"request-{number}",
        project_id="project-1",
        num_instances=instances,
        flavor=Flavor("flavor-1", "m1.small", vcpus=2, ram_mb=4_096, disk_gb=20),
        image=Image("image-1", "linux"),
        group=group,
    )
    key = "zone:group-1" if mode == "anti-affinity" else ""
    return OfferRequest(table, spec, RequestContext("zone:project-1", key))


def timed(work: Callable[[int], object], seconds: float, least: int) -> list[float]:
    """Milliseconds of each call, for about so many seconds, the first call left out."""
    work(0)
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while len(taken) < least or (time.perf_counter() < end and len(taken) < 500):
        started = time.perf_counter()
        work(len(taken) + 1)
        taken.append((time.perf_counter() - started) * 1e3)
    return taken


def measure(table: HostTable, on: Mapping[str, Any], seconds: float) -> None:
    """Print one line."""
    hosts, instances = on["hosts"], on["instances"]
    scheduler = a_scheduler(on["mode"], on["weigher_columns"])
    rng = random.Random(2)
    due = [changes(rng, hosts, on["changed"]) for _ in range(8)] if on["changed"] else [{}]
    placed = 0

    def select(number: int) -> None:
        nonlocal placed
        table.apply_uses(due[number % len(due)])
        offer = scheduler.offer(a_request(table, on["mode"], instances, number))
        placed = len(offer.picks)

    taken = timed(select, seconds, least=5)
    target = TARGETS_MS.get((on["mode"], hosts, instances, on["weigher_columns"]))
    meant = target is not None and on["classes"] == FEW_CLASSES and on["changed"] == 0.01
    line = {
        "name": "select",
        **on,
        "placed": placed,
        "filters": [f.name for f in scheduler.plugins.filters.default],
        "weighers": list(scheduler.plugins.weighers.configured),
        "rounds": len(taken),
        "cpus": os.cpu_count(),
        "p50_ms": round(float(np.percentile(taken, 50)), 3),
        "p99_ms": round(float(np.percentile(taken, 99)), 3),
    }
    if meant:
        line |= {"target_p50_ms": target, "reached": line["p50_ms"] <= target}
    print(json.dumps(line), flush=True)


def measure_refresh(hosts: int, seconds: float) -> None:
    """How long a zone takes to read what 1 % of its hosts have in use, from SQLite into its table."""
    with tempfile.TemporaryDirectory() as folder:
        zone = a_stored_zone(Path(folder), hosts)
        rng = random.Random(3)
        taken: list[float] = []
        end = time.perf_counter() + seconds
        with zone.hosts.current() as table:
            ids = [table.host_id(row) for row in range(table.size)]
        while len(taken) < 5 or time.perf_counter() < end:
            use_some(zone, rng.sample(ids, max(1, hosts // 100)))
            started = time.perf_counter()
            with zone.hosts.current():
                taken.append((time.perf_counter() - started) * 1e3)
        line = {
            "name": "refresh",
            "hosts": hosts,
            "changed": 0.01,
            "database": "SQLite WAL, synchronous=FULL",
            "rounds": len(taken),
            "p50_ms": round(float(np.percentile(taken, 50)), 3),
            "p99_ms": round(float(np.percentile(taken, 99)), 3),
        }
        print(json.dumps(line), flush=True)
        zone.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hosts", type=int, nargs="+", default=HOSTS, help="hosts of the zone")
    parser.add_argument("--instances", type=int, nargs="+", default=INSTANCES, help="instances of a request")
    parser.add_argument("--mode", choices=MODES, nargs="+", default=MODES, help="how instances are laid out")
    parser.add_argument(
        "--weigher-columns",
        type=int,
        choices=sorted(COLUMNS),
        nargs="+",
        default=[5],
        help="varying columns read",
    )
    parser.add_argument(
        "--changed", type=float, default=0.01, help="share of hosts changed before each select"
    )
    parser.add_argument(
        "--no-classes", action="store_true", help="measure also with hosts that differ from one another"
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="time of one measurement")
    parser.add_argument("--refresh", action="store_true", help="measure reading changes from SQLite instead")
    arguments = parser.parse_args()
    for hosts in arguments.hosts:
        if arguments.refresh:
            measure_refresh(hosts, arguments.seconds)
            continue
        for classes in (FEW_CLASSES, hosts) if arguments.no_classes else (FEW_CLASSES,):
            table = a_table(hosts, classes=classes)
            for mode in arguments.mode:
                for columns in arguments.weigher_columns:
                    for instances in arguments.instances:
                        on = {
                            "hosts": hosts,
                            "instances": instances,
                            "mode": mode,
                            "classes": classes,
                            "weigher_columns": columns,
                            "changed": arguments.changed,
                        }
                        measure(table, on, arguments.seconds)


if __name__ == "__main__":
    main()
