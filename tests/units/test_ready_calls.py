"""Calls of a fan-out over open connections: one thread waits for all children, and never for one alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders.clock import FakeClock
from tests.builders.inline_executor import InlineExecutor
from tests.builders.raw_server import Conversation, RawServer, Talk, answer
from zonesched import conf as options
from zonesched.errors import ChildUnreachable
from zonesched.model.work_deadline import always
from zonesched.seams import Done, Failed, Late, SystemClock, ThreadExecutor
from zonesched.zones.answer_room import SMALL_BYTES
from zonesched.zones.call import BoundCall, Call, Reply, Rest
from zonesched.zones.fan_out import WORK_THREADS, Exchange, exchange, work_bulkhead
from zonesched.zones.plain_answer import plain_head
from zonesched.zones.transport import HttpTransport, each_alone

TIMEOUT_S = 5.0
SHORT_S = 0.3
MAX_BYTES = 1_000_000


@pytest.fixture
def transport() -> Iterator[HttpTransport]:
    made = HttpTransport.from_conf(options.load(overrides={"child_networks": ["loopback"]}), SystemClock())
    yield made
    made.close()


@pytest.fixture
def threads() -> Iterator[ThreadExecutor]:
    executor = ThreadExecutor()
    yield executor
    executor.stop()


def call_to(url: str, body: bytes = b"", **given: Any) -> BoundCall:
    return BoundCall(Call("POST", f"{url}/v2.1/zones/select", {}, body, **given), MAX_BYTES)


class Children:
    """Servers, each with one connection of the transport that is open and idle."""

    def __init__(self, transport: HttpTransport, stack: ExitStack, *talks: Talk) -> None:
        self.transport = transport
        self.servers = [stack.enter_context(RawServer(greeting(talk))) for talk in talks]
        for server in self.servers:
            transport.send(call_to(server.url).call, TIMEOUT_S, MAX_BYTES)

    def calls(self, **given: Any) -> list[BoundCall]:
        return [call_to(server.url, **given) for server in self.servers]

    def ask(self, timeout_s: float = TIMEOUT_S, **given: Any) -> dict[int, Reply | ChildUnreachable | Rest]:
        return dict(self.transport.send_together(self.calls(**given), timeout_s, always))


def greeting(talk: Talk) -> Talk:
    """The first request is answered, the rest is the talk's."""

    def greet_and_talk(peer: Conversation) -> None:
        if peer.number == 1:
            peer.read_request()
            peer.say(answer(b"hello"))
        talk(peer)

    return greet_and_talk


def says(*pieces: bytes, after_s: float = 0.0) -> Talk:
    def talk(peer: Conversation) -> None:
        while peer.read_request():
            for piece in pieces:
                peer.say_later(piece, after_s)

    return talk


def hangs(peer: Conversation) -> None:
    peer.read_request()
    peer.hang()


def bodies(ended: dict[int, Reply | ChildUnreachable | Rest]) -> dict[int, bytes | str]:
    found: dict[int, bytes | str] = {}
    for number, one in sorted(ended.items()):
        match one:
            case Reply(body=body):
                found[number] = body
            case ChildUnreachable(code=code):
                found[number] = code
            case _:
                found[number] = "rest"
    return found


def test_all_children_are_answered_in_one_thread_and_their_connections_are_kept(
    transport: HttpTransport,
) -> None:
    with ExitStack() as stack:
        children = Children(transport, stack, *(says(answer(b"%d" % n)) for n in range(5)))

        for _ in range(3):
            assert bodies(children.ask()) == {n: b"%d" % n for n in range(5)}
        assert [server.accepted for server in children.servers] == [1] * 5


def test_a_child_that_hangs_or_drips_costs_its_own_answer_and_no_more_than_the_time(
    transport: HttpTransport,
) -> None:
    def drips(peer: Conversation) -> None:
        peer.read_request()
        peer.drip(answer(bytes(1000)), pause_s=0.01)

    with ExitStack() as stack:
        children = Children(transport, stack, hangs, says(answer(b"1")), drips, says(answer(b"3")))
        started = time.monotonic()

        ended = bodies(children.ask(SHORT_S))

        assert ended == {0: "child_timeout", 1: b"1", 2: "child_timeout", 3: b"3"}
        assert SHORT_S <= time.monotonic() - started < TIMEOUT_S


