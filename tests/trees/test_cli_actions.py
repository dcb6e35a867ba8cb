"""Commands that act on instances, against a zone whose agent is played by its own calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.command import TreeCommand
from tests.builders.inline_executor import InlineExecutor
from tests.builders.played_agent import PlayedAgent
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead
from zonesched.model.console import CONSOLE_TRAIT

pytestmark = pytest.mark.once


class Scene:
    """A zone with three servers that run, and the command of its member."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.tree = Tree(folder)
        node = self.tree.add("root", hosts_=[a_host("h1", traits=[CONSOLE_TRAIT])])
        node.client().post("/flavors", FLAVOR)
        self.agent = PlayedAgent(node)
        self.command = TreeCommand(capsys, self.tree, "root", "member")
        assert self.command("zone", "boot", "--flavor", "small", "--name", "web", "-n", "3") == 0
        self.reservation_id = self.command.out.strip()
        self.tree.settle()
        self.agent.converge()

    def work(self) -> None:
        """Do all the work that is due in the zone and its agent."""
        self.tree.settle(1)
        self.agent.converge()

    def statuses(self) -> dict[str, str]:
        assert self.command("server", "list", "-o", "json", "-c", "name", "-c", "status") == 0
        return {line["name"]: line["status"] for line in json.loads(self.command.out)}

    def working(self) -> TreeCommand:
        """The command, with a zone and an agent that work whenever the command pauses."""
        command, connect = self.command, self.command.session

        def session() -> object:
            made = connect()
            made.pause = lambda pause_s: self.work()
            return made

        command.session = session  # type: ignore[method-assign, assignment]
        return command


