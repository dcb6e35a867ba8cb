"""Signs of life are gathered and written in few statements; nobody dies of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.builders.clock import clock_of
from tests.builders.one_zone import AGENT, a_form, a_zone, add_hosts, beat, sql
from tests.builders.tree import Tree
from zonesched.errors import BadRequest
from zonesched.model.views import Binary, ServiceChange
from zonesched.services.hosts import hosts, services
from zonesched.services.zone import Zone
from zonesched.store import prepared


@pytest.fixture
def zone(tmp_path: Path) -> Zone:
    return a_zone(tmp_path, service_down_time=60.0, host="node1", bind_port=8774)


def rows(zone: Zone) -> dict[str, Any]:
    return {row.name: row for row in sql(zone, "select * from services")}


def is_up(zone: Zone, name: str = "agent") -> bool:
    (found,) = services.list_services(zone, name, Binary.AGENT.value)
    return found.is_up


def test_the_beats_of_a_thousand_agents_are_two_updates(zone: Zone, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"agent-{n}" for n in range(1000)]
    for name in names:
        add_hosts(zone, service=name)
    updates: list[str] = []
    run = prepared._on_cursor

    def seen_running(tx: Any, how: str, text: str, parameters: Any) -> Any:
        if text.startswith("UPDATE"):
            updates.append(text)
        return run(tx, how, text, parameters)

    monkeypatch.setattr(prepared, "_on_cursor", seen_running)
    clock_of(zone).advance(50)
    for name in names:
        hosts.beat(zone, AGENT, name)
    zone.heartbeats.write()
    clock_of(zone).advance(50)

    assert len(updates) == 2
    assert all(view.is_up for view in services.list_services(zone))


@pytest.mark.parametrize(
    "call",
    [
        lambda zone: hosts.desired(zone.store, zone.heartbeats, AGENT, "agent"),
        lambda zone: hosts.report(zone, AGENT, "agent", []),
    ],
)
def test_whatever_an_agent_calls_for_it_lives(zone: Zone, call: Callable[[Zone], object]) -> None:
    add_hosts(zone, a_form("h1"))
    clock_of(zone).advance(50)

    call(zone)
    zone.heartbeats.write()
    clock_of(zone).advance(50)

    assert is_up(zone)


def test_an_agent_that_keeps_calling_is_written_down_now_and_then_and_stays_up(zone: Zone) -> None:
    add_hosts(zone, a_form("h1"))
    for _ in range(600):
        beat(zone)
        clock_of(zone).advance(1)
        assert is_up(zone)

    assert rows(zone)["agent"].report_count == 60


def test_a_clock_that_was_set_back_keeps_no_beat_from_being_written(zone: Zone) -> None:
    add_hosts(zone, a_form("h1"))
    beat(zone)
    zone.clock.set_to(zone.clock.now() - 3600)  # type: ignore[attr-defined]

    beat(zone)

    assert is_up(zone)


def test_a_beat_that_could_not_be_written_is_made_up_for_by_the_next(zone: Zone) -> None:
    add_hosts(zone, a_form("h1"))
    clock_of(zone).advance(61)
    hosts.beat(zone, AGENT, "agent")
    sql(zone, "alter table services rename to away")
    with pytest.raises(sa.exc.DBAPIError):
        zone.heartbeats.write()
    sql(zone, "alter table away rename to services")
    assert not is_up(zone)

    beat(zone)

    assert is_up(zone)


def test_a_service_that_was_removed_is_not_made_again_by_its_last_beat(zone: Zone) -> None:
    add_hosts(zone)
    hosts.beat(zone, AGENT, "agent")
    (found,) = services.list_services(zone)
    services.remove(zone, found.id)

    zone.heartbeats.write()

    assert rows(zone) == {}


class TestOwnProcess:
    def test_it_registers_itself_and_is_down_when_it_falls_silent(self, zone: Zone) -> None:
        add_hosts(zone, a_form("h1"))

        pause_s = services.beat_own(zone)
        clock_of(zone).advance(pause_s)
        services.beat_own(zone)

        row = rows(zone)["node1:8774"]
        assert (row.binary, row.topic, row.report_count) == ("nova-scheduler", "scheduler", 2)
        process, agent, host = services.list_services(zone)
        assert (process.binary, process.host, process.is_up) == (Binary.SCHEDULER, "node1:8774", True)
        assert (agent.binary, host.binary) == (Binary.AGENT, Binary.HOST)
        clock_of(zone).advance(61)
        assert [view.is_up for view in services.list_services(zone, binary="nova-scheduler")] == [False]

    @pytest.mark.parametrize("change", [ServiceChange(is_enabled=False), ServiceChange(forced_down=True)])
    def test_it_is_neither_disabled_nor_forced_down(self, zone: Zone, change: ServiceChange) -> None:
        services.beat_own(zone)
        (found,) = services.list_services(zone)

        with pytest.raises(BadRequest) as refused:
            services.change(zone, found.id, change)

        assert refused.value.code == "service_has_no_status"
        assert services.list_services(zone) == [found]

    def test_one_that_is_no_more_can_be_removed_and_one_that_lives_comes_again(self, zone: Zone) -> None:
        services.beat_own(zone)
        (found,) = services.list_services(zone)

        services.remove(zone, found.id)
        gone = services.list_services(zone)
        services.beat_own(zone)

        assert gone == []
        assert [view.host for view in services.list_services(zone)] == ["node1:8774"]

    def test_the_name_of_an_agent_is_left_to_it(self, zone: Zone, caplog: pytest.LogCaptureFixture) -> None:
        add_hosts(zone, service="node1:8774")

        services.beat_own(zone)

        assert rows(zone)["node1:8774"].binary == "zonesched-compute"
        assert "An agent has the name node1:8774" in caplog.text

    def test_it_is_listed_in_openstacks_shape(self, tmp_path: Path) -> None:
        node = Tree(tmp_path).add("z", host="node1", bind_port=8774)
        services.beat_own(node.zone)

        (found,) = node.client().get("/os-services?binary=nova-scheduler").json["services"]

        del found["id"], found["updated_at"]
        assert found == {
            "binary": "nova-scheduler",
            "host": "node1:8774",
            "zone": "internal",
            "status": "enabled",
            "disabled_reason": None,
            "state": "up",
            "forced_down": False,
            "topic": "scheduler",
            "report_count": 1,
        }
