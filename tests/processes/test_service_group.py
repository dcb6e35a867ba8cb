"""Liveness through a service group, also while the group is unavailable."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.builders.clock import FakeClock
from tests.builders.inline_executor import InlineExecutor
from tests.builders.migrated import a_database
from tests.builders.one_zone import AGENT, KEY, a_form, add_hosts
from tests.builders.private_servers import Server, redis
from tests.builders.real_processes import eventually
from zonesched import conf as options
from zonesched.broker.contract import COMPUTE, key_of
from zonesched.compute.agent import Agent, Rhythm
from zonesched.compute.client import ZoneIdentity
from zonesched.compute.connection import ZoneUnavailable
from zonesched.compute.driver import DriverSettings
from zonesched.compute.fake import FakeDriver
from zonesched.compute.inventory import InventoryHost
from zonesched.compute.machine import Fetched, Report
from zonesched.compute.membership import Membership as Member
from zonesched.compute.restored_zone import Running
from zonesched.errors import ConfigError
from zonesched.seams import SystemClock, ThreadExecutor
from zonesched.service_group.contract import GroupUnavailable, ServiceGroup
from zonesched.service_group.opening import open_group
from zonesched.service_group.tooz_group import IO_TIMEOUT_S
from zonesched.services import background
from zonesched.services.hosts import hosts, services
from zonesched.services.hosts.membership import Membership
from zonesched.services.zone import Zone

pytestmark = pytest.mark.once

MEMBER = key_of(COMPUTE, "agent")


class FakeGroup:
    """A group in memory that keeps `ServiceGroup`; while `is_away`, nobody reaches it and it forgets all.

    `lives_s`: how long a silent member stays one; infinite as in ZooKeeper, which knows its connection alone.
    """

    is_there = True

    def __init__(self, clock: FakeClock, lives_s: float = 30.0) -> None:
        self.is_away = False
        self.beats = 0
        self._clock = clock
        self._lives_s = lives_s
        self._heard_at: dict[str, float] = {}

    def beat(self, fence_after_s: float = math.inf) -> None:
        self._reach()
        self.beats += 1
        self._heard_at[MEMBER] = self._clock.monotonic()

    def members(self) -> frozenset[str]:
        self._reach()
        now = self._clock.monotonic()
        return frozenset(name for name, at in self._heard_at.items() if now - at < self._lives_s)

    def close(self) -> None:
        self._heard_at.pop(MEMBER, None)

    def _reach(self) -> None:
        if self.is_away:
            self._heard_at.clear()
            raise GroupUnavailable("gone")


class Direct:
    """An agent's zone without HTTP between; it counts beats."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self.beats = 0
        self.is_away = False

    def register(self, found: Sequence[InventoryHost], fence_after_s: float = math.inf) -> ZoneIdentity:
        add_hosts(self._zone, *(a_form(host.name) for host in found))
        return ZoneIdentity("nova", self._zone.uuid)

    def beat(self, fence_after_s: float = math.inf) -> None:
        if self.is_away:
            raise ZoneUnavailable("gone")
        self.beats += 1
        hosts.beat(self._zone, AGENT, "agent")

    def fetch(self) -> Fetched:
        return Fetched(())

    def tell(self, running: Sequence[Running]) -> None:
        raise AssertionError("the zone was not restored")

    def bring_console(self, ask_id: str, output: str | None) -> None:
        raise AssertionError("no console is asked for")

    def report(self, reports: Sequence[Report]) -> None:
        raise AssertionError("there is nothing to report")


class World:
    """A zone, one agent whose looks are far apart, and their group; time goes by in steps of a second."""

    def __init__(self, folder: Path, fence_after_s: float = math.inf, lives_s: float = 30.0) -> None:
        self.clock = FakeClock()
        self.group = FakeGroup(self.clock, lives_s)
        own = {"database_url": a_database(folder / "zone.sqlite"), "state_path": str(folder)}
        conf = options.load(overrides={**own, "build_plan_encryption_key": [KEY], "service_down_time": 60.0})
        self.zone = Zone.open(conf, clock=self.clock, executor=InlineExecutor(), group=self.group)
        self.direct = Direct(self.zone)
        driver = FakeDriver(DriverSettings(), self.clock)
        rhythm = Rhythm(heartbeat_s=10.0, poll_s=1e6, fence_after_s=fence_after_s)
        self.agent = Agent(self.direct, driver, self.clock, [InventoryHost("h1")], rhythm)
        self.member = Member(self.agent, lambda uuid: self.group, 10.0)
        self.membership = Membership(self.zone)

    def run(self, seconds: int, *, agent: bool = True, is_stuck: bool = False) -> list[bool]:
        """State of the host, up or down, each second, with an agent or without, or one that hangs."""
        seen = []
        for second in range(seconds):
            if agent:
                if not is_stuck:
                    self.agent.step()
                if second % 5 == 0:
                    self.member.step()
            self.membership.step()
            self.zone.heartbeats.write()
            seen.append(self.is_up())
            self.clock.advance(1.0)
        return seen

    def is_up(self) -> bool:
        (host,) = services.list_services(self.zone, "h1")
        return host.is_up


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_an_agent_that_is_a_member_lives_without_calling_the_zone(world: World) -> None:
    assert all(world.run(200))
    assert world.direct.beats == 0
    assert world.group.beats == 40


