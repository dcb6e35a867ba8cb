"""TLS of one connection: it never blocks, whatever the other side sends, and whenever."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography import x509

from tests.builders.raw_server import Authority
from zonesched import conf as options
from zonesched.errors import ConfigError
from zonesched.seams import SystemClock
from zonesched.serving.tls import server_context
from zonesched.serving.tls_socket import TlsConnectionSocket

NAME = "zone.example.org"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pem(authority: Authority) -> Path:
    return authority.server_pem(x509.DNSName(NAME))


@dataclass
class Client:
    """The other end: TLS in memory, so that a test says which bytes go over the wire, and when."""

    wire: socket.socket
    context: ssl.SSLContext
    arrived: ssl.MemoryBIO = field(default_factory=ssl.MemoryBIO)
    leaving: ssl.MemoryBIO = field(default_factory=ssl.MemoryBIO)

    def __post_init__(self) -> None:
        self.wire.settimeout(10)
        self.tls = self.context.wrap_bio(self.arrived, self.leaving, server_hostname=NAME)

    def hello(self) -> bytes:
        """The first bytes of a handshake."""
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.leaving.read()

    def finish(self) -> None:
        """Take the server's answer, and send the end of the handshake."""
        self.arrived.write(self.wire.recv(65536))
        self.tls.do_handshake()
        self.wire.sendall(self.leaving.read())

    def records(self, plain: bytes) -> bytes:
        self.tls.write(plain)
        return self.leaving.read()

    def read(self) -> bytes:
        self.arrived.write(self.wire.recv(65536))
        return self.tls.read(65536)


@dataclass
class Pair:
    server: TlsConnectionSocket
    client: Client

    def shake_hands(self) -> None:
        self.client.wire.sendall(self.client.hello())
        assert nothing_yet(self.server)
        self.client.finish()
        assert nothing_yet(self.server)


def nothing_yet(server: TlsConnectionSocket) -> bool:
    with pytest.raises(BlockingIOError):
        server.recv(65536)
    return True


@pytest.fixture
def pair(authority: Authority, pem: Path) -> Iterator[Pair]:
    conf = options.load(overrides={"tls_certificate_file": str(pem)})
    near, far = socket.socketpair()
    server = TlsConnectionSocket(near, SystemClock(), server_context(conf))
    trusting = ssl.create_default_context(cafile=str(authority.ca_file))
    with server, far:
        yield Pair(server, Client(far, trusting))


def test_a_request_after_a_handshake_is_read_and_its_answer_encrypted(pair: Pair) -> None:
    pair.shake_hands()
    pair.client.wire.sendall(pair.client.records(b"GET / HTTP/1.1\r\n\r\n"))

    assert pair.server.recv(65536) == b"GET / HTTP/1.1\r\n\r\n"

    pair.server.send(b"HTTP/1.1 200 OK\r\n\r\n")
    assert pair.client.read() == b"HTTP/1.1 200 OK\r\n\r\n"


def test_a_handshake_and_a_request_byte_by_byte_never_block(pair: Pair) -> None:
    for byte in pair.client.hello():
        pair.client.wire.sendall(bytes([byte]))
        assert nothing_yet(pair.server)
    pair.client.finish()
    assert nothing_yet(pair.server)
    *first, last = pair.client.records(b"hello")
    for byte in first:
        pair.client.wire.sendall(bytes([byte]))
        assert nothing_yet(pair.server)

    pair.client.wire.sendall(bytes([last]))

    assert pair.server.recv(65536) == b"hello"


def test_all_records_that_have_arrived_are_read_at_once(pair: Pair) -> None:
    """The loop waits for the network; records that were left inside would never wake it."""
    pair.shake_hands()
    many = [b"%05d" % number for number in range(200)]
    pair.client.wire.sendall(b"".join(map(pair.client.records, many)))

    assert pair.server.recv(10) == b"".join(many)


