"""A user's request, validated but not yet resolved against this zone's flavors and images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zonesched.model.own_zone import AS_CONFIGURED, EnabledFilters
from zonesched.model.request_spec import Policy


@dataclass(frozen=True)
class BootForm:
    """A user's boot. `passthrough` is accepted and given back as it came (metadata, networks, key_name, ...).

    `fingerprint` is a hash of the body: a repeat under the same idempotency key must have the same one.
    An `idempotency_key` of "" means that each request is a new one. `group_ref` names a server group by id or
    name, "" none; `hints_field` is where the hints stood.
    """

    name: str
    flavor_ref: str
    image_ref: str
    num_instances: int
    min_count: int
    availability_zone: str = ""
    hints: Mapping[str, Any] = field(default_factory=dict)
    hints_field: str = "os:scheduler_hints"
    group_ref: str = ""
    policy: Policy = Policy.EACH
    filters: tuple[str, ...] = ()
    filter_query: str = ""
    enabled: EnabledFilters = AS_CONFIGURED
    passthrough: Mapping[str, Any] = field(default_factory=dict)
    idempotency_key: str = ""
    fingerprint: str = ""
