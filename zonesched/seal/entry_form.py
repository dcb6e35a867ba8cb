"""The bytes of an entry: its size, its text on the wire, and its packed content.

    content   1 kind = 1 | 36 host id                 | zeros up to the zone's blob size
              1 kind = 2 | 36 child id | 4 n | n blob | zeros

The content holds a child's blob as bytes, not as text, so a layer adds at most 128 bytes and not a third. On
the wire a blob is base64url without padding; any other encoding of the same bytes is refused.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence

from zonesched.errors import ConfigError
from zonesched.model.build_plan import ChildBlob, EntryPlace
from zonesched.model.place import LocalPlace

MIN_BLOB_BYTES = 256
MAX_BLOB_BYTES = 65_536
MAX_GROWN_BYTES = 8192
"""Largest automatic size of blobs: twice the need of the 16 nested zones of a request, so that a tree that is
too high loses its lowest zones, not its highest."""

LAYER_BYTES = 128
"""Minimum number of bytes that a parent's blob adds to the child's blob in it."""

_STEP_BYTES = 256
_HOST_KIND = 1
_CHILD_KIND = 2
_HOST_START = bytes([_HOST_KIND])
_CHILD_START = bytes([_CHILD_KIND])
_ID_BYTES = 36
_LENGTH_AT = 1 + _ID_BYTES
_LENGTH_BYTES = 4
_BLOB_AT = _LENGTH_AT + _LENGTH_BYTES
_MAX_TEXT = -(-MAX_BLOB_BYTES * 4 // 3)
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_+/=", b"+/!!!")
_LAST_CHARACTERS = {0: "", 2: "AQgw", 3: "AEIMQUYcgkosw048"}


def blob_size_for(child_blob_sizes: Sequence[int], configured: int) -> int:
    """Return the size in bytes of every blob of a zone with these children.

    `configured` is the size itself, or 0 to derive it from the children, up to MAX_GROWN_BYTES. Raise
    ConfigError if a child's blobs do not fit, or the configured size is out of bounds.
    """
    needed = max((size + LAYER_BYTES for size in child_blob_sizes), default=MIN_BLOB_BYTES)
    if configured and not MIN_BLOB_BYTES <= configured <= MAX_BLOB_BYTES:
        raise ConfigError(
            f"Option build_plan_blob_size is {configured}; it must be 0, or from {MIN_BLOB_BYTES} to"
            f" {MAX_BLOB_BYTES}.",
            field="build_plan_blob_size",
        )
    size = configured or -(-needed // _STEP_BYTES) * _STEP_BYTES
    if needed > size or size > (configured or MAX_GROWN_BYTES):
        raise ConfigError(
            f"The blobs of a child need build_plan_blob_size = {needed}; here it is at most"
            f" {configured or MAX_GROWN_BYTES}.",
            field="build_plan_blob_size",
        )
    return size


def largest_child_blob(configured: int) -> int:
    """Return the size of the largest child's blob that fits into blobs of the configured size."""
    return (configured or MAX_GROWN_BYTES) - LAYER_BYTES


def blob_to_text(blob: bytes) -> str:
    """Return a blob's text on the wire."""
    return b2a_base64(blob, newline=False).translate(_TO_URL).rstrip(b"=").decode("ascii")


def blob_from_text(text: str) -> bytes:
    """Return the bytes of a blob from the wire.

    Raise ValueError for any text that `blob_to_text` cannot return: other alphabets, padding, white space,
    stray bits in the last character, more than 64 KiB.
    """
    left_over = len(text) % 4
    if len(text) > _MAX_TEXT or left_over == 1:
        raise ValueError("no blob has this length")
    # The strict decoder ignores the unused bits of the last character.
    if left_over and text[-1] not in _LAST_CHARACTERS[left_over]:
        raise ValueError("the last character has stray bits")
    padding = b"=" * (-left_over % 4)
    return a2b_base64(text.encode("ascii").translate(_FROM_URL) + padding, strict_mode=True)


def pack_content(content: EntryPlace, size: int) -> bytes:
    """Pack a place into exactly `size` bytes.

    Raise ValueError if it does not fit, or its blob or UUID is not valid.
    """
    if isinstance(content, LocalPlace):
        return (_HOST_START + _id_bytes(content.host_id)).ljust(size, b"\0")
    blob = blob_from_text(content.blob)
    if _BLOB_AT + len(blob) > size:
        raise ValueError(f"a child's blob of {len(blob)} bytes does not fit into {size}")
    length = len(blob).to_bytes(_LENGTH_BYTES, "big")
    return (_CHILD_START + _id_bytes(content.child_id) + length + blob).ljust(size, b"\0")


def unpack_content(packed: bytes) -> EntryPlace:
    """Return the place that `pack_content` packed. Raise ValueError for other content."""
    item_id = packed[1:_LENGTH_AT].decode("ascii")
    if packed[0] == _HOST_KIND:
        return LocalPlace(item_id)
    if packed[0] != _CHILD_KIND:
        raise ValueError("the content is of an unknown kind")
    end = _BLOB_AT + int.from_bytes(packed[_LENGTH_AT:_BLOB_AT], "big")
    if end > len(packed):
        raise ValueError("the content is longer than its blob")
    return ChildBlob(item_id, blob_to_text(packed[_BLOB_AT:end]))


def _id_bytes(text: str) -> bytes:
    packed = text.encode("ascii")
    if len(packed) != _ID_BYTES:
        raise ValueError("an id is a UUID in text form, 36 characters")
    return packed
