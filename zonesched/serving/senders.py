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

MAX_KNOWN_OF_ONE = 8
"""Max headers of one sender. The same credentials have headers without number: base64 is read leniently."""


class Senders:
    """Senders whose credentials were accepted recently; thread-safe."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Sender] = OrderedDict()
        self._keys_of: dict[Sender, list[bytes]] = {}
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
            self._forget(key)
            self._known[key] = sender
            keys = self._keys_of.setdefault(sender, [])
            keys.append(key)
            if len(keys) > MAX_KNOWN_OF_ONE:
                self._forget(keys[0])
            if len(self._known) > MAX_KNOWN:
                self._forget(next(iter(self._known)))

    def refuse(self, authorization: bytes) -> None:
        """Forget a header that is no longer accepted."""
        with self._lock:
            self._forget(_key(authorization))

    def _forget(self, key: bytes) -> None:
        sender = self._known.pop(key, None)
        if sender is None:
            return
        keys = self._keys_of[sender]
        keys.remove(key)
        if not keys:
            del self._keys_of[sender]


def _key(authorization: bytes) -> bytes:
    return hashlib.blake2b(authorization, digest_size=16).digest()
