"""Client of one child: each method is one call of docs/wire.md, its answer validated.

Every method raises ChildUnreachable (child_timeout, child_unreachable, child_refused, child_failed,
child_invalid_answer, child_busy) and may be called again with the same arguments. Nothing of a child's reply
goes into an error.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import orjson

from zonesched import tracing
from zonesched.errors import BlobRefused, ChildBusy, ChildUnreachable, Kind
from zonesched.model.caller import Role
from zonesched.model.console import ConsoleAnswer, ConsoleState
from zonesched.model.desired_call import DesiredAnswer, DesiredOf, Taken, by_form
from zonesched.model.desired_wire import desired_to_wire
from zonesched.model.inconsistency import ReportedAudit
from zonesched.model.named_boot import GivenBack, NamedBoot
from zonesched.model.offer_page import WHOLE, Page
from zonesched.model.placement import Attempt, Build, BuildAnswer, BuildState, InstanceChange
from zonesched.model.request_spec import RequestSpec
from zonesched.model.request_wire import spec_to_wire
from zonesched.model.work_deadline import always
from zonesched.seal.entry_form import MAX_BLOB_BYTES
from zonesched.seams import Clock
from zonesched.zones import answer_bounds, answers, child_requests, parts, reply_status
from zonesched.zones.answer_bounds import AnswerBound
from zonesched.zones.call import BoundCall, Call, Reply, Take, takes_all
from zonesched.zones.child import Changes, Child, ChildInfo, ChildOffer
from zonesched.zones.transport import Transport

T = TypeVar("T")

ANSWER_BYTES = 64 * 2**20
_VERSION = 1
NO_HEADERS: Mapping[str, str] = {}

MIN_AUDIT_S = 0.1
MAX_AUDIT_S = 3600.0
"""Limits of the seconds for an audit: with less no child is asked, and none accepts more."""

ROLE_HEADER = "X-Zonesched-Role"
"""Header with the caller's kind for zones without authentication: several calls differ for parents."""

BUDGET_HEADER = "X-Zonesched-Time-Budget"
"""Header with the seconds for a confirm or a cancel. A version that does not know it ignores it."""


@dataclass(frozen=True)
class Question(Generic[T]):
    """One call to a child, and the reader of its answer; `read` raises ChildUnreachable."""

    bound: BoundCall
    read: Callable[[Reply], T]


