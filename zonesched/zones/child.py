"""A child zone as its parent knows it: its address, its info, and its offers.

Everything but `Child` came from the child and has been validated; blobs and cursors stay opaque.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zonesched.model.build_plan import Why
from zonesched.model.placement import InstanceChange
from zonesched.scheduler.scale import Range


@dataclass(frozen=True)
class Child:
    """A registered child: its URL, this zone's user there, and the adjustment of its weights.

    `id` is a UUID in canonical text form. `weight_scale` is above 0. One that is not enabled gets no selects.
    """

    id: str
    name: str
    api_url: str
    username: str
    password: str = field(repr=False)
    weight_offset: float = 0.0
    weight_scale: float = 1.0
    zone_uuid: str = ""
    is_enabled: bool = True

    def same_endpoint(self, other: Child) -> bool:
        """Tell whether calls to both go to the same URL as the same user."""
        return (self.id, self.api_url, self.username, self.password) == (
            other.id,
            other.api_url,
            other.username,
            other.password,
        )


@dataclass(frozen=True)
class ChildInfo:
    """Info of a child about itself and its child zones.

    `ranges` of raw values by weigher; `capacities` by resource class, of the smallest and the largest host.
    `complete` is false while one of the child's own children has not reported: there may be more than it
    lists. `blob_size` in bytes. `has_pages`: a select may ask it for a page of its offers. `recovering`: it
    was restored from a copy, and waits until it has heard what runs. `start`: the id of its last start.
    """

    uuid: str
    blob_size: int
    can_seal: bool
    complete: bool
    ranges: Mapping[str, Range]
    capacities: Mapping[str, Range]
    traits: frozenset[str]
    availability_zones: frozenset[str]
    zone_capabilities: Mapping[str, frozenset[str]]
    has_pages: bool = False
    recovering: bool = False
    start: str = ""


@dataclass(frozen=True)
class Waiting:
    """The child has not answered yet, and takes no part until it does."""


@dataclass(frozen=True)
class Ready:
    """The child answers; `info` is its last one."""

    info: ChildInfo


@dataclass(frozen=True)
class Offline:
    """The child takes no part until its next good answer. `seen_at`: UTC epoch seconds, None for never."""

    error: str
    seen_at: float | None


ChildStatus = Waiting | Ready | Offline


class OfferedEntry(NamedTuple):
    """A place for one instance in a child. `weight` and `tie` as the child gave them, lower is better."""

    weight: int
    tie: int
    blob: str


class OfferedBundle(NamedTuple):
    """Places for all instances of an affinity request on one host in a child."""

    weight: int
    tie: int
    blobs: tuple[str, ...]


@dataclass(frozen=True)
class ChildOffer:
    """A child's answer to a select, in its own greedy order; an affinity request has only `bundles`.

    `blob_size`: bytes of each blob in it, 0 where it has none. `why`: its reasons for refused hosts;
    `runs_out`: the resources that the other hosts lacked. `more`: it offers more places after `entries`.
    `limited`: its `entries` are fewer than were asked for because it offers no more to one select.
    `database_away`: a zone of its subtree gave no offers because its database is away.
    """

    entries: tuple[OfferedEntry, ...]
    alternates: tuple[OfferedEntry, ...]
    bundles: tuple[OfferedBundle, ...]
    blob_size: int
    complete: bool
    expires_in_s: float
    why: tuple[Why, ...]
    runs_out: tuple[Why, ...] = ()
    more: bool = False
    limited: bool = False
    database_away: bool = False


@dataclass(frozen=True)
class Changes:
    """Page of changes of this zone's reservations in a child; ask again at once if there is `more`."""

    items: tuple[InstanceChange, ...]
    cursor: str
    more: bool
