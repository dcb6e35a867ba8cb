"""Hints: who is told what, and that nothing hangs on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.boots import FLAVOR
from tests.builders.clock import FakeClock, clock_of
from tests.builders.fake_broker import Exchange, FakeBroker
from tests.builders.inline_executor import InlineExecutor, InlineLoop
from tests.builders.migrated import a_database
from tests.builders.moving import act, on_h1, states
from tests.builders.one_zone import AGENT, KEY, a_form, a_zone, add_hosts, boot_on, instance_of
from tests.builders.played_agent import PlayedAgent
from tests.builders.tree import Tree, a_host
from zonesched import conf as options
from zonesched.api.metrics import ApiMetrics
from zonesched.broker.contract import BOOTS, HOSTS, BrokerUnavailable, Kind, NoBroker, Notification, key_of
from zonesched.broker.opening import for_agent, for_process
from zonesched.broker.outbox import Outbox
from zonesched.compute.agent import Agent, Rhythm
from zonesched.compute.client import ZoneIdentity
from zonesched.compute.driver import DriverSettings
from zonesched.compute.fake import FakeDriver
from zonesched.compute.inventory import InventoryHost
from zonesched.compute.machine import Fetched, Key, Report, Wanted
from zonesched.compute.main import main as compute
from zonesched.compute.restored_zone import Running
from zonesched.compute.subscriber import Subscriber as AgentSubscriber
from zonesched.errors import ConfigError
from zonesched.model.agent_instances import AgentReport, AgentState
from zonesched.model.boot_form import BootForm
from zonesched.model.caller import Caller, Role
from zonesched.model.catalog import CatalogFlavor, CatalogImage
from zonesched.model.placement import InstanceStatus
from zonesched.model.request_spec import Flavor, Image
from zonesched.model.views import ServiceChange
from zonesched.services import background
from zonesched.services.boot import boot
from zonesched.services.catalog import flavors, images
from zonesched.services.hosts import aggregates, hosts, services
from zonesched.services.owners import servers
from zonesched.services.subscriber import Subscriber
from zonesched.services.zone import Zone

WORK = Notification(Kind.WORK, "compute.agent")
ADMIN = Caller("admin-1", "admin", Role.ADMIN, "project-1")
USER = Caller("user-1", "alice", Role.MEMBER, "project-1")


@pytest.fixture
def exchange() -> Exchange:
    return Exchange()


@pytest.fixture
def zone(tmp_path: Path, exchange: Exchange) -> Zone:
    return a_process(tmp_path, exchange, "one")


def a_process(folder: Path, exchange: Exchange, host: str, **overrides: Any) -> Zone:
    """One process of the zone whose database is in the folder."""
    own = {"database_url": a_database(folder / "zone.sqlite"), "state_path": str(folder), "host": host}
    conf = options.load(overrides={**own, "build_plan_encryption_key": [KEY], **overrides})
    broker = FakeBroker(exchange, for_process("nova", f"{host}:8774"))
    return Zone.open(conf, clock=FakeClock(), executor=InlineExecutor(), broker=broker)


def a_boot(zone: Zone, count: int = 1) -> tuple[str, ...]:
    """A user's boot is accepted; the uuids of its instances."""
    if not flavors.list_flavors(zone.store):
        flavors.create(zone.store, CatalogFlavor(Flavor("f1", "small", 1, 512, 0)))
        images.create(zone.store, CatalogImage(Image("i1", "plain", {})))
    form = BootForm(name="vm", flavor_ref="small", image_ref="plain", num_instances=count, min_count=count)
    return boot.accept(zone, USER, form).uuids


def work_off(zone: Zone) -> None:
    """The zone's workers do what is due."""
    background.poll_children(zone)
    while background.work_on_boots(zone) == 0.0:
        pass


def told(zone: Zone, exchange: Exchange) -> list[Notification]:
    """Notifications that this process sends now."""
    exchange.sent.clear()
    zone.notifications.send()
    return list(exchange.sent)


class TestKeys:
    @given(st.text(min_size=1, max_size=255))
    def test_a_key_is_two_words_without_wildcards_however_a_service_is_called(self, name: str) -> None:
        key = key_of("compute", name)
        assert key.count(".") == 1
        assert not set("*#") & set(key)
        assert len(key.encode()) < 80

    @given(st.text(max_size=80), st.text(max_size=80))
    def test_two_services_have_two_keys(self, one: str, other: str) -> None:
        assert (key_of("compute", one) == key_of("compute", other)) == (one == other)


