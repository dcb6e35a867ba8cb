"""The facts that a zone adds to a request: who asks, and what the caller has in this zone."""

from __future__ import annotations

from dataclasses import dataclass, field

from zonesched.model.group_place import ANYWHERE, GroupPlace


@dataclass(frozen=True)
class RequestContext:
    """Looked up by the zone before it filters; ids are of its own hosts.

    `owner` is the key of the request's owner, and `group` that of its server group ("" without one), as
    `HostRow.owners` and `HostRow.groups` count them. `same_hosts` and `different_hosts` have the instances
    that the hints of these names name; `tried_hosts` have refused this request before. `group_place` is where
    the instances of the request's affinity group are. `tie_key`, 32 hex digits, orders hosts of equal weight:
    `seal.tie_keys` derives it for each request.
    """

    owner: str = ""
    group: str = ""
    same_hosts: frozenset[str] = frozenset()
    different_hosts: frozenset[str] = frozenset()
    tried_hosts: frozenset[str] = frozenset()
    group_place: GroupPlace = ANYWHERE
    tie_key: str = field(default="00" * 16, repr=False)


NOTHING_KNOWN = RequestContext()
