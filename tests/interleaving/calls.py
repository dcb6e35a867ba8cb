"""Calls of parents, which any process of the scene can take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tests.builders.one_zone import (
    a_spec,
)
from tests.interleaving import answering_child, catalog
from tests.interleaving.names import (
    APART,
    BOOT,
    BOUNDED,
    CHILD,
    ELSEWHERE,
    FAILING,
    HELD,
    HOLD_S,
    INTO_CHILD,
    JOINED,
    MEMBER,
    MEMBERS,
    NEW,
    PARENT,
    SENT,
    SENT_BOOT,
    TOGETHER,
    uuid_of,
)
from zonesched.model.build_plan import ChildBlob, EntryPlace
from zonesched.model.caller import Caller
from zonesched.model.place import LocalPlace
from zonesched.model.placement import Build
from zonesched.model.request_spec import GroupPolicy, NoGroup, RequestSpec, ServerGroup
from zonesched.model.request_wire import content_digest
from zonesched.seal.envelope import Bound
from zonesched.services.parent.hold import hold_builds
from zonesched.services.zone import Zone


@dataclass(frozen=True)
class Sent:
    """One call of a parent, which any process can take."""

    caller: Caller
    reservation_id: str
    spec: RequestSpec
    builds: Sequence[Build]

    def hold(self, zone: Zone) -> object:
        """Take the call."""
        return hold_builds(zone, self.caller, self.reservation_id, self.builds, HOLD_S, self.spec)


def spec_of(reservation_id: str, group: ServerGroup | NoGroup | None = None) -> RequestSpec:
    spec = a_spec(reservation_id=reservation_id)
    return replace(spec, group=group or NoGroup(), path=("33333333-3333-4333-8333-333333333333",))


def _call(
    zone: Zone,
    caller: Caller,
    reservation_id: str,
    places: Mapping[str, Sequence[EntryPlace]],
    group: ServerGroup | None = None,
    attempt: int = 1,
) -> Sent:
    spec = spec_of(reservation_id, group)
    bound = Bound(zone.uuid, caller.user_id, spec.project_id, content_digest(spec))
    builds = [Build(uuid, attempt, tuple(zone.envelope.seal(bound, some))) for uuid, some in places.items()]
    return Sent(caller, reservation_id, spec, builds)


def calls_of(zone: Zone, host_ids: Mapping[str, str]) -> Mapping[str, Sequence[Sent]]:
    h1, h2, h3, h4, h5 = (LocalPlace(host_ids[name]) for name in ("h1", "h2", "h3", "h4", "h5"))
    affine, apart = (
        ServerGroup(TOGETHER, GroupPolicy.AFFINITY),
        ServerGroup(APART, GroupPolicy.ANTI_AFFINITY, 1),
    )
    joined = ServerGroup(JOINED, GroupPolicy.AFFINITY)
    in_child, again_in_child = (ChildBlob(CHILD, blob) for blob in answering_child.BLOBS)
    whole = {HELD: [h1], NEW: [h1], ELSEWHERE: [h3]}
    return {
        "first": [_call(zone, PARENT, BOOT, {HELD: [h1, h2], FAILING: [h1, h2]})],
        "hold": [_call(zone, PARENT, BOOT, whole)],
        "below": [_call(zone, PARENT, BOOT, {INTO_CHILD: [in_child, h1]})],
        "below_twice": [_call(zone, PARENT, BOOT, {INTO_CHILD: [in_child, again_in_child, h1]})],
        "both": [_call(zone, PARENT, BOOT, {INTO_CHILD: [in_child], ELSEWHERE: [h3, h2]})],
        "bounded": [_call(zone, BOUNDED, uuid_of(130 + n), {uuid_of(30 + n): [h1]}) for n in range(3)],
        "together": [
            _call(zone, PARENT, uuid_of(140 + n), {uuid_of(40 + n): [host]}, affine)
            for n, host in enumerate((h2, h3, h4))
        ],
        "apart": [_call(zone, PARENT, uuid_of(150 + n), {uuid_of(50 + n): [h2]}, apart) for n in range(3)],
        "join": [_call(zone, PARENT, uuid_of(160 + n), {uuid_of(60 + n): [h3]}, joined) for n in range(3)],
        "empty": [_call(zone, PARENT, uuid_of(190), {uuid_of(90): [h5]})],
        "next": [_call(zone, PARENT, BOOT, {HELD: [h2]}, attempt=2)],
        "sent": [_call(zone, PARENT, SENT_BOOT, {SENT: [h2]})],
        "sent_again": [_call(zone, PARENT, SENT_BOOT, {SENT: [h2, h4]}, attempt=2)],
        "alias": [_call(zone, BOUNDED, uuid_of(191), {HELD: [h1]})],
        "alias_of_new": [_call(zone, BOUNDED, uuid_of(193), {NEW: [h2]})],
        "pruned": [_call(zone, PARENT, catalog.PRUNED_BOOT, {uuid_of(70): [h1]})],
        "member": [_call(zone, PARENT, MEMBERS, {MEMBER: [h2]}, joined)],
    }
