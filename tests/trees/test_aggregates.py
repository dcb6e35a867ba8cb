"""Aggregates: what they say counts for their hosts at once, in memory, in claims and in filters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.one_zone import a_form, a_zone, add_hosts, boot_on, sql
from tests.builders.tree import Client, Tree, a_host
from zonesched.errors import BadRequest
from zonesched.model.aggregate_ratios import aggregate_ratios, unusable_ratios
from zonesched.model.capacity import Inventory, InventorySetting, effective
from zonesched.services.audit import audit
from zonesched.services.hosts import aggregates as services
from zonesched.services.hosts import hosts
from zonesched.services.zone import Zone
from zonesched.store import claims, identity


@pytest.fixture
def zone(tmp_path: Path) -> Zone:
    return a_zone(tmp_path, service_down_time=1e6)


def an_aggregate(zone: Zone, name: str = "a1", host: str = "", **metadata: str) -> str:
    """A new aggregate with one host; its number."""
    number = str(services.create(zone.store, zone.clock, name, None).number)
    services.change(zone.store, zone.clock, zone.wake, number, metadata=metadata)
    if host:
        services.add_host(zone.store, zone.wake, number, host)
    return number


def in_memory(zone: Zone, host_id: str, resource_class: str = "VCPU") -> float:
    with zone.hosts.current() as table:
        return float(table.capacity(resource_class)[table.row_of(host_id)])


def in_the_row(zone: Zone, host_id: str, resource_class: str = "VCPU") -> Any:
    statement = "select * from inventories where host_id = :id and resource_class = :name"
    return sql(zone, statement, id=host_id, name=resource_class)[0]


def take(zone: Zone, host_id: str, copies: int, resource_class: str = "VCPU") -> int:
    """Copies of 1 that a claim gets now."""

    def fn(tx: Any) -> int:
        taken = claims.claim(tx, identity.next_change(tx), {host_id: copies}, {resource_class: 1})
        return taken[host_id]

    return zone.store.write(fn)


class TestRatios:
    @pytest.mark.parametrize(
        ("said", "ratios"),
        [
            ([{"cpu_allocation_ratio": "16.0"}], {"VCPU": 16.0}),
            (
                [{"ram_allocation_ratio": "1.5"}, {"disk_allocation_ratio": "0.5"}],
                {"MEMORY_MB": 1.5, "DISK_GB": 0.5},
            ),
            ([{"cpu_allocation_ratio": "16"}, {"cpu_allocation_ratio": "4"}], {"VCPU": 4.0}),
            ([{"allocation_ratio:CUSTOM_X": "10000"}], {"CUSTOM_X": 10000.0}),
            ([{"allocation_ratio:VCPU": "3", "cpu_allocation_ratio": "2"}], {"VCPU": 2.0}),
            ([{"cpu_allocation_ratio": "much"}, {"cpu_allocation_ratio": "4"}], {"VCPU": 4.0}),
            ([{"cpu_allocation_ratio": text} for text in ("nan", "inf", "-1", "", "1e7")], {}),
            ([{"cpu_allocation_ratio": text} for text in ("1_000", " 1.5 ", "1.5\n", "\u0663", "1,5")], {}),
            (
                [{"cpu_allocation_ratio": "1e3"}, {"ram_allocation_ratio": ".5"}],
                {"VCPU": 1000.0, "MEMORY_MB": 0.5},
            ),
            ([{"kind": "2.0", "allocation_ratio:": "2"}], {}),
            ([], {}),
        ],
    )
    def test_the_smallest_number_of_each_class_counts(
        self, said: list[Mapping[str, str]], ratios: Mapping[str, float]
    ) -> None:
        assert aggregate_ratios(said) == ratios

    @given(st.lists(st.floats(0, 100), min_size=1))
    def test_order_does_not_matter(self, ratios: list[float]) -> None:
        said = [{"cpu_allocation_ratio": repr(ratio)} for ratio in ratios]
        assert aggregate_ratios(said) == aggregate_ratios(said[::-1]) == {"VCPU": min(ratios)}

    def test_what_is_no_ratio_is_named(self) -> None:
        metadata = {
            "ram_allocation_ratio": "x",
            "cpu_allocation_ratio": "2",
            "allocation_ratio:A": "-1",
            "k": "y",
        }
        assert unusable_ratios(metadata) == ["allocation_ratio:A", "ram_allocation_ratio"]

    @pytest.mark.parametrize(
        ("setting", "aggregate_ratio", "capacity"),
        [
            (InventorySetting(), None, 12),
            (InventorySetting(), 4.0, 24),
            (InventorySetting(allocation_ratio=3.0), None, 18),
            (InventorySetting(allocation_ratio=3.0), 1.0, 6),
            (InventorySetting(reserved=0), None, 16),
            (InventorySetting(reserved=0, allocation_ratio=0.0), None, 0),
        ],
    )
    def test_aggregates_come_before_the_operators_setting_before_the_report(
        self, setting: InventorySetting, aggregate_ratio: float | None, capacity: int
    ) -> None:
        reported = Inventory(total=8, reserved=2, allocation_ratio=2.0)
        assert effective(reported, setting, aggregate_ratio).capacity == capacity


class TestCapacity:
    def test_it_follows_every_change_in_rows_and_memory(self, zone: Zone) -> None:
        (one,) = add_hosts(zone, a_form("h1", VCPU=8))
        assert in_memory(zone, one) == 8
        seen = []

        number = an_aggregate(zone, "fast", cpu_allocation_ratio="4.0")
        services.add_host(zone.store, zone.wake, number, "h1")
        seen.append(in_memory(zone, one))
        an_aggregate(zone, "slow", "h1", cpu_allocation_ratio="2.0")
        seen.append(in_memory(zone, one))
        services.change(zone.store, zone.clock, zone.wake, number, metadata={"cpu_allocation_ratio": "1.5"})
        seen.append(in_memory(zone, one))
        services.change(zone.store, zone.clock, zone.wake, number, metadata={"cpu_allocation_ratio": None})
        seen.append(in_memory(zone, one))
        services.remove_host(zone.store, zone.wake, "2", "h1")
        seen.append(in_memory(zone, one))

        assert seen == [32, 16, 12, 16, 8]
        assert in_the_row(zone, one).capacity == 8
        assert audit.run(zone) == []

    def test_a_claim_takes_what_the_filter_reads(self, zone: Zone) -> None:
        (one,) = add_hosts(zone, a_form("h1", VCPU=2, CUSTOM_X=3))
        an_aggregate(zone, "a", "h1", cpu_allocation_ratio="2.5", **{"allocation_ratio:CUSTOM_X": "1.1"})

        assert (in_memory(zone, one), take(zone, one, 99)) == (5, 5)
        assert (in_memory(zone, one, "CUSTOM_X"), take(zone, one, 99, "CUSTOM_X")) == (3, 3)

    def test_it_survives_the_agents_next_report(self, zone: Zone) -> None:
        (one,) = add_hosts(zone, a_form("h1", VCPU=8))
        an_aggregate(zone, "a", "h1", cpu_allocation_ratio="4")

        add_hosts(zone, a_form("h1", VCPU=10))

        assert (in_memory(zone, one), in_the_row(zone, one).reported_ratio) == (40, 1.0)

    def test_a_host_that_shrank_by_an_aggregate_takes_none_until_it_fits(self, zone: Zone) -> None:
        (one,) = add_hosts(zone, a_form("h1", VCPU=4))
        number = an_aggregate(zone, "a", "h1", cpu_allocation_ratio="2")
        for _ in range(6):
            boot_on(zone, one, {"VCPU": 1})

        services.remove_host(zone.store, zone.wake, number, "h1")
        shrunk = (take(zone, one, 1), in_the_row(zone, one).shrunk_used, audit.run(zone))
        services.add_host(zone.store, zone.wake, number, "h1")

        assert shrunk == (0, 6, [])
        assert (take(zone, one, 9), in_the_row(zone, one).shrunk_used) == (2, 0)

    def test_a_class_that_comes_back_has_the_aggregates_ratio(self, zone: Zone) -> None:
        (one,) = add_hosts(zone, a_form("h1", VCPU=4, PGPU=2))
        an_aggregate(zone, "a", "h1", **{"allocation_ratio:PGPU": "3"})
        add_hosts(zone, a_form("h1", VCPU=4))

        add_hosts(zone, a_form("h1", VCPU=4, PGPU=2))

        assert in_memory(zone, one, "PGPU") == 6

    def test_only_the_hosts_of_the_aggregate_are_read_again(self, zone: Zone) -> None:
        one, two = add_hosts(zone, a_form("h1"), a_form("h2"))
        number = an_aggregate(zone, "a", "h1")
        before = {row.id: row.changed_seq for row in sql(zone, "select id, changed_seq from hosts")}

        services.change(zone.store, zone.clock, zone.wake, number, metadata={"kind": "ssd"})

        after = {row.id: row.changed_seq for row in sql(zone, "select id, changed_seq from hosts")}
        assert (after[one] > before[one], after[two] == before[two]) == (True, True)
        with zone.hosts.current() as table:
            assert table.shared_facts[table.row_of(one)].aggregates[0].metadata == {"kind": "ssd"}

    @pytest.mark.parametrize("text", ["much", "1_000", " 1.5 ", "nan", "\u0663", "-1", "1000001", ""])
    def test_a_ratio_that_is_no_number_is_refused_and_changes_nothing(self, zone: Zone, text: str) -> None:
        (one,) = add_hosts(zone, a_form("h1", VCPU=4))
        number = an_aggregate(zone, "a", "h1", cpu_allocation_ratio="2")

        with pytest.raises(BadRequest) as refused:
            services.change(
                zone.store,
                zone.clock,
                zone.wake,
                number,
                metadata={"cpu_allocation_ratio": text, "kind": "x"},
            )

        assert refused.value.field == "set_metadata.metadata.cpu_allocation_ratio"
        assert str(refused.value).startswith("set_metadata.metadata.cpu_allocation_ratio: must be a number")
        assert services.show(zone.store, number).metadata == {"cpu_allocation_ratio": "2"}
        assert in_memory(zone, one) == 8

    def test_the_audit_finds_a_ratio_that_nobody_said(self, zone: Zone) -> None:
        (one,) = add_hosts(zone, a_form("h1", VCPU=4))
        an_aggregate(zone, "a", "h1", cpu_allocation_ratio="2")

        sql(zone, "update inventories set allocation_ratio = 3.0, capacity = 12")

        assert [(d.kind, d.detail) for d in audit.run(zone)] == [("capacity_differs", "capacity 12, not 8")]
        assert in_the_row(zone, one).capacity == 12


class TestAvailabilityZone:
    def zone_of(self, zone: Zone, host_id: str) -> str:
        with zone.hosts.current() as table:
            assert (
                hosts.show_hypervisor(zone, host_id).availability_zone
                == table.availability_zones[table.row_of(host_id)]
            )
            return table.availability_zones[table.row_of(host_id)]

    def test_the_aggregates_one_wins_over_the_agents(self, zone: Zone) -> None:
        (one,) = add_hosts(zone, a_form("h1"))
        reported = self.zone_of(zone, one)
        an_aggregate(zone, "plain", "h1")
        number = str(services.create(zone.store, zone.clock, "east", "az-east").number)

        services.add_host(zone.store, zone.wake, number, "h1")
        added = self.zone_of(zone, one)
        services.remove_host(zone.store, zone.wake, number, "h1")

        assert (reported, added, self.zone_of(zone, one)) == ("az1", "az-east", "az1")


@pytest.fixture
def admin(tmp_path: Path) -> Client:
    tree = Tree(tmp_path)
    return tree.add("z", hosts_=[a_host("h1"), a_host("h2")]).client()


def code(answer: Any) -> tuple[int, str]:
    (fault,) = answer.json.values()
    return answer.status, fault["error_code"]


def act(admin: Client, number: int, **action: Any) -> Any:
    return admin.post(f"/os-aggregates/{number}/action", action)


class TestApi:
    def test_an_aggregate_is_shown_in_openstacks_shape(self, admin: Client) -> None:
        made = admin.post("/os-aggregates", {"aggregate": {"name": "east", "availability_zone": "az-e"}})
        act(admin, 1, add_host={"host": "h2"})
        acted = act(admin, 1, set_metadata={"metadata": {"kind": "ssd", "gone": None}})

        (shown,) = admin.get("/os-aggregates").json["aggregates"]

        assert made.status == 200
        assert made.json["aggregate"]["updated_at"] is None
        assert acted.json == {"aggregate": shown} == admin.get("/v2.1/os-aggregates/1").json
        assert shown | {"uuid": "", "created_at": "", "updated_at": ""} == {
            "id": 1,
            "uuid": "",
            "name": "east",
            "availability_zone": "az-e",
            "hosts": ["h2"],
            "metadata": {"availability_zone": "az-e", "kind": "ssd"},
            "created_at": "",
            "updated_at": "",
            "deleted": False,
            "deleted_at": None,
        }

    def test_a_change_changes_what_it_names(self, admin: Client) -> None:
        admin.post("/os-aggregates", {"aggregate": {"name": "east", "availability_zone": "az-e"}})

        renamed = admin.call("PUT", "/os-aggregates/1", {"aggregate": {"name": "west"}})
        moved = admin.call("PUT", "/os-aggregates/1", {"aggregate": {"availability_zone": "az-w"}})
        ended = admin.call("PUT", "/os-aggregates/1", {"aggregate": {"availability_zone": None}})

        seen = [
            (a.json["aggregate"]["name"], a.json["aggregate"]["availability_zone"])
            for a in (renamed, moved, ended)
        ]
        assert seen == [("west", "az-e"), ("west", "az-w"), ("west", None)]

    def test_a_number_is_not_used_again(self, admin: Client) -> None:
        for name in ("a", "b"):
            admin.post("/os-aggregates", {"aggregate": {"name": name}})
        assert admin.delete("/os-aggregates/2").status == 200

        assert admin.post("/os-aggregates", {"aggregate": {"name": "b"}}).json["aggregate"]["id"] == 3

    def test_an_aggregate_with_hosts_is_not_deleted(self, admin: Client) -> None:
        admin.post("/os-aggregates", {"aggregate": {"name": "a"}})
        act(admin, 1, add_host={"host": "h1"})

        assert code(admin.delete("/os-aggregates/1")) == (400, "aggregate_not_empty")
        assert act(admin, 1, remove_host={"host": "h1"}).json["aggregate"]["hosts"] == []
        assert admin.delete("/os-aggregates/1").status == 200
        assert code(admin.get("/os-aggregates/1")) == (404, "aggregate_not_found")

    def test_a_host_is_in_one_availability_zone(self, admin: Client) -> None:
        for name, zone in (("a", "az-a"), ("b", "az-b"), ("plain", None), ("a2", "az-a")):
            admin.post("/os-aggregates", {"aggregate": {"name": name, "availability_zone": zone}})
        for number in (1, 3, 4):
            assert act(admin, number, add_host={"host": "h1"}).status == 200

        refused = [
            act(admin, 2, add_host={"host": "h1"}),
            act(admin, 3, set_metadata={"metadata": {"availability_zone": "az-c"}}),
            admin.call("PUT", "/os-aggregates/4", {"aggregate": {"availability_zone": "az-c"}}),
        ]

        assert {code(answer) for answer in refused} == {(409, "availability_zone_conflict")}
        assert [a["availability_zone"] for a in admin.get("/os-aggregates").json["aggregates"]] == [
            "az-a",
            "az-b",
            None,
            "az-a",
        ]

    @pytest.mark.parametrize(
        ("method", "path", "body", "expected"),
        [
            ("POST", "", {"aggregate": {"name": "a"}}, (409, "aggregate_exists")),
            ("PUT", "/2", {"aggregate": {"name": "a"}}, (409, "aggregate_exists")),
            ("PUT", "/1", {"aggregate": {}}, (400, "invalid_value")),
            ("POST", "", {"aggregate": {"name": ""}}, (400, "invalid_value")),
            ("POST", "", {"aggregate": {"name": "x", "availability_zone": "a:b"}}, (400, "invalid_value")),
            ("POST", "", {"aggregate": {"name": "x", "availability_zone": " a"}}, (400, "invalid_value")),
            ("GET", "/9", None, (404, "aggregate_not_found")),
            ("GET", "/x", None, (404, "aggregate_not_found")),
            ("GET", "/99999999999999999999", None, (404, "aggregate_not_found")),
            ("POST", "/9/action", {"add_host": {"host": "h1"}}, (404, "aggregate_not_found")),
            ("POST", "/1/action", {"add_host": {"host": "nobody"}}, (404, "host_not_found")),
            ("POST", "/1/action", {"add_host": {"host": "h1"}}, (409, "host_in_aggregate")),
            ("POST", "/1/action", {"remove_host": {"host": "h2"}}, (404, "host_not_in_aggregate")),
            ("POST", "/1/action", {}, (400, "invalid_value")),
            (
                "POST",
                "/1/action",
                {"add_host": {"host": "h2"}, "remove_host": {"host": "h1"}},
                (400, "invalid_value"),
            ),
            ("POST", "/1/action", {"set_metadata": {"metadata": {"k": 1}}}, (400, "wrong_type")),
            (
                "POST",
                "/1/action",
                {"set_metadata": {"metadata": {"availability_zone": ""}}},
                (400, "invalid_value"),
            ),
            (
                "POST",
                "/1/action",
                {"set_metadata": {"metadata": {"availability_zone": "az-e "}}},
                (400, "invalid_value"),
            ),
            (
                "POST",
                "/1/action",
                {"set_metadata": {"metadata": {str(n): "" for n in range(128)}}},
                (400, "too_long"),
            ),
        ],
    )
    def test_what_cannot_be_is_refused_and_changes_nothing(
        self, admin: Client, method: str, path: str, body: Any, expected: tuple[int, str]
    ) -> None:
        admin.post("/os-aggregates", {"aggregate": {"name": "a"}})
        admin.post("/os-aggregates", {"aggregate": {"name": "b"}})
        act(admin, 1, add_host={"host": "h1"})
        act(admin, 1, set_metadata={"metadata": {"kind": "ssd"}})
        before = admin.get("/os-aggregates").json

        assert code(admin.call(method, f"/os-aggregates{path}", body)) == expected
        assert admin.get("/os-aggregates").json == before

    def test_a_boot_goes_to_the_aggregates_zone(self, tmp_path: Path) -> None:
        tree = Tree(tmp_path)
        node = tree.add("z", hosts_=[a_host("h1"), a_host("h2")])
        admin = node.client()
        admin.post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 512, "disk": 1}})
        admin.post("/os-aggregates", {"aggregate": {"name": "e", "availability_zone": "az-e"}})
        act(admin, 1, add_host={"host": "h2"})

        form = {"name": "vm", "flavorRef": "small", "num_instances": 3, "availability_zone": "az-e"}
        admin.post("/zones/boot", {"server": form})
        tree.settle()

        servers = admin.get("/servers/detail").json["servers"]
        assert [server["OS-EXT-SRV-ATTR:host"] for server in servers] == ["h2"] * 3