def test_while_the_group_is_away_nobody_is_marked_down_and_agents_call_the_zone(world: World) -> None:
    world.run(20)
    world.group.is_away = True
    away = world.run(300)
    beats = world.direct.beats
    world.group.is_away = False
    back = world.run(100)

    assert all(away + back)
    assert beats >= 29
    assert world.direct.beats == beats


def test_a_member_that_dies_is_down_in_its_time_whether_the_group_is_there_or_not(tmp_path: Path) -> None:
    for is_away in (False, True):
        world = World(tmp_path / str(is_away))
        world.run(20)
        world.group.is_away = is_away

        seen = world.run(120, agent=False)

        # The group takes it for a member 30 s more, the zone 60 s from when it last heard of it.
        assert 40 <= seen.index(False) <= 100
        assert not any(seen[seen.index(False) :])


@pytest.mark.parametrize("lives_s", [30.0, math.inf], ids=["by_beats", "by_connection"])
def test_a_member_that_has_fenced_its_hosts_is_down_until_its_zone_answers_again(
    tmp_path: Path, lives_s: float
) -> None:
    # given an agent that fences, and that reaches the group and not its zone
    world = World(tmp_path, fence_after_s=30.0, lives_s=lives_s)
    assert world.run(10)[-1]
    world.direct.is_away = True
    # when its instances have ended
    seen = world.run(30 + 30 + 60 + 10)
    # then its hosts are down, and up again once the zone answers
    assert (seen[29], seen[-1]) == (True, False)
    world.direct.is_away = False
    assert world.run(30)[-1]


@pytest.mark.parametrize("lives_s", [30.0, math.inf], ids=["by_beats", "by_connection"])
def test_a_member_whose_agent_hangs_is_down_until_it_goes_on(
    tmp_path: Path, lives_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, lives_s=lives_s)
    assert world.run(20)[-1]

    seen = world.run(60 + 30 + 60 + 10, is_stuck=True)

    assert (seen[59], seen[-1]) == (True, False)
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    assert world.run(30)[-1]


def test_a_member_that_was_refused_keeps_no_service_up(tmp_path: Path) -> None:
    world = World(tmp_path, lives_s=math.inf)
    world.run(10)
    assert MEMBER in world.group.members()

    world.agent.zone = ZoneIdentity()
    world.member.step()

    assert MEMBER not in world.group.members()


def test_the_hosts_of_a_dead_member_take_no_instance(world: World) -> None:
    world.run(20)
    world.run(120, agent=False)
    with world.zone.hosts.current() as table:
        assert not table.up.any()


def test_a_member_that_this_zone_does_not_know_makes_nobody_live(world: World) -> None:
    world.run(20)
    world.group._heard_at = {key_of(COMPUTE, "stranger"): 1e9}
    world.run(70, agent=False)
    assert not world.is_up()


def test_the_group_is_looked_at_only_where_there_is_one(world: World, tmp_path: Path) -> None:
    executor = InlineExecutor()
    world.zone.executor = executor
    background.start(world.zone)
    assert "membership" in {loop.name for loop in executor.loops}


class TestOption:
    @pytest.mark.parametrize(
        "driver", ["dbx", "redis", "redis://", "mysql://secret@host", "redis://secret@h:x"]
    )
    def test_what_is_no_group_is_refused_by_name_and_not_shown(self, driver: str) -> None:
        with pytest.raises(ConfigError) as refused:
            options.load(overrides={"servicegroup_driver": driver})
        assert refused.value.field == "servicegroup_driver"
        assert "Option servicegroup_driver" in refused.value.message
        assert "secret" not in refused.value.message

    def test_a_missing_package_is_named_with_the_command_that_installs_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(ConfigError, match=r"servicegroup_driver.*extra coordination"):
            options.load(overrides={"servicegroup_driver": "redis://host"})


def seconds_until_refused(group: ServiceGroup) -> float:
    started_at = time.monotonic()
    with pytest.raises(GroupUnavailable):
        group.beat()
    return time.monotonic() - started_at


