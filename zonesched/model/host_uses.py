"""Uses of several hosts, in columns: the form in which the store hands many changes to the host table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zonesched.model.arrays import Bools, Ints
from zonesched.model.counts import Counts
from zonesched.model.host_row import HostUse


@dataclass(frozen=True)
class HostUses:
    """The fields of HostUse, one element per host of `ids`; each host once.

    `used` is by resource class; nothing is used of a class that it lacks.
    """

    ids: Sequence[str]
    used: Mapping[str, Ints]
    owners: Counts
    flavors: Counts
    images: Counts
    groups: Counts
    num_building: Ints
    failed_builds: Ints

    @classmethod
    def of(cls, by_id: Mapping[str, HostUse]) -> HostUses:
        """Build the uses from one HostUse per host id."""
        uses = list(by_id.values())
        classes = sorted({name for use in uses for name in use.used})
        return cls(
            ids=list(by_id),
            used={name: np.array([use.used.get(name, 0) for use in uses], np.int64) for name in classes},
            owners=Counts.of([use.owners for use in uses]),
            flavors=Counts.of([use.flavors for use in uses]),
            images=Counts.of([use.images for use in uses]),
            groups=Counts.of([use.groups for use in uses]),
            num_building=np.array([use.num_building for use in uses], dtype=np.int64),
            failed_builds=np.array([use.failed_builds for use in uses], dtype=np.int64),
        )

    def among(self, chosen: Bools) -> HostUses:
        """Select the hosts for which `chosen` is true."""
        each = self.by_id().items()
        return HostUses.of({host_id: use for (host_id, use), here in zip(each, chosen, strict=True) if here})

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def num_instances(self) -> Ints:
        """Number of living instances of each host, over all owners."""
        owned = np.bincount(self.owners.positions, weights=self.owners.amounts, minlength=len(self))
        return owned.astype(np.int64)

    def by_id(self) -> dict[str, HostUse]:
        """Return one HostUse per host id; classes of which nothing is used are left out."""
        used = {name: amounts.tolist() for name, amounts in self.used.items()}
        counts = (self.owners, self.flavors, self.images, self.groups)
        owners, flavors, images, groups = (some.by_host(len(self)) for some in counts)
        building, failed = self.num_building.tolist(), self.failed_builds.tolist()
        return {
            host_id: HostUse(
                used={name: amounts[n] for name, amounts in used.items() if amounts[n]},
                owners=owners[n],
                flavors=flavors[n],
                images=images[n],
                groups=groups[n],
                num_building=building[n],
                failed_builds=failed[n],
            )
            for n, host_id in enumerate(self.ids)
        }


NO_USES = HostUses.of({})
