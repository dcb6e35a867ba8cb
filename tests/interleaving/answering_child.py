"""The scene's child where a kind lets it answer; nobody is there otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from zonesched.model.placement import BuildState

URL = "http://127.0.0.1:9"
UUID = "44444444-4444-4444-8444-444444444444"
BLOBS = ("AAAA" * 16, "BBBB" * 16)

_INFO = {
    "uuid": UUID,
    "blob_size": 256,
    "can_seal": True,
    "complete": True,
    "weighers": {},
    "services": {"compute": {}},
    "traits": [],
    "availability_zones": ["nova"],
    "zone_capabilities": [],
}


@dataclass(frozen=True)
class AnsweringChild:
    """A WSGI application. It offers the best place, and answers builds, confirms and cancels with `states`.

    What it has no answer for is a 404. `hold_s`: how long it holds what is HELD.
    """

    states: Mapping[str, BuildState]
    hold_s: float = 60.0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path, body = environ["PATH_INFO"], environ["wsgi.input"].read()
        status, content = self._answer(path.rpartition("/")[2], orjson.loads(body) if body else {})
        start_response(f"{status} X", [("Content-Type", "application/json")])
        return [orjson.dumps(content)]

    def _answer(self, call: str, asked: Any) -> tuple[int, Any]:
        match call:
            case "info":
                return 200, {"zone": _INFO}
            case "select":
                count = asked["request_spec"]["num_instances"]
                offered = [{"weight": 0, "tie": 0, "blob": f"{n:04d}" * 16} for n in range(count)]
                return 200, {"version": 1, "weights": offered, "complete": True, "expires_in": 60.0}
            case "servers" | "confirm" | "cancel" if call in self.states:
                builds = (asked["server"] if call == "servers" else asked)["builds"]
                return 202 if call == "servers" else 200, {
                    "builds": [self._line(call, one) for one in builds]
                }
        none = {"code": 404, "message": "There is none.", "error_code": "instance_not_found"}
        return 404, {"itemNotFound": none}

    def _line(self, call: str, build: Mapping[str, Any]) -> Mapping[str, Any]:
        state, key = self.states[call], {"uuid": build["uuid"], "attempt": build["attempt"]}
        reason = "no_valid_host" if state is BuildState.FAILED else ""
        return {**key, "state": state.value, "hold_s": self.hold_s, "reason": reason}
