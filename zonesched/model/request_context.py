"""Facts that a zone adds to a request about its owner, and about related instances in this zone."""

from __future__ import annotations

from dataclasses import dataclass, field

from zonesched.model.group_place import ANYWHERE, GroupPlace


@dataclass(frozen=True)
class RequestContext:
    """Facts that the zone looks up before it filters; host ids are ids of local hosts.

    `caller` is the id of its sender: a parent's user, or this zone. `owner` is the key of its owner, and
    `group` the key of its server group ("" without one), as in `HostUse.owners` and `HostUse.groups`.
    `same_hosts` and `different_hosts` run the instances named by the hints of these names; `tried_hosts` have
    refused this request before. `group_place` is the place of the request's affinity group. `tie_key`, 32 hex
    digits, orders hosts of equal weight: `seal.tie_keys` derives it for each request.
    """

    owner: str = ""
    group: str = ""
    same_hosts: frozenset[str] = frozenset()
    different_hosts: frozenset[str] = frozenset()
    tried_hosts: frozenset[str] = frozenset()
    group_place: GroupPlace = ANYWHERE
    tie_key: str = field(default="00" * 16, repr=False)
    caller: str = ""


NOTHING_KNOWN = RequestContext()
