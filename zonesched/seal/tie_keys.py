"""Tie keys: the order of hosts of equal weight, the same in a tree of zones as in one flat zone.

A tie key travels with each sealed entry. It says nothing about the host: without the zone's secret it is a
random number, also beside the tie keys of other entries of the same host.

    request key   HMAC-SHA256(HKDF-SHA256(secret), caller | request id | request digest), its first 16 bytes
    tie value     AES-128 under the request key of (8 host hash | 8 copies), its first 8 bytes
    tie key       the first 20 bits of the tie value

All integers are little-endian; each field of the HMAC comes after its length in 4 bytes. `copies` counts the
instances of the same request that are virtually on the host already. The caller and the digest of the request
are in the key, so that nobody recognises a host by asking for two flavors under one request id.
"""

from __future__ import annotations

import hmac

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from zonesched.model.arrays import Hashes, Ints
from zonesched.seal.keyring import derive, key_from_hex

_REQUEST_KEY_BYTES = 16
_BLOCK_BYTES = 16
_HALF = np.dtype("<u8")
_CHUNK = 4_096
"""Number of hosts that are encrypted together, in two buffers of 64 KiB."""


class TieSecret:
    """Derives the key of each request from a secret of the zone (64 hex digits)."""

    def __init__(self, secret_hex: str) -> None:
        """Raise ConfigError if the secret is not 64 hex digits."""
        self._key = derive(key_from_hex("host_id_secret", secret_hex), b"", b"zonesched/tie/v1")

    def request_key(self, caller_id: str, request_id: str, request_digest: bytes) -> str:
        """Return the key of one caller's request, 32 hex digits, the same at every repeat of the request."""
        fields = (caller_id.encode("utf-8", "surrogatepass"), request_id.encode("utf-8", "surrogatepass"))
        prefixed = (len(field).to_bytes(4, "little") + field for field in (*fields, request_digest))
        return hmac.digest(self._key, b"".join(prefixed), "sha256")[:_REQUEST_KEY_BYTES].hex()


class RequestTies:
    """The tie values of one request's hosts."""

    def __init__(self, request_key: str) -> None:
        """`request_key`: the key that `TieSecret.request_key` returned."""
        # One block is never encrypted for two purposes and nothing is decrypted: ECB is the bare permutation.
        self._cipher = Cipher(AES(bytes.fromhex(request_key)), ECB()).encryptor()  # nosec B305

    def values(self, hosts: Hashes, copies: Ints) -> Hashes:
        """Return the tie value of each (host hash, copies) pair; one number of copies may stand for all."""
        values = np.empty(len(hosts), dtype=np.uint64)
        blocks = np.empty((min(_CHUNK, len(hosts)), 2), dtype=_HALF)
        encrypted = bytearray(blocks.nbytes + _BLOCK_BYTES - 1)
        for start in range(0, len(hosts), _CHUNK):
            part = slice(start, start + _CHUNK)
            count = len(values[part])
            blocks[:count, 0] = hosts[part]
            blocks[:count, 1] = copies if len(copies) == 1 else copies[part]
            self._cipher.update_into(blocks[:count].data.cast("B"), encrypted)
            values[part] = np.frombuffer(encrypted, _HALF, 2 * count)[::2]
        return values
