"""One boot as a line of a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zonesched.model.request_spec import Flavor


@dataclass(frozen=True)
class BootLine:
    """One boot in a list; `name` is that of its first instance, `counts` its instances by status."""

    id: str
    name: str
    state: str
    num_instances: int
    min_count: int
    counts: Mapping[str, int]
    flavor: Flavor
    project_id: str
    created_at: float
