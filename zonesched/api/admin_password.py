"""Random passwords in answers, where OpenStack's clients look for one; no driver sets them."""

from __future__ import annotations

import base64

from zonesched.seams import Clock

PASSWORD_BYTES = 9


def random_password(clock: Clock) -> str:
    """Make a password of 12 characters."""
    return base64.urlsafe_b64encode(clock.random_bytes(PASSWORD_BYTES)).decode()
