"""Somebody who has overheard parents' builds, and tries what a sealed entry must not allow (P5).

A build that a zone sends may come again under other instances' uuids: twice as it is, once with its blob, its
project, its flavor or its sender changed. A changed one must be refused; of all that come with one and the
same blob at most one may get a place.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import requests

from tests.simulation.clock import MachineClock
from tests.simulation.network import Exchange, a_request
from tests.simulation.site import Site
from tests.simulation.stage import Stage

FIRST_SHARE = 0.15
PLACED = ("held", "confirmed", "pending")
AGAIN_S = (0.05, 8.0)
FIRST_S = 0.0001
"""Before the build itself, which is longer on its way."""
AS_IT_IS = "as it is"
Body = dict[str, Any]


class Forger:
    """Listens to the network, and speaks up now and then; `wrong` is what it should not have got."""

    def __init__(self, stage: Stage, sites: Mapping[str, Site]) -> None:
        self.wrong: list[str] = []
        self._stage = stage
        self._sites = sites
        self._clock = MachineClock(stage.baton, f"{stage.seed}/forger")
        self._placed: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._ways: dict[str, Callable[[Body], None]] = {
            "other blob": _tamper,
            "other project": _rename_project,
            "other flavor": _grow_flavor,
            "other sender": lambda body: None,
        }
        stage.network.on_build = self._overhear
        stage.network.listeners.append(self._listen)

    def _overhear(self, exchange: Exchange) -> None:
        storm = self._stage.storm
        if not storm.strikes("build_forged"):
            return
        body = _build_of(exchange.request)
        if body is None:
            return
        blob = storm.random.choice(body["server"]["builds"])["blobs"][0]
        for way in (AS_IT_IS, AS_IT_IS, storm.random.choice(list(self._ways))):
            self._forge(exchange, way, blob)

    def _forge(self, exchange: Exchange, way: str, blob: str) -> None:
        body = _build_of(exchange.request)
        assert body is not None
        body["server"]["reservation_id"] = self._clock.new_uuid()
        body["server"]["builds"] = [{"uuid": self._clock.new_uuid(), "attempt": 1, "blobs": [blob]}]
        if way != AS_IT_IS:
            self._ways[way](body)
        request = a_request("POST", str(exchange.request.url), self._headers(exchange, way), body)
        forged = Exchange(request, exchange.source, exchange.target)
        forged.heard = lambda response: self._judge(forged, way, response)
        random = self._stage.storm.random
        in_s = FIRST_S if random.random() < FIRST_SHARE else random.uniform(*AGAIN_S)
        self._stage.network.send_later(forged, in_s)

    def _headers(self, exchange: Exchange, way: str) -> dict[str, str]:
        headers = {
            name: str(exchange.request.headers[name]) for name in ("Authorization", "X-Zonesched-Role")
        }
        if way == "other sender":
            secret = self._sites[exchange.target].secrets["stranger"]
            headers["Authorization"] = f"Basic {base64.b64encode(f'stranger:{secret}'.encode()).decode()}"
        return headers

    def _judge(self, exchange: Exchange, way: str, response: requests.Response) -> None:
        if way != AS_IT_IS and _states(response) & set(PLACED):
            self.wrong.append(f"P5 {exchange.target}: a build with {way} got a place")

    def _listen(self, exchange: Exchange, response: requests.Response) -> None:
        """Whoever sent it: of one blob comes at most one instance."""
        body = _build_of(exchange.request)
        if body is None or response.status_code != 202:
            return
        state_of = {line["uuid"]: line["state"] for line in _answer(response)["builds"]}
        for build in body["server"]["builds"]:
            if len(build["blobs"]) == 1 and state_of.get(build["uuid"]) in PLACED:
                users = self._placed[exchange.target, build["blobs"][0]]
                users.add(build["uuid"])
                if len(users) > 1:
                    self.wrong.append(f"P5 {exchange.target}: one blob got places for {sorted(users)}")


def _build_of(request: requests.PreparedRequest) -> Body | None:
    """The body of a parent's build; None for another call."""
    if request.method != "POST" or not str(request.path_url).endswith("/servers"):
        return None
    body: Body = orjson.loads(request.body or b"{}")
    return body if "builds" in body.get("server", {}) else None


def _answer(response: requests.Response) -> Any:
    response.raw.seek(0)
    body = response.raw.read()
    response.raw.seek(0)
    return orjson.loads(body)


def _states(response: requests.Response) -> set[str]:
    if response.status_code != 202:
        return set()
    return {line["state"] for line in _answer(response)["builds"]}


def _tamper(body: Body) -> None:
    (build,) = body["server"]["builds"]
    (blob,) = build["blobs"]
    at = len(blob) // 2
    build["blobs"] = [blob[:at] + ("A" if blob[at] != "A" else "B") + blob[at + 1 :]]


def _rename_project(body: Body) -> None:
    body["request_spec"]["project_id"] = "project-2"


def _grow_flavor(body: Body) -> None:
    body["request_spec"]["flavor"]["vcpus"] += 1