class TestOutbox:
    def test_what_waits_already_is_sent_once_and_in_order(self) -> None:
        outbox: Outbox[int] = Outbox()
        outbox.put([3, 1])
        outbox.put([1, 2])
        assert (outbox.take(), outbox.take()) == ((3, 1, 2), ())

    def test_what_finds_no_room_is_dropped_and_counted(self) -> None:
        outbox: Outbox[int] = Outbox(max_items=2)
        outbox.put(range(5))
        assert (outbox.take(), outbox.dropped) == ((0, 1), 3)
        outbox.put([9])
        assert outbox.take() == (9,)

    def test_what_is_put_back_comes_before_what_came_since(self) -> None:
        outbox: Outbox[int] = Outbox(max_items=3)
        outbox.put([3, 1])
        taken = outbox.take()
        outbox.put([1, 2, 4])
        outbox.put_back(taken)
        assert (outbox.take(), outbox.dropped) == ((3, 1, 2), 1)


class TwoAgents:
    """A zone with a broker, a server on the host of `old`, and room for it on that of `new`."""

    def __init__(self, tmp_path: Path, cannot_build: str = "") -> None:
        self.tree = Tree(tmp_path)
        self.node = self.tree.add("leaf", hosts_=[a_host("h1", vcpus=4)])
        self.node.client().post("/flavors", FLAVOR)
        self.old = PlayedAgent(self.node)
        self.new = PlayedAgent(self.node, service="agent-2", cannot_build=cannot_build)
        self.uuid = on_h1(self.tree, self.old)
        self.exchange = Exchange()
        self.node.zone.notifications.broker = FakeBroker(self.exchange)

    def begin(self, action: dict[str, Any]) -> None:
        """Ask for a move, and let the zone find its new host."""
        act(self.node, self.uuid, action)
        self.tree.settle(1)

    def resize(self) -> None:
        """Resize the server up to its owner's answer, of which nobody was told yet."""
        self.node.client().post("/flavors", {"flavor": {"name": "large", "vcpus": 2, "ram": 512, "disk": 1}})
        self.begin({"resize": {"flavorRef": "large"}})
        self.old.converge()
        self.new.converge()
        self.told()

    def told(self) -> list[Notification]:
        """Notifications that were sent since the last call."""
        return told(self.node.zone, self.exchange)


