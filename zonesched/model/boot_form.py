"""A user's request, validated but not yet resolved against this zone's flavors and images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zonesched.model.own_zone import AS_CONFIGURED, EnabledFilters
from zonesched.model.request_spec import Policy


@dataclass(frozen=True)
class BootForm:
    """A user's boot. `passthrough` is stored and returned unchanged (metadata, networks, key_name, ...).

    `fingerprint` is a hash of the body: a repeat under the same idempotency key must have the same hash. With
    an `idempotency_key` of "" each request is a new boot. `group_ref` names a server group by id or name; ""
    means no group. `hints_field` is the member of the body that held the hints. `named_hosts`: local hosts
    that must exist, by the member of the body that names them.
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
    named_hosts: Mapping[str, str] = field(default_factory=dict)
    policy: Policy = Policy.EACH
    filters: tuple[str, ...] = ()
    filter_query: str = ""
    enabled: EnabledFilters = AS_CONFIGURED
    passthrough: Mapping[str, Any] = field(default_factory=dict)
    idempotency_key: str = ""
    fingerprint: str = ""
