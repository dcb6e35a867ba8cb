"""Power actions on the servers of one zone: over HTTP, with an agent played by its own calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.builders.boots import FLAVOR
from tests.builders.migrated import ask
from tests.builders.played_agent import PlayedAgent, a_report
from tests.builders.scenes import built_once
from tests.builders.tree import Answer, Node, Tree, a_host
from zonesched.model.caller import Role
from zonesched.model.openstack_time import iso_time
from zonesched.services.audit import audit, repair
from zonesched.services.catalog import users
from zonesched.services.hosts import hosts
from zonesched.store.instance_actions import KEPT_PER_INSTANCE

STOP, START = {"os-stop": None}, {"os-start": None}
SOFT, HARD = {"reboot": {"type": "SOFT"}}, {"reboot": {"type": "HARD"}}


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    node = tree.add("leaf", hosts_=[a_host("h1")])
    node.client().post("/flavors", FLAVOR)
    node.secrets["stranger"] = users.create(
        node.zone.store, node.zone.clock, "stranger", Role.MEMBER, "project-2"
    ).secret
    return tree


@pytest.fixture
def node(tree: Tree) -> Node:
    return tree.nodes["leaf"]


@pytest.fixture
def agent(node: Node) -> PlayedAgent:
    return PlayedAgent(node)


def booted(tree: Tree, agent: PlayedAgent, count: int = 1) -> list[str]:
    """Servers of a member that run; their ids."""
    body = {"server": {"name": "vm", "flavorRef": "small", "num_instances": count}}
    made = agent.node.client("member").post("/zones/boot", body)
    tree.settle()
    agent.converge()
    shown = agent.node.client("member").get(f"/reservations/{made.json['reservation_id']}")
    return [line["uuid"] for line in shown.json["reservation"]["instances"]]


def act(node: Node, uuid: str, body: Any, user: str = "member") -> Answer:
    return node.client(user).post(f"/servers/{uuid}/action", body)


def server(node: Node, uuid: str) -> dict[str, Any]:
    shown: dict[str, Any] = node.client("member").get(f"/servers/{uuid}").json["server"]
    return shown


def states(node: Node, uuid: str) -> tuple[str, str, str | None, int]:
    """Status, vm_state, task_state and power_state of a server."""
    shown = server(node, uuid)
    vm, task, power = (shown[f"OS-EXT-STS:{name}_state"] for name in ("vm", "task", "power"))
    return shown["status"], vm, task, power


def results(node: Node, uuid: str) -> list[tuple[str, str | None, str]]:
    """The actions on a server, oldest first: name, result and code."""
    listed = node.client("member").get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"]
    return [(line["action"], line["result"], line["error_code"]) for line in reversed(listed)]


def code(reply: Answer) -> tuple[int, str]:
    ((fault,),) = [reply.json.values()]
    return reply.status, fault["error_code"]


def creation(node: Node, uuid: str) -> tuple[str, str | None, str | None]:
    """Action, result and end of the first action on a server."""
    line = node.client().get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"][-1]
    return line["action"], line["result"], line["finish_time"]


def test_a_stop_is_accepted_desired_and_reached(tree: Tree, node: Node, agent: PlayedAgent) -> None:
    (uuid,) = booted(tree, agent)
    assert (agent.work()[0]["desired"], states(node, uuid)) == (
        {"generation": 0, "power": "running", "reboots": 0, "reboot_type": "SOFT", "rebuilds": 0},
        ("ACTIVE", "active", None, 1),
    )

    reply = act(node, uuid, STOP)
    accepted = states(node, uuid)
    (line,) = agent.work()
    agent.converge()

    assert (reply.status, reply.body) == (202, b"")
    assert accepted == ("ACTIVE", "active", "powering-off", 1)
    stopped = {"generation": 1, "power": "stopped", "reboots": 0, "reboot_type": "SOFT", "rebuilds": 0}
    assert line["desired"] == stopped
    assert states(node, uuid) == ("SHUTOFF", "stopped", None, 4)
    assert results(node, uuid) == [("create", "done", ""), ("stop", "done", "")]


@pytest.mark.parametrize(
    ("body", "task", "reached", "back"),
    [
        (STOP, "powering-off", ("SHUTOFF", "stopped", None, 4), START),
        ({"pause": None}, "pausing", ("PAUSED", "paused", None, 3), {"unpause": None}),
        ({"suspend": None}, "suspending", ("SUSPENDED", "suspended", None, 7), {"resume": None}),
        (SOFT, "rebooting", ("ACTIVE", "active", None, 1), HARD),
        # Other spellings that OpenStack Nova takes.
        ({"os-stop": {}}, "powering-off", ("SHUTOFF", "stopped", None, 4), {"os-start": {}}),
        (
            {"reboot": {"type": "Soft"}},
            "rebooting",
            ("ACTIVE", "active", None, 1),
            {"reboot": {"type": "hard"}},
        ),
    ],
)
def test_each_action_and_the_way_back(
    tree: Tree, node: Node, agent: PlayedAgent, body: Any, task: str, reached: Any, back: Any
) -> None:
    (uuid,) = booted(tree, agent)

    assert act(node, uuid, body).status == 202
    assert states(node, uuid)[2] == task
    agent.converge()
    assert states(node, uuid) == reached
    assert act(node, uuid, back).status == 202
    agent.converge()

    assert states(node, uuid) == ("ACTIVE", "active", None, 1)
    assert [line[1:] for line in results(node, uuid)] == [("done", "")] * 3


def test_a_reboot_has_its_own_statuses_and_happens_once(tree: Tree, node: Node, agent: PlayedAgent) -> None:
    (uuid,) = booted(tree, agent)

    act(node, uuid, SOFT)
    soft = states(node, uuid)
    again = act(node, uuid, SOFT)
    act(node, uuid, HARD)
    hard = states(node, uuid)
    agent.converge()
    agent.converge()

    assert (soft[0], soft[2], hard[0], hard[2]) == ("REBOOT", "rebooting", "HARD_REBOOT", "rebooting_hard")
    assert code(again) == (409, "wrong_status")
    assert agent.reboots == {uuid: 1}
    assert results(node, uuid)[1:] == [("reboot", "superseded", ""), ("reboot", "done", "")]


def test_an_action_that_is_refused_below_fails_and_changes_nothing(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    agent.refuses["suspended"] = "suspend_unsupported"
    (uuid,) = booted(tree, agent)

    act(node, uuid, {"suspend": None})
    agent.converge()

    (line,) = agent.work()
    assert (line["desired"]["generation"], line["desired"]["power"]) == (1, "running")
    assert line["observed"] == {"generation": 1, "power": "running", "rebuilds": 0}
    assert states(node, uuid) == ("ACTIVE", "active", None, 1)
    assert results(node, uuid)[-1] == ("suspend", "error", "suspend_unsupported")
    assert act(node, uuid, STOP).status == 202


def test_three_actions_before_the_agent_looks_end_in_order_and_once(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    (uuid,) = booted(tree, agent)

    replies = [act(node, uuid, body).status for body in (STOP, START, STOP)]
    agent.converge()
    ended = results(node, uuid)
    agent.converge()

    assert replies == [202] * 3
    assert ended[1:] == [("stop", "superseded", ""), ("start", "superseded", ""), ("stop", "done", "")]
    assert results(node, uuid) == ended


def test_a_server_that_ends_by_itself_is_shutoff_and_can_be_started(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    (uuid,) = booted(tree, agent)
    (line,) = agent.work()

    agent.report([a_report(line, 0, "stopped", "ended_by_itself")])
    ended = states(node, uuid)
    # A late copy of the report of its build brings nothing back.
    agent.report([a_report(line, 0, "running")])
    still = states(node, uuid)
    started = act(node, uuid, START).status
    agent.converge()

    assert ended == still == ("SHUTOFF", "stopped", None, 4)
    assert (started, states(node, uuid)[0]) == (202, "ACTIVE")
    assert server(node, uuid)["OS-SRV-USG:launched_at"] is not None


@pytest.mark.parametrize(
    ("generation", "power", "attempt"),
    [(0, "running", 1), (1, "paused", 1), (3, "stopped", 1), (2, "running", 2), (2, "running", 0)],
)
def test_old_repeated_and_impossible_reports_change_nothing(
    tree: Tree, node: Node, agent: PlayedAgent, generation: int, power: str, attempt: int
) -> None:
    (uuid,) = booted(tree, agent)
    act(node, uuid, STOP)
    agent.converge()
    act(node, uuid, START)
    (line,) = agent.work()
    before = server(node, uuid)

    for _ in range(2):
        agent.report([a_report(line | {"attempt": attempt}, generation, power)])

    assert server(node, uuid) == before
    assert results(node, uuid)[-1] == ("start", None, "")


def test_one_that_ends_by_itself_later_does_not_change_the_end_of_its_last_action(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    (uuid,) = booted(tree, agent)
    for body in (STOP, START):
        act(node, uuid, body)
        agent.converge()
    done = results(node, uuid)
    (line,) = agent.work()

    agent.report([a_report(line, line["desired"]["generation"], "stopped", "ended_by_itself")])

    assert server(node, uuid)["status"] == "SHUTOFF"
    assert results(node, uuid) == done
    assert done[-1] == ("start", "done", "")


def test_a_repeated_report_is_taken_once(tree: Tree, node: Node, agent: PlayedAgent) -> None:
    (uuid,) = booted(tree, agent)
    act(node, uuid, STOP)
    agent.converge()
    before, times = server(node, uuid), finish_times(node, uuid)

    tree.clock.advance(5)
    agent.report(agent.sent * 2)

    assert server(node, uuid) == before
    assert finish_times(node, uuid) == times


def finish_times(node: Node, uuid: str) -> list[str]:
    listed = node.client("member").get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"]
    return [line["finish_time"] for line in listed]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"),
        ({"os-stop": None, "os-start": None}, "body"),
        ({"evaporate": None}, "evaporate"),
        ({"os-stop": 1}, "os-stop"),
        ({"os-stop": {"now": True}}, "os-stop"),
        ({"pause": ""}, "pause"),
        ({"reboot": None}, "body"),
        ({"reboot": {}}, "reboot.type"),
        ({"reboot": {"type": "WARM"}}, "reboot.type"),
        ({"reboot": {"type": 1}}, "reboot.type"),
        ({"reboot": {"type": "HARD", "force": True}}, "reboot.force"),
        ({"lock": {"locked_reason": 5}}, "lock.locked_reason"),
        ({"lock": {"locked_reason": "x" * 256}}, "lock.locked_reason"),
        ({"unlock": {"by": "me"}}, "unlock"),
    ],
)
def test_a_body_that_is_no_action_is_refused(
    tree: Tree, node: Node, agent: PlayedAgent, body: Any, field: str
) -> None:
    (uuid,) = booted(tree, agent)

    reply = act(node, uuid, body)

    assert (reply.status, reply.json["badRequest"]["field"]) == (400, field)
    assert results(node, uuid) == [("create", "done", "")]


def test_a_value_of_an_action_without_members_is_refused_in_words_of_json(node: Node) -> None:
    reply = act(node, "any", {"shelve": {"availability_zone": "az1"}})

    assert reply.json["badRequest"]["message"] == "shelve: must be null"


def test_what_is_not_there_or_another_projects_is_not_found(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    (uuid, deleted) = booted(tree, agent, 2)
    node.client("member").delete(f"/servers/{deleted}")

    assert code(act(node, deleted, STOP)) == (404, "instance_not_found")
    assert code(act(node, "00000000-0000-4000-8000-00000000dead", STOP)) == (404, "instance_not_found")
    assert code(act(node, uuid, STOP, "stranger")) == (404, "instance_not_found")
    listed = node.client("stranger").get(f"/servers/{uuid}/os-instance-actions")
    assert code(listed) == (404, "instance_not_found")
    assert act(node, uuid, STOP, "reader").status == 403
    assert act(node, uuid, STOP, "admin").status == 202


def test_a_server_that_is_not_built_takes_no_power_action(tree: Tree, node: Node) -> None:
    made = node.client("member").post("/servers", {"server": {"name": "vm", "flavorRef": "small"}})
    uuid = made.json["server"]["id"]

    assert code(act(node, uuid, STOP)) == (409, "not_built")
    assert results(node, uuid) == [("create", None, "")]


def test_a_lock_refuses_members_and_no_admin(tree: Tree, node: Node, agent: PlayedAgent) -> None:
    (uuid,) = booted(tree, agent)

    assert act(node, uuid, {"lock": {"locked_reason": "audit"}}).status == 202
    locked = server(node, uuid)
    refused = act(node, uuid, STOP)
    kept = node.client("member").delete(f"/servers/{uuid}")
    by_admin = act(node, uuid, STOP, "admin").status
    assert act(node, uuid, {"unlock": None}).status == 202

    assert (locked["locked"], locked["locked_reason"]) == (True, "audit")
    assert code(refused) == code(kept) == (409, "server_locked")
    assert by_admin == 202
    assert (server(node, uuid)["locked"], server(node, uuid)["locked_reason"]) == (False, None)
    assert [line[0] for line in results(node, uuid)] == ["create", "lock", "stop", "unlock"]
    assert node.client("member").delete(f"/servers/{uuid}").status == 204


def test_the_lock_of_an_admin_is_removed_by_an_admin_alone(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    (uuid,) = booted(tree, agent)
    act(node, uuid, {"lock": None}, "admin")

    refused = act(node, uuid, {"unlock": None})

    assert code(refused) == (403, "locked_by_admin")
    assert server(node, uuid)["locked"] is True
    assert act(node, uuid, {"unlock": None}, "admin").status == 202


def test_a_member_does_not_replace_the_lock_of_an_admin(tree: Tree, node: Node, agent: PlayedAgent) -> None:
    (uuid,) = booted(tree, agent)
    act(node, uuid, {"lock": {"locked_reason": "audit"}}, "admin")

    refused = act(node, uuid, {"lock": {"locked_reason": "mine"}})

    assert code(refused) == (403, "locked_by_admin")
    assert server(node, uuid)["locked_reason"] == "audit"
    assert code(act(node, uuid, {"unlock": None})) == (403, "locked_by_admin")
    assert code(node.client("member").delete(f"/servers/{uuid}")) == (409, "server_locked")


def test_a_server_changes_when_it_is_locked_and_when_it_is_unlocked(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    (uuid,) = booted(tree, agent)
    member = node.client("member")
    launched_at = server(node, uuid)["OS-SRV-USG:launched_at"]
    for body in ({"lock": None}, {"lock": {"locked_reason": "kept"}}, {"unlock": None}):
        tree.clock.advance(60)
        since = iso_time(tree.clock.now())

        assert act(node, uuid, body).status == 202
        assert act(node, uuid, body).status == 202

        (listed,) = member.get(f"/servers/detail?changes-since={since}").json["servers"]
        assert (listed["updated"], listed["OS-SRV-USG:launched_at"]) == (since, launched_at)
        tree.clock.advance(60)
        act(node, uuid, body)
        assert server(node, uuid)["updated"] == since


def test_an_own_lock_and_an_admins_may_be_replaced_by_an_admin(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    (uuid,) = booted(tree, agent)
    act(node, uuid, {"lock": {"locked_reason": "mine"}})

    replaced = act(node, uuid, {"lock": {"locked_reason": "mine too"}}).status
    by_admin = act(node, uuid, {"lock": {"locked_reason": "audit"}}, "admin").status
    again = act(node, uuid, {"lock": {"locked_reason": "audit 2"}}, "admin").status

    assert (replaced, by_admin, again) == (202, 202, 202)
    assert server(node, uuid)["locked_reason"] == "audit 2"
    assert code(act(node, uuid, {"unlock": None})) == (403, "locked_by_admin")


def test_an_action_is_shown_by_its_request_with_its_event(tree: Tree, node: Node, agent: PlayedAgent) -> None:
    (uuid,) = booted(tree, agent)
    reply = act(node, uuid, STOP)
    request_id = reply.headers["x-openstack-request-id"]
    tree.clock.advance(3)
    agent.converge()

    path = f"/servers/{uuid}/os-instance-actions"
    shown = node.client("member").get(f"{path}/{request_id}").json["instanceAction"]
    created = node.client("member").get(path).json["instanceActions"][-1]

    assert (shown["action"], shown["instance_uuid"], shown["message"]) == ("stop", uuid, None)
    assert shown["start_time"] < shown["finish_time"]
    (event,) = shown["events"]
    assert (event["event"], event["result"]) == ("compute_stop_instance", "Success")
    assert node.client("member").get(f"{path}/{created['request_id']}").status == 200
    assert code(node.client("member").get(f"{path}/req-none")) == (404, "action_not_found")


def test_a_deleted_server_ends_its_actions_and_lists_them(tree: Tree, node: Node, agent: PlayedAgent) -> None:
    (uuid,) = booted(tree, agent)
    act(node, uuid, STOP)

    node.client("member").delete(f"/servers/{uuid}")

    assert results(node, uuid) == [
        ("create", "done", ""),
        ("stop", "error", "server_deleted"),
        ("delete", "done", ""),
    ]
    assert audit.run(node.zone) == []


def test_a_server_that_is_lost_ends_its_actions(tree: Tree, node: Node, agent: PlayedAgent) -> None:
    (uuid,) = booted(tree, agent)
    act(node, uuid, STOP)
    (line,) = agent.work()

    agent.report([{"uuid": line["uuid"], "attempt": line["attempt"], "state": "gone", "reason": ""}])

    assert states(node, uuid)[:3] == ("ERROR", "error", None)
    assert results(node, uuid)[-1] == ("stop", "error", "lost_by_host")
    assert code(act(node, uuid, START)) == (409, "has_ended")


def test_a_server_that_ran_and_ended_without_any_action_stays_one_that_was_created(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    lost, deleted = booted(tree, agent, 2)
    before = {
        uuid: (server(node, uuid)["OS-SRV-USG:launched_at"], creation(node, uuid)) for uuid in (lost, deleted)
    }
    tree.clock.advance(60)

    agent.report([{"uuid": lost, "attempt": 1, "state": "gone", "reason": ""}])
    node.client("member").delete(f"/servers/{deleted}")

    listed = node.client().get("/servers/detail?status=ERROR&status=DELETED").json["servers"]
    assert {one["id"]: (one["OS-SRV-USG:launched_at"], creation(node, one["id"])) for one in listed} == before


def test_all_servers_of_a_boot_take_an_action(tree: Tree, node: Node, agent: PlayedAgent) -> None:
    uuids = booted(tree, agent, 4)
    reservation_id = server(node, uuids[0])["reservation_id"]
    act(node, uuids[1], STOP)
    agent.converge()
    node.client("member").delete(f"/servers/{uuids[2]}")
    act(node, uuids[3], {"lock": None})

    reply = node.client("member").post(f"/reservations/{reservation_id}/action", STOP)
    agent.converge()

    assert (reply.status, reply.json["accepted"]) == (202, 1)
    assert {line["uuid"]: line["error_code"] for line in reply.json["refused"]} == {
        uuids[1]: "wrong_status",
        uuids[3]: "server_locked",
    }
    assert [states(node, uuid)[0] for uuid in (uuids[0], uuids[1], uuids[3])] == [
        "SHUTOFF",
        "SHUTOFF",
        "ACTIVE",
    ]
    gone = node.client("stranger").post(f"/reservations/{reservation_id}/action", STOP)
    assert code(gone) == (404, "reservation_not_found")


def test_open_actions_and_ended_ones_are_bounded(tree: Tree, node: Node, agent: PlayedAgent) -> None:
    (uuid,) = booted(tree, agent)
    replies = [act(node, uuid, HARD) for _ in range(21)]
    agent.converge()
    for _ in range(KEPT_PER_INSTANCE + 5):
        act(node, uuid, {"lock": None})

    assert [reply.status for reply in replies] == [202] * 20 + [409]
    assert code(replies[-1]) == (409, "too_many_open_actions")
    assert agent.reboots == {uuid: 1}
    assert len(results(node, uuid)) <= KEPT_PER_INSTANCE + 1


def test_a_stopped_server_keeps_its_claim(tree: Tree, node: Node, agent: PlayedAgent) -> None:
    (uuid,) = booted(tree, agent)
    before = [(view.resources["VCPU"].used) for view in hosts.list_hypervisors(node.zone)]

    act(node, uuid, STOP)
    agent.converge()

    assert [(view.resources["VCPU"].used) for view in hosts.list_hypervisors(node.zone)] == before == [2]


@pytest.mark.own_statements
@pytest.mark.parametrize(
    ("spoil", "ended"),
    [
        ("UPDATE instances SET status = 'ERROR', reason = 'ended_on_host'", ("error", "ended_on_host")),
        ("UPDATE instances SET status = 'DELETED'", ("error", "server_deleted")),
        ("UPDATE instance_states SET observed_generation = 1, observed_power = 'stopped'", ("done", "")),
    ],
)
def test_an_action_that_is_over_and_open_is_found_and_ended(
    tree: Tree, node: Node, agent: PlayedAgent, spoil: str, ended: tuple[str, str]
) -> None:
    (uuid,) = booted(tree, agent)
    act(node, uuid, STOP)
    before = [one.kind for one in audit.run(node.zone)]

    node.zone.store.write(lambda tx: tx.execute(sa.text(spoil)))
    found = [one.kind for one in audit.run(node.zone) if one.kind == "action_open"]
    repair.run(node.zone)

    assert (before, found) == ([], ["action_open"])
    assert results(node, uuid)[-1] == ("stop", *ended)
    assert audit.run(node.zone) == []


def test_a_server_that_ran_and_ended_by_its_drivers_word_is_not_said_to_be_unbuilt(
    tree: Tree, node: Node, agent: PlayedAgent
) -> None:
    (uuid,) = booted(tree, agent)

    ended = {"uuid": uuid, "attempt": 1, "state": "error", "reason": "process_lost"}
    node.client("compute").post("/hosts/reports", {"service": "agent", "reports": [ended]})

    fault = server(node, uuid)["fault"]
    assert (fault["error_code"], fault["message"]) == (
        "process_lost",
        "The instance ran and ended by itself on its host.",
    )


def test_servers_are_listed_by_the_status_they_show(tree: Tree, node: Node, agent: PlayedAgent) -> None:
    running, stopped, rebooting = booted(tree, agent, 3)
    act(node, stopped, STOP)
    agent.converge()
    act(node, rebooting, SOFT)

    found = {
        status: {one["id"] for one in node.client("member").get(f"/servers?status={status}").json["servers"]}
        for status in ("ACTIVE", "SHUTOFF", "REBOOT", "PAUSED")
    }

    assert found == {"ACTIVE": {running}, "SHUTOFF": {stopped}, "REBOOT": {rebooting}, "PAUSED": set()}


def test_a_boot_and_its_end_write_no_state(
    tree: Tree, node: Node, agent: PlayedAgent, tmp_path: Path
) -> None:
    booted(tree, agent, 3)

    for table in ("instance_states", "instance_actions", "instance_locks"):
        assert ask(tmp_path / "leaf.sqlite", f"SELECT * FROM {table}") == []
