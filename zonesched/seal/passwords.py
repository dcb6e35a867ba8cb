"""Proof of who a user is: people's passwords by scrypt, generated secrets by SHA-256.

A stored text says which of the two it is, and the cost of a scrypt is in it, so that a later cost leaves the
older texts valid. A generated secret has 256 random bits: no slow hash makes it harder to guess.
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

UNKNOWN_USER = f"scrypt${PERSON.n}${PERSON.r}${PERSON.p}${'00' * _SALT_BYTES}${'00' * _HASH_BYTES}"
"""A stored text that no password fits: where there is no such user, verifying it takes as long."""

UNKNOWN_MACHINE = f"sha256${'00' * 32}"
"""A stored text that no secret fits."""


def hash_password(password: str, clock: Clock, cost: ScryptCost = PERSON) -> str:
    """The text to store of a person's password."""
    salt = clock.random_bytes(_SALT_BYTES)
    return f"scrypt${cost.n}${cost.r}${cost.p}${salt.hex()}${_scrypt(password, salt, cost).hex()}"


def new_secret(clock: Clock) -> str:
    """A secret of 256 random bits, 43 characters of base64url: shown once, to whom it is for."""
    return urlsafe_b64encode(clock.random_bytes(_SECRET_BYTES)).rstrip(b"=").decode("ascii")


def is_secret_form(presented: str) -> bool:
    """Tell whether a text has the form of a generated secret, which no chosen password may have."""
    return _SECRET_FORM.fullmatch(presented) is not None


def hash_secret(secret: str) -> str:
    """The text to store of a generated secret; never of what a person chose."""
    return f"sha256${hashlib.sha256(_utf8(secret)).hexdigest()}"


def verify(presented: str, stored: str) -> bool:
    """Tell whether this is the password or secret of that stored text, in constant time.

    Raises ValueError for a stored text of no known form.
    """
    match stored.split("$"):
        case ["sha256", _]:
            return hmac.compare_digest(hash_secret(presented), stored)
        case ["scrypt", n, r, p, salt_hex, hash_hex]:
            cost = ScryptCost(int(n), int(r), int(p))
            found = _scrypt(presented, bytes.fromhex(salt_hex), cost)
            return hmac.compare_digest(found, bytes.fromhex(hash_hex))
        case _:
            raise ValueError("a stored password is of no known form")


class VerifiedCache:
    """Remembers in this process which password of a user was verified, for `ttl_s` seconds.

    It keeps a keyed hash and no password, under a key that dies with the process. The stored text is part of
    the hash: a password that was changed, also by another process, is verified anew.
    """

    def __init__(self, clock: Clock, ttl_s: float = 60.0) -> None:
        self._clock = clock
        self._ttl_s = ttl_s
        self._key = clock.random_bytes(32)
        self._verified: dict[str, tuple[bytes, float]] = {}

    def knows(self, user_id: str, presented: str, stored: str) -> bool:
        """Tell whether the same three were verified a short while ago; costs no scrypt."""
        _, until = self._verified.get(user_id, (b"", 0.0))
        return self._clock.monotonic() < until and self.has_seen(user_id, presented, stored)

    def has_seen(self, user_id: str, presented: str, stored: str) -> bool:
        """Tell whether the same three were the last ones verified for this user, however long ago."""
        known_tag, _ = self._verified.get(user_id, (b"", 0.0))
        return hmac.compare_digest(self._tag(user_id, presented, stored), known_tag)

    def verify(self, user_id: str, presented: str, stored: str) -> bool:
        """Variant of `verify` without the scrypt where the same three were verified a short while ago."""
        if self.knows(user_id, presented, stored):
            return True
        if not verify(presented, stored):
            return False
        tag = self._tag(user_id, presented, stored)
        self._verified[user_id] = (tag, self._clock.monotonic() + self._ttl_s)
        return True

    def drop(self, user_id: str) -> None:
        """Forget a user: the next call verifies."""
        self._verified.pop(user_id, None)

    def _tag(self, *texts: str) -> bytes:
        fields = [_utf8(text) for text in texts]
        message = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
        return hmac.digest(self._key, message, "sha256")


def _scrypt(password: str, salt: bytes, cost: ScryptCost) -> bytes:
    # scrypt pads what is short with zeros, so that "x" and "x\0" are one password; digests have one length.
    digest = hashlib.sha256(_utf8(password)).digest()
    memory = 128 * cost.r * (cost.n + cost.p + 2)
    return hashlib.scrypt(
        digest, salt=salt, n=cost.n, r=cost.r, p=cost.p, maxmem=2 * memory, dklen=_HASH_BYTES
    )


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
