"""Parsing of a child's answers: every body is unverified until it is parsed here as a whole.

Raises ChildUnreachable child_invalid_answer for anything that breaks docs/wire.md, without any of its
content. Unknown members are skipped; each known one has a type, a form and a limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, TypeVar

from zonesched.errors import ChildUnreachable
from zonesched.model.build_plan import MAX_TIE, MAX_WEIGHT, FunnelStep, Refusal, Why
from zonesched.model.console import MAX_CONSOLE_BYTES, ConsoleAnswer, ConsoleState
from zonesched.model.controls import CONTROLS
from zonesched.model.desired_call import DesiredAnswer, DesiredOf, Taken
from zonesched.model.inconsistency import ReportedAudit, ReportedInconsistency
from zonesched.model.observed_state import NO_MOVES, NO_RESIZES, MoveCounts, Observed, Power, Resizes
from zonesched.model.offer_page import WHOLE, Page
from zonesched.model.placement import Attempt, BuildAnswer, BuildState, InstanceChange, InstanceStatus
from zonesched.model.request_spec import Policy, RequestSpec
from zonesched.scheduler.scale import Range
from zonesched.seal.entry_form import MAX_BLOB_BYTES, MIN_BLOB_BYTES
from zonesched.zones.child import Changes, ChildInfo, ChildOffer, OfferedBundle, OfferedEntry
from zonesched.zones.unverified import Invalid, Unverified, blob_bytes

MAX_WHY = 64
MAX_CODE = 64
MAX_NAME = 128
MAX_HOLD_S = 3600.0
MAX_EXPIRY_S = 3600.0
MAX_COUNT = 10**9
MAX_ATTEMPT = 2**31 - 1
MAX_GENERATION = 2**31 - 2
MAX_CHANGES = 10_000
MAX_INFO_ITEMS = 10_000
MAX_CAPABILITIES = 256
MAX_RAW_VALUE = 1e18

_CODE = re.compile(rf"[a-z0-9_]{{1,{MAX_CODE}}}")
_REASON = re.compile(r"[a-z0-9_]{0,64}")
_NAME = re.compile(rf"[A-Za-z0-9_.]{{1,{MAX_NAME}}}")
WEIGHER_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_NAME}}}")
"""A class, a dotted path, or an entry point, which may have hyphens."""
_WORD = re.compile(rf"[^{CONTROLS}]{{1,255}}")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_START = re.compile(rf"(?:{UUID.pattern})?")
_OUTPUT = re.compile(rf"(?s:.{{0,{MAX_CONSOLE_BYTES}}})")
_CURSOR = re.compile(r"[A-Za-z0-9._~:+/=-]{0,255}")
_CAPABILITY = re.compile(rf"[^{CONTROLS}=;]{{1,255}}=[^{CONTROLS}=]{{0,4096}}")
_NUMBER = r"-?[0-9]{1,25}(?:\.[0-9]{1,25})?(?:e[+-]?[0-9]{1,3})?"
_RANGE = re.compile(f"{_NUMBER},{_NUMBER}")

T = TypeVar("T")


def read_info(body: bytes) -> ChildInfo:
    """Parse the answer of GET /zones/info."""
    return parsed(body, _info)


def read_offer(body: bytes, spec: RequestSpec, max_blob_bytes: int, page: Page = WHOLE) -> ChildOffer:
    """Parse the answer of POST /zones/select to this request for this page."""
    return parsed(body, lambda answer: _offer(answer, spec, max_blob_bytes, page))


def read_builds(body: bytes, attempts: Sequence[Attempt]) -> list[BuildAnswer]:
    """Parse the answer to a build, confirm or cancel of these attempts: one each, in their order."""

    def read(answer: Unverified) -> list[BuildAnswer]:
        found = {b[:2]: b for b in _builds(answer.array("builds", len(attempts)))}
        if found.keys() != set(attempts):
            raise Invalid
        return [found[a] for a in attempts]

    return parsed(body, read)


def read_desired(body: bytes, told: Sequence[DesiredOf]) -> list[DesiredAnswer]:
    """Parse the answer to POST /servers/desired: one for each attempt, of no earlier generation than told."""

    def read(answer: Unverified) -> list[DesiredAnswer]:
        found = [_desired_answer(item) for item in answer.objects("servers", len(told))]
        by_key = {one.key: one for one in found}
        if by_key.keys() != {one.key for one in told}:
            raise Invalid
        answers = [by_key[one.key] for one in told]
        pairs = zip(told, answers, strict=True)
        if any(a.taken in _HAS_NUMBERS and a.generation < one.desired.generation for one, a in pairs):
            raise Invalid
        return answers

    return parsed(body, read)


def read_server(body: bytes, uuid: str) -> InstanceChange:
    """Parse the answer of GET /servers/{uuid} to a parent."""

    def read(answer: Unverified) -> InstanceChange:
        server = answer.object("server")
        if server.text("id", UUID) != uuid:
            raise Invalid
        return _change(uuid, server)

    return parsed(body, read)


def read_console(body: bytes) -> ConsoleAnswer:
    """Parse the answer of GET /servers/{uuid}/console to a parent."""

    def read(answer: Unverified) -> ConsoleAnswer:
        state = _member(ConsoleState, answer.text("state", _CODE))
        return ConsoleAnswer(state, answer.text("output", _OUTPUT))

    return parsed(body, read)


def read_named(body: bytes) -> bool:
    """Parse the answer of POST /servers/named: whether the child takes names."""
    return parsed(body, lambda answer: answer.flag("taken"))


def read_changes(body: bytes) -> Changes:
    """Parse the answer of GET /reservations?cursor= to a parent."""

    def read(answer: Unverified) -> Changes:
        items = answer.objects("instances", MAX_CHANGES)
        return Changes(
            items=tuple(_change(item.text("uuid", UUID), item) for item in items),
            cursor=answer.text("cursor", _CURSOR),
            more=answer.flag("more"),
        )

    return parsed(body, read)


def read_audit(body: bytes) -> ReportedAudit:
    """Parse the answer of GET /audit to a parent."""

    def read(answer: Unverified) -> ReportedAudit:
        answer.whole("version", 1, 1)
        items = answer.objects("inconsistencies", MAX_CHANGES)
        found = (ReportedInconsistency(item.text("kind", _CODE), item.text("id", _WORD)) for item in items)
        return ReportedAudit(tuple(found), answer.flag("complete"))

    return parsed(body, read)


def error_kind(body: bytes) -> str:
    """Return OpenStack's name of an error body, "" for any other body."""
    return _error(body)[0]