class ChildClient:
    """Calls to one child. None of them lasts beyond `ends_at`, in the clock's monotonic seconds.

    A call ends with child_timeout soon after `is_wanted` has become false. `take` finds room for each answer
    (`zones.transport.Call`).

    `answer_bytes` is the largest answer that is read to any call, `blob_bytes` the largest sealed entry that
    is taken; with the question they bound each answer.
    """

    def __init__(
        self,
        child: Child,
        transport: Transport,
        clock: Clock,
        *,
        answer_bytes: int = ANSWER_BYTES,
        blob_bytes: int = MAX_BLOB_BYTES,
        ends_at: float = float("inf"),
        is_wanted: Callable[[], bool] = always,
        take: Take = takes_all,
    ) -> None:
        self.child = child
        self._transport = transport
        self._clock = clock
        self._answer_bytes = answer_bytes
        self._blob_bytes = blob_bytes
        self._ends_at = ends_at
        self._is_wanted = is_wanted
        self._take = take
        credentials = f"{child.username}:{child.password}".encode()
        self._headers = {
            "Authorization": "Basic " + base64.b64encode(credentials).decode("ascii"),
            "Content-Type": "application/json",
            ROLE_HEADER: Role.PARENT.value,
        }

    def within(
        self,
        ends_at: float,
        is_wanted: Callable[[], bool] = always,
        take: Take = takes_all,
    ) -> ChildClient:
        """Return this client for calls that end by then, and once `is_wanted` is false."""
        client = copy(self)
        client._ends_at, client._is_wanted, client._take = ends_at, is_wanted, take
        return client

    def ask_info(self) -> Question[ChildInfo]:
        """Ask for the child's info about itself and its child zones."""
        return self._question("GET", "/zones/info", answer_bounds.INFO, answers.read_info)

    def ask_select(self, spec: RequestSpec, page: Page = WHOLE) -> Question[ChildOffer]:
        """Ask the child for a page of its offers for this request; a child without pages takes only WHOLE."""
        body: dict[str, Any] = {"version": _VERSION, "request_spec": spec_to_wire(spec)}
        if page != WHOLE:
            body["page"] = {"skip": page.skip, "entries": page.entries}
        bound = answer_bounds.of_select(spec, self._blob_bytes, page)

        def read(body: bytes) -> ChildOffer:
            return answers.read_offer(body, spec, self._blob_bytes, page)

        return self._question("POST", "/zones/select", bound, read, body)

    def ask_changes(self, cursor: str) -> Question[Changes]:
        """Ask for the changes of this zone's reservations there since a cursor that the child knows."""
        path = "/reservations?" + urlencode({"cursor": cursor})

        def read(body: bytes) -> Changes:
            page = answers.read_changes(body)
            # Otherwise the loop over its pages would never end.
            if page.more and (not page.items or page.cursor == cursor):
                raise ChildUnreachable(
                    "The child zone reports more changes, and its cursor does not advance.",
                    code="child_invalid_answer",
                )
            return page

        return self._question("GET", path, answer_bounds.CHANGES, read)

    def info(self, timeout_s: float) -> ChildInfo:
        """Read the child's info about itself and its child zones."""
        return self._answer(self.ask_info(), timeout_s)

    def select(self, spec: RequestSpec, timeout_s: float, page: Page = WHOLE) -> ChildOffer:
        """Read a page of the child's offers for this request."""
        return self._answer(self.ask_select(spec, page), timeout_s)

    def build(
        self, reservation_id: str, spec: RequestSpec, builds: Sequence[Build], hold_s: float, timeout_s: float
    ) -> list[BuildAnswer]:
        """Hold places for `hold_s` seconds; one answer per build, in their order.

        A child that opens none of the blobs answers `blob_refused`: all of them are FAILED with that reason;
        one that is overloaded or over this zone's quota holds nothing, and all are FAILED with `child_busy`.
        Where they are too many for one call, those of a later call may have no answer, or be refused alone.
        """
        ends_at = self._clock.monotonic() + timeout_s

        def ask(some: Sequence[Build], share: float) -> list[BuildAnswer]:
            left_s = self._left_s(ends_at - self._clock.monotonic()) * share
            return self._build(reservation_id, spec.varied(time_budget_s=left_s), some, hold_s, left_s)

        return parts.in_parts(builds, parts.first_size(builds), ask)

    def _build(
        self, reservation_id: str, spec: RequestSpec, builds: Sequence[Build], hold_s: float, timeout_s: float
    ) -> list[BuildAnswer]:
        server = {
            "reservation_id": reservation_id,
            "hold_s": hold_s,
            "builds": [{"uuid": b.uuid, "attempt": b.attempt, "blobs": list(b.blobs)} for b in builds],
        }
        body = {"server": server, "request_spec": spec_to_wire(spec)}
        bound = answer_bounds.of_builds(len(builds))
        reply = self._send("POST", "/servers", timeout_s, bound, body)
        if reply.status == 400 and answers.error_code(reply.body) == BlobRefused.code:
            return _all_failed(builds, BlobRefused.code)
        if reply_status.has_too_much(reply):
            return _all_failed(builds, ChildBusy.code)
        return answers.read_builds(
            reply_status.expect(parts.check_size(reply), 202), [Attempt(b.uuid, b.attempt) for b in builds]
        )

    def confirm(
        self, reservation_id: str, attempts: Sequence[Attempt], timeout_s: float
    ) -> list[BuildAnswer]:
        """Confirm held places, which are then built; answers as of `build`."""
        return self._settle("confirm", reservation_id, attempts, timeout_s)

    def cancel(self, reservation_id: str, attempts: Sequence[Attempt], timeout_s: float) -> list[BuildAnswer]:
        """Release held places; answers as of `build`."""
        return self._settle("cancel", reservation_id, attempts, timeout_s)

    def tell_desired(self, told: Sequence[DesiredOf], timeout_s: float) -> list[DesiredAnswer]:
        """Tell the child desired states; one answer each, in their order.

        A child of a version without this call answers UNSUPPORTED for all. One that does not know a member
        refuses the whole call: it is told each form of lines by itself, and a form that it refuses alone is
        UNSUPPORTED.
        """
        bound = answer_bounds.of_builds(len(told))
        reply = self._send("POST", "/servers/desired", timeout_s, bound, desired_to_wire(told))
        if reply.status in (404, 405) and answers.error_code(reply.body) in ("url_unknown", "method_unknown"):
            return _all_unsupported(told)
        # Any proxy may answer 400; only a zone that has read the call answers it in the API's form.
        if reply.status == 400 and answers.error_kind(reply.body) == Kind.BAD_REQUEST.body_name:
            forms = by_form(told)
            if len(forms) == 1:
                return _all_unsupported(told)
            by_key = {a.key: a for form in forms for a in self.tell_desired(form, timeout_s)}
            return [by_key[one.key] for one in told]
        return answers.read_desired(reply_status.expect(reply, 200), told)

    def name_boots(self, boots: Sequence[NamedBoot], timeout_s: float, *, is_last: bool) -> bool:
        """Name to a restored child instances that this zone has there; false while it cannot take names."""
        named = [
            {
                "reservation_id": boot.reservation_id,
                "request_spec": spec_to_wire(boot.spec),
                "builds": [{"uuid": a.uuid, "attempt": a.attempt} for a in boot.builds],
            }
            for boot in boots
        ]
        body = {"boots": named, "last": is_last}
        reply = self._send("POST", "/servers/named", timeout_s, answer_bounds.ONE_SERVER, body)
        return answers.read_named(reply_status.expect(reply, 200))

    def delete_server(self, uuid: str, attempt: int, timeout_s: float) -> bool:
        """Delete an instance at this attempt; false if the child has none of this uuid there, or no more."""
        path = f"/servers/{quote(uuid, safe='')}?attempt={attempt}"
        reply = self._send("DELETE", path, timeout_s, answer_bounds.ONE_SERVER)
        if reply_status.is_not_found(reply):
            return False
        reply_status.expect(reply, 204)
        return True

    def show_server(self, uuid: str, timeout_s: float) -> InstanceChange | None:
        """Read an instance's status; None if the child has none of this uuid."""
        reply = self._send("GET", f"/servers/{quote(uuid, safe='')}", timeout_s, answer_bounds.ONE_SERVER)
        return (
            None
            if reply_status.is_not_found(reply)
            else answers.read_server(reply_status.expect(reply, 200), uuid)
        )

    def console(self, uuid: str, budget_s: float, timeout_s: float) -> ConsoleAnswer:
        """Read an instance's console output, for which the child has `budget_s` seconds.

        Raises Conflict where a zone below passes no calls on.
        """
        path = f"/servers/{quote(uuid, safe='')}/console?" + urlencode({"budget_s": f"{budget_s:.3f}"})
        reply = self._send("GET", path, timeout_s, answer_bounds.CONSOLE)
        if reply.status in (404, 405) and answers.error_code(reply.body) in ("url_unknown", "method_unknown"):
            return ConsoleAnswer(ConsoleState.UNKNOWN_CALL)
        if reply_status.is_not_found(reply):
            return ConsoleAnswer(ConsoleState.NOT_THERE)
        reply_status.check_passed_on(reply)
        return answers.read_console(reply_status.expect(reply, 200))

    def request_of(self, uuid: str, timeout_s: float) -> GivenBack | None:
        """Read the request of an instance, and its image and flavor since; None if it is not there."""
        path = f"/servers/{quote(uuid, safe='')}/request"
        reply = self._send("GET", path, timeout_s, answer_bounds.REQUEST_OF)
        if reply_status.is_not_found(reply):
            return None
        return child_requests.read_request(reply_status.expect(reply, 200))

    def changes(self, cursor: str, timeout_s: float) -> Changes:
        """Read the changes of this zone's reservations there since a cursor ("" for all).

        If the child does not know the cursor, e.g. after a restore of its database, all are read.
        """
        question = self.ask_changes(cursor)
        reply = self._sent(question.bound, timeout_s)
        if cursor and reply.status == 400:
            refusal = _counted(reply, answer_bounds.ONE_SERVER).body
            if answers.error_code(refusal) == "cursor_invalid":
                return self.changes("", timeout_s)
        return question.read(reply)

    def audit(self, timeout_s: float) -> ReportedAudit:
        """Ask the child and its child zones for inconsistencies in this zone's rows there."""
        budget_s = min(max(timeout_s, MIN_AUDIT_S), MAX_AUDIT_S)
        path = "/audit?" + urlencode({"budget_s": f"{budget_s:.3f}"})
        return answers.read_audit(
            reply_status.expect(self._send("GET", path, timeout_s, answer_bounds.CHANGES), 200)
        )

    def _settle(
        self, step: str, reservation_id: str, attempts: Sequence[Attempt], timeout_s: float
    ) -> list[BuildAnswer]:
        path = f"/reservations/{quote(reservation_id, safe='')}/{step}"
        ends_at = self._clock.monotonic() + timeout_s

        def ask(some: Sequence[Attempt], share: float) -> list[BuildAnswer]:
            left_s = self._left_s(ends_at - self._clock.monotonic()) * share
            body = {"builds": [{"uuid": a.uuid, "attempt": a.attempt} for a in some]}
            bound = answer_bounds.of_builds(len(some))
            budget = {BUDGET_HEADER: f"{max(0.001, left_s):.3f}"}
            reply = parts.check_size(self._send("POST", path, left_s, bound, body, budget))
            return answers.read_builds(reply_status.expect(reply, 200), some)

        return parts.in_parts(attempts, len(attempts), ask)

    def _question(
        self,
        method: str,
        path: str,
        bound: AnswerBound,
        read: Callable[[bytes], T],
        body: Mapping[str, Any] | None = None,
    ) -> Question[T]:
        def read_reply(reply: Reply) -> T:
            return read(reply_status.expect(_counted(reply, bound), 200))

        return Question(self._call(method, path, bound, body), read_reply)

    def _answer(self, question: Question[T], timeout_s: float) -> T:
        return question.read(self._sent(question.bound, timeout_s))

    def _send(
        self,
        method: str,
        path: str,
        timeout_s: float,
        bound: AnswerBound,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> Reply:
        return _counted(self._sent(self._call(method, path, bound, body, headers), timeout_s), bound)

    def _call(
        self,
        method: str,
        path: str,
        bound: AnswerBound,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> BoundCall:
        content = b"" if body is None else orjson.dumps(body)
        request_id = tracing.current().request_id
        traced = {tracing.HEADER: request_id} if request_id else NO_HEADERS
        headers = {**self._headers, **traced, **headers}
        call = Call(method, self.child.api_url + path, headers, content, self._is_wanted, self._take)
        return BoundCall(call, min(bound.max_bytes, self._answer_bytes))

    def _sent(self, bound: BoundCall, timeout_s: float) -> Reply:
        left_s = self._left_s(timeout_s)
        if left_s <= 0:
            raise ChildUnreachable("There was no time left to ask the child zone.", code="child_timeout")
        return self._transport.send(bound.call, left_s, bound.max_bytes)

    def _left_s(self, timeout_s: float) -> float:
        return min(timeout_s, self._ends_at - self._clock.monotonic())


def _counted(reply: Reply, bound: AnswerBound) -> Reply:
    if not bound.fits(reply.body):
        raise ChildUnreachable(
            "The answer of the child zone has too many values.", code="child_invalid_answer"
        )
    return reply


def _all_unsupported(told: Sequence[DesiredOf]) -> list[DesiredAnswer]:
    return [DesiredAnswer(one.uuid, one.attempt, Taken.UNSUPPORTED) for one in told]


def _all_failed(builds: Sequence[Build], reason: str) -> list[BuildAnswer]:
    return [BuildAnswer(b.uuid, b.attempt, BuildState.FAILED, reason=reason) for b in builds]
