"""Count how often a seed meets each row of the package's tables, and each named point.

Everything is seen at the seams: commits by the journals of the databases, calls and answers by the network,
faults where they strike. Nothing in the package is there for it, and nothing here changes what is played.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
import requests

from tests.simulation.journal import Change
from tests.simulation.leases import Writer
from tests.simulation.reach_points import (
    COMMIT_POINTS,
    ERRORS,
    QUOTAS,
    Commit,
    History,
    after_commit,
    at_call,
    moved_on,
    refused,
)
from tests.simulation.reach_rows import CALLED_IN, answer_row
from zonesched.errors import OverLimit

Key = tuple[str, int]
_STATE_OF_REFUSED = {400: "failed", 413: "failed", 429: "failed", 503: "failed"}
"""State that a refused build counts as, by HTTP status."""


class Reach:
    """Made for one seed. `met` counts by the names of rows and points, and by others that are no rows."""

    def __init__(self) -> None:
        self.met: Counter[str] = Counter()
        self._histories: defaultdict[str, History] = defaultdict(History)
        self._fresh: tuple[Writer, frozenset[str]] | None = None

    # -- the store session ---------------------------------------------------------------------------------

    def committed(self, zone: str, writer: Writer, changes: tuple[Change, ...]) -> None:
        """Count the rows and points of one commit."""
        history = self._histories[zone]
        commit = Commit(changes, history)
        self.met.update(name for change in changes for name in _rows_of(change))
        self.met.update(name for name, rule in COMMIT_POINTS.items() if changes and rule(commit))
        history.take(changes)
        self._fresh = writer, commit.works

    def forget(self, zone: str) -> None:
        """Forget what was known of a zone's rows: others are in their place."""
        self._histories[zone] = History()

    def returned(self, writer: Writer) -> None:
        """Note that the writer of the last commit goes on."""
        if self._fresh is not None and self._fresh[0] == writer:
            self._fresh = None

    def just_done(self, writer: Writer) -> frozenset[str]:
        """Return the work of the last commit, if it is this writer's and he has not gone on."""
        return self._fresh[1] if self._fresh is not None and self._fresh[0] == writer else frozenset()

    def struck(self, fault: str, writer: Writer) -> None:
        """Count a fault of a process."""
        self.met.update(after_commit(fault, work) for work in self.just_done(writer))

    def raised(self, error: Exception) -> None:
        """Count an exception that a transaction has raised."""
        name = type(error).__name__
        self.met[ERRORS.get(name, f"raised: {name}")] += 1
        if isinstance(error, OverLimit) and error.code in QUOTAS:
            self.met[QUOTAS[error.code]] += 1

    # -- the transport -------------------------------------------------------------------------------------

    def disturbed(self, fault: str, call: str) -> None:
        """Count a fault of a call, by its name."""
        if call:
            self.met[at_call(fault, call)] += 1

    def served(self, call: str, request: requests.PreparedRequest, response: requests.Response) -> None:
        """Count what a zone answers, and what an agent has reported to it."""
        if call in ("build", "confirm", "cancel"):
            for _, state in _states(call, request, response):
                self.met[f"inbound: {call}, {state}"] += 1
        elif call == "report" and response.status_code < 300:
            lines = orjson.loads(request.body or b"{}")["reports"]
            self.met.update(f"agent: {line['state']}" for line in lines)

    def answered(
        self, zone: str, call: str, request: requests.PreparedRequest, response: requests.Response
    ) -> None:
        """Count an answer that is back at the zone that called."""
        if call not in CALLED_IN:
            return
        if response.status_code in (401, 409):
            self.met[refused(response.status_code)] += 1
        asked = CALLED_IN[call]
        places = self._histories[zone].places
        for (uuid, attempt), state in _states(call, request, response):
            self.met[answer_row(asked, state)] += 1
            place = places.get(uuid, {}).get(attempt)
            if place is not None and place.state != asked.value:
                self.met[moved_on(call)] += 1

    # -- time ----------------------------------------------------------------------------------------------

    def looked(self, statuses: Iterable[object]) -> None:
        """Count how parents know their children now."""
        self.met.update({f"child zone: {type(status).__name__}" for status in statuses})


def call_of(request: requests.PreparedRequest) -> str:
    """Name a call that a parent or an agent makes, "" for any other."""
    path = urlsplit(str(request.url)).path
    match request.method, path.rpartition("/")[2]:
        case "POST", "servers":
            return "build" if b'"builds"' in _body(request) else ""
        case "POST", ("confirm" | "cancel" | "desired") as name:
            return name
        case "POST", "reports":
            return "report"
        case "DELETE", _ if "/servers/" in path and "attempt=" in str(request.url):
            return "delete"
    return ""


def _body(request: requests.PreparedRequest) -> bytes:
    body = request.body or b""
    return body.encode() if isinstance(body, str) else body


def _rows_of(change: Change) -> Iterable[str]:
    match change.what:
        case "instance" | "reservation":
            yield f"{change.what}: {change.after.upper() if change.what == 'instance' else change.after}"
        case "action" if change.after:
            yield f"action: {change.of_whom}, {change.after}"
        case "move" if not change.before:
            pass
        case "inbound" | "lease" | "shrunk" | "agent down" | "action":
            pass
        case what:
            yield f"{what}: {change.step}"


def _states(
    call: str, request: requests.PreparedRequest, response: requests.Response
) -> list[tuple[Key, str]]:
    """Return what each attempt of a call was answered, as its caller takes it."""
    status = response.status_code
    if call == "delete":
        parts = urlsplit(str(request.url))
        attempt = int(parse_qs(parts.query)["attempt"][0])
        return [((parts.path.rpartition("/")[2], attempt), "gone")] if status in (204, 404) else []
    if status in (200, 202):
        lines: list[Mapping[str, Any]] = _json(response).get("builds", [])
        return [((line["uuid"], line["attempt"]), line["state"]) for line in lines]
    if call == "build" and status in _STATE_OF_REFUSED:
        builds = orjson.loads(_body(request))["server"]["builds"]
        return [((build["uuid"], build["attempt"]), _STATE_OF_REFUSED[status]) for build in builds]
    return []


def _json(response: requests.Response) -> Any:
    response.raw.seek(0)
    body = response.raw.read()
    response.raw.seek(0)
    return orjson.loads(body)
