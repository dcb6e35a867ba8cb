"""Targets of what child zones answer: each call's answer alone, and a zone that works with such a child."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from benchmarks.fuzzing import hostile
from benchmarks.fuzzing.api_calls import crashes_told
from benchmarks.fuzzing.target import Check, Target, Work, stateless
from tests.builders.child_app import ChildApp, a_child, an_info
from tests.builders.clock import FakeClock
from tests.builders.sync import ask_all
from tests.builders.tree import Tree, a_host
from zonesched.errors import ChildUnreachable
from zonesched.model.placement import Attempt, Build
from zonesched.model.request_spec import Flavor, Image, Policy, RequestSpec
from zonesched.model.views import ChildForm
from zonesched.seal.entry_form import blob_to_text
from zonesched.services import background
from zonesched.services.audit import audit_edges
from zonesched.services.children import children
from zonesched.services.children.pending_calls import PendingCalls
from zonesched.zones.call import BoundCall, Call, Reply, Rest
from zonesched.zones.client import ChildClient
from zonesched.zones.transport import each_alone

UUIDS = tuple(f"11111111-1111-4111-8111-{number:012d}" for number in range(4))
CODES = frozenset(
    f"child_{word}" for word in ("timeout", "unreachable", "refused", "failed", "invalid_answer", "busy")
)
MESSAGES_AT_MOST = 100


def _blob(number: int) -> str:
    return blob_to_text(bytes([number]) * 256)


def _spec(policy: Policy = Policy.EACH) -> RequestSpec:
    return RequestSpec("r", "p", 3, Flavor("1", "s", 1, 1, 1), Image("", ""), alternates=2, policy=policy)


_ENTRIES = [{"weight": 10 + n, "tie": 4, "blob": _blob(n)} for n in range(5)]
_WHY = [{"filter": "RamFilter", "code": "not_enough_ram", "before": 10, "after": 4}]
_CHANGE = {"uuid": UUIDS[0], "attempt": 1, "status": "ACTIVE", "state": "confirmed", "reason": ""}
_OFFER = {
    "version": 1,
    "weights": _ENTRIES[:3],
    "alternates": _ENTRIES[3:],
    "complete": True,
    "expires_in": 59.5,
    "why": _WHY,
    "runs_out": _WHY,
}
_FAULT = {"badRequest": {"code": 400, "message": "m", "error_code": "blob_refused", "field": ""}}

DOCUMENTS: Mapping[str, Any] = {
    "info": an_info(),
    "select": _OFFER,
    "select_affinity": {
        **_OFFER,
        "weights": [],
        "alternates": [],
        "bundles": [{"weight": 5, "tie": 4, "blobs": [_blob(n) for n in range(3)]}],
    },
    "build": {
        "builds": [{"uuid": uuid, "attempt": 1, "state": "held", "hold_s": 30.0} for uuid in UUIDS[:2]]
    },
    "confirm": {"builds": [{"uuid": uuid, "attempt": 1, "state": "confirmed"} for uuid in UUIDS[:2]]},
    "cancel": {"builds": [{"uuid": uuid, "attempt": 1, "state": "gone"} for uuid in UUIDS[:2]]},
    "show": {"server": {"id": UUIDS[0], **_CHANGE}},
    "delete": {},
    "changes": {"instances": [_CHANGE, {**_CHANGE, "uuid": UUIDS[1]}], "cursor": "c", "more": False},
    "audit": {
        "version": 1,
        "inconsistencies": [{"kind": "claim_without_instance", "id": UUIDS[0]}],
        "complete": True,
    },
}
"""A valid answer to each call."""

_ATTEMPTS = [Attempt(uuid, 1) for uuid in UUIDS[:2]]
_BUILDS = [Build(uuid, 1, (_blob(0), _blob(1))) for uuid in UUIDS[:2]]

CALLS: Mapping[str, Callable[[ChildClient], Any]] = {
    "info": lambda child: child.info(1.0),
    "select": lambda child: child.select(_spec(), 1.0),
    "select_affinity": lambda child: child.select(_spec(Policy.AFFINITY), 1.0),
    "build": lambda child: child.build(UUIDS[3], _spec(), _BUILDS, 30.0, 1.0),
    "confirm": lambda child: child.confirm(UUIDS[3], _ATTEMPTS, 1.0),
    "cancel": lambda child: child.cancel(UUIDS[3], _ATTEMPTS, 1.0),
    "show": lambda child: child.show_server(UUIDS[0], 1.0),
    "delete": lambda child: child.delete_server(UUIDS[0], 1, 1.0),
    "changes": lambda child: child.changes("before", 1.0),
    "audit": lambda child: child.audit(1.0),
}
_STATUS = {"build": 202, "delete": 204}


@dataclass(frozen=True)
class Answered:
    """One answer of a child to one call."""

    call: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def _bodies(call: str) -> SearchStrategy[bytes]:
    known = (UUIDS[0], UUIDS[2], _blob(0), _blob(9), "ACTIVE", "gone", 2**53 - 1, "cursor_invalid")
    documents = hostile.mutated(st.sampled_from((DOCUMENTS[call], DOCUMENTS[call], _FAULT)), known)
    return hostile.json_bytes(documents) | st.binary(max_size=30)


_BODIES = {call: _bodies(call) for call in DOCUMENTS}
_statuses = st.sampled_from((200, 201, 202, 204, 302, 400, 401, 404, 409, 413, 429, 500, 503, 0, 99, 999))
_headers = st.lists(
    st.tuples(
        st.sampled_from(("Retry-After", "Content-Type", "Location")),
        st.sampled_from(("1", "-1", "0", "1" * 9, "1" * 5000, "٣", "²", "1.5", "Wed", "")) | hostile.words,
    ),
    max_size=2,
).map(tuple)


@st.composite
def answers_to(draw: DrawFn, call: str) -> Answered:
    usual = _STATUS.get(call, 200)
    status = usual if draw(st.integers(0, 4)) else draw(_statuses)
    return Answered(call, status, draw(_headers), draw(_BODIES[call]))


answers = st.sampled_from(sorted(CALLS)).flatmap(answers_to)


@dataclass(frozen=True)
class _Told:
    """A transport with one answer."""

    reply: Reply

    def send(self, call: Call, timeout_s: float, max_bytes: int) -> Reply:
        if len(self.reply.body) > max_bytes:
            raise ChildUnreachable("The answer of the child zone is too large.", code="child_invalid_answer")
        return self.reply

    def send_together(
        self, calls: Sequence[BoundCall], timeout_s: float, is_wanted: Callable[[], bool]
    ) -> Iterator[tuple[int, Reply | ChildUnreachable | Rest]]:
        return each_alone(self, calls)

    def check_url(self, unverified: str, timeout_s: float) -> str:
        return unverified


def check_answer(given: Answered) -> Work:
    """The answer is read whole, or refused with one of the documented codes and nothing of its content."""
    told = _Told(Reply(given.status, dict(given.headers), given.body))
    try:
        CALLS[given.call](ChildClient(a_child(), told, FakeClock()))
    except ChildUnreachable as fault:
        assert fault.code in CODES, fault.code
        assert len(fault.message) < MESSAGES_AT_MOST, "the fault has more than its own words"
    return Work(len(given.body))


# -- a zone with such a child ------------------------------------------------------------------------------

ROUNDS_OF_A_TREE = 100
_CHILD_URL = "http://127.0.0.1:7900"
_PATHS = {
    "info": ("GET", "/v2.1/zones/info"),
    "select": ("POST", "/v2.1/zones/select"),
    "build": ("POST", "/v2.1/servers"),
    "changes": ("GET", "/v2.1/reservations"),
    "audit": ("GET", "/v2.1/audit"),
}


class ZoneCheck:
    """Lets a zone poll, select, boot, sync and audit with a child that answers anything."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rounds = 0
        self._begin()

    def __call__(self, given: tuple[Answered, ...]) -> Work:
        if self._rounds % ROUNDS_OF_A_TREE == 0 and self._rounds:
            self.close()
            self._begin()
        self._rounds += 1
        zone = self._tree.nodes["zone"]
        self._tree.clock.advance(100.0)
        self._child.asked.clear()
        for answered in given:
            method, path = _PATHS[answered.call]
            self._child.answers(method, path, max(200, min(answered.status, 599)), answered.body)
        with crashes_told():
            background.poll_children(zone.zone)
            boot = zone.client("member").post("/zones/boot", {"server": {"name": "vm", "flavorRef": "small"}})
            assert boot.status == 202, boot.body
            while background.work_on_boots(zone.zone) == 0.0:
                pass
            PendingCalls(zone.zone).step()
            ask_all(zone.zone)
            list(audit_edges.across_edges(zone.zone))
        return Work(sum(len(answered.body) for answered in given) * (1 + len(self._child.asked)))

    def close(self) -> None:
        for node in self._tree.nodes.values():
            node.zone.store.close()

    def _begin(self) -> None:
        self._tree = Tree(self._folder / f"tree-{self._rounds}")
        zone = self._tree.add("zone", hosts_=[a_host("h1")], select_alternates=0)
        self._child = ChildApp()
        self._tree.network.mount(_CHILD_URL, self._child)
        self._child.answers("GET", "/v2.1/zones/info", 200, an_info())
        children.add(zone.zone, ChildForm("child", _CHILD_URL + "/v2.1", "parent", "secret", -1e15, 1.0))
        flavor = {"flavor": {"name": "small", "vcpus": 1, "ram": 1, "disk": 1}}
        assert zone.client().post("/flavors", flavor).status == 200


@contextmanager
def opened_zone(folder: Path) -> Iterator[Check]:
    check = ZoneCheck(folder)
    try:
        yield check
    finally:
        check.close()


TARGETS = (
    Target(
        "child-answers", "the answer of a child zone to each call", lambda: answers, stateless(check_answer)
    ),
    Target(
        "child-zone",
        "a zone that polls, boots, syncs and audits with a child that answers anything",
        lambda: st.tuples(*(answers_to(call) for call in _PATHS)),
        opened_zone,
    ),
)
