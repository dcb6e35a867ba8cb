"""Request specs as JSON bodies."""

from __future__ import annotations

from typing import Any

from zonesched.model.request_spec import (
    Flavor,
    Image,
    RequestSpec,
    ScoreWeighing,
    WeigherScale,
)


def a_spec(**changes: Any) -> RequestSpec:
    parts: dict[str, Any] = {
        "request_id": "req",
        "project_id": "p",
        "num_instances": 2,
        "flavor": Flavor("1", "m1", 1, 512, 10, {"resources:CUSTOM_X": "3", "trait:SSD": "required"}),
        "image": Image("i", "linux", {"architecture": "x86_64"}),
        "weighing": ScoreWeighing((WeigherScale("RAMWeigher", 0.0, 8192.0, 1.0),)),
        **changes,
    }
    return RequestSpec(**parts)