def test_without_time_left_nothing_is_sent(transport: HttpTransport) -> None:
    requests = []

    def talk(peer: Conversation) -> None:
        requests.append(peer.read_request())

    with ExitStack() as stack:
        children = Children(transport, stack, talk)

        assert bodies(children.ask(0.0)) == {0: "child_timeout"}
        transport.close()
    assert requests == [b""]


def test_a_call_for_which_no_thread_was_free_in_time_is_not_sent() -> None:
    clock, sent = FakeClock(), []

    class Slow:
        """A transport whose calls all need a thread, of which each begins when the time is over."""

        def send(self, call: Call, timeout_s: float, max_bytes: int) -> Reply:
            sent.append(call)
            return Reply(200, {}, b"")

        def send_together(
            self, calls: Sequence[BoundCall], timeout_s: float, is_wanted: Callable[[], bool]
        ) -> Iterator[tuple[int, Reply | ChildUnreachable | Rest]]:
            clock.advance(timeout_s)
            return each_alone(self, calls)

        def check_url(self, unverified: str, timeout_s: float) -> str:
            return unverified

    asked = exchanges([call_to("http://127.0.0.1:1")], lambda reply: "", lambda number: None)
    (outcome,) = exchange(InlineExecutor(), clock, Slow(), asked, TIMEOUT_S)

    assert isinstance(outcome, Failed) and outcome.error.code == "child_timeout"  # type: ignore[attr-defined]
    assert sent == []


def test_nothing_is_waited_for_once_nobody_wants_the_answers(transport: HttpTransport) -> None:
    with ExitStack() as stack:
        children = Children(transport, stack, hangs)
        wanted = iter([True])
        started = time.monotonic()

        ended = dict(transport.send_together(children.calls(), 60.0, lambda: next(wanted, False)))

        assert bodies(ended) == {0: "child_timeout"}
        assert time.monotonic() - started < TIMEOUT_S


def test_a_connection_on_which_an_answer_is_outstanding_is_not_used_again(transport: HttpTransport) -> None:
    def talk(peer: Conversation) -> None:
        peer.read_request()
        if peer.number > 1:
            peer.say(answer(b"of this call"))
        elif peer.read_request():
            peer.say(answer(b"of the call before"))

    with ExitStack() as stack:
        children = Children(transport, stack, talk)
        assert bodies(children.ask(SHORT_S)) == {0: "child_timeout"}

        assert transport.send(children.calls()[0].call, TIMEOUT_S, MAX_BYTES).body == b"of this call"


def finished(rest: Reply | ChildUnreachable | Rest) -> bytes:
    assert not isinstance(rest, Reply | ChildUnreachable)
    return rest.finish(TIMEOUT_S).body


def test_a_child_without_an_open_connection_is_left_to_a_thread_at_once(transport: HttpTransport) -> None:
    with ExitStack() as stack:
        children = Children(transport, stack, hangs)
        other = stack.enter_context(RawServer(says(answer(b"new"))))
        calls = [*children.calls(), call_to(other.url)]

        (number, rest), *others = transport.send_together(calls, SHORT_S, always)

        assert (number, finished(rest), len(others)) == (1, b"new", 1)


def test_a_connection_that_the_child_closes_on_the_call_is_replaced(transport: HttpTransport) -> None:
    def talk(peer: Conversation) -> None:
        request = peer.read_request()
        if peer.number > 1:
            peer.say(answer(request[:4]))

    with ExitStack() as stack:
        children = Children(transport, stack, talk)

        assert finished(children.ask()[0]) == b"POST"
        assert children.servers[0].accepted == 2


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", b"0\r\n\r\n"], b"abc"),
        ([b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n", b"Content-Length: 3\r\n\r\nabc"], b"abc"),
        ([answer(b"{}", "202 Accepted")], b"{}"),
        ([answer(b"{}", "503 Busy", "Retry-After: 1")], b"{}"),
        ([answer(bytes(SMALL_BYTES + 1))], bytes(SMALL_BYTES + 1)),
        ([b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 20_000, b"\r\nContent-Length: 1\r\n\r\n1"], b"1"),
    ],
    ids=["chunked", "interim", "accepted", "busy", "large", "long head"],
)
def test_an_unusual_answer_is_read_on_by_a_thread_from_where_it_was(
    transport: HttpTransport, pieces: list[bytes], body: bytes
) -> None:
    with ExitStack() as stack:
        children = Children(transport, stack, says(*pieces))

        assert finished(children.ask()[0]) == body
        assert children.servers[0].accepted == 1


