"""Answers of a child zone, honest ones and others.

A mood gets the question and an event that ends it; it returns a whole answer, the pieces of one, or None to
answer honestly.
"""

from __future__ import annotations

import base64
import gzip
import itertools
import os
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from .child_server import Question, http_answer

Pieces = bytes | Iterable[bytes] | None
Mood = Callable[[Question, threading.Event], Pieces]

MIB = 2**20
ZONE_UUID = str(uuid.uuid4())
WORST = 2**53 - 1
CHUNK = b" " * 65_536
START = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

others: list[str] = []
"""Uuids of instances that other child zones have."""

victims: list[str] = []
"""Uuids that this child was asked to build; it speaks of them afterwards."""


def a_blob(size: int = 256) -> str:
    return base64.urlsafe_b64encode(os.urandom(size)).rstrip(b"=").decode()


def an_info(**changes: Any) -> dict[str, Any]:
    zone = {
        "name": "played",
        "uuid": ZONE_UUID,
        "zone_capabilities": [],
        "services": {"compute": {"VCPU": "4,64", "MEMORY_MB": "4096,131072", "DISK_GB": "100,5000"}},
        "weighers": {"RAMWeigher": "512.0,131072.0"},
        "traits": [],
        "availability_zones": [],
        "blob_size": 256,
        "can_seal": True,
        "complete": True,
    }
    return {"zone": {**zone, **changes}}


def an_offer(question: Question, weight: int = WORST, **changes: Any) -> dict[str, Any]:
    spec = question.body["request_spec"]
    entries = [{"weight": weight, "tie": 0, "blob": a_blob()} for _ in range(min(20, spec["num_instances"]))]
    told = {
        "version": 1,
        "weights": entries,
        "alternates": [],
        "bundles": [],
        "complete": True,
        "expires_in": 60.0,
    }
    if spec["policy"] == "affinity":
        told["weights"] = []
    return {**told, "why": [], "runs_out": [], **changes}


def builds(question: Question, state: str) -> dict[str, Any]:
    asked = question.body["server"]["builds"] if question.kind == "build" else question.body["builds"]
    lines = [
        {"uuid": b["uuid"], "attempt": b["attempt"], "state": state, "hold_s": 60.0, "reason": ""}
        for b in asked
    ]
    return {"builds": lines}


def honest(question: Question) -> Sequence[bytes]:
    match question.kind:
        case "info":
            return [http_answer(an_info())]
        case "select":
            return [http_answer(an_offer(question))]
        case "build":
            return [http_answer(builds(question, "failed"), "202 Accepted")]
        case "confirm" | "cancel":
            return [http_answer(builds(question, "gone"))]
        case "changes":
            return [http_answer(changes([], more=False))]
        case "audit":
            return [http_answer({"version": 1, "inconsistencies": [], "complete": True})]
    error = {"itemNotFound": {"code": 404, "message": "none", "error_code": "instance_not_found"}}
    return [http_answer(error, "404 Not Found")]


def changes(instances: Sequence[Mapping[str, Any]], *, more: bool, cursor: str = "c") -> dict[str, Any]:
    return {"instances": list(instances), "cursor": cursor, "more": more}


def a_change(name: str, status: str = "ACTIVE", state: str = "confirmed") -> dict[str, Any]:
    return {"uuid": name, "attempt": 1, "status": status, "state": state, "reason": ""}


def instead(kinds: str, answer: Callable[[Question], Pieces]) -> Mood:
    """Answer some kinds of calls like this, the others honestly."""
    listed = kinds.split()
    return lambda question, over: answer(question) if question.kind in listed else None


def endless(kinds: str, first: bytes, piece: bytes, pause_s: float = 0.0) -> Mood:
    """Begin an answer and never end it."""

    def pieces(over: threading.Event) -> Iterator[bytes]:
        yield first
        while not over.wait(pause_s):
            yield piece

    return lambda question, over: pieces(over) if question.kind in kinds.split() else None


def silent(kinds: str) -> Mood:
    def wait(over: threading.Event) -> Iterator[bytes]:
        over.wait(60)
        yield b""

    return lambda question, over: wait(over) if question.kind in kinds.split() else None


@cache
def _large() -> bytes:
    """60 MiB of small values."""
    return http_answer(b'{"zone":[' + b"[]," * (20 * MIB) + b"[]]}")


def prepare() -> None:
    """Make what takes a while, so that the child itself answers at once."""
    _large()


def offers(**changed: Callable[[Question], Any]) -> Mood:
    """Change members of an offer."""
    return instead(
        "select", lambda q: http_answer(an_offer(q, **{k: make(q) for k, make in changed.items()}))
    )


def entries(*weights: Any, size: int = 256, same: bool = False) -> Callable[[Question], list[dict[str, Any]]]:
    blob = a_blob(size)
    return lambda q: [{"weight": w, "tie": 0, "blob": blob if same else a_blob(size)} for w in weights]


def takes(question: Question, state: str) -> Pieces:
    """Offer the best weights, note what is to be built, and answer builds with `state`."""
    match question.kind:
        case "select":
            return http_answer(an_offer(question, weight=0))
        case "build":
            victims.extend(b["uuid"] for b in question.body["server"]["builds"])
            del victims[:-2000]
            return http_answer(builds(question, state), "202 Accepted")
    return None


def confirms_cancels(question: Question, over: threading.Event) -> Pieces:
    """Hold everything, confirm what is cancelled, and never let go of it."""
    if question.kind in ("confirm", "cancel"):
        return http_answer(builds(question, "confirmed"))
    return takes(question, "held")


def holds_and_forgets(question: Question, over: threading.Event) -> Pieces:
    if question.kind == "confirm":
        return http_answer(builds(question, "gone"))
    return takes(question, "held")


