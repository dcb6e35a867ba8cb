"""Removing hosts and agents: gone at once in every process, refused while anything is on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.builders.clock import FakeClock
from tests.builders.one_zone import (
    AGENT,
    a_form,
    a_zone,
    add_hosts,
    boot_on,
    put_instance,
    put_place,
    put_reservation,
    sql,
)
from tests.builders.tree import Client, Node, Tree, a_host
from zonesched.compute.agent import Agent, Rhythm
from zonesched.compute.client import ZoneIdentity
from zonesched.compute.connection import ZoneRefused
from zonesched.compute.driver import DriverSettings
from zonesched.compute.fake import FakeDriver
from zonesched.compute.inventory import InventoryHost
from zonesched.compute.machine import Fetched, Report
from zonesched.compute.restored_zone import Running
from zonesched.errors import Conflict, NotFound
from zonesched.model.capacity import InventorySetting
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.model.views import SettingChange
from zonesched.services.audit import audit
from zonesched.services.hosts import aggregates, host_settings, hosts, services
from zonesched.services.state.host_cache import HostCache
from zonesched.services.state.listening import Listening
from zonesched.services.state.sql_hosts import SqlHosts
from zonesched.services.zone import Zone
from zonesched.store import claims, identity
from zonesched.store.placements import ClaimedHost
from zonesched.store.store import Store


@pytest.fixture
def zone(tmp_path: Path) -> Zone:
    return a_zone(tmp_path, service_down_time=60.0)


def known(view: HostCache | SqlHosts) -> list[str]:
    """Names of the hosts in memory."""
    with view.current() as table:
        return sorted(table.name(row) for row in range(table.size) if table.alive[row])


def agent_id(zone: Zone, name: str = "agent") -> str:
    (found,) = services.list_services(zone, name, "zonesched-compute")
    return found.id


class TestHosts:
    def test_it_is_gone_at_once_in_every_process(self, zone: Zone) -> None:
        one, _ = add_hosts(zone, a_form("h1"), a_form("h2"))
        second = HostCache(Store.open(str(zone.store.engine.url)), zone.clock, Listening(zone.clock, 60.0))
        assert known(zone.hosts) == known(second) == ["h1", "h2"]

        services.remove(zone, one)

        assert known(zone.hosts) == known(second) == ["h2"]
        assert [view.name for view in hosts.list_hypervisors(zone)] == ["h2"]

    def test_nothing_of_it_is_left(self, zone: Zone) -> None:
        one, two = add_hosts(zone, a_form("h1"), a_form("h2"))
        number = str(aggregates.create(zone.store, zone.clock, "a", None).number)
        aggregates.add_host(zone.store, zone.wake, number, "h1")
        setting = SettingChange(frozenset({"reserved"}), InventorySetting(reserved=1))
        host_settings.change(zone, one, {"VCPU": setting})

        services.remove(zone, one)

        for table in ("inventories", "inventory_settings", "aggregate_hosts"):
            assert {row.host_id for row in sql(zone, f"select host_id from {table}")} <= {two}
        aggregates.delete(zone.store, number)
        assert audit.run(zone) == []

    def test_a_host_of_the_same_name_is_another_one(self, zone: Zone) -> None:
        (one,) = add_hosts(zone, a_form("h1"))
        known(zone.hosts)
        services.remove(zone, one)

        (again,) = add_hosts(zone, a_form("h1", VCPU=2))

        assert again != one
        with zone.hosts.current() as table:
            assert (len(table), table.capacity("VCPU")[table.row_of(again)]) == (1, 2)

    @pytest.mark.parametrize(
        ("state", "status"),
        [
            (PlacementState.HELD, InstanceStatus.BUILD),
            (PlacementState.CONFIRMED, InstanceStatus.ACTIVE),
        ],
    )
    def test_a_host_with_claims_stays(
        self, zone: Zone, state: PlacementState, status: InstanceStatus
    ) -> None:
        (one,) = add_hosts(zone, a_form("h1"))
        put_reservation(zone)
        put_place(zone, put_instance(zone, status=status), ClaimedHost(one, {"VCPU": 1}), state=state)

        with pytest.raises(Conflict) as refused:
            services.remove(zone, one)

        assert (refused.value.code, refused.value.field) == ("host_has_instances", "id")
        assert known(zone.hosts) == ["h1"]
        assert audit.run(zone) == []

    def test_what_was_there_does_not_keep_it(self, zone: Zone) -> None:
        (one,) = add_hosts(zone, a_form("h1"))
        put_reservation(zone)
        uuid = put_instance(zone, status=InstanceStatus.DELETED)
        put_place(zone, uuid, ClaimedHost(one, {"VCPU": 1}), state=PlacementState.RELEASED, claimed=False)

        services.remove(zone, one)

        assert known(zone.hosts) == []
        assert audit.run(zone) == []

    def test_a_choice_that_was_made_before_finds_no_room(self, zone: Zone) -> None:
        (one,) = add_hosts(zone, a_form("h1"))
        services.remove(zone, one)

        taken = zone.store.write(lambda tx: claims.claim(tx, identity.next_change(tx), {one: 1}, {"VCPU": 1}))

        assert taken == {one: 0}

    def test_an_unknown_one_is_not_found(self, zone: Zone) -> None:
        with pytest.raises(NotFound) as refused:
            services.remove(zone, "nobody")
        assert refused.value.code == "service_not_found"


class TestAgents:
    def test_an_agent_goes_after_its_hosts(self, zone: Zone) -> None:
        (one,) = add_hosts(zone, a_form("h1"))
        with pytest.raises(Conflict) as refused:
            services.remove(zone, agent_id(zone))
        assert (refused.value.code, refused.value.field) == ("service_has_hosts", "id")

        services.remove(zone, one)
        services.remove(zone, agent_id(zone))

        assert services.list_services(zone) == []
        with pytest.raises(NotFound):
            hosts.beat(zone, AGENT, "agent")

    def test_a_running_agent_leaves_a_removed_host_alone_until_it_starts_again(self, zone: Zone) -> None:
        agent = an_agent(zone)
        run(zone, agent, 30)
        (one,) = [view.id for view in hosts.list_hypervisors(zone) if view.name == "h1"]

        services.remove(zone, one)
        run(zone, agent, 30)
        while_it_runs = known(zone.hosts)
        run(zone, an_agent(zone), 30)

        assert while_it_runs == ["h2"]
        assert known(zone.hosts) == ["h1", "h2"]

    def test_a_running_agent_that_was_removed_registers_itself_and_its_hosts_again(self, zone: Zone) -> None:
        agent = an_agent(zone)
        run(zone, agent, 30)
        for view in hosts.list_hypervisors(zone):
            services.remove(zone, view.id)
        services.remove(zone, agent_id(zone))

        run(zone, agent, 60)

        assert known(zone.hosts) == ["h1", "h2"]
        assert len(services.list_services(zone, "agent")) == 1


class Direct:
    """An agent's zone without HTTP between."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone

    def register(self, found: Sequence[InventoryHost], fence_after_s: float = math.inf) -> ZoneIdentity:
        add_hosts(self._zone, *(a_form(host.name) for host in found))
        return ZoneIdentity("nova", "zone-uuid")

    def beat(self, fence_after_s: float = math.inf) -> None:
        try:
            hosts.beat(self._zone, AGENT, "agent")
        except NotFound as error:
            raise ZoneRefused(404, error.code, error.message, error.field) from error

    def fetch(self) -> Fetched:
        try:
            assert hosts.desired(self._zone.store, self._zone.heartbeats, AGENT, "agent") == []
        except NotFound as error:
            raise ZoneRefused(404, error.code, error.message, error.field) from error
        return Fetched(())

    def tell(self, running: Sequence[Running]) -> None:
        raise AssertionError("the zone was not restored")

    def bring_console(self, ask_id: str, output: str | None) -> None:
        raise AssertionError("no console is asked for")

    def report(self, reports: Sequence[Report]) -> None:
        raise AssertionError("there is nothing to report")


