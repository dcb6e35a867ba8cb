"""A child zone whose answers to its parent are changed on their way out, by a liar with a seed of its own.

Below, it is a real zone. What it says of places is another state, an earlier page, somebody else's instance,
or nothing; it offers its siblings' blobs, and more than it was asked for.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson
import requests
from requests.structures import CaseInsensitiveDict

from tests.simulation.journal import Change
from tests.simulation.liar import Liar
from tests.simulation.network import Exchange
from tests.simulation.reach import call_of
from tests.simulation.reach_points import LIAR_CLAIMED
from tests.simulation.site import Site
from tests.simulation.stage import Stage
from zonesched.model.placement import BuildState, InstanceStatus

SHARE = 0.4
"""Share of its answers that are lies."""

PAGES_KEPT = 20
Body = dict[str, Any]
STATES = tuple(state.value for state in BuildState)
STATUSES = tuple(status.value for status in InstanceStatus)


CLAIMED = {"status": "ACTIVE", "state": "confirmed", "reason": ""}


class ChildLiar(Liar):
    """Listens to the network; what its own zone answers to its parent, it changes."""

    def __init__(
        self, stage: Stage, parent: Site, site: Site, suspects: Sequence[str], draw: random.Random
    ) -> None:
        super().__init__(site.name, suspects)
        self.lies = 0
        self._stage = stage
        self._parent = parent
        self._site = site
        self._random = draw
        self._is_lying = False
        self._blobs: list[str] = []
        self._pages: list[Body] = []
        self._rows = parent.rows
        stage.network.rewrite = self._rewrite

    @property
    def is_lying(self) -> bool:
        return self._is_lying

    def begin(self, storm_s: float) -> None:
        self._is_lying = True

    def end(self) -> None:
        self._is_lying = False

    def look(self, zone: str, changes: tuple[Change, ...]) -> Iterator[str]:
        """A task that takes the liar's feed may change what was placed there, and nothing else."""
        task = self._stage.baton.current
        child_id = self._parent.child_ids.get(self.name, "")
        if zone != self._parent.name or task is None or task.name != f"bulkhead-{child_id[:8]}":
            return
        for change in changes:
            if change.what in ("instance", "child place", "host place", "action") and not self._was_there(
                child_id, change.uuid
            ):
                yield f"liar {self.name}: {zone} has changed {change.what} of {change.uuid}: {change.step}"

    def _was_there(self, child_id: str, uuid: str) -> bool:
        found = self._rows.execute(
            "SELECT 1 FROM placements WHERE uuid = ? AND child_id = ?", (uuid, child_id)
        )
        return found.fetchone() is not None

    # -- lies ----------------------------------------------------------------------------------------------

    def _rewrite(self, exchange: Exchange, response: requests.Response) -> requests.Response:
        if not self._is_lying or exchange.source != self._parent.name:
            return response
        body = _json(response)
        if exchange.target != self.name:
            self._overhear(body)
            return response
        if not isinstance(body, dict) or self._random.random() >= SHARE:
            return response
        lie = self._lie_about(exchange, body)
        if lie is None:
            return response
        self.lies += 1
        self._stage.reach.met[f"lie: {lie.__name__.strip('_')}"] += 1
        changed = lie(body)
        self._stage.note(self.name, f"lies: {lie.__name__}")
        return _with_body(response, changed)

    def _overhear(self, body: Any) -> None:
        if isinstance(body, dict) and "weights" in body:
            self._blobs += [entry["blob"] for entry in body["weights"] if "blob" in entry]

    def _lie_about(self, exchange: Exchange, body: Body) -> Callable[[Body], Body] | None:
        path = str(exchange.request.path_url).partition("?")[0]
        if call_of(exchange.request) in ("build", "confirm", "cancel") and "builds" in body:
            return self._random.choice((self._other_states, self._other_states, self._strangers))
        if path.endswith("/reservations") and "instances" in body:
            self._pages = [*self._pages[-PAGES_KEPT:], body]
            kinds: tuple[Callable[[Body], Body], ...] = (
                self._other_statuses,
                self._other_statuses,
                self._siblings,
                self._siblings,
                self._nobodys,
                self._backwards,
                self._old_page,
                self._forgets,
            )
            if self._is_parent_recovering():
                # A parent that recovers asks once.
                kinds = (self._claims,)
            return self._random.choice(kinds)
        if path.endswith("/select") and "weights" in body:
            return self._random.choice((self._siblings_blobs, self._too_many))
        return None

    def _other_states(self, body: Body) -> Body:
        return {
            **body,
            "builds": [{**line, "state": self._a_state(), "hold_s": 30.0} for line in body["builds"]],
        }

    def _strangers(self, body: Body) -> Body:
        lines = [{**line, "uuid": uuid} for line, uuid in zip(body["builds"], self._known(), strict=False)]
        return {**body, "builds": [*body["builds"], *lines]}

    def _other_statuses(self, body: Body) -> Body:
        """Change what is said, or say more of what it has."""
        own = [self._line(uuid, number) for uuid, number, child in self._places() if child == self._own_id]
        lines = [{**line, "state": self._a_state(), "status": self._a_status()} for line in body["instances"]]
        return {**body, "instances": [*lines, *self._some(own)]}

    def _siblings(self, body: Body) -> Body:
        """Speak of what another child or a host has."""
        other = [self._line(uuid, number) for uuid, number, child in self._places() if child != self._own_id]
        return {**body, "instances": [*body["instances"], *self._some(other)]}

    def _claims(self, body: Body) -> Body:
        """Claim to have what another child or a host has, at its attempt or a later one."""
        others = [(uuid, number) for uuid, number, child in self._places() if child != self._own_id]
        lines = [
            {**self._line(uuid, number + self._random.choice((0, 1, 90))), **CLAIMED}
            for uuid, number in self._some(others)
        ]
        if lines and self._is_parent_recovering():
            self._stage.reach.met[LIAR_CLAIMED] += 1
        return {**body, "instances": [*body["instances"], *lines]}

    def _nobodys(self, body: Body) -> Body:
        line = self._line(self._site.clock.new_uuid(), 1)
        return {**body, "instances": [*body["instances"], line, line]}

    def _backwards(self, body: Body) -> Body:
        lines = body["instances"]
        return {**body, "instances": [*reversed(lines), *lines]}

    def _old_page(self, body: Body) -> Body:
        return {**self._random.choice(self._pages), "more": False}

    def _forgets(self, body: Body) -> Body:
        return {**body, "instances": []}

    def _siblings_blobs(self, body: Body) -> Body:
        entries = [
            {**entry, "blob": self._random.choice([*self._blobs, entry["blob"]])}
            for entry in body["weights"]
            if "blob" in entry
        ]
        return {**body, "weights": entries or body["weights"]}

    def _too_many(self, body: Body) -> Body:
        return {**body, "weights": [*body["weights"], *body["weights"]]}

    def _is_parent_recovering(self) -> bool:
        return self._rows.execute("SELECT 1 FROM unheard LIMIT 1").fetchone() is not None

    # -- what they are made of -----------------------------------------------------------------------------

    @property
    def _own_id(self) -> str:
        return self._parent.child_ids[self.name]

    def _places(self) -> list[tuple[str, int, str]]:
        rows = self._rows.execute("SELECT uuid, number, coalesce(child_id, '') FROM placements ORDER BY 1, 2")
        return rows.fetchall()

    def _known(self) -> list[str]:
        return self._some([uuid for uuid, _, _ in self._places()])

    def _some(self, found: list[Any]) -> list[Any]:
        return self._random.sample(found, min(len(found), 3))

    def _line(self, uuid: str, attempt: int) -> Body:
        line: Body = {"uuid": uuid, "attempt": attempt, "status": self._a_status(), "state": self._a_state()}
        if self._random.random() < 0.3:
            generation = self._random.choice((0, 1, 5, 1000))
            line["observed"] = {
                "generation": generation,
                "power": self._random.choice(("running", "stopped")),
            }
        return {**line, "reason": "" if line["status"] == "ACTIVE" else "build_failed"}

    def _a_state(self) -> str:
        return self._random.choice(STATES)

    def _a_status(self) -> str:
        return self._random.choice(STATUSES)


def _json(response: requests.Response) -> Any:
    response.raw.seek(0)
    body = response.raw.read()
    response.raw.seek(0)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _with_body(response: requests.Response, body: Body) -> requests.Response:
    changed = requests.Response()
    changed.status_code = response.status_code
    content = orjson.dumps(body)
    changed.headers = CaseInsensitiveDict({**response.headers, "Content-Length": str(len(content))})
    changed.raw = io.BytesIO(content)
    changed.request = response.request
    return changed
