"""An agent whose reports are refused for a while, by its zone or by a proxy before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.real_agent import RealAgent, a_machine
from tests.builders.stub_zone import running_stub
from tests.builders.tree import Tree
from tests.builders.wsgi_transport import Refuse
from zonesched.compute import fake
from zonesched.compute.client import AgentClient
from zonesched.compute.connection import ZoneConnection, ZoneUnavailable
from zonesched.compute.driver import DriverSettings


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409])
def test_a_report_that_was_refused_for_a_while_is_sent_again(tmp_path: Path, status: int) -> None:
    # given a server that is asked to stop
    tree = Tree(tmp_path)
    node = tree.add("zone")
    agent = RealAgent(tree, "zone", [a_machine("h1")])
    node.client().post("/flavors", FLAVOR)
    body = {"server": {"name": "vm", "flavorRef": "small"}}
    uuid = node.client("member").post("/servers", body).json["server"]["id"]
    tree.settle()
    agent.work()
    assert node.client("member").post(f"/servers/{uuid}/action", {"os-stop": None}).status == 202
    # when the report of that is refused once
    fault = Refuse(times=1, method="POST", path="/hosts/reports", status=status)
    tree.network.fault(node.url, fault)
    agent.work()
    assert fault.times == 0
    # then it arrives all the same
    shown = node.client("member").get(f"/servers/{uuid}").json["server"]
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("SHUTOFF", None)


def test_an_agent_of_a_zone_that_is_older_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # given an agent with a call that its zone does not know yet
    tree = Tree(tmp_path)
    tree.add("zone")
    agent = RealAgent(tree, "zone", [a_machine("h1")])
    monkeypatch.setattr(AgentClient, "fetch", lambda client: client._call("GET", "/hosts/of-a-later-version"))
    # when it calls
    agent.work()
    # then its log says what to do
    assert "The zone is older than its agent: upgrade it first; retrying" in caplog.text


def test_an_agent_whose_zone_is_older_says_which_part_of_an_answer_it_lacks() -> None:
    # given a zone of a version whose instances had no desired state
    with running_stub() as older:
        flavor = {"id": "f1"}
        item = {"uuid": "a-1", "attempt": 1, "host": "h", "name": "vm", "flavor": flavor, "image": {}}
        older.answer("GET", "/hosts/instances", (200, {"instances": [item], "releasing": []}))
        client = AgentClient(ZoneConnection(older.url, "", ""), "agent")
        # when an agent asks for them, then it hears what to do
        with pytest.raises(
            ZoneUnavailable, match=r"instances has no 'desired': if the zone is older than its agent, upgrade"
        ):
            client.fetch()


def test_a_drivers_reason_that_is_no_code_arrives_as_a_general_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a driver that says in words why it cannot stop a server
    monkeypatch.setattr(fake, "ACTION_FAILED", "The guest does not answer.")
    tree = Tree(tmp_path)
    node = tree.add("zone")
    agent = RealAgent(tree, "zone", [a_machine("h1")])
    agent.driver._settings = DriverSettings(action_failure_rate=1.0)
    node.client().post("/flavors", FLAVOR)
    body = {"server": {"name": "vm", "flavorRef": "small"}}
    uuid = node.client("member").post("/servers", body).json["server"]["id"]
    tree.settle()
    agent.work()
    # when the server is to stop
    node.client("member").post(f"/servers/{uuid}/action", {"os-stop": None})
    agent.work()
    # then that has ended, and failed
    shown = node.client("member").get(f"/servers/{uuid}").json["server"]
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    [last, *_] = node.client().get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"]
    path = f"/servers/{uuid}/os-instance-actions/{last['request_id']}"
    assert "driver" in str(node.client().get(path).json["instanceAction"]["message"])
