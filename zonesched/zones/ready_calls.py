"""Calls to many children at once over connections that are open, in the thread of their caller.

A thread, its turn and its wake-ups take several times as long as a small call itself. So the caller's own
thread sends the requests of a fan-out, and waits for all answers together. It never waits for one child
alone: a call without an idle connection, an answer that is not plain, and a large one are left to a thread of
that child, with what was sent and read so far.
"""

from __future__ import annotations

import select
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from zonesched import turns
from zonesched.deadline_socket import LOOK_S, Deadline
from zonesched.errors import ChildUnreachable
from zonesched.zones.address import AddressRefused, split_call_url
from zonesched.zones.answer_room import SMALL_BYTES
from zonesched.zones.call import BoundCall, Reply, late, unreachable
from zonesched.zones.channel import Channel, request_bytes
from zonesched.zones.connections import CheckedAdapter
from zonesched.zones.plain_answer import END_OF_HEAD, MAX_HEAD_BYTES, PlainHead, plain_head

_PIECE_BYTES = 64 * 1024
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@dataclass(frozen=True)
class Unsent:
    """A call that no child has begun to answer: it is sent from its beginning."""


@dataclass(frozen=True)
class Begun:
    """A call that goes on over this connection, with the bytes that were not sent yet."""

    channel: Channel
    unsent: bytes


Ended = Reply | ChildUnreachable | Unsent | Begun


@dataclass
class _UnderWay:
    """A call whose answer is awaited: the bytes of it so far, and where its body begins."""

    number: int
    bound: BoundCall
    path: str
    channel: Channel
    data: bytearray = field(default_factory=bytearray)
    head: PlainHead | None = None
    body_at: int = 0

    @property
    def total(self) -> int:
        return self.body_at + self.head.length if self.head else 0


class ReadyCalls:
    """The calls of one fan-out over the idle connections of an adapter."""

    def __init__(self, adapter: CheckedAdapter, deadline: Deadline) -> None:
        self._adapter = adapter
        self._deadline = deadline
        self._poll = select.poll()
        self._under_way: dict[int, _UnderWay] = {}

    def send(self, calls: Sequence[BoundCall]) -> Iterator[tuple[int, Ended]]:
        """Yield the end of each call with its number, each as soon as it ends."""
        if not self._left_s():
            yield from ((number, late()) for number in range(len(calls)))
            return
        try:
            for number, bound in enumerate(calls):
                if not self._take_channel(number, bound):
                    yield number, Unsent()
            for stale in self._ready(0.0):
                # The child has closed it, or has sent what nobody asked for.
                self._leave(stale, Unsent())
                yield stale.number, Unsent()
            for call in list(self._under_way.values()):
                unsent = self._send(call)
                if unsent is not None:
                    self._leave(call, unsent)
                    yield call.number, unsent
            while self._under_way and (left_s := self._left_s()):
                with turns.waiting():
                    ready = self._ready(min(left_s, LOOK_S))
                # This thread reads the answers of all children: other requests of its caller compute too.
                turns.give_way()
                for call in ready:
                    ended = self._read(call)
                    if ended is not None:
                        self._leave(call, ended)
                        yield call.number, ended
            for call in self._under_way.values():
                yield call.number, late()
        finally:
            for call in self._under_way.values():
                call.channel.close()

    def _take_channel(self, number: int, bound: BoundCall) -> bool:
        try:
            endpoint, path = split_call_url(bound.call.url)
        except AddressRefused:
            return False
        channel = self._adapter.take_idle(endpoint)
        if channel is None:
            return False
        channel.sock.deadline = None
        channel.sock.settimeout(0.0)
        self._under_way[channel.sock.fileno()] = _UnderWay(number, bound, path, channel)
        self._poll.register(channel.sock, select.POLLIN)
        return True

    def _left_s(self) -> float:
        try:
            return self._deadline.left_s()
        except TimeoutError:
            return 0.0

    def _ready(self, timeout_s: float) -> list[_UnderWay]:
        return [self._under_way[number] for number, _ in self._poll.poll(timeout_s * 1000)]

    def _leave(self, call: _UnderWay, ended: Ended) -> None:
        number = call.channel.sock.fileno()
        self._poll.unregister(number)
        del self._under_way[number]
        if isinstance(ended, Begun):
            call.channel.sock.unread(call.data)
        elif isinstance(ended, Reply) and len(call.data) == call.total:
            self._adapter.give(call.channel)
        else:
            call.channel.close()

    def _send(self, call: _UnderWay) -> Ended | None:
        """Send the request; return None once all of it is under way."""
        asked = call.bound.call
        try:
            data = request_bytes(call.channel.endpoint, asked.method, call.path, asked.headers, asked.body)
            sent = call.channel.sock.send(data)
        except _WOULD_BLOCK:
            sent = 0
        except (OSError, ValueError):
            return Unsent()
        return None if sent == len(data) else Begun(call.channel, data[sent:])

    def _read(self, call: _UnderWay) -> Ended | None:
        """Read what has arrived; return None if more of the answer has to come."""
        while True:
            try:
                piece = call.channel.sock.recv(_PIECE_BYTES)
            except _WOULD_BLOCK:
                return None
            except OSError:
                return unreachable() if call.data else Unsent()
            if not piece:
                return Begun(call.channel, b"") if call.data else Unsent()
            call.data += piece
            ended = self._whole(call, len(piece))
            if ended is not None:
                return ended

    def _whole(self, call: _UnderWay, new_bytes: int) -> Ended | None:
        """Return the answer once all of it was read, None before; anything unusual is left to a thread."""
        data = call.data
        if call.head is None:
            end = data.find(END_OF_HEAD, max(0, len(data) - new_bytes - len(END_OF_HEAD)))
            if end < 0:
                return Begun(call.channel, b"") if len(data) > MAX_HEAD_BYTES else None
            call.body_at = end + len(END_OF_HEAD)
            head = plain_head(bytes(data[: call.body_at]))
            if head is None or head.length > min(call.bound.max_bytes, SMALL_BYTES):
                return Begun(call.channel, b"")
            call.head = head
            try:
                call.bound.call.take(head.length, 0.0)
            except ChildUnreachable as no_room:
                return no_room
        if len(data) < call.total:
            return None
        return Reply(200, call.head.headers, bytes(data[call.body_at : call.total]))
