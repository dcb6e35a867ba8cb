"""Stored hashes of credentials: scrypt for people's passwords, SHA-256 for generated secrets.

A stored text names its algorithm and, for scrypt, the cost, so a later change of the cost leaves older texts
valid. A generated secret has 256 random bits: a slow hash would not make it harder to guess.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass

from zonesched.seams import Clock

_SALT_BYTES = 16
_HASH_BYTES = 32
_SECRET_BYTES = 32
_SECRET_FORM = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class ScryptCost:
    """N, r and p of RFC 7914; memory is 128 * n * r bytes, time grows with n * r * p."""

    n: int = 2**14
    r: int = 8
    p: int = 5


PERSON = ScryptCost()

UNKNOWN_MACHINE = f"sha256${'00' * 32}"
"""A stored text that no secret matches."""


def hash_password(password: str, clock: Clock, cost: ScryptCost) -> str:
    """Return the text to store for a person's password."""
    salt = clock.random_bytes(_SALT_BYTES)
    return f"scrypt${cost.n}${cost.r}${cost.p}${salt.hex()}${_scrypt(password, salt, cost).hex()}"


def unknown_user(cost: ScryptCost) -> str:
    """Return a stored text that no password matches, so that an unknown user costs as much as any other."""
    return f"scrypt${cost.n}${cost.r}${cost.p}${'00' * _SALT_BYTES}${'00' * _HASH_BYTES}"


def new_secret(clock: Clock) -> str:
    """Return a secret of 256 random bits, 43 characters of base64url, to be shown once to its owner."""
    return urlsafe_b64encode(clock.random_bytes(_SECRET_BYTES)).rstrip(b"=").decode("ascii")


def is_secret_form(presented: str) -> bool:
    """Tell whether a text has the form of a generated secret, which no chosen password may have."""
    return _SECRET_FORM.fullmatch(presented) is not None


def hash_secret(secret: str) -> str:
    """Return the text to store for a generated secret; never use it for a chosen password."""
    return f"sha256${hashlib.sha256(_utf8(secret)).hexdigest()}"


def verify(presented: str, stored: str) -> bool:
    """Tell in constant time whether the presented password or secret matches the stored text.

    Raise ValueError for a stored text of unknown form.
    """
    match stored.split("$"):
        case ["sha256", _]:
            return hmac.compare_digest(hash_secret(presented), stored)
        case ["scrypt", n, r, p, salt_hex, hash_hex]:
            cost = ScryptCost(int(n), int(r), int(p))
            found = _scrypt(presented, bytes.fromhex(salt_hex), cost)
            return hmac.compare_digest(found, bytes.fromhex(hash_hex))
        case _:
            raise ValueError("a stored password has an unknown form")


class VerifiedCache:
    """Caches for `ttl_s` seconds, in this process, which password of each user was verified.

    It keeps a keyed hash and no password; the key exists only in this process. The hash covers the stored
    text, so a password that was changed, also by another process, is verified again.
    """

    def __init__(self, clock: Clock, ttl_s: float = 60.0) -> None:
        self._clock = clock
        self._ttl_s = ttl_s
        self._key = clock.random_bytes(32)
        self._verified: dict[str, tuple[bytes, float]] = {}

    def knows(self, user_id: str, presented: str, stored: str) -> bool:
        """Tell, without scrypt, whether the same three values were verified within `ttl_s` seconds."""
        _, until = self._verified.get(user_id, (b"", 0.0))
        return self._clock.monotonic() < until and self.has_seen(user_id, presented, stored)

    def has_seen(self, user_id: str, presented: str, stored: str) -> bool:
        """Tell whether the same three values were the last verified for this user, however long ago."""
        known_tag, _ = self._verified.get(user_id, (b"", 0.0))
        return hmac.compare_digest(self._tag(user_id, presented, stored), known_tag)

    def verify(self, user_id: str, presented: str, stored: str) -> bool:
        """Variant of `verify` that skips scrypt if the same three values were verified recently."""
        if self.knows(user_id, presented, stored):
            return True
        if not verify(presented, stored):
            return False
        tag = self._tag(user_id, presented, stored)
        self._verified[user_id] = (tag, self._clock.monotonic() + self._ttl_s)
        return True

    def drop(self, user_id: str) -> None:
        """Forget a user, so that the next call verifies the password."""
        self._verified.pop(user_id, None)

    def _tag(self, *texts: str) -> bytes:
        fields = [_utf8(text) for text in texts]
        message = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
        return hmac.digest(self._key, message, "sha256")


def _scrypt(password: str, salt: bytes, cost: ScryptCost) -> bytes:
    # scrypt pads short passwords with zeros, which makes "x" and "x\0" equal; digests have one length.
    digest = hashlib.sha256(_utf8(password)).digest()
    memory = 128 * cost.r * (cost.n + cost.p + 2)
    return hashlib.scrypt(
        digest, salt=salt, n=cost.n, r=cost.r, p=cost.p, maxmem=2 * memory, dklen=_HASH_BYTES
    )


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
