"""The TLS of a zone's own process, from its options."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable

from zonesched.conf import Conf
from zonesched.errors import ConfigError
from zonesched.seams import SystemClock
from zonesched.serving.connection import ConnectionSocket
from zonesched.serving.tls_socket import TlsConnectionSocket


def is_served(conf: Conf) -> bool:
    """Tell whether the zone serves https itself."""
    return bool(conf.tls_certificate_file)


def socket_maker(conf: Conf) -> Callable[[socket.socket, SystemClock], ConnectionSocket]:
    """Return what makes the sockets of accepted connections. Raises ConfigError as `server_context` does."""
    if not is_served(conf):
        return ConnectionSocket
    context = server_context(conf)
    return lambda accepted, clock: TlsConnectionSocket(accepted, clock, context)


def server_context(conf: Conf) -> ssl.SSLContext:
    """Read certificate, key and the authorities of clients. Raises ConfigError, which names the option."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        # A key with a passphrase is refused: nobody could type it at each start.
        context.load_cert_chain(conf.tls_certificate_file, conf.tls_key_file or None, password="")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"Option tls_certificate_file: {conf.tls_certificate_file} and its key cannot be used: {error}."
            " Accepted: PEM files of a certificate, with those that sign it, and of its key without a"
            " passphrase.",
            field="tls_certificate_file",
        ) from error
    if conf.tls_client_ca_file:
        try:
            context.load_verify_locations(conf.tls_client_ca_file)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"Option tls_client_ca_file: {conf.tls_client_ca_file} cannot be used: {error}. Accepted: a"
                " PEM file of CA certificates.",
                field="tls_client_ca_file",
            ) from error
        # Only parents need one, and the handshake does not know yet who calls.
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
