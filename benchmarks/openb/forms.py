"""The trace in the words of a zone's API: a node is a host, what a task asks for is a flavor."""

from __future__ import annotations

import re
from typing import Any

from .trace import MEMORY, Node, Shape

MODEL_TRAIT = "CUSTOM_GPU_"


def trait_of(model: str) -> str:
    """The trait of hosts with this model of card."""
    return MODEL_TRAIT + re.sub(r"[^A-Z0-9_]", "_", model.upper())


def host_form(node: Node) -> dict[str, Any]:
    """One host of PUT /hosts."""
    return {
        "name": node.name,
        "inventories": {name: {"total": amount} for name, amount in node.capacity.items()},
        "traits": [trait_of(node.model)] if node.cards and node.model else [],
    }


def flavor_form(shape: Shape, name: str) -> dict[str, Any]:
    """The body of POST /flavors. It asks for no VCPU and no disk, which no host has."""
    specs = {f"resources:{name}": str(n) for name, n in shape.amounts.items() if name != MEMORY}
    if shape.models:
        specs["traits:any_of"] = ",".join(trait_of(model) for model in shape.models)
    return {
        "flavor": {
            "name": name,
            "vcpus": 0,
            "ram": shape.amounts.get(MEMORY, 0),
            "disk": 0,
            "extra_specs": specs,
        }
    }