class TestTelling:
    def test_the_claim_of_a_batch_is_told_to_its_agent_once(self, zone: Zone, exchange: Exchange) -> None:
        add_hosts(zone, a_form("h1"), a_form("h2"))
        told(zone, exchange)

        a_boot(zone, count=12)
        work_off(zone)

        assert told(zone, exchange) == [WORK]

    def test_what_is_confirmed_across_zones_is_told_to_the_agents_of_each(self, tmp_path: Path) -> None:
        tree = Tree(tmp_path)
        root = tree.add("root", hosts_=[a_host("h1", vcpus=2)])
        leaf = tree.add("leaf", parent="root", hosts_=[a_host("h2", vcpus=2)])
        tree.poll()
        exchanges = [Exchange(), Exchange()]
        for node, exchange in zip((root, leaf), exchanges, strict=True):
            node.zone.notifications.broker = FakeBroker(exchange)
        root.client().post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 512, "disk": 1}})
        root.client().post(
            "/zones/boot", {"server": {"name": "vm", "flavorRef": "small", "num_instances": 4}}
        )

        tree.settle()

        for node, exchange in zip((root, leaf), exchanges, strict=True):
            assert WORK in told(node.zone, exchange)

    def test_a_deleted_instance_is_told_to_its_agent_alone(self, zone: Zone, exchange: Exchange) -> None:
        (one,) = add_hosts(zone, a_form("h1"))
        add_hosts(zone, a_form("h2"), service="other")
        uuid = boot_on(zone, one)
        told(zone, exchange)

        servers.delete(zone, ADMIN, uuid)

        assert told(zone, exchange) == [WORK]

    def test_a_failed_build_is_told_to_any_process(self, zone: Zone, exchange: Exchange) -> None:
        (one,) = add_hosts(zone, a_form("h1"))
        uuid = boot_on(zone, one, status=InstanceStatus.BUILD)
        told(zone, exchange)

        hosts.report(zone, AGENT, "agent", [AgentReport(uuid, 1, AgentState.ERROR, "no_disk")])

        assert told(zone, exchange) == [BOOTS]

    def test_each_step_of_a_move_is_told_to_the_agents_of_both_hosts(self, tmp_path: Path) -> None:
        # given a server that an admin moves, as its old agent has heard
        scene = TwoAgents(tmp_path)
        scene.begin({"migrate": None})
        assert scene.told() == [WORK]
        # when that has stopped it, then the new one hears of it
        scene.old.converge()
        assert Notification(Kind.WORK, "compute.agent-2") in scene.told()
        # and once it runs there, the old one that it may end what is left
        scene.new.converge()
        assert WORK in scene.told()

    def test_a_move_that_comes_back_is_told_to_the_agent_of_the_old_host(self, tmp_path: Path) -> None:
        scene = TwoAgents(tmp_path, cannot_build="no_disk")
        scene.begin({"migrate": None})
        scene.old.converge()
        scene.new.converge()
        assert states(scene.node, scene.uuid) == ["parked", "releasing"]
        scene.told()

        scene.new.converge()

        assert states(scene.node, scene.uuid) == ["confirmed", "released"]
        assert WORK in scene.told()

    def test_a_confirmed_resize_is_told_to_the_agent_of_the_old_host(self, tmp_path: Path) -> None:
        scene = TwoAgents(tmp_path)
        scene.resize()

        assert act(scene.node, scene.uuid, {"confirmResize": None}).status == 204

        assert WORK in scene.told()

    def test_a_resized_server_that_its_new_host_loses_is_told_to_the_agent_of_the_old_host(
        self, tmp_path: Path
    ) -> None:
        scene = TwoAgents(tmp_path)
        scene.resize()

        # A report twice in one call is of no more than one loss.
        scene.new.report([{"uuid": scene.uuid, "attempt": 2, "state": state} for state in ("error", "gone")])

        assert WORK in scene.told()
        scene.old.converge()
        assert states(scene.node, scene.uuid) == ["released", "released"]

    def test_what_hosts_are_is_told_to_every_process(self, zone: Zone, exchange: Exchange) -> None:
        (one,) = add_hosts(zone, a_form("h1"))
        registered = told(zone, exchange)
        services.change(zone, one, ServiceChange(is_enabled=False))
        disabled = told(zone, exchange)
        number = aggregates.create(zone.store, zone.clock, "fast", None).number
        aggregates.add_host(zone.store, zone.wake, str(number), "h1")

        assert registered == disabled == told(zone, exchange) == [HOSTS]

    def test_while_the_broker_is_away_all_goes_on_and_what_nobody_was_told_is_counted(
        self, zone: Zone, exchange: Exchange
    ) -> None:
        add_hosts(zone, a_form("h1"))
        exchange.is_away = True
        pauses = [zone.notifications.send()]

        (uuid,) = a_boot(zone)
        work_off(zone)
        pauses.append(zone.notifications.send())
        zone.wake.boots()
        pauses.append(zone.notifications.send())
        exchange.is_away = False
        pauses.append(zone.notifications.send())
        zone.wake.boots()

        assert [d.uuid for d in hosts.desired(zone.store, zone.heartbeats, AGENT, "agent")] == [uuid]
        assert pauses == [1.0, 2.0, 5.0, 5.0]
        assert zone.notifications.dropped == 3
        assert told(zone, exchange) == [BOOTS]

    def test_without_a_broker_nothing_waits_to_be_told(self, tmp_path: Path) -> None:
        zone = a_zone(tmp_path)
        add_hosts(zone, a_form("h1"))
        a_boot(zone)
        work_off(zone)
        background.start(zone)

        loops = [loop.name for loop in loops_of(zone)]

        assert (zone.notifications.send(), zone.notifications.counts.sent, zone.notifications.dropped) == (
            5.0,
            0,
            0,
        )
        assert not {"notifications", "subscriber"} & set(loops)

    def test_with_a_broker_a_zone_tells_and_listens(self, zone: Zone) -> None:
        background.start(zone)

        loops = [loop.name for loop in loops_of(zone)]

        assert (loops.count("notifications"), loops.count("subscriber")) == (1, 1)


