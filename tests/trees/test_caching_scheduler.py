"""CachingScheduler: hosts read now and then; claims that lose are placed elsewhere and make it read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.clock import clock_of
from tests.builders.one_zone import a_form, a_zone, add_hosts, beat, boot_on, sql
from tests.builders.scenes import built_once
from tests.builders.tree import Tree, a_host
from zonesched.services.boot import batch
from zonesched.services.state.host_cache import HostCache
from zonesched.services.state.sql_hosts import SqlHosts
from zonesched.services.zone import Zone

CACHING: dict[str, Any] = {"scheduler_driver": "CachingScheduler", "host_refresh_interval": 60.0}


def free(hosts: HostCache | SqlHosts, host_id: str) -> float:
    with hosts.current() as table:
        row = table.row_of(host_id)
        return float(table.capacity("VCPU")[row] - table.used("VCPU")[row])


def a_caching_zone(folder: Path) -> tuple[Zone, str]:
    zone = a_zone(folder, **CACHING)
    (host_id,) = add_hosts(zone, a_form("h1"))
    assert free(zone.hosts, host_id) == 8
    return zone, host_id


def test_what_is_claimed_shows_when_the_interval_is_over(tmp_path: Path) -> None:
    zone, host_id = a_caching_zone(tmp_path)

    boot_on(zone, host_id, {"VCPU": 3})
    clock_of(zone).advance(59)
    before = free(zone.hosts, host_id)
    clock_of(zone).advance(1)

    assert (before, free(zone.hosts, host_id)) == (8, 5)


def test_while_no_host_can_take_anything_each_use_reads(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, **CACHING)
    zone.hosts.read_again()

    (host_id,) = add_hosts(zone, a_form("h1"))
    first = free(zone.hosts, host_id)
    clock_of(zone).advance(61)
    with zone.hosts.current() as table:
        was_down = not table.up[table.row_of(host_id)]
    beat(zone)
    with zone.hosts.current() as table:
        is_up = bool(table.up[table.row_of(host_id)])

    assert (first, was_down, is_up) == (8, True, True)


def test_what_expires_is_read_at_the_next_use(tmp_path: Path) -> None:
    zone, host_id = a_caching_zone(tmp_path)

    boot_on(zone, host_id, {"VCPU": 3})
    zone.hosts.expire()
    read = free(zone.hosts, host_id)
    boot_on(zone, host_id, {"VCPU": 1})

    assert (read, free(zone.hosts, host_id)) == (5, 5)


def test_other_drivers_read_at_every_use(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, host_refresh_interval=60.0)
    (host_id,) = add_hosts(zone, a_form("h1"))
    assert free(zone.hosts, host_id) == 8

    boot_on(zone, host_id, {"VCPU": 3})

    assert free(zone.hosts, host_id) == 5


@built_once
def a_tree(folder: Path, asked: str) -> Tree:
    """A zone with two hosts, below another one if that is `asked`."""
    tree = Tree(folder)
    some = [a_host("big", vcpus=4, ram_mb=9000), a_host("small", vcpus=4, ram_mb=8000)]
    only_ram: dict[str, Any] = {"select_alternates": 0, "weight_classes": ["RAMWeigher"]}
    if asked == "above":
        tree.add("above", **only_ram)
    tree.add("zone", hosts_=some, parent="above" if asked == "above" else "", **only_ram, **CACHING)
    tree.poll(1)
    client = tree.nodes[asked].client()
    flavor = {"name": "f", "vcpus": 4, "ram": 1024, "disk": 1}
    assert client.post("/flavors", {"flavor": flavor}).status == 200
    return tree


def boot(tree: Tree, asked: str) -> dict[str, int]:
    """Count the instances of a boot by status."""
    client = tree.nodes[asked].client()
    server = {"name": "vm", "flavorRef": "f", "num_instances": 1}
    reservation = client.post("/zones/boot", {"server": server}).json["reservation_id"]
    tree.settle(2)
    counts: dict[str, int] = client.get(f"/reservations/{reservation}").json["reservation"]["counts"]
    return {status: count for status, count in counts.items() if count}


@pytest.mark.parametrize("asked", ["zone", "above"])
def test_a_claim_that_lost_is_placed_elsewhere_and_nothing_is_over_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    tree = a_tree(tmp_path, asked)
    # As if another process had claimed, and nothing is begun in a batch.
    monkeypatch.setattr(HostCache, "note_claims", lambda hosts, claims: None)
    monkeypatch.setattr(batch, "may_share", lambda zone, boot: False)

    ends = [boot(tree, asked) for _ in range(3)]

    assert ends == [{"BUILD": 1}, {"BUILD": 1}, {"ERROR": 1}]
    tries = sql(
        tree.nodes["zone"].zone,
        "select h.name, p.state, p.reason from placements p join hosts h on h.id = p.host_id order by 1, 2",
    )
    # The second boot believed that "big" was free, and the third that "small" was.
    assert [tuple(row) for row in tries] == [
        ("big", "confirmed", ""),
        ("big", "failed", "claim_lost"),
        ("small", "confirmed", ""),
        ("small", "failed", "claim_lost"),
    ]


@pytest.mark.parametrize("asked", ["zone", "above"])
def test_hosts_that_are_not_read_again_have_the_claims_of_this_process(tmp_path: Path, asked: str) -> None:
    tree = a_tree(tmp_path, asked)

    ends = [boot(tree, asked) for _ in range(3)]

    assert ends == [{"BUILD": 1}, {"BUILD": 1}, {"ERROR": 1}]
    lost = sql(tree.nodes["zone"].zone, "select 1 from placements where state = 'failed'")
    assert lost == []
