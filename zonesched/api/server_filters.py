"""Filters of a list of servers that are compared with the servers as they are shown, as in OpenStack Nova."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from zonesched.api.call import Call
from zonesched.api.server_json import details_json, filtered_json
from zonesched.errors import BadRequest
from zonesched.model.caller import Role
from zonesched.model.name_pattern import is_pattern, searching
from zonesched.model.server_hostname import hostname_of
from zonesched.model.server_query import AskedStates
from zonesched.model.views import ServerView
from zonesched.services.owners.servers import Search

HOSTNAME = "OS-EXT-SRV-ATTR:hostname"
Shown = Mapping[str, Any]
OfName = Callable[[str], bool]
OfMembers = Callable[[Shown], bool]
OfView = Callable[[ServerView], bool]

OF_DETAILS = {
    "key_name": "key_name",
    "asked_description": "description",
    "hostname": HOSTNAME,
    "access_ip_v4": "accessIPv4",
    "access_ip_v6": "accessIPv6",
}
"""Members that a filter names exactly, and that a server has from its name and its passthrough alone."""

EXACT = {
    "availability_zone": "OS-EXT-AZ:availability_zone",
    "pinned_availability_zone": "pinned_availability_zone",
    "vm_state": "OS-EXT-STS:vm_state",
    "task_state": "OS-EXT-STS:task_state",
}
"""Other members that a filter names exactly."""

BEGINNINGS = {
    "created_at": "created",
    "launched_at": "OS-SRV-USG:launched_at",
    "terminated_at": "OS-SRV-USG:terminated_at",
}
"""Times that a filter names, or begins: `2026-01-31` is that day in UTC."""

OF_ADMIN = {"host": "OS-EXT-SRV-ATTR:host", "node": "OS-EXT-SRV-ATTR:hypervisor_hostname"}
"""The same, of an admin; others' are ignored, as in OpenStack Nova."""


def asked(call: Call) -> Search | None:
    """Return the filters that the database does not know; None where it knows all of them.

    Raises BadRequest for a name that is no regular expression.
    """
    query = call.query
    names = [_pattern(query.asked_name)] if is_pattern(query.asked_name) else []
    of_details, of_view, of_shown = _of_details(call), _of_view(call), _of_shown(call)
    if not (names or of_details or of_view or of_shown):
        return None

    def by_details(name: str, passthrough: Mapping[str, Any]) -> bool:
        if not all(matches(name) for matches in names):
            return False
        if not of_details:
            return True
        details = {**details_json(passthrough), HOSTNAME: hostname_of(name, passthrough)}
        return all(condition(details) for condition in of_details)

    def by_view(view: ServerView) -> bool:
        if not all(condition(view) for condition in of_view):
            return False
        if not of_shown:
            return True
        shown = filtered_json(view)
        return all(condition(shown) for condition in of_shown)

    return Search(by_details, by_view, AskedStates(query.vm_state, query.task_state, query.power_state))


def _of_details(call: Call) -> list[OfMembers]:
    query = call.query
    found = [_equals(member, value) for name, member in OF_DETAILS.items() if (value := getattr(query, name))]
    if query.auto_disk_config is not None:
        found.append(_equals("OS-DCF:diskConfig", "AUTO" if query.auto_disk_config else "MANUAL"))
    if query.config_drive is not None:
        found.append(lambda shown: bool(shown["config_drive"]) == query.config_drive)
    return [*found, *_tag_conditions(call)]


def _of_view(call: Call) -> list[OfView]:
    query = call.query
    found: list[OfView] = []
    if query.launch_index is not None and call.caller.role is Role.ADMIN:
        found.append(lambda view: view.launch_index == query.launch_index)
    if query.asked_image:
        found.append(lambda view: view.image.id == query.asked_image)
    return found


def _of_shown(call: Call) -> list[OfMembers]:
    query = call.query
    names = {**EXACT, **(OF_ADMIN if call.caller.role is Role.ADMIN else {})}
    found = [_equals(member, value) for name, member in names.items() if (value := getattr(query, name))]
    found += [_begins(member, text) for name, member in BEGINNINGS.items() if (text := getattr(query, name))]
    if query.power_state is not None:
        found.append(_equals("OS-EXT-STS:power_state", query.power_state))
    if query.progress is not None:
        found.append(_equals("progress", query.progress))
    return found


def _equals(member: str, value: Any) -> OfMembers:
    return lambda shown: shown.get(member) == value


def _begins(member: str, text: str) -> OfMembers:
    # OpenStack Nova's database has a space between day and time, and no zone.
    beginning = text.replace(" ", "T").removesuffix("Z")
    return lambda shown: (shown[member] or "").startswith(beginning)


def _pattern(text: str) -> OfName:
    try:
        return searching(text)
    except ValueError as error:
        raise BadRequest(f"name: must be a regular expression of RE2: {error}.", field="name") from None


def _tag_conditions(call: Call) -> list[OfMembers]:
    query = call.query
    every, some = _tags(query.tags), _tags(query.tags_any)
    not_every, none = _tags(query.not_tags), _tags(query.not_tags_any)
    found: list[OfMembers] = []
    if every:
        found.append(lambda shown: every <= set(shown["tags"]))
    if some:
        found.append(lambda shown: not some.isdisjoint(shown["tags"]))
    if not_every:
        found.append(lambda shown: not not_every <= set(shown["tags"]))
    if none:
        found.append(lambda shown: none.isdisjoint(shown["tags"]))
    return found


def _tags(text: str) -> frozenset[str]:
    return frozenset(text.split(",")) if text else frozenset()
