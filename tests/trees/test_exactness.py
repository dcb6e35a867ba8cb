"""P1: what a tree of zones picks is what one flat zone with all its hosts would pick."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders.grove import Grove, Plot
from tests.builders.migrated import ask
from tests.builders.reference import WEIGHERS, Asked, FlatHost, FlatZone, Line, scale_over
from zonesched.model.build_plan import BuildPlan, Entry
from zonesched.model.request_spec import Flavor, GroupPolicy, Image, NoGroup, Policy, RequestSpec, ServerGroup
from zonesched.services.select import select

pytestmark = pytest.mark.once

MOST_ZONES = 30
MOST_HOSTS = 6
DEEPEST = 4
MULTIPLIERS = (-2.5, -1.0, -0.3, 0.0, 0.7, 1.0, 3.0)

KINDS = (
    FlatHost("", 16, 32768, 500),
    FlatHost("", 16, 32768, 500),
    FlatHost("", 8, 65536, 200, cpu_ratio=4.0),
    FlatHost("", 64, 16384, 2000, reserved_mb=1024, ram_ratio=1.5),
    FlatHost("", 2, 2048, 40),
    FlatHost("", 32, 32768, 100, cpu_ratio=1.1, traits=frozenset({"CUSTOM_FAST"})),
)


@pytest.fixture(scope="module")
def grove(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grove]:
    yield Grove(tmp_path_factory.mktemp("grove"), 8)


@pytest.fixture(scope="module")
def large_grove(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grove]:
    yield Grove(tmp_path_factory.mktemp("grove"), MOST_ZONES)


@dataclass(frozen=True)
class Example:
    """A tree, the root's multipliers, and a request to it."""

    plots: tuple[Plot, ...]
    multipliers: dict[str, float]
    asked: Asked
    count: int
    alternates: int


