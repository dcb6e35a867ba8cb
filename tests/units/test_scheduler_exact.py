"""A tree of zones picks as one flat zone would: each pick has the best integer weight any host then offers.

The replay shares no code with the schedulers: it keeps its own books in Python integers and weighs a host
anew after each pick of it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.hosts import SEEDS, a_context, a_host, a_spec, a_table, schedulers
from tests.builders.reference import tie_of
from zonesched.model.aggregate import Aggregate
from zonesched.model.build_plan import MAX_WEIGHT, Entry, FunnelStep
from zonesched.model.capacity import Inventory
from zonesched.model.host_table import HostRow, HostTable
from zonesched.model.place import LocalPlace
from zonesched.model.request_context import RequestContext
from zonesched.model.request_spec import (
    DISK_GB,
    MEMORY_MB,
    VCPU,
    CostFunction,
    CostWeighing,
    Group,
    GroupPolicy,
    NoGroup,
    Policy,
    RequestSpec,
    ScoreWeighing,
    ServerGroup,
    WeigherScale,
)
from zonesched.scheduler.base_scheduler import Offer, OfferRequest
from zonesched.scheduler.merge import merge_heads
from zonesched.scheduler.scale import Range, merge_ranges
from zonesched.scheduler.schedulers import Schedulers
from zonesched.weights.registry import BUILT_IN

METADATA: tuple[dict[str, str], ...] = (
    {},
    {"ram_weight_multiplier": "-2"},
    {"ram_weight_multiplier": "0.5", "num_instances_weight_multiplier": "1e1"},
    {"cpu_weight_multiplier": "0", "cross_zone_weight_multiplier": "many"},
)
DEBIAN = {"os_distro": "debian", "os_type": "linux"}
GROUPS = (
    NoGroup(),
    ServerGroup("g", GroupPolicy.SOFT_AFFINITY),
    ServerGroup("g", GroupPolicy.SOFT_ANTI_AFFINITY),
)
CONTEXT = RequestContext("owner-1", group="group-1")
DEBIAN_KEY = a_spec(image=DEBIAN).image_key


@dataclass
class Zone:
    """A zone of a test's tree: its hosts in a table, and its children."""

    rows: list[HostRow] = field(default_factory=list)
    children: list[Zone] = field(default_factory=list)
    table: HostTable = field(default_factory=HostTable)
    tie_key: str = "00" * 16

    def ranges(self, chosen: Schedulers) -> dict[str, Range]:
        return merge_ranges(
            chosen.default.ranges(self.table), *(child.ranges(chosen) for child in self.children)
        )

    def own_offer(self, chosen: Schedulers, spec: RequestSpec) -> Offer:
        return chosen.for_weighing(spec.weighing).offer(
            OfferRequest(self.table, spec, replace(CONTEXT, tie_key=self.tie_key))
        )

    def entries(self, chosen: Schedulers, spec: RequestSpec) -> list[Entry]:
        """Answer of this zone to its parent: its own sequence merged with its children's."""
        offer = self.own_offer(chosen, spec)
        picks = offer.bundles if spec.policy is Policy.AFFINITY else offer.picks
        own = [Entry(pick.weight, pick.tie, LocalPlace(pick.host_id)) for pick in picks]
        passed_on = replace(spec, path=(*spec.path, "above"))
        below = [child.entries(chosen, passed_on) for child in self.children]
        return merge_heads([own, *below], spec.num_instances)[0]


def some_row(rng: random.Random, host_id: str) -> HostRow:
    kind = rng.choice([2, 4, 8])
    ratio = rng.choice([1.0, 1.0, 1.5])
    return a_host(
        host_id,
        vcpus=Inventory(kind, allocation_ratio=ratio),
        ram_mb=Inventory(kind * 1_024, reserved=rng.choice([0, 512])),
        disk_gb=Inventory(rng.choice([50, 100]), step_size=rng.choice([1, 1, 1, 5])),
        used={VCPU: rng.choice([0, 0, 1, 5]), MEMORY_MB: rng.choice([0, 0, 1_024])},
        owners={"owner-1": rng.choice([0, 0, 1])},
        capabilities={
            "special": rng.random() < 0.3,
            "hypervisor_version": rng.choice([7_001_123, "7.1.123", "8.2"]),
        },
        enabled=rng.random() < 0.95,
        aggregates=[
            Aggregate(str(n), f"a{n}", rng.choice(METADATA)) for n in range(rng.choice([0, 0, 1, 2]))
        ],
        num_building=rng.choice([0, 0, 2]),
        failed_builds=rng.choice([0, 0, 0, 1]),
        groups={"group-1": rng.choice([0, 0, 1])},
        images={DEBIAN_KEY: rng.choice([0, 0, 2])},
        metrics={"load": rng.uniform(-1, 1)},
    )


