"""Detect when a request that arrives in pieces is complete; pure, with only the HTTP that this needs.

Malformed requests count as complete: the server's own parser refuses them.
"""

from __future__ import annotations

import re

HEAD_BYTES = 32 * 1024
"""Max bytes of a head; a longer one is refused."""

GATHERED_BODY_BYTES = 32 * 1024
"""Max bytes of a body that is waited for from an unknown sender."""

_END = b"\r\n\r\n"
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*(?=\r\n)", re.IGNORECASE)
_UNKNOWN_LENGTH = re.compile(
    rb"\r\n(?:transfer-encoding:|expect:|content-length:[ \t]*[0-9]{19})", re.IGNORECASE
)
"""Fields of a body with unknown length, or one that is not sent before it is asked for; and a length of more
digits than any body needs."""
_AUTHORIZATION = re.compile(rb"\r\nauthorization:[ \t]*([^\r\n]*)", re.IGNORECASE)


class RequestBytes:
    """Received pieces of one request.

    `authorization`: the header's value, b"" without one. `body_bytes`: the length of the body by the
    head, 0 without one. `has_more`: a part of the body is not waited for. `is_too_long`: the head has no end
    within HEAD_BYTES.
    """

    def __init__(self) -> None:
        self._pieces = bytearray()
        self._head_bytes = 0
        self._awaited_bytes = 0
        self.authorization = b""
        self.body_bytes = 0
        self.has_more = False
        self.is_too_long = False

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, piece: bytes) -> bool:
        """Add a piece; return true once the request is complete."""
        # Only what is new is searched: a head that comes byte by byte costs what its bytes cost.
        new = len(self._pieces)
        searched = max(0, new - len(_END) + 1)
        self._pieces += piece
        if not self._head_bytes:
            end = self._pieces.find(_END, searched)
            if end < 0:
                self.is_too_long = len(self._pieces) > HEAD_BYTES
                return self.is_too_long or _BARE_LINE_FEED.search(self._pieces, new) is not None
            self._read_head(bytes(self._pieces[: end + 2]))
            self._head_bytes = end + len(_END)
        return self.is_complete

    @property
    def is_complete(self) -> bool:
        return len(self._pieces) >= self._head_bytes + self._awaited_bytes

    def await_whole_body(self) -> None:
        """Wait for all of a body whose length is known."""
        self._awaited_bytes = self.body_bytes
        self.has_more = False

    @property
    def has_long_request_line(self) -> bool:
        """Tell whether the first line of the head is too long."""
        return self.is_too_long and b"\r\n" not in self._pieces

    def take(self) -> bytes:
        """Return all pieces and clear them."""
        taken = bytes(self._pieces)
        self._pieces.clear()
        self._head_bytes = 0
        return taken

    def _read_head(self, head: bytes) -> None:
        found = _AUTHORIZATION.search(head)
        self.authorization = found.group(1).rstrip(b" \t") if found else b""
        if _UNKNOWN_LENGTH.search(head):
            self.has_more = True
            return
        found = _LENGTH.search(head)
        self.body_bytes = int(found.group(1)) if found else 0
        self._awaited_bytes = min(self.body_bytes, GATHERED_BODY_BYTES)
        self.has_more = self.body_bytes > GATHERED_BODY_BYTES
