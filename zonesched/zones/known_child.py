"""State of a child at its parent, and its change by each poll: pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from zonesched.errors import ChildBusy, ChildUnreachable, ConfigError
from zonesched.model.zone_starts import ZoneStarts
from zonesched.seal.entry_form import MIN_BLOB_BYTES, blob_size_for
from zonesched.seams import Done, Failed, Late
from zonesched.zones.child import Child, ChildInfo, ChildStatus, Offline, Ready, Waiting


@dataclass(frozen=True)
class KnownChild:
    """A registered child and its state. `failures`: failed polls in a row; `last_error` is "" without one.

    `seen_at`: its last good answer, UTC epoch seconds; None for never. `blob_size`: bytes of its blobs by its
    last info or offer, before that the smallest size: blobs that contain them keep their size while the child
    is unavailable. `busy_until`: it gets no selects before then (monotonic seconds).
    """

    child: Child
    status: ChildStatus = field(default_factory=Waiting)
    failures: int = 0
    last_error: str = ""
    seen_at: float | None = None
    blob_size: int = MIN_BLOB_BYTES
    busy_until: float = 0.0
    starts: ZoneStarts = field(default_factory=ZoneStarts)


@dataclass(frozen=True)
class PollRules:
    """Rules for judging a poll: this zone's uuid, its configured blob size (0: as needed), its patience."""

    zone_uuid: str
    blob_size: int
    failures_to_offline: int


REGISTERED_TWICE = "child_registered_twice"
"""Code of a child whose zone is already another child of this zone."""


RESTORED = "child_restored"
"""Code of a child that was restored from a copy, and acts on nothing until its operator has ended that."""


CLONED = "child_cloned"
"""Code of a child in whose name two zones answer: its machine was cloned with its database."""


@dataclass(frozen=True)
class PolledAt:
    """Time of a poll: UTC epoch seconds, and monotonic seconds."""

    now: float
    monotonic: float


def after_poll(
    known: KnownChild,
    outcome: Done[ChildInfo] | Failed | Late,
    at: PolledAt,
    rules: PollRules,
    *,
    is_another: bool,
) -> KnownChild:
    """Return the state after a poll. `is_another`: its zone is already another child of this zone."""
    match outcome:
        case Done(info):
            return after_answer(known, info, at.now, rules, is_another=is_another)
        case Failed(ChildBusy(code=code, retry_after_s=pause_s)):
            return after_busy(known, code, at.monotonic + pause_s)
        case Failed(ChildUnreachable(code="child_answer_no_room" as code)):
            # Other children's answers took the room: not a failure of this one.
            return after_busy(known, code, at.monotonic)
        case Failed(ChildUnreachable(code=code)):
            return after_failure(known, code, rules)
        case _:
            return after_failure(known, "child_timeout", rules)


def after_answer(
    known: KnownChild, info: ChildInfo, now: float, rules: PollRules, *, is_another: bool = False
) -> KnownChild:
    """Return the state after a good answer; the child may still be unusable.

    `is_another`: its zone is already another child of this zone.
    """
    starts = known.starts.seeing(info.start)
    is_cloned = starts.is_cloned(info.start)
    error = unusable(info, rules) or (REGISTERED_TWICE if is_another else CLONED if is_cloned else "")
    known = replace(known, starts=starts)
    if error:
        return replace(
            known,
            status=Offline(error, now),
            failures=known.failures + 1,
            last_error=error,
            seen_at=now,
        )
    return KnownChild(
        known.child,
        Ready(info),
        seen_at=now,
        blob_size=info.blob_size,
        busy_until=known.busy_until,
        starts=starts,
    )


def after_failure(known: KnownChild, error: str, rules: PollRules) -> KnownChild:
    """Return the state after a failed poll; the last info stays valid for some failures."""
    failures = known.failures + 1
    offline = failures >= rules.failures_to_offline or isinstance(known.status, Offline)
    status = Offline(error, known.seen_at) if offline else known.status
    return replace(known, status=status, failures=failures, last_error=error)


def after_busy(known: KnownChild, error: str, busy_until: float) -> KnownChild:
    """Return the state after a `busy` answer: no selects for a while, without counting a failure."""
    return replace(known, last_error=error, busy_until=busy_until)


def after_offer(known: KnownChild, blob_size: int) -> KnownChild:
    """Return the state after an offer with blobs of this size, which may have grown since its last poll."""
    return replace(known, blob_size=max(known.blob_size, blob_size))


def unusable(info: ChildInfo, rules: PollRules) -> str:
    """Return the code for which a child with this info takes no part; "" for a usable one."""
    if info.uuid == rules.zone_uuid:
        return "child_is_self"
    try:
        blob_size_for([info.blob_size], rules.blob_size)
    except ConfigError:
        return "child_blob_too_large"
    return RESTORED if info.recovering else ""