def some_tree(rng: random.Random, zones: int, hosts: int) -> list[Zone]:
    """Zones, the root first, at most four levels deep, with the hosts dealt over them."""
    made, depths = [Zone()], [1]
    for _ in range(zones - 1):
        parent = rng.choice([number for number, depth in enumerate(depths) if depth < 4])
        made.append(Zone())
        depths.append(depths[parent] + 1)
        made[parent].children.append(made[-1])
    kinds = [rng.getrandbits(32) for _ in range(rng.choice([1, 3, hosts]))]
    for number in range(hosts):
        rng.choice(made).rows.append(some_row(random.Random(rng.choice(kinds)), f"{number:x}f"))
    for zone in made:
        zone.table = a_table(zone.rows)
        zone.tie_key = rng.randbytes(16).hex()
    return made


def _admits(inventory: Inventory, amount: int) -> bool:
    is_between = inventory.min_unit <= amount <= inventory.max_unit
    return is_between and amount % inventory.step_size == 0


class Books:
    """One flat zone that holds all hosts, in plain integers."""

    def __init__(self, zones: list[Zone], spec: RequestSpec) -> None:
        self.rows = {row.facts.id: row for zone in zones for row in zone.rows}
        self.used = {host_id: dict(row.use.used) for host_id, row in self.rows.items()}
        self.mine = {host_id: row.use.owners.get("owner-1", 0) for host_id, row in self.rows.items()}
        self.placed = dict.fromkeys(self.rows, 0)
        self.keys = {row.facts.id: zone.tie_key for zone in zones for row in zone.rows}
        self.near = {row.facts.id for row in zones[0].rows}
        self.spec = spec
        self._weighed: dict[tuple[str, int], tuple[int, int] | None] = {}

    def offers(self, copies: int = 1) -> dict[str, tuple[int, int]]:
        """The weight and tie key of every host that now takes `copies` more."""
        found = ((host_id, self._offer(host_id, copies)) for host_id in self.rows)
        return {host_id: offer for host_id, offer in found if offer is not None}

    def _offer(self, host_id: str, copies: int) -> tuple[int, int] | None:
        # What a host offers follows from its own books alone, and these change when it is taken.
        if (host_id, copies) not in self._weighed:
            row = self.rows[host_id]
            tie = tie_of(self.keys[host_id], host_id, self.placed[host_id])
            offer = (self._weight(row), tie) if self._takes(row, copies) else None
            self._weighed[host_id, copies] = offer
        return self._weighed[host_id, copies]

    def take(self, host_id: str) -> None:
        self._weighed = {key: offer for key, offer in self._weighed.items() if key[0] != host_id}
        for name, amount in self.spec.resources.items():
            self.used[host_id][name] = self.used[host_id].get(name, 0) + amount
        self.mine[host_id] += 1
        self.placed[host_id] += 1

    def _takes(self, row: HostRow, copies: int) -> bool:
        used = self.used[row.facts.id]
        return row.facts.enabled and all(
            used.get(name, 0) + copies * amount <= row.inventories[name].capacity
            and _admits(row.inventories[name], amount)
            for name, amount in self.spec.resources.items()
        )

    def _weight(self, row: HostRow) -> int:
        used, weighing = self.used[row.facts.id], self.spec.weighing
        free = {name: it.total - it.reserved - used.get(name, 0) for name, it in row.inventories.items()}
        if isinstance(weighing, CostWeighing):
            costs = {
                "fill_first_cost": max(0, free[MEMORY_MB]),
                "spread_first_cost": used.get(MEMORY_MB, 0),
                "owner_on_host_cost": self.mine[row.facts.id],
                "plain_on_special_cost": 10**9 * bool(row.facts.capabilities["special"]),
            }
            cost = sum(function.weight * costs[function.name] for function in weighing.functions)
            return min(max(round(cost), 0), MAX_WEIGHT)
        assert isinstance(weighing, ScoreWeighing)
        placed, in_group = self.placed[row.facts.id], row.use.groups["group-1"] + self.placed[row.facts.id]
        raw = {
            "RAMWeigher": float(free[MEMORY_MB]),
            "CPUWeigher": float(row.inventories[VCPU].capacity - used.get(VCPU, 0)),
            "DiskWeigher": float(free[DISK_GB] * 1024),
            "IoOpsWeigher": float(row.use.num_building + placed),
            "BuildFailureWeigher": float(row.use.failed_builds),
            "MetricsWeigher": row.metrics["load"] * 2.0,
            "ServerGroupSoftAffinityWeigher": float(in_group),
            "ServerGroupSoftAntiAffinityWeigher": -float(in_group),
            "HypervisorVersionWeigher": 8_002_000.0
            if row.facts.capabilities["hypervisor_version"] == "8.2"
            else 7_001_123.0,
            "NumInstancesWeigher": float(row.use.owners["owner-1"] + placed),
            "ImagePropertiesWeigher": 5.0 * (row.use.images[DEBIAN_KEY] + placed),
            "CrossZoneWeigher": float(row.facts.id in self.near),
        }
        score = 0.0
        for scale in weighing.scales:
            if scale.high > scale.low:
                part = (raw[scale.weigher] - scale.low) / (scale.high - scale.low)
                score += part * self._multiplier(row, scale)
        return min(max(4 * 10**15 - round(10**9 * score), 0), MAX_WEIGHT)

    def _multiplier(self, row: HostRow, scale: WeigherScale) -> float:
        option = OPTIONS[scale.weigher]
        said = [a.metadata[option] for a in row.facts.aggregates if option in a.metadata]
        return min(map(float, said), default=scale.multiplier) if "many" not in said else scale.multiplier