def error_code(body: bytes) -> str:
    """Return the code in an error body, "" for any other body."""
    return _error(body)[1]


def parsed(body: bytes, read: Callable[[Unverified], T]) -> T:
    """Parse a body. Raises ChildUnreachable child_invalid_answer where `read` raises Invalid."""
    try:
        return read(Unverified.parse(body))
    except Invalid:
        raise ChildUnreachable(
            "The answer of the child zone is not a valid one.", code="child_invalid_answer"
        ) from None


def _info(answer: Unverified) -> ChildInfo:
    zone = answer.object("zone")
    return ChildInfo(
        uuid=zone.text("uuid", UUID),
        blob_size=zone.whole("blob_size", MIN_BLOB_BYTES, MAX_BLOB_BYTES),
        can_seal=zone.flag("can_seal"),
        complete=zone.flag("complete"),
        ranges=_ranges(zone.object("weighers"), WEIGHER_NAME),
        capacities=_ranges(zone.object("services").object("compute"), _NAME),
        traits=frozenset(zone.texts("traits", _WORD, MAX_INFO_ITEMS)),
        availability_zones=frozenset(zone.texts("availability_zones", _WORD, MAX_INFO_ITEMS)),
        zone_capabilities=_capabilities(zone.texts("zone_capabilities", _CAPABILITY, MAX_CAPABILITIES)),
        has_pages=zone.flag("has_pages", default=False),
        recovering=zone.flag("recovering", default=False),
        start=zone.text("start", _START, default=""),
    )


