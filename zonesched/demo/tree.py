"""The demo's tree: its zones, their ports, and the number and kinds of their hosts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SHAPE = (
    ("root", "", 2),
    ("north", "root", 2),
    ("north-1", "north", 9),
    ("north-2", "north", 9),
    ("south", "root", 0),
    ("south-1", "south", 9),
    ("south-2", "south", 9),
)
"""Name, parent ("" for the root) and share of the hosts; as an outline, parents first."""

KINDS: tuple[dict[str, Any], ...] = (
    {
        "kind": "general",
        "inventories": {
            "VCPU": {"total": 32, "ratio": 4.0},
            "MEMORY_MB": {"total": 131072, "reserved": 2048},
            "DISK_GB": {"total": 1000},
        },
        "traits": ["HW_CPU_X86_AVX2"],
    },
    {
        "kind": "memory",
        "inventories": {
            "VCPU": {"total": 64, "ratio": 2.0},
            "MEMORY_MB": {"total": 524288, "reserved": 4096},
            "DISK_GB": {"total": 2000},
        },
        "traits": ["HW_CPU_X86_AVX2", "HW_CPU_X86_AVX512F"],
    },
    {
        "kind": "storage",
        "inventories": {
            "VCPU": {"total": 16, "ratio": 4.0},
            "MEMORY_MB": {"total": 65536, "reserved": 2048},
            "DISK_GB": {"total": 20000},
        },
        "traits": ["STORAGE_DISK_HDD"],
    },
    {
        "kind": "gpu",
        "inventories": {
            "VCPU": {"total": 48, "ratio": 1.0},
            "MEMORY_MB": {"total": 262144, "reserved": 4096},
            "DISK_GB": {"total": 2000},
            "PGPU": {"total": 8},
        },
        "traits": ["HW_CPU_X86_AVX2", "CUSTOM_GPU_A100"],
    },
)


@dataclass(frozen=True)
class DemoZone:
    """One zone of the demo; `level` is 0 for the root."""

    name: str
    parent: str
    level: int
    port: int
    host_count: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def plan_tree(hosts: int, base_port: int) -> list[DemoZone]:
    """Return the zones of the demo, parents first: `hosts` hosts in all, ports from `base_port` on."""
    counts = _deal(hosts, [share for _, _, share in SHAPE])
    zones: list[DemoZone] = []
    for position, ((name, parent, _), count) in enumerate(zip(SHAPE, counts, strict=True)):
        level = next((zone.level + 1 for zone in zones if zone.name == parent), 0)
        zones.append(DemoZone(name, parent, level, base_port + position, count))
    return zones


def _deal(total: int, shares: list[int]) -> list[int]:
    """Split `total` into whole parts in proportion to the shares; the rest goes to the largest fractions."""
    whole = sum(shares)
    parts = [total * share // whole for share in shares]
    by_fraction = sorted(range(len(shares)), key=lambda i: (-(total * shares[i] % whole), -i))
    for i in by_fraction[: total - sum(parts)]:
        parts[i] += 1
    return parts


def inventory(zone: DemoZone) -> list[dict[str, Any]]:
    """Return the hosts of a zone in the form of its agent's inventory file."""
    return [_host(zone, number) for number in range(zone.host_count)]


def _host(zone: DemoZone, number: int) -> dict[str, Any]:
    kind = KINDS[number % len(KINDS)]
    return {
        "name": f"{zone.name}-{kind['kind']}-{number + 1}",
        "address": f"192.0.2.{number % 250 + 1}",
        "availability_zone": f"{zone.name}-rack-{number // len(KINDS) % 3 + 1}",
        "inventories": kind["inventories"],
        "capabilities": {"kind": kind["kind"]},
        "traits": kind["traits"],
    }


def config_text(zone: DemoZone, state_path: str, new_key: Callable[[], str]) -> str:
    """Return a zone's configuration with new keys; intervals are short, so that the demo need not wait."""
    options = {
        "zone_name": zone.name,
        "state_path": state_path,
        "bind_host": "127.0.0.1",
        "bind_port": zone.port,
        "build_plan_encryption_key": new_key(),
        "secret_encryption_key": new_key(),
        "child_networks": "loopback",
        "zone_db_check_interval": 0.5,
        "retry_pause": 0.2,
        "instance_sync_interval": 5.0,
        "service_down_time": 30.0,
        "api_threads": 16,
    }
    return "[DEFAULT]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())