def test_a_request_that_is_not_taken_at_once_is_sent_on_by_a_thread(transport: HttpTransport) -> None:
    body = bytes(range(256)) * 2**16

    def talk(peer: Conversation) -> None:
        request = peer.read_request()
        peer.say(answer(b"whole" if request.endswith(b"\r\n\r\n" + body) else b"torn"))

    with ExitStack() as stack:
        children = Children(transport, stack, talk)

        assert finished(children.ask(body=body)[0]) == b"whole"
        assert children.servers[0].accepted == 1


def test_a_rest_that_nobody_finishes_frees_its_connection(transport: HttpTransport) -> None:
    left = threading.Event()

    def talk(peer: Conversation) -> None:
        peer.read_request()
        peer.say(b"HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\n")
        if not peer.read(1):
            left.set()

    with ExitStack() as stack:
        children = Children(transport, stack, talk)
        rest = children.ask()[0]
        assert not isinstance(rest, Reply | ChildUnreachable)

        rest.drop()

        assert left.wait(TIMEOUT_S)
        with pytest.raises(ChildUnreachable, match="in time"):
            rest.finish(TIMEOUT_S)


def test_bytes_behind_an_answer_end_its_connection(transport: HttpTransport) -> None:
    with ExitStack() as stack:
        children = Children(transport, stack, says(answer(b"1") + answer(b"smuggled")))

        assert bodies(children.ask()) == {0: b"1"}
        assert transport.send(children.calls()[0].call, TIMEOUT_S, MAX_BYTES).body == b"1"
        assert children.servers[0].accepted == 2


def test_what_a_child_says_before_it_is_asked_is_not_its_answer(transport: HttpTransport) -> None:
    said = threading.Event()

    def talk(peer: Conversation) -> None:
        if peer.number == 1:
            peer.say_later(answer(b"smuggled"), after_s=0.05)
            said.set()
            peer.hang()
        peer.read_request()
        peer.say(answer(b"asked"))

    with ExitStack() as stack:
        children = Children(transport, stack, talk)
        said.wait(TIMEOUT_S)

        assert finished(children.ask()[0]) == b"asked"


@pytest.mark.parametrize("given", [{"headers": {"A": "1\r\nB: 2"}}, {"url": "/with space"}])
def test_what_would_be_two_headers_is_not_sent(transport: HttpTransport, given: dict[str, Any]) -> None:
    def talk(peer: Conversation) -> None:
        assert not peer.read_request()

    with ExitStack() as stack:
        children = Children(transport, stack, talk)
        url = children.servers[0].url
        call = Call("POST", url + "/x?" + given.get("url", ""), given.get("headers", {}))

        ((_, rest),) = transport.send_together([BoundCall(call, MAX_BYTES)], TIMEOUT_S, always)

        assert not isinstance(rest, Reply | ChildUnreachable)
        with pytest.raises(ValueError, match="characters"):
            rest.finish(TIMEOUT_S)


