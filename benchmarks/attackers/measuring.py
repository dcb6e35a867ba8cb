"""Selects of callers who take no part in an attack: how late each is, in calm and under attack."""

from __future__ import annotations

import http.client
import json
import math
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from .attacker import basic
from .wire import a_spec

PERIOD_S = 0.04
SHORT_PERIOD_S = 0.1
"""Pause from one select of a caller to its next, in calm and under attack alike; where attacks are short."""

TIMEOUT_S = 20.0
TIMES_CALM = 3.0
FLOOR_S = 0.25
"""A select this fast is never late: each zone keeps `select_reserve`, 0.25 seconds, of a select's time budget
for just such delays, so no offer is lost by them."""

NO_ANSWER_S = math.inf


@dataclass(frozen=True)
class Sample:
    """A select: when it was sent (monotonic), and its seconds; infinite if it was refused or unanswered."""

    sent_at: float
    seconds: float


@dataclass(frozen=True)
class Caller:
    """A caller who selects at one zone: a user by a dry run, a parent by a select."""

    zone: str
    url: str
    name: str
    secret: str
    is_parent: bool
    ca_file: str

    def question(self) -> tuple[str, bytes]:
        if self.is_parent:
            return "/v2.1/zones/select", json.dumps({"version": 1, "request_spec": a_spec()}).encode()
        server = {"name": "measured", "flavorRef": "small", "num_instances": 1}
        return "/v2.1/zones/boot", json.dumps({"server": server, "dry_run": True}).encode()


class Line:
    """One caller's connection, for one thread."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._path, self._body = caller.question()
        where = urlsplit(caller.url)
        if where.scheme == "https":
            context = ssl.create_default_context(cafile=caller.ca_file)
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                str(where.hostname), where.port, timeout=TIMEOUT_S, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=TIMEOUT_S)
        self._headers = {"Content-Type": "application/json", **basic(caller.name, caller.secret)}

    def select(self) -> Sample:
        """Ask once."""
        sent_at = time.monotonic()
        try:
            self._connection.request("POST", self._path, self._body, self._headers)
            answer = self._connection.getresponse()
            answer.read()
            is_answered = answer.status == 200
        except (OSError, http.client.HTTPException):
            self._connection.close()
            is_answered = False
        return Sample(sent_at, time.monotonic() - sent_at if is_answered else NO_ANSWER_S)

    def close(self) -> None:
        self._connection.close()


class Measuring:
    """Threads that select all the time, one for each caller."""

    def __init__(self, callers: Sequence[Caller], period_s: float) -> None:
        self.callers = callers
        self._period_s = period_s
        self._samples: dict[str, list[Sample]] = {caller.zone: [] for caller in callers}
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(caller,), daemon=True) for caller in callers
        ]
        for thread in self._threads:
            thread.start()

    def between(self, begins_at: float, ends_at: float) -> Mapping[str, Sequence[float]]:
        """Seconds of the selects that were sent in this time, by zone; waits for the last one's answer."""
        waits_until = time.monotonic() + TIMEOUT_S
        while time.monotonic() < waits_until:
            if all(found and found[-1].sent_at >= ends_at for found in self._samples.values()):
                break
            time.sleep(self._period_s / 2)
        return {
            zone: [one.seconds for one in list(found) if begins_at <= one.sent_at < ends_at]
            for zone, found in self._samples.items()
        }

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S)

    def _run(self, caller: Caller) -> None:
        line = Line(caller)
        while not self._over.wait(self._period_s):
            self._samples[caller.zone].append(line.select())
        line.close()


def p99(seconds: Sequence[float]) -> float:
    """The 99th percentile; 0 without values."""
    ordered = sorted(seconds)
    return ordered[math.ceil(0.99 * len(ordered)) - 1] if ordered else 0.0


def bound_s(calm: Sequence[float], floor_s: float = FLOOR_S) -> float:
    """The bound of a select under attack, by the same caller's selects in calm; `floor_s` at least."""
    return max(TIMES_CALM * p99(calm), floor_s)
