"""Encryption of the secrets in a zone's database, and host ids that hide a host from tenants.

A ciphertext is bound to its row and column, so a copy in another row, column, table or zone does not decrypt:

    text     base64url of 1 version | 8 key id | 12 nonce | ciphertext | 16 tag
    AAD      version, key id | label, zone uuid, table, row, column: each after its own length, 4 bytes

Secrets are written rarely (a child that is added, a boot with user_data), so random nonces do not repeat.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from zonesched.errors import Unavailable
from zonesched.seal.entry_form import blob_from_text, blob_to_text
from zonesched.seal.keyring import KEY_ID_BYTES, derive, key_from_hex
from zonesched.seams import Clock

_OPTION = "secret_encryption_key"
_VERSION = b"\x01"
_NONCE_BYTES = 12
_NONCE_AT = len(_VERSION) + KEY_ID_BYTES
_CIPHERTEXT_AT = _NONCE_AT + _NONCE_BYTES
_LABEL = "zonesched/secret"
_HOST_ID_LABEL = "zonesched/host-id"


class SecretBox:
    """Encrypts and decrypts texts of one zone's rows; without a key both raise Unavailable.

    The first key encrypts, all decrypt.
    """

    def __init__(self, keys_hex: Sequence[str], zone_uuid: str, clock: Clock) -> None:
        """Raise ConfigError for a key that is not 64 hex digits."""
        keys = [key_from_hex(_OPTION, key) for key in keys_hex]
        self.can_encrypt = bool(keys)
        self.has_later_keys = len(keys) > 1
        self._ciphers = {_start_of(key): AESGCM(derive(key, b"", b"zonesched/secret/v1")) for key in keys}
        self._first = next(iter(self._ciphers), b"")
        self._zone_uuid = zone_uuid
        self._clock = clock

    def encrypt(self, table: str, row: str, column: str, text: str) -> str:
        """Return the encrypted text for that row and column of the database.

        Raise Unavailable (zone_has_no_secret_key).
        """
        self._check_key()
        nonce = self._clock.random_bytes(_NONCE_BYTES)
        associated = self._associated(self._first, table, row, column)
        ciphertext = self._ciphers[self._first].encrypt(nonce, _utf8(text), associated)
        return blob_to_text(self._first + nonce + ciphertext)

    def decrypt(self, table: str, row: str, column: str, encrypted: str) -> str:
        """Return the text that was encrypted for the same row and column.

        Raise Unavailable: zone_has_no_secret_key, secret_of_other_key (the zone's key was changed), or
        secret_damaged (the ciphertext was changed, or copied from another row or column).
        """
        self._check_key()
        sealed = _bytes_of(encrypted)
        if len(sealed) <= _CIPHERTEXT_AT or sealed[:1] != _VERSION:
            raise _damaged()
        start = sealed[:_NONCE_AT]
        if start not in self._ciphers:
            raise Unavailable(
                f"A stored secret was encrypted under a {_OPTION} that this zone no longer has.",
                code="secret_of_other_key",
            )
        nonce, ciphertext = sealed[_NONCE_AT:_CIPHERTEXT_AT], sealed[_CIPHERTEXT_AT:]
        try:
            associated = self._associated(start, table, row, column)
            plain = self._ciphers[start].decrypt(nonce, ciphertext, associated)
        except InvalidTag:
            raise _damaged() from None
        return plain.decode("utf-8", "surrogatepass")

    @property
    def current_start(self) -> str:
        """The text with which all texts encrypted under the first key begin."""
        return blob_to_text(self._first)

    def is_current(self, text: str) -> bool:
        """Tell whether a text is encrypted under the first key."""
        return self.can_encrypt and _bytes_of(text)[:_NONCE_AT] == self._first

    def _associated(self, start: bytes, table: str, row: str, column: str) -> bytes:
        return start + _fields(_LABEL, self._zone_uuid, table, row, column)

    def _check_key(self) -> None:
        if not self.can_encrypt:
            raise Unavailable(f"This zone has no {_OPTION}.", code="zone_has_no_secret_key")


def host_id_for_tenant(secret_hex: str, project_id: str, host_id: str) -> str:
    """Return a host's id as one project sees it, 56 hex digits: each project gets a different one.

    HMAC-SHA224 under a secret of the zone (64 hex digits), so that nobody can compute the host's own id from
    it. Raise ConfigError if the secret is not 64 hex digits.
    """
    key = key_from_hex("host_id_secret", secret_hex)
    return hmac.digest(key, _fields(_HOST_ID_LABEL, project_id, host_id), "sha224").hex()


def _start_of(key: bytes) -> bytes:
    return _VERSION + derive(key, b"", b"zonesched/secret-key-id/v1", KEY_ID_BYTES)


def _bytes_of(encrypted: str) -> bytes:
    try:
        return blob_from_text(encrypted)
    except ValueError:
        return b""


def _damaged() -> Unavailable:
    return Unavailable("A stored secret is damaged.", code="secret_damaged")


def _fields(*texts: str) -> bytes:
    fields = [_utf8(text) for text in texts]
    return b"".join(len(field).to_bytes(4, "big") + field for field in fields)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
