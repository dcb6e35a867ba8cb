"""A TCP server that says exactly what a test tells it to, byte for byte, over TLS if wanted."""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Talk = Callable[["Conversation"], None]
HOUR = datetime.timedelta(hours=1)
HEAD_OF_1000 = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
"""Head of an answer of 1,000 bytes."""


class Conversation:
    """One connection that was accepted; `number` counts them from 1."""

    def __init__(self, sock: socket.socket, number: int, over: threading.Event) -> None:
        self.number = number
        self._sock = sock
        self._over = over

    def read_request(self) -> bytes:
        """The next whole request, b"" if the peer has closed."""
        head = b""
        while b"\r\n\r\n" not in head:
            piece = self._sock.recv(65536)
            if not piece:
                return b""
            head += piece
        start, _, body = head.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in start.split(b"\r\n") if line.lower().startswith(b"content-length:")),
            0,
        )
        while len(body) < length:
            piece = self._sock.recv(65536)
            if not piece:
                return b""
            body += piece
        return start + b"\r\n\r\n" + body

    def read(self, count: int) -> bytes:
        """The next bytes, at most so many."""
        return self._sock.recv(count)

    def say(self, content: bytes) -> None:
        self._sock.sendall(content)

    def drip(self, content: bytes, pause_s: float) -> None:
        """One byte at a time, until the test is over."""
        for byte in content:
            if self._over.wait(pause_s):
                return
            self._sock.sendall(bytes([byte]))

    def reset(self, after_s: float) -> None:
        """Break the connection off, once what was said has had time to arrive."""
        self._over.wait(after_s)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()

    def say_later(self, content: bytes, after_s: float) -> None:
        self._over.wait(after_s)
        self.say(content)

    def hang(self) -> None:
        """Say nothing until the test is over."""
        self._over.wait(30)


class RawServer:
    """Listens on loopback and gives each connection to `talk`, on a thread of its own."""

    def __init__(self, talk: Talk, tls: ssl.SSLContext | None = None) -> None:
        self.accepted = 0
        self._accepted: list[socket.socket] = []
        self._talk = talk
        self._tls = tls
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> RawServer:
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        # Nothing more is accepted before the connections are ended: a late one would outlive the test.
        self._end([self._listener])
        self._listener.close()
        self._threads[0].join(5)
        self._end(self._accepted)
        for thread in self._threads:
            thread.join(5)

    def _end(self, sockets: list[socket.socket]) -> None:
        for sock in sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            self._accepted.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock, self.accepted), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket, number: int) -> None:
        with sock:
            sock.settimeout(10)
            try:
                if self._tls is None:
                    self._talk(Conversation(sock, number, self._over))
                    return
                with self._tls.wrap_socket(sock, server_side=True) as secured:
                    self._accepted.append(secured)
                    self._talk(Conversation(secured, number, self._over))
            except OSError:
                return


def answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """A plain HTTP answer with its right length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def drips_its_head(peer: Conversation) -> None:
    """Answer with a head, slowly, byte by byte."""
    peer.read_request()
    peer.drip(HEAD_OF_1000, pause_s=0.02)


def drips_its_body(peer: Conversation) -> None:
    """Answer at once with a head, and then with a body, slowly, byte by byte."""
    peer.read_request()
    peer.say(HEAD_OF_1000)
    peer.drip(bytes(1000), pause_s=0.02)


class Authority:
    """A CA made for one test; `ca_file` is what a client trusts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test's own CA")])
        self._certificate = self._sign(self._name, self._key.public_key(), ca=True, names=[], lasts=HOUR)
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def server_context(self, *names: x509.GeneralName, lasts: datetime.timedelta = HOUR) -> ssl.SSLContext:
        """A server's TLS with a certificate for these names."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server_pem(*names, lasts=lasts))
        return context

    def server_pem(self, *names: x509.GeneralName, lasts: datetime.timedelta = HOUR) -> Path:
        """A file with a new key and a certificate for these names; a negative `lasts`: it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a child")])
        certificate = self._sign(subject, key.public_key(), ca=False, names=list(names), lasts=lasts)
        path = self._folder / "server.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        return path

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        *,
        ca: bool,
        names: list[x509.GeneralName],
        lasts: datetime.timedelta,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        usage = x509.KeyUsage(True, False, False, False, False, ca, ca, False, False)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - HOUR)
            .not_valid_after(now + lasts)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())
