"""Sealing of a zone's entries: only that zone can open them, and only for the caller they were sealed for.

The zone that seals is the zone that opens, so its key never leaves it and no two zones' clocks are compared.
A blob is a header in the clear, then AES-256-GCM over times and content:

    header   1 version | 8 key id | 32 salt | 4 number   (big-endian)
    inside   8 issued | 8 expires | content              (times in ms; the zone's clock stays in the zone)
    subkey   HKDF-SHA256(key of that id, salt): one per answer
    nonce    8 zeros | number: an answer counts its entries, so no nonce repeats under a subkey
    AAD      label, zone, caller, project, request digest, length of the blob, header up to the number,
             number: each after its own length, 4 bytes
    blob     header | ciphertext | 16 tag

Zone, caller, project and digest are not in the blob: the opener rebuilds them from its own context. Whether
an entry was used before is decided by the claim, not here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from zonesched.errors import BlobRefused
from zonesched.model.build_plan import EntryPlace
from zonesched.seal.entry_form import (
    MAX_BLOB_BYTES,
    MIN_BLOB_BYTES,
    blob_from_text,
    blob_size_for,
    blob_to_text,
    pack_content,
    unpack_content,
)
from zonesched.seal.keyring import KEY_ID_BYTES, Keyring
from zonesched.seams import Clock

__all__ = [
    "Bound",
    "Envelope",
    "OpenedEntry",
    "blob_from_text",
    "blob_size_for",
]

VERSION = 1
CLOCK_STEP_MS = 5_000
"""Milliseconds by which the clocks of one zone's machines may differ; entries may be issued so far ahead."""

_LABEL = b"zonesched/entry"
_SALT_BYTES = 32
_ANSWER = struct.Struct(f">B{KEY_ID_BYTES}s{_SALT_BYTES}s")
_TIMES = struct.Struct(">QQ")
_NUMBER_BYTES = 4
_NONCE_START = bytes(12 - _NUMBER_BYTES)
_HEADER_BYTES = _ANSWER.size + _NUMBER_BYTES
_TAG_BYTES = 16


@dataclass(frozen=True)
class Bound:
    """Context that an entry is bound to: it opens only with the same four values it was sealed with."""

    zone_uuid: str
    caller_id: str
    project_id: str
    request_digest: bytes


class OpenedEntry(NamedTuple):
    """An entry that this zone sealed for this caller and request, not expired at the time of opening.

    `key` is a text of 72 characters that no other entry has, for single use; `expires_at` is UTC epoch
    seconds.
    """

    place: EntryPlace
    key: str
    expires_at: float


class Envelope:
    """Seals and opens the entries of one zone; every blob that it seals has `blob_size` bytes."""

    def __init__(self, keyring: Keyring, clock: Clock, *, ttl_s: float, blob_size: int) -> None:
        if not MIN_BLOB_BYTES <= blob_size <= MAX_BLOB_BYTES:
            raise ValueError(f"blob_size is {blob_size}; it must be {MIN_BLOB_BYTES} to {MAX_BLOB_BYTES}")
        self._keyring = keyring
        self._clock = clock
        self.ttl_s = ttl_s
        self.blob_size = blob_size

    def seal(self, bound: Bound, places: Sequence[EntryPlace], expires_in_s: float = math.inf) -> list[str]:
        """Seal one answer's entries, in order; they expire after `expires_in_s` seconds, at most `ttl_s`.

        Raise Unavailable (zone_has_no_key), and ValueError for an id that is no UUID or a child's blob that
        is not canonical or too long.
        """
        salt = self._clock.random_bytes(_SALT_BYTES)
        encrypt = AESGCM(self._keyring.sealing_subkey(salt)).encrypt
        issued_ms = int(self._clock.now() * 1000)
        expires_ms = issued_ms + int(max(0.0, min(expires_in_s, self.ttl_s)) * 1000)
        times = _TIMES.pack(issued_ms, expires_ms)
        answer = _ANSWER.pack(VERSION, self._keyring.sealing_id, salt)
        associated = _associated(bound, self.blob_size, answer)
        content_size = self.blob_size - _HEADER_BYTES - _TIMES.size - _TAG_BYTES
        # One step after the other over all entries: two thirds of the time of one entry after the other.
        packed = [pack_content(place, content_size) for place in places]
        numbers = [index.to_bytes(_NUMBER_BYTES, "big") for index in range(len(packed))]
        sealed = [
            answer + number + encrypt(_NONCE_START + number, times + content, associated + number)
            for number, content in zip(numbers, packed, strict=True)
        ]
        return [blob_to_text(blob) for blob in sealed]

    def open_entries(self, bound: Bound, blobs: Sequence[str]) -> list[OpenedEntry | BlobRefused]:
        """Open each blob, in order; the subkey of blobs from one answer is derived once."""
        opening = _Opening(self._keyring, bound, now_ms=int(self._clock.now() * 1000))
        unverified = [_unverified_blob(blob) for blob in blobs]
        decrypted = [opening.decrypt(blob) for blob in unverified]
        return [_read_entry(entry) for entry in decrypted]