@pytest.mark.parametrize("scheme", ["redis", "memcached", "etcd3+http", "zookeeper"])
def test_a_group_of_each_kind_that_is_not_there_is_told_by_its_connection_alone(
    scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        closing(open_group(f"{scheme}://127.0.0.1:1", "zone-1", MEMBER, 30.0)) as group,
        pytest.raises(GroupUnavailable, match=r"refused|Failed to establish|Connection time-out"),
    ):
        group.beat()
    assert [line.getMessage() for line in caplog.records if line.levelno >= logging.WARNING] == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with redis(tmp_path_factory.mktemp("group") / "redis") as server:
        yield server


@pytest.mark.slow
class TestRedis:
    def test_a_member_is_one_until_it_falls_silent_or_leaves(self, server: Server) -> None:
        url = f"redis://127.0.0.1:{server.port}"
        zone = open_group(url, "zone-1", "", 1.0)
        other = open_group(url, "zone-2", "", 1.0)
        one, two = (open_group(url, "zone-1", key_of(COMPUTE, name), 1.0) for name in ("one", "two"))
        with closing(zone), closing(other), closing(one), closing(two):
            assert zone.members() == frozenset()
            one.beat()
            two.beat()
            assert zone.members() == {"compute.one", "compute.two"}
            assert other.members() == frozenset()
            two.close()
            one.beat()
            assert zone.members() == {"compute.one"}
            eventually("the silent one is out", lambda: not zone.members(), timeout_s=5)
            one.beat()
            assert zone.members() == {"compute.one"}

    def test_a_member_of_another_zone_with_the_same_name_keeps_no_silent_one_in(self, server: Server) -> None:
        url = f"redis://127.0.0.1:{server.port}"
        zone = open_group(url, "zone-5", "", 1.0)
        silent, other = (open_group(url, name, MEMBER, 1.0) for name in ("zone-5", "zone-6"))
        with closing(zone), closing(silent), closing(other):
            silent.beat()
            assert zone.members() == {MEMBER}

            def is_out() -> bool:
                other.beat()
                return not zone.members()

            eventually("the silent one is out", is_out, timeout_s=5)

    def test_one_that_lost_everything_has_its_members_again_when_they_beat(self, server: Server) -> None:
        url = f"redis://127.0.0.1:{server.port}"
        zone, agent = open_group(url, "zone-3", "", 60.0), open_group(url, "zone-3", MEMBER, 60.0)
        with closing(zone), closing(agent):
            agent.beat()
            server.kill()
            server.start()

            assert zone.members() == frozenset()
            agent.beat()
            assert zone.members() == {MEMBER}

    def test_its_failures_are_told_soon_and_leave_no_thread(self, tmp_path: Path) -> None:
        with redis(tmp_path / "redis") as own:
            group = open_group(f"redis://127.0.0.1:{own.port}", "zone-4", MEMBER, 60.0)
            group.beat()
            before = set(threading.enumerate())

            own.hang()
            assert seconds_until_refused(group) < 6 * IO_TIMEOUT_S
            own.go_on()
            group.beat()
            own.kill()
            assert seconds_until_refused(group) < 2 * IO_TIMEOUT_S
            assert seconds_until_refused(group) < 2 * IO_TIMEOUT_S

            assert set(threading.enumerate()) <= before

    def test_hosts_stay_up_while_it_is_killed_and_started_again(self, server: Server, tmp_path: Path) -> None:
        url = f"redis://127.0.0.1:{server.port}"
        own = {"database_url": a_database(tmp_path / "zone.sqlite"), "state_path": str(tmp_path)}
        conf = options.load(overrides={**own, "servicegroup_driver": url, "service_down_time": 5.0})
        zone, clock, threads = Zone.open(conf), SystemClock(), ThreadExecutor()
        direct, driver = Direct(zone), FakeDriver(DriverSettings(), clock)
        rhythm = Rhythm(heartbeat_s=0.5, poll_s=1e6)
        agent = Agent(direct, driver, clock, [InventoryHost("h1")], rhythm)
        member = Member(agent, lambda uuid: open_group(url, uuid, MEMBER, 1.5), 0.5)
        looking = open_group(url, zone.uuid, "", 1.5)
        downs: list[str] = []

        def watch() -> float:
            downs.extend(view.host for view in services.list_services(zone, "h1") if not view.is_up)
            return 0.1

        try:
            background.start(zone)
            threads.start_loop("agent", agent.step)
            threads.start_loop("member", member.step)
            eventually("the agent is a member", lambda: MEMBER in looking.members())
            threads.start_loop("watch", watch)
            by_group = direct.beats

            server.kill()
            eventually("it calls the zone itself", lambda: direct.beats > by_group + 12, timeout_s=30)
            server.start()
            eventually("it is a member again", lambda: MEMBER in looking.members(), timeout_s=30)
            assert downs == []
        finally:
            threads.stop()
            member.close()
            looking.close()
            zone.stop()