def an_agent(zone: Zone) -> Agent:
    driver = FakeDriver(DriverSettings(), zone.clock)
    return Agent(Direct(zone), driver, zone.clock, [InventoryHost("h1"), InventoryHost("h2")], Rhythm())


def run(zone: Zone, agent: Agent, seconds: int) -> None:
    for _ in range(seconds):
        agent.step()
        assert isinstance(zone.clock, FakeClock)
        zone.clock.advance(1.0)


class TestApi:
    @pytest.fixture
    def node(self, tmp_path: Path) -> Node:
        return Tree(tmp_path).add("z", hosts_=[a_host("h1"), a_host("h2")])

    def id_of(self, admin: Client, host: str) -> str:
        (found,) = admin.get(f"/os-services?host={host}").json["services"]
        return str(found["id"])

    def test_a_host_and_an_agent_are_removed(self, node: Node) -> None:
        admin = node.client()
        for name in ("h1", "h2", "agent"):
            assert admin.delete(f"/os-services/{self.id_of(admin, name)}").status == 204
        assert admin.get("/os-services").json == {"services": []}
        assert admin.get("/os-hypervisors").json == {"hypervisors": []}

    def test_what_cannot_be_removed_is_told(self, node: Node) -> None:
        admin = node.client()
        boot_on(node.zone, self.id_of(admin, "h1"))
        for path, expected in (
            (self.id_of(admin, "h1"), (409, "conflictingRequest", "host_has_instances")),
            (self.id_of(admin, "agent"), (409, "conflictingRequest", "service_has_hosts")),
            ("nobody", (404, "itemNotFound", "service_not_found")),
        ):
            answer = admin.delete(f"/os-services/{path}")
            ((kind, fault),) = answer.json.items()
            assert (answer.status, kind, fault["error_code"], fault["field"]) == (*expected, "id")
        assert len(admin.get("/os-services").json["services"]) == 3
