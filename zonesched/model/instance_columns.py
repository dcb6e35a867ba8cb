"""What is counted of the instances of each host of a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zonesched.model.arrays import Floats
from zonesched.model.host_row import HostUse
from zonesched.model.tallies import Tallies


class InstanceColumns:
    """Columns by row, and tallies of living instances by what they share."""

    def __init__(self, room: int) -> None:
        self.num_instances: Floats = np.zeros(room)
        self.num_building: Floats = np.zeros(room)
        self.failed_builds: Floats = np.zeros(room)
        self.owners = Tallies(room)
        self.flavors = Tallies(room)
        self.images = Tallies(room)
        self.groups = Tallies(room)

    def grow(self, room: int) -> None:
        for tallies in (self.owners, self.flavors, self.images, self.groups):
            tallies.grow(room)
        more = np.zeros(room - len(self.num_instances))
        self.num_instances = np.concatenate([self.num_instances, more])
        self.num_building = np.concatenate([self.num_building, more])
        self.failed_builds = np.concatenate([self.failed_builds, more])

    def set(self, row_numbers: Sequence[int], uses: Sequence[HostUse]) -> None:
        """One use for each of the rows."""
        # Not the uses themselves: of a hundred thousand hosts, what else they hold would be kept twice.
        self.owners.set(row_numbers, [use.owners for use in uses])
        self.flavors.set(row_numbers, [use.flavors for use in uses])
        self.images.set(row_numbers, [use.images for use in uses])
        self.groups.set(row_numbers, [use.groups for use in uses])
        rows = np.array(row_numbers, dtype=np.int64)
        self.num_instances[rows] = [sum(use.owners.values()) for use in uses]
        self.num_building[rows] = [use.num_building for use in uses]
        self.failed_builds[rows] = [use.failed_builds for use in uses]