class TestListening:
    def test_one_process_hears_of_a_boot_and_all_of_hosts(self, tmp_path: Path, exchange: Exchange) -> None:
        one, two = (a_process(tmp_path, exchange, host) for host in ("one", "two"))
        heard = []
        for process in (one, two):
            background.start(process)
            Subscriber(process).step()
        woken = [sum(wakes_of_boots(zone)) for zone in (one, two)]
        add_hosts(one, a_form("h1"))
        one.wake.boots()
        one.notifications.send()
        for process in (one, two):
            Subscriber(process).step()
            heard.append(process.notifications.counts.heard)

        assert woken == [4, 4]
        assert sum(heard) == 3

    def test_a_table_that_is_read_now_and_then_is_read_when_hosts_change(
        self, tmp_path: Path, exchange: Exchange
    ) -> None:
        caching = {"scheduler_driver": "CachingScheduler"}
        one, two = (a_process(tmp_path, exchange, host, **caching) for host in ("one", "two"))
        (host,) = add_hosts(one, a_form("h1"))
        listening = Subscriber(two)
        listening.step()
        services.change(one, host, ServiceChange(is_enabled=False))
        before = is_enabled(two, host)

        one.notifications.send()
        listening.step()

        assert (before, is_enabled(two, host)) == (True, False)

    def test_what_was_missed_while_the_broker_was_away_is_looked_for_when_it_is_back(
        self, zone: Zone, exchange: Exchange
    ) -> None:
        background.start(zone)
        listening = Subscriber(zone)
        listening.step()
        exchange.is_away = True
        away = listening.step()
        woken = wakes_of_boots(zone)

        exchange.is_away = False
        listening.step()

        assert away > 0
        assert wakes_of_boots(zone) == [count + 1 for count in woken]


def test_what_a_process_that_stops_leaves_undone_is_told_to_the_others(
    zone: Zone, exchange: Exchange
) -> None:
    a_boot(zone)
    told(zone, exchange)

    zone.stop()

    assert exchange.sent[-1] == BOOTS


def test_a_process_that_stops_while_the_database_is_away_closes_all_and_says_in_a_line_what_becomes_of_boots(
    zone: Zone, tmp_path: Path, exchange: Exchange, caplog: pytest.LogCaptureFixture
) -> None:
    other = a_process(tmp_path, exchange, "two")
    zone.notifications.broker.receive(0.0)
    a_boot(zone)
    other.store.write(lambda tx: tx.exec_driver_sql("ALTER TABLE reservations RENAME TO gone"))
    caplog.clear()

    zone.stop()

    other.store.write(lambda tx: tx.exec_driver_sql("ALTER TABLE gone RENAME TO reservations"))
    [line] = [line for line in caplog.records if "unfinished boots" in line.getMessage()]
    assert line.getMessage().startswith(
        "unfinished boots go on in other processes once their leases end: the"
    )
    assert line.exc_info is None
    # A closed one connects anew.
    assert zone.notifications.broker.receive(0.0) == [Kind.MISSED]


class Refusing(NoBroker):
    """A broker that is away for these reasons in turn, then there."""

    is_there = True

    def __init__(self, *reasons: str) -> None:
        self._reasons = list(reasons)

    def receive(self, timeout_s: float) -> Sequence[Kind]:
        if self._reasons:
            raise BrokerUnavailable(self._reasons.pop(0))
        return [Kind.MISSED]


class TestLog:
    """An operator reads each reason of an outage once, and that it is over."""

    REASONS = ("refused", "refused", "wrong password", "refused", *map(str, range(50)))

    @pytest.mark.parametrize("who", ["process", "agent"])
    def test_each_reason_is_logged_once_and_few_of_many_and_that_it_is_back(
        self, zone: Zone, caplog: pytest.LogCaptureFixture, who: str
    ) -> None:
        zone.notifications.broker = broker = Refusing(*self.REASONS)
        agent = Agent(Direct(zone), FakeDriver(DriverSettings(), zone.clock), zone.clock, [], Rhythm())
        agent.step()
        listening = (
            Subscriber(zone)
            if who == "process"
            else AgentSubscriber(agent, lambda name: broker, lambda: None)
        )
        caplog.clear()

        for _ in range(len(self.REASONS) + 2):
            listening.step()

        said = [line.getMessage() for line in caplog.records if "message broker" in line.getMessage()]
        assert [line.rpartition(": ")[2] for line in said[:-1]] == ["refused", "wrong password", "0"]
        assert said[-1] == "the message broker is available again"