def replay(books: Books, picks: list[Entry], count: int) -> None:
    """Fail unless each pick was the best there was, ties included, and as many as fit were picked."""
    for pick in picks:
        assert isinstance(pick.place, LocalPlace)
        offers = books.offers()
        assert offers[pick.place.host_id] == (pick.weight, pick.tie) == min(offers.values())
        books.take(pick.place.host_id)
    assert len(picks) == count or not books.offers()


OPTIONS = {name: weigher.multiplier_key for name, weigher in BUILT_IN.items()}
MULTIPLIERS = st.sampled_from([-2.5, -1.0, 0.0, 0.3, 1.0, 4.0])
ALL_MULTIPLIERS = st.fixed_dictionaries(
    {key: MULTIPLIERS.map(abs) if "soft" in key else MULTIPLIERS for key in OPTIONS.values()}
)


@pytest.mark.slow
@given(
    SEEDS,
    st.integers(1, 30),
    st.integers(1, 40),
    st.integers(1, 300),
    ALL_MULTIPLIERS,
    st.sampled_from(GROUPS),
)
def test_each_pick_of_a_tree_is_the_best_of_all_its_hosts(
    seed: int, size: int, hosts: int, count: int, multipliers: dict[str, float], group: Group
) -> None:
    zones = some_tree(random.Random(seed), size, hosts)
    chosen = schedulers(
        metrics_weight_setting=["load=2"], image_props_weight_setting=["os_distro=5"], **multipliers
    )
    spec = a_spec(count, request_id=f"request-{seed}", ram_mb=512, disk_gb=5, group=group, image=DEBIAN)
    ranges = merge_ranges(*(child.ranges(chosen) for child in zones[0].children))
    if zones[0].children:
        weighing = chosen.default.choose_weighing(zones[0].table, spec, ranges)
    else:
        weighing = zones[0].own_offer(chosen, spec).weighing
    spec = replace(spec, weighing=weighing)
    replay(Books(zones, spec), zones[0].entries(chosen, spec), count)


COSTS = ("fill_first_cost", "spread_first_cost", "owner_on_host_cost", "plain_on_special_cost")


@given(
    SEEDS,
    st.integers(1, 10),
    st.integers(1, 120),
    st.dictionaries(st.sampled_from(COSTS), st.sampled_from([-1.0, 0.001, 1.0, 2.5, 1_000.0]), min_size=1),
)
def test_each_pick_of_a_tree_of_costs_has_the_least_cost(
    seed: int, size: int, count: int, functions: dict[str, float]
) -> None:
    zones = some_tree(random.Random(seed), size, 20)
    chosen = schedulers(scheduler_driver="LeastCostScheduler")
    weighing = CostWeighing("LeastCostScheduler", tuple(CostFunction(*item) for item in functions.items()))
    spec = a_spec(count, ram_mb=512, weighing=weighing)
    replay(Books(zones, spec), zones[0].entries(chosen, spec), count)


