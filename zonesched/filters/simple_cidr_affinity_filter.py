"""Filter for hosts in the network that an admin requests."""

from __future__ import annotations

import ipaddress
import re

from zonesched.errors import BadRequest
from zonesched.filters.contract import BaseHostFilter
from zonesched.model.addresses import Network, is_inside
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.own_zone import ADDRESS_HINT, CIDR_HINT
from zonesched.model.request_spec import RequestSpec

DEFAULT_PREFIX_LENGTH = 24
PREFIX_LENGTH = re.compile("[0-9]{1,3}")


class SimpleCIDRAffinityFilter(BaseHostFilter):
    """Passes hosts in the network around the address that the request's hint names; without the hint, all.

    Reads: the hints `build_near_host_ip` (an IPv4 or IPv6 address) and `cidr` (the length of the network's
    prefix, `/24` or `24`; by default `/24` for both IPv4 and IPv6). A host without a known IP address is in
    no network. A request with these hints adds this filter to the enabled ones. Only an admin of this zone
    may use them, and they restrict the request to local hosts: no child zone is asked.

    Example: `"os:scheduler_hints": {"build_near_host_ip": "192.168.1.1", "cidr": "/24"}`.
    """

    code = "host_not_near"
    run_filter_once_per_request = True

    def check(self, spec: RequestSpec) -> None:
        self._network(spec)

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        network = self._network(spec)
        return network is None or is_inside(host_state.host_ip, network)

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        network = self._network(spec)
        return hosts.everyone if network is None else hosts.inside(network)

    @staticmethod
    def _network(spec: RequestSpec) -> Network | None:
        """Raises BadRequest (hint_invalid) that names the hint."""
        if ADDRESS_HINT not in spec.hints:
            if CIDR_HINT in spec.hints:
                raise _refused(CIDR_HINT, f"needs the hint {ADDRESS_HINT} beside it")
            return None
        given, length = spec.hints[ADDRESS_HINT], spec.hints.get(CIDR_HINT)
        try:
            address = ipaddress.ip_address(given if isinstance(given, str) else "")
        except ValueError:
            raise _refused(ADDRESS_HINT, "must be an IPv4 or IPv6 address such as 192.168.1.1") from None
        bits = str(length).removeprefix("/") if length is not None else str(DEFAULT_PREFIX_LENGTH)
        if not (PREFIX_LENGTH.fullmatch(bits) and int(bits) <= address.max_prefixlen):
            raise _refused(CIDR_HINT, f"must be from /0 to /{address.max_prefixlen}")
        return ipaddress.ip_network(f"{address}/{bits}", strict=False)


def _refused(hint: str, why: str) -> BadRequest:
    return BadRequest(f"hints.{hint}: {why}.", code="hint_invalid", field=f"hints.{hint}")
