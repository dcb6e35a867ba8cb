"""Kinds about a server of a parent: what that tells of it, and what its agent and its zone do with it."""

from __future__ import annotations

from collections.abc import Mapping

from tests.builders.one_zone import AGENT
from tests.interleaving import catalog
from tests.interleaving.names import ADMIN, BOUNDED, HELD, NEW, PARENT, SENT, SENT_BOOT
from tests.interleaving.operator_kinds import Act
from tests.interleaving.scene import Prepare, Scene
from zonesched.model.agent_instances import AgentReport, AgentState
from zonesched.model.desired_call import DesiredOf
from zonesched.model.desired_state import Desired
from zonesched.model.instance_action import MigrateServer
from zonesched.model.observed_state import Observed, Power, Resizes
from zonesched.model.placement import Attempt
from zonesched.model.request_spec import Flavor, Image
from zonesched.services.hosts import hosts
from zonesched.services.moves import mover
from zonesched.services.owners import actions, servers
from zonesched.services.parent import desired
from zonesched.services.parent.confirm import cancel, confirm
from zonesched.services.zone import Zone

LARGE = Flavor(catalog.LARGE, catalog.LARGE, 2, 512, 0)
BEGUN, CONFIRMED, REVERTED = Resizes(1), Resizes(1, confirmed=1), Resizes(1, reverted=1)
STOPPED = Power.STOPPED


def _tell(wanted: Desired) -> Act:
    def act(scene: Scene, zone: Zone, number: int) -> object:
        return [one.taken for one in desired.take(zone, PARENT, [DesiredOf(SENT, 1, wanted)])]

    return act


def _report(*reports: AgentReport) -> Act:
    def act(scene: Scene, zone: Zone, number: int) -> object:
        return hosts.report(zone, AGENT, "agent", reports)

    return act


def _stopped(scene: Scene, zone: Zone) -> None:
    """It is built, and stopped as it was told."""
    scene.calls["sent"][0].hold(zone)
    confirm(zone, PARENT, SENT_BOOT, [Attempt(SENT, 1)])
    hosts.desired(zone.store, zone.heartbeats, AGENT, "agent")
    hosts.report(zone, AGENT, "agent", [AgentReport(SENT, 1, AgentState.ACTIVE)])
    desired.take(zone, PARENT, [DesiredOf(SENT, 1, Desired(1, STOPPED))])
    seen = AgentReport(SENT, 1, AgentState.ACTIVE, observed=Observed(1, STOPPED))
    hosts.report(zone, AGENT, "agent", [seen])


def _resizing(scene: Scene, zone: Zone) -> None:
    scene.once(_stopped, zone)
    desired.take(zone, PARENT, [DesiredOf(SENT, 1, Desired(2, STOPPED, resizes=BEGUN, flavor=LARGE))])


def _resized(scene: Scene, zone: Zone) -> None:
    scene.once(_resizing, zone)
    _arrives(zone)


def _moving(scene: Scene, zone: Zone) -> None:
    scene.once(_stopped, zone)
    actions.act(zone, ADMIN, SENT, MigrateServer(""))
    mover.work(zone)


def _arriving(scene: Scene, zone: Zone) -> None:
    scene.once(_moving, zone)
    hosts.report(zone, AGENT, "agent", [AgentReport(SENT, 1, AgentState.LEFT, left_for=2)])
    hosts.desired(zone.store, zone.heartbeats, AGENT, "agent")


def _arrives(zone: Zone) -> None:
    mover.work(zone)
    hosts.report(zone, AGENT, "agent", [AgentReport(SENT, 1, AgentState.LEFT, left_for=2)])
    hosts.desired(zone.store, zone.heartbeats, AGENT, "agent")
    seen = AgentReport(SENT, 2, AgentState.ACTIVE, observed=Observed(1, STOPPED))
    hosts.report(zone, AGENT, "agent", [seen])


def _returning(scene: Scene, zone: Zone) -> None:
    scene.once(_resized, zone)
    _tell(Desired(3, STOPPED, resizes=REVERTED))(scene, zone, 0)


def _shelving(scene: Scene, zone: Zone) -> None:
    scene.once(_stopped, zone)
    _tell(OFFLOADED)(scene, zone, 0)


def _hold_of_known(name: str) -> Act:
    """Another parent names its instance as the first one does.

    Not the answers: the rows have an instance of this uuid of that other caller.
    """

    def act(scene: Scene, zone: Zone, number: int) -> object:
        found = scene.calls[name][0].hold(zone)
        return [one.state for one in found] if isinstance(found, list) else found

    return act


