"""`zonesched host drain` against a zone whose agent works whenever the command pauses."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, nothing_is_wrong
from tests.builders.command import TreeCommand
from tests.builders.played_agent import PlayedAgent
from tests.builders.scenes import built_once
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead, LostReply, Refuse, Tamper
from zonesched.cli.host_drain import Progress
from zonesched.cli.session import Session
from zonesched.model.task_state import MOVING

pytestmark = pytest.mark.once


@built_once
def a_zone_with_a_flavor(folder: Path) -> Tree:
    tree = Tree(folder)
    tree.add("root", hosts_=[a_host("h1")]).client().post("/flavors", FLAVOR)
    return tree


class Scene:
    """A zone with servers on h1 and an empty h2; `at_pause` is what happens while the command pauses."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.tree = a_zone_with_a_flavor(folder)
        self.node = self.tree.nodes["root"]
        self.agent = PlayedAgent(self.node)
        self.at_pause: Callable[[], None] = self.work
        self.most_moving = 0
        self.command = TreeCommand(capsys, self.tree, "root", "admin")
        connect = self.command.session

        def session() -> Session:
            made = connect()
            made.pause = lambda pause_s: self.at_pause()
            return made

        self.command.session = session  # type: ignore[method-assign]

    def with_servers(self, count: int, *, room: int = 16) -> list[str]:
        """Servers on h1; h2 has room for `room` of them. Their ids."""
        body = {"server": {"name": "web", "flavorRef": "small", "min_count": count}}
        assert self.node.client("member").post("/servers", body).status == 202
        self.tree.settle()
        self.agent.converge()
        self.tree.register("root", [a_host("h2", vcpus=room)])
        return [server["id"] for server in self.servers()]

    def work(self) -> None:
        """Do all the work that is due in the zone and its agent."""
        moving = [server for server in self.servers() if server["OS-EXT-STS:task_state"] == MOVING]
        self.most_moving = max(self.most_moving, len(moving))
        self.tree.settle(1)
        self.agent.converge()

    def servers(self) -> list[dict[str, Any]]:
        """All servers, those that may be restored as well."""
        lists = [
            self.node.client().get(f"/servers/detail?all_tenants=true{more}").json["servers"]
            for more in ("", "&status=SOFT_DELETED")
        ]
        return [*lists[0], *lists[1]]

    def by_host(self) -> Counter[str]:
        return Counter(server["OS-EXT-SRV-ATTR:host"] for server in self.servers())

    def moves_asked(self) -> list[int]:
        """How often each server was asked to move."""
        client = self.node.client()
        listed = [client.get(f"/servers/{one['id']}/os-instance-actions") for one in self.servers()]
        return [
            sum(line["action"] == "migrate" for line in answer.json["instanceActions"]) for answer in listed
        ]

    def host(self, name: str = "h1") -> dict[str, Any]:
        (found,) = (
            one
            for one in self.node.client().get("/os-services?binary=nova-compute").json["services"]
            if one["host"] == name
        )
        return dict(found)

    def left(self) -> list[tuple[str, str]]:
        """The rows that were printed: id and code."""
        return [(row["id"], row["error_code"]) for row in json.loads(self.command.out)]