def _ranges(unverified: Unverified, form: re.Pattern[str]) -> dict[str, Range]:
    """Parse {"name": "min,max"} as numbers."""
    names = unverified.names()
    if len(names) > MAX_INFO_ITEMS or not all(map(form.fullmatch, names)):
        raise Invalid
    return {name: _range(unverified.text(name, _RANGE)) for name in names}


def _range(text: str) -> Range:
    low, high = map(float, text.split(","))
    if not -MAX_RAW_VALUE <= low <= high <= MAX_RAW_VALUE:
        raise Invalid
    return Range(low, high)


def _capabilities(texts: Sequence[str]) -> dict[str, frozenset[str]]:
    """Parse ["key=value;value"] by key; the values of a repeated key are merged."""
    found: dict[str, frozenset[str]] = {}
    for text in texts:
        key, _, values = text.partition("=")
        found[key] = found.get(key, frozenset()) | frozenset(values.split(";"))
    return found


def _offer(answer: Unverified, spec: RequestSpec, max_blob_bytes: int, page: Page) -> ChildOffer:
    answer.whole("version", 1, 1)
    whole = spec.policy is Policy.AFFINITY
    count = min(spec.num_instances, page.entries)
    entries = _entries(answer.array("weights", 0 if whole else count, optional=whole))
    alternates = _entries(answer.array("alternates", 0 if whole else spec.alternates, optional=True))
    bundles = [
        _bundle(item, spec.num_instances)
        for item in answer.objects("bundles", 1 + spec.alternates if whole else 0, optional=not whole)
    ]
    blobs = [e.blob for e in entries] + [e.blob for e in alternates] + [b for u in bundles for b in u.blobs]
    blob_size = blob_bytes(blobs) if blobs else 0
    if blob_size > max_blob_bytes:
        raise Invalid
    has_more = answer.flag("more", default=False)
    return ChildOffer(
        entries=tuple(entries),
        alternates=tuple(alternates),
        bundles=tuple(bundles),
        blob_size=blob_size,
        complete=answer.flag("complete"),
        expires_in_s=answer.number("expires_in", 0.0, MAX_EXPIRY_S),
        why=tuple(_why(item) for item in answer.objects("why", MAX_WHY, optional=True)),
        runs_out=tuple(_why(item) for item in answer.objects("runs_out", MAX_WHY, optional=True)),
        # A page that is not full is the last one, or asking for the next would never end.
        more=has_more and len(entries) == page.entries,
        limited=has_more and len(entries) < count,
        database_away=answer.flag("database_away", default=False),
    )


def _entries(items: list[Any]) -> list[OfferedEntry]:
    """Parse the entries; they are checked as columns, since a thousand of them are normal."""
    try:
        weights = [item["weight"] for item in items]
        ties = [item["tie"] for item in items]
        blobs = [item["blob"] for item in items]
    except (TypeError, KeyError):
        raise Invalid from None
    if not items:
        return []
    if set(map(type, chain(weights, ties))) != {int} or set(map(type, blobs)) != {str}:
        raise Invalid
    if min(weights) < 0 or max(weights) > MAX_WEIGHT or min(ties) < 0 or max(ties) > MAX_TIE:
        raise Invalid
    return list(map(OfferedEntry, weights, ties, blobs))


def _bundle(item: Unverified, size: int) -> OfferedBundle:
    blobs = item.array("blobs", size)
    if len(blobs) != size or set(map(type, blobs)) != {str}:
        raise Invalid
    return OfferedBundle(item.whole("weight", 0, MAX_WEIGHT), item.whole("tie", 0, MAX_TIE), tuple(blobs))


def _why(item: Unverified) -> Why:
    name, code = item.text("filter", _NAME), item.text("code", _CODE)
    if item.has("before") or item.has("after"):
        return FunnelStep(name, code, item.whole("before", 0, MAX_COUNT), item.whole("after", 0, MAX_COUNT))
    return Refusal(name, code)


_BUILD_STATES = {state.value: state for state in BuildState}