_HEADS = st.sampled_from(
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
        b"HTTP/1.1 200\r\nContent-Length: 0\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length:\t3 \r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n folded\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
    ]
)


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_HEADS, st.binary(max_size=60), st.integers(1, 40))
def test_any_answer_is_read_as_a_thread_reads_it(
    transport: HttpTransport, head: bytes, content: bytes, cut: int
) -> None:
    whole = head + content or b"\r\n"

    def talk(peer: Conversation) -> None:
        peer.read_request()
        peer.say(whole[:cut])
        peer.say_later(whole[cut:], 0.001)

    def outcome(read: Callable[[], Reply]) -> object:
        try:
            reply = read()
        except ChildUnreachable as fault:
            return fault.code
        return reply.status, {k.lower(): v for k, v in reply.headers.items()}, reply.body

    def together(children: Children) -> Reply:
        ended = children.ask()[0]
        if isinstance(ended, ChildUnreachable):
            raise ended
        return ended if isinstance(ended, Reply) else ended.finish(TIMEOUT_S)

    with ExitStack() as stack:
        children = Children(transport, stack, talk)
        seen = outcome(lambda: together(children))
        server = stack.enter_context(RawServer(talk))
        assert seen == outcome(lambda: transport.send(call_to(server.url).call, TIMEOUT_S, MAX_BYTES))


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 3\r\nTransfer-Encoding: identity\r\n",
        b"Content-Length: 3\r\nContent-Length: 3\r\n",
        b"Content-Length: 3\r\nConnection: close\r\n",
        b"Content-Length: 3\r\nContent-Encoding: gzip\r\n",
        b"Content-Length: -3\r\n",
        b"Content-Length: 3, 3\r\n",
        b"Content-Length: 99999999999\r\n",
        b"Content-Length: \xd9\xa3\r\n",
        b"Content-Length : 3\r\n",
        b"Content-Length: 3\r\n X: y\r\n",
        b"Content-Length: 3\nX: y\r\n",
        b"Content-Length: 3\r\nX: \x00\r\n",
        b"X: y\r\n",
        b"",
    ],
)
def test_a_head_of_more_than_one_reading_is_not_plain(fields: bytes) -> None:
    assert plain_head(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n") is None


def exchanges(
    children: Sequence[BoundCall], read: Callable[[Reply], str], ended: Callable[[int], None]
) -> list[Exchange[str]]:
    return [
        Exchange(work_bulkhead(f"child-{n}"), bound, read, lambda seconds, n=n: ended(n))
        for n, bound in enumerate(children)
    ]


def test_outcomes_of_exchanges_are_in_their_order_and_each_ends_once(
    transport: HttpTransport, threads: ThreadExecutor
) -> None:
    readers: dict[str, int] = {}
    ended: list[int] = []

    def read(reply: Reply) -> str:
        if reply.body == b"odd":
            raise KeyError("SECRET")
        readers[reply.body.decode()] = threading.get_ident()
        return reply.body.decode()

    with ExitStack() as stack:
        children = Children(
            transport,
            stack,
            says(answer(b"slow"), after_s=0.1),
            says(answer(b"odd")),
            hangs,
            says(answer(b"1")),
        )
        new = stack.enter_context(RawServer(says(answer(b"new"))))
        calls = [call_to(new.url), *children.calls()]

        outcomes = exchange(
            threads, SystemClock(), transport, exchanges(calls, read, ended.append), timeout_s=1.0
        )

    codes = [one.error.code if isinstance(one, Failed) else one for one in outcomes]  # type: ignore[attr-defined]
    assert codes == [Done("new"), Done("slow"), "child_invalid_answer", "child_timeout", Done("1")]
    assert sorted(ended) == [0, 1, 2, 3, 4]
    mine = threading.get_ident()
    assert {body: ident == mine for body, ident in readers.items()} == {"new": False, "slow": True, "1": True}


def test_a_rest_for_which_no_thread_is_free_in_time_frees_its_connection(
    transport: HttpTransport, threads: ThreadExecutor
) -> None:
    over, left = threading.Event(), threading.Event()

    def talk(peer: Conversation) -> None:
        peer.read_request()
        peer.say(b"HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\n")
        if not peer.read(1):
            left.set()

    busy = [(work_bulkhead("child-0"), lambda: over.wait(TIMEOUT_S))] * WORK_THREADS
    threads.gather(busy, SHORT_S)
    with ExitStack() as stack:
        children = Children(transport, stack, talk)
        asked = exchanges(children.calls(), lambda reply: "", lambda number: None)

        assert exchange(threads, SystemClock(), transport, asked, SHORT_S) == [Late()]
        assert left.wait(TIMEOUT_S)
    over.set()


def test_a_large_answer_waits_for_room_in_a_thread_of_its_child(
    transport: HttpTransport, threads: ThreadExecutor
) -> None:
    takers = {}

    def take(size: int, timeout_s: float) -> None:
        takers[size] = threading.current_thread().name

    with ExitStack() as stack:
        children = Children(transport, stack, says(answer(b"small")), says(answer(bytes(SMALL_BYTES + 1))))

        outcomes = exchange(
            threads,
            SystemClock(),
            transport,
            exchanges(children.calls(take=take), lambda reply: str(len(reply.body)), lambda number: None),
            TIMEOUT_S,
        )

    assert outcomes == [Done("5"), Done(str(SMALL_BYTES + 1))]
    assert takers[5] == threading.current_thread().name
    assert takers[SMALL_BYTES + 1].startswith("bulkhead-child-1-work")
