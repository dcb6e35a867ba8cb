"""The network between zones, their agents and their users: calls may be lost, late, doubled or cut off.

A call is carried as an event under the baton: it arrives some time after it was sent, is served by a task of
a process of its zone, and its answer comes back some time after that, unless the caller has given up by then.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol
from urllib.parse import urlsplit
from zlib import crc32

import orjson
import requests
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict

from tests.builders.wsgi_transport import WsgiApp, deliver
from tests.simulation.baton import Baton, Process, Task
from tests.simulation.reach import Reach, call_of
from tests.simulation.storm import Storm
from tests.simulation.trace import Trace

OPERATOR = "operator"
"""Callers on a zone's own machines: no fault hits their calls."""

LATENCY_S = (0.0005, 0.02)
SLOW_S = (0.1, 3.0)
LATE_S = (2.0, 12.0)


class Server(Protocol):
    """A process that serves; `name` and `is_dead` as of every process."""

    process: Process
    app: WsgiApp


@dataclass
class Exchange:
    """One call under way. Nobody waits for one without a `waiter`; what comes back also `answers` another.

    `heard` is told what it was answered, whether or not that comes back.
    """

    request: requests.PreparedRequest
    source: str
    target: str
    waiter: Task | None = None
    response: requests.Response | None = None
    is_broken: bool = False
    answers: Exchange | None = None
    heard: Callable[[requests.Response], None] | None = None
    arrived_at: float = 0.0

    @property
    def is_over(self) -> bool:
        return self.response is not None or self.is_broken

    @cached_property
    def call(self) -> str:
        """Name of the call, as of `call_of`."""
        return call_of(self.request)

    @cached_property
    def weight(self) -> float:
        """Probability of a fault, in comparison with other calls."""
        return _weight(self)


