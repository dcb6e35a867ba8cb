"""Host name of a server's guest: made of the server's first name where its owner gives none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HOSTNAME = "hostname"
"""Member of an instance's passthrough: the host name that its owner gave, or that a change of name kept."""

LONGEST = 63


def hostname_of(name: str, passthrough: Mapping[str, Any]) -> str:
    """Return the host name of an instance."""
    return str(passthrough.get(HOSTNAME) or _made_of(name))


def with_hostname_kept(name: str, new_name: str, passthrough: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the passthrough of an instance that is renamed: its host name stays, as in OpenStack Nova."""
    if new_name == name or passthrough.get(HOSTNAME):
        return passthrough
    return {**passthrough, HOSTNAME: _made_of(name)}


def _made_of(name: str) -> str:
    """Make a host name of a server's name, as OpenStack Nova does: of a-z, 0-9 and hyphens."""
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return words[:LONGEST].rstrip("-") or "server"
