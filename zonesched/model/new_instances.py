"""Instances of one request that are placed on hosts, as the host table counts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class NewInstances:
    """Unbuilt instances of one request, by the id of their host.

    `resources`: what each of them takes. `owner`, `flavor` and `image` are keys as in `HostUse`; no instance
    is in a server group.
    """

    copies_by_host: Mapping[str, int]
    resources: Mapping[str, int]
    owner: str
    flavor: str
    image: str

    def among(self, host_ids: frozenset[str]) -> NewInstances:
        """Select the instances on these hosts."""
        here = {host_id: n for host_id, n in self.copies_by_host.items() if host_id in host_ids}
        return NewInstances(here, self.resources, self.owner, self.flavor, self.image)


@dataclass(frozen=True)
class OwnClaims:
    """Instances that one transaction of this process has claimed hosts for.

    `change`: the number of the transaction. `changed_before`: the number of the last change before it of each
    host on which it has claimed nothing but these, by id; other hosts have to be read.
    """

    change: int
    changed_before: Mapping[str, int]
    instances: Sequence[NewInstances]


NO_CLAIMS = OwnClaims(0, {}, ())
