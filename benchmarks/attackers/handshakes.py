"""Attacks by a stranger on the handshakes of zones that serve https."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from .attack import Attack
from .attacker import Attacker
from .stranger import MANY

BURST = 100
"""Handshakes that begin at the same moment."""

MAX_RECORD = 16_384


def hello(attacker: Attacker) -> bytes:
    """Return the first message of a handshake, as a client sends it."""
    near, far = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = attacker.tls().wrap_bio(near, far, server_hostname="127.0.0.1")
    with suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return far.read()


@contextmanager
def connected(attacker: Attacker, count: int) -> Iterator[list[socket.socket]]:
    """Open connections that have said nothing."""
    with ExitStack() as stack:
        made: list[socket.socket] = []
        for _ in range(count):
            with suppress(OSError):
                made.append(stack.enter_context(attacker.raw_socket()))
            if attacker.is_over:
                break
        yield made


def _send(sockets: list[socket.socket], text: bytes) -> None:
    for one in sockets:
        with suppress(OSError):
            one.sendall(text)


def held_handshakes(attacker: Attacker) -> None:
    """Begin handshakes, of which the zone has done its half, and end none."""
    with connected(attacker, 2 * MANY) as sockets:
        _send(sockets, hello(attacker))
        attacker.pause(attacker.left_s)


def slow_handshakes(attacker: Attacker) -> None:
    text = hello(attacker)
    with connected(attacker, MANY) as sockets:
        for place in range(len(text)):
            if attacker.is_over:
                return
            _send(sockets, text[place : place + 1])
            attacker.pause(0.1)


def many_handshakes(attacker: Attacker) -> None:
    """Shake hands as fast as the zone can, and ask for nothing."""
    attacker.at_once(8, lambda number: attacker.socket().close())


def bursts(attacker: Attacker) -> None:
    """Have many handshakes begin at once, which costs the zone a signature each, and leave."""
    text = hello(attacker)
    while not attacker.is_over:
        with connected(attacker, BURST) as sockets:
            _send(sockets, text)


def broken_records(attacker: Attacker) -> None:
    """Send what looks like TLS and is none."""
    text = hello(attacker)

    def step(number: int) -> None:
        place = attacker.rng.randrange(len(text))
        texts = [
            text[:place] + attacker.rng.randbytes(8) + text[place + 8 :],
            b"\x16\x03\x01\xff\xff" + b"\x01" * 65_535,
            b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + b"\x00" * (MAX_RECORD - 4),
            b"\x16\x03\x01\x00\x00" * 2_000,
            b"\x15\x03\x03\x00\x02\x01\x00" * 2_000,
            b"\x14\x03\x03\x00\x01\x01" * 2_000,
            text + text + text,
            text + b"\x17\x03\x03\x40\x00" + attacker.rng.randbytes(MAX_RECORD),
            b"GET /health HTTP/1.1\r\nHost: zone\r\n\r\n",
            attacker.rng.randbytes(20_000),
        ]
        with attacker.raw_socket(timeout_s=1.0) as sock:
            sock.sendall(attacker.rng.choice(texts))
            attacker.look_at(sock.recv(65_536))

    attacker.at_once(4, step)


def broken_sessions(attacker: Attacker) -> None:
    """Shake hands, then send records that nobody can decrypt."""

    def step(number: int) -> None:
        with attacker.socket(timeout_s=1.0) as sock:
            sock.sendall(b"GET /health HTTP/1.1\r\nHost: zone\r\n\r\n")
            raw = socket.socket(fileno=sock.detach())
        with raw:
            size = attacker.rng.choice([0, 1, 17, MAX_RECORD])
            raw.sendall(b"\x17\x03\x03" + size.to_bytes(2) + attacker.rng.randbytes(size))
            while raw.recv(65_536):
                pass

    attacker.at_once(4, step)


ATTACKS = (
    Attack(
        "stranger-held-handshakes", "begins 800 TLS handshakes and ends none", held_handshakes, on_tls=True
    ),
    Attack("stranger-slow-handshakes", "sends 400 TLS handshakes byte by byte", slow_handshakes, on_tls=True),
    Attack("stranger-many-handshakes", "shakes hands as fast as the zone can", many_handshakes, on_tls=True),
    Attack("stranger-bursts-of-handshakes", f"has {BURST} TLS handshakes begin at once", bursts, on_tls=True),
    Attack("stranger-broken-records", "sends TLS records that are none", broken_records, on_tls=True),
    Attack(
        "stranger-broken-sessions",
        "sends records that cannot be decrypted after a handshake",
        broken_sessions,
        on_tls=True,
    ),
)
