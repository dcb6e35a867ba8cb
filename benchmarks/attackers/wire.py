"""Bodies of calls between zones."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

FLAVOR = {"id": "f", "name": "small", "vcpus": 1, "ram": 512, "disk": 1, "extra_specs": {}}


def a_spec(**changes: Any) -> dict[str, Any]:
    """A request of one instance, of a new request id."""
    return {
        "request_id": str(uuid.uuid4()),
        "project_id": "p",
        "num_instances": 1,
        "alternates": 3,
        "policy": "each",
        "group": {"name": "none"},
        "flavor": FLAVOR,
        "image": {"id": "", "name": "", "properties": {}},
        "availability_zone": "",
        "hints": {},
        "filters": [],
        "filter_query": "",
        "weighing": {
            "name": "score",
            "scales": [{"weigher": "RAMWeigher", "low": 0.0, "high": 1e6, "multiplier": 1.0}],
        },
        "path": [],
        "time_budget_s": 2.0,
        **changes,
    }


def build_body(spec: dict[str, Any], builds: Sequence[dict[str, Any]], hold_s: float) -> dict[str, Any]:
    """A parent's POST /servers."""
    server = {"reservation_id": str(uuid.uuid4()), "hold_s": hold_s, "builds": list(builds)}
    return {"server": server, "request_spec": spec}
