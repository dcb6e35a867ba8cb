"""When an agent's promise to end its instances is kept, as one process counts it."""

from __future__ import annotations

from pathlib import Path

from tests.builders.clock import clock_of
from tests.builders.one_zone import a_form, a_zone, add_hosts, sql
from zonesched.model.fencing import fenced_after_s
from zonesched.services.state.fences import Fences
from zonesched.services.zone import Zone
from zonesched.store import fencing_promises
from zonesched.store.fencing_promises import Promise

FENCE_AFTER_S = 30.0
WHOLE_S = fenced_after_s(FENCE_AFTER_S)


def beat(zone: Zone, service_id: str, heartbeat: str) -> None:
    zone.store.write(lambda tx: fencing_promises.renew(tx, Promise(service_id, FENCE_AFTER_S, heartbeat)))


def left_s(zone: Zone, fences: Fences, service_id: str) -> float | None:
    return zone.store.read(lambda tx: fences.left_s(tx, service_id))


def test_a_promise_is_kept_a_whole_fence_time_after_its_last_heartbeat_was_first_seen(tmp_path: Path) -> None:
    # given an agent whose heartbeat nobody has seen yet
    zone = a_zone(tmp_path)
    clock, fences = clock_of(zone), Fences(zone.store, zone.clock)
    add_hosts(zone, a_form("h1", VCPU=1))
    ((agent,),) = sql(zone, "SELECT service_id FROM hosts")
    assert left_s(zone, fences, agent) is None
    beat(zone, agent, "first")
    assert not fences.promised(agent)
    assert left_s(zone, fences, agent) == WHOLE_S
    # when it is seen again and again, then the time goes on from the first look
    fences.look()
    clock.advance(WHOLE_S - 8.0)
    fences.look()
    assert (fences.promised(agent), fences.over(), left_s(zone, fences, agent)) == (True, [], 8.0)
    # and a new heartbeat counts from the moment at which it is seen
    beat(zone, agent, "second")
    assert left_s(zone, fences, agent) == WHOLE_S
    fences.look()
    clock.advance(WHOLE_S - 1.0)
    fences.look()
    assert (fences.over(), left_s(zone, fences, agent)) == ([], 1.0)
    # and it is kept to the moment, also long afterwards
    clock.advance(1.0)
    assert (fences.over(), left_s(zone, fences, agent)) == ([agent], 0.0)
    clock.advance(100.0)
    fences.look()
    assert (fences.over(), left_s(zone, fences, agent)) == ([agent], 0.0)
    # and a process that has just started waits for all of it
    other = Fences(zone.store, zone.clock)
    other.look()
    assert (other.over(), left_s(zone, other, agent)) == ([], WHOLE_S)


def test_an_agent_that_withdraws_its_promise_is_never_fenced(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    add_hosts(zone, a_form("h1", VCPU=1))
    ((agent,),) = sql(zone, "SELECT service_id FROM hosts")
    beat(zone, agent, "first")
    fences = Fences(zone.store, zone.clock)
    fences.look()
    clock_of(zone).advance(WHOLE_S)
    zone.store.write(lambda tx: fencing_promises.withdraw(tx, agent))
    assert left_s(zone, fences, agent) is None
    fences.look()
    assert (fences.promised(agent), fences.over()) == (False, [])
