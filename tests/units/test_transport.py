"""One request, one whole answer, in time: over real sockets, with a peer that does what it should not."""

from __future__ import annotations

import gzip
import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders.raw_server import (
    HOUR,
    Authority,
    Conversation,
    RawServer,
    answer,
    drips_its_body,
    drips_its_head,
)
from zonesched import conf as options
from zonesched.deadline_socket import LOOK_S, Deadline
from zonesched.errors import ChildUnreachable, ConfigError
from zonesched.seams import SystemClock
from zonesched.zones.address import split_call_url
from zonesched.zones.call import BoundCall, Call, Reply
from zonesched.zones.connections import CheckedAdapter
from zonesched.zones.transport import HttpTransport

TIMEOUT_S = 5.0
SHORT_S = 0.3
LATE_S = 6.0
"""More than a call takes beside other tests, and less than one that waits for what never comes."""

MAX_BYTES = 100_000
NAME = "zone.example.org"


def a_transport(ca_file: str = "", addresses: tuple[str, ...] = ("127.0.0.1",)) -> HttpTransport:
    conf = options.load(overrides={"child_networks": ["loopback"], "child_ca_file": ca_file})
    return HttpTransport.from_conf(conf, SystemClock(), resolver=lambda name, timeout_s: addresses)


class Together:
    """The same transport, whose calls go over an open connection, in this thread as far as they can."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport
        assert isinstance(transport._adapter, CheckedAdapter)
        self._adapter = transport._adapter

    def send(self, call: Call, timeout_s: float, max_bytes: int) -> Reply:
        ends_at = time.monotonic() + timeout_s
        endpoint, _ = split_call_url(call.url)
        if (kept := self._adapter._take_open(endpoint)) is None:
            try:
                kept = self._adapter._open(endpoint, Deadline(SystemClock(), TIMEOUT_S))
            except OSError:
                return self._transport.send(call, timeout_s, max_bytes)
        self._adapter.give(kept)
        calls = [BoundCall(call, max_bytes)]
        ((_, ended),) = self._transport.send_together(calls, timeout_s, call.is_wanted)
        if isinstance(ended, ChildUnreachable):
            raise ended from None
        return ended if isinstance(ended, Reply) else ended.finish(ends_at - time.monotonic())

    def close(self) -> None:
        self._transport.close()


Sender = HttpTransport | Together


@pytest.fixture(params=["alone", "together"])
def transport(request: pytest.FixtureRequest) -> Iterator[Sender]:
    made = a_transport()
    yield made if request.param == "alone" else Together(made)
    made.close()


@pytest.fixture
def alone() -> Iterator[HttpTransport]:
    """A transport for calls that begin with their connection."""
    made = a_transport()
    yield made
    made.close()


def get(transport: Sender, url: str, timeout_s: float = TIMEOUT_S) -> Reply:
    return transport.send(Call("GET", f"{url}/zones/info", {}), timeout_s, MAX_BYTES)


def failure(transport: Sender, url: str, timeout_s: float = TIMEOUT_S) -> str:
    """The code that a call fails with; what it says must not depend on the reply."""
    with pytest.raises(ChildUnreachable) as failed:
        get(transport, url, timeout_s)
    assert failed.value.message in {
        "The child zone did not answer in time.",
        "The child zone cannot be reached.",
        "The child zone cannot be reached by TLS.",
        "The answer of the child zone is not HTTP.",
        "The answer of the child zone is a redirect.",
        "The answer of the child zone is compressed.",
        "The answer of the child zone is too large.",
    }
    assert failed.value.__context__ is None or failed.value.__suppress_context__
    return failed.value.code


def says(*contents: bytes) -> Callable[[Conversation], None]:
    """Answers each request of a connection with the next of these, then closes."""

    def talk(peer: Conversation) -> None:
        for content in contents:
            if peer.read_request():
                peer.say(content)

    return talk


def test_a_call_arrives_as_it_is_and_nothing_is_added_but_what_http_needs(transport: Sender) -> None:
    seen = []

    def talk(peer: Conversation) -> None:
        seen.append(peer.read_request())
        peer.say(answer(b"{}", "202 Accepted", "X-One: 1"))

    with RawServer(talk) as server:
        call = Call("POST", f"{server.url}/v2.1/servers?a=1", {"Authorization": "Basic eA=="}, b'{"b":1}')
        reply = transport.send(call, TIMEOUT_S, MAX_BYTES)

    assert (reply.status, reply.body, reply.headers["x-one"]) == (202, b"{}", "1")
    head, body = seen[0].split(b"\r\n\r\n")
    first, *headers = head.split(b"\r\n")
    assert (first, body) == (b"POST /v2.1/servers?a=1 HTTP/1.1", b'{"b":1}')
    assert sorted(headers) == [
        b"Accept-Encoding: identity",
        b"Authorization: Basic eA==",
        b"Content-Length: 7",
        f"Host: 127.0.0.1:{server.port}".encode(),
    ]


def test_a_connection_is_used_again(transport: Sender) -> None:
    with RawServer(says(answer(b"1"), answer(b"2"), answer(b"3"))) as server:
        bodies = [get(transport, server.url).body for _ in range(3)]

        assert (bodies, server.accepted) == ([b"1", b"2", b"3"], 1)


@pytest.mark.parametrize(
    "content",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabcde",
        b"HTTP/1.0 200 OK\r\n\r\nabcde",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Length: 5\r\n\r\nabcde",
    ],
)
def test_every_way_to_end_a_body_is_read(transport: Sender, content: bytes) -> None:
    with RawServer(says(content)) as server:
        assert [get(transport, server.url).body for _ in range(2)] == [b"abcde"] * 2


def test_an_answer_without_a_body_is_read(transport: Sender) -> None:
    with RawServer(says(b"HTTP/1.1 204 No Content\r\n\r\n", answer(b"2"))) as server:
        assert get(transport, server.url).status == 204
        assert get(transport, server.url).body == b"2"
        assert server.accepted == 1


def test_a_kept_connection_that_the_child_has_closed_is_replaced(transport: Sender) -> None:
    with RawServer(says(answer(b"1"))) as server:
        bodies = [get(transport, server.url).body for _ in range(3)]

        assert (bodies, server.accepted) == ([b"1"] * 3, 3)


def test_a_kept_connection_that_closes_on_the_next_call_is_replaced_once(transport: Sender) -> None:
    requests = []

    def talk(peer: Conversation) -> None:
        requests.append(peer.read_request())
        peer.say(answer(b"1"))
        requests.append(peer.read_request())

    with RawServer(talk) as server:
        get(transport, server.url)
        assert get(transport, server.url).body == b"1"

        assert (len([r for r in requests if r]), server.accepted) == (3, 2)


def test_a_new_connection_that_closes_without_an_answer_is_not_tried_again(alone: HttpTransport) -> None:
    def talk(peer: Conversation) -> None:
        peer.read_request()

    with RawServer(talk) as server:
        assert failure(alone, server.url) == "child_unreachable"
        assert server.accepted == 1


def test_a_kept_connection_that_breaks_within_an_answer_is_not_tried_again(transport: Sender) -> None:
    with RawServer(says(answer(b"1"), b"HTTP/1.1 2")) as server:
        get(transport, server.url)

        assert failure(transport, server.url) == "child_invalid_answer"
        assert server.accepted == 1


def test_a_kept_connection_that_is_reset_within_an_answer_is_not_tried_again(
    transport: Sender,
) -> None:
    def talk(peer: Conversation) -> None:
        peer.read_request()
        peer.say(answer(b"1"))
        peer.read_request()
        peer.say(b"HTTP/1.1 200 OK\r\n")
        peer.reset(after_s=0.1)

    with RawServer(talk) as server:
        get(transport, server.url)

        assert failure(transport, server.url) == "child_unreachable"
        assert server.accepted == 1


def test_what_comes_before_it_was_asked_for_is_not_taken_for_an_answer(transport: Sender) -> None:
    said = threading.Event()

    def talk(peer: Conversation) -> None:
        peer.read_request()
        peer.say(answer(b"1"))
        peer.say_later(answer(b"smuggled"), after_s=0.05)
        said.set()
        peer.hang()

    with RawServer(talk) as server:
        get(transport, server.url)
        said.wait(30)

        assert get(transport, server.url).body == b"1"
        assert server.accepted == 2


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See Other", "307 Again", "308 There", "304 Same"]
)
def test_a_redirect_is_no_answer_and_not_followed(transport: Sender, status: str) -> None:
    with RawServer(says(answer(b"secret"))) as other:
        with RawServer(says(answer(b"", status, f"Location: {other.url}/"))) as server:
            assert failure(transport, server.url) == "child_invalid_answer"
        assert other.accepted == 0


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "GZIP", "gzip, identity"])
def test_a_compressed_answer_is_refused_unopened(transport: Sender, encoding: str) -> None:
    bomb = gzip.compress(bytes(10**6))
    with RawServer(says(answer(bomb, "200 OK", f"Content-Encoding: {encoding}"))) as server:
        assert failure(transport, server.url) == "child_invalid_answer"


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n", bytes(10_000)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100001\r\n\r\n", bytes(10_000)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"2710\r\n" + bytes(10_000) + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 1000),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", bytes(10_000)),
        (b"HTTP/1.1 200 OK\r\n", b"X-Header: x\r\n" * 100),
        (b"HTTP/1.1 200 OK\r\nX-Header: ", b"x" * 10_000),
        (b"", b"x" * 10_000),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
)
def test_an_answer_without_end_is_refused_while_it_still_comes(
    transport: Sender, head: bytes, piece: bytes
) -> None:
    def talk(peer: Conversation) -> None:
        peer.read_request()
        peer.say(head)
        for _ in range(10_000):
            peer.say(piece)

    with RawServer(talk) as server:
        assert failure(transport, server.url) == "child_invalid_answer"


def test_an_answer_behind_an_interim_one_is_read(transport: Sender) -> None:
    with RawServer(says(b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"{}"))) as server:
        assert get(transport, server.url).body == b"{}"


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (CHUNKED, b"1\r\nx\r\n" * 1000),
        (CHUNKED, (b"1;" + b"a" * 1000 + b"\r\nx\r\n") * 50),
        (CHUNKED + b"0\r\n", b"X-Trailer: x\r\n" * 100),
    ],
    ids=["small chunks", "extensions", "trailers"],
)
def test_a_form_that_costs_more_than_its_bytes_is_refused_early(
    transport: Sender, head: bytes, piece: bytes
) -> None:
    def talk(peer: Conversation) -> None:
        peer.read_request()
        peer.say(head)
        # Fewer bytes of the body than may be.
        for _ in range(50):
            peer.say(piece)
        peer.hang()

    with RawServer(talk) as server:
        assert failure(transport, server.url) == "child_invalid_answer"


@pytest.mark.parametrize("size", [1, 600])
def test_an_answer_in_chunks_of_a_proxy_is_read(transport: Sender, size: int) -> None:
    body = bytes(min(1000 * size, MAX_BYTES))
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    text = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    with RawServer(says(CHUNKED + text + b"0\r\nX-Trailer: x\r\n\r\n")) as server:
        assert get(transport, server.url).body == body


def test_the_largest_answer_is_still_read(transport: Sender) -> None:
    with RawServer(says(answer(bytes(MAX_BYTES)))) as server:
        assert get(transport, server.url).body == bytes(MAX_BYTES)


def test_a_body_shorter_than_it_says_is_refused(transport: Sender) -> None:
    with RawServer(says(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")) as server:
        assert failure(transport, server.url) == "child_invalid_answer"


def test_what_comes_after_a_body_is_not_taken_for_the_next_answer(transport: Sender) -> None:
    smuggled = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1" + answer(b"smuggled") * 3
    with RawServer(says(smuggled, smuggled)) as server:
        bodies = [get(transport, server.url).body for _ in range(4)]

        assert bodies == [b"1"] * 4


@pytest.mark.parametrize(
    "content",
    [
        b"\r\n",
        b"garbage\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 99 OK\r\n\r\n",
        b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        b"\x00\xff" * 100,
    ],
)
def test_what_is_not_http_is_refused(transport: Sender, content: bytes) -> None:
    with RawServer(says(content)) as server:
        assert failure(transport, server.url) == "child_invalid_answer"


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"]))
def test_whatever_bytes_come_the_call_ends_with_a_reply_or_its_one_fault(content: bytes, head: bytes) -> None:
    transport = a_transport()
    with RawServer(says(head + content)) as server:
        try:
            assert get(transport, server.url).status
        except ChildUnreachable as fault:
            assert fault.code in ("child_unreachable", "child_invalid_answer")
    transport.close()


def test_a_dead_port_cannot_be_reached(transport: Sender) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    assert failure(transport, f"http://127.0.0.1:{port}") == "child_unreachable"


def _reads_and_hangs(peer: Conversation) -> None:
    peer.read_request()
    peer.hang()


def _drips_chunks(peer: Conversation) -> None:
    peer.read_request()
    peer.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    peer.drip(b"1\r\nx\r\n" * 1000, pause_s=0.02)


def _continues_for_ever(peer: Conversation) -> None:
    peer.read_request()
    peer.drip(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, pause_s=0.002)


SLOW_TALKS = [
    Conversation.hang,
    _reads_and_hangs,
    drips_its_head,
    drips_its_body,
    _drips_chunks,
    _continues_for_ever,
]


@pytest.mark.parametrize("talk", SLOW_TALKS)
def test_a_call_ends_in_time_however_slowly_the_child_answers(
    transport: Sender, talk: Callable[[Conversation], None]
) -> None:
    with RawServer(talk) as server:
        started = time.monotonic()

        assert failure(transport, server.url, SHORT_S) == "child_timeout"
        assert time.monotonic() - started < LATE_S


def test_a_call_ends_in_time_when_the_child_does_not_read(transport: Sender) -> None:
    with RawServer(Conversation.hang) as server:
        call = Call("POST", f"{server.url}/zones/select", {}, bytes(32 * 2**20))
        started = time.monotonic()

        with pytest.raises(ChildUnreachable) as failed:
            transport.send(call, SHORT_S, MAX_BYTES)

        assert failed.value.code == "child_timeout"
        assert time.monotonic() - started < LATE_S


def test_a_call_on_a_kept_connection_ends_in_time_when_the_child_does_not_read(
    transport: Sender,
) -> None:
    def talk(peer: Conversation) -> None:
        peer.read_request()
        peer.say(answer(b"1"))
        peer.hang()

    with RawServer(talk) as server:
        get(transport, server.url)
        call = Call("POST", f"{server.url}/zones/select", {}, bytes(32 * 2**20))
        started = time.monotonic()

        with pytest.raises(ChildUnreachable) as failed:
            transport.send(call, SHORT_S, MAX_BYTES)

        assert failed.value.code == "child_timeout"
        assert time.monotonic() - started < LATE_S


@pytest.mark.slow
def test_a_child_that_drips_a_byte_a_second_costs_the_time_that_was_given(transport: Sender) -> None:
    def talk(peer: Conversation) -> None:
        peer.read_request()
        peer.drip(answer(bytes(100)), pause_s=1.0)

    with RawServer(talk) as server:
        started = time.monotonic()

        assert failure(transport, server.url, 2.5) == "child_timeout"
        assert 2.4 < time.monotonic() - started < LATE_S


def test_a_kept_connection_has_the_time_of_each_call_anew(transport: Sender) -> None:
    with RawServer(says(answer(b"1"), answer(b"2"))) as server:
        get(transport, server.url, timeout_s=0.05)
        time_is_up = threading.Event()
        time_is_up.wait(0.06)

        assert get(transport, server.url, TIMEOUT_S).body == b"2"
        assert server.accepted == 1


def test_no_time_left_means_no_call(alone: HttpTransport) -> None:
    with RawServer(says(answer(b"1"))) as server:
        assert failure(alone, server.url, timeout_s=0.0) == "child_timeout"
        assert server.accepted == 0


def test_a_look_up_that_fails_or_hangs_is_a_child_that_cannot_be_reached() -> None:
    def late(name: str, timeout_s: float) -> list[str]:
        raise TimeoutError

    def unknown(name: str, timeout_s: float) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    conf = options.load(overrides={"child_networks": ["loopback"]})
    for resolver, code in ((late, "child_timeout"), (unknown, "child_unreachable")):
        transport = HttpTransport.from_conf(conf, SystemClock(), resolver=resolver)
        assert failure(transport, f"http://{NAME}:7001") == code


def test_a_name_leads_to_its_first_address_that_answers_and_is_still_the_host() -> None:
    seen = []

    def talk(peer: Conversation) -> None:
        seen.append(peer.read_request())
        peer.say(answer(b"1"))

    transport = a_transport(addresses=("127.0.0.2", "127.0.0.1"))
    with RawServer(talk) as server:
        assert get(transport, f"http://{NAME}:{server.port}").body == b"1"

        assert f"Host: {NAME}:{server.port}".encode() in seen[0]
    transport.close()


def test_the_environment_changes_nothing(
    transport: Sender, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with RawServer(says(answer(b"proxied"))) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        requests = []

        def talk(peer: Conversation) -> None:
            requests.append(peer.read_request())
            peer.say(answer(b"direct", "200 OK", "Set-Cookie: a=b"))
            requests.append(peer.read_request())
            peer.say(answer(b"direct"))

        with RawServer(talk) as server:
            assert [get(transport, server.url).body for _ in range(2)] == [b"direct", b"direct"]
        assert proxy.accepted == 0
    assert all(b"Authorization" not in request and b"Cookie" not in request for request in requests)


def test_many_threads_share_the_connections(transport: Sender) -> None:
    def talk(peer: Conversation) -> None:
        while request := peer.read_request():
            peer.say(answer(request.split(b" ")[1]))

    wrong: list[int] = []

    def many(number: int) -> None:
        for turn in range(50):
            path = f"/{number}-{turn}"
            reply = transport.send(Call("GET", server.url + path, {}), TIMEOUT_S, MAX_BYTES)
            if reply.body != path.encode():
                wrong.append(number)

    with RawServer(talk) as server:
        threads = [threading.Thread(target=many, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        transport.close()

        assert wrong == []


@dataclass
class Hanging:
    """A peer that reads a request, answers nothing, and notes that its caller has left."""

    was_asked: threading.Event = field(default_factory=threading.Event)
    was_left: threading.Event = field(default_factory=threading.Event)

    def __call__(self, peer: Conversation) -> None:
        peer.read_request()
        self.was_asked.set()
        # What TLS has sent meanwhile was not read: its caller may reset the connection.
        with suppress(ConnectionError):
            peer.read(1)
        self.was_left.set()


def leave(transport: Sender, url: str, peer: Hanging) -> None:
    with pytest.raises(ChildUnreachable) as failed:
        call = Call("GET", f"{url}/zones/info", {}, is_wanted=lambda: not peer.was_asked.is_set())
        transport.send(call, TIMEOUT_S, MAX_BYTES)
    assert failed.value.code == "child_timeout"
    assert peer.was_left.wait(30)


def test_a_call_whose_answer_nobody_wants_ends_and_its_connection_is_closed(transport: Sender) -> None:
    peer = Hanging()
    with RawServer(peer) as server:
        leave(transport, server.url, peer)


def test_a_tls_call_whose_answer_nobody_wants_ends_and_its_connection_is_closed(authority: Authority) -> None:
    transport, peer = a_transport(str(authority.ca_file)), Hanging()
    context = authority.server_context(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    with RawServer(peer, context) as server:
        leave(transport, server.url, peer)
    transport.close()


def test_a_late_answer_over_tls_arrives_in_one_piece(authority: Authority) -> None:
    transport = a_transport(str(authority.ca_file))
    context = authority.server_context(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))

    def talk(peer: Conversation) -> None:
        peer.read_request()
        whole = answer(b"x" * 50_000)
        peer.say_later(whole[:20_000], 2 * LOOK_S)
        peer.say_later(whole[20_000:], 2 * LOOK_S)

    with RawServer(talk, context) as server:
        assert get(transport, server.url).body == b"x" * 50_000
    transport.close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_tls_is_verified_for_the_name_although_the_address_is_connected_to(authority: Authority) -> None:
    transport = a_transport(str(authority.ca_file))
    with RawServer(says(answer(b"1"), answer(b"2")), authority.server_context(x509.DNSName(NAME))) as server:
        bodies = [get(transport, f"https://{NAME}:{server.port}").body for _ in range(2)]

        assert (bodies, server.accepted) == ([b"1", b"2"], 1)
    transport.close()


def test_tls_is_verified_for_an_address(authority: Authority) -> None:
    transport = a_transport(str(authority.ca_file))
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    with RawServer(says(answer(b"1")), authority.server_context(address)) as server:
        assert get(transport, server.url).body == b"1"
    transport.close()


def test_a_certificate_for_another_name_or_from_another_authority_is_refused(
    authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other")
    seen = []

    def talk(peer: Conversation) -> None:
        seen.append(peer.read_request())

    for trusted, name in ((authority, "other.example.org"), (stranger, NAME)):
        transport = a_transport(str(trusted.ca_file))
        with RawServer(talk, authority.server_context(x509.DNSName(name))) as server:
            assert failure(transport, f"https://{NAME}:{server.port}") == "child_tls_failed"
    assert not any(seen)


def test_an_expired_certificate_is_told_from_a_child_that_is_away(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    transport = a_transport(str(authority.ca_file))
    expired = authority.server_context(x509.DNSName(NAME), lasts=-HOUR / 2)
    with RawServer(says(answer(b"1")), expired) as server:
        url = f"https://{NAME}:{server.port}"

        assert failure(transport, url) == "child_tls_failed"
        # Polls go on, and say nothing more.
        assert failure(transport, url) == "child_tls_failed"
    assert caplog.text.count(f"the child zone at {url} is not reached by TLS: certificate has expired") == 1


def test_a_child_that_stops_in_a_handshake_is_away(authority: Authority) -> None:
    transport = a_transport(str(authority.ca_file))
    with RawServer(lambda peer: None) as server:
        assert failure(transport, f"https://{NAME}:{server.port}") == "child_unreachable"


def test_without_a_ca_file_a_private_authority_is_not_trusted(authority: Authority) -> None:
    transport = a_transport()
    with RawServer(says(answer(b"1")), authority.server_context(x509.DNSName(NAME))) as server:
        assert failure(transport, f"https://{NAME}:{server.port}") == "child_tls_failed"


@pytest.mark.parametrize("talk", SLOW_TALKS)
def test_a_call_over_tls_ends_in_time_too(authority: Authority, talk: Callable[[Conversation], None]) -> None:
    transport = a_transport(str(authority.ca_file))
    with RawServer(talk, authority.server_context(x509.DNSName(NAME))) as server:
        started = time.monotonic()

        assert failure(transport, f"https://{NAME}:{server.port}", SHORT_S) == "child_timeout"
        assert time.monotonic() - started < LATE_S


def test_a_handshake_that_drips_ends_in_time(authority: Authority) -> None:
    transport = a_transport(str(authority.ca_file))
    hello = b"\x16\x03\x03\x40\x00" + bytes(16384)
    with RawServer(lambda peer: peer.drip(hello, pause_s=0.02)) as server:
        started = time.monotonic()

        assert failure(transport, f"https://{NAME}:{server.port}", SHORT_S) == "child_timeout"
        assert time.monotonic() - started < LATE_S


def test_https_to_a_port_that_speaks_http_is_no_tls(transport: Sender) -> None:
    with RawServer(lambda peer: peer.say(answer(b"1"))) as server:
        assert failure(transport, f"https://127.0.0.1:{server.port}") == "child_tls_failed"


@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_a_ca_file_that_cannot_be_used_names_the_option(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)

    with pytest.raises(ConfigError, match="child_ca_file"):
        a_transport(str(path))


def test_credentials_are_not_printed() -> None:
    call = Call("GET", "https://zone.example.org", {"Authorization": "Basic c2VjcmV0"}, b"body")

    assert "c2VjcmV0" not in repr(call)