@pytest.fixture
def scene(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Scene:
    return Scene(tmp_path, capsys)


WAYS = [
    (["stop"], "SHUTOFF", ["start"]),
    (["pause"], "PAUSED", ["unpause"]),
    (["suspend"], "SUSPENDED", ["resume"]),
    (["reboot"], "ACTIVE", ["reboot", "--hard"]),
    (["shelve"], "SHELVED_OFFLOADED", ["unshelve"]),
]


@pytest.mark.parametrize(("there", "status", "back"), WAYS)
def test_each_command_and_the_way_back(scene: Scene, there: list[str], status: str, back: list[str]) -> None:
    command = scene.working()

    assert command("server", *there, "web-1", "web-2", "--wait", "-o", "json", "-c", "result") == 0
    assert json.loads(command.out[command.out.index("[") :]) == [{"result": "done"}] * 2
    assert scene.statuses() == {"web-1": status, "web-2": status, "web-3": "ACTIVE"}
    assert command("server", *back, "web-1", "--wait") == 0

    assert scene.statuses()["web-1"] == "ACTIVE"


def test_a_deleted_server_is_restored_by_name_or_deleted_for_good(scene: Scene) -> None:
    scene.agent.node.zone.conf.set_override("reclaim_instance_interval", 600.0)
    command = scene.working()
    assert command("server", "delete", "web-1", "web-2") == 0
    scene.work()
    assert scene.statuses() == {"web-3": "ACTIVE"}
    assert command("server", "list", "--status", "SOFT_DELETED", "-o", "value", "-c", "name") == 0
    assert sorted(command.out.split()) == ["web-1", "web-2"]

    assert command("server", "restore", "web-1", "--wait", "-o", "value", "-c", "result") == 0
    assert command.out.split()[-1] == "done"
    assert command("server", "delete", "--force", "web-2", "web-3") == 0
    scene.work()

    assert scene.statuses() == {"web-1": "ACTIVE"}
    for name in ("web-1", "web-2", "nothing"):
        assert command("server", "restore", name) == 4
        assert f"there is no server {name!r}" in command.err
    assert command("server", "restore") == 2


def test_a_server_is_rebuilt_from_an_image(scene: Scene) -> None:
    scene.agent.node.client().post("/images", {"image": {"id": "i-2", "name": "newer"}})

    assert scene.working()("server", "rebuild", "web-1", "--image", "newer", "--wait", "-o", "value") == 0

    assert scene.command.out.split()[1] == "done"
    assert scene.agent.rebuilds[scene.command.out.split()[0]] == ["newer"]
    assert scene.command("server", "rebuild", "web-1", "--image", "nowhere") == 1
    assert scene.command("server", "rebuild", "web-1") == 2


@pytest.mark.parametrize(("settle", "flavor"), [("confirm-resize", "wide"), ("revert-resize", "small")])
def test_a_server_is_resized_and_that_is_settled(scene: Scene, settle: str, flavor: str) -> None:
    wide = {"flavor": {**FLAVOR["flavor"], "name": "wide", "ram": 4096}}
    scene.agent.node.client().post("/flavors", wide)
    command = scene.working()

    assert command("server", "resize", "web-1", "wide", "--watch", "-o", "value", "-c", "result") == 0
    assert command.out.split()[-1] == "done"
    assert scene.statuses()["web-1"] == "VERIFY_RESIZE"
    assert command("server", settle, "web-1", "--wait", "-o", "value", "-c", "result") == 0
    assert command.out.split()[-1] == "done"

    assert scene.statuses()["web-1"] == "ACTIVE"
    shown = scene.agent.node.client().get("/servers/detail?name=web-1").json["servers"][0]
    assert shown["flavor"]["original_name"] == flavor
    assert command("server", settle, "web-1") == 1
    assert command("server", "resize", "web-1", "nothing") == 1
    assert command("server", "resize", "web-1") == 2


def test_without_waiting_it_says_what_was_accepted(scene: Scene) -> None:
    assert scene.command("server", "stop", "web-1", "-o", "value", "-c", "result") == 0

    assert scene.command.out == "accepted\n"
    assert scene.statuses()["web-1"] == "ACTIVE"


def test_a_whole_boot_is_stopped_and_those_that_refuse_are_named(scene: Scene) -> None:
    command = scene.working()
    assert command("server", "stop", "web-1", "--wait") == 0

    code = command("server", "stop", "--reservation", scene.reservation_id, "--wait")

    assert code == 1
    assert command.err.count("(wrong_status)") == 1
    assert set(scene.statuses().values()) == {"SHUTOFF"}


def test_an_action_that_fails_while_it_is_waited_for_is_exit_1(scene: Scene) -> None:
    scene.agent.refuses["suspended"] = "suspend_unsupported"
    command = scene.working()

    assert command("server", "suspend", "web-1", "--wait") == 1
    assert "suspend_unsupported" in command.out
    assert command("server", "actions", "web-1", "-o", "value", "-c", "action", "-c", "error_code") == 0
    assert command.lines[0] == "suspend suspend_unsupported"


def test_a_lock_keeps_members_off(scene: Scene) -> None:
    assert scene.command("server", "lock", "web-1", "--reason", "audit") == 0
    assert scene.command("server", "show", "web-1", "-o", "json", "-c", "locked_reason") == 0
    assert json.loads(scene.command.out) == {"locked_reason": "audit"}

    assert scene.command("server", "stop", "web-1") == 1
    assert "server_locked" in scene.command.err
    assert scene.command("server", "unlock", "web-1") == 0
    assert scene.command("server", "stop", "web-1") == 0


@pytest.mark.parametrize(
    "arguments",
    [["stop"], ["stop", "web-1", "--reservation", "x"], ["reboot", "web-1", "--soft"], ["lock"]],
)
def test_wrong_usage_is_exit_2(scene: Scene, arguments: list[str]) -> None:
    assert scene.command("server", *arguments) == 2


def test_a_server_that_is_not_there_is_named(scene: Scene) -> None:
    assert scene.command("server", "stop", "nobody") == 4
    assert "nobody" in scene.command.err
    assert scene.command("server", "stop", "nobody", "web-1") == 1
    scene.agent.converge()

    assert scene.statuses()["web-1"] == "SHUTOFF"


def test_stopped_and_resized_servers_of_a_boot_are_listed_by_status_and_deleted_with_it(scene: Scene) -> None:
    wide = {"flavor": {**FLAVOR["flavor"], "name": "wide", "ram": 4096}}
    scene.agent.node.client().post("/flavors", wide)
    command = scene.working()
    assert command("server", "stop", "web-1", "--wait") == 0
    assert command("server", "resize", "web-2", "wide", "--wait") == 0
    for status, name in (("shutoff", "web-1"), ("VERIFY_RESIZE", "web-2")):
        assert command("server", "list", "--status", status, "-o", "value", "-c", "name") == 0
        assert command.out.split() == [name]

    assert command("server", "delete", "--reservation", scene.reservation_id) == 0

    assert scene.statuses() == {}


def test_servers_move_to_a_named_host_and_one_that_cannot_is_an_error(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.tree.register("root", [a_host("h2", vcpus=2)])
    command = TreeCommand(capsys, scene.tree, "root", "admin")
    connect = command.session

    def session() -> object:
        made = connect()

        def pause(pause_s: float) -> None:
            scene.tree.settle(1)
            scene.agent.converge()

        made.pause = pause
        return made

    command.session = session  # type: ignore[method-assign, assignment]

    assert command("server", "migrate", "web-1", "--host", "h2", "--wait") == 0
    assert command("server", "migrate", "web-2", "--wait", "-o", "json") == 1

    assert json.loads(command.out[command.out.index("[") :])[0]["error_code"] == "move_no_valid_host"
    assert command("server", "migrate", "web-2", "--host", "h9") == 1
    assert "host_not_found" in command.err


def test_a_zone_that_is_away_for_a_while_ends_no_wait(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    command, url = TreeCommand(capsys, scene.tree, "root", "admin"), scene.tree.nodes["root"].url
    connect, pauses = command.session, list[float]()

    def session() -> object:
        made = connect()

        def pause(pause_s: float) -> None:
            pauses.append(pause_s)
            if len(pauses) == 1:
                scene.tree.network.fault(url, Dead())
            elif len(pauses) == 4:
                scene.tree.network.heal(url)
                scene.tree.settle(1)
                scene.agent.converge()

        made.pause = pause
        return made

    command.session = session  # type: ignore[method-assign, assignment]

    assert command("server", "stop", "web-1", "--wait") == 0

    assert pauses == [0.5, 0.5, 1.0, 2.0]
    assert command.err.splitlines()[-1] == "zonesched: the zone is back"


def test_a_console_is_printed_without_what_would_drive_the_terminal(scene: Scene) -> None:
    (uuid, *_) = [line["uuid"] for line in scene.agent.work() if line["name"] == "web-1"]
    assert isinstance(scene.tree.executor, InlineExecutor)
    outputs = {uuid: "one\n\ttwo\x1b[2J\x9b\n"}

    def play(seconds: float) -> None:
        scene.tree.clock.advance(seconds)
        scene.agent.bring_consoles(outputs)

    scene.tree.executor.while_paused = play

    assert scene.command("server", "console", "web-1") == 0
    assert scene.command.out == "one\n\ttwo\ufffd[2J\ufffd\n"
    assert scene.command("server", "console", "web-1", "--lines", "1") == 0
    assert scene.command.out == "\ttwo\ufffd[2J\ufffd\n"
    outputs.clear()
    assert scene.command("server", "console", "web-1") == 3
    assert "did not answer in time" in scene.command.err


def test_a_server_is_evacuated_once_its_host_is_down_and_said_to_be_fenced(scene: Scene) -> None:
    admin = TreeCommand(scene.command.capsys, scene.tree, "root")
    assert scene.command("server", "evacuate", "web-1", "--fenced") == 1
    assert scene.command.err.endswith("(forbidden)\n")
    assert admin("server", "evacuate", "web-1", "--fenced") == 1
    assert admin.err.endswith("(host_is_up)\n")
    [host] = scene.tree.nodes["root"].client().get("/os-hypervisors").json["hypervisors"]
    scene.tree.nodes["root"].client().call("PUT", f"/os-services/{host['id']}", {"forced_down": True})

    assert admin("server", "evacuate", "web-1") == 1
    assert admin.err.endswith("(host_not_fenced)\n")
    assert admin("server", "evacuate", "web-1", "--fenced", "-o", "value", "-c", "result") == 0
    assert admin.out == "accepted\n"