def _cancel_of_known(name: str, uuid: str) -> Act:
    def act(scene: Scene, zone: Zone, number: int) -> object:
        boot_id = scene.calls[name][0].reservation_id
        return [one.state for one in cancel(zone, BOUNDED, boot_id, [Attempt(uuid, 1)])]

    return act


def _migrate(scene: Scene, zone: Zone, number: int) -> object:
    return actions.act(zone, ADMIN, SENT, MigrateServer(""))


def _sent_deleted(scene: Scene, zone: Zone, number: int) -> object:
    return servers.delete(zone, PARENT, SENT, 1)


def _sent_deleted_by_admin(scene: Scene, zone: Zone, number: int) -> object:
    return servers.delete(zone, ADMIN, SENT)


def _sent_cancelled(scene: Scene, zone: Zone, number: int) -> object:
    return cancel(zone, PARENT, SENT_BOOT, [Attempt(SENT, 1)])


def _sent_again(scene: Scene, zone: Zone, number: int) -> object:
    return scene.calls["sent_again"][0].hold(zone)


def _offloaded(scene: Scene, zone: Zone) -> None:
    scene.once(_shelving, zone)
    hosts.report(zone, AGENT, "agent", [AgentReport(SENT, 1, AgentState.GONE)])


def _held_twice(scene: Scene, zone: Zone) -> None:
    _hold_of_known("alias")(scene, zone, 0)


OFFLOADED = Desired(2, Power.OFFLOADED)
_S = AgentState
ACTS: Mapping[str, tuple[Act, Prepare | None]] = {
    "told_stopped": (_tell(Desired(4, STOPPED)), _stopped),
    "told_rebuild": (
        _tell(Desired(2, STOPPED, rebuilds=1, image=Image("i3", "i3", {}))),
        _stopped,
    ),
    "told_resize": (_tell(Desired(2, STOPPED, resizes=BEGUN, flavor=LARGE)), _stopped),
    "told_leaves": (_tell(OFFLOADED), _stopped),
    "sent_migrates": (_migrate, _stopped),
    "sent_lost": (_report(AgentReport(SENT, 1, _S.GONE)), _stopped),
    "told_leaves_placing": (_tell(Desired(3, Power.OFFLOADED, resizes=BEGUN)), _resizing),
    "told_confirms": (_tell(Desired(3, STOPPED, resizes=CONFIRMED, flavor=LARGE)), _resized),
    "told_reverts": (_tell(Desired(3, STOPPED, resizes=REVERTED)), _resized),
    "told_leaves_resized": (_tell(Desired(3, Power.OFFLOADED, resizes=BEGUN)), _resized),
    "told_leaves_moving": (_tell(OFFLOADED), _moving),
    "sent_left": (_report(AgentReport(SENT, 1, _S.LEFT, left_for=2)), _moving),
    "told_leaves_arriving": (_tell(OFFLOADED), _arriving),
    "sent_arrives": (
        _report(AgentReport(SENT, 2, _S.ACTIVE, observed=Observed(1, STOPPED))),
        _arriving,
    ),
    "sent_not_built": (_report(AgentReport(SENT, 2, _S.ERROR, "build_failed")), _arriving),
    "told_leaves_returning": (_tell(Desired(4, Power.OFFLOADED, resizes=REVERTED)), _returning),
    "sent_back": (_report(AgentReport(SENT, 2, _S.GONE)), _returning),
    "sent_offloaded": (_report(AgentReport(SENT, 1, _S.GONE)), _shelving),
    "told_again": (_tell(Desired(3, STOPPED)), _shelving),
    "sent_reported": (
        _report(AgentReport(SENT, 1, _S.ACTIVE, observed=Observed(2, STOPPED, rebuilds=1))),
        _stopped,
    ),
    "sent_deleted": (_sent_deleted, _stopped),
    "sent_deleted_by_admin": (_sent_deleted_by_admin, _stopped),
    "sent_cancelled": (_sent_cancelled, _stopped),
    "sent_again": (_sent_again, _offloaded),
    "hold_of_known": (_hold_of_known("alias"), None),
    "cancel_of_known": (_cancel_of_known("alias", HELD), _held_twice),
    "hold_of_new": (_hold_of_known("alias_of_new"), None),
    "cancel_of_new": (_cancel_of_known("alias_of_new", NEW), None),
}
"""Kinds by name, each with what sets its own scene."""
