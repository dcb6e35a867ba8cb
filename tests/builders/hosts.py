"""Builders of hosts, tables and requests with defaults, and hypothesis strategies of them."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import strategies as st

from zonesched import conf
from zonesched.model.aggregate import Aggregate
from zonesched.model.capacity import Inventory
from zonesched.model.host_row import flavor_key
from zonesched.model.host_table import HostFacts, HostRow, HostTable, HostUse
from zonesched.model.request_context import RequestContext
from zonesched.model.request_spec import (
    DISK_GB,
    MEMORY_MB,
    VCPU,
    Flavor,
    GroupPolicy,
    Image,
    NoGroup,
    Policy,
    RequestSpec,
    ServerGroup,
)
from zonesched.scheduler.schedulers import Schedulers
from zonesched.seal.tie_keys import TieSecret

_TIE_SECRET = TieSecret("ab" * 32)
SERVICE = "agent-1"
GPU = "CUSTOM_GPU"


def a_host(
    host_id: str = "1f",
    *,
    vcpus: int | Inventory = 16,
    ram_mb: int | Inventory = 65_536,
    disk_gb: int | Inventory = 1_000,
    more: Mapping[str, Inventory] | None = None,
    used: Mapping[str, int] | None = None,
    owners: Mapping[str, int] | None = None,
    zone: str = "az1",
    service: str = SERVICE,
    capabilities: Mapping[str, Any] | None = None,
    traits: Iterable[str] = (),
    enabled: bool = True,
    aggregates: Iterable[Aggregate] = (),
    metrics: Mapping[str, float] | None = None,
    **counts: Any,
) -> HostRow:
    """A host named after its id, empty unless `used` says otherwise; `counts` are fields of its use."""
    amounts = {VCPU: vcpus, MEMORY_MB: ram_mb, DISK_GB: disk_gb, **(more or {})}
    return HostRow(
        HostFacts(
            id=host_id,
            name=f"host-{host_id}",
            address=f"10.0.0.{len(host_id)}",
            availability_zone=zone,
            service_id=service,
            capabilities=capabilities or {},
            traits=frozenset(traits),
            enabled=enabled,
            aggregates=tuple(aggregates),
        ),
        {name: it if isinstance(it, Inventory) else Inventory(it) for name, it in amounts.items()},
        HostUse(used or {}, owners or {}, **counts),
        metrics or {},
    )


def a_table(hosts: Iterable[HostRow], services_up: Mapping[str, bool] | None = None) -> HostTable:
    """A table of these hosts, whose agents live."""
    table = HostTable()
    table.apply(hosts)
    table.set_services_up({SERVICE: True} if services_up is None else services_up)
    return table


def a_spec(
    count: int = 1,
    *,
    request_id: str = "request-1",
    vcpus: int = 1,
    ram_mb: int = 1_024,
    disk_gb: int = 10,
    extra: Mapping[str, str] | None = None,
    image_id: str = "image-1",
    image: Mapping[str, str] | None = None,
    project_id: str = "project-1",
    **fields: Any,
) -> RequestSpec:
    """A request for `count` small instances; `image` are its image's properties."""
    flavor = Flavor("small", "small", vcpus, ram_mb, disk_gb, extra or {})
    return RequestSpec(request_id, project_id, count, flavor, Image(image_id, "linux", image or {}), **fields)


def a_context(request_id: str, owner: str = "") -> RequestContext:
    """The context of a request in a zone, with the tie key that the zone would derive for it."""
    return RequestContext(owner, tie_key=_TIE_SECRET.request_key("caller-1", request_id, bytes(32)))


def schedulers(**options: Any) -> Schedulers:
    """The schedulers of a zone with these options; made once for equal ones, since they keep no state."""
    return _schedulers(json.dumps(options, sort_keys=True))


@functools.lru_cache(maxsize=64)
def _schedulers(options: str) -> Schedulers:
    return Schedulers.from_conf(conf.load([], json.loads(options)))


IMAGE_KEYS = ("{}", '{"os_distro":"fedora"}', '{"os_distro":"debian","os_type":"linux"}')


HYPERVISORS: tuple[Mapping[str, Any], ...] = (
    {},
    {"hypervisor_type": "QEMU", "hypervisor_version": 2_012_000},
    {
        "hypervisor_version": "6.2.9200",
        "supported_instances": [["x86_64", "kvm", "hvm"], ["aarch64", "qemu", "hvm"]],
        "cpu_info": {"vendor": "Intel", "features": ["aes", "mmx"]},
    },
    {"supported_instances": ["odd", ["x86_64", "xen"], ["i686", "xen", "pv"]], "cpu_info": '{"vendor": 5}'},
)