@given(SEEDS, st.integers(1, 10), st.integers(1, 8), MULTIPLIERS, st.integers(0, 4))
def test_each_bundle_of_a_tree_is_on_the_best_host_with_room_for_all(
    seed: int, size: int, count: int, ram: float, alternates: int
) -> None:
    zones = some_tree(random.Random(seed), size, 20)
    chosen = schedulers(ram_weight_multiplier=ram)
    spec = a_spec(count, ram_mb=512, disk_gb=5, policy=Policy.AFFINITY, alternates=alternates)
    weighing = chosen.default.choose_weighing(zones[0].table, spec, zones[0].ranges(chosen))
    spec = replace(spec, weighing=weighing)
    best = sorted(Books(zones, spec).offers(copies=count).values())
    paths = [(), *([("above",)] * (len(zones) - 1))]
    offers = [
        zone.own_offer(chosen, replace(spec, path=path)) for zone, path in zip(zones, paths, strict=True)
    ]
    bundles = [[Entry(b.weight, b.tie, LocalPlace(b.host_id)) for b in offer.bundles] for offer in offers]
    merged, _ = merge_heads(bundles, 1 + alternates)
    assert [(bundle.weight, bundle.tie) for bundle in merged] == best[: 1 + alternates]
    for bundle in merged:
        assert isinstance(bundle.place, LocalPlace)
        offered = Books(zones, spec).offers(copies=count)[bundle.place.host_id]
        assert offered == (bundle.weight, bundle.tie)
    assert not any(offer.picks or offer.alternates for offer in offers)


@given(SEEDS, st.integers(1, 40), st.integers(1, 60), st.integers(0, 8))
def test_alternates_are_the_best_hosts_that_were_not_picked(
    seed: int, hosts: int, count: int, asked: int
) -> None:
    zones = some_tree(random.Random(seed), 1, hosts)
    chosen = schedulers()
    spec = a_spec(count, ram_mb=512, alternates=asked)
    spec = replace(spec, weighing=zones[0].own_offer(chosen, spec).weighing)
    offer = zones[0].own_offer(chosen, spec)
    unpicked = Books(zones, spec).offers()
    for pick in offer.picks:
        unpicked.pop(pick.host_id, None)
    assert [(pick.weight, pick.tie) for pick in offer.alternates] == sorted(unpicked.values())[:asked]
    assert all(unpicked[pick.host_id] == (pick.weight, pick.tie) for pick in offer.alternates)


@pytest.mark.slow
@given(SEEDS, st.integers(1, 30), st.randoms(use_true_random=False))
def test_the_order_in_which_hosts_came_changes_nothing(seed: int, count: int, rng: random.Random) -> None:
    rows = some_tree(random.Random(seed), 1, 20)[0].rows
    shuffled = rng.sample(rows, len(rows))
    spec = a_spec(count, alternates=3)
    for driver in ("FilterScheduler", "BaseScheduler", "ChanceScheduler", "SimpleScheduler"):
        default = schedulers(scheduler_driver=driver).default
        assert default.offer(OfferRequest(a_table(rows), spec)) == default.offer(
            OfferRequest(a_table(shuffled), spec)
        )


def test_a_scheduler_without_a_scale_chooses_that_of_its_filtered_hosts() -> None:
    table = some_tree(random.Random(5), 1, 30)[0].table
    chosen, spec = schedulers(), a_spec(20)
    offer = chosen.default.offer(OfferRequest(table, spec))
    assert isinstance(offer.weighing, ScoreWeighing)
    told = chosen.default.offer(OfferRequest(table, replace(spec, weighing=offer.weighing)))
    assert offer == told


def test_equal_hosts_are_taken_in_another_order_by_another_request() -> None:
    table = a_table([a_host(f"{number:x}f") for number in range(50)])
    scheduler = schedulers().default
    first, again, other = (
        [pick.host_id for pick in scheduler.offer(OfferRequest(table, a_spec(10), context)).picks]
        for context in map(a_context, ("request-1", "request-1", "request-2"))
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("count", [1, 5])
def test_an_affinity_filter_must_hold_for_every_instance_of_a_bundle(count: int) -> None:
    table = a_table([a_host("1f", ram_mb=8 * 1_024), a_host("2f", ram_mb=9 * 1_024)])
    query = '[">=", "$free_ram_mb", 5120]'
    spec = a_spec(count, policy=Policy.AFFINITY, alternates=3, filter_query=query)
    offer = schedulers().default.offer(OfferRequest(table, spec))
    assert [bundle.host_id for bundle in offer.bundles] == (["2f", "1f"] if count == 1 else ["2f"])
    if count > 1:
        assert offer.why[-1] == FunnelStep("affinity", "not_for_all_instances", 2, 1)
