"""SSH key pairs of users: made, and read from their public half. The private half is never kept."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from zonesched.errors import BadRequest

SEED_BYTES = 32
FIELD = "keypair.public_key"


@dataclass(frozen=True)
class SshKeyPair:
    """A new key pair; both halves in OpenSSH's form."""

    public_key: str
    private_key: str


def make(seed: bytes) -> SshKeyPair:
    """Make an Ed25519 key pair from 32 random bytes."""
    key = Ed25519PrivateKey.from_private_bytes(seed)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return SshKeyPair(public.decode(), private.decode())


def fingerprint(public_key: str) -> str:
    """Return the MD5 fingerprint of a public key in OpenSSH's form, as OpenStack Nova shows it: aa:bb:...

    Raises BadRequest for text that is no such key.
    """
    try:
        serialization.load_ssh_public_key(public_key.encode("ascii"))
        content = base64.b64decode(public_key.split()[1])
    except (ValueError, IndexError, UnsupportedAlgorithm):
        raise BadRequest(f"{FIELD}: must be a public key in OpenSSH's form.", field=FIELD) from None
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))
