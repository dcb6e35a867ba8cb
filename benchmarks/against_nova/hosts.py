"""The hosts and the request of both sides, as plain values that go through JSON."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.many_hosts.hosts import KINDS, RAM_RESERVED_MB, VCPU_RATIO

FILTERS = (
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "AggregateInstanceExtraSpecsFilter",
    "IoOpsFilter",
    "NumInstancesFilter",
)
"""Nova's default ones that need no server group, one that reads aggregates, two that count."""

WEIGHERS = (
    "RAMWeigher",
    "CPUWeigher",
    "DiskWeigher",
    "IoOpsWeigher",
    "NumInstancesWeigher",
    "BuildFailureWeigher",
    "HypervisorVersionWeigher",
    "MetricsWeigher",
)

METRIC = "cpu.frequency"

MULTIPLIERS: Mapping[str, float] = {
    "ram_weight_multiplier": 1.0,
    "cpu_weight_multiplier": 1.0,
    "disk_weight_multiplier": 1.0,
    "io_ops_weight_multiplier": -1.0,
    "num_instances_weight_multiplier": -0.5,
    "build_failure_weight_multiplier": 1_000_000.0,
    "hypervisor_version_weight_multiplier": 0.25,
    "metrics_weight_multiplier": 1.0,
}
LIMITS: Mapping[str, int] = {"max_io_ops_per_host": 8, "max_instances_per_host": 50}
METRICS_WEIGHT_SETTING = f"{METRIC}=-1.0"

AGGREGATES: Mapping[str, Mapping[str, str]] = {
    "1": {"ssd": "true", "rack": "a"},
    "2": {"ssd": "true", "rack": "b"},
    "3": {"ssd": "false", "rack": "c"},
    "4": {"site": "north"},
}
_AGGREGATES_OF = (("1",), ("2",), ("1", "4"), ("2", "4"))
_OTHER_AGGREGATES = ("3", "4")

EXTRA_SPECS: Mapping[str, str] = {
    "capabilities:hypervisor_type": "s== QEMU",
    "capabilities:hypervisor_version": ">= 6002000",
    "aggregate_instance_extra_specs:ssd": "true",
}
IMAGE_PROPERTIES: Mapping[str, str] = {"hw_architecture": "x86_64", "img_hv_type": "kvm", "hw_vm_mode": "hvm"}
VCPUS, RAM_MB, DISK_GB = 2, 4_096, 20


@dataclass(frozen=True)
class PlainHost:
    """One host. The request has room on each: Nova's handlers do not look."""

    name: str
    vcpus: int
    vcpus_used: int
    vcpu_ratio: float
    ram_mb: int
    ram_reserved_mb: int
    ram_used_mb: int
    disk_gb: int
    disk_used_gb: int
    num_instances: int
    num_io_ops: int
    failed_builds: int
    hypervisor_type: str
    hypervisor_version: int
    supported_instances: Sequence[Sequence[str]]
    aggregates: Sequence[str]
    enabled: bool
    up: bool
    metric: int


def a_host(rng: random.Random, number: int) -> PlainHost:
    """A host that may take the request, but for one in twenty for each of the reasons of the filters."""
    vcpus, ram_mb, disk_gb = KINDS[number % len(KINDS)]
    arch = "aarch64" if rng.random() < 0.05 else "x86_64"
    return PlainHost(
        name=f"host-{number}",
        vcpus=vcpus,
        vcpus_used=rng.randrange(vcpus * 2),
        vcpu_ratio=VCPU_RATIO,
        ram_mb=ram_mb,
        ram_reserved_mb=RAM_RESERVED_MB,
        ram_used_mb=rng.randrange(ram_mb // 2),
        disk_gb=disk_gb,
        disk_used_gb=rng.randrange(disk_gb // 2),
        num_instances=60 if rng.random() < 0.05 else rng.randrange(6),
        num_io_ops=10 if rng.random() < 0.05 else rng.randrange(3),
        failed_builds=int(rng.random() < 0.01),
        hypervisor_type="QEMU",
        hypervisor_version=6_001_000 if rng.random() < 0.05 else rng.choice((6_002_000, 7_000_000)),
        supported_instances=((arch, "kvm", "hvm"), (arch, "qemu", "hvm")),
        aggregates=_OTHER_AGGREGATES if rng.random() < 0.05 else rng.choice(_AGGREGATES_OF),
        enabled=rng.random() >= 0.05,
        up=rng.random() >= 0.05,
        metric=rng.randrange(1_000, 4_000),
    )


def plain_hosts(count: int, seed: int = 1) -> list[PlainHost]:
    rng = random.Random(seed)
    return [a_host(rng, number) for number in range(count)]


def problem(hosts: Sequence[PlainHost]) -> dict[str, Any]:
    """All that Nova's side is told."""
    return {
        "hosts": [asdict(host) for host in hosts],
        "aggregates": AGGREGATES,
        "filters": FILTERS,
        "weighers": WEIGHERS,
        "multipliers": MULTIPLIERS,
        "limits": LIMITS,
        "metric": METRIC,
        "metrics_weight_setting": METRICS_WEIGHT_SETTING,
        "extra_specs": EXTRA_SPECS,
        "image_properties": IMAGE_PROPERTIES,
        "vcpus": VCPUS,
        "ram_mb": RAM_MB,
        "disk_gb": DISK_GB,
    }
