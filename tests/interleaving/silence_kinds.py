"""Kinds about an agent that has been silent for as long as it promised: it is evacuated, or comes back."""

from __future__ import annotations

from collections.abc import Mapping

from tests.builders.one_zone import AGENT
from tests.interleaving.names import ADMIN, SERVER
from tests.interleaving.operator_kinds import Act
from tests.interleaving.scene import Scene
from zonesched.model.fencing import fenced_after_s
from zonesched.services.hosts import evacuation, hosts
from zonesched.services.state.fences import Fences, _Seen
from zonesched.services.zone import Zone
from zonesched.store import services
from zonesched.store.fencing_promises import Promise

FENCE_AFTER_S, LAST = 10.0, "last"
SILENT = (
    "UPDATE hosts SET forced_down = TRUE WHERE name = 'h2'",
    "INSERT INTO fencing_promises (service_id, fence_after_s, heartbeat)"
    f" SELECT id, {FENCE_AFTER_S}, '{LAST}' FROM services WHERE name = 'agent'"
    " ON CONFLICT DO NOTHING",
)
"""The agent has promised to end its instances; its last heartbeat is known."""


def _has_kept_its_promise(scene: Scene, zone: Zone) -> Zone:
    """Let a process have waited since it saw the agent's last heartbeat."""
    zone.fences = Fences(zone.store, zone.clock)
    [agent] = [one for one in zone.store.read(services.read_all).values() if one.name == "agent"]
    zone.fences._seen[agent.id] = _Seen(Promise(agent.id, FENCE_AFTER_S, LAST), zone.clock.monotonic())
    return scene.later(zone, fenced_after_s(FENCE_AFTER_S) + 1)


def _host_evacuated(scene: Scene, zone: Zone, number: int) -> object:
    waited = _has_kept_its_promise(scene, zone)
    return evacuation.evacuate_host(waited, ADMIN.user_id, scene.host_ids["h2"], fenced=False)


def _server_evacuated(scene: Scene, zone: Zone, number: int) -> object:
    return evacuation.evacuate_server(_has_kept_its_promise(scene, zone), ADMIN, SERVER, fenced=False)


def _agent_back(scene: Scene, zone: Zone, number: int) -> object:
    """Renew the promise, then read what should run."""
    hosts.beat(zone, AGENT, "agent", FENCE_AFTER_S)
    return sorted(one.uuid for one in hosts.desired(zone.store, zone.heartbeats, AGENT, "agent"))


ACTS: Mapping[str, tuple[Act, tuple[str, ...]]] = {
    "silent_host_evacuated": (_host_evacuated, SILENT),
    "silent_server_evacuated": (_server_evacuated, SILENT),
    "agent_back": (_agent_back, SILENT),
}
"""Kinds by name, each with the statements that set its own scene."""
