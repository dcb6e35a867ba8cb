"""Offers of a boot's last select, handed out by its worker."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass

from zonesched.model.build_plan import BuildPlan, ChildBlob, Entry
from zonesched.model.decision_trace import DecisionTrace
from zonesched.model.group_place import ANYWHERE, Anywhere, GroupPlace
from zonesched.model.request_spec import RequestSpec
from zonesched.services.select.faults import NOT_ALL_ANSWERED, OFFERS_LIMITED

ALTERNATES_PER_BUILD = 3

MOST_SPARE_BYTES = 4 * 2**20
"""Limit of the spare entries in one call, which has them with each build; a zone takes 16 MiB by default."""


class Offers:
    """The entries and bundles of the last select that are not taken yet, best first.

    `are_all`: every zone has answered with all that it has for one select.
    """

    def __init__(self, plan: BuildPlan | None = None) -> None:
        self._entries = deque((*plan.entries, *plan.alternates) if plan else ())
        self._bundles = deque(plan.bundles if plan else ())
        self.complete = plan is None or plan.complete
        self.limited = plan is not None and plan.limited
        self.are_all = plan is not None and plan.complete and not plan.limited
        self._spare_of: dict[str, tuple[str, ...]] | None = None

    def take(self, count: int, *, whole: bool = False) -> list[Entry]:
        """Return the next entries, at most `count`; as a `whole`, all of them in one place or none."""
        if whole:
            return self._take_bundle(count)
        self._spare_of = None
        return [self._entries.popleft() for _ in range(min(count, len(self._entries)))]

    def _take_bundle(self, size: int) -> list[Entry]:
        """Return the next bundle with `size` entries or more, cut to `size`; empty when there is none."""
        while self._bundles:
            bundle = self._bundles.popleft()
            if len(bundle.entries) >= size:
                return list(bundle.entries[:size])
        return []

    def put_last(self, child_ids: Collection[str]) -> None:
        """Hand out the entries and bundles of these children after all others."""
        if not child_ids:
            return

        def is_last(entry: Entry) -> bool:
            return isinstance(entry.place, ChildBlob) and entry.place.child_id in child_ids

        self._entries = deque(sorted(self._entries, key=is_last))
        self._bundles = deque(sorted(self._bundles, key=lambda bundle: is_last(bundle.entries[0])))

    def spare_blobs(self, place: ChildBlob, builds: int = 1) -> tuple[str, ...]:
        """Return the best spare entries of the place's child, which the child tries in this order.

        None for one of so many builds that a call with the spares of each might be too large for the child.
        """
        if self._spare_of is None:
            self._spare_of = self._spares()
        blobs = self._spare_of.get(place.child_id, ())
        return blobs if builds * sum(map(len, blobs)) <= MOST_SPARE_BYTES else ()

    def _spares(self) -> dict[str, tuple[str, ...]]:
        """Return the best entries of each child that are not taken yet, by child id."""
        spares: defaultdict[str, list[str]] = defaultdict(list)
        for entry in self._entries:
            match entry.place:
                case ChildBlob(child_id, blob) if len(spares[child_id]) < ALTERNATES_PER_BUILD:
                    spares[child_id].append(blob)
        return {child_id: tuple(blobs) for child_id, blobs in spares.items()}


@dataclass(frozen=True)
class Selected:
    """The outcome of a select: `spec` with the weighing of its offers, the decision trace, a reason code.

    `counts`: it counts for `max_attempts`.
    """

    spec: RequestSpec
    why: DecisionTrace
    reason: str
    counts: bool = True


def reason_for_none(*, complete: bool, limited: bool = False, group_place: GroupPlace = ANYWHERE) -> str:
    """Return the reason code of a boot for which a select offered too little."""
    if not complete:
        return NOT_ALL_ANSWERED
    if limited:
        return OFFERS_LIMITED
    return "no_valid_host" if isinstance(group_place, Anywhere) else "group_place_full"
