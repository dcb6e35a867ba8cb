"""Events of servers: what a zone with a broker tells other programs, and that nothing hangs on it."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.builders.clock import FakeClock
from tests.builders.fake_broker import Exchange, FakeBroker
from tests.builders.inline_executor import InlineExecutor
from tests.builders.migrated import a_database
from tests.builders.one_zone import AGENT, KEY, a_form, add_hosts, boot_on
from tests.builders.stores import open_store
from zonesched import conf as options
from zonesched.broker.contract import Broker, NoBroker
from zonesched.model.action_table import Action
from zonesched.model.agent_instances import AgentReport, AgentState
from zonesched.model.boot_form import BootForm
from zonesched.model.caller import Caller, Role
from zonesched.model.catalog import CatalogFlavor, CatalogImage
from zonesched.model.instance_action import LockServer, ResizeServer, UnlockServer
from zonesched.model.observed_state import Observed, Power
from zonesched.model.placement import InstanceStatus
from zonesched.model.request_spec import Flavor, Image
from zonesched.services import background
from zonesched.services.boot import boot
from zonesched.services.catalog import flavors, images
from zonesched.services.children import draining
from zonesched.services.hosts import hosts
from zonesched.services.moves import mover
from zonesched.services.owners import action_history, actions, reclaims, servers
from zonesched.services.state import instance_events
from zonesched.services.zone import Zone
from zonesched.store import instances
from zonesched.store.store import StoreError

USER = Caller("user-1", "alice", Role.MEMBER, "project-1")
STOPPED, RUNNING = Power.STOPPED, Power.RUNNING


class Scene:
    """A zone with a host, and what its broker was told."""

    def __init__(self, folder: Path, broker: Broker | None = None) -> None:
        self.exchange = Exchange()
        self.clock = FakeClock()
        url = a_database(folder / "zone.sqlite")
        conf = options.load(
            overrides={
                "database_url": url,
                "state_path": str(folder),
                "secret_encryption_key": KEY,
                "build_plan_encryption_key": [KEY],
            }
        )
        self.zone = Zone.open(
            conf,
            clock=self.clock,
            executor=InlineExecutor(),
            store=open_store(url),
            broker=broker or FakeBroker(self.exchange),
        )
        [self.host_id] = add_hosts(self.zone, a_form("h1"))
        flavors.create(self.zone.store, CatalogFlavor(Flavor("f1", "small", 1, 512, 0)))
        images.create(self.zone.store, CatalogImage(Image("i1", "plain", {})))

    def boot(self, count: int = 1) -> tuple[str, ...]:
        form = BootForm(
            name="vm", flavor_ref="small", image_ref="plain", num_instances=count, min_count=count
        )
        uuids = boot.accept(self.zone, USER, form).uuids
        background.poll_children(self.zone)
        while background.work_on_boots(self.zone) == 0.0:
            pass
        return uuids

    def report(
        self, uuid: str, state: AgentState = AgentState.ACTIVE, reason: str = "", **observed: Any
    ) -> None:
        self.clock.advance(1.0)
        seen = Observed(**observed, reason=reason)
        hosts.report(self.zone, AGENT, "agent", [AgentReport(uuid, 1, state, reason, seen)])

    def act(self, uuid: str, action: Any) -> None:
        self.clock.advance(1.0)
        actions.act(self.zone, USER, uuid, action)

    def told(self) -> list[dict[str, Any]]:
        """The events that this process sends now."""
        self.exchange.events.clear()
        self.zone.notifications.send()
        envelopes = [json.loads(one.body) for one in self.exchange.events]
        assert all(one["oslo.version"] == "2.0" for one in envelopes)
        return [json.loads(one["oslo.message"]) for one in envelopes]

    def types(self) -> list[str]:
        return [one["event_type"] for one in self.told()]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_boot_that_ends_well_is_told_once_for_each_server(scene: Scene) -> None:
    uuids = scene.boot(2)
    before = scene.types()
    for uuid in uuids:
        scene.report(uuid)
        scene.report(uuid)

    told = scene.told()

    assert before == []
    assert [one["event_type"] for one in told] == ["instance.create.end"] * 2
    first = told[0]["payload"]["nova_object.data"]
    assert {key: first[key] for key in ("uuid", "display_name", "tenant_id", "user_id", "state")} == {
        "uuid": uuids[0],
        "display_name": "vm-1",
        "tenant_id": "project-1",
        "user_id": "user-1",
        "state": "active",
    }
    assert first["flavor"]["nova_object.data"]["memory_mb"] == 512
    assert (told[0]["priority"], scene.exchange.events[0].key) == ("INFO", "notifications.info")
    assert "h1" not in scene.exchange.events[0].body
    assert len({one["message_id"] for one in told}) == 2


def test_a_build_that_fails_for_good_is_told_as_an_error(scene: Scene) -> None:
    (uuid,) = scene.boot()
    scene.report(uuid, AgentState.ERROR, "build_failed")
    while background.work_on_boots(scene.zone) == 0.0:
        pass
    told = scene.told()

    assert [one["event_type"] for one in told] == ["instance.create.error"]
    assert scene.exchange.events[0].key == "notifications.error"
    assert told[0]["payload"]["nova_object.data"]["fault"]


def test_one_that_ran_and_is_lost_is_not_told_as_a_failed_boot(scene: Scene) -> None:
    (uuid,) = scene.boot()
    scene.report(uuid)
    before = scene.types()

    scene.report(uuid, AgentState.GONE)
    told = scene.told()

    assert before == ["instance.create.end"]
    assert [one["event_type"] for one in told] == ["instance.update"]
    assert told[0]["payload"]["nova_object.data"]["launched_at"] is not None


def test_actions_are_told_when_they_have_ended_and_how(scene: Scene) -> None:
    (uuid,) = scene.boot()
    scene.report(uuid)
    scene.types()

    scene.act(uuid, Action.STOP)
    accepted = scene.types()
    scene.report(uuid, generation=1, power=STOPPED)
    stopped = scene.told()
    scene.act(uuid, Action.START)
    scene.report(uuid, reason="no_power", generation=2, power=STOPPED)

    assert accepted == []
    assert [one["event_type"] for one in stopped] == ["instance.power_off.end"]
    data = stopped[0]["payload"]["nova_object.data"]
    assert (data["power_state"], data["action_initiator_user"], data["fault"]) == ("stopped", "user-1", None)
    assert scene.types() == ["instance.power_on.error"]


@pytest.mark.parametrize(
    ("action", "left", "last", "flavor"),
    [
        (Action.CONFIRM_RESIZE, 1, "instance.resize_confirm.end", "large"),
        (Action.REVERT_RESIZE, 2, "instance.resize_revert.end", "small"),
    ],
)
def test_a_resize_is_told_by_the_names_of_openstack_with_the_flavor_that_the_server_has(
    scene: Scene, action: Action, left: int, last: str, flavor: str
) -> None:
    flavors.create(scene.zone.store, CatalogFlavor(Flavor("f2", "large", 2, 1024, 0)))
    (uuid,) = scene.boot()
    scene.report(uuid)
    scene.act(uuid, ResizeServer("large"))
    mover.work(scene.zone)
    hosts.report(scene.zone, AGENT, "agent", [AgentReport(uuid, 1, AgentState.LEFT, left_for=2)])
    hosts.desired(scene.zone.store, scene.zone.heartbeats, AGENT, "agent")
    hosts.report(scene.zone, AGENT, "agent", [AgentReport(uuid, 2, AgentState.ACTIVE)])
    resized = scene.told()[-1]
    scene.act(uuid, action)
    hosts.report(scene.zone, AGENT, "agent", [AgentReport(uuid, left, AgentState.GONE)])
    ended = scene.told()[-1]

    assert [told["event_type"] for told in (resized, ended)] == ["instance.resize_finish.end", last]
    names = [_flavor(told)["name"] for told in (resized, ended)]
    assert names == ["large", flavor]


def test_each_action_has_a_name_in_the_form_of_openstack() -> None:
    names = {action.recorded_as for action in Action} | draining.DRAINS.keys()

    assert [
        name for name in names if not re.fullmatch("[a-z_]+", instance_events.NAMES.get(name, name))
    ] == []


def _flavor(told: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = told["payload"]["nova_object.data"]["flavor"]["nova_object.data"]
    return found


def test_an_action_that_no_request_asked_for_has_the_id_of_its_list(scene: Scene) -> None:
    (uuid,) = scene.boot()
    scene.report(uuid)
    scene.types()

    # Nothing of a request is here, as in the background work of a zone.
    scene.act(uuid, LockServer("keep"))
    (told,) = scene.told()

    request_id = told["payload"]["nova_object.data"]["request_id"]
    assert action_history.show_action(scene.zone, USER, uuid, request_id).action == "lock"


def test_an_action_that_was_overtaken_is_not_told(scene: Scene) -> None:
    (uuid,) = scene.boot()
    scene.report(uuid)
    scene.types()

    scene.act(uuid, Action.STOP)
    scene.act(uuid, Action.START)
    scene.report(uuid, generation=2, power=RUNNING)

    assert scene.types() == ["instance.power_on.end"]


def test_locks_and_deletes_are_told_at_once(scene: Scene) -> None:
    (uuid,) = scene.boot()
    scene.report(uuid)
    scene.types()

    scene.act(uuid, LockServer("keep"))
    scene.act(uuid, UnlockServer())
    scene.clock.advance(1.0)
    servers.delete(scene.zone, USER, uuid)

    assert scene.types() == ["instance.lock", "instance.unlock", "instance.delete.end"]


def test_a_delete_that_is_taken_back_has_a_name_of_its_own(scene: Scene) -> None:
    scene.zone.conf.set_override("reclaim_instance_interval", 600.0)
    (uuid,) = scene.boot()
    scene.report(uuid)
    scene.told()

    reclaims.delete(scene.zone, USER, uuid)
    scene.report(uuid, generation=1, power=STOPPED)
    scene.act(uuid, Action.RESTORE)
    scene.report(uuid, generation=2, power=RUNNING)
    servers.delete(scene.zone, USER, uuid)

    told = ["instance.soft_delete.end", "instance.restore.end", "instance.delete.end"]
    assert scene.types() == told


def test_what_a_delete_overtakes_is_told_as_an_error(scene: Scene) -> None:
    (uuid,) = scene.boot()
    scene.report(uuid)
    scene.types()

    scene.act(uuid, Action.STOP)
    scene.clock.advance(1.0)
    servers.delete(scene.zone, USER, uuid)

    assert Counter(scene.types()) == {"instance.power_off.error": 1, "instance.delete.end": 1}


def test_a_parents_server_has_no_events_here(scene: Scene) -> None:
    (host_id,) = add_hosts(scene.zone, a_form("h2"))
    uuids = [boot_on(scene.zone, host_id, caller_id=owner) for owner in ("parent-1", "")]
    now = scene.zone.clock.now()
    scene.zone.store.write(lambda tx: instances.set_status(tx, 1, uuids, InstanceStatus.ACTIVE, now))

    told = [one["payload"]["nova_object.data"]["uuid"] for one in scene.told()]

    assert told == [uuids[1]]


def test_a_transaction_that_is_rolled_back_tells_nothing(scene: Scene) -> None:
    (uuid,) = scene.boot()

    with pytest.raises(RuntimeError):
        scene.zone.store.write(lambda tx: _active_and_fail(scene.zone, tx, uuid))

    assert scene.types() == []


def test_without_its_broker_events_are_dropped_and_counted(scene: Scene) -> None:
    uuids = scene.boot(3)
    scene.types()
    scene.exchange.is_away = True
    for uuid in uuids:
        scene.report(uuid)
    before = scene.zone.notifications.dropped

    away = scene.types()
    scene.exchange.is_away = False

    assert (away, scene.types()) == ([], [])
    assert scene.zone.notifications.dropped - before == 3


@pytest.mark.parametrize("unread", ["hosts", "instances"])
def test_events_wait_for_a_database_that_is_away_for_a_while(scene: Scene, unread: str) -> None:
    uuids = scene.boot(2)
    scene.types()
    for uuid in uuids:
        scene.report(uuid)
    scene.zone.notifications.agents([scene.host_id])
    scene.zone.notifications.boots()
    scene.exchange.sent.clear()

    scene.zone.store.write(lambda tx: tx.exec_driver_sql(f"ALTER TABLE {unread} RENAME TO gone"))
    with pytest.raises(StoreError):
        scene.zone.notifications.send()
    # What empties the database after the test needs all its tables.
    scene.zone.store.write(lambda tx: tx.exec_driver_sql(f"ALTER TABLE gone RENAME TO {unread}"))

    assert scene.types() == ["instance.create.end"] * 2
    assert sorted(one.kind.value for one in scene.exchange.sent) == ["boots", "work"]


def test_a_boot_makes_the_same_statements_with_and_without_a_broker(tmp_path: Path) -> None:
    counts: list[Counter[str]] = []
    for name, broker in (("with", None), ("without", NoBroker())):
        (tmp_path / name).mkdir()
        scene = Scene(tmp_path / name, broker)
        if scene.zone.store.engine.dialect.name != "sqlite":
            pytest.skip("SQLite tells each of its statements")
        said: Counter[str] = Counter()
        _listen(scene.zone, said)
        (uuid,) = scene.boot()
        scene.report(uuid)
        scene.act(uuid, Action.STOP)
        scene.report(uuid, generation=1, power=STOPPED)
        counts.append(said)

    assert counts[0] == counts[1]
    assert counts[0].total() > 20


def _listen(zone: Zone, said: Counter[str]) -> None:
    """Count the statements of SQLite by their first two words."""

    def note(statement: str) -> None:
        said[" ".join(statement.split()[:2])] += 1

    def connected(connection: Any, *_: Any) -> None:
        connection.set_trace_callback(note)

    zone.store.close()
    sa.event.listen(zone.store.engine, "connect", connected)


def _active_and_fail(zone: Zone, tx: Any, uuid: str) -> None:
    instances.set_status(tx, 1, [uuid], InstanceStatus.ACTIVE, zone.clock.now())
    raise RuntimeError
