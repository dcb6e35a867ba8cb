"""The points that the seeds are to meet: rare things that have to happen sometimes, each named once.

A point is a rule about what is seen at the seams: the changes of a commit, with what was known before it; an
answer that is back at its caller; a fault, and the work that it struck.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tests.simulation import restore_points
from tests.simulation.journal import Change
from zonesched.model.placement import UNFINISHED, ZONE_LOST, InstanceStatus, PlacementState
from zonesched.services.placing.group_policy import ELSEWHERE, FULL

CALLS = ("build", "confirm", "cancel", "delete", "desired")
"""Calls of a parent that change something below."""

CALL_FAULTS = ("call_lost", "reply_lost", "call_late", "call_twice", "call_replayed")
COMMIT_FAULTS = ("commit_unknown", "process_killed", "worker_paused")

Steps = frozenset[tuple[str, str]]
"""Kinds of rows, each with its new state or with both states."""

WORK: Mapping[str, Steps] = {
    "boot": frozenset({("reservation", "open")}),
    "intend": frozenset({("child place", "intended")}),
    "hold": frozenset({("host place", "held"), ("child place", "intended -> held")}),
    "confirm": frozenset(
        {
            ("host place", "held -> confirmed"),
            ("child place", "held -> confirming"),
            ("child place", "confirming -> confirmed"),
        }
    ),
    "cancel": frozenset(
        {
            ("host place", "held -> gone"),
            ("child place", "held -> cancelling"),
            ("child place", "cancelling -> gone"),
        }
    ),
    "release": frozenset(
        {
            ("host place", "confirmed -> released"),
            ("child place", "confirmed -> releasing"),
            ("child place", "releasing -> released"),
        }
    ),
}
"""The steps of a boot and its end, by the changes that their commits make."""

LEFT_FOR = ("build_timeout", "shelved", "moved", "move_timeout", "resize_reverted")
"""Reasons for which a place keeps its claim until its agent has left it."""

FAILURES = ("group_elsewhere", "no_valid_host", "build_failed", "build_timeout", ZONE_LOST)


@dataclass(frozen=True)
class Place:
    """A place as the journal knows it; `where`: of a child or a host."""

    kind: str
    reservation_id: str
    where: str
    state: str
    reason: str

    @property
    def has_failed(self) -> bool:
        return self.state in ("failed", "gone", "cancelling")


@dataclass
class History:
    """Rows of one zone as its journal has told them so far."""

    places: defaultdict[str, dict[int, Place]] = field(default_factory=lambda: defaultdict(dict))
    status: dict[str, str] = field(default_factory=dict)
    in_child: defaultdict[tuple[str, str], Counter[bool]] = field(
        default_factory=lambda: defaultdict(Counter)
    )

    def take(self, changes: Iterable[Change]) -> None:
        """Add a commit."""
        for change in changes:
            if change.what.endswith(" place"):
                self._take_place(change)
            elif change.what == "instance":
                self.status[change.uuid] = change.after

    def _take_place(self, change: Change) -> None:
        places = self.places[change.uuid]
        known = places.get(change.number)
        reservation_id, _, where = change.of_whom.partition(" ")
        kind = change.what.removesuffix(" place")
        made = Place(kind, reservation_id, where, change.after, change.reason)
        places[change.number] = (
            made if known is None else replace(known, state=change.after, reason=change.reason)
        )
        before = None if known is None else known.has_failed
        counted = self.in_child[reservation_id, where]
        if before is not None:
            counted[before] -= 1
        counted[places[change.number].has_failed] += 1


@dataclass(frozen=True)
class Commit:
    """The changes of one commit, and all that was known before it."""

    changes: tuple[Change, ...]
    before: History

    @property
    def places(self) -> list[Change]:
        return [change for change in self.changes if change.what.endswith(" place")]

    @property
    def works(self) -> frozenset[str]:
        """Steps of a boot that it did."""
        done = {(change.what, change.step) for change in self.changes}
        return frozenset(work for work, steps in WORK.items() if done & steps)


CommitRule = Callable[[Commit], bool]


def _changed(what: str, step: str = "", reason: str = "") -> CommitRule:
    """Make the rule that some change is of this kind; "" for any step or reason."""

    def rule(commit: Commit) -> bool:
        return any(
            change.what == what and step in ("", change.step) and reason in ("", change.reason)
            for change in commit.changes
        )

    return rule


def _some_had_room(commit: Commit) -> bool:
    began: defaultdict[str, set[str]] = defaultdict(set)
    for change in commit.places:
        if not change.before:
            began[change.of_whom.partition(" ")[0]].add(change.after)
    return any("failed" in states and states & {"held", "confirmed", "intended"} for states in began.values())


def _some_of_a_group_had_room(commit: Commit) -> bool:
    return _some_had_room(commit) and any(c.reason in (ELSEWHERE, FULL) for c in commit.places)


def _began(commit: Commit) -> Iterable[tuple[Change, list[Place]]]:
    """The new places, each with the earlier ones of its instance in their order."""
    for change in commit.places:
        if not change.before:
            known = commit.before.places.get(change.uuid, {})
            yield change, [known[number] for number in sorted(known)]


def _went_to_another_child(commit: Commit) -> bool:
    return any(
        change.what == "child place" and before and before[-1].where != change.of_whom.partition(" ")[2]
        for change, before in _began(commit)
    )


def _went_to_same_child(commit: Commit) -> bool:
    return any(
        change.what == "child place" and before and before[-1].where == change.of_whom.partition(" ")[2]
        for change, before in _began(commit)
    )


def _came_home(commit: Commit) -> bool:
    return any(
        change.what == "host place" and before and before[-1].kind == "child"
        for change, before in _began(commit)
    )


def _used_unreliable(commit: Commit) -> bool:
    for change, _ in _began(commit):
        reservation_id, _, where = change.of_whom.partition(" ")
        counted = commit.before.in_child.get((reservation_id, where))
        if change.what == "child place" and counted and counted[True] > counted[False]:
            return True
    return False


def _attempt(least: int) -> CommitRule:
    return lambda commit: any(
        not change.before and change.number >= least and change.what == "child place"
        for change in commit.places
    )


def _deleted_when(state: str) -> CommitRule:
    def rule(commit: Commit) -> bool:
        for change in commit.changes:
            if change.what == "instance" and change.after == InstanceStatus.DELETED.value:
                places = commit.before.places.get(change.uuid, {})
                if any(place.state == state for place in places.values()):
                    return True
        return False

    return rule


def _next_entry(commit: Commit) -> bool:
    return any(
        c.what == "inbound" and c.before not in ("", "0") and c.after != c.before for c in commit.changes
    )


COMMIT_POINTS: Mapping[str, CommitRule] = {
    "of one claim some had room, others none": _some_had_room,
    "a group had room for some of its members": _some_of_a_group_had_room,
    "a group's place was elsewhere": _changed("host place", "failed", ELSEWHERE),
    "a host had as many of a group as it may": _changed("host place", "failed", FULL),
    "a hold on a host expired": _changed("host place", "held -> gone", "hold_expired"),
    "a hold in a child expired": _changed("child place", "held -> cancelling", "hold_expired"),
    "an instance went to a second child": _went_to_another_child,
    "an instance went to the same child again": _went_to_same_child,
    "an instance came home from a child": _came_home,
    "an unreliable child's offer was used": _used_unreliable,
    "an instance was sent down a third time": _attempt(3),
    "a cancel came before its build": _changed("inbound", "0"),
    "a zone tried the next entry of a build": _next_entry,
    "an instance of a removed child was taken back": _changed("child place", "released -> confirming"),
    "an instance of a removed child was ended there": _changed("child place", "released -> releasing"),
    "a settled boot was opened again": _changed("reservation", "settled -> open"),
    "an unknown instance was active after all": _changed("instance", "UNKNOWN -> ACTIVE"),
    "an unknown instance had failed": _changed("instance", "UNKNOWN -> ERROR"),
    "an unknown instance was to be built again": _changed("instance", "UNKNOWN -> BUILD"),
    "an active instance was built anew": _changed("instance", "ACTIVE -> BUILD"),
    "a host had less room than its claims": _changed("shrunk", "0 -> 1"),
    "a shrunken host's claims fit again": _changed("shrunk", "1 -> 0"),
    **{
        f"a removed child had a place that was {state.value}": _changed(
            "child place", f"{state.value} -> {after}", ZONE_LOST
        )
        for state, after in (
            (PlacementState.HELD, "gone"),
            (PlacementState.CONFIRMED, "released"),
        )
    },
    **{
        f"an instance was deleted when its place was {state.value}": _deleted_when(state.value)
        for state in sorted(UNFINISHED, key=lambda state: state.value)
        if state not in (PlacementState.RELEASING,)
    },
    **{f"a place is left: {reason}": _changed("host place", "", reason) for reason in LEFT_FOR},
    **{f"an instance failed: {reason}": _changed("instance", "", reason) for reason in FAILURES},
}
"""Rules about commits, by what they are called."""

ERRORS = {
    "LeaseLost": "a worker wrote under a lease that another one had",
    "DatabaseFull": "a transaction met a full disk",
}
"""Points about what a transaction refused, by the exception that passed the store session."""

QUOTAS = {f"{of}_instances": f"a {of} had as many instances as it may" for of in ("parent", "project")}
"""Points about quotas, by the code of their refusal."""


def after_commit(fault: str, work: str) -> str:
    """Name the point that a fault struck right after the commit of this work."""
    return f"{fault} after the commit of: {work}"


def at_call(fault: str, call: str) -> str:
    """Name the point that a fault struck this call."""
    return f"{fault}: {call}"


def moved_on(call: str) -> str:
    """Name the point that an answer came for a place that was in another state by then."""
    return f"the answer to a {call} came too late"


def refused(status: int) -> str:
    """Name the point that a zone refused a call of its parent."""
    return f"a parent's call was answered with {status}"


STATUSES = (401,)

GROUP_GONE = "a boot named a server group that was removed"
USER_REFUSED = "a user who boots was refused, whose secret had been replaced or who was removed"
USER_REMOVED = "a user was removed whose boot was not settled"
HOST_KEPT = "a host was not removed, since something may run there"
HOST_REMOVED = "a host was removed whose agent worked on"
LOCK_REFUSED = "a user was refused since an admin had locked his server"
DELETED_BELOW = "a zone's admin deleted a server of its parent"
DELETED_IN_ACTION = "a zone's admin deleted a server of its parent that was acted on or left"
EVACUATED_ALONE = "a server was evacuated alone"
LIAR_CLAIMED = "a liar claimed an instance while its parent recovered"

POINTS: tuple[str, ...] = (
    *COMMIT_POINTS,
    *ERRORS.values(),
    *QUOTAS.values(),
    *(after_commit(fault, work) for fault in COMMIT_FAULTS for work in WORK),
    *(at_call(fault, call) for fault in CALL_FAULTS for call in CALLS),
    *(moved_on(call) for call in CALLS if call != "desired"),
    *map(refused, STATUSES),
    GROUP_GONE,
    USER_REFUSED,
    USER_REMOVED,
    HOST_KEPT,
    HOST_REMOVED,
    LOCK_REFUSED,
    DELETED_BELOW,
    DELETED_IN_ACTION,
    EVACUATED_ALONE,
    LIAR_CLAIMED,
    *restore_points.POINTS,
)
"""All points, in their order."""
