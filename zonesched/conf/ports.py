"""Check that a zone can listen on its address and port."""

from __future__ import annotations

import errno
import socket

from zonesched.errors import ConfigError


def check_port_is_free(host: str, port: int, other: str) -> None:
    """Raise ConfigError if nobody can listen on `port` of `host`.

    `other` names the setting that chooses another port, for the error.
    """
    if not is_port_free(host, port):
        raise ConfigError(
            f"Port {port} of {host} is in use: stop what listens there, or choose another with {other}."
        )


def is_port_free(host: str, port: int) -> bool:
    """Tell whether nobody listens on `port` of `host`. Raise ConfigError if nobody could."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise _cannot_listen(host, port, error.strerror) from error
        except UnicodeError as error:
            raise _cannot_listen(host, port, "it is no name of a host") from error
    return True


def _cannot_listen(host: str, port: int, reason: str | None) -> ConfigError:
    return ConfigError(f"Cannot listen on {host} port {port}: {reason}.", field="bind_host")
