"""Check that the port of a zone is free."""

from __future__ import annotations

import errno
import socket

from zonesched.errors import ConfigError


def check_port_is_free(host: str, port: int, other: str) -> None:
    """Raise ConfigError if nobody can listen on `port` of `host`.

    `other` names the setting that chooses another port, for the error.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise ConfigError(f"Cannot listen on {host} port {port}: {error.strerror}.") from error
            raise ConfigError(
                f"Port {port} of {host} is in use: stop what listens there, or choose another with {other}."
            ) from error
