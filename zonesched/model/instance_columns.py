"""Counts of the instances of each host of a table."""

from __future__ import annotations

import numpy as np

from zonesched.model.arrays import Floats, Ints
from zonesched.model.host_counters import HostCounters
from zonesched.model.host_uses import HostUses
from zonesched.model.new_instances import NewInstances


class InstanceColumns:
    """Columns by row, and counters of living instances by owner, flavor, image and group."""

    def __init__(self, room: int) -> None:
        self.num_instances: Floats = np.zeros(room)
        self.num_building: Floats = np.zeros(room)
        self.failed_builds: Floats = np.zeros(room)
        self.owners = HostCounters(room)
        self.flavors = HostCounters(room)
        self.images = HostCounters(room)
        self.groups = HostCounters(room)

    def grow(self, room: int) -> None:
        for counters in (self.owners, self.flavors, self.images, self.groups):
            counters.grow(room)
        more = np.zeros(room - len(self.num_instances))
        self.num_instances = np.concatenate([self.num_instances, more])
        self.num_building = np.concatenate([self.num_building, more])
        self.failed_builds = np.concatenate([self.failed_builds, more])

    def add(self, rows: Ints, copies: Ints, new: NewInstances) -> None:
        """Count new instances, so many on each of the rows; negative copies are taken off again."""
        self.owners.add(rows, new.owner, copies)
        self.flavors.add(rows, new.flavor, copies)
        self.images.add(rows, new.image, copies)
        self.num_instances[rows] += copies
        self.num_building[rows] += copies

    def add_on(self, row: int, copies: int, new: NewInstances) -> None:
        """Count new instances of one host, as `add` does."""
        self.owners.add_on(row, new.owner, copies)
        self.flavors.add_on(row, new.flavor, copies)
        self.images.add_on(row, new.image, copies)
        self.num_instances[row] += copies
        self.num_building[row] += copies

    def set(self, rows: Ints, uses: HostUses) -> None:
        """Set the rows to the uses, one element of the uses for each row."""
        self.owners.set(rows, uses.owners)
        self.flavors.set(rows, uses.flavors)
        self.images.set(rows, uses.images)
        self.groups.set(rows, uses.groups)
        self.num_instances[rows] = uses.num_instances
        self.num_building[rows] = uses.num_building
        self.failed_builds[rows] = uses.failed_builds
