"""One open connection to a child, and the calls over it, one after another."""

from __future__ import annotations

import http.client
import re
import select
from collections.abc import Callable, Mapping
from typing import Any

from zonesched.deadline_socket import Deadline, DeadlineSocket, DeadlineTlsSocket
from zonesched.zones.address import Endpoint

MAX_INTERIM = 8
"""Maximum of interim answers (100 Continue) before the answer itself; no request asks for any."""

MANY_CHUNKS, CHUNK_BYTES = 1024, 512
"""So many chunks of an answer may be of any size; with more, they are to have so many bytes on average.

A chunk takes the same time and memory whatever its size."""

MAX_TRAILERS = 100

_METHODS_WITH_BODY = frozenset({"PATCH", "POST", "PUT"})
_TARGET = re.compile(r"[\x21-\x7e]+")
_NAME = re.compile(r"[A-Za-z0-9-]+")
_VALUE = re.compile(r"[\x20-\x7e]*")


class Answer(http.client.HTTPResponse):
    """An answer whose form is bounded, as its body is: a child may not keep a thread busy without one.

    Raises HTTPException for more interim answers, smaller chunks and more trailers than these bounds.
    """

    _statuses = 0
    _chunks = 0
    _bytes_in_chunks = 0

    def _read_status(self) -> Any:
        self._statuses += 1
        if self._statuses > MAX_INTERIM + 1:
            raise http.client.HTTPException("more interim answers than a child may send")
        return super()._read_status()  # type: ignore[misc]

    def _read_next_chunk_size(self) -> int:
        self._chunks += 1
        if self._chunks > MANY_CHUNKS + self._bytes_in_chunks // CHUNK_BYTES:
            raise http.client.HTTPException("smaller chunks than a child may send")
        size: int = super()._read_next_chunk_size()  # type: ignore[misc]
        self._bytes_in_chunks += size
        return size

    def _read_and_discard_trailer(self) -> None:
        for _ in range(MAX_TRAILERS):
            if self.fp.readline(http.client._MAXLINE) in (b"\r\n", b"\n", b""):  # type: ignore[attr-defined]
                return
        raise http.client.HTTPException("more trailers than a child may send")


class Channel:
    """One open connection to an endpoint."""

    def __init__(self, endpoint: Endpoint, sock: DeadlineSocket | DeadlineTlsSocket) -> None:
        self.endpoint = endpoint
        self.sock = sock

    def finish(self, method: str, unsent: bytes, deadline: Deadline) -> Answer:
        """Send the rest of a request, and read the head of its answer. Raises OSError and HTTPException."""
        self.sock.deadline = deadline
        if unsent:
            self.sock.sendall(unsent)
        answer = Answer(self.sock, method=method)
        try:
            answer.begin()
        except BaseException:
            answer.close()
            raise
        return answer

    def is_stale(self) -> bool:
        """Tell whether the child has closed the connection, or sent unrequested bytes."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        self.sock.close()


class Body:
    """Body of an answer; its connection is reused once all of it was read."""

    def __init__(self, answer: Answer, channel: Channel, give: Callable[[Channel], None]) -> None:
        self._answer = answer
        self._channel = channel
        self._give = give

    def read(self, amount: int) -> bytes:
        """Read at most `amount` bytes, none at the end. Raises IncompleteRead for an incomplete body."""
        piece = self._answer.read(amount)
        if not piece and self._answer.length:
            raise http.client.IncompleteRead(b"", self._answer.length)
        return piece

    def close(self) -> None:
        if self._answer.isclosed() and not self._answer.will_close:
            self._give(self._channel)
            return
        self._answer.close()
        self._channel.close()


def request_bytes(
    endpoint: Endpoint, method: str, path: str, headers: Mapping[str, str], body: bytes
) -> bytes:
    """Return a request as it is sent, in one piece. Raises ValueError for what would not be one request."""
    fields = {"Host": endpoint.text.partition("://")[2], "Accept-Encoding": "identity"}
    if body or method in _METHODS_WITH_BODY:
        fields["Content-Length"] = str(len(body))
    fields.update(headers)
    if not _NAME.fullmatch(method) or not _TARGET.fullmatch(path):
        raise ValueError("the method or the path has other characters than a request line may have")
    if not all(map(_NAME.fullmatch, fields)) or not all(map(_VALUE.fullmatch, fields.values())):
        raise ValueError("a header has characters that it may not have")
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("ascii") + body