class Network:
    """Carries calls to the servers of each zone, by the URL they start with."""

    def __init__(self, baton: Baton, storm: Storm, trace: Trace, reach: Reach, seed: int) -> None:
        self.calls: Counter[tuple[str, str, str]] = Counter()
        self.servers: dict[str, list[Server]] = {}
        self.name_of: dict[str, str] = {}
        self.slow_until: dict[str, float] = {}
        self.on_build: Callable[[Exchange], None] = lambda exchange: None
        self.listeners: list[Callable[[Exchange, requests.Response], None]] = []
        self.rewrite: Callable[[Exchange, requests.Response], requests.Response] = lambda _, response: (
            response
        )
        self.serving: dict[Task | None, Exchange] = {}
        self._arrived: dict[Task, Exchange] = {}
        self._cut_until: dict[frozenset[str], float] = {}
        self._baton = baton
        self._storm = storm
        self._trace = trace
        self._reach = reach
        self._random = random.Random(f"network/{seed}")

    def register(self, name: str, url: str) -> None:
        """A zone that is called at this URL; nobody serves there yet."""
        self.name_of[url] = name
        self.servers[name] = []

    def cut(self, one: str, other: str, until: float) -> None:
        """Nothing passes between these two before that moment."""
        self._cut_until[frozenset((one, other))] = until

    def heal(self) -> None:
        """Everything passes, and fast."""
        self._cut_until.clear()
        self.slow_until.clear()

    def is_cut(self, one: str, other: str) -> bool:
        return self._cut_until.get(frozenset((one, other)), 0.0) > self._baton.now

    def carry(self, source: str, request: requests.PreparedRequest, timeout_s: float) -> requests.Response:
        """The answer to a task's call. Raises requests' ConnectionError and ReadTimeout."""
        baton = self._baton
        exchange = Exchange(request, source, self._target(request), baton.current)
        self._count(exchange)
        ends_at = baton.now + timeout_s
        if self._strikes(exchange, "call_refused"):
            baton.pause(self._latency_s())
            raise requests.ConnectionError("refused")
        self._send(exchange)
        while not exchange.is_over and baton.now < ends_at:
            baton.park(ends_at - baton.now)
        exchange.waiter = None
        if exchange.response is not None:
            self._reach.answered(source, exchange.call, request, exchange.response)
            return exchange.response
        if exchange.is_broken:
            raise requests.ConnectionError("the connection broke")
        raise requests.ReadTimeout("no answer")

    def end(self, process: Process) -> None:
        """Break the connections of a process that died, of which it has read nothing."""
        for task in process.tasks:
            if task in self._arrived:
                in_s = self._latency_s()
                self._baton.at(self._baton.now + in_s, self._break, self._arrived.pop(task))

    def send_later(self, exchange: Exchange, in_s: float) -> None:
        """A call that arrives after so long; nobody waits for its answer."""
        self._arrive_in(exchange, in_s)

    # -- under way -----------------------------------------------------------------------------------------

    def _target(self, request: requests.PreparedRequest) -> str:
        scheme, _, address, *_ = str(request.url).split("/", 3)
        return self.name_of[f"{scheme}//{address}"]

    def _count(self, exchange: Exchange) -> None:
        method, path = str(exchange.request.method), urlsplit(str(exchange.request.url)).path
        kind = "/".join(part for part in path.split("/") if len(part) != 36)
        self.calls[exchange.source, exchange.target, f"{method} {kind}"] += 1
        body = exchange.request.body or b""
        sent = body.encode() if isinstance(body, str) else body
        self._note(exchange.source, f"{method} {exchange.target}{path} {crc32(sent):08x}")

    def _strikes(self, exchange: Exchange, kind: str) -> bool:
        if not self._storm.is_raging or exchange.source == OPERATOR:
            return False
        is_struck = self._storm.strikes(kind, exchange.weight, exchange.call)
        if is_struck:
            self._reach.disturbed(kind, exchange.call)
        return is_struck

    def _latency_s(self) -> float:
        return self._random.uniform(*LATENCY_S)

    def _send(self, exchange: Exchange) -> None:
        storm = self._storm
        is_build = exchange.request.method == "POST" and str(exchange.request.path_url).endswith("/servers")
        if self._strikes(exchange, "call_lost"):
            return
        is_slow = self.slow_until.get(exchange.target, 0.0) > self._baton.now
        if self._strikes(exchange, "call_late"):
            in_s = storm.random.uniform(*LATE_S)
        elif self._strikes(exchange, "call_slow") or is_slow:
            in_s = storm.random.uniform(*SLOW_S)
        else:
            in_s = self._latency_s()
        self._arrive_in(exchange, in_s)
        if self._strikes(exchange, "call_twice"):
            # Whichever answer comes first is the caller's.
            again = Exchange(exchange.request, exchange.source, exchange.target, answers=exchange)
            self._arrive_in(again, in_s + storm.random.choice((0.0, self._latency_s(), 2.0)))
        if exchange.request.method != "GET" and self._strikes(exchange, "call_replayed"):
            again = Exchange(exchange.request, exchange.source, exchange.target)
            self._arrive_in(again, storm.random.uniform(1.0, 30.0))
        if is_build:
            self.on_build(exchange)

    def _arrive_in(self, exchange: Exchange, seconds: float) -> None:
        self._baton.at(self._baton.now + seconds, self._arrive, exchange)

    def _arrive(self, exchange: Exchange) -> None:
        if self.is_cut(exchange.source, exchange.target):
            return
        servers = self.servers[exchange.target]
        if not servers:
            self._break(exchange)
            return
        server = self._random.choice(servers)
        task = self._baton.spawn(server.process, "serve", lambda: self._serve(exchange, server))
        self._arrived[task] = exchange

    def _serve(self, exchange: Exchange, server: Server) -> None:
        task = self._baton.current
        assert task is not None
        del self._arrived[task]
        self.serving[task] = exchange
        exchange.arrived_at = self._baton.now
        try:
            response = deliver(server.app, exchange.request)
        except BaseException:
            # The process died: its connections break, sooner or later.
            in_s = self._latency_s()
            self._baton.at(self._baton.now + in_s, self._break, exchange)
            raise
        finally:
            del self.serving[task]
        body = response.raw.read()
        response.raw.seek(0)
        self._note(server.process.name, f"answers {response.status_code} {crc32(body):08x}")
        self._reach.served(exchange.call, exchange.request, response)
        for listen in self.listeners:
            listen(exchange, response)
        if exchange.heard is not None:
            exchange.heard(response)
        response = self.rewrite(exchange, response)
        if self._strikes(exchange, "reply_lost"):
            return
        slow = self._strikes(exchange, "reply_slow")
        in_s = self._storm.random.uniform(*SLOW_S) if slow else self._latency_s()
        self._baton.at(self._baton.now + in_s, self._come_back, exchange, response)

    def _come_back(self, exchange: Exchange, response: requests.Response) -> None:
        if not self.is_cut(exchange.source, exchange.target):
            self._answer(exchange, response)

    def _answer(self, exchange: Exchange, response: requests.Response) -> None:
        if exchange.answers is not None:
            self._answer(exchange.answers, response)
        if not exchange.is_over:
            exchange.response = response
            self._wake(exchange)

    def _break(self, exchange: Exchange) -> None:
        if not exchange.is_over:
            exchange.is_broken = True
            self._wake(exchange)

    def _wake(self, exchange: Exchange) -> None:
        if exchange.waiter is not None:
            self._baton.wake(exchange.waiter)

    def _note(self, who: str, what: str) -> None:
        self._trace.note(self._baton.now, who, what)


def _weight(exchange: Exchange) -> float:
    """Probability of a fault on this call: less where a lost call only means no boot to disturb.

    A build that comes after its cancel, or twice, or not at all, has most to spoil.
    """
    path = str(exchange.request.path_url)
    if exchange.source.endswith("-agent"):
        return 0.3
    if path.endswith("/info"):
        return 0.1
    if path.endswith("/servers"):
        return 2.0
    return 0.25 if path.endswith("/select") else 1.0


class Wire(BaseAdapter):
    """An adapter of requests: how one process calls zones. `touch` is what a seam call does to it."""

    def __init__(self, network: Network, source: str, touch: Callable[[str], None]) -> None:
        super().__init__()
        self._network = network
        self._source = source
        self._touch = touch

    def close(self) -> None:
        """Nothing is open."""

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        self._touch("call")
        try:
            return self._network.carry(self._source, request, timeout)
        finally:
            self._touch("answer")


def a_request(
    method: str, url: str, headers: Mapping[str, str], json: Any = None
) -> requests.PreparedRequest:
    """A request with a JSON body."""
    request = requests.PreparedRequest()
    request.method = method
    request.url = url
    request.headers = CaseInsensitiveDict({**headers, "Content-Type": "application/json"})
    request.body = b"" if json is None else orjson.dumps(json)
    return request
