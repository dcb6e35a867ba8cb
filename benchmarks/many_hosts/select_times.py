"""One select of one zone in process, milliseconds, by number of hosts and of instances; prints JSON lines.

Before each select other hosts, drawn anew, change in all that claims change, as the store would read it;
taking these changes into the table counts as part of the select. What is not in it: reading the changes from
the database (`--refresh` measures that by itself), sealing, HTTP.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.many_hosts.hosts import METRICS, a_table, changes
from benchmarks.many_hosts.stored import a_stored_zone, use_some
from zonesched import conf
from zonesched.model.host_table import HostTable
from zonesched.model.host_uses import NO_USES, HostUses
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
CLASSES = ("few", "none")
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

OWN_FILTERS: Mapping[str, Sequence[str]] = {
    "none": (),
    "once per class": ("benchmarks.many_hosts.own_filters.OncePerClass",),
    "once per host": ("benchmarks.many_hosts.own_filters.OncePerHost",),
}
"""Filters besides the default ones, by how often one that has only `host_passes` is asked."""


def a_scheduler(mode: str, columns: int, own_filter: str) -> Any:
    sign = -1.0 if mode == "stack" else 1.0
    overrides: dict[str, Any] = {
        "enabled_filters": [*conf.load([], {}).enabled_filters, *OWN_FILTERS[own_filter]],
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


CLOCKS: Mapping[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.thread_time}
"""On a machine that does other things as well, only the CPU's time says something."""


def timed(
    prepare: Callable[[], HostUses],
    work: Callable[[int, HostUses], object],
    clock: Callable[[], float],
    seconds: float,
    least: int,
) -> list[float]:
    """Milliseconds of each call of `work`, for about so many seconds, the first call left out."""
    work(0, prepare())
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while len(taken) < least or (time.perf_counter() < end and len(taken) < 500):
        due = prepare()
        started = clock()
        work(len(taken) + 1, due)
        taken.append((clock() - started) * 1e3)
    return taken


def measure(table: HostTable, on: Mapping[str, Any], seconds: float) -> None:
    """Print one line."""
    hosts, instances = on["hosts"], on["instances"]
    scheduler = a_scheduler(on["mode"], on["weigher_columns"], on["own_filter"])
    rng = random.Random(2)
    placed = 0

    def other_claims() -> HostUses:
        return changes(rng, hosts, on["changed"]) if on["changed"] else NO_USES

    def select(number: int, due: HostUses) -> None:
        nonlocal placed
        table.apply_uses(due)
        offer = scheduler.offer(a_request(table, on["mode"], instances, number))
        placed = len(offer.picks)

    taken = timed(other_claims, select, CLOCKS[on["clock"]], seconds, least=5)
    target = TARGETS_MS.get((on["mode"], hosts, instances, on["weigher_columns"]))
    usual = on["classes"] == FEW_CLASSES and on["changed"] == 0.01 and on["own_filter"] == "none"
    meant = target is not None and usual
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
    """Time the read of the used amounts of 1 % of the hosts, from SQLite into the host table."""
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
        "--classes",
        choices=CLASSES,
        nargs="+",
        default=CLASSES,
        help=f"hosts of {FEW_CLASSES} kinds, and hosts that all differ from one another",
    )
    parser.add_argument(
        "--own-filter",
        choices=list(OWN_FILTERS),
        nargs="+",
        default=["none"],
        help="how often a filter besides, with only host_passes, is asked",
    )
    parser.add_argument(
        "--clock", choices=list(CLOCKS), default="wall", help="whether waiting for the CPU counts"
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="time of one measurement")
    parser.add_argument("--refresh", action="store_true", help="measure reading changes from SQLite instead")
    arguments = parser.parse_args()
    for hosts in arguments.hosts:
        if arguments.refresh:
            measure_refresh(hosts, arguments.seconds)
            continue
        for kind in arguments.classes:
            classes = FEW_CLASSES if kind == "few" else hosts
            table = a_table(hosts, classes=classes)
            each = product(
                arguments.mode, arguments.weigher_columns, arguments.own_filter, arguments.instances
            )
            for mode, columns, own_filter, instances in each:
                on = {
                    "hosts": hosts,
                    "instances": instances,
                    "mode": mode,
                    "classes": classes,
                    "weigher_columns": columns,
                    "own_filter": own_filter,
                    "changed": arguments.changed,
                    "clock": arguments.clock,
                }
                measure(table, on, arguments.seconds)


if __name__ == "__main__":
    main()
