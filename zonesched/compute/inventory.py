"""Inventory of an agent's hosts, read from a CSV or JSON file.

CSV: a header, then a line per host; lines that begin with # are skipped. Columns `name` (required),
`address`, `availability_zone`, `capabilities` (key=value;key=value), `traits` (A;B), `metrics`
(name=number;name=number), and for each resource class a column `CLASS` with its total and, where wanted,
`CLASS.reserved`, `CLASS.ratio`, `CLASS.min_unit`, `CLASS.max_unit`, `CLASS.step_size`. An empty cell leaves
the thing out; without a `max_unit` one instance takes at most the total.

    name,availability_zone,VCPU,VCPU.ratio,MEMORY_MB,MEMORY_MB.reserved,capabilities,traits
    host-1,rack-1,32,4.0,131072,2048,kind=general,HW_CPU_X86_AVX2

JSON: an array of objects with the same names; `inventories` holds {"CLASS": {"total": 32, "ratio": 4.0}},
`capabilities` and `metrics` an object and `traits` an array.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zonesched.compute.inventory_fields import CLASS_NAME, FACTS, RATIO, WHOLE_PARTS, InventoryError
from zonesched.compute.inventory_rows import Row, csv_rows, json_rows

MAX_AMOUNT = 2**31 - 1


@dataclass(frozen=True)
class InventoryHost:
    """A host of the file. `inventories` has, by resource class, the members that the file sets."""

    name: str
    address: str = ""
    availability_zone: str = ""
    inventories: Mapping[str, Mapping[str, int | float]] = field(default_factory=dict)
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    traits: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)

    def with_traits(self, traits: Iterable[str]) -> InventoryHost:
        """Return the host with these traits added, in alphabetical order."""
        return replace(self, traits=tuple(sorted({*self.traits, *traits})))

    def to_wire(self) -> dict[str, Any]:
        """Return the host in the form of PUT /hosts.

        Without a ratio the zone chooses one. Without a `max_unit` one instance takes at most the
        total: the allocation ratio lets instances share a host, not outgrow it.
        """
        return {
            "name": self.name,
            "address": self.address,
            "availability_zone": self.availability_zone,
            "inventories": {
                name: {
                    "max_unit": max(parts["total"], parts.get("min_unit", 1)),
                    **{("allocation_ratio" if part == RATIO else part): n for part, n in parts.items()},
                }
                for name, parts in self.inventories.items()
            },
            "capabilities": dict(self.capabilities),
            "traits": list(self.traits),
            "metrics": dict(self.metrics),
        }


def read_inventory(path: Path) -> list[InventoryHost]:
    """Read the hosts of a file, in its order. Raises InventoryError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InventoryError(f"{path}: cannot be read: {error}") from error
    rows = json_rows(text) if path.suffix == ".json" else csv_rows(text)
    try:
        return _hosts(rows)
    except InventoryError as error:
        raise InventoryError(f"{path}, {error}") from None


def _hosts(rows: Iterable[Row]) -> list[InventoryHost]:
    hosts: list[InventoryHost] = []
    line_of: dict[str, int] = {}
    for line, row in rows:
        try:
            host = _host(row)
        except ValueError as error:
            raise InventoryError(f"line {line}: {error}") from None
        if host.name in line_of:
            raise InventoryError(f"line {line}: name: {host.name!r} is already on line {line_of[host.name]}")
        line_of[host.name] = line
        hosts.append(host)
    return hosts


def _host(row: Mapping[str, Any]) -> InventoryHost:
    for key in row:
        if key not in (*FACTS, "inventories"):
            raise ValueError(f"{key}: unknown field; known are {', '.join(FACTS)} and inventories")
    name = _text(row, "name")
    if not name:
        raise ValueError("name: is missing")
    capabilities, traits = row.get("capabilities", {}), row.get("traits", [])
    if not isinstance(capabilities, dict):
        raise ValueError("capabilities: must be an object")
    if not isinstance(traits, list) or not all(
        isinstance(t, str) and CLASS_NAME.fullmatch(t) for t in traits
    ):
        raise ValueError("traits: must be names of capital letters, digits and _, such as HW_CPU_X86_AVX2")
    return InventoryHost(
        name=name,
        address=_text(row, "address"),
        availability_zone=_zone(row),
        inventories=_inventories(row.get("inventories", {})),
        capabilities=capabilities,
        traits=tuple(traits),
        metrics=_metrics(row.get("metrics", {})),
    )


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key, "")
    if not isinstance(value, str):
        raise ValueError(f"{key}: must be text")
    return value.strip()


def _zone(row: Mapping[str, Any]) -> str:
    name = _text(row, "availability_zone")
    if ":" in name:
        raise ValueError(f"availability_zone: {name!r} has a colon")
    return name


def _inventories(unchecked: Any) -> dict[str, dict[str, int | float]]:
    if not isinstance(unchecked, dict):
        raise ValueError("inventories: must be an object")
    return {name: _parts(name, parts) for name, parts in unchecked.items()}


def _parts(name: str, unchecked: Any) -> dict[str, int | float]:
    if not CLASS_NAME.fullmatch(name):
        raise ValueError(
            f"{name}: a resource class is capital letters, digits and _, such as VCPU or CUSTOM_X"
        )
    if not isinstance(unchecked, dict) or "total" not in unchecked:
        raise ValueError(f"{name}: total is missing")
    for part, value in unchecked.items():
        if part in WHOLE_PARTS:
            _check_whole(f"{name}.{part}", value, at_least=0 if part in ("total", "reserved") else 1)
        elif part == RATIO:
            _check_ratio(f"{name}.{part}", value)
        else:
            raise ValueError(f"{name}.{part}: unknown member; known are {', '.join(WHOLE_PARTS)} and {RATIO}")
    if unchecked.get("reserved", 0) > unchecked["total"]:
        raise ValueError(
            f"{name}.reserved: {unchecked['reserved']} is more than the total {unchecked['total']}"
        )
    return dict(unchecked)


def _metrics(unchecked: Any) -> dict[str, float]:
    if not isinstance(unchecked, dict):
        raise ValueError("metrics: must be an object")
    for name, value in unchecked.items():
        if not _is_finite(value):
            raise ValueError(f"metrics.{name}: {value!r} is not a finite number")
    return dict(unchecked)


def _check_whole(what: str, value: Any, *, at_least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not at_least <= value <= MAX_AMOUNT:
        raise ValueError(f"{what}: {value!r} is not a whole number from {at_least} to {MAX_AMOUNT}")


def _check_ratio(what: str, value: Any) -> None:
    if not _is_finite(value) or value <= 0:
        raise ValueError(f"{what}: {value!r} is not a number above 0")


def _is_finite(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