_Decrypted = tuple[bytes, str, float]
"""Packed content, single-use key and expiry of an entry whose tag was verified."""


class _Answer(NamedTuple):
    """The header part that all blobs of one answer share."""

    decrypt: Callable[[bytes, bytes, bytes], bytes]
    known: bool
    associated: bytes
    salt_text: str


class _Opening:
    """One call to open blobs: the caller's bound fields, and the answers that the blobs belong to."""

    def __init__(self, keyring: Keyring, bound: Bound, now_ms: int) -> None:
        self._keyring = keyring
        self._bound = bound
        self._now_ms = now_ms
        self._answers: dict[tuple[int, bytes], _Answer] = {}

    def decrypt(self, unverified: bytes) -> _Decrypted | BlobRefused:
        """Decrypt a blob; b"" stands for a blob whose text or form is wrong."""
        if not unverified:
            return BlobRefused("malformed")
        of_answer = len(unverified), unverified[: _ANSWER.size]
        answer = self._answers.get(of_answer) or self._read_answer(of_answer)
        decrypt, known, associated, salt_text = answer
        number = unverified[_ANSWER.size : _HEADER_BYTES]
        try:
            inside = decrypt(_NONCE_START + number, unverified[_HEADER_BYTES:], associated + number)
        except InvalidTag:
            return BlobRefused("bad_tag" if known else "unknown_key")
        # The stand-in for an unknown key is no secret: a blob that it opens was not sealed here.
        if not known:
            return BlobRefused("unknown_key")
        issued_ms, expires_ms = _TIMES.unpack_from(inside)
        # An entry from the future was issued before the clock was set back; its expiry means nothing now.
        if not issued_ms - CLOCK_STEP_MS <= self._now_ms < expires_ms:
            return BlobRefused("expired")
        return inside[_TIMES.size :], salt_text + number.hex(), expires_ms / 1000

    def _read_answer(self, of_answer: tuple[int, bytes]) -> _Answer:
        size, header = of_answer
        _, key_id, salt = _ANSWER.unpack(header)
        subkey = self._keyring.opening_subkey(key_id, salt)
        answer = _Answer(
            decrypt=AESGCM(subkey.key).decrypt,
            known=subkey.known,
            associated=_associated(self._bound, size, header),
            salt_text=salt.hex(),
        )
        self._answers[of_answer] = answer
        return answer


def _unverified_blob(text: str) -> bytes:
    try:
        blob = blob_from_text(text)
    except ValueError:
        return b""
    return blob if MIN_BLOB_BYTES <= len(blob) <= MAX_BLOB_BYTES and blob[0] == VERSION else b""


def _read_entry(decrypted: _Decrypted | BlobRefused) -> OpenedEntry | BlobRefused:
    if isinstance(decrypted, BlobRefused):
        return decrypted
    packed, key, expires_at = decrypted
    try:
        return OpenedEntry(unpack_content(packed), key, expires_at)
    except ValueError:
        return BlobRefused("malformed")


def _associated(bound: Bound, blob_size: int, answer: bytes) -> bytes:
    """Return the associated data without the entry number, which every entry appends."""
    fields = (
        _LABEL,
        _text_field(bound.zone_uuid),
        _text_field(bound.caller_id),
        _text_field(bound.project_id),
        bound.request_digest,
        blob_size.to_bytes(4, "big"),
        answer,
    )
    prefixed = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return prefixed + _NUMBER_BYTES.to_bytes(4, "big")


def _text_field(text: str) -> bytes:
    # JSON can spell lone surrogates; they must be told apart, not fail.
    return text.encode("utf-8", "surrogatepass")
