"""Kinds about rows that were put back from a copy: agents and children know more than they do."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tests.builders.one_zone import AGENT, a_spec
from tests.interleaving import child_kinds
from tests.interleaving.names import ADMIN, ARRIVING, BELOW, CHILD, FRESH, LEAVING, MEMBER, PLACING, SERVER
from tests.interleaving.operator_kinds import UNKNOWN, Act
from tests.interleaving.scene import Scene
from zonesched.model.agent_instances import AgentReport, AgentState
from zonesched.model.desired_call import DesiredAnswer, Taken
from zonesched.model.instance_image import AS_BOOTED
from zonesched.model.named_boot import GivenBack, ImageAndFlavor, Requested
from zonesched.model.observed_state import Observed, Power
from zonesched.model.placement import Attempt, BuildState, InstanceChange, InstanceStatus
from zonesched.model.told_instance import ToldInstance
from zonesched.services.audit import repair
from zonesched.services.children import desired_calls
from zonesched.services.children.changes import apply_changes
from zonesched.services.hosts import evacuation, hosts
from zonesched.services.life.given_back import write_with_given_back
from zonesched.services.recovery import told_by_agents
from zonesched.services.zone import Zone
from zonesched.store import instance_states

BOOTED = ImageAndFlavor(AS_BOOTED, AS_BOOTED)
OF_AGENT = "INSERT INTO unheard (kind, id) SELECT 'agent', id FROM services WHERE name = 'agent'"
RECOVERS = (*child_kinds.ALL_HEARD, f"{OF_AGENT} ON CONFLICT DO NOTHING")
DOWN = tuple(f"UPDATE hosts SET forced_down = TRUE WHERE name = '{name}'" for name in ("h2", "h4"))


def _agent_ahead(uuid: str, observed: Observed) -> Act:
    def act(scene: Scene, zone: Zone, number: int) -> object:
        reports = [AgentReport(uuid, 1, AgentState.ACTIVE, observed=observed)]
        return hosts.report(zone, AGENT, "agent", reports)

    return act


def _given_back(scene: Scene, uuid: str) -> GivenBack:
    return GivenBack(Requested("r", a_spec()), BOOTED, BOOTED)


def _child_ahead(scene: Scene, zone: Zone, number: int) -> None:
    observed = Observed(5, Power.STOPPED, rebuilds=1)
    item = InstanceChange(BELOW, 1, InstanceStatus.ACTIVE, BuildState.CONFIRMED, observed=observed)
    write_with_given_back(
        zone.store,
        lambda tx, given_back: apply_changes(zone, CHILD, [item], tx, given_back),
        partial(_given_back, scene),
    )


def _child_overtakes(scene: Scene, zone: Zone, number: int) -> None:
    due = zone.store.read(lambda tx: instance_states.due_to_tell(tx, zone.clock.now(), [], 10))
    answers = {
        Attempt(one.uuid, one.attempt): DesiredAnswer(one.uuid, one.attempt, Taken.STORED, 6, rebuilds=1)
        for one in due
    }
    write_with_given_back(
        zone.store, partial(desired_calls._record, zone, due, answers), partial(_given_back, scene)
    )


def _agent_tells(*told: ToldInstance, is_last: bool = True) -> Act:
    def act(scene: Scene, zone: Zone, number: int) -> None:
        told_by_agents.take(zone, AGENT, "agent", told, is_first=True, is_last=is_last)

    return act


def _evacuated(name: str) -> Act:
    def act(scene: Scene, zone: Zone, number: int) -> object:
        return evacuation.evacuate_host(zone, ADMIN.user_id, scene.host_ids[name], fenced=True)

    return act


def _all_told(zone: Zone) -> None:
    there = [ToldInstance(uuid, 1, "h2", is_built=True, observed=Observed(1)) for uuid in (SERVER, PLACING)]
    moved = [ToldInstance(uuid, 2, "h4", is_built=True, observed=Observed(1)) for uuid in (ARRIVING, LEAVING)]
    other = [ToldInstance(MEMBER, 2, "h4", is_built=False), ToldInstance(UNKNOWN, 1, "h1", is_built=True)]
    told_by_agents.take(zone, AGENT, "agent", [*there, *moved, *other], is_first=True, is_last=True)


def _repaired_after_words(scene: Scene, zone: Zone, number: int) -> object:
    _all_told(zone)
    return len(repair.run(zone))


def _unknown_deleted(scene: Scene, zone: Zone, number: int) -> object:
    return len(repair.run(zone, delete_unknown=True))


_FOUND = (
    "INSERT INTO found_instances (kind, holder_id, uuid, number, host_id, status, moves_begun, moves_ended)"
    f" SELECT 'agent', s.id, '{UNKNOWN}', 1, h.id, 'ACTIVE', 0, 0 FROM services s, hosts h"
    " WHERE s.name = 'agent' AND h.name = 'h1'",
)

ACTS: Mapping[str, tuple[Act, tuple[str, ...]]] = {
    "agent_ahead": (_agent_ahead(SERVER, Observed(7, Power.STOPPED, rebuilds=1)), ()),
    "member_ahead": (_agent_ahead(MEMBER, Observed(7, Power.RUNNING)), ()),
    "fresh_ahead": (_agent_ahead(FRESH, Observed(3, Power.STOPPED)), ()),
    "child_ahead": (_child_ahead, child_kinds.TOLD),
    "child_overtakes": (_child_overtakes, child_kinds.TOLD),
    "agent_tells_part": (_agent_tells(ToldInstance(SERVER, 2, "h2", is_built=True), is_last=False), RECOVERS),
    "agent_tells_all": (_agent_tells(ToldInstance(SERVER, 2, "h4", is_built=True)), RECOVERS),
    "recovered_after_words": (_repaired_after_words, RECOVERS),
    "moving_evacuated_in_recovery": (_evacuated("h2"), (*RECOVERS, *DOWN)),
    "arrivals_evacuated_in_recovery": (_evacuated("h4"), (*RECOVERS, *DOWN)),
    "unknown_deleted": (_unknown_deleted, _FOUND),
}
"""Kinds by name, each with the statements that set its own scene."""
