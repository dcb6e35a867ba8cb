"""Attacks by a stranger: somebody without credentials who reaches the zone's port."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .attack import Attack
from .attacker import Attacker, basic

HEAD = b"Host: zone\r\nContent-Type: application/json\r\n"
MANY = 400
"""Connections that are held at once: below the files that one process may open."""


@contextmanager
def held(attacker: Attacker, count: int, first: bytes) -> Iterator[list[socket.socket]]:
    """Open connections that have each sent `first`."""
    made: list[socket.socket] = []
    try:
        for _ in range(count):
            with suppress(OSError):
                made.append(attacker.socket())
                made[-1].sendall(first)
            if attacker.is_over:
                break
        yield made
    finally:
        for one in made:
            one.close()


def drip(attacker: Attacker, count: int, first: bytes, drop: bytes, pause_s: float = 0.1) -> None:
    """Hold connections and send a drop to each, again and again."""
    with held(attacker, count, first) as sockets:
        while not attacker.is_over:
            for one in sockets:
                with suppress(OSError):
                    one.send(drop)
            attacker.pause(pause_s)


def say(attacker: Attacker, *texts: bytes) -> bytes:
    """Send bytes over a new connection and read what comes back within a short time."""
    found = b""
    with suppress(OSError), attacker.socket(timeout_s=1.0) as sock:
        for text in texts:
            sock.sendall(text)
        while piece := sock.recv(65536):
            found += piece
            if len(found) > 2**20 or attacker.is_over:
                break
            if not select.select([sock], [], [], 0.05)[0]:
                break
    attacker.look_at(found)
    if found.startswith(b"HTTP/1.1 500"):
        attacker.broke(f"malformed HTTP is a 500: {b''.join(texts)[:60]!r}")
    return found


def connection_flood(attacker: Attacker) -> None:
    def step(number: int) -> None:
        with held(attacker, 50, b"") as sockets:
            for one in sockets[::2]:
                with suppress(OSError):
                    one.send(b"GET /health HTTP/1.1\r\nHost: zone\r\n\r\n")

    attacker.at_once(4, step)


def held_connections(attacker: Attacker) -> None:
    with held(attacker, 2 * MANY, b""):
        attacker.pause(attacker.left_s)


def slow_heads(attacker: Attacker) -> None:
    drip(attacker, MANY, b"GET /health HTTP/1.1\r\nX-Slow: ", b"x")


def slow_ends_of_heads(attacker: Attacker) -> None:
    """Each byte is looked for in a head that has thousands of lines already."""
    drip(attacker, MANY, b"GET /health HTTP/1.1\r\n" + b"a:\r\n" * 7_000, b"a", pause_s=0.001)


def slow_bodies(attacker: Attacker) -> None:
    drip(attacker, MANY, b"POST /servers HTTP/1.1\r\n" + HEAD + b"Content-Length: 30000\r\n\r\n{", b" ")


def slow_chunks(attacker: Attacker) -> None:
    first = b"POST /servers HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    drip(attacker, MANY, first, b"1\r\n \r\n")


def never_reads(attacker: Attacker) -> None:
    """Ask for the largest open answer, many times per connection, and read nothing."""
    question = b"GET /openapi.json HTTP/1.1\r\nHost: zone\r\n\r\n"
    with held(attacker, 96, question * 20) as sockets:
        for one in sockets:
            one.setblocking(False)
        while not attacker.is_over:
            for one in sockets:
                with suppress(OSError):
                    one.send(question * 20)
            attacker.pause(0.05)


def reads_slowly(attacker: Attacker) -> None:
    question = b"GET /openapi.json HTTP/1.1\r\nHost: zone\r\n\r\n"
    with held(attacker, 96, question * 4) as sockets:
        while not attacker.is_over:
            for one in select.select(sockets, [], [], 0)[0]:
                with suppress(OSError):
                    one.recv(64)
            attacker.pause(0.02)


def many_questions(attacker: Attacker) -> None:
    """Pipeline small questions and read the answers, as fast as the zone can."""
    question = b"GET /health HTTP/1.1\r\nHost: zone\r\n\r\n"

    def step(number: int) -> None:
        with attacker.socket() as sock:
            while not attacker.is_over:
                sock.sendall(question * 50)
                if not sock.recv(65536):
                    return

    attacker.at_once(8, step)


def large_heads(attacker: Attacker) -> None:
    lines = [
        b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: zone\r\n\r\n",
        b"GET /health?" + b"a=1&" * 4000 + b" HTTP/1.1\r\nHost: zone\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: zone\r\nX-Large: " + b"a" * 1_000_000 + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + b"X-Many: a\r\n" * 20_000 + b"\r\n",
        b"GET /health HTTP/1.1\r\nHost: zone\r\nAuthorization: Basic " + b"A" * 60_000 + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: zone\r\nCookie: " + b"a=b;" * 8_000 + b"\r\n\r\n",
    ]
    attacker.at_once(4, lambda number: say(attacker, attacker.rng.choice(lines)))


def malformed_chunks(attacker: Attacker) -> None:
    head = b"POST /servers HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    chunks = [
        b"0x\r\n",
        b"-1\r\n",
        b"5\nabcde\n0\n\n",
        b"ffffffffffffffff\r\n",
        b"5;" + b"x" * 30_000 + b"\r\nabcde\r\n0\r\n\r\n",
        b"5\r\nabcdeXX0\r\n\r\n",
        b"0\r\nX-Trailer: " + b"y" * 30_000 + b"\r\n\r\n",
        b"1\r\n{\r\n" * 5_000 + b"0\r\n\r\n",
    ]
    attacker.at_once(4, lambda number: say(attacker, head, attacker.rng.choice(chunks)))


def two_lengths(attacker: Attacker) -> None:
    """Requests whose end two readers may see in two places."""
    smuggled = b"GET /users HTTP/1.1\r\nHost: zone\r\n\r\n"
    heads = [
        b"POST /servers HTTP/1.1\r\n" + HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /servers HTTP/1.1\r\n" + HEAD + b"Content-Length: 4\r\nContent-Length: 40\r\n\r\n",
        b"POST /servers HTTP/1.1\r\n" + HEAD + b"Content-Length: +4\r\n\r\n",
        b"POST /servers HTTP/1.1\r\n" + HEAD + b"Content-Length: -1\r\n\r\n",
        b"POST /servers HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: xchunked\r\n\r\n",
        b"POST /servers HTTP/1.1\r\n" + HEAD + b" Content-Length: 4\r\n\r\n",
        b"GET /health HTTP/9.9\r\nHost: zone\r\n\r\n",
    ]

    def step(number: int) -> None:
        said = say(attacker, attacker.rng.choice(heads), b"0\r\n\r\n" + smuggled)
        attacker.expect(b'"users": [' not in said, "a smuggled request was answered")

    attacker.at_once(4, step)


def no_http(attacker: Attacker) -> None:
    texts = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00" * 20_000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ]
    texts += [attacker.rng.randbytes(5_000), b"\r\n" * 20_000, b"GET\r\n\r\n", b"SSH-2.0-OpenSSH_9.0\r\n"]
    attacker.at_once(4, lambda number: say(attacker, attacker.rng.choice(texts)))


def wrong_passwords_of_one(attacker: Attacker) -> None:
    """Many connections that guess the password of one user who exists."""

    def step(number: int) -> None:
        guess = f"{number}-{attacker.rng.random()}"
        answer = attacker.call("GET", "/servers", login="person", password=guess, timeout_s=5.0)
        attacker.expect(answer.status in (0, 401, 429, 503), f"a wrong password is a {answer.status}")
        attacker.pause(0.01)

    attacker.at_once(48, step)


def wrong_passwords_of_many(attacker: Attacker) -> None:
    """Guess for users who do not exist, each once."""

    def step(number: int) -> None:
        pair = basic(f"user-{attacker.rng.randrange(10**9)}", "guess")
        answer = attacker.call("GET", "/servers", login="", headers=pair, timeout_s=5.0)
        attacker.expect(answer.status in (0, 401, 429, 503), f"an unknown user is a {answer.status}")
        attacker.pause(0.01)

    attacker.at_once(48, step)


def wrong_secrets_of_machines(attacker: Attacker) -> None:
    """Guess the generated secret of the parent zone and of an agent."""

    def step(number: int) -> None:
        login = ("parent", "agent")[number % 2]
        answer = attacker.call("GET", "/zones/info", login=login, password=f"{attacker.rng.random()}")
        attacker.expect(answer.status in (0, 401, 429, 503), f"a wrong secret is a {answer.status}")

    attacker.at_once(16, step)


def unknown_urls(attacker: Attacker) -> None:
    paths = [
        "/zones",
        "/users",
        "/audit",
        "/metrics",
        "/servers/detail",
        "/%00",
        "/..%2f..%2fetc/passwd",
        "/limits",
    ]
    paths += [
        "/zones/info",
        "/reservations",
        f"/servers/{attacker.scene.others['server']}",
        "/static/../users",
    ]
    methods = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD", "CONNECT", "X" * 200]

    def step(number: int) -> None:
        method, path = attacker.rng.choice(methods), attacker.rng.choice(paths)
        answer = attacker.call(method, path, login="", headers={"X-Zonesched-Role": "admin"})
        attacker.expect(answer.status not in range(200, 300), f"{method} {path} is a {answer.status}")

    attacker.at_once(8, step)


ATTACKS = (
    Attack("stranger-connection-flood", "opens and closes connections, 200 at a time", connection_flood),
    Attack("stranger-held-connections", "holds 800 connections that say nothing", held_connections),
    Attack("stranger-slow-heads", "sends the heads of 400 requests byte by byte", slow_heads),
    Attack("stranger-slow-ends", "sends the ends of 400 long heads byte by byte", slow_ends_of_heads),
    Attack("stranger-slow-bodies", "sends 400 bodies byte by byte", slow_bodies),
    Attack("stranger-slow-chunks", "sends 400 bodies in chunks of a byte", slow_chunks),
    Attack("stranger-never-reads", "pipelines questions for the largest answer and reads none", never_reads),
    Attack("stranger-reads-slowly", "reads such answers a few bytes at a time", reads_slowly),
    Attack(
        "stranger-many-questions", "pipelines small questions as fast as they are answered", many_questions
    ),
    Attack("stranger-large-heads", "sends URLs and headers of up to 1 MB", large_heads),
    Attack("stranger-malformed-chunks", "sends chunks that are none", malformed_chunks),
    Attack("stranger-two-lengths", "sends requests with two ends, to have one smuggled in", two_lengths),
    Attack("stranger-no-http", "sends TLS, HTTP/2, zeros and noise", no_http),
    Attack(
        "stranger-wrong-passwords-of-one", "guesses one user's password, 48 at a time", wrong_passwords_of_one
    ),
    Attack(
        "stranger-wrong-passwords-of-many", "guesses for users that do not exist", wrong_passwords_of_many
    ),
    Attack(
        "stranger-wrong-secrets", "guesses the secrets of a parent and an agent", wrong_secrets_of_machines
    ),
    Attack("stranger-unknown-urls", "calls everything without credentials", unknown_urls),
)