DEMANDS = {
    "cores": ("= 1", "2", "<or> 2 <or> no"),
    "gpu": ("a100", "<in> a", "s!= a100", "true"),
    "capabilities:cpu_info:features": ("<in> aes", "<all-in> aes mmx", "<or> mmx <or> fpu"),
    "capabilities:cpu_info:vendor": ("Intel", "== 5"),
    "capabilities:free_ram_mb": (">= 5", "s== 5"),
    "capabilities:num_instances": ("<= 2",),
    "aggregate_instance_extra_specs:kind": ("ssd", "<or> hdd <or> ssd"),
    "hw:cpu_policy": ("dedicated",),
}
"""Extra specs that some filters read, and one that none does."""

PROPERTIES = {
    "hw_architecture": ("x86_64", "amd64", "aarch64"),
    "hypervisor_type": ("kvm", "qemu"),
    "hw_vm_mode": ("hvm", "xen"),
    "img_hv_requested_version": (">=6.0,<7", "<2013000"),
    "os_distro": ("debian", "fedora"),
}

NEARS: tuple[Mapping[str, Any], ...] = (
    {"build_near_host_ip": "10.0.0.1", "cidr": "/31"},
    {"build_near_host_ip": "fd00::9:1", "cidr": 120},
    {"build_near_host_ip": "10.0.0.77"},
)


def said_of_requests(rng: random.Random) -> dict[str, str]:
    """Metadata of an aggregate that keeps it for some requests."""
    choices = {
        "instance_type": ("small", "large,small", "large"),
        "filter_tenant_id": ("project-1", "project-2"),
        "filter_tenant_id_more": ("project-2,project-3",),
        "os_distro": ("debian", "fedora,debian"),
        "cores": ("1", "2,no"),
    }
    return {key: rng.choice(values) for key, values in choices.items() if rng.random() < 0.2}


def some_aggregate(rng: random.Random, name: str) -> Aggregate:
    """An aggregate that says one of a few things; of equal names, not all say the same."""
    metadata = {
        key: value
        for key, value in (
            ("kind", rng.choice(["ssd", "hdd", "ssd,hdd"])),
            ("max_io_ops_per_host", rng.choice("123x")),
            ("max_instances_per_host", rng.choice("135x")),
        )
        if rng.random() < 0.7
    }
    return Aggregate(f"id-of-{name}", name, metadata | said_of_requests(rng))


def some_inventory(rng: random.Random) -> Inventory:
    return Inventory(
        rng.randint(0, 24),
        reserved=rng.randint(0, 4),
        allocation_ratio=rng.choice([0.0, 0.5, 1.0, 1.1, 1.5, 16.0]),
        min_unit=rng.choice([1, 1, 1, 2]),
        max_unit=rng.choice([24, 24, 2]),
        step_size=rng.choice([1, 1, 1, 2, 3]),
    )


def some_host(rng: random.Random, host_id: str) -> HostRow:
    """A host with any inventories, over-committed ones and ones that lack a class included."""
    classes = [name for name in (VCPU, MEMORY_MB, DISK_GB, GPU) if rng.random() < 0.9]
    names = [name for name in ("gpu", "cores", "special") if rng.random() < 0.5]
    return HostRow(
        HostFacts(
            id=host_id,
            name=f"host-{host_id}",
            address=rng.choice(["", "10.0.0.1", "10.0.0.2", "10.1.0.3", "fd00::9:7", "no address"]),
            availability_zone=rng.choice(["", "az1", "az1", "az2"]),
            service_id=rng.choice([SERVICE, "agent-2"]),
            capabilities={
                **{name: rng.choice([0, 1, 2, "a100", "true", "no", "", True, False]) for name in names},
                **rng.choice(HYPERVISORS),
            },
            traits=frozenset(name for name in ("SSD", "AVX", "SGX") if rng.random() < 0.5),
            enabled=rng.random() < 0.8,
            aggregates=tuple(some_aggregate(rng, name) for name in ("a1", "a2") if rng.random() < 0.4),
        ),
        {name: some_inventory(rng) for name in classes},
        some_use(rng, classes),
        {name: rng.uniform(-5, 5) for name in ("load", "heat") if rng.random() < 0.6},
    )


