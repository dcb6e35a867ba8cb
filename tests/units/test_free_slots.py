"""How many instances of a request a host takes."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.builders.hosts import a_host, a_spec, a_table, schedulers
from zonesched.model.build_plan import FunnelStep
from zonesched.model.request_spec import GroupPolicy, Policy, ServerGroup
from zonesched.scheduler.base_scheduler import OfferRequest


@pytest.mark.parametrize(("count", "bundles"), [(1, 2), (2, 2), (3, 0)])
def test_all_instances_on_one_host_are_no_more_than_the_group_may_have_there(
    count: int, bundles: int
) -> None:
    """A parent of another making may ask for both policies at once."""
    group = ServerGroup("group-1", GroupPolicy.ANTI_AFFINITY, 2)
    spec = a_spec(count, group=group, policy=Policy.AFFINITY, alternates=1)
    table = a_table([a_host("1f", vcpus=8), a_host("2f", vcpus=8)])

    offer = schedulers().default.offer(OfferRequest(table, spec))

    assert len(offer.bundles) == bundles
    assert offer.why[-1] == FunnelStep("free_slots", "no_free_slots", 2, bundles)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_host_is_offered_no_more_often_than_the_group_may_be_there(limit: int) -> None:
    group = ServerGroup("group-1", GroupPolicy.ANTI_AFFINITY, limit)
    table = a_table([a_host("1f", vcpus=8), a_host("2f", vcpus=8)])

    offer = schedulers().default.offer(OfferRequest(table, a_spec(10, group=group)))

    assert Counter(pick.host_id for pick in offer.picks) == {"1f": limit, "2f": limit}
