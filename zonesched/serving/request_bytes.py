"""Whether a request that comes in pieces is here: pure, and only as much of HTTP as that takes.

What it does not understand counts as here: the server's own parser refuses it.
"""

from __future__ import annotations

import re

HEAD_BYTES = 32 * 1024
"""A longer head is given to the parser, which refuses it."""

GATHERED_BODY_BYTES = 32 * 1024
"""A longer body is not waited for."""

_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*(?=\r\n)")
_UNTOLD = re.compile(rb"\r\n(?:transfer-encoding|expect):")
"""The body's length is not known, or nothing of it comes before it is asked for."""


class RequestBytes:
    """The pieces of one request so far. `has_more`: a part of its body is not waited for."""

    def __init__(self) -> None:
        self._pieces = bytearray()
        self._whole_bytes = 0
        self.has_more = False

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, piece: bytes) -> bool:
        """Take a piece; whether a thread can have the request now."""
        looked_at = max(0, len(self._pieces) - len(_END) + 1)
        self._pieces += piece
        if not self._whole_bytes:
            end = self._pieces.find(_END, looked_at)
            if end < 0:
                return len(self._pieces) > HEAD_BYTES
            body_bytes, self.has_more = _body(bytes(self._pieces[: end + 2]).lower())
            self._whole_bytes = end + len(_END) + body_bytes
        return len(self._pieces) >= self._whole_bytes

    def take(self) -> bytes:
        """All of it, which is the server's from now on."""
        taken = bytes(self._pieces)
        self._pieces.clear()
        self._whole_bytes = 0
        return taken


def _body(head: bytes) -> tuple[int, bool]:
    """How many bytes of the body are waited for, and whether there may be more than that."""
    if _UNTOLD.search(head):
        return 0, True
    found = _LENGTH.search(head)
    length = int(found.group(1)) if found else 0
    return min(length, GATHERED_BODY_BYTES), length > GATHERED_BODY_BYTES
