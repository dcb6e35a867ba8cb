"""The process that benchmarks/memory.py measures: one worker of a zone whose database is there already."""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path

from benchmarks.many_hosts.stored import use_some
from zonesched import conf
from zonesched.api.app import create_app
from zonesched.model.request_spec import Flavor, GroupPolicy, Image, RequestSpec, ServerGroup
from zonesched.services.select import select
from zonesched.services.zone import Zone

CHANGED = 0.01
INSTANCES = (1, 1_000)
LONG_S = 1e6
MB_PER_KB = 1_024 / 1e6


def resident_mb(what: str) -> float:
    """`VmRSS`: now; `VmHWM`: the most so far. In 10**6 bytes, as Linux counts them."""
    found = re.search(rf"^{what}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    if found is None:
        sys.exit(f"memory: this system does not say {what} in /proc/self/status")
    return round(int(found[1]) * MB_PER_KB, 1)


CONF = {"service_down_time": LONG_S, "image_props_weight_multiplier": 1.0}
"""Heartbeats are not renewed while this runs. Images are weighed, so that instances are counted by them."""


def a_request(number: int) -> RequestSpec:
    """A request that asks for hosts by their instances' flavors, images and server groups."""
    return RequestSpec(
        request_id=f"request-{number}",
        project_id="project-1",
        num_instances=INSTANCES[number % len(INSTANCES)],
        flavor=Flavor("flavor-1", "m1.small", vcpus=2, ram_mb=4_096, disk_gb=20),
        image=Image("image-1", "linux", {"os": f"os-{number % 5}"}),
        group=ServerGroup(f"group-{number}", GroupPolicy.SOFT_ANTI_AFFINITY),
        filters=("TypeAffinityFilter",) * (number % 2),
    )


def main() -> None:
    folder, selects = sys.argv[1], int(sys.argv[2])
    zone = Zone.open(conf.load([], {"state_path": folder, **CONF}))
    create_app(zone)
    found = {"started_mb": resident_mb("VmRSS")}
    with zone.hosts.current() as table:
        ids = [table.host_id(row) for row in range(table.size)]
    found["loaded_mb"] = resident_mb("VmRSS")
    rng = random.Random(4)
    placed = 0
    for number in range(selects):
        use_some(zone, rng.sample(ids, max(1, int(len(ids) * CHANGED))))
        placed += len(select.decide(zone, a_request(number), zone.uuid).plan.entries)
    found |= {"steady_mb": resident_mb("VmRSS"), "peak_mb": resident_mb("VmHWM"), "placed": placed}
    print(json.dumps(found))
    zone.stop()


if __name__ == "__main__":
    main()
