"""Filters by the server group that a request's instances join."""

from __future__ import annotations

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import GroupPolicy, RequestSpec, ServerGroup


class ServerGroupAffinityFilter(BaseHostFilter):
    """Passes hosts that have a member of the request's server group, where its policy is `affinity`.

    While no host of this zone has a member, every host passes: the first instance chooses the place. So does
    every host for requests without a group, or of one with another policy.

    Reads: the hint `group`, the policy of the group it names, and its living members on each host. It is
    applied to requests of such a group even where it is not enabled.

    Example: of the group `db` one instance runs on `host-3`. The next one, sent with the hint `group`, goes
    to `host-3` or nowhere.
    """

    code = "outside_server_group"
    run_filter_once_per_request = True

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        if group_policy(spec) is not GroupPolicy.AFFINITY:
            return True
        return not host_state.group_is_here or host_state.group_members > 0

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        if group_policy(spec) is not GroupPolicy.AFFINITY or not hosts.group_is_here:
            return hosts.everyone
        return hosts.group_members > 0


class ServerGroupAntiAffinityFilter(BaseHostFilter):
    """Passes hosts with fewer members of the request's server group than `max_server_per_host`.

    Only where the group's policy is `anti-affinity`; every host passes for other policies and without a
    group.

    Reads: the hint `group`, the policy of the group it names and its rule `max_server_per_host`, which is 1
    unless the group sets it, and its living members on each host; instances of this request count as they are
    placed. It is applied to requests of such a group even where it is not enabled.

    Example: a group with `max_server_per_host` = 2 has two members on `host-3`: the next one goes elsewhere.
    Five instances of a new group with that rule need three hosts.
    """

    code = "server_group_on_host"

    def changes_with_picks(self, spec: RequestSpec) -> bool:
        return group_policy(spec) is GroupPolicy.ANTI_AFFINITY

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        match spec.group:
            case ServerGroup(policy=GroupPolicy.ANTI_AFFINITY, max_server_per_host=maximum):
                return host_state.group_instances < maximum
            case _:
                return True

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        match spec.group:
            case ServerGroup(policy=GroupPolicy.ANTI_AFFINITY, max_server_per_host=maximum):
                return hosts.group_instances < maximum
            case _:
                return hosts.everyone


def group_policy(spec: RequestSpec) -> GroupPolicy | None:
    """Return the policy of the request's server group; None without a group."""
    return spec.group.policy if isinstance(spec.group, ServerGroup) else None
