"""Knowledge about a child, and the change by each poll: pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from zonesched.errors import ConfigError
from zonesched.seal.entry_form import MIN_BLOB_BYTES, blob_size_for
from zonesched.zones.child import Child, ChildInfo, ChildStatus, Offline, Ready, Waiting


@dataclass(frozen=True)
class KnownChild:
    """A registered child, and how it fared. `failures` counts polls in a row; `last_error` is "" without one.

    `seen_at`: when it last answered well, UTC epoch seconds; None for never. `blob_size`: bytes of its blobs
    as it told or offered them last, and the smallest there are before that: what holds them keeps its own
    size while the child is away. `busy_until`: it wants no selects before (monotonic seconds).
    """

    child: Child
    status: ChildStatus = field(default_factory=Waiting)
    failures: int = 0
    last_error: str = ""
    seen_at: float | None = None
    blob_size: int = MIN_BLOB_BYTES
    busy_until: float = 0.0


@dataclass(frozen=True)
class PollRules:
    """Rules for judging a poll: this zone's uuid, its configured blob size (0: as needed), its patience."""

    zone_uuid: str
    blob_size: int
    failures_to_offline: int


REGISTERED_TWICE = "child_registered_twice"
"""The code of a child whose zone is another child of this zone already."""


def after_answer(
    known: KnownChild, info: ChildInfo, now: float, rules: PollRules, *, is_another: bool = False
) -> KnownChild:
    """The child has answered well; it may still be one that cannot be used.

    `is_another`: its zone is another child of this zone already.
    """
    error = unusable(info, rules) or (REGISTERED_TWICE if is_another else "")
    if error:
        return replace(
            known,
            status=Offline(error, now),
            failures=known.failures + 1,
            last_error=error,
            seen_at=now,
        )
    return KnownChild(
        known.child, Ready(info), seen_at=now, blob_size=info.blob_size, busy_until=known.busy_until
    )


def after_failure(known: KnownChild, error: str, rules: PollRules) -> KnownChild:
    """The child has not answered, or not well; what it said before holds until this was often enough."""
    failures = known.failures + 1
    offline = failures >= rules.failures_to_offline or isinstance(known.status, Offline)
    status = Offline(error, known.seen_at) if offline else known.status
    return replace(known, status=status, failures=failures, last_error=error)


def after_busy(known: KnownChild, error: str, busy_until: float) -> KnownChild:
    """The child has said that it has too much to do: not now, and not that it is down."""
    return replace(known, last_error=error, busy_until=busy_until)


def after_offer(known: KnownChild, blob_size: int) -> KnownChild:
    """The child has offered blobs of this size: it may have got a child of its own since its last poll."""
    return replace(known, blob_size=max(known.blob_size, blob_size))


def unusable(info: ChildInfo, rules: PollRules) -> str:
    """Why a child that says this of itself can take no part, as a code; "" for one that can."""
    if info.uuid == rules.zone_uuid:
        return "child_is_self"
    try:
        blob_size_for([info.blob_size], rules.blob_size)
    except ConfigError:
        return "child_blob_too_large"
    return ""