@pytest.fixture
def scene(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Scene:
    return Scene(tmp_path, capsys)


def test_an_empty_host_is_disabled_with_the_reason_and_done_at_once(scene: Scene) -> None:
    assert scene.command("host", "drain", "h1", "--reason", "new disks") == 0

    assert (scene.host()["status"], scene.host()["disabled_reason"]) == ("disabled", "new disks")
    assert scene.command.out == "h1 is empty\n"
    assert scene.command("host", "drain", "h1", "--json") == 0
    assert json.loads(scene.command.out) == []
    assert scene.host()["disabled_reason"] == "new disks"


def test_servers_leave_side_by_side_and_never_more_than_asked_for(scene: Scene) -> None:
    scene.with_servers(5)

    assert scene.command("host", "drain", "h1", "--parallel", "2") == 0

    assert scene.by_host() == {"h2": 5}
    assert scene.moves_asked() == [1] * 5
    assert scene.most_moving == 2
    assert {uuid for uuid, _ in scene.agent.running} == {server["id"] for server in scene.servers()}
    assert scene.command.err.splitlines()[0] == "h1: 0 of 5 instances are gone, 2 moving"
    assert scene.command.err.splitlines()[-1] == "h1: 5 of 5 instances are gone, 0 moving"
    nothing_is_wrong(scene.tree)


def test_one_that_has_no_room_elsewhere_is_listed_and_asked_again_by_the_next_run(scene: Scene) -> None:
    scene.with_servers(3, room=4)

    code = scene.command("host", "drain", "h1", "-o", "json")
    first, asked = scene.left(), scene.moves_asked()
    scene.tree.register("root", [a_host("h3")])
    again = scene.command("host", "drain", "h1", "-o", "json")

    assert (code, [reason for _, reason in first]) == (1, ["move_no_valid_host"])
    assert sorted(asked) == [1, 1, 1]
    assert (again, scene.left()) == (0, [])
    assert scene.by_host() == {"h2": 2, "h3": 1}


def test_a_server_that_refuses_or_comes_back_is_listed_with_its_reason(scene: Scene) -> None:
    paused, other = scene.with_servers(2)
    scene.node.client("member").post(f"/servers/{paused}/action", {"pause": None})
    scene.agent.converge()
    scene.agent.cannot_build = "broken"

    assert scene.command("host", "drain", "h1", "-o", "json") == 1

    assert dict(scene.left()) == {paused: "wrong_status", other: "move_not_built"}
    assert scene.by_host() == {"h1": 2}
    assert scene.moves_asked().count(1) == 1


def test_ctrl_c_asks_for_no_further_moves_and_the_next_run_goes_on(scene: Scene) -> None:
    scene.with_servers(5)

    def interrupted() -> None:
        scene.work()
        raise KeyboardInterrupt

    scene.at_pause = interrupted
    code = scene.command("host", "drain", "h1", "--parallel", "2")
    said, asked, status = scene.command.err, scene.moves_asked(), scene.host()["status"]
    scene.at_pause = scene.work
    again = scene.command("host", "drain", "h1", "--parallel", "2")

    assert (code, sum(asked), status) == (130, 2, "disabled")
    assert "zonesched host drain h1 goes on" in said
    assert again == 0
    assert scene.most_moving == 2
    assert scene.moves_asked() == [1] * 5
    assert scene.by_host() == {"h2": 5}


def test_a_zone_that_goes_away_meanwhile_leaves_the_word_how_to_go_on(scene: Scene) -> None:
    scene.with_servers(3)

    def away() -> None:
        scene.work()
        scene.tree.network.fault(scene.node.url, Dead())

    scene.at_pause = away
    code = scene.command("host", "drain", "h1", "--parallel", "2")
    said = scene.command.err
    scene.tree.network.heal(scene.node.url)
    scene.at_pause = scene.work

    assert code == 3
    assert "h1 stays disabled: zonesched host drain h1 goes on" in said
    assert "cannot be reached (zone_unreachable)" in said
    assert scene.command("host", "drain", "h1") == 0
    assert scene.by_host() == {"h2": 3}


@pytest.mark.parametrize("is_interrupted", [True, False], ids=["Ctrl-C", "no answer"])
def test_a_host_that_was_disabled_without_an_answer_leaves_the_word_how_to_go_on(
    scene: Scene, is_interrupted: bool
) -> None:
    # given a zone that disables the host, of which the command does not hear
    scene.with_servers(3)

    def interrupt(body: bytes) -> bytes:
        raise KeyboardInterrupt

    fault = Tamper(method="PUT", change=interrupt) if is_interrupted else LostReply(method="PUT")
    scene.tree.network.fault(scene.node.url, fault)
    # when
    code = scene.command("host", "drain", "h1")
    said = scene.command.err
    scene.tree.network.heal(scene.node.url)
    # then
    assert (code, scene.host()["status"]) == (130 if is_interrupted else 3, "disabled")
    assert "h1 may be disabled: zonesched host drain h1 goes on, zonesched service enable h1 ends it" in said
    assert scene.moves_asked() == [0] * 3
    assert scene.command("host", "drain", "h1") == 0
    assert scene.by_host() == {"h2": 3}


def test_a_host_that_may_not_be_disabled_is_said_to_be_nothing_else(scene: Scene) -> None:
    scene.tree.network.fault(scene.node.url, Refuse(method="PUT"))

    assert scene.command("host", "drain", "h1") != 0
    assert "disabled" not in scene.command.err


def test_a_zone_that_is_away_for_a_while_ends_no_drain(scene: Scene) -> None:
    scene.with_servers(3)
    away = [True, True, False, True, False]

    def now_and_then() -> None:
        scene.tree.network.heal(scene.node.url)
        scene.work()
        if away and away.pop():
            scene.tree.network.fault(scene.node.url, Dead())

    scene.at_pause = now_and_then

    assert scene.command("host", "drain", "h1", "--parallel", "1") == 0
    assert scene.command.err.count("zonesched: the zone is back") == 2
    assert scene.by_host() == {"h2": 3}


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_move_that_others_asked_for_is_waited_for_and_counts(scene: Scene, is_deleted: bool) -> None:
    ids = scene.with_servers(3)
    last = sorted(ids)[-1]
    if is_deleted:
        scene.node.zone.conf.set_override("reclaim_instance_interval", 600.0)
        assert scene.node.client().delete(f"/servers/{last}").status == 204
    scene.node.client().post(f"/servers/{last}/action", {"migrate": None})

    assert scene.command("host", "drain", "h1", "--parallel", "1") == 0

    assert scene.most_moving == 1
    assert scene.moves_asked() == [1] * 3


def test_a_server_that_is_built_meanwhile_moves_once_it_runs(scene: Scene) -> None:
    body = {"server": {"name": "late", "flavorRef": "small"}}
    scene.node.client("member").post("/servers", body)
    scene.tree.settle()
    scene.tree.register("root", [a_host("h2")])

    assert scene.command("host", "drain", "h1") == 0

    assert scene.by_host() == {"h2": 1}


def test_a_server_that_is_shelved_meanwhile_is_gone_once_its_agent_says_so(scene: Scene) -> None:
    (uuid,) = scene.with_servers(1)
    scene.node.client("member").post(f"/servers/{uuid}/action", {"shelve": None})
    pauses: list[int] = []

    def work() -> None:
        pauses.append(1)
        scene.work()

    scene.at_pause = work

    assert scene.command("host", "drain", "h1") == 0

    assert pauses
    assert scene.agent.running == set()
    assert scene.moves_asked() == [0]


def test_a_host_that_is_down_is_not_waited_for(scene: Scene) -> None:
    (uuid,) = scene.with_servers(1)
    assert scene.command("service", "force-down", "h1") == 0

    assert scene.command("host", "drain", "h1", "-o", "json") == 1

    assert scene.left() == [(uuid, "host_is_down")]
    assert "zonesched host evacuate h1" in scene.command.err
    assert scene.moves_asked() == [0]


@pytest.mark.parametrize(("arguments", "code"), [(["h9"], 4), (["h1", "--parallel", "0"], 2)])
def test_wrong_usage_changes_nothing(scene: Scene, arguments: list[str], code: int) -> None:
    assert scene.command("host", "drain", *arguments) == code

    assert scene.host()["status"] == "enabled"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "written"),
    [(_Terminal(), "\rlong line\rshort    \n"), (io.StringIO(), "long line\nshort\n")],
)
def test_progress_is_one_line_on_a_terminal_and_plain_lines_elsewhere(
    stream: io.StringIO, written: str
) -> None:
    progress = Progress(stream)

    for line in ("long line", "short", "short"):
        progress.show(line)
    progress.end()

    assert stream.getvalue() == written


