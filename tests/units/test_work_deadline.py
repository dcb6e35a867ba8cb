"""The time budget of a request: nothing goes on filtering, asking or weighing after it."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from tests.builders.clock import FakeClock
from tests.builders.hosts import a_host, a_spec, a_table, schedulers
from tests.builders.own_plugins import SlowFilter
from zonesched.errors import CallerGone
from zonesched.model.build_plan import FunnelStep
from zonesched.model.host_table import HostTable
from zonesched.model.request_spec import Policy, RequestSpec
from zonesched.model.work_deadline import CHUNK, OutOfTime, WorkDeadline
from zonesched.scheduler.base_scheduler import Offer, OfferRequest

SLOW, SLOW_AGAIN, SLOW_WEIGHER = (
    f"tests.builders.own_plugins.{name}" for name in ("SlowFilter", "SlowAgainFilter", "SlowWeigher")
)


def many(count: int) -> HostTable:
    """Hosts that have no facts in common."""
    return a_table([a_host(f"{n:x}f", capabilities={"serial": f"s{n}"}) for n in range(count)])


def offered(
    table: HostTable, spec: RequestSpec, *filters: str, seconds: float, budget_s: float = 1.0, scored: int = 0
) -> Offer:
    """The offer of hosts about each of which a slow plugin takes so many seconds."""
    clock = FakeClock()
    SlowFilter.takes(clock, seconds)
    deadline = WorkDeadline.after(clock.monotonic, budget_s)
    scheduler = schedulers(enabled_filters=list(filters)).default
    return scheduler.offer(OfferRequest(table, spec, deadline=deadline, scored=scored))


def test_a_deadline_is_looked_at_once_per_chunk() -> None:
    clock = FakeClock()
    deadline = WorkDeadline.after(clock.monotonic, 1.0)
    seen = []
    with pytest.raises(OutOfTime):
        for number in deadline.watch(itertools.count()):
            seen.append(number)
            clock.advance(0.5)
    assert (len(seen), deadline.left_s) == (CHUNK, 1.0 - CHUNK * 0.5)


def test_work_that_nobody_waits_for_ends_with_the_chunk() -> None:
    answers = iter([True, False])
    deadline = WorkDeadline.after(FakeClock().monotonic, 1.0, lambda: next(answers))
    seen = []
    with pytest.raises(CallerGone):
        for number in deadline.at_least(2.0).watch(itertools.count()):
            seen.append(number)
    assert len(seen) == CHUNK


def test_a_slow_filter_of_ones_own_ends_with_its_caller() -> None:
    SlowFilter.takes(FakeClock(), 0.0)
    deadline = WorkDeadline.after(FakeClock().monotonic, 1.0, lambda: SlowFilter.asked < 2 * CHUNK)

    with pytest.raises(CallerGone):
        schedulers(enabled_filters=[SLOW]).default.offer(
            OfferRequest(many(300), a_spec(5), deadline=deadline)
        )

    assert SlowFilter.asked == 2 * CHUNK


def test_a_slow_filter_of_ones_own_ends_with_the_time_budget_and_its_hosts_are_not_offered() -> None:
    offer = offered(many(300), a_spec(5), "ComputeFilter", SLOW, "RamFilter", seconds=0.1)

    assert (offer.picks, offer.alternates, offer.complete) == ((), (), False)
    assert offer.why == (
        FunnelStep("ComputeFilter", "host_not_available", 300, 300),
        FunnelStep("SlowFilter", "out_of_time", 300, 0),
    )
    assert SlowFilter.asked == CHUNK


def test_a_filter_is_not_asked_after_another_one_took_all_the_time() -> None:
    offer = offered(many(CHUNK), a_spec(), SLOW, "RamFilter", seconds=1.0)

    assert offer.why == (
        FunnelStep("SlowFilter", "refused_by_filter", CHUNK, CHUNK),
        FunnelStep("RamFilter", "out_of_time", CHUNK, 0),
    )
    assert not offer.complete


def test_a_request_that_arrives_too_late_is_not_worked_on() -> None:
    offer = offered(many(3), a_spec(), "RamFilter", seconds=0.0, budget_s=-1.0)
    assert offer.why == (FunnelStep("RamFilter", "out_of_time", 3, 0),)


def test_picks_that_were_made_in_time_are_offered() -> None:
    # given: hosts each with room for many; to put a second instance on one takes too long
    offer = offered(many(3), a_spec(9), SLOW_AGAIN, seconds=2.0)

    assert sorted(pick.host_id for pick in offer.picks) == ["0f", "0f", "1f", "1f", "2f", "2f"]
    assert SlowFilter.asked == 3
    assert not offer.complete
    assert offer.runs_out == ()


def test_bundles_that_were_found_in_time_are_offered() -> None:
    spec = a_spec(2, policy=Policy.AFFINITY, alternates=9)
    offer = offered(many(30), spec, SLOW_AGAIN, seconds=0.3)
    # The filter takes 0.3 s a host on the injected clock: four begin within the budget of 1 s.
    assert len(offer.bundles) == 4
    assert not offer.complete


def test_a_slow_weigher_ends_with_the_time_budget() -> None:
    clock = FakeClock()
    SlowFilter.takes(clock, 0.1)
    request = OfferRequest(many(300), a_spec(), deadline=WorkDeadline.after(clock.monotonic, 1.0))

    offer = schedulers(weight_classes=[SLOW_WEIGHER]).default.offer(request)

    assert (offer.picks, offer.complete) == ((), False)
    assert offer.why[-1] == FunnelStep("FilterScheduler", "out_of_time", 300, 0)
    assert SlowFilter.asked == CHUNK


def test_in_time_an_offer_is_the_one_without_a_deadline() -> None:
    table, spec = many(40), a_spec(9, alternates=3, filter_query='[">", "$free_ram_mb", 3000]')
    scheduler = schedulers().default
    request = OfferRequest(table, spec, scored=3)
    in_time = scheduler.offer(replace(request, deadline=WorkDeadline.after(FakeClock().monotonic, 1.0)))
    assert in_time == scheduler.offer(request)
    assert in_time.complete


class TickingClock(FakeClock):
    """Time goes by as it is looked at, so that reads of the clock count the chunks of work."""

    reads = 0

    def monotonic(self) -> float:
        self.reads += 1
        self.advance(0.01)
        return super().monotonic()


@pytest.mark.parametrize(
    "query",
    [
        ["in", "$capabilities.serial", *(f"x{n}" for n in range(200))],
        ["or", *(["=", "$capabilities.serial", f"x{n}"] for n in range(100))],
        ["in", "$free_ram_mb", *(f"$capabilities.x{n}" for n in range(200))],
        ["and", *(["not", ["=", "$vcpus_used", n]] for n in range(100))],
    ],
    ids=["texts", "conditions", "mixed", "numbers"],
)
@pytest.mark.parametrize("budget_s", [0.05, 1000.0])
def test_a_query_is_stopped_where_it_is(query: list[object], budget_s: float) -> None:
    clock = TickingClock()
    deadline = WorkDeadline.after(clock.monotonic, budget_s)
    spec = a_spec(filter_query=json.dumps(query))
    request = OfferRequest(many(200), spec, deadline=deadline)

    offer = schedulers(enabled_filters=["AllHostsFilter"]).default.offer(request)

    if budget_s < 1:
        assert (offer.complete, offer.why[-1].code, offer.why[-1].after) == (False, "out_of_time", 0)
        assert clock.reads <= 8
    else:
        assert offer.complete
        assert offer.why[1].filter == "JSONFilter"
        assert clock.reads > 8
