"""Kinds about a server that its owner has deleted and may restore."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from tests.builders.one_zone import AGENT
from tests.interleaving.names import ADMIN, SERVER
from tests.interleaving.operator_kinds import Act
from tests.interleaving.scene import Prepare, Scene
from zonesched.errors import ZoneschedError
from zonesched.model.action_table import Action
from zonesched.model.agent_instances import AgentReport, AgentState
from zonesched.model.observed_state import Observed, Power
from zonesched.services.hosts import hosts
from zonesched.services.owners import actions, reclaims, servers
from zonesched.services.zone import Zone

TO_RESTORE_S = 600.0


def _delete(scene: Scene, zone: Zone, number: int) -> object:
    return reclaims.delete(zone, ADMIN, SERVER)


def _stopped(scene: Scene, zone: Zone, number: int) -> None:
    seen = Observed(1, Power.STOPPED)
    hosts.report(zone, AGENT, "agent", [AgentReport(SERVER, 1, AgentState.ACTIVE, observed=seen)])


def _not_stopped(scene: Scene, zone: Zone, number: int) -> None:
    seen = Observed(1, reason="stop_failed")
    hosts.report(zone, AGENT, "agent", [AgentReport(SERVER, 1, AgentState.ACTIVE, observed=seen)])


def _restore(scene: Scene, zone: Zone, number: int) -> object:
    return actions.act(zone, ADMIN, SERVER, Action.RESTORE)


def _reclaim(scene: Scene, zone: Zone, number: int) -> object:
    return reclaims.Reclaims(scene.later(zone, TO_RESTORE_S + 1)).step()


def _delete_for_good(scene: Scene, zone: Zone, number: int) -> object:
    with suppress(ZoneschedError):
        servers.delete(zone, ADMIN, SERVER)
    return None


def _deleting(scene: Scene, zone: Zone) -> None:
    _delete(scene, zone, 0)


def _deleted(scene: Scene, zone: Zone) -> None:
    scene.once(_deleting, zone)
    _stopped(scene, zone, 0)


ACTS: Mapping[str, tuple[Act, Prepare | None]] = {
    "soft_deleted": (_delete, None),
    "soft_delete_stopped": (_stopped, _deleting),
    "soft_delete_refused": (_not_stopped, _deleting),
    "soft_deleted_again": (_delete, _deleted),
    "restored": (_restore, _deleted),
    "reclaimed": (_reclaim, _deleted),
    "soft_deleted_for_good": (_delete_for_good, _deleted),
}
"""Kinds by name, each with what sets its own scene."""
