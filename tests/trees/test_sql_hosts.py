"""Hosts found by the database and not in memory: the same choice, and none before agents have reported."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders.clock import FakeClock
from tests.builders.one_zone import a_spec, a_zone, add_hosts, sql
from tests.builders.tree import Tree, a_host
from zonesched import conf
from zonesched.errors import NotReady
from zonesched.model.aggregate import AVAILABILITY_ZONE
from zonesched.model.build_plan import FunnelStep
from zonesched.model.decision_trace import LocalTrace
from zonesched.model.own_zone import AsConfigured, ChosenFilters
from zonesched.model.place import LocalPlace
from zonesched.model.request_spec import Flavor, RequestSpec
from zonesched.model.views import HostForm, InventoryForm
from zonesched.scheduler.aggregate_limits import NO_LIMITS
from zonesched.scheduler.replay import record_from_text, replay
from zonesched.services.hosts import aggregates, hosts
from zonesched.services.select import select
from zonesched.services.select.select import Decision
from zonesched.services.state.host_cache import HostCache
from zonesched.services.state.listening import Listening
from zonesched.services.state.sql_hosts import REPEATING, SqlHosts
from zonesched.services.zone import Zone
from zonesched.store import prepared
from zonesched.store.store import Transaction

TRAITS = ("CUSTOM_A", "CUSTOM_B", "CUSTOM_AB")
LIMITS = (
    "limit_tenants_to_aggregate",
    "placement_aggregate_required_for_tenants",
    "query_placement_for_availability_zone",
    "enable_isolated_aggregate_filtering",
)
NEEDED = ["ComputeFilter", "ComputeCapabilitiesFilter", "ImagePropertiesFilter"]

an_inventory = st.builds(
    InventoryForm,
    total=st.integers(2, 9),
    min_unit=st.integers(1, 2),
    max_unit=st.integers(2, 9),
    step_size=st.sampled_from([1, 1, 2]),
)
inventories = st.fixed_dictionaries(
    {"VCPU": an_inventory, "MEMORY_MB": an_inventory}, optional={"CUSTOM_X": an_inventory}
)
forms = st.lists(
    st.tuples(st.sampled_from(["", "az1", "az2"]), st.frozensets(st.sampled_from(TRAITS)), inventories),
    min_size=1,
    max_size=8,
)
groups = st.lists(
    st.tuples(
        st.fixed_dictionaries(
            {},
            optional={
                "filter_tenant_id": st.sampled_from(["project-1", "other"]),
                "trait:CUSTOM_A": st.just("required"),
            },
        ),
        st.frozensets(st.integers(0, 7), max_size=4),
    ),
    max_size=3,
)
zoned = st.tuples(st.sampled_from(["az1", "az3"]), st.frozensets(st.integers(0, 7), max_size=4))
specs = st.dictionaries(
    st.sampled_from(
        [
            *(f"trait{group}:{name}" for name in TRAITS for group in ("", "1")),
            *(f"resources{group}:CUSTOM_X" for group in ("", "1")),
            "traits:any_of",
        ]
    ),
    st.none(),
    max_size=3,
).flatmap(
    lambda keys: st.fixed_dictionaries(
        {
            key: st.sampled_from(["required", "forbidden"])
            if key.startswith(("trait:", "trait1:"))
            else st.sampled_from(["1", "2", "3"] if key.startswith("resources") else ["CUSTOM_A,CUSTOM_AB"])
            for key in keys
        }
    )
)


@pytest.fixture(scope="module")
def zone(tmp_path_factory: pytest.TempPathFactory) -> Zone:
    return a_zone(tmp_path_factory.mktemp("sql"), service_down_time=1e6)


def plant(zone: Zone, found: Any, said: Any, in_zone: Any) -> None:
    """Let the zone have these hosts and aggregates alone."""
    for table in ("aggregate_hosts", "aggregates", "hosts"):
        sql(zone, f"DELETE FROM {table}")
    zone.hosts = HostCache(zone.store, zone.clock, Listening(zone.clock, 1e6))
    names = [f"h{number}" for number in range(len(found))]
    rows = [
        HostForm(n, "", az, inv, traits=traits) for n, (az, traits, inv) in zip(names, found, strict=True)
    ]
    add_hosts(zone, *rows)
    az, members = in_zone
    for number, (metadata, own) in enumerate([*said, ({AVAILABILITY_ZONE: az}, members)]):
        made = aggregates.create(zone.store, zone.clock, f"g{number}", "")
        aggregates.change(zone.store, zone.clock, zone.wake, str(made.number), metadata=metadata)
        for member in sorted(own):
            if member < len(names):
                aggregates.add_host(zone.store, zone.wake, str(made.number), names[member])


def by_sql(zone: Zone) -> SqlHosts:
    return SqlHosts(zone.store, Listening(zone.clock, 1e6), zone.schedulers.default.plugins)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    forms,
    groups,
    zoned,
    specs,
    st.sampled_from(["", "az1", "az2", "az3"]),
    st.frozensets(st.sampled_from(LIMITS)),
)
@pytest.mark.slow
def test_the_choice_is_that_of_the_table_in_memory(
    zone: Zone, found: Any, said: Any, in_zone: Any, extra: Any, wanted_zone: str, on: frozenset[str]
) -> None:
    plant(zone, found, said, in_zone)
    scheduler = zone.schedulers.default
    limits = replace(scheduler.plugins.limits, **{name: name in on for name in LIMITS})
    scheduler.plugins = replace(scheduler.plugins, limits=limits)
    flavor = Flavor("f", "f", 2, 2, 0, extra)
    spec = replace(a_spec(), flavor=flavor, num_instances=5, alternates=5, availability_zone=wanted_zone)

    in_memory, _ = select.decide_on(zone, zone.hosts, spec, zone.uuid, 0)
    source, whole = by_sql(zone), scheduler.plugins
    others = tuple(f for f in whole.filters.default if not isinstance(f, REPEATING))
    # Nothing after the database asks again what it was asked.
    scheduler.plugins = replace(whole, limits=NO_LIMITS, filters=replace(whole.filters, default=others))
    in_sql, _ = select.decide_on(zone, source, spec, zone.uuid, 0)
    scheduler.plugins = whole

    assert in_sql.plan == in_memory.plan
    assert in_sql.spec == in_memory.spec
    if in_memory.plan.entries:
        return
    why = funnel_of(in_sql)
    assert [step.before for step in why[1:]] == [step.after for step in why[:-1]]
    assert (why[0].before, why[-1].after) == (len(found), 0)


def funnel_of(decision: Decision) -> list[FunnelStep]:
    """Return the funnel of the local hosts, from all of them on."""
    assert isinstance(decision.trace.own, LocalTrace)
    return [step for step in decision.trace.own.steps if isinstance(step, FunnelStep)]


def a_small_zone(folder: Path, **options: Any) -> Zone:
    zone = a_zone(folder, service_down_time=1e6, **options)
    forms = [a_host("big", vcpus=8), a_host("small", vcpus=1), a_host("plain", vcpus=8, traits=["CUSTOM_A"])]
    add_hosts(zone, *forms)
    return zone


def wanting(vcpus: int, **extra: str) -> RequestSpec:
    return replace(
        a_spec(), flavor=Flavor("f", "f", vcpus, 64, 0, {k.replace("_", ":", 1): v for k, v in extra.items()})
    )


@pytest.mark.own_statements
@pytest.mark.parametrize(
    ("vcpus", "extra", "found"),
    [
        (1, {"trait:CUSTOM_A": "required"}, ["upper"]),
        (1, {"trait:CUSTOM_A": "forbidden"}, ["lower", "other"]),
        (1, {"traits:any_of": "CUSTOM_A,CUSTOM_B"}, ["other", "upper"]),
        (1, {"traits:any_of": "CUSTOM_A;,"}, []),
        (0, {}, ["lower", "other", "upper"]),
    ],
    ids=["required", "forbidden", "any-of", "any-of-none", "of-no-size"],
)
def test_the_database_finds_what_the_filters_pass(
    tmp_path: Path, vcpus: int, extra: dict[str, str], found: list[str]
) -> None:
    # given: traits that differ in case alone
    zone = a_zone(tmp_path, service_down_time=1e6)
    traits = {"upper": "CUSTOM_A", "lower": "custom_a", "other": "CUSTOM_B"}
    add_hosts(zone, *(a_host(name, traits=[trait]) for name, trait in traits.items()))
    spec = replace(a_spec(), flavor=Flavor("f", "f", vcpus, 0, 0, extra), num_instances=1, alternates=9)

    # when
    in_memory, _ = select.decide_on(zone, zone.hosts, spec, zone.uuid, 0)
    with by_sql(zone).for_request(spec) as in_sql:
        names = [in_sql.table.name(row) for row in range(in_sql.table.size)]

    # then
    with zone.hosts.current() as table:
        entries = (*in_memory.plan.entries, *in_memory.plan.alternates)
        rows = [table.row_of(e.place.host_id) for e in entries if isinstance(e.place, LocalPlace)]
        assert sorted(names) == sorted(table.name(row) for row in rows) == found


def test_hosts_that_lack_something_never_leave_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = a_small_zone(tmp_path, host_source="sql")
    seen: list[tuple[str, Any]] = []
    run = prepared._on_cursor

    def seen_running(tx: Transaction, how: str, text: str, parameters: Any) -> Any:
        seen.append((text, parameters))
        return run(tx, how, text, parameters)

    monkeypatch.setattr(prepared, "_on_cursor", seen_running)
    (plain,) = (host for host in zone.hosts.snapshot()[0] if host.facts.name == "plain")
    seen.clear()
    with zone.hosts.for_request(wanting(4, trait_CUSTOM_A="required")) as found:
        names = [found.table.name(row) for row in range(found.table.size)]

    assert names == ["plain"]
    assert [(step.before, step.after) for step in found.steps] == [(3, 1)]
    asked_of = [str(parameters) for text, parameters in seen if "hosts.name" in text]
    assert asked_of and all(plain.facts.id in ids and ids.count("-") == 4 for ids in asked_of)


def test_filters_that_an_admin_chooses_are_all_that_is_asked_for(tmp_path: Path) -> None:
    zone = a_small_zone(tmp_path, host_source="sql")
    spec = wanting(4, trait_CUSTOM_A="required")

    with zone.hosts.for_request(replace(spec, enabled=ChosenFilters(("ComputeFilter",)))) as chosen:
        chosen_size = len(chosen.table)
    with zone.hosts.for_request(replace(spec, enabled=AsConfigured())) as configured:
        configured_size = len(configured.table)

    assert (chosen_size, configured_size) == (2, 1)


def test_a_zone_says_which_enabled_filters_repeat_the_database(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        a_zone(tmp_path / "few", host_source="sql", enabled_filters=NEEDED)
        quiet = list(caplog.messages)
        a_zone(tmp_path / "all", host_source="sql", enabled_filters=[*NEEDED, "RamFilter", "TraitsFilter"])

    assert quiet == []
    assert [m for m in caplog.messages if "RamFilter, TraitsFilter" in m and "host_source" in m]


def test_a_zone_that_nobody_has_reported_to_is_not_ready(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.add("root", host_source="sql")
    client = tree.nodes["root"].client()
    client.post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 64, "disk": 0}})
    server = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 1}}

    early = client.post("/zones/boot", server)
    tree.register("root", [a_host("h1")])
    ready = client.post("/zones/boot", server)
    tree.settle()

    assert (early.status, early.json["serviceUnavailable"]["error_code"]) == (503, "not_ready")
    assert int(early.headers["Retry-After"]) > 0
    assert ready.status == 202
    shown = client.get(f"/reservations/{ready.json['reservation_id']}").json["reservation"]
    assert shown["counts"] == {"BUILD": 1}


@pytest.mark.parametrize("source", ["memory", "sql"])
def test_a_child_without_hosts_makes_no_boot_of_its_parent_wait(tmp_path: Path, source: str) -> None:
    tree = Tree(tmp_path)
    tree.add("root", hosts_=[a_host("r1", vcpus=1)])
    tree.add("leaf", parent="root", host_source=source)
    root = tree.nodes["root"].client()
    root.post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 64, "disk": 0}})
    tree.poll()

    boot = root.post("/zones/boot", {"server": {"name": "vm", "flavorRef": "small", "num_instances": 2}})
    tree.settle()

    shown = root.get(f"/servers/detail?reservation_id={boot.json['reservation_id']}").json["servers"]
    assert [server["fault"]["error_code"] for server in shown] == ["no_valid_host"] * 2
    assert [zone["last_error"] for zone in root.get("/zones/detail").json["zones"]] == [""]


def test_a_full_zone_is_ready_and_says_why_nothing_fits(tmp_path: Path) -> None:
    zone = a_small_zone(tmp_path, host_source="sql")

    decision, _ = select.decide_on(zone, zone.hosts, wanting(64), zone.uuid, 0)

    select.check_ready(zone)
    steps = funnel_of(decision)
    assert [(s.filter, s.code, s.before, s.after) for s in steps][:1] == [
        ("free_slots", "no_free_slots", 3, 0)
    ]


def test_all_that_reads_hosts_works_without_a_table(tmp_path: Path) -> None:
    zone = a_small_zone(tmp_path, host_source="sql")

    assert isinstance(zone.hosts, SqlHosts)
    assert len(hosts.list_hypervisors(zone)) == 3
    assert select.judge_host(zone, wanting(4), zone.uuid, "small").answers
    with pytest.raises(NotReady):
        select.check_ready(a_zone(tmp_path / "empty", FakeClock(), host_source="sql"))


@pytest.mark.parametrize(
    ("extra", "zone_name", "code"),
    [({"trait:CUSTOM_A": "required"}, "", "traits_not_met"), ({}, "az9", "wrong_availability_zone")],
)
def test_what_is_asked_of_all_hosts_demands_what_the_database_does(
    tmp_path: Path, extra: dict[str, str], zone_name: str, code: str
) -> None:
    # given: a zone whose operator leaves all repeating filters out, and hosts that lack what is asked for
    tree = Tree(tmp_path)
    forms = [a_host("h1"), a_host("h2")]
    admin = tree.add("alone", hosts_=forms, host_source="sql", enabled_filters=NEEDED).client()
    admin.post("/flavors", {"flavor": {"name": "f", "id": "f", "vcpus": 1, "ram": 64, "disk": 0}})
    admin.post("/flavors/f/os-extra_specs", {"extra_specs": extra})
    server = {"name": "vm", "flavorRef": "f", "num_instances": 3, "availability_zone": zone_name}

    # when
    plain = admin.post("/zones/boot", {"server": server, "dry_run": True}).json
    recorded = admin.post("/zones/boot", {"server": server, "dry_run": True, "record": True}).json
    boot = admin.post("/zones/boot", {"server": server}).json["reservation_id"]
    tree.settle()
    host = admin.get(f"/reservations/{boot}/why?host=h1").json["host"]

    # then
    said = [answer["dry_run"] for answer in (plain, recorded)]
    assert [(one["fits"], code in one["refused_by"]) for one in said] == [(0, True)] * 2
    assert recorded["record"]["chosen"]["picks"] == []
    record = record_from_text(json.dumps(recorded["record"]).encode())
    assert replay(record, conf.load([], record.options)) == record.chosen
    assert not host["passes"]
    assert code in [answer["code"] for answer in host["filters"] if not answer["passes"]]
