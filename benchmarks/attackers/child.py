"""Attacks by a child zone: how it answers, while an accomplice makes the zone above ask it."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from .attack import Attack
from .attacker import Attacker
from .child_server import CONTROL
from .member import BOOT, boot_form, clean_up, dry_run

ACCOMPLICES = 4


def behave(attacker: Attacker, mood: str) -> dict[str, Any]:
    """Set how the played child behaves; return what it has heard until then."""
    where = urlsplit(attacker.scene.child_url)
    connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=10)
    try:
        connection.request("PUT", CONTROL + mood)
        told: dict[str, Any] = json.loads(connection.getresponse().read())
        return told
    finally:
        connection.close()


def be(mood: str, *, boots: bool = False) -> Callable[[Attacker], None]:
    """Behave in this way until the time is over, and honestly afterwards.

    With `boots`, the accomplice boots; else it asks for selects alone.
    """

    def attack(attacker: Attacker) -> None:
        def step(number: int) -> None:
            if boots:
                attacker.call("POST", BOOT, boot_form(5), zone="root", login="member")
                attacker.pause(0.1)
            attacker.call("POST", BOOT, dry_run(20), zone="root", login="member")
            attacker.pause(0.02)

        behave(attacker, mood)
        try:
            attacker.at_once(ACCOMPLICES, step)
        finally:
            with suppress(OSError):
                attacker.leaks |= set(behave(attacker, "honest")["leaks"])

    return attack


def leave(attacker: Attacker) -> None:
    """Delete the accomplice's instances."""
    time.sleep(0.1)
    clean_up(attacker)


def _attack(mood: str, does: str, *, boots: bool = False, is_silent: bool = False) -> Attack:
    return Attack(f"child-{mood}", does, be(mood, boots=boots), is_silent=is_silent)


ATTACKS = (
    _attack("large", "answers with 60 MiB of small values"),
    _attack("large-info", "reports 60 MiB about itself"),
    _attack("dripping", "answers a byte at a time", is_silent=True),
    _attack("silent", "never answers", boots=True, is_silent=True),
    _attack("heads", "sends headers without end"),
    _attack("one-head", "sends one header without end"),
    _attack("early-hints", "sends 100 Continue without end"),
    _attack("chunks", "sends chunks without end"),
    _attack("wrong-chunks", "sends chunks that are none"),
    _attack("redirects", "redirects to an address of the zone's own network"),
    _attack("deep", "answers with a million nested lists"),
    _attack("quotes", "answers with a string of escaped quotes without an end"),
    _attack("nan", "offers NaN and infinity"),
    _attack("wrong-types", "offers weights of wrong types"),
    _attack("large-weights", "offers weights of 2^53 and above"),
    _attack("more-than-asked", "offers more entries than were asked for"),
    _attack("wrong-sizes", "offers blobs of several and of too large sizes"),
    _attack("duplicate-blobs", "offers one blob twice"),
    _attack("gzip", "answers with a gzip bomb"),
    _attack("absurd-ranges", "reports ranges beyond every number"),
    _attack("wide-ranges", "reports the widest ranges that are allowed"),
    _attack("growing-blobs", "claims blobs of 64 KiB"),
    _attack("many-traits", "reports 200,000 traits"),
    _attack("empty-pages", "reports pages without changes, for ever"),
    _attack("one-cursor", "reports changes under one cursor, for ever"),
    _attack("new-lines", "reports changes of unknown instances, for ever"),
    _attack("others-instances", "reports changes of other children's instances", boots=True),
    _attack("confirms-cancels", "answers a cancel with confirmed", boots=True),
    _attack("holds-and-forgets", "holds, and has lost each hold at its confirm", boots=True),
    _attack("refuses-builds", "makes the best offers and refuses each build", boots=True),
    _attack("pending", "answers every build with pending", boots=True),
    _attack("wrong-answers", "answers for other instances than it was asked for", boots=True),
    _attack("server-errors", "answers 500 with an absurd Retry-After", boots=True),
    _attack("busy", "answers 503 with an absurd Retry-After", boots=True),
)
