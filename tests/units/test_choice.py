"""Which of the best hosts is taken: one of a few by chance, and the order of hosts of equal weight."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.builders.hosts import a_context, a_host, a_spec, a_table, schedulers
from zonesched.errors import ConfigError
from zonesched.model.host_table import HostTable
from zonesched.model.request_spec import Policy
from zonesched.scheduler.base_scheduler import Offer, OfferRequest


def by_ram(hosts: int) -> HostTable:
    """Hosts 00 (the best by free RAM), 01, ..., each with room for several instances."""
    return a_table([a_host(f"{n:02}", ram_mb=90_000 - 10_000 * n) for n in range(hosts)])


def offer(table: HostTable, request: int, count: int = 1, **options: object) -> Offer:
    policy = options.pop("policy", Policy.EACH)
    assert isinstance(policy, Policy)
    spec = a_spec(count, request_id=f"request-{request}", alternates=2, policy=policy)
    return schedulers(weight_classes=["RAMWeigher"], **options).default.offer(
        OfferRequest(table, spec, a_context(spec.request_id))
    )


@pytest.mark.parametrize("policy", Policy)
def test_each_of_the_few_best_hosts_is_taken_by_some_request(policy: Policy) -> None:
    table = by_ram(6)
    offers = [offer(table, n, host_subset_size=3, policy=policy) for n in range(200)]
    first = Counter((o.picks or o.bundles)[0].host_id for o in offers)
    assert set(first) == {"00", "01", "02"}
    assert min(first.values()) > 40
    again = [offer(table, n, host_subset_size=3, policy=policy) for n in range(200)]
    assert offers == again


def test_one_of_one_is_the_best() -> None:
    assert {offer(by_ram(6), n, host_subset_size=1).picks[0].host_id for n in range(50)} == {"00"}


def test_a_subset_larger_than_all_hosts_is_all_hosts() -> None:
    for policy in Policy:
        offers = [offer(by_ram(3), n, host_subset_size=99, policy=policy) for n in range(50)]
        assert {(o.picks or o.bundles)[0].host_id for o in offers} == {"00", "01", "02"}
    assert offer(a_table([]), 1, host_subset_size=5) == offer(a_table([]), 1)


def test_each_instance_is_drawn_anew_and_alternates_are_the_best_of_the_rest() -> None:
    for n in range(50):
        found = offer(by_ram(8), n, 2, host_subset_size=3)
        picked = {pick.host_id for pick in found.picks}
        rest = [f"{m:02}" for m in range(8) if f"{m:02}" not in picked]
        assert [pick.host_id for pick in found.alternates] == rest[:2]
        assert picked <= {"00", "01", "02", "03"}
    ends = {tuple(p.host_id for p in offer(by_ram(8), n, 2, host_subset_size=3).picks) for n in range(200)}
    assert {first == second for first, second in ends} == {True, False}


def test_bundles_after_the_drawn_one_are_the_best_of_the_rest() -> None:
    for n in range(50):
        bundles = [
            b.host_id for b in offer(by_ram(8), n, 3, host_subset_size=3, policy=Policy.AFFINITY).bundles
        ]
        assert bundles[0] in ("00", "01", "02")
        assert bundles[1:] == [h for h in ("00", "01", "02") if h != bundles[0]]


def test_equal_hosts_come_in_the_same_order_for_all_requests_unless_they_are_shuffled() -> None:
    table = a_table([a_host(f"{n:02}") for n in range(9)])
    orders = {
        shuffle: {
            tuple(p.host_id for p in offer(table, n, 9, shuffle_best_same_weighed_hosts=shuffle).picks)
            for n in range(20)
        }
        for shuffle in (True, False)
    }
    assert len(orders[False]) == 1
    assert len(orders[True]) == 20


def test_a_subset_of_no_host_is_a_wrong_configuration() -> None:
    with pytest.raises(ConfigError, match="host_subset_size"):
        schedulers(host_subset_size=0)


def test_other_drivers_take_the_best() -> None:
    table = a_table([a_host("1f", used={"VCPU": 1}), a_host("2f", used={"VCPU": 2}), a_host("3f")])
    taken = {
        offer(table, n, scheduler_driver="SimpleScheduler", host_subset_size=3).picks[0].host_id
        for n in range(20)
    }
    assert taken == {"3f"}
