"""Another parent of a zone, which has nothing there and lies about what it has.

It confirms, cancels, deletes and gives orders about what another parent or the zone's own users have, at the
attempts that those know; sends the builds of that parent as its own; gives its own builds the uuids of
others; and asks for more than anybody may have.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import orjson
import requests

from tests.simulation.baton import Process
from tests.simulation.clock import MachineClock
from tests.simulation.journal import Change
from tests.simulation.liar import Liar
from tests.simulation.network import Exchange, Wire, a_request
from tests.simulation.reach import call_of
from tests.simulation.site import Site
from tests.simulation.stage import Stage
from zonesched.zones.client import ROLE_HEADER

USER = "stranger"
CALLS = 40
TIMEOUT_S = 3.0
Body = dict[str, Any]


class ParentLiar(Liar):
    """Calls one zone during the storm, with a credential of its own."""

    def __init__(self, stage: Stage, site: Site, draw: random.Random) -> None:
        super().__init__()
        self._stage = stage
        self._site = site
        self._random = draw
        self._clock = MachineClock(stage.baton, f"{stage.seed}/liar")
        self._wire = Wire(stage.network, USER, lambda what: None)
        self._process = Process(USER)
        self._rows = site.rows
        self._heard: list[Body] = []
        stage.network.listeners.append(self._listen)

    def begin(self, storm_s: float) -> None:
        baton = self._stage.baton
        for _ in range(CALLS):
            call = self._random.choice(
                (
                    self._confirm,
                    self._cancel,
                    self._delete,
                    self._order,
                    self._replay,
                    self._rename,
                    self._ask,
                )
            )
            in_s = self._random.uniform(1.0, storm_s + 4.0)
            baton.at(baton.now + in_s, partial(self._spawn, call))

    def _spawn(self, call: Callable[[], None]) -> None:
        self._stage.baton.spawn(self._process, "lie", lambda: self._make(call))

    def look(self, zone: str, changes: tuple[Change, ...]) -> Iterator[str]:
        """Yield a line for each row that a call of the liar changed although it is not its own."""
        exchange = self._stage.network.serving.get(self._stage.baton.current)
        if exchange is None or exchange.source != USER:
            return
        # Once the zone was restored, its operator removes it.
        (own_id,) = self._rows.execute("SELECT id FROM users WHERE name = ?", (USER,)).fetchone() or ("",)
        for change in changes:
            if change.what in ("instance", "child place", "host place", "action", "move"):
                (owner,) = self._rows.execute(
                    "SELECT caller_id FROM instances WHERE uuid = ?", (change.uuid,)
                ).fetchone()
                if owner != own_id:
                    what = f"the {change.what} {change.uuid}: {change.step}"
                    yield f"liar: a stranger's call has changed {what}"

    # -- calls ---------------------------------------------------------------------------------------------

    def _make(self, call: Callable[[], None]) -> None:
        self._stage.reach.met[f"lie: {call.__name__.strip('_')}"] += 1
        call()

    def _send(self, method: str, path: str, body: Body | None = None) -> requests.Response | None:
        pair = base64.b64encode(f"{USER}:{self._site.secrets[USER]}".encode()).decode()
        headers = {"Authorization": f"Basic {pair}", ROLE_HEADER: "parent"}
        request = a_request(method, f"{self._site.url}/v2.1{path}", headers, body)
        try:
            return self._wire.send(request, timeout=TIMEOUT_S)
        except requests.RequestException:
            return None

    def _victims(self) -> list[tuple[str, int, str]]:
        """Return uuid, attempt and reservation of what others have; attempts as their parents know them."""
        found = self._rows.execute(
            "SELECT i.uuid, coalesce(b.attempt, i.attempt), i.reservation_id FROM instances i"
            " LEFT JOIN inbound_builds b ON b.uuid = i.uuid AND b.caller_id = i.caller_id"
            " WHERE i.caller_id NOT IN (SELECT id FROM users WHERE name = ?) ORDER BY 1, 2",
            (USER,),
        ).fetchall()
        return self._random.sample(found, min(len(found), 4))

    def _settle(self, step: str) -> None:
        for uuid, attempt, reservation_id in self._victims():
            path = f"/reservations/{reservation_id}/{step}"
            answer = self._send("POST", path, {"builds": [{"uuid": uuid, "attempt": attempt}]})
            if answer is not None and answer.status_code == 200:
                for line in orjson.loads(answer.raw.read())["builds"]:
                    if line["state"] != "gone":
                        self.wrong(f"a stranger's {step} of {uuid} is answered with {line['state']}")

    def _confirm(self) -> None:
        self._settle("confirm")

    def _cancel(self) -> None:
        self._settle("cancel")

    def _delete(self) -> None:
        for uuid, attempt, _ in self._victims():
            answer = self._send("DELETE", f"/servers/{uuid}?attempt={attempt}")
            if answer is not None and answer.status_code < 300:
                self.wrong(f"a stranger has deleted {uuid}")

    def _order(self) -> None:
        """Send the desired states that the zone was told by its parent, as its own."""
        for body in self._some("desired"):
            self._send("POST", "/servers/desired", body)

    def _replay(self) -> None:
        """Send another parent's build again, as it was."""
        for body in self._some("build"):
            answer = self._send("POST", "/servers", body)
            if answer is not None and answer.status_code == 202:
                states = {line["state"] for line in orjson.loads(answer.raw.read())["builds"]}
                if states - {"failed", "gone"}:
                    self.wrong(f"a stranger's build with another parent's blobs is {sorted(states)}")

    def _rename(self) -> None:
        """Build for itself what it was offered, under the uuids of others; nobody will confirm it."""
        spec = next((body["request_spec"] for body in self._some("build")), None)
        victims = self._victims()
        if spec is None or not victims:
            return
        spec = {**spec, "request_id": self._clock.new_uuid(), "num_instances": len(victims)}
        offer = self._send("POST", "/zones/select", {"version": 1, "request_spec": spec})
        if offer is None or offer.status_code != 200:
            return
        blobs = [entry["blob"] for entry in orjson.loads(offer.raw.read())["weights"] if "blob" in entry]
        builds = [
            {"uuid": uuid, "attempt": attempt, "blobs": [blob]}
            for (uuid, attempt, _), blob in zip(victims, blobs, strict=False)
        ]
        if builds:
            server = {"reservation_id": self._clock.new_uuid(), "hold_s": 1e6, "builds": builds}
            self._send("POST", "/servers", {"server": server, "request_spec": spec})

    def _ask(self) -> None:
        """Ask for more than a parent may."""
        for body in self._some("build"):
            spec = {**body["request_spec"], "num_instances": 10**6, "request_id": self._clock.new_uuid()}
            self._send("POST", "/zones/select", {"version": 1, "request_spec": spec})
            builds = [
                {"uuid": self._clock.new_uuid(), "attempt": 1, "blobs": ["A" * 400]} for _ in range(1200)
            ]
            server = {"reservation_id": self._clock.new_uuid(), "hold_s": 60.0, "builds": builds}
            self._send("POST", "/servers", {"server": server, "request_spec": body["request_spec"]})

    def _listen(self, exchange: Exchange, response: requests.Response) -> None:
        is_others = exchange.target == self._site.name and exchange.source != USER
        if is_others and call_of(exchange.request) in ("build", "desired"):
            self._heard.append(orjson.loads(exchange.request.body or b"{}"))

    def _some(self, call: str) -> list[Body]:
        member = "server" if call == "build" else "servers"
        heard = [body for body in self._heard if member in body]
        return [self._random.choice(heard)] if heard else []

    def wrong(self, what: str) -> None:
        """Note a lie that was believed."""
        self.believed.append(f"liar: {what}")
