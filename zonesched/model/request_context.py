"""What a zone knows about a request besides what the request itself says: who asks, and what it has here."""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.model.group_place import ANYWHERE, GroupPlace


@dataclass(frozen=True)
class RequestContext:
    """Looked up by the zone before it filters; ids are of its own hosts.

    `owner` is the key of the request's owner, and `group` that of its server group ("" without one), as
    `HostRow.owners` and `HostRow.groups` count them. `same_hosts` and `different_hosts` have the instances
    that the hints of these names name; `tried_hosts` have refused this request before. `group_place` is where
    the instances of the request's affinity group are.
    """

    owner: str = ""
    group: str = ""
    same_hosts: frozenset[str] = frozenset()
    different_hosts: frozenset[str] = frozenset()
    tried_hosts: frozenset[str] = frozenset()
    group_place: GroupPlace = ANYWHERE


NOTHING_KNOWN = RequestContext()
