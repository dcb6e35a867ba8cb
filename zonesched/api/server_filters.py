"""Filters of a list of servers that are compared with the servers as they are shown, as in OpenStack Nova."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zonesched.api.call import Call
from zonesched.api.microversion import NEWEST
from zonesched.api.server_json import server_json
from zonesched.errors import BadRequest
from zonesched.model.caller import Role
from zonesched.model.name_pattern import is_pattern, searching
from zonesched.model.views import ServerView

Condition = Callable[[ServerView, dict[str, Any]], bool]
"""Tells whether a server, and its JSON of the newest version, is asked for."""

EXACT = {
    "key_name": "key_name",
    "availability_zone": "OS-EXT-AZ:availability_zone",
    "pinned_availability_zone": "pinned_availability_zone",
    "asked_description": "description",
    "hostname": "OS-EXT-SRV-ATTR:hostname",
    "access_ip_v4": "accessIPv4",
    "access_ip_v6": "accessIPv6",
    "vm_state": "OS-EXT-STS:vm_state",
    "task_state": "OS-EXT-STS:task_state",
}
"""Members that a filter names exactly."""

BEGINNINGS = {
    "created_at": "created",
    "launched_at": "OS-SRV-USG:launched_at",
    "terminated_at": "OS-SRV-USG:terminated_at",
}
"""Times that a filter names, or begins: `2026-01-31` is that day in UTC."""

OF_ADMIN = {"host": "OS-EXT-SRV-ATTR:host", "node": "OS-EXT-SRV-ATTR:hypervisor_hostname"}
"""The same, of an admin; others' are ignored, as in OpenStack Nova."""


def asked(call: Call) -> Callable[[ServerView], bool] | None:
    """Return a function that tells whether a server is asked for; None where the database knows all filters.

    Raises BadRequest for a name that is no regular expression.
    """
    if call.caller.role is Role.PARENT:
        return None
    conditions = _conditions(call)
    if not conditions:
        return None

    def is_asked(view: ServerView) -> bool:
        shown = server_json(view, call.links, NEWEST)
        return all(condition(view, shown) for condition in conditions)

    return is_asked


def _conditions(call: Call) -> list[Condition]:
    query = call.query
    names = {**EXACT, **(OF_ADMIN if call.caller.role is Role.ADMIN else {})}
    found = [_equals(member, value) for name, member in names.items() if (value := getattr(query, name))]
    found += [_begins(member, text) for name, member in BEGINNINGS.items() if (text := getattr(query, name))]
    if query.auto_disk_config is not None:
        found.append(_equals("OS-DCF:diskConfig", "AUTO" if query.auto_disk_config else "MANUAL"))
    if query.power_state is not None:
        found.append(_equals("OS-EXT-STS:power_state", query.power_state))
    if query.progress is not None:
        found.append(_equals("progress", query.progress))
    if query.launch_index is not None and call.caller.role is Role.ADMIN:
        found.append(lambda view, shown: view.launch_index == query.launch_index)
    if query.config_drive is not None:
        found.append(lambda view, shown: bool(shown["config_drive"]) == query.config_drive)
    if query.locked is not None:
        found.append(lambda view, shown: (view.locked_reason is not None) == query.locked)
    if query.asked_image:
        found.append(lambda view, shown: view.image.id == query.asked_image)
    if is_pattern(query.asked_name):
        matches = _pattern(query.asked_name)
        found.append(lambda view, shown: matches(view.name))
    return [*found, *_tag_conditions(call)]


def _equals(member: str, value: Any) -> Condition:
    return lambda view, shown: shown.get(member) == value


def _begins(member: str, text: str) -> Condition:
    # OpenStack Nova's database has a space between day and time, and no zone.
    beginning = text.replace(" ", "T").removesuffix("Z")
    return lambda view, shown: (shown[member] or "").startswith(beginning)


def _pattern(text: str) -> Callable[[str], bool]:
    try:
        return searching(text)
    except ValueError as error:
        raise BadRequest(f"name: is no regular expression of RE2: {error}.", field="name") from None


def _tag_conditions(call: Call) -> list[Condition]:
    query = call.query
    every, some = _tags(query.tags), _tags(query.tags_any)
    not_every, none = _tags(query.not_tags), _tags(query.not_tags_any)
    found: list[Condition] = []
    if every:
        found.append(lambda view, shown: every <= set(shown["tags"]))
    if some:
        found.append(lambda view, shown: not some.isdisjoint(shown["tags"]))
    if not_every:
        found.append(lambda view, shown: not not_every <= set(shown["tags"]))
    if none:
        found.append(lambda view, shown: none.isdisjoint(shown["tags"]))
    return found


def _tags(text: str) -> frozenset[str]:
    return frozenset(text.split(",")) if text else frozenset()
