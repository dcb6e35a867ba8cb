"""Merge of the offers of all zones for one request into one plan: pure, so that it can be replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zonesched.model.build_plan import Bundle, Entry
from zonesched.model.place import LocalPlace
from zonesched.model.request_spec import RequestSpec
from zonesched.scheduler.merge import merge_heads
from zonesched.scheduler.offer import Offer, Pick


@dataclass(frozen=True)
class Source:
    """Offer of one zone (this zone or a child), with its weights adjusted.

    `id` is the zone's uuid or the child's id. `unreliable`: most placements of this request failed there.
    """

    id: str
    entries: tuple[Entry, ...]
    alternates: tuple[Entry, ...]
    bundles: tuple[Bundle, ...]
    unreliable: bool = False


@dataclass(frozen=True)
class Merged:
    """One plan of all sources, best first."""

    entries: tuple[Entry, ...]
    alternates: tuple[Entry, ...]
    bundles: tuple[Bundle, ...]


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


def merge_sources(spec: RequestSpec, sources: Sequence[Source]) -> Merged:
    """Merge by taking the best head each time, so that each sequence keeps its order.

    Unreliable sources come after all others, whatever they offer.
    """
    picked: list[Entry] = []
    alternates: list[Entry] = []
    bundles: list[Bundle] = []
    for last in (False, True):
        turn = [source for source in sources if source.unreliable is last]
        best, rests = merge_heads([source.entries for source in turn], spec.num_instances - len(picked))
        spare = [[*rest, *source.alternates] for rest, source in zip(rests, turn, strict=True)]
        picked += best
        alternates += merge_heads(spare, spec.alternates - len(alternates))[0]
        bundles += merge_heads([source.bundles for source in turn], 1 + spec.alternates - len(bundles))[0]
    return Merged(tuple(picked), tuple(alternates), tuple(bundles))
