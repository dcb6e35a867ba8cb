"""Agents that no longer call: when another agent may take the place of one, or its hosts.

An agent that does not fence may only be cut off, and its instances run on: they must have ended first, by an
operator's evacuation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy.engine import Connection

from zonesched.model.fencing import fenced_after_s
from zonesched.store import fencing_promises
from zonesched.store.fencing_promises import Promise

NOTHING_RUNS = (
    "none of the other's instances can run any more: after its --fence-after if it fences; else power its"
    " machine off or cut it off for good, then evacuate each of its hosts that has servers with"
    " `zonesched host evacuate HOST --fenced`"
)
"""When nothing runs any more that a silent agent had, as part of a refusal."""


class LastHeartbeat(NamedTuple):
    """Last heartbeat of a service: its time in the row, and the id of the last one with a promise."""

    at: float
    promised: str = ""


@dataclass(frozen=True)
class Silence:
    """How long an agent must have been silent before another one takes its place or its hosts.

    `seconds`: how long the service of an id has been seen with this last heartbeat. `refused`: ids and last
    heartbeats of the services whose agents may be up; `returned`: ids of those that the same agent asks for,
    from another home.
    """

    seconds: Callable[[str, LastHeartbeat], float]
    down_time_s: float
    refused: list[tuple[str, LastHeartbeat]] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)

    def is_over(
        self, tx: Connection, service_id: str, heartbeat_at: float, host_ids: Collection[str] | None = None
    ) -> bool:
        """Tell whether an agent is down and nothing may run on its hosts, or on these of them.

        That it is forced down is not enough: while it calls, it runs its instances.
        """
        promise = fencing_promises.lock(tx, service_id)
        fenced_s = 0.0 if promise is None else fenced_after_s(promise.fence_after_s)
        last = _last_heartbeat(heartbeat_at, promise)
        is_silent = self.seconds(service_id, last) >= fenced_s + self.down_time_s
        if is_silent and (promise is not None or not may_run(tx, service_id, host_ids)):
            return True
        self.refused.append((service_id, last))
        return False

    def has_moved(self, tx: Connection, service_id: str, heartbeat_at: float) -> bool:
        """Tell whether an agent does not call from its former home any more: its machine has started again.

        What it ran there is to go on, so nobody has to say that nothing of it runs.
        """
        last = _last_heartbeat(heartbeat_at, fencing_promises.lock(tx, service_id))
        if self.seconds(service_id, last) >= self.down_time_s:
            return True
        self.refused.append((service_id, last))
        self.returned.append(service_id)
        return False


def _last_heartbeat(at: float, promise: Promise | None) -> LastHeartbeat:
    # One with a promise is durable at once, while the time of the last heartbeat is written later.
    return LastHeartbeat(at, "" if promise is None else promise.heartbeat)


def may_run(tx: Connection, service_id: str, host_ids: Collection[str] | None = None) -> bool:
    """Tell whether a service's hosts, or these of them, have instances that its agent may run."""
    occupied = set(fencing_promises.occupied_hosts(tx, [service_id]))
    return bool(occupied) if host_ids is None else not occupied.isdisjoint(host_ids)