def refuses_builds(question: Question, over: threading.Event) -> Pieces:
    return takes(question, "failed")


def pending_for_ever(question: Question, over: threading.Event) -> Pieces:
    if question.kind in ("confirm", "cancel"):
        return http_answer(builds(question, "pending"))
    return takes(question, "pending")


_numbers = itertools.count()


def new_lines(question: Question, over: threading.Event) -> Pieces:
    """Changes of instances that nobody knows, for ever, each page with another cursor."""
    if question.kind != "changes":
        return None
    lines = [a_change(str(uuid.uuid4())) for _ in range(1000)]
    return http_answer(changes(lines, more=True, cursor=f"c{next(_numbers)}"))


def empty_pages(question: Question, over: threading.Event) -> Pieces:
    if question.kind != "changes":
        return None
    return http_answer(changes([], more=True, cursor=f"c{next(_numbers)}"))


def one_cursor(question: Question, over: threading.Event) -> Pieces:
    if question.kind != "changes":
        return None
    return http_answer(changes([a_change(str(uuid.uuid4()))], more=True, cursor="c"))


def others_instances(question: Question, over: threading.Event) -> Pieces:
    """Speak in the changes of every uuid ever seen, as deleted, failed and active."""
    if question.kind == "changes":
        pairs = (("DELETED", "confirmed"), ("ERROR", "failed"), ("ACTIVE", "confirmed"))
        lines = [a_change(name, *pair) for name in [*others, *victims[-300:]] for pair in pairs]
        return http_answer(changes(lines, more=False, cursor=f"c{next(_numbers)}"))
    return (
        takes(question, "held") if question.kind != "confirm" else http_answer(builds(question, "confirmed"))
    )


def wrong_answers(question: Question, over: threading.Event) -> Pieces:
    """Builds and confirms for other uuids, other attempts and unknown states."""
    if question.kind in ("build", "confirm", "cancel"):
        told = builds(question, "held")
        told["builds"] = [
            {**line, "uuid": str(uuid.uuid4()), "state": "running"} for line in told["builds"]
        ] * 2
        return http_answer(told, "202 Accepted" if question.kind == "build" else "200 OK")
    return takes(question, "held")


ALL = "info select build confirm cancel changes audit server"
WORK = "select build confirm cancel"
BOMB = gzip.compress(b" " * (100 * MIB))
NAN = b'{"version":1,"weights":[{"weight":NaN,"tie":0,"blob":"AAAA"}],"complete":true,"expires_in":1e999}'

MOODS: Mapping[str, Mood] = {
    "honest": lambda question, over: None,
    "large": instead("select changes audit", lambda q: _large()),
    "large-info": instead("info", lambda q: _large()),
    "dripping": endless(WORK, START + b"Content-Length: 1000000\r\n\r\n", b" ", 0.05),
    "silent": silent(WORK),
    "heads": endless("select info", b"HTTP/1.1 200 OK\r\n", b"X-More: " + b"a" * 8000 + b"\r\n"),
    "one-head": endless("select", b"HTTP/1.1 200 OK\r\nX-More: ", CHUNK),
    "early-hints": endless("select", b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "chunks": endless(
        "select changes", START + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + CHUNK + b"\r\n"
    ),
    "wrong-chunks": instead(
        "select", lambda q: START + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n-5\r\n"
    ),
    "redirects": instead(
        ALL, lambda q: http_answer(b"", "302 Found", "Location: http://127.0.0.1:1/v2.1/users")
    ),
    "deep": instead("select changes", lambda q: http_answer(b"[" * 1_000_000)),
    "quotes": instead("select changes", lambda q: http_answer(b'{"version":"' + b'\\"' * 500_000)),
    "nan": instead("select", lambda q: http_answer(NAN)),
    "wrong-types": offers(weights=entries("1", None, 2.5, True, [], {}, -1)),
    "large-weights": offers(weights=entries(2**53, 2**63, 10**400)),
    "more-than-asked": offers(weights=lambda q: entries(*[0] * 5000)(q)),
    "wrong-sizes": offers(weights=lambda q: entries(0, size=8192)(q) + entries(0, size=255)(q)),
    "duplicate-blobs": offers(weights=entries(0, 0, same=True)),
    "gzip": instead("select info changes", lambda q: http_answer(BOMB, "200 OK", "Content-Encoding: gzip")),
    "absurd-ranges": instead(
        "info",
        lambda q: http_answer(an_info(weighers={"RAMWeigher": "-1e18,1e18", "CPUWeigher": "1e308,-1e308"})),
    ),
    "wide-ranges": instead("info", lambda q: http_answer(an_info(weighers={"RAMWeigher": "-1e18,1e18"}))),
    "growing-blobs": instead("info", lambda q: http_answer(an_info(blob_size=65536))),
    "many-traits": instead("info", lambda q: http_answer(an_info(traits=[f"T{n}" for n in range(200_000)]))),
    "empty-pages": empty_pages,
    "one-cursor": one_cursor,
    "new-lines": new_lines,
    "others-instances": others_instances,
    "confirms-cancels": confirms_cancels,
    "holds-and-forgets": holds_and_forgets,
    "refuses-builds": refuses_builds,
    "pending": pending_for_ever,
    "wrong-answers": wrong_answers,
    "server-errors": instead(ALL, lambda q: http_answer({"x": 1}, "500 Oops", "Retry-After: 100000000")),
    "busy": instead(WORK, lambda q: http_answer({"x": 1}, "503 Busy", "Retry-After: 99999999999999999999")),
}


def answer(mood: str, question: Question, over: threading.Event) -> Iterable[bytes]:
    """The pieces of the answer to a question in this mood."""
    made = MOODS[mood](question, over)
    if made is None:
        return honest(question)
    return [made] if isinstance(made, bytes) else made
