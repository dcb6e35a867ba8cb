"""Services: hosts that are disabled or forced down take nothing new, whatever their agents say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.clock import clock_of
from tests.builders.one_zone import a_form, a_zone, add_hosts, beat, sql
from tests.builders.tree import Client, Node, Tree, a_host
from zonesched.errors import NotFound
from zonesched.model.views import Binary, ServiceChange
from zonesched.services.hosts import hosts, services
from zonesched.services.state.host_cache import HostCache
from zonesched.services.state.listening import Listening
from zonesched.services.state.sql_hosts import SqlHosts
from zonesched.services.zone import Zone
from zonesched.store.store import Store

DISABLED, ENABLED = ServiceChange(is_enabled=False, disabled_reason="disk"), ServiceChange(is_enabled=True)
DOWN, UP = ServiceChange(forced_down=True), ServiceChange(forced_down=False)


@pytest.fixture
def zone(tmp_path: Path) -> Zone:
    return a_zone(tmp_path, service_down_time=60.0)


def in_memory(view: HostCache | SqlHosts, host_id: str) -> tuple[bool, bool]:
    """(enabled, up) as filters see it."""
    with view.current() as table:
        row = table.row_of(host_id)
        return bool(table.enabled[row]), bool(table.up[row])


def agent_id(zone: Zone, name: str = "agent") -> str:
    (found,) = services.list_services(zone, name, Binary.AGENT.value)
    return found.id


def test_a_disabled_host_stays_disabled_when_its_agent_registers_again(zone: Zone) -> None:
    one, two = add_hosts(zone, a_form("h1"), a_form("h2"))
    assert in_memory(zone.hosts, one) == (True, True)

    changed = services.change(zone, one, DISABLED)
    add_hosts(zone, a_form("h1", VCPU=16), a_form("h2"))

    assert (changed.is_enabled, changed.disabled_reason) == (False, "disk")
    assert (in_memory(zone.hosts, one), in_memory(zone.hosts, two)) == ((False, True), (True, True))
    view = hosts.show_hypervisor(zone, one)
    assert (view.is_enabled, view.disabled_reason) == (False, "disk")
    enabled = services.change(zone, one, ENABLED)
    assert (enabled.disabled_reason, in_memory(zone.hosts, one)) == ("", (True, True))


def test_a_host_that_is_forced_down_is_down_by_itself_until_it_is_forced_up(zone: Zone) -> None:
    one, two = add_hosts(zone, a_form("h1"), a_form("h2"))
    in_memory(zone.hosts, one)

    services.change(zone, one, DOWN)
    beat(zone)
    add_hosts(zone, a_form("h1", VCPU=16))

    assert (in_memory(zone.hosts, one)[1], in_memory(zone.hosts, two)[1]) == (False, True)
    assert not hosts.show_hypervisor(zone, one).is_up
    services.change(zone, one, UP)
    assert in_memory(zone.hosts, one)[1]


def test_an_agent_that_is_forced_down_takes_all_its_hosts_with_it_at_once_in_every_process(
    zone: Zone,
) -> None:
    one, two = add_hosts(zone, a_form("h1"), a_form("h2"))
    (other,) = add_hosts(zone, a_form("h3"), service="other")
    second = HostCache(Store.open(str(zone.store.engine.url)), zone.clock, Listening(zone.clock, 60.0))
    for view in (zone.hosts, second):
        assert in_memory(view, one)[1]

    services.change(zone, agent_id(zone), DOWN)
    beat(zone)
    (three,) = add_hosts(zone, a_form("h4"))

    for view in (zone.hosts, second):
        assert [in_memory(view, host)[1] for host in (one, two, three, other)] == [False, False, False, True]
    assert not hosts.show_hypervisor(zone, one).is_up
    services.change(zone, agent_id(zone), UP)
    for view in (zone.hosts, second):
        assert [in_memory(view, host)[1] for host in (one, two, three, other)] == [True] * 4


def test_forced_up_is_not_alive(zone: Zone) -> None:
    (one,) = add_hosts(zone, a_form("h1"))
    services.change(zone, agent_id(zone), DOWN)
    clock_of(zone).advance(61)

    services.change(zone, agent_id(zone), UP)

    assert not in_memory(zone.hosts, one)[1]
    beat(zone)
    assert in_memory(zone.hosts, one)[1]


def test_an_agents_next_beats_do_not_judge_all_services_again(
    zone: Zone, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = add_hosts(zone, a_form("h1"))
    services.change(zone, agent_id(zone), DOWN)
    in_memory(zone.hosts, one)
    judged: list[float] = []
    monkeypatch.setattr(zone.hosts, "_judge_services", judged.append)

    beat(zone)
    in_memory(zone.hosts, one)

    assert judged == []


@pytest.fixture
def node(tmp_path: Path) -> Node:
    tree = Tree(tmp_path)
    return tree.add("z", hosts_=[a_host("h1"), a_host("h2", zone="az2")])


@pytest.fixture
def admin(node: Node) -> Client:
    return node.client()


def listed(admin: Client, query: str = "") -> Any:
    return admin.get(f"/os-services{query}").json["services"]


def id_of(admin: Client, host: str) -> str:
    (found,) = listed(admin, f"?host={host}")
    return str(found["id"])


class TestApi:
    def test_agents_and_hosts_are_listed_in_openstacks_shape(self, admin: Client) -> None:
        found = listed(admin)

        assert [(s["binary"], s["host"], s["zone"]) for s in found] == [
            ("zonesched-compute", "agent", "internal"),
            ("nova-compute", "h1", "az1"),
            ("nova-compute", "h2", "az2"),
        ]
        assert found[1].keys() == {
            *(
                "id",
                "binary",
                "host",
                "zone",
                "status",
                "state",
                "updated_at",
                "disabled_reason",
                "forced_down",
                "topic",
                "report_count",
            )
        }
        assert (found[1]["status"], found[1]["state"], found[1]["disabled_reason"]) == ("enabled", "up", None)
        assert (found[0]["status"], found[0]["disabled_reason"]) == ("enabled", None)
        assert listed(admin, "?binary=nova-compute") == found[1:]
        assert listed(admin, "?host=h2") == [found[2]]
        assert listed(admin, "?host=nobody") == []

    def test_they_say_what_they_are_addressed_by_and_how_often_they_were_heard_of(
        self, tmp_path: Path
    ) -> None:
        node = Tree(tmp_path).add("z", hosts_=[a_host("h1")], host="node1", bind_port=8774)
        services.beat_own(node.zone)
        node.client("compute").post("/hosts/beat", {"service": "agent"})
        node.zone.heartbeats.write()

        found = listed(node.client())

        assert [(s["host"], s["topic"], s["report_count"]) for s in found] == [
            ("node1:8774", "scheduler", 1),
            ("agent", "compute", 1),
            ("h1", "compute", 1),
        ]

    def test_a_host_is_disabled_with_its_reason_and_enabled(self, admin: Client) -> None:
        body = {"status": "disabled", "disabled_reason": "disk"}
        disabled = admin.call("PUT", f"/os-services/{id_of(admin, 'h1')}", body)
        assert disabled.json["service"] == listed(admin, "?host=h1")[0]
        assert (disabled.json["service"]["status"], disabled.json["service"]["disabled_reason"]) == (
            "disabled",
            "disk",
        )
        hypervisor = admin.get("/os-hypervisors/detail").json["hypervisors"]
        (one,) = [h for h in hypervisor if h["hypervisor_hostname"] == "h1"]
        assert (one["status"], one["service"]["disabled_reason"]) == ("disabled", "disk")

        enabled = admin.call("PUT", f"/os-services/{one['id']}", {"status": "enabled"})
        assert (enabled.json["service"]["status"], enabled.json["service"]["disabled_reason"]) == (
            "enabled",
            None,
        )

    @pytest.mark.parametrize(
        ("action", "more", "seen"),
        [
            ("disable", {}, ("disabled", None, False)),
            ("disable-log-reason", {"disabled_reason": "disk"}, ("disabled", "disk", False)),
            ("force-down", {"forced_down": True}, ("enabled", None, True)),
            ("force-down", {"forced_down": "True"}, ("enabled", None, True)),
            ("force-down", {"forced_down": "no"}, ("enabled", None, False)),
        ],
    )
    def test_the_older_calls_name_host_and_binary(
        self, admin: Client, action: str, more: dict[str, Any], seen: tuple[Any, ...]
    ) -> None:
        body = {"host": "h1", "binary": "nova-compute"}

        answer = admin.call("PUT", f"/os-services/{action}", body | more)

        assert answer.status == 200
        (found,) = listed(admin, "?host=h1")
        assert (found["status"], found["disabled_reason"], found["forced_down"]) == seen
        admin.call("PUT", "/os-services/enable", body)
        assert listed(admin, "?host=h1")[0]["status"] == "enabled"

    @pytest.mark.parametrize(
        ("host", "body", "expected"),
        [
            ("h1", {}, (400, "missing_field", "status")),
            ("h1", {"status": "off"}, (400, "invalid_value", "status")),
            ("h1", {"disabled_reason": "x"}, (400, "invalid_value", "disabled_reason")),
            ("h1", {"status": "enabled", "disabled_reason": "x"}, (400, "invalid_value", "disabled_reason")),
            ("h1", {"forced_down": "maybe"}, (400, "wrong_type", "forced_down")),
            ("agent", {"status": "disabled"}, (400, "service_has_no_status", "status")),
            ("agent", {"status": "enabled", "forced_down": True}, (400, "service_has_no_status", "status")),
        ],
    )
    def test_what_cannot_be_is_refused_and_changes_nothing(
        self, admin: Client, host: str, body: Any, expected: tuple[int, str, str]
    ) -> None:
        before = listed(admin)
        answer = admin.call("PUT", f"/os-services/{id_of(admin, host)}", body)
        fault = answer.json["badRequest"]
        assert (answer.status, fault["error_code"], fault["field"]) == expected
        assert listed(admin) == before

    def test_a_truth_may_be_a_text(self, admin: Client) -> None:
        for text, expected in (("YES", True), ("False", False)):
            answer = admin.call("PUT", f"/os-services/{id_of(admin, 'h1')}", {"forced_down": text})
            assert answer.json["service"]["forced_down"] is expected

    def test_an_unknown_service_is_not_found(self, admin: Client) -> None:
        for path, body in (
            ("x", {"status": "enabled"}),
            ("enable", {"host": "x"}),
            ("disable", {"host": "agent"}),
        ):
            answer = admin.call("PUT", f"/os-services/{path}", body)
            assert (answer.status, answer.json["itemNotFound"]["error_code"]) == (404, "service_not_found")

    def test_no_instance_goes_to_a_disabled_host(self, tmp_path: Path) -> None:
        tree = Tree(tmp_path / "boot")
        (tmp_path / "boot").mkdir()
        admin = tree.add("z", hosts_=[a_host("h1"), a_host("h2")]).client()
        admin.post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 512, "disk": 1}})
        admin.call("PUT", f"/os-services/{id_of(admin, 'h1')}", {"status": "disabled"})
        admin.call("PUT", f"/os-services/{id_of(admin, 'h2')}", {"forced_down": True})

        refused = admin.post("/zones/boot", {"server": {"name": "a", "flavorRef": "small"}})
        tree.settle()
        admin.call("PUT", f"/os-services/{id_of(admin, 'h2')}", {"forced_down": False})
        admin.post("/zones/boot", {"server": {"name": "b", "flavorRef": "small", "num_instances": 2}})
        tree.settle()

        why = admin.get(f"/reservations/{refused.json['reservation_id']}").json["reservation"]["reasons"]
        assert why == [{"code": "no_valid_host", "count": 1, "refused_by": ["host_not_available"]}]
        servers = admin.get("/servers/detail").json["servers"]
        assert {s["OS-EXT-SRV-ATTR:host"] for s in servers if s["name"].startswith("b")} == {"h2"}


class TestAvailabilityZones:
    def zones(self, client: Client, path: str = "/os-availability-zone") -> Any:
        return client.get(path).json["availabilityZoneInfo"]

    def test_they_are_those_of_the_hosts_here_and_below(self, tmp_path: Path) -> None:
        tree = Tree(tmp_path)
        root = tree.add("root", hosts_=[a_host("h1"), a_host("h2", zone=""), a_host("h3", zone="az2")])
        tree.add("leaf", parent="root", hosts_=[a_host("h1", zone="az-leaf")])
        tree.poll()
        admin = root.client()
        admin.call("PUT", f"/os-services/{id_of(admin, 'h3')}", {"status": "disabled"})

        found = self.zones(root.client("reader"))

        assert [(z["zoneName"], z["zoneState"]["available"], z["hosts"]) for z in found] == [
            ("az-leaf", True, None),
            ("az1", True, None),
            ("az2", False, None),
        ]

    def test_admins_see_their_own_hosts_in_each(self, admin: Client) -> None:
        admin.call("PUT", f"/os-services/{id_of(admin, 'h1')}", {"status": "disabled"})
        admin.call("PUT", f"/os-services/{id_of(admin, 'h2')}", {"forced_down": True})

        found = self.zones(admin, "/os-availability-zone/detail")

        state = {z["zoneName"]: {h: s["nova-compute"] for h, s in z["hosts"].items()} for z in found}
        assert {name: list(hosts_) for name, hosts_ in state.items()} == {"az1": ["h1"], "az2": ["h2"]}
        one, two = state["az1"]["h1"], state["az2"]["h2"]
        assert (one["active"], one["available"]) == (False, True)
        assert (two["active"], two["available"]) == (True, False)

    def test_an_empty_zone_has_none(self, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        assert self.zones(Tree(tmp_path / "empty").add("z").client()) == []


def test_a_service_that_does_not_exist_changes_nothing(zone: Zone) -> None:
    add_hosts(zone, a_form("h1"))
    with pytest.raises(NotFound):
        services.change(zone, "nobody", DISABLED)
    assert sql(zone, "select count(*) from hosts where not enabled") == [(0,)]
