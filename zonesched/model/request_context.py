"""Facts that a zone adds to a request about its owner, and about related instances in this zone."""

from __future__ import annotations

from dataclasses import dataclass, field

from zonesched.model.group_place import ANYWHERE, GroupPlace


@dataclass(frozen=True)
class MoveFrom:
    """The host that a moving instance leaves, by id, and the one that an admin has named for it, by name.

    `group_member_on`: the host, by id, where its own place does not count against its server group. "" for
    none: a request for new instances, or a move to any host.
    """

    host_id: str = ""
    asked_host: str = ""
    group_member_on: str = ""


NO_MOVE = MoveFrom()


@dataclass(frozen=True)
class RequestContext:
    """Facts that the zone looks up before it filters; host ids are ids of local hosts.

    `caller` is the id of its sender: a parent's user, or this zone. `owner` is the key of its owner, and
    `group` the key of its server group ("" without one), as in `HostUse.owners` and `HostUse.groups`.
    `same_hosts` and `different_hosts` run the instances named by the hints of these names; `tried_hosts` have
    refused this request before. `moves` has the hosts of a move. `group_place` is the place of the request's
    affinity group. `tie_key`, 32 hex digits, orders hosts of equal weight: `seal.tie_keys` derives it for
    each request.
    """

    owner: str = ""
    group: str = ""
    same_hosts: frozenset[str] = frozenset()
    different_hosts: frozenset[str] = frozenset()
    tried_hosts: frozenset[str] = frozenset()
    moves: MoveFrom = NO_MOVE
    group_place: GroupPlace = ANYWHERE
    tie_key: str = field(default="00" * 16, repr=False)
    caller: str = ""


NOTHING_KNOWN = RequestContext()
