"""How many instances of a request a host takes: by the numbers that the claim is checked with.

Every class asked for limits it, by the capacity left and by the inventory's units; so does a server group
whose instances have to be apart.
"""

from __future__ import annotations

import numpy as np

from zonesched.model.arrays import Bools, Ints
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import GroupPolicy, ServerGroup


def have_room(hosts: HostView, count: int) -> Bools:
    """Whether each host takes `count` instances of the view's request."""
    fits: list[Bools] = []
    match hosts.spec.group:
        case ServerGroup(policy=GroupPolicy.ANTI_AFFINITY, max_server_per_host=limit):
            fits.append(hosts.group_instances + count <= limit)
    for resource_class, amount in hosts.spec.resources.items():
        fits += [hosts.have_left(resource_class, amount * count), hosts.admits(resource_class)]
    return hosts.all_of(fits)


def room_for(hosts: HostView, most: int) -> Ints:
    """Instances that each host takes, at most `most`; of hosts that have room for one."""
    room = np.full(len(hosts), float(most))
    match hosts.spec.group:
        case ServerGroup(policy=GroupPolicy.ANTI_AFFINITY, max_server_per_host=limit):
            np.minimum(room, limit - hosts.group_instances, out=room)
    for resource_class, amount in hosts.spec.resources.items():
        np.minimum(room, np.floor(hosts.left(resource_class) / amount), out=room)
    return room.astype(np.int64)
