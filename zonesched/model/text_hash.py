"""The hash that represents a host in the columns of a host table."""

from __future__ import annotations

import hashlib


def text_hash(text: str) -> int:
    """Return 64 well-mixed bits of an id: the first 8 bytes of its BLAKE2b hash."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
