"""Key pairs of this zone's users."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Keypair:
    """Public half of a user's SSH key pair; `name` is unique among the user's."""

    user_id: str
    name: str
    public_key: str
    fingerprint: str
    created_at: float

    @property
    def number(self) -> int:
        """Return its id in OpenStack's API, a whole number by which nothing names it."""
        digest = hashlib.sha256(f"{self.user_id}\n{self.name}".encode()).digest()
        return int.from_bytes(digest[:4]) // 2
