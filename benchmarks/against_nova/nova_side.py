"""Nova's side: run by the Python of an environment that has the `nova` package, and nothing of ours.

The first line of standard input is the problem as JSON. Each further line asks for one round: filters, then
weighers, as FilterScheduler of Nova calls them for one instance. Answers are lines of JSON: first `versions`,
then per round `ms` and, if the line was "order", `order`: [host, score] pairs, the best first.
"""

from __future__ import annotations

import datetime
import json
import logging
import platform
import sys
import time
import uuid
from importlib.metadata import version
from typing import Any

import nova.conf
from nova import objects
from nova.scheduler.filters import HostFilterHandler
from nova.scheduler.host_manager import HostState
from nova.scheduler.weights import HostWeightHandler

CONF = nova.conf.CONF
LONG_S = 10 * 365 * 86_400
NOW = datetime.datetime.now(datetime.UTC)


def configure(problem: dict[str, Any]) -> None:
    CONF([], project="nova", default_config_files=[], default_config_dirs=[])
    for name, multiplier in problem["multipliers"].items():
        if name == "metrics_weight_multiplier":
            CONF.set_override("weight_multiplier", multiplier, "metrics")
        else:
            CONF.set_override(name, multiplier, "filter_scheduler")
    for name, limit in problem["limits"].items():
        CONF.set_override(name, limit, "filter_scheduler")
    CONF.set_override("weight_setting", [problem["metrics_weight_setting"]], "metrics")
    # Heartbeats are not renewed while this runs.
    CONF.set_override("service_down_time", LONG_S)
    objects.register_all()
    # Nova warns of each dead agent in each request; the time of that is left out.
    logging.disable(logging.CRITICAL)


def host_state(host: dict[str, Any], problem: dict[str, Any], aggregates: dict[str, Any]) -> HostState:
    """A HostState, filled as Nova's host manager fills it from its database."""
    metric = {
        "name": problem["metric"],
        "value": host["metric"],
        "timestamp": NOW.strftime("%Y-%m-%dT%H:%M:%S.%f"),
        "source": "benchmark",
    }
    free_ram_mb = host["ram_mb"] - host["ram_reserved_mb"] - host["ram_used_mb"]
    compute = objects.ComputeNode(
        uuid=str(uuid.uuid4()),
        host=host["name"],
        hypervisor_hostname=host["name"],
        host_ip="10.0.0.1",
        vcpus=host["vcpus"],
        vcpus_used=host["vcpus_used"],
        memory_mb=host["ram_mb"],
        memory_mb_used=host["ram_mb"] - free_ram_mb,
        free_ram_mb=free_ram_mb,
        local_gb=host["disk_gb"],
        local_gb_used=host["disk_used_gb"],
        free_disk_gb=host["disk_gb"] - host["disk_used_gb"],
        disk_available_least=None,
        hypervisor_type=host["hypervisor_type"],
        hypervisor_version=host["hypervisor_version"],
        supported_hv_specs=[objects.HVSpec.from_list(spec) for spec in host["supported_instances"]],
        cpu_info="{}",
        numa_topology=None,
        pci_device_pools=None,
        stats={
            "num_instances": str(host["num_instances"]),
            "io_workload": str(host["num_io_ops"]),
            "failed_builds": str(host["failed_builds"]),
        },
        metrics=json.dumps([metric]),
        cpu_allocation_ratio=host["vcpu_ratio"],
        ram_allocation_ratio=1.0,
        disk_allocation_ratio=1.0,
        updated_at=NOW,
    )
    heard_at = NOW if host["up"] else NOW - datetime.timedelta(seconds=2 * LONG_S)
    service = {
        "binary": "nova-compute",
        "host": host["name"],
        "disabled": not host["enabled"],
        "disabled_reason": None,
        "forced_down": False,
        "created_at": heard_at,
        "last_seen_up": heard_at,
    }
    state = HostState(host["name"], host["name"], "cell")
    state.update(compute, service, [aggregates[key] for key in host["aggregates"]], {})
    return state


def request_spec(problem: dict[str, Any]) -> objects.RequestSpec:
    flavor = objects.Flavor(
        id=1,
        name="m1.small",
        flavorid="flavor-1",
        memory_mb=problem["ram_mb"],
        vcpus=problem["vcpus"],
        root_gb=problem["disk_gb"],
        ephemeral_gb=0,
        swap=0,
        extra_specs=problem["extra_specs"],
    )
    properties = objects.ImageMetaProps.from_dict(problem["image_properties"])
    return objects.RequestSpec(
        instance_uuid=str(uuid.uuid4()),
        project_id="project-1",
        num_instances=1,
        flavor=flavor,
        image=objects.ImageMeta(id=str(uuid.uuid4()), properties=properties),
        scheduler_hints={},
        instance_group=None,
        requested_destination=None,
    )


def main() -> None:
    problem = json.loads(sys.stdin.readline())
    configure(problem)
    aggregates = {
        key: objects.Aggregate(id=int(key), name=f"aggregate-{key}", metadata=metadata)
        for key, metadata in problem["aggregates"].items()
    }
    hosts = [host_state(host, problem, aggregates) for host in problem["hosts"]]
    filter_handler, weight_handler = HostFilterHandler(), HostWeightHandler()
    known_filters = {cls.__name__: cls for cls in filter_handler.get_all_classes()}
    known_weighers = {cls.__name__: cls for cls in weight_handler.get_all_classes()}
    filters = [known_filters[name]() for name in problem["filters"]]
    weighers = [known_weighers[name]() for name in problem["weighers"]]
    spec = request_spec(problem)
    print(
        json.dumps({"versions": {"nova": version("nova"), "nova_python": platform.python_version()}}),
        flush=True,
    )
    for line in sys.stdin:
        started = time.perf_counter()
        passed = filter_handler.get_filtered_objects(filters, hosts, spec)
        weighed = weight_handler.get_weighed_objects(weighers, passed, spec)
        answer: dict[str, Any] = {"ms": (time.perf_counter() - started) * 1e3}
        if line.strip() == "order":
            answer["order"] = [[one.obj.host, one.weight] for one in weighed]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
