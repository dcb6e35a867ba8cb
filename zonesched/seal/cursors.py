"""Places in a list of changes, as one caller is told them: opaque, of one length, good for no other caller.

In the clear they would tell how many transactions the zone has made, whoever for.

    text      base64url of AES-SIV(8 number | 36 uuid or zeros | 16 epoch or zeros), bound to the caller

AES-SIV needs no nonce: the same place is told by the same text, and says nothing else.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from zonesched.seal.entry_form import blob_from_text, blob_to_text
from zonesched.seal.keyring import derive, key_from_hex

_PLACE = struct.Struct(">Q36s16s")
_KEY_BYTES = 64
_TAG_BYTES = 16


class Cursor(NamedTuple):
    """A place after the change of this number and this uuid; `epoch` (32 hex digits) says whose number it is.

    The beginning has the number 0, and "" for both.
    """

    number: int = 0
    uuid: str = ""
    epoch: str = ""


class CursorBox:
    """Makes and reads the cursors of one zone, under its host id secret (64 hex digits)."""

    def __init__(self, secret_hex: str) -> None:
        """Raises ConfigError for another form of secret."""
        key = key_from_hex("host_id_secret", secret_hex)
        self._cipher = AESSIV(derive(key, b"", b"zonesched/cursor/v1", _KEY_BYTES))

    def write(self, caller_id: str, cursor: Cursor) -> str:
        """The text of a place; 102 characters."""
        place = _PLACE.pack(cursor.number, cursor.uuid.encode("ascii"), bytes.fromhex(cursor.epoch))
        return blob_to_text(self._cipher.encrypt(place, [caller_id.encode()]))

    def read(self, caller_id: str, unverified: str) -> Cursor:
        """The place of a text. Raises ValueError for what was not written here for this caller."""
        sealed = blob_from_text(unverified)
        if len(sealed) != _TAG_BYTES + _PLACE.size:
            raise ValueError("no cursor has this length")
        try:
            place = self._cipher.decrypt(sealed, [caller_id.encode()])
        except InvalidTag:
            raise ValueError("the cursor was not written here for this caller") from None
        number, uuid, epoch = _PLACE.unpack(place)
        return Cursor(number, uuid.rstrip(b"\0").decode("ascii"), epoch.hex() if any(epoch) else "")
