"""Cursors in a list of changes: opaque texts of one length, each valid for one caller only.

In the clear they would reveal how many transactions the zone has made for all its callers.

    text    base64url of AES-SIV(8 number | 8 until | 36 uuid or 0s | 16 epoch or 0s), bound to the caller

AES-SIV needs no nonce: the same cursor has the same text, which reveals nothing but equality.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from zonesched.seal.entry_form import blob_from_text, blob_to_text
from zonesched.seal.keyring import derive, key_from_hex

_PLACE = struct.Struct(">QQ36s16s")
_KEY_BYTES = 64
_TAG_BYTES = 16


class Cursor(NamedTuple):
    """The position after all changes up to `number`, and those up to `until` of instances up to `uuid`.

    `until` is `number` and `uuid` "" where no window of changes is half read. `epoch` (32 hex digits) scopes
    `until`; at the beginning of the list it is "", and both numbers are 0.
    """

    number: int = 0
    until: int = 0
    uuid: str = ""
    epoch: str = ""


class CursorBox:
    """Makes and reads the cursors of one zone, under its host id secret (64 hex digits)."""

    def __init__(self, secret_hex: str) -> None:
        """Raise ConfigError if the secret is not 64 hex digits."""
        key = key_from_hex("host_id_secret", secret_hex)
        self._cipher = AESSIV(derive(key, b"", b"zonesched/cursor/v1", _KEY_BYTES))

    def write(self, caller_id: str, cursor: Cursor) -> str:
        """Return the text of a cursor, 112 characters."""
        place = _PLACE.pack(
            cursor.number, cursor.until, cursor.uuid.encode("ascii"), bytes.fromhex(cursor.epoch)
        )
        return blob_to_text(self._cipher.encrypt(place, [caller_id.encode()]))

    def read(self, caller_id: str, unverified: str) -> Cursor:
        """Return the cursor of a text. Raise ValueError unless this zone wrote it for this caller."""
        sealed = blob_from_text(unverified)
        if len(sealed) != _TAG_BYTES + _PLACE.size:
            raise ValueError("no cursor has this length")
        try:
            place = self._cipher.decrypt(sealed, [caller_id.encode()])
        except InvalidTag:
            raise ValueError("the cursor was not written here for this caller") from None
        number, until, uuid, epoch = _PLACE.unpack(place)
        return Cursor(number, until, uuid.rstrip(b"\0").decode("ascii"), epoch.hex() if any(epoch) else "")
