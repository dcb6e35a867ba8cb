"""Parents name their instances: a restored child has lost whose some of them are.

A parent knows by the child's info that it was restored, and names all it has there at each poll until the
child has heard it. A parent that was restored itself names what its rows have: an instance's owner never
changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

from zonesched.model.caller import Caller
from zonesched.model.named_boot import MAX_BOOTS, MAX_BUILDS, NamedBoot
from zonesched.model.placement import Attempt
from zonesched.services.recovery.talks import talk
from zonesched.services.zone import Zone
from zonesched.store import child_placements, instance_states, locks, recovery, reservations
from zonesched.store.recovery import Kind, Named
from zonesched.store.store import Transaction
from zonesched.zones.child import Child
from zonesched.zones.known_child import RESTORED


def tell_restored(zone: Zone) -> None:
    """Name to each restored child all that this zone has there; one that fails is told again later."""
    restored = [known.child for known in zone.children.snapshot() if known.last_error == RESTORED]
    talk(zone, restored, _tell, "takes no names of instances")


def _tell(zone: Zone, child: Child) -> None:
    # It answers no call meanwhile, so nothing that it is told from here on is older than its copy.
    zone.store.write(partial(instance_states.forget_told, child_id=child.id))
    client = zone.child_client(child.id)
    for page in _pages(zone.store.read(partial(_boots, child_id=child.id))):
        if not client.name_boots(page, zone.conf.build_timeout, is_last=False):
            # It asks its own agents and children first.
            return
    client.name_boots((), zone.conf.build_timeout, is_last=True)


def _boots(tx: Transaction, child_id: str) -> list[NamedBoot]:
    found = child_placements.named_to_child(tx, child_id)
    by_boot = groupby(found, key=lambda p: (p.caller_id, p.reservation_id))
    named: list[NamedBoot] = []
    for key, places in by_boot:
        boot = reservations.read_ids(tx, [key[1]]).get(key)
        attempts = [Attempt(p.uuid, p.number) for p in places]
        for at in range(0, len(attempts) if boot else 0, MAX_BUILDS):
            assert boot is not None
            named.append(NamedBoot(boot.id, boot.spec, tuple(attempts[at : at + MAX_BUILDS])))
    return named


def _pages(boots: Sequence[NamedBoot]) -> Iterator[Sequence[NamedBoot]]:
    page: list[NamedBoot] = []
    for boot in boots:
        size = sum(len(one.builds) for one in page) + len(boot.builds)
        if page and (len(page) == MAX_BOOTS or size > MAX_BUILDS):
            yield page
            page = []
        page.append(boot)
    if page:
        yield page


def take(zone: Zone, caller: Caller, boots: Sequence[NamedBoot], *, is_last: bool) -> bool:
    """Take what a parent names, once all agents and children were heard; false before that.

    Only what these have is noted, so a parent cannot fill the zone with names.
    """

    def fn(tx: Transaction) -> bool:
        locks.recovery(tx)
        if not recovery.is_under_way(tx):
            return True
        if any(one.kind in (Kind.AGENT, Kind.CHILD) for one in recovery.unheard(tx)):
            return False
        for boot in boots:
            there = recovery.found_of(tx, [attempt.uuid for attempt in boot.builds])
            for uuid, attempt in boot.builds:
                if uuid in there:
                    recovery.name(tx, uuid, Named(caller.user_id, attempt, boot.reservation_id, boot.spec))
        if is_last:
            recovery.hear(tx, Kind.PARENT, caller.user_id)
        return True

    return zone.store.write(fn)