def some_use(rng: random.Random, classes: Iterable[str]) -> HostUse:
    return HostUse(
        {name: rng.randint(0, 12) for name in classes},
        {name: rng.randint(0, 3) for name in ("owner-1", "owner-2") if rng.random() < 0.5},
        flavors={
            flavor_key("", name): rng.randint(0, 2) for name in ("small", "large") if rng.random() < 0.4
        },
        images={name: rng.randint(0, 2) for name in IMAGE_KEYS if rng.random() < 0.4},
        groups={name: rng.randint(0, 2) for name in ("group-1", "group-2") if rng.random() < 0.4},
        num_building=rng.randint(0, 3),
        failed_builds=rng.randint(0, 2),
    )


def some_table(seed: int, size: int) -> HostTable:
    rng = random.Random(seed)
    return a_table(
        [some_host(rng, f"{number:x}f") for number in range(size)],
        {SERVICE: True, "agent-2": rng.random() < 0.7},
    )


QUERIES = (
    "",
    '[">=", "$free_ram_mb", 5]',
    '["and", ["<", "$vcpus_used", 4, 9], ["not", ["=", "$capabilities.gpu", "a100"]]]',
    '["or", ["in", "$capabilities.gpu", "a100", 1, true], ["<=", "$disk_mb_used", 2]]',
    '[">", "$free_disk_mb", "$capabilities.cores"]',
    '["not", ["=", "$capabilities.special", true], ["=", "$vcpus_total", "x"]]',
    '["<", "$vcpus_used", "$capabilities.cores", 3]',
    '["not", ["<", 2, "$vcpus_used", "$capabilities.gpu"], ["in", true, "$capabilities.special"]]',
    '["in", "$capabilities.cores", "$vcpus_used", "$capabilities.gpu", 2]',
    '[">=", "$disk_mb_used", "$total_usable_disk_gb", "$total_usable_ram_mb"]',
)


def some_spec(seed: int, count: int) -> RequestSpec:
    rng = random.Random(seed)
    extra = {
        f"resources:{GPU}": str(rng.randint(0, 3)),
        "trait:SSD": rng.choice(["required", "forbidden"]),
        "trait:AVX": rng.choice(["required", "forbidden"]),
        "traits:any_of": rng.choice(["SSD,AVX", "SSD;AVX,SGX"]),
        "special": "true",
        **{name: rng.choice(values) for name, values in DEMANDS.items() if rng.random() < 0.25},
    }
    properties = {name: rng.choice(values) for name, values in PROPERTIES.items() if rng.random() < 0.2}
    return a_spec(
        count,
        request_id=f"request-{seed}",
        vcpus=rng.randint(0, 3),
        ram_mb=rng.randint(0, 3),
        disk_gb=rng.randint(0, 2),
        extra={name: value for name, value in extra.items() if rng.random() < 0.2},
        availability_zone=rng.choice(["", "", "az1"]),
        image_id=rng.choice(["image-1", "image-2"]),
        image=properties,
        project_id=rng.choice(["project-1", "project-2", "project-4"]),
        hints={**(rng.choice(NEARS) if rng.random() < 0.2 else {}), **some_instances(rng)},
        filter_query=rng.choice(QUERIES),
        alternates=rng.randint(0, 3),
        policy=rng.choice([Policy.EACH, Policy.EACH, Policy.AFFINITY]),
        group=rng.choice([NoGroup(), ServerGroup("1", rng.choice(list(GroupPolicy)), rng.randint(1, 2))]),
    )


def some_instances(rng: random.Random) -> Mapping[str, Any]:
    """Hints that name instances; where these are is for the context to say."""
    return {name: ["uuid"] for name in ("same_host", "different_host") if rng.random() < 0.3}


def some_context(seed: int) -> RequestContext:
    """Request contexts: of known and unknown hosts, of a group with members and without."""
    rng = random.Random(seed)
    return RequestContext(
        owner=rng.choice(["owner-1", "owner-2"]),
        group=rng.choice(["", "group-1", "group-1", "group-nobody-is-in"]),
        same_hosts=some_host_ids(rng),
        different_hosts=some_host_ids(rng),
        tried_hosts=some_host_ids(rng),
    )


def some_host_ids(rng: random.Random) -> frozenset[str]:
    return frozenset(f"{rng.randint(0, 20):x}f" for _ in range(rng.randint(0, 4)))


SEEDS = st.integers(0, 2**32)
tables = st.builds(some_table, SEEDS, st.integers(1, 16))
specs = st.builds(some_spec, SEEDS, st.integers(1, 6))
contexts = st.builds(some_context, SEEDS)
