"""TLS on a connection of the loop: handshake, records and alerts pass through memory and never block.

    bytes of the network -> records in -> TLS -> plain bytes of requests
    bytes of the network <- unsent     <- TLS <- plain bytes of answers

The handshake is a part of reading: a caller that does not finish it waits, like one that does not finish its
request, without a thread and within the same time limit.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import Any

from zonesched.seams import SystemClock
from zonesched.serving.connection import ConnectionSocket

RECORDS_BYTES = 64 * 1024
"""Bytes that are read from the network at one time."""


class TlsConnectionSocket(ConnectionSocket):
    """A ConnectionSocket whose bytes are plain on this side and encrypted on the other.

    `has_client_certificate`: the caller has shown a certificate, and the handshake has verified it.
    """

    is_secure = True

    def __init__(self, accepted: socket.socket, clock: SystemClock, context: ssl.SSLContext) -> None:
        super().__init__(accepted, clock)
        self._records_in, self._records_out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._records_in, self._records_out, server_side=True)
        self._is_open = False

    def receive(self, *args: Any) -> bytes:
        """Return all plain bytes that have arrived, b"" at the end; `args` are not looked at.

        All of them: the loop waits for the network, which may bring nothing more. Raises BlockingIOError
        where there are none yet, and OSError for what is not TLS, or an unwanted certificate.
        """
        arrived = super().receive(RECORDS_BYTES)
        if not arrived:
            return b""
        self._records_in.write(arrived)
        try:
            return self._decrypt()
        finally:
            # Answers of the handshake, also the alert of one that fails.
            self._queue_records()
            self.flush()

    def _decrypt(self) -> bytes:
        try:
            if not self._is_open:
                self._tls.do_handshake()
                self._is_open = True
                self.has_client_certificate = bool(self._tls.getpeercert())
            return self._read_all()
        except ssl.SSLWantReadError:
            raise BlockingIOError from None

    def _read_all(self) -> bytes:
        pieces: list[bytes] = []
        try:
            while piece := self._tls.read(RECORDS_BYTES):
                pieces.append(piece)
        except ssl.SSLWantReadError:
            if not pieces:
                raise
        except ssl.SSLZeroReturnError:
            # The caller has ended the session, maybe after a last request.
            pass
        return b"".join(pieces)

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Encrypt bytes, and buffer them for `flush`. Raises OSError before the end of the handshake."""
        if not self._is_open:
            raise OSError("the handshake has not ended")
        self._tls.write(data)
        self._queue_records()

    def shutdown(self, how: int) -> None:
        """End the session, then this half of the connection."""
        if self._is_open:
            # It also asks for the caller's own end, which nobody waits for.
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._queue_records()
            self.flush()
        super().shutdown(how)

    def _queue_records(self) -> None:
        if self._records_out.pending:
            self._unsent.append(memoryview(self._records_out.read()))