@st.composite
def plots(draw: st.DrawFn, most_zones: int) -> tuple[Plot, ...]:
    """Trees of 1 to `most_zones` zones, at most DEEPEST levels; hosts anywhere, or nowhere."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    some_hosts = st.lists(st.sampled_from(kinds), max_size=MOST_HOSTS).map(tuple)
    made: list[Plot] = []
    depths: list[int] = []
    for number in range(draw(st.integers(1, most_zones))):
        open_to = [n for n in range(number) if depths[n] < DEEPEST]
        parent = draw(st.sampled_from(open_to)) if open_to else -1
        depths.append(1 if parent < 0 else depths[parent] + 1)
        made.append(Plot(parent, draw(some_hosts)))
    return tuple(made)


@st.composite
def examples(draw: st.DrawFn, most_zones: int, most_instances: int) -> Example:
    amounts = {
        "VCPU": draw(st.integers(0, 4)),
        "MEMORY_MB": draw(st.sampled_from((0, 512, 1024, 3000))),
        "DISK_GB": draw(st.integers(1, 20)),
    }
    return Example(
        plots=draw(plots(most_zones)),
        multipliers={name: draw(st.sampled_from(MULTIPLIERS)) for name in WEIGHERS},
        asked=Asked(
            {name: amount for name, amount in amounts.items() if amount},
            draw(st.sampled_from((frozenset(), frozenset(), frozenset({"CUSTOM_FAST"})))),
            draw(st.sampled_from((math.inf, math.inf, 1, 2, 5))),
        ),
        count=draw(st.integers(1, most_instances)),
        alternates=draw(st.integers(0, 6)),
    )


def a_spec(grove: Grove, example: Example, policy: Policy = Policy.EACH) -> RequestSpec:
    amounts, most = example.asked.amounts, example.asked.most_per_host
    return RequestSpec(
        request_id=grove.tree.clock.new_uuid(),
        project_id="project-1",
        num_instances=example.count,
        flavor=Flavor(
            "f",
            "f",
            vcpus=amounts.get("VCPU", 0),
            ram_mb=amounts.get("MEMORY_MB", 0),
            disk_gb=amounts.get("DISK_GB", 0),
            extra_specs={f"trait:{name}": "required" for name in example.asked.traits},
        ),
        image=Image("", ""),
        alternates=example.alternates,
        policy=policy,
        group=ServerGroup("g", GroupPolicy.ANTI_AFFINITY, int(most)) if most < math.inf else NoGroup(),
    )


def expected_scale(example: Example, hosts: Sequence[FlatHost], count: int = 1) -> list[Line]:
    """With children: over all hosts; without: over those that take `count` instances."""
    over = hosts if len(example.plots) > 1 else [h for h in hosts if h.takes(example.asked, count)]
    return scale_over(over, example.multipliers)


def plan_of(grove: Grove, example: Example, policy: Policy) -> tuple[BuildPlan, RequestSpec]:
    root = grove.tree.nodes[grove.names[0]].zone
    decision = select.decide(root, a_spec(grove, example, policy), root.uuid)
    assert decision.plan.complete
    return decision.plan, decision.spec


def opened(grove: Grove, spec: RequestSpec, entries: Sequence[Entry]) -> list[tuple[str, int, int]]:
    """Host, weight and tie key of each entry."""
    names = grove.names_of(spec, [entry.place for entry in entries])
    return [(name, entry.weight, entry.tie) for name, entry in zip(names, entries, strict=True)]


def check_picks(grove: Grove, example: Example) -> None:
    hosts = grove.plant(example.plots, example.multipliers)

    plan, spec = plan_of(grove, example, Policy.EACH)

    flat = FlatZone(hosts, example.asked, expected_scale(example, hosts), grove.ties(spec))
    picks = opened(grove, spec, plan.entries)
    flat.replay(picks, example.count)
    check_alternates(flat, [name for name, _, _ in picks], opened(grove, spec, plan.alternates), example)


def check_alternates(
    flat: FlatZone, picked: Sequence[str], alternates: Sequence[tuple[str, int, int]], example: Example
) -> None:
    """Each is room for one more, and as good as that many of the best hosts without a pick."""
    untouched = flat.untouched(picked)
    assert len(alternates) >= min(example.alternates, len(untouched))
    assert len(alternates) <= example.alternates
    for name, *claimed in alternates:
        assert flat.offer_of(name) == tuple(claimed)
        flat.take(name)
    for (_, weight, _), best in zip(alternates, untouched, strict=False):
        assert weight <= best


def check_bundles(grove: Grove, example: Example) -> None:
    hosts = grove.plant(example.plots, example.multipliers)

    plan, spec = plan_of(grove, example, Policy.AFFINITY)

    flat = FlatZone(hosts, example.asked, expected_scale(example, hosts, example.count), grove.ties(spec))

    assert plan.entries == plan.alternates == ()
    best = flat.whole(example.count)[: 1 + example.alternates]
    assert [(bundle.weight, bundle.tie) for bundle in plan.bundles] == best
    taken = []
    for bundle in plan.bundles:
        names = Counter(name for name, _, _ in opened(grove, spec, bundle.entries))
        ((name, copies),) = names.items()
        assert copies == example.count
        assert flat.hosts[name].takes(example.asked, example.count)
        taken.append(name)
    assert len(set(taken)) == len(taken)


unhurried = settings(
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@settings(unhurried, max_examples=12)
@given(example=examples(8, 60))
def test_every_pick_is_the_best_that_any_host_offers(grove: Grove, example: Example) -> None:
    check_picks(grove, example)


@settings(unhurried, max_examples=8)
@given(example=examples(8, 12))
def test_bundles_are_the_best_hosts_that_take_all(grove: Grove, example: Example) -> None:
    check_bundles(grove, example)


@pytest.mark.slow
@settings(unhurried, max_examples=40)
@given(example=examples(MOST_ZONES, 300))
def test_every_pick_is_the_best_in_large_trees(large_grove: Grove, example: Example) -> None:
    check_picks(large_grove, example)


@pytest.mark.slow
@settings(unhurried, max_examples=20)
@given(example=examples(MOST_ZONES, 20))
def test_bundles_are_the_best_in_large_trees(large_grove: Grove, example: Example) -> None:
    check_bundles(large_grove, example)


@settings(unhurried, max_examples=12)
@given(example=examples(8, 60))
def test_every_pick_is_the_best_if_children_are_asked_by_shares(grove: Grove, example: Example) -> None:
    with grove.asking_by(1):
        check_picks(grove, example)


def test_a_child_whose_hosts_are_the_best_is_asked_for_what_its_share_lacks(grove: Grove) -> None:
    # given a zone of large hosts among zones of small ones
    small, large = KINDS[4], KINDS[3]
    plots = (Plot(-1, ()), Plot(0, (small,) * 3), Plot(0, (large,) * 3), Plot(0, (small,) * 3))
    asked_before = grove.questions()

    # when more instances go there than its share
    with grove.asking_by(1):
        check_picks(grove, Example(plots, SPREAD, Asked({"MEMORY_MB": 512}), 60, 3))

    # then one more question was asked
    assert grove.questions() - asked_before == 3 + 1


def test_instances_fill_equal_zones_as_evenly_as_one_flat_zone(grove: Grove) -> None:
    plots = tuple(Plot(parent, KINDS[:1] * 20) for parent in (-1, 0, 0, 1, 1))
    example = Example(plots, SPREAD, Asked({"VCPU": 1, "MEMORY_MB": 1024}), 50, 0)
    grove.plant(plots, SPREAD)

    plan, spec = plan_of(grove, example, Policy.EACH)

    zones = Counter(name.split("-")[0] for name, _, _ in opened(grove, spec, plan.entries))
    assert len(zones) == 5
    assert 4 <= min(zones.values()) <= max(zones.values()) <= 16


SPREAD = dict(zip(WEIGHERS, (1.0, 1.0, 1.0), strict=True))
STACK = dict(zip(WEIGHERS, (-1.0, -2.0, -1.0), strict=True))
MIXED = dict(zip(WEIGHERS, (1.0, -2.0, 0.5), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("multipliers", [SPREAD, STACK, MIXED], ids=["spread", "stack", "mixed"])
def test_equal_hosts_in_thirty_zones(large_grove: Grove, multipliers: dict[str, float]) -> None:
    parents = [-1, *((number - 1) // 3 for number in range(1, MOST_ZONES))]
    plots = tuple(Plot(parent, (KINDS[0], KINDS[4]) * 3) for parent in parents)

    check_picks(large_grove, Example(plots, multipliers, Asked({"VCPU": 2, "MEMORY_MB": 1024}), 300, 5))


def placed_in(grove: Grove, reservation_id: str) -> list[str]:
    """The hosts that a reservation's instances are on, in order, as all databases together have it."""
    host_of: dict[str, str] = {}
    for name in grove.names:
        found = ask(
            grove.tree.folder / f"{name}.sqlite",
            "SELECT p.uuid, h.name FROM placements p JOIN hosts h ON h.id = p.host_id"
            " WHERE p.state = 'confirmed'",
        )
        assert not set(dict(found)) & set(host_of)
        host_of |= dict(found)
    uuids = ask(
        grove.tree.folder / f"{grove.names[0]}.sqlite",
        "SELECT uuid FROM instances WHERE reservation_id = ? ORDER BY position",
        [reservation_id],
    )
    return [host_of[uuid] for (uuid,) in uuids if uuid in host_of]


