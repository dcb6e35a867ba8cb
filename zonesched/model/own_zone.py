"""Hints on local hosts that only the zone's own admin may use; they never leave the zone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FORCE_HINTS = ("force_hosts", "force_nodes")
"""Hints that allow only the named hosts and skip the enabled filters. A node has its host's name."""

REQUESTED_HINT = "requested_host"
"""Hint that allows only the named host, which the enabled filters are asked about as well."""

IGNORE_HINT = "ignore_hosts"
ADDRESS_HINT, CIDR_HINT = "build_near_host_ip", "cidr"

NAME_HINTS = (*FORCE_HINTS, REQUESTED_HINT, IGNORE_HINT)
"""Hints whose value is a host's name or a list of names."""

OWN_HINTS = (*NAME_HINTS, ADDRESS_HINT, CIDR_HINT)
"""Hints of names and addresses: they are never passed to a child."""


@dataclass(frozen=True)
class AsConfigured:
    """The filters that the zone's configuration enables."""


@dataclass(frozen=True)
class ChosenFilters:
    """Filters, in order, that replace the configured ones for the local hosts."""

    names: tuple[str, ...]


EnabledFilters = AsConfigured | ChosenFilters
AS_CONFIGURED = AsConfigured()


def named_hosts(hints: Mapping[str, Any], hint: str) -> frozenset[str]:
    """Return the names in a hint of NAME_HINTS; empty without the hint."""
    value = hints.get(hint, [])
    return frozenset([value] if isinstance(value, str) else value)


def is_forced(hints: Mapping[str, Any]) -> bool:
    """Tell whether the request names the hosts it may use."""
    return any(hint in hints for hint in FORCE_HINTS)


def keeps_to_own_hosts(hints: Mapping[str, Any]) -> bool:
    """Tell whether the request stays in this zone, since its hints name hosts or addresses of this zone."""
    return is_forced(hints) or REQUESTED_HINT in hints or ADDRESS_HINT in hints


def for_others(hints: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hints that may leave the zone."""
    return {hint: value for hint, value in hints.items() if hint not in OWN_HINTS}


def for_next_place(hints: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hints that hold beyond the boot: hosts that an admin named for it do not."""
    return {hint: value for hint, value in hints.items() if hint not in (*FORCE_HINTS, REQUESTED_HINT)}
