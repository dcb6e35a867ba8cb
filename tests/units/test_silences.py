"""How long a process has seen nothing new of an agent whose place another one asks for."""

from __future__ import annotations

from tests.builders.clock import FakeClock
from zonesched.services.state.silences import Silences
from zonesched.store.silent_agents import LastHeartbeat

HEARD = LastHeartbeat(1_699_999_000.0, "promise-1")


def test_only_the_time_from_the_first_question_on_counts_and_of_a_pause_no_more_than_the_longest() -> None:
    # given an agent whose last heartbeat is old, and of which nobody has asked yet
    clock = FakeClock()
    silences = Silences(clock, longest_pause_s=30.0)
    assert silences.seconds("agent-1", HEARD) == 0.0
    silences.note("agent-1", HEARD)
    seen = [silences.seconds("agent-1", HEARD)]
    # when another one asks after 20 seconds, then not for 100, during which the zone may have been away
    for pause_s in (20.0, 100.0):
        clock.advance(pause_s)
        silences.note("agent-1", HEARD)
        seen.append(silences.seconds("agent-1", HEARD))
    # then the time until then counts anew at most as the longest pause, also of one that goes on
    clock.advance(7.0)
    assert [*seen, silences.seconds("agent-1", HEARD)] == [0.0, 20.0, 50.0, 57.0]
    # and neither that of another service nor what was forgotten does
    assert silences.seconds("agent-2", HEARD) == 0.0
    silences.forget("agent-1")
    assert silences.seconds("agent-1", HEARD) == 0.0


def test_a_new_heartbeat_or_promise_ends_a_silence_and_a_clock_that_is_set_does_not() -> None:
    clock = FakeClock()
    silences = Silences(clock, longest_pause_s=30.0)
    silences.note("agent-1", HEARD)
    clock.set_to(0.0)
    clock.advance(10.0)
    assert silences.seconds("agent-1", HEARD) == 10.0
    assert silences.seconds("agent-1", HEARD._replace(at=HEARD.at + 1.0)) == 0.0
    assert silences.seconds("agent-1", HEARD._replace(promised="promise-2")) == 0.0
