"""Count the instances of a request that a host takes, with the same numbers as the check of a claim.

Every requested resource class limits the count, by its free capacity and by the inventory's units; an
anti-affinity group limits it too.
"""

from __future__ import annotations

import numpy as np

from zonesched.model.arrays import Bools, Ints
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import GroupPolicy, ServerGroup


def have_free_slots(hosts: HostView, count: int) -> Bools:
    """Tell for each host whether it takes `count` instances of the view's request."""
    fits: list[Bools] = []
    match hosts.spec.group:
        case ServerGroup(policy=GroupPolicy.ANTI_AFFINITY, max_server_per_host=limit):
            fits.append(hosts.group_instances + count <= limit)
    for resource_class, amount in hosts.spec.resources.items():
        fits += [hosts.have_left(resource_class, amount * count), hosts.admits(resource_class)]
    return hosts.all_of(fits)


def free_slots(hosts: HostView, max_slots: int) -> Ints:
    """Return the number of instances that each host takes, at most `max_slots`.

    Every host of the view must take at least one.
    """
    slots = np.full(len(hosts), float(max_slots))
    match hosts.spec.group:
        case ServerGroup(policy=GroupPolicy.ANTI_AFFINITY, max_server_per_host=limit):
            np.minimum(slots, limit - hosts.group_instances, out=slots)
    for resource_class, amount in hosts.spec.resources.items():
        np.minimum(slots, np.floor(hosts.left(resource_class) / amount), out=slots)
    return slots.astype(np.int64)
