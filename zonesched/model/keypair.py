"""Key pairs of this zone's users."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Keypair:
    """Public half of a user's SSH key pair; `name` is unique among the user's."""

    user_id: str
    name: str
    public_key: str
    fingerprint: str
    created_at: float