def test_a_request_right_behind_the_handshake_is_not_left_inside(pair: Pair) -> None:
    pair.client.wire.sendall(pair.client.hello())
    assert nothing_yet(pair.server)
    pair.client.arrived.write(pair.client.wire.recv(65536))
    pair.client.tls.do_handshake()
    end_of_handshake = pair.client.leaving.read()
    pair.client.wire.sendall(end_of_handshake + pair.client.records(b"at once"))

    assert pair.server.recv(65536) == b"at once"


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\nHost: zone\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 500]
)
def test_what_is_not_tls_is_an_error(pair: Pair, sent: bytes) -> None:
    pair.client.wire.sendall(sent)

    with pytest.raises(ssl.SSLError):
        while True:
            pair.server.recv(65536)


def test_nothing_is_sent_before_the_end_of_the_handshake(pair: Pair) -> None:
    with pytest.raises(OSError, match="handshake"):
        pair.server.send(b"HTTP/1.1 503 Busy\r\n\r\n")


def test_an_answer_that_the_other_side_does_not_take_is_kept(pair: Pair) -> None:
    pair.shake_hands()

    pair.server.send(b"x" * 4_000_000)

    assert pair.server.unsent_bytes > 1_000_000


def test_the_end_of_a_session_is_an_end(pair: Pair) -> None:
    pair.shake_hands()
    last = pair.client.records(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        pair.client.tls.unwrap()
    pair.client.wire.sendall(last + pair.client.leaving.read())

    assert pair.server.recv(65536) == b"last"

    pair.server.shutdown(socket.SHUT_WR)
    while piece := pair.client.wire.recv(65536):
        pair.client.arrived.write(piece)
    pair.client.tls.unwrap()


@pytest.mark.parametrize("shows", [True, False])
def test_a_certificate_of_the_caller_is_verified_where_it_shows_one(
    authority: Authority, pem: Path, shows: bool
) -> None:
    conf = options.load(
        overrides={"tls_certificate_file": str(pem), "tls_client_ca_file": str(authority.ca_file)}
    )
    near, far = socket.socketpair()
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    if shows:
        context.load_cert_chain(pem)
    with TlsConnectionSocket(near, SystemClock(), server_context(conf)) as server, far:
        Pair(server, Client(far, context)).shake_hands()

        assert server.has_client_certificate is shows


def test_a_certificate_of_another_authority_is_refused(
    authority: Authority, pem: Path, tmp_path: Path
) -> None:
    conf = options.load(
        overrides={"tls_certificate_file": str(pem), "tls_client_ca_file": str(authority.ca_file)}
    )
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    context.load_cert_chain(Authority(tmp_path).server_pem(x509.DNSName("stranger.example.org")))
    near, far = socket.socketpair()
    with TlsConnectionSocket(near, SystemClock(), server_context(conf)) as server, far:
        client = Client(far, context)
        far.sendall(client.hello())
        assert nothing_yet(server)
        client.finish()

        with pytest.raises(ssl.SSLError):
            server.recv(65536)


@pytest.mark.parametrize(
    ("changed", "option"),
    [
        ({"tls_certificate_file": "/nowhere/zone.pem"}, "tls_certificate_file"),
        ({"tls_client_ca_file": "/nowhere/ca.pem"}, "tls_client_ca_file"),
    ],
)
def test_files_that_cannot_be_used_are_named(pem: Path, changed: dict[str, str], option: str) -> None:
    conf = options.load(overrides={"tls_certificate_file": str(pem), **changed})

    with pytest.raises(ConfigError, match="/nowhere/") as refused:
        server_context(conf)

    assert refused.value.field == option


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("tls_key_file", "tls_certificate_file"),
        ("tls_client_ca_file", "tls_certificate_file"),
        ("child_key_file", "child_certificate_file"),
    ],
)
def test_an_option_that_needs_another_one_is_refused_alone(name: str, needed: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is set without {needed}"):
        options.load(overrides={name: "/some/file.pem"})