def loops_of(zone: Zone) -> list[InlineLoop]:
    assert isinstance(zone.executor, InlineExecutor)
    return zone.executor.loops


def wakes_of_boots(zone: Zone) -> list[int]:
    """Return how often each loop of boots was woken."""
    return [loop.woken for loop in loops_of(zone) if loop in zone.wake.boot_loops]


def is_enabled(zone: Zone, host_id: str) -> bool:
    with zone.hosts.current() as table:
        return bool(table.enabled[table.row_of(host_id)])


class Direct:
    """An agent's zone without HTTP between."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone

    def register(self, found: Sequence[InventoryHost], fence_after_s: float = math.inf) -> ZoneIdentity:
        add_hosts(self._zone, *(a_form(host.name) for host in found))
        return ZoneIdentity("nova", "zone-uuid")

    def beat(self, fence_after_s: float = math.inf) -> None:
        hosts.beat(self._zone, AGENT, "agent")

    def fetch(self) -> Fetched:
        found = hosts.desired(self._zone.store, self._zone.heartbeats, AGENT, "agent")
        return Fetched(tuple(Wanted(Key(d.uuid, d.attempt), d.host) for d in found))

    def tell(self, running: Sequence[Running]) -> None:
        raise AssertionError("the zone was not restored")

    def bring_console(self, ask_id: str, output: str | None) -> None:
        raise AssertionError("no console is asked for")

    def report(self, reports: Sequence[Report]) -> None:
        hosts.report(
            self._zone,
            AGENT,
            "agent",
            [AgentReport(r.key.uuid, r.key.attempt, AgentState(r.state.value)) for r in reports],
        )


class TestAgent:
    @pytest.fixture
    def agent(self, zone: Zone) -> Agent:
        driver = FakeDriver(DriverSettings(), zone.clock)
        agent = Agent(Direct(zone), driver, zone.clock, [InventoryHost("h1")], Rhythm(poll_s=30.0))
        agent.step()
        return agent

    def hearing(self, agent: Agent, exchange: Exchange) -> tuple[AgentSubscriber, list[str]]:
        woken: list[str] = []

        def wake() -> None:
            woken.append("woken")

        hearing = AgentSubscriber(agent, lambda zone: FakeBroker(exchange, for_agent(zone, "agent")), wake)
        hearing.step()
        agent.step()
        return hearing, woken

    def test_it_builds_as_soon_as_it_is_told(self, zone: Zone, exchange: Exchange, agent: Agent) -> None:
        hearing, woken = self.hearing(agent, exchange)
        (uuid,) = a_boot(zone)
        work_off(zone)
        zone.notifications.send()
        agent.step()
        before = instance_of(zone, uuid).status

        hearing.step()
        agent.step()

        assert before is InstanceStatus.BUILD
        assert instance_of(zone, uuid).status is InstanceStatus.ACTIVE
        assert woken == ["woken", "woken"]

    def test_losing_every_hint_costs_time_and_no_instance(
        self, zone: Zone, exchange: Exchange, agent: Agent
    ) -> None:
        hearing, _ = self.hearing(agent, exchange)
        exchange.is_away = True
        (uuid,) = a_boot(zone)
        work_off(zone)
        for _ in range(31):
            zone.notifications.send()
            hearing.step()
            agent.step()
            clock_of(zone).advance(1.0)

        assert zone.notifications.counts.sent == 0
        assert instance_of(zone, uuid).status is InstanceStatus.ACTIVE

    def test_it_looks_when_the_broker_is_back(self, zone: Zone, exchange: Exchange, agent: Agent) -> None:
        hearing, _ = self.hearing(agent, exchange)
        exchange.is_away = True
        away = hearing.step()
        (uuid,) = a_boot(zone)
        work_off(zone)

        exchange.is_away = False
        hearing.step()
        agent.step()

        assert away > 0
        assert instance_of(zone, uuid).status is InstanceStatus.ACTIVE

    def test_one_that_was_refused_listens_no_more_to_what_is_for_its_successor(
        self, exchange: Exchange, agent: Agent
    ) -> None:
        hearing, woken = self.hearing(agent, exchange)
        there = agent.zone
        # When its zone refuses it, then takes it again
        agent.zone = ZoneIdentity()
        hearing.step()
        agent.zone = there
        hearing.step()
        # Then it has connected anew
        assert woken == ["woken", "woken"]

    def test_it_listens_once_the_zone_has_said_what_it_is_called(self, zone: Zone) -> None:
        agent = Agent(Direct(zone), FakeDriver(DriverSettings(), zone.clock), zone.clock, [], Rhythm())
        opened: list[str] = []

        def opening(name: str) -> NoBroker:
            opened.append(name)
            return NoBroker()

        hearing = AgentSubscriber(agent, opening, lambda: None)
        before = hearing.step()
        agent.step()
        hearing.step()
        hearing.step()

        assert (before > 0, opened) == (True, ["nova"])


class TestOption:
    @pytest.mark.parametrize(
        "url", ["rabbit://host", "host:5672", "amqp://", "amqp:///vhost", "amqp://secret@host:port/"]
    )
    def test_a_url_of_no_broker_is_refused_by_name_and_not_shown(self, url: str) -> None:
        with pytest.raises(ConfigError) as refused:
            options.load(overrides={"transport_url": url})
        assert refused.value.field == "transport_url"
        assert "Option transport_url" in refused.value.message
        assert "secret" not in refused.value.message

    def test_a_missing_package_is_named_with_the_command_that_installs_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(ConfigError, match=r"transport_url.*extra amqp"):
            options.load(overrides={"transport_url": "amqp://host"})

    def test_an_agent_refuses_it_alike(self, tmp_path: Path) -> None:
        inventory, credentials = tmp_path / "hosts.csv", tmp_path / "agent.credentials"
        inventory.write_text("name,VCPU\nh1,4\n")
        credentials.write_text("[zonesched]\nurl = http://127.0.0.1:1\ntransport_url = http://secret\n")
        arguments = ["--credentials", str(credentials), "--inventory", str(inventory)]

        result = CliRunner().invoke(compute, arguments)

        assert result.exit_code == 2
        assert "--transport-url: the value is not accepted" in result.output
        assert "secret" not in result.output

    @pytest.mark.parametrize(
        ("name", "url"),
        [("transport-url", "amqp://:secret@10.0.0.6//"), ("servicegroup-driver", "redis://:secret@10.0.0.6")],
    )
    def test_an_agent_refuses_one_elsewhere_without_checked_names(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, url: str
    ) -> None:
        (tmp_path / "hosts.csv").write_text("name,VCPU\nh1,4\n")
        arguments = ["--zone-url", "http://127.0.0.1:1", "--inventory", str(tmp_path / "hosts.csv")]
        refused = CliRunner().invoke(compute, [*arguments, f"--{name}", url])
        # An unknown driver ends the agent right after this check.
        allowed = [*arguments, f"--{name}", url, "--allow-unverified-services", "--connection-type", "none"]
        ended = CliRunner().invoke(compute, allowed)

        assert (refused.exit_code, ended.exit_code) == (2, 2)
        assert f"--{name}: a connection to another machine needs TLS" in refused.output
        assert "another machine" not in ended.output
        assert f"--{name} is not protected by TLS" in caplog.text + ended.output
        assert "secret" not in refused.output + ended.output + caplog.text


def test_what_became_of_hints_is_among_the_metrics(zone: Zone, exchange: Exchange) -> None:
    zone.wake.boots()
    zone.notifications.send()
    exchange.is_away = True
    zone.wake.boots()
    zone.notifications.send()
    metrics = ApiMetrics()
    metrics.follow(zone)

    text = metrics.text().decode()

    assert "zonesched_notifications_sent_total 1.0" in text
    assert "zonesched_notifications_dropped_total 1.0" in text
    assert "zonesched_notifications_received_total 0.0" in text
