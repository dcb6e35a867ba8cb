"""An attack by an admin of a zone: calls through the zone into its network."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from .attack import Attack
from .attacker import Attacker


def child_urls(attacker: Attacker) -> None:
    """Register addresses of the zone's own machine and network as child zones, in many spellings."""
    canary = socket.create_server(("127.0.0.1", 0))
    port = canary.getsockname()[1]
    calls: list[object] = []

    def listen() -> None:
        with suppress(OSError):
            while True:
                calls.append(canary.accept())

    threading.Thread(target=listen, daemon=True).start()
    hosts = [
        "127.0.0.1",
        "localhost",
        "127.1",
        "0x7f000001",
        "2130706433",
        "0177.0.0.1",
        "127.0.0.1.",
        "[::1]",
    ]
    hosts += [
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "0.0.0.0",
        "[::]",
        "169.254.169.254",
        "[fe80::1]",
        "127.0.0.1%00",
    ]
    hosts += [
        "user@127.0.0.1",
        "example.org@127.0.0.1",
        "localhost.localdomain",
        "\uff11\uff12\uff17.0.0.1",
        "224.0.0.1",
    ]
    forms = [
        "http://{}:{}/",
        "https://{}:{}/",
        "http://{}:{}/../zones",
        "//{}:{}",
        "gopher://{}:{}/",
        "file:///etc/passwd#{}{}",
    ]

    def step(number: int) -> None:
        url = attacker.rng.choice(forms).format(attacker.rng.choice(hosts), port)
        zone = {"name": "ssrf", "api_url": url, "username": "u", "password": "p"}
        answer = attacker.call("POST", "/zones", {"zone": zone})
        attacker.expect(answer.status in (0, 400, 503), f"the child {url} is a {answer.status}")
        attacker.expect(not calls, f"the zone called {url}")

    attacker.at_once(4, step)
    # A thread that waits in accept is woken by this alone.
    canary.shutdown(socket.SHUT_RDWR)
    canary.close()


ATTACKS = (
    Attack("admin-child-urls", "registers children at addresses of the zone's own network", child_urls),
)
