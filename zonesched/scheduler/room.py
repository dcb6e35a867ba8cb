"""How many instances of a request a host takes: by the numbers that the claim is checked with."""

from __future__ import annotations

import numpy as np

from zonesched.model.arrays import Ints
from zonesched.model.host_view import HostView


def room_for(hosts: HostView, most: int) -> Ints:
    """Instances of the view's request that each host takes, at most `most`.

    Every class asked for limits it, by the capacity left and by the inventory's units.
    """
    room = np.full(len(hosts), float(most))
    for resource_class, amount in hosts.spec.resources.items():
        left = hosts.left(resource_class)
        if most > 1:
            np.minimum(room, np.floor_divide(left, amount), out=room)
        fits = hosts.admits(resource_class, amount)
        fits &= left >= amount
        room *= fits
    return room.astype(np.int64)