def boot(grove: Grove, name: str, asked: Asked, count: int) -> list[str]:
    """Boot as many as fit through the root's API, and wait; the hosts they are on, in order."""
    amounts = asked.amounts
    root = grove.tree.nodes[grove.names[0]].client()
    flavor = {"name": name, "vcpus": amounts["VCPU"], "ram": amounts["MEMORY_MB"], "disk": amounts["DISK_GB"]}
    assert root.post("/flavors", {"flavor": flavor}).status == 200
    server = {"name": "vm", "flavorRef": name, "num_instances": count, "min_count": 1}
    answer = root.post("/zones/boot", {"server": server})
    assert answer.status == 202, answer.body
    grove.tree.settle(2)
    return placed_in(grove, answer.json["reservation_id"])


@pytest.mark.slow
@pytest.mark.parametrize("multipliers", [SPREAD, MIXED], ids=["spread", "mixed"])
def test_a_whole_boot_goes_where_one_flat_zone_would_put_it(
    tmp_path: Path, multipliers: dict[str, float]
) -> None:
    grove = Grove(tmp_path, 7)
    hosts = grove.plant([Plot(parent, KINDS[2:5]) for parent in (-1, 0, 0, 1, 1, 3, 3)], multipliers)
    for number, count in enumerate((40, 1_000)):
        asked = Asked({"VCPU": 1 + number, "MEMORY_MB": 700, "DISK_GB": 3})
        grove.tree.poll(1)
        flat = FlatZone(hosts, asked, scale_over(hosts, multipliers), lambda name, copies: 0)

        placed = boot(grove, f"f{number}", asked, count)

        for name in placed:
            assert flat.weight_of(name) == flat.best
            flat.take(name)
        assert len(placed) == count or flat.best is None
        hosts = list(flat.hosts.values())
