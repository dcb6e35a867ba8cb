"""Build plan of a zone: entries in greedy order, each on a local host or in a child."""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.model.place import LocalPlace

MAX_WEIGHT = 2**53 - 1

TIE_BITS = 20
MAX_TIE = 2**TIE_BITS - 1


@dataclass(frozen=True, slots=True)
class ChildBlob:
    """An offer of a child: `blob` is opaque and goes back to that child unchanged."""

    child_id: str
    blob: str


EntryPlace = LocalPlace | ChildBlob
"""Place that an entry names, in the zone's plan and sealed in its blobs. `model.place.Place` has no blob."""


@dataclass(frozen=True)
class Entry:
    """A place for one instance.

    `weight` is an integer from 0 to 2**53-1, lower is better. Among equal weights the lowest `tie` comes
    first: a number from 0 to 2**20-1 that says nothing about the host.
    """

    weight: int
    tie: int
    place: EntryPlace


@dataclass(frozen=True)
class Bundle:
    """Places for all instances of an affinity request on one host; taken whole or not at all."""

    weight: int
    tie: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class FunnelStep:
    """One filter's step in the funnel from all hosts to the survivors."""

    filter: str
    code: str
    before: int
    after: int


@dataclass(frozen=True)
class Refusal:
    """A filter that refused hosts of a child zone, without the number of hosts."""

    filter: str
    code: str


Why = FunnelStep | Refusal


@dataclass(frozen=True)
class BuildPlan:
    """The unsealed answer of a select, for this zone only, to carry out or to seal.

    `entries` are in greedy order, best first, at most as many as requested; `alternates` are the best entries
    that were not picked; `bundles` replace both for an affinity request. `complete` is false when a child's
    offers are missing. `expires_in_s` is the minimum over this zone and its children. `more`: the entries are
    a page of the greedy sequence, which may go on after it. `limited`: they are too few because a child
    offers no more to one select.
    """

    entries: tuple[Entry, ...]
    alternates: tuple[Entry, ...]
    bundles: tuple[Bundle, ...]
    complete: bool
    expires_in_s: float
    more: bool = False
    limited: bool = False
