"""Count the instances of a request that a host takes, by the numbers that the claim is checked with.

Every class asked for limits the count, by the capacity left and by the inventory's units; so does a server
group whose instances have to be apart.
"""

from __future__ import annotations

import numpy as np

from zonesched.model.arrays import Bools, Ints
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import GroupPolicy, ServerGroup


def have_free_slots(hosts: HostView, count: int) -> Bools:
    """Return whether each host takes `count` instances of the view's request."""
    fits: list[Bools] = []
    match hosts.spec.group:
        case ServerGroup(policy=GroupPolicy.ANTI_AFFINITY, max_server_per_host=limit):
            fits.append(hosts.group_instances + count <= limit)
    for resource_class, amount in hosts.spec.resources.items():
        fits += [hosts.have_left(resource_class, amount * count), hosts.admits(resource_class)]
    return hosts.all_of(fits)


def free_slots(hosts: HostView, max_slots: int) -> Ints:
    """Return how many instances each host takes, at most `max_slots`, for hosts that take at least one."""
    slots = np.full(len(hosts), float(max_slots))
    match hosts.spec.group:
        case ServerGroup(policy=GroupPolicy.ANTI_AFFINITY, max_server_per_host=limit):
            np.minimum(slots, limit - hosts.group_instances, out=slots)
    for resource_class, amount in hosts.spec.resources.items():
        np.minimum(slots, np.floor(hosts.left(resource_class) / amount), out=slots)
    return slots.astype(np.int64)
