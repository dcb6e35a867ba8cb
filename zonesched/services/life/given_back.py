"""Images and flavors that children give back to a zone whose rows were put back from a copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from zonesched.model.instance_flavor import InstanceFlavor
from zonesched.model.instance_image import AS_BOOTED, AsBooted, InstanceImage
from zonesched.model.named_boot import GivenBack, ImageAndFlavor
from zonesched.model.observed_state import Observed, is_ahead
from zonesched.model.request_spec import RequestSpec
from zonesched.services.life.instance_requests import requests_of
from zonesched.store.instance_states import StoredState
from zonesched.store.store import Store, Transaction

T = TypeVar("T")
_NEW = StoredState("")

GivenBackOf = Mapping[str, GivenBack | None]
"""Answers by uuid; None where the child has no such instance."""


@dataclass(frozen=True)
class Lacking:
    """Nothing is written yet: the child is to be asked what these instances have."""

    uuids: tuple[str, ...]


def lacking(
    rows: Mapping[str, StoredState], seen: Sequence[tuple[str, Observed]], given_back: GivenBackOf
) -> Lacking | None:
    """Return those not asked for yet that a child is ahead of."""
    uuids = sorted(ahead_of(rows, seen) - given_back.keys())
    return Lacking(tuple(uuids)) if uuids else None


def ahead_of(rows: Mapping[str, StoredState], seen: Sequence[tuple[str, Observed]]) -> set[str]:
    """Return those of which a child reports a later generation than was decided here."""
    return {
        uuid
        for uuid, observed in dict(seen).items()
        if is_ahead(observed.generation, rows.get(uuid, _NEW).state.desired.generation)
    }


def write_with_given_back(
    store: Store,
    write: Callable[[Transaction, GivenBackOf], T | Lacking],
    ask: Callable[[str], GivenBack | None],
) -> T:
    """Write the report of a child; ask the child first for what these rows lack. Raises what `ask` raises."""
    given_back: dict[str, GivenBack | None] = {}

    def fn(tx: Transaction) -> T | Lacking:
        return write(tx, given_back)

    while isinstance(result := store.write(fn), Lacking):
        given_back.update({uuid: ask(uuid) for uuid in result.uuids})
    return result


def in_own_terms(tx: Transaction, given_back: GivenBackOf) -> Mapping[str, GivenBack]:
    """Return the answers by uuid; in them `AS_BOOTED` means flavor or image of the boot in these rows."""
    known = {uuid: theirs for uuid, theirs in given_back.items() if theirs is not None}
    own = requests_of(tx, sorted(known)) if known else {}
    return {uuid: _own(theirs, own[uuid]) for uuid, theirs in known.items() if uuid in own}


def _own(theirs: GivenBack, spec: RequestSpec) -> GivenBack:
    sent = theirs.requested.spec
    # A later place in another child was asked for with the flavor and the image of that time.
    flavor: InstanceFlavor = AS_BOOTED if sent.flavor == spec.flavor else sent.flavor
    image: InstanceImage = AS_BOOTED if sent.image == spec.image else sent.image

    def own(known: ImageAndFlavor) -> ImageAndFlavor:
        return ImageAndFlavor(
            image if isinstance(known.image, AsBooted) else known.image,
            flavor if isinstance(known.flavor, AsBooted) else known.flavor,
        )

    return replace(theirs, settled=own(theirs.settled), desired=own(theirs.desired))