@pytest.mark.parametrize(("room", "rounds"), [(4, 3), (16, 3), (16, 1)])
def test_a_server_whose_resize_waits_for_its_owner_is_listed(scene: Scene, room: int, rounds: int) -> None:
    # given a server whose old place is on the host, and whose new one is there too, elsewhere or being built
    (uuid,) = scene.with_servers(1, room=room)
    client = scene.node.client()
    client.post("/flavors", {"flavor": {**FLAVOR["flavor"], "id": "large", "name": "large", "vcpus": 5}})
    assert client.post(f"/servers/{uuid}/action", {"resize": {"flavorRef": "large"}}).status == 202
    for _ in range(rounds):
        scene.work()
    # when
    scene.at_pause = Bounded(scene)
    status = scene.command("host", "drain", "h1", "--json")
    # then the command ends and names it
    assert (status, scene.servers()[0]["status"]) == (1, "VERIFY_RESIZE")
    assert scene.left() == [(uuid, "resize_not_confirmed")]
    assert scene.command.err.splitlines()[-1].endswith("0 moving, 1 cannot move")
    # and the next one ends with the host empty, once its owner has confirmed
    assert client.post(f"/servers/{uuid}/action", {"confirmResize": None}).status == 204
    assert scene.command("host", "drain", "h1", "--json") == int(room == 4)


def test_a_server_whose_resize_waits_is_read_once_however_long_the_drain_takes(scene: Scene) -> None:
    # given three servers, one of which was resized away
    uuids = scene.with_servers(3)
    client = scene.node.client()
    client.post("/flavors", {"flavor": {**FLAVOR["flavor"], "id": "large", "name": "large", "vcpus": 5}})
    assert client.post(f"/servers/{uuids[0]}/action", {"resize": {"flavorRef": "large"}}).status == 202
    for _ in range(3):
        scene.work()
    reads: list[str] = []
    connect = scene.command.session

    def session() -> Session:
        made = connect()
        call = made.call

        def counted(method: str, path: str, *rest: Any, **more: Any) -> Any:
            reads.append(f"{method} {path}")
            return call(method, path, *rest, **more)

        made.call = counted  # type: ignore[method-assign]
        return made

    scene.command.session = session  # type: ignore[method-assign]
    # when
    assert scene.command("host", "drain", "h1", "--parallel", "1", "--json") == 1
    # then
    assert scene.left() == [(uuids[0], "resize_not_confirmed")]
    assert sum("/os-migrations" in read for read in reads) > 3
    assert reads.count(f"GET /servers/{uuids[0]}") == 1


class Bounded:
    """Work at each pause of a command that ends soon."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._pauses = 0

    def __call__(self) -> None:
        self._pauses += 1
        assert self._pauses < 20, self._scene.command.err
        self._scene.work()
