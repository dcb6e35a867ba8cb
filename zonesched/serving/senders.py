"""Tell the senders of requests apart by their heads and by earlier answers.

Until its `Authorization` header was accepted once, the sender of a request is its address, or for IPv6 its
/64. This is only used to share threads and memory; each request is authenticated in any case.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

from zonesched.model.addresses import network_of
from zonesched.model.sender import Kind, Sender

MAX_KNOWN = 4096


class Senders:
    """Senders whose credentials were accepted recently; thread-safe."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Sender] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, authorization: bytes, address: str) -> Sender:
        """Return the sender of a request with this header (b"" without one) from this address."""
        if authorization:
            known = self._known.get(_key(authorization))
            if known is not None:
                return known
            # Separate from callers without credentials, who could block a first call with valid ones.
            return Sender(Kind.STRANGER, f"{network_of(address)} unproven")
        return Sender(Kind.STRANGER, network_of(address))

    def accept(self, authorization: bytes, sender: Sender) -> None:
        """Remember the sender of this header."""
        key = _key(authorization)
        if self._known.get(key) == sender:
            return
        with self._lock:
            self._known[key] = sender
            while len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)

    def refuse(self, authorization: bytes) -> None:
        """Forget a header that is no longer accepted."""
        with self._lock:
            self._known.pop(_key(authorization), None)


def _key(authorization: bytes) -> bytes:
    return hashlib.blake2b(authorization, digest_size=16).digest()
