"""The profile of one request: where its thread spends its time, by function.

An admin asks for one with the header `X-Zonesched-Profile: true`. One request of a process is profiled at a
time. Only its own thread is looked at, and only from the admission of its caller to the answer.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import orjson
from werkzeug.datastructures import Headers

from zonesched.api.answer import Answer
from zonesched.errors import BadRequest, Conflict, Forbidden
from zonesched.model.caller import Caller, Role

HEADER = "X-Zonesched-Profile"
MAX_FUNCTIONS = 50
"""Functions that an answer names; they are those with the most time of their own."""

MS_IN_S = 1000


@dataclass
class Cost:
    """Time of the calls of one function; `total_s` includes the functions that they called."""

    calls: int = 0
    own_s: float = 0.0
    total_s: float = 0.0


class Profile:
    """Time by function of the thread that `record` runs in. `now`: monotonic seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._costs: dict[str, Cost] = {}
        self._stack: list[tuple[str, float]] = []
        self._in_callees: list[float] = []
        self._running: Counter[str] = Counter()
        self.seconds = 0.0

    @contextmanager
    def record(self) -> Iterator[None]:
        """Count what is called until the block ends."""
        started = self._now()
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(None)
            self.seconds = self._now() - started

    def costs(self) -> Sequence[tuple[str, Cost]]:
        """Return functions with their costs, those with the most time of their own first."""
        return sorted(self._costs.items(), key=lambda item: item[1].own_s, reverse=True)

    def _on_event(self, frame: FrameType, event: str, arg: Any) -> None:
        match event:
            case "call":
                self._begin(f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_qualname}")
            case "c_call":
                self._begin(f"{arg.__module__ or 'builtins'}.{arg.__qualname__}")
            case _:
                self._end()

    def _begin(self, name: str) -> None:
        self._stack.append((name, self._now()))
        self._in_callees.append(0.0)
        self._running[name] += 1

    def _end(self) -> None:
        # What began before the recording is not on the stack.
        if not self._stack:
            return
        name, started = self._stack.pop()
        elapsed = self._now() - started
        cost = self._costs.setdefault(name, Cost())
        cost.calls += 1
        cost.own_s += elapsed - self._in_callees.pop()
        self._running[name] -= 1
        if not self._running[name]:
            # Of a function that calls itself, the outermost call counts.
            cost.total_s += elapsed
        if self._in_callees:
            self._in_callees[-1] += elapsed


class Profiling:
    """Profiles one request at a time; safe to use from all threads."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._busy = threading.Lock()

    def answer(self, do: Callable[[], Answer]) -> Answer:
        """Return the answer of `do` beside its profile. Raises Conflict while another request is profiled."""
        if not self._busy.acquire(blocking=False):
            raise Conflict("Another request of this process is being profiled.", code="profile_busy")
        profile = Profile(self._now)
        try:
            with profile.record():
                answer = do()
                data = answer.to_response().get_data()
        finally:
            self._busy.release()
        body = {"profile": _lines(profile), "answer": _embedded(answer, data)}
        # 204 would have no body.
        status = answer.status if data else 200
        return replace(answer, status=status, body=orjson.dumps(body), media_type="application/json")


def is_wanted(headers: Headers, caller: Caller) -> bool:
    """Tell whether the caller asks for a profile. Raises Forbidden for those who may not have one."""
    given = headers.get(HEADER)
    if given is None:
        return False
    if caller.role is not Role.ADMIN:
        raise Forbidden("Only an admin may profile a request.", code="role_forbidden", field=HEADER)
    if given not in ("true", "false"):
        raise BadRequest(f"{HEADER} is true or false.", field=HEADER)
    return given == "true"


def _lines(profile: Profile) -> Mapping[str, Any]:
    costs = profile.costs()
    return {
        "total_ms": round(profile.seconds * MS_IN_S, 3),
        "functions": [
            {
                "function": name,
                "calls": cost.calls,
                "own_ms": round(cost.own_s * MS_IN_S, 3),
                "total_ms": round(cost.total_s * MS_IN_S, 3),
            }
            for name, cost in costs[:MAX_FUNCTIONS]
        ],
        "omitted": max(0, len(costs) - MAX_FUNCTIONS),
    }


def _embedded(answer: Answer, data: bytes) -> Any:
    if not data:
        return None
    return orjson.Fragment(data) if answer.media_type == "application/json" else data.decode()