def _builds(items: list[Any]) -> list[BuildAnswer]:
    """Parse the items as columns, as `_entries`; their uuids and attempts have to be those of the call."""
    try:
        uuids = [item["uuid"] for item in items]
        attempts = [item["attempt"] for item in items]
        states = [_BUILD_STATES[item["state"]] for item in items]
        holds_s = [item.get("hold_s", 0.0) for item in items]
        reasons = [item.get("reason", "") for item in items]
    except (TypeError, KeyError):
        raise Invalid from None
    if not items:
        return []
    if set(map(type, chain(uuids, reasons))) != {str} or set(map(type, attempts)) != {int}:
        raise Invalid
    if not set(map(type, holds_s)) <= {int, float} or min(holds_s) < 0.0 or max(holds_s) > MAX_HOLD_S:
        raise Invalid
    if not all(reason == "" or _REASON.fullmatch(reason) for reason in set(reasons)):
        raise Invalid
    return list(map(BuildAnswer, uuids, attempts, states, map(float, holds_s), reasons))


def _change(uuid: str, item: Unverified) -> InstanceChange:
    return InstanceChange(
        uuid=uuid,
        attempt=item.whole("attempt", 0, MAX_ATTEMPT),
        status=_member(InstanceStatus, item.text("status", _NAME)),
        state=_member(BuildState, item.text("state", _CODE)),
        reason=item.text("reason", _REASON, default=""),
        observed=_observed(item.object("observed")) if item.has("observed") else None,
        moves=_moves(item.object("moves")) if item.has("moves") else NO_MOVES,
    )


def _moves(item: Unverified) -> MoveCounts:
    begun = item.whole("begun", 0, MAX_GENERATION)
    return MoveCounts(begun, item.whole("ended", 0, begun))


def _observed(item: Unverified) -> Observed:
    return Observed(
        generation=item.whole("generation", 0, MAX_GENERATION),
        power=_member(Power, item.text("power", _CODE)),
        reason=item.text("reason", _REASON, default=""),
        rebuilds=item.whole("rebuilds", 0, MAX_GENERATION) if item.has("rebuilds") else 0,
        resizes=_resizes(item),
    )


def _resizes(item: Unverified) -> Resizes:
    if not item.has("resizes"):
        return NO_RESIZES
    counts = item.object("resizes")
    begun = counts.whole("begun", 0, MAX_GENERATION)
    confirmed = counts.whole("confirmed", 0, begun)
    return Resizes(begun, confirmed, counts.whole("reverted", 0, begun - confirmed))


def _asked_resizes(item: Unverified) -> Resizes:
    """Read the counts of resizes that a parent has asked for: any, until the child has refused some."""
    if not item.has("resizes"):
        return NO_RESIZES
    counts = item.object("resizes")
    begun, confirmed, reverted = (
        counts.whole(name, 0, MAX_GENERATION) for name in ("begun", "confirmed", "reverted")
    )
    return Resizes(begun, confirmed, reverted)


_HAS_NUMBERS = frozenset({Taken.STORED, Taken.DIFFERENT})


def _desired_answer(item: Unverified) -> DesiredAnswer:
    taken = _member(Taken, item.text("state", _CODE))
    if taken is Taken.UNSUPPORTED:
        raise Invalid
    is_stored = taken in _HAS_NUMBERS
    generation = item.whole("generation", 1, MAX_GENERATION) if is_stored else 0
    reboots = item.whole("reboots", 0, MAX_GENERATION) if is_stored else 0
    rebuilds = item.whole("rebuilds", 0, MAX_GENERATION) if is_stored else 0
    uuid, attempt = item.text("uuid", UUID), item.whole("attempt", 0, MAX_ATTEMPT)
    resizes = _asked_resizes(item) if is_stored else NO_RESIZES
    return DesiredAnswer(uuid, attempt, taken, generation, reboots, rebuilds, resizes)


E = TypeVar("E", BuildState, ConsoleState, InstanceStatus, Power, Taken)


def _member(kind: type[E], text: str) -> E:
    try:
        return kind(text)
    except ValueError:
        raise Invalid from None


def _error(body: bytes) -> tuple[str, str]:
    try:
        answer = Unverified.parse(body)
        (kind,) = answer.names()
        return kind, answer.object(kind).text("error_code", _REASON, default="")
    except ValueError:
        return "", ""
