"""A front: HAProxy, which gives the connections of a zone to its processes in turn.

It limits nothing and reads neither HTTP nor TLS, so every defence that holds is the zone's own.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Sequence

from benchmarks.zone_trees.processes import StartFailed


def haproxy() -> str:
    """The path of the program. Raises StartFailed."""
    # Debian has it where only root's PATH leads.
    found = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if found is None:
        raise StartFailed("HAProxy is not installed: install the package haproxy")
    return found


def listens(port: int) -> bool:
    """Tell whether a front takes connections."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def configuration(port: int, backends: Sequence[int]) -> str:
    """A configuration that gives the connections of one port to the ports of `backends` in turn."""
    servers = [f"    server process-{number} 127.0.0.1:{backend}" for number, backend in enumerate(backends)]
    return "\n".join(
        [
            "defaults",
            "    mode tcp",
            "    timeout connect 5s",
            "    timeout client 1h",
            "    timeout server 1h",
            "listen zone",
            f"    bind 127.0.0.1:{port}",
            "    balance roundrobin",
            *servers,
            "",
        ]
    )
