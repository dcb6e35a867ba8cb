"""Local hosts that a boot names as OpenStack Nova's API does: in its availability zone, or by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zonesched.errors import BadRequest, Forbidden
from zonesched.model.own_zone import FORCE_HINTS, REQUESTED_HINT

ZONE, HOST, NODE = "server.availability_zone", "server.host", "server.hypervisor_hostname"
"""Members of a body that may name a host. A host has one node, of the same name."""


@dataclass(frozen=True)
class Destination:
    """An availability zone, "" for any, and the hosts of this zone that a boot is limited to, as hints.

    `named_hosts`: the hosts by the member that names them.
    """

    availability_zone: str
    hints: Mapping[str, str] = field(default_factory=dict)
    named_hosts: Mapping[str, str] = field(default_factory=dict)


def destination(zone_text: str, host: str, node: str, *, by_admin: bool) -> Destination:
    """Read an availability zone, `zone:host`, `zone:host:node` or `zone::node`; and a host and a node, or "".

    The enabled filters are not asked about a host in the availability zone, as in OpenStack Nova. Raises
    Forbidden `host_refused` unless an admin names a host, and BadRequest.
    """
    zone, *names = zone_text.split(":")
    forced = {hint: name for hint, name in zip(FORCE_HINTS, names, strict=False) if name}
    if names and not (len(names) <= len(FORCE_HINTS) and len(set(forced.values())) == 1):
        message = f"{ZONE}: must be zone, zone:host or zone:host:node; a node has its host's name."
        raise BadRequest(message, field=ZONE)
    requested = {member: name for member, name in ((HOST, host), (NODE, node)) if name}
    if (names or requested) and not by_admin:
        member = ZONE if names else next(iter(requested))
        raise Forbidden(
            f"{member}: only this zone's admin names its hosts.", code="host_refused", field=member
        )
    if names and requested:
        raise BadRequest(f"{HOST}: the availability zone names a host as well.", field=HOST)
    if host and node and host != node:
        raise BadRequest(f"{NODE}: must be {host!r}, since a node has the name of its host.", field=NODE)
    if requested:
        return Destination(zone, {REQUESTED_HINT: host or node}, requested)
    if forced:
        return Destination(zone, forced, {ZONE: max(names)})
    return Destination(zone)
