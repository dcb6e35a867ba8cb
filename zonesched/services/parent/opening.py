"""Opening of the sealed entries that a parent sends with its builds."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from zonesched.errors import BlobRefused
from zonesched.model.build_plan import ChildBlob
from zonesched.model.caller import Caller
from zonesched.model.placement import Attempt, Build
from zonesched.model.request_spec import RequestSpec
from zonesched.model.request_wire import content_digest
from zonesched.seal.envelope import Bound, OpenedEntry
from zonesched.services.zone import Zone
from zonesched.store.inbound import RestEntry

log = logging.getLogger(__name__)


def open_entries(
    zone: Zone, caller: Caller, reservation_id: str, spec: RequestSpec, builds: Sequence[Build]
) -> Mapping[Attempt, tuple[RestEntry, ...]]:
    """Return the entries of each build that open for this caller, project and request."""
    bound = Bound(zone.uuid, caller.user_id, spec.project_id, content_digest(spec))
    # Builds of one call may share their spare entries.
    blobs = list(dict.fromkeys(blob for b in builds for blob in b.blobs))
    found: dict[str, RestEntry] = {}
    for blob, result in zip(blobs, zone.envelope.open_entries(bound, blobs), strict=True):
        match result:
            case OpenedEntry(place, key, expires_at):
                found[blob] = RestEntry(place, key, expires_at)
            case BlobRefused(reason=reason):
                log.info("an entry of reservation %s does not open: %s", reservation_id, reason)
    return {
        Attempt(b.uuid, b.attempt): tuple([found[blob] for blob in b.blobs if blob in found]) for b in builds
    }


def children_of(entries: Iterable[RestEntry]) -> set[str]:
    """Return the ids of the children that offered these entries."""
    return {e.place.child_id for e in entries if isinstance(e.place, ChildBlob)}
