"""Merge of the offers of all zones for one request into one plan: pure, so that it can be replayed."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from zonesched.model.build_plan import Bundle, Entry
from zonesched.model.place import LocalPlace
from zonesched.model.request_spec import RequestSpec
from zonesched.scheduler.merge import merge_heads
from zonesched.scheduler.offer import Offer, Pick

LITTLE = 0.25
"""Part of a source's entries. With so little left it is read on together with one that is used up: both are
likely to be needed, and two questions at once take the time of one."""


@dataclass(frozen=True)
class Source:
    """Offer of one zone (this zone or a child), with its weights adjusted.

    `id` is the zone's uuid or the child's id. `unreliable`: most placements of this request failed there,
    or it did not answer the last call for holds in time. `more`: its sequence goes on after these entries.
    """

    id: str
    entries: tuple[Entry, ...]
    alternates: tuple[Entry, ...]
    bundles: tuple[Bundle, ...]
    unreliable: bool = False
    more: bool = False


@dataclass(frozen=True)
class Merged:
    """One plan of all sources, best first.

    `unread`: the ids of sources whose next entries are needed first; without them the plan is not whole.
    """

    entries: tuple[Entry, ...]
    alternates: tuple[Entry, ...]
    bundles: tuple[Bundle, ...]
    unread: tuple[str, ...] = ()


def own_source(zone_uuid: str, spec: RequestSpec, own: Offer) -> Source:
    """Return the offer of the local hosts as a source."""

    def entry(pick: Pick) -> Entry:
        return Entry(pick.weight, pick.tie, LocalPlace(pick.host_id))

    return Source(
        id=zone_uuid,
        entries=tuple([entry(pick) for pick in own.picks]),
        alternates=tuple([entry(pick) for pick in own.alternates]),
        bundles=tuple([Bundle(p.weight, p.tie, (entry(p),) * spec.num_instances) for p in own.bundles]),
    )


def merge_sources(sources: Sequence[Source], count: int, alternates_wanted: int) -> Merged:
    """Merge `count` entries by taking the best head each time, so that each sequence keeps its order.

    Unreliable sources come after all others, whatever they offer.
    """
    picked: list[Entry] = []
    alternates: list[Entry] = []
    bundles: list[Bundle] = []
    for last in (False, True):
        turn = [source for source in sources if source.unreliable is last]
        goes_on = {number for number, source in enumerate(turn) if _goes_on(source, count)}
        best, rests = merge_heads([source.entries for source in turn], count - len(picked), goes_on)
        picked += best
        if len(picked) < count and (unread := _used_up(turn, rests, goes_on)):
            return Merged(tuple(picked), (), (), unread)
        spare = [[*rest, *source.alternates] for rest, source in zip(rests, turn, strict=True)]
        alternates += merge_heads(spare, alternates_wanted - len(alternates))[0]
        bundles += merge_heads([source.bundles for source in turn], 1 + alternates_wanted - len(bundles))[0]
    return Merged(tuple(picked), tuple(alternates), tuple(bundles))


def _goes_on(source: Source, count: int) -> bool:
    """Tell whether entries that follow in the source's sequence may be among the `count` picks."""
    return source.more and len(source.entries) < count


def _used_up(
    sources: Sequence[Source], rests: Sequence[Sequence[Entry]], goes_on: Set[int]
) -> tuple[str, ...]:
    """Return the sources to read on if one of them is used up: with it those of which little is left."""
    pairs = [(sources[number], rests[number]) for number in sorted(goes_on)]
    if all(rest for _, rest in pairs):
        return ()
    return tuple(source.id for source, rest in pairs if len(rest) <= len(source.entries) * LITTLE)
