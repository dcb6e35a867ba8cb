"""Kinds about servers that leave their places and are placed again: drained, shelved, members of a group."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from tests.builders.one_zone import AGENT
from tests.interleaving import catalog
from tests.interleaving.names import ADMIN, ARRIVING, BELOW, CHILD, RESTING, SERVER, boot_of
from tests.interleaving.operator_kinds import Act
from tests.interleaving.scene import Prepare, Scene
from zonesched.errors import ZoneschedError
from zonesched.model.action_table import Action
from zonesched.model.agent_instances import AgentReport, AgentState
from zonesched.model.boot_form import BootForm
from zonesched.model.instance_action import UnlockServer
from zonesched.model.observed_state import Observed, Power
from zonesched.model.placement import BuildState, InstanceChange, InstanceStatus
from zonesched.services.boot import boot, provision
from zonesched.services.catalog import keypairs
from zonesched.services.children import draining
from zonesched.services.children.changes import apply_changes
from zonesched.services.hosts import hosts
from zonesched.services.owners import actions, servers
from zonesched.services.zone import Zone
from zonesched.store import reservations
from zonesched.store.store import Transaction

TO_DRAIN = (
    f"UPDATE instances SET status = 'ACTIVE' WHERE uuid = '{BELOW}'",
    "UPDATE children SET is_enabled = FALSE",
)

NOWHERE = (
    f"UPDATE instances SET status = 'OFFLOADED' WHERE uuid = '{BELOW}'",
    f"UPDATE placements SET state = 'released' WHERE uuid = '{BELOW}'",
    f"UPDATE instance_states SET observed_generation = 2 WHERE uuid = '{BELOW}'",
    "UPDATE instance_actions SET result = 'error', reason = 'no_valid_host', finished_at = started_at"
    f" WHERE uuid = '{BELOW}' AND action = 'evacuate'",
    f"UPDATE reservations SET state = 'settled' WHERE id = '{boot_of(BELOW)}'",
)
"""The boot of what has left the child has found no place for it."""


def _drain(scene: Scene, zone: Zone, number: int) -> object:
    # Not all of the answer: it tells what it has read before.
    return draining.drain(zone, ADMIN, CHILD, 10).asked


def _offloaded(scene: Scene, zone: Zone, number: int) -> None:
    observed = Observed(1, Power.OFFLOADED)
    item = InstanceChange(BELOW, 1, InstanceStatus.OFFLOADED, BuildState.CONFIRMED, observed=observed)

    def fn(tx: Transaction) -> None:
        apply_changes(zone, CHILD, [item], tx, given_back={})

    zone.store.write(fn)


def _drained(scene: Scene, zone: Zone) -> None:
    for statement in TO_DRAIN:
        scene.spoil(statement)
    _drain(scene, zone, 0)


def _left(scene: Scene, zone: Zone) -> None:
    scene.once(_drained, zone)
    _offloaded(scene, zone, 0)


def _left_for_nowhere(scene: Scene, zone: Zone) -> None:
    """It has left the child, and found no place."""
    scene.once(_left, zone)
    for statement in NOWHERE:
        scene.spoil(statement)


def _carry_on(zone: Zone) -> None:
    """Go on with all boots that are due: the new ones are leased."""
    now = zone.clock.now()
    take_lease = partial(reservations.take_lease, now=now, duration_s=zone.conf.boot_lease)
    while (lease := zone.store.write(take_lease)) is not None:
        provision.carry_on(zone, lease)


def _placed_again(scene: Scene, zone: Zone, number: int) -> None:
    _carry_on(zone)


def _unshelved_below(scene: Scene, zone: Zone, number: int) -> None:
    with suppress(ZoneschedError):
        actions.act(zone, ADMIN, BELOW, Action.UNSHELVE)
    _carry_on(zone)


def _delete_below(scene: Scene, zone: Zone, number: int) -> object:
    return servers.delete(zone, ADMIN, BELOW)


def _members(scene: Scene) -> list[str]:
    found = scene.watch.execute("SELECT uuid FROM instances WHERE name LIKE 'grouped%' ORDER BY position")
    return [str(uuid) for (uuid,) in found]


def _grouped(scene: Scene, zone: Zone) -> None:
    """Two servers of one affinity group run."""
    form = BootForm("grouped", catalog.LARGE, catalog.IMAGE, 2, 2, group_ref=scene.furnished.group_id)
    boot.accept(zone, ADMIN, form)
    new = zone.boots.take()
    assert new is not None
    provision.begin(zone, new)
    hosts.desired(zone.store, zone.heartbeats, AGENT, "agent")
    built = [AgentReport(uuid, 1, AgentState.ACTIVE) for uuid in _members(scene)]
    hosts.report(zone, AGENT, "agent", built)


def _one_rests(scene: Scene, zone: Zone) -> None:
    scene.once(_grouped, zone)
    _shelve(scene, zone, _members(scene)[0])


def _both_rest(scene: Scene, zone: Zone) -> None:
    scene.once(_grouped, zone)
    for uuid in _members(scene):
        _shelve(scene, zone, uuid)


def _shelve(scene: Scene, zone: Zone, uuid: str) -> None:
    actions.act(zone, ADMIN, uuid, Action.SHELVE)
    hosts.report(zone, AGENT, "agent", [AgentReport(uuid, 1, AgentState.GONE)])


def _member_unshelved(which: int) -> Act:
    def act(scene: Scene, zone: Zone, number: int) -> None:
        with suppress(ZoneschedError):
            actions.act(zone, ADMIN, _members(scene)[which], Action.UNSHELVE)
        _carry_on(zone)

    return act


def _member_deleted(scene: Scene, zone: Zone, number: int) -> object:
    return servers.delete(zone, ADMIN, _members(scene)[1])


def _member_gone(scene: Scene, zone: Zone, number: int) -> object:
    """The other one is shelved, and its agent says at once that it is gone."""
    uuid = _members(scene)[1]
    actions.act(zone, ADMIN, uuid, Action.SHELVE)
    return hosts.report(zone, AGENT, "agent", [AgentReport(uuid, 1, AgentState.GONE)])


def _boot_grouped(scene: Scene, zone: Zone, number: int) -> None:
    form = BootForm("more", catalog.LARGE, catalog.IMAGE, 1, 1, group_ref=scene.furnished.group_id)
    boot.accept(zone, ADMIN, form)
    new = zone.boots.take()
    assert new is not None
    provision.begin(zone, new)


def _shelve_one(scene: Scene, zone: Zone, number: int) -> object:
    return actions.act(zone, ADMIN, SERVER, Action.SHELVE)


def _shelving(scene: Scene, zone: Zone) -> None:
    _shelve_one(scene, zone, 0)


def _server_gone(scene: Scene, zone: Zone, number: int) -> object:
    return hosts.report(zone, AGENT, "agent", [AgentReport(SERVER, 1, AgentState.GONE)])


def _unlock(scene: Scene, zone: Zone, number: int) -> object:
    return actions.act(zone, ADMIN, SERVER, UnlockServer())


def _rest_boot_stopped(scene: Scene, zone: Zone, number: int) -> object:
    return actions.act(zone, ADMIN, RESTING, Action.STOP)


def _keypair_deleted(scene: Scene, zone: Zone, number: int) -> object:
    return keypairs.remove(zone.store, catalog.PERSON.user_id, "key-1")


def _turned_back(scene: Scene, zone: Zone) -> None:
    """A move has failed at its new place, and waits until nothing is left there."""
    hosts.report(zone, AGENT, "agent", [AgentReport(ARRIVING, 2, AgentState.ERROR, "build_failed")])


def _move_returned(scene: Scene, zone: Zone, number: int) -> object:
    return hosts.report(zone, AGENT, "agent", [AgentReport(ARRIVING, 2, AgentState.GONE)])


ACTS: Mapping[str, tuple[Act, Prepare | None]] = {
    "below_offloaded": (_offloaded, _drained),
    "drained_once_more": (_drain, _drained),
    "deleted_while_drained": (_delete_below, _drained),
    "placed_after_drain": (_placed_again, _left),
    "deleted_after_drain": (_delete_below, _left),
    "drained_again": (_drain, _left_for_nowhere),
    "unshelved_after_drain": (_unshelved_below, _left_for_nowhere),
    "resting_after_drain_deleted": (_delete_below, _left_for_nowhere),
    "member_unshelved": (_member_unshelved(0), _one_rests),
    "other_member_deleted": (_member_deleted, _one_rests),
    "other_member_gone": (_member_gone, _one_rests),
    "boot_in_group": (_boot_grouped, _one_rests),
    "first_unshelved": (_member_unshelved(0), _both_rest),
    "second_unshelved": (_member_unshelved(1), _both_rest),
    "boot_in_resting_group": (_boot_grouped, _both_rest),
    "move_returned": (_move_returned, _turned_back),
    "shelve_server": (_shelve_one, None),
    "shelving_gone": (_server_gone, _shelving),
    "unlock": (_unlock, None),
    "keypair_deleted": (_keypair_deleted, None),
}
"""Kinds by name, each with what sets its own scene."""

LOOK_AGAIN = frozenset(
    {
        "placed_after_drain",
        "unshelved_after_drain",
        "member_unshelved",
        "first_unshelved",
        "second_unshelved",
    }
)
"""Kinds that work on a boot that is due, as a loop does."""
