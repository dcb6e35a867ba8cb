"""Filter for hosts that are reserved for certain images."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from zonesched.conf import Conf
from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec


class IsolatedHostsFilter(BaseHostFilter):
    """Passes isolated hosts for isolated images, and other hosts for other images.

    Reads: the options `isolated_images` (ids of images), `isolated_hosts` (names of this zone's hosts) and
    `restrict_isolated_hosts_to_isolated_images`. An isolated image goes to isolated hosts only; where that
    option is false, isolated hosts take any image, and a request without an image goes anywhere.

    Example: with `isolated_images = 342b492c-128f-4a42-8d3a-c5088cf27d13` and `isolated_hosts =
    server1,server2`, instances of this image go to server1 and server2, and nothing else does.
    """

    code = "host_or_image_isolated"
    run_filter_once_per_request = True
    RUN_ON_REBUILD = True

    def __init__(self, images: Iterable[str] = (), hosts: Iterable[str] = (), restrict: bool = True) -> None:
        self._images = frozenset(images)
        self._hosts = frozenset(hosts)
        self._restrict = restrict

    @classmethod
    def from_conf(cls, conf: Conf) -> Self:
        return cls(conf.isolated_images, conf.isolated_hosts, conf.restrict_isolated_hosts_to_isolated_images)

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        is_isolated = host_state.host in self._hosts
        if spec.image.id in self._images:
            return is_isolated
        return not (is_isolated and self._restrict)

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        isolated = hosts.named(self._hosts)
        if spec.image.id in self._images:
            return isolated
        return ~isolated if self._restrict else hosts.everyone
