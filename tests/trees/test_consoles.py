"""Console output: asked anew each time, from any zone above, within a bounded time and a bounded size."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.inline_executor import InlineExecutor
from tests.builders.migrated import ask
from tests.builders.played_agent import PlayedAgent
from tests.builders.scenes import built_once
from tests.builders.tree import Answer, Tree, a_host
from tests.builders.wsgi_transport import Dead, Fault, LostReply, Replace, Slow
from zonesched.errors import CallerGone, ZoneBusy
from zonesched.model.caller import Role
from zonesched.model.console import CONSOLE_TRAIT, MAX_CONSOLE_BYTES, ConsoleState
from zonesched.services.catalog import users
from zonesched.services.owners import consoles
from zonesched.services.owners.consoles import MAX_WAIT_S
from zonesched.services.state.quotas import PROJECT_CONSOLES_PER_MINUTE

SECRET_HOST = "quartz-7.example"


@built_once
def a_tree(folder: Path, *traits: str, **root: Any) -> Tree:
    """A member's server in the lowest of three zones."""
    tree = Tree(folder)
    tree.add("root", **root)
    tree.add("region", parent="root")
    leaf = tree.add("leaf", parent="region", hosts_=[a_host(SECRET_HOST, traits=traits)])
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    body = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 1}}
    assert tree.nodes["root"].client("member").post("/zones/boot", body).status == 202
    tree.settle()
    PlayedAgent(leaf).converge()
    tree.settle(3)
    return tree


class Scene:
    """Such a tree with its agent; `says`: what that brings once it is asked."""

    def __init__(self, folder: Path, *traits: str, **root: Any) -> None:
        self.tree = a_tree(folder, *traits, **root)
        self.root, self.leaf = self.tree.nodes["root"], self.tree.nodes["leaf"]
        self.agent = PlayedAgent(self.leaf)
        self.says: list[str] = []
        self.asked = 0
        self.uuid: str = self.root.client("member").get("/servers").json["servers"][0]["id"]
        assert isinstance(self.tree.executor, InlineExecutor)
        self.tree.executor.while_paused = self._go_on

    def read(self, length: Any = None, user: str = "member", zone: str = "root") -> Answer:
        body = {"os-getConsoleOutput": {"length": length}}
        return self.tree.nodes[zone].client(user).post(f"/servers/{self.uuid}/action", body)

    def rows(self) -> int:
        return len(ask(self.tree.folder / "leaf.sqlite", "SELECT id FROM console_asks"))

    def _go_on(self, seconds: float) -> None:
        self.tree.clock.advance(seconds)
        if self.says and self.agent.bring_consoles({self.uuid: self.says[0]}):
            self.says.pop(0)
            self.asked += 1


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, CONSOLE_TRAIT)


def code(reply: Answer) -> tuple[int, str]:
    ((fault,),) = [reply.json.values()]
    return reply.status, fault["error_code"]


@pytest.mark.parametrize("zone", ["root", "leaf"])
def test_the_output_is_asked_of_the_agent_each_time(scene: Scene, zone: str) -> None:
    user = "member" if zone == "root" else "admin"
    scene.says = ["one\n", "one\ntwo\n"]

    first, second = scene.read(user=user, zone=zone), scene.read(user=user, zone=zone)

    assert (first.status, first.json) == (200, {"output": "one\n"})
    assert second.json == {"output": "one\ntwo\n"}
    assert (scene.asked, scene.rows()) == (2, 0)


@pytest.mark.parametrize(
    ("length", "output"),
    [(None, "a\nb\nc\n"), (-1, "a\nb\nc\n"), (0, ""), (1, "c"), (2, "b\nc"), ("2", "b\nc"), (9, "a\nb\nc")],
)
def test_the_last_lines_are_those_asked_for(scene: Scene, length: Any, output: str) -> None:
    scene.says = ["a\nb\nc\n"]

    assert scene.read(length).json == {"output": output}


def test_any_character_comes_through(scene: Scene) -> None:
    scene.says = [said := "\x02\x1b[31m\ufffd\U0001f600\r\n" + "\x01" * (MAX_CONSOLE_BYTES - 10)]

    assert scene.read().json == {"output": said}


def test_a_silent_agent_is_waited_for_so_long_and_what_it_brings_later_is_nobodys(scene: Scene) -> None:
    begun_at = scene.tree.clock.monotonic()
    asked: list[str] = []
    assert isinstance(scene.tree.executor, InlineExecutor)

    def note(seconds: float) -> None:
        scene.tree.clock.advance(seconds)
        asked[:] = [line["id"] for line in scene.agent.asked_consoles()]

    scene.tree.executor.while_paused = note
    reply = scene.read()
    late = scene.agent.bring(asked[0], "too late")
    scene.tree.executor.while_paused = scene._go_on
    scene.says = ["in time"]

    assert code(reply) == (503, "console_late")
    assert int(reply.headers["Retry-After"]) > 0
    # Each zone on the way keeps a part of the time for itself.
    waited_s = MAX_WAIT_S * consoles.SHARE_BELOW**2
    assert scene.tree.clock.monotonic() - begun_at == pytest.approx(waited_s)
    assert (late.status, scene.rows()) == (204, 0)
    assert scene.read().json == {"output": "in time"}


def test_only_the_first_answer_and_only_of_the_servers_own_agent_counts(scene: Scene) -> None:
    users.create(scene.leaf.zone.store, scene.leaf.zone.clock, "other", Role.COMPUTE, "-")
    other = users.create(scene.leaf.zone.store, scene.leaf.zone.clock, "another", Role.COMPUTE, "-")
    scene.leaf.secrets["another"] = other.secret
    client = scene.leaf.client("another")
    assert client.call("PUT", "/hosts", {"service": "other", "hosts": []}).status == 200
    answers: list[int] = []
    assert isinstance(scene.tree.executor, InlineExecutor)

    def play(seconds: float) -> None:
        scene.tree.clock.advance(seconds)
        (line,) = scene.agent.asked_consoles()
        forged = {"id": line["id"], "state": "read", "output": "forged"}
        answers.append(client.post("/hosts/consoles", {"service": "other", **forged}).status)
        answers.append(client.post("/hosts/consoles", {"service": "agent", **forged}).status)
        answers.append(scene.agent.bring(line["id"], "true").status)
        answers.append(scene.agent.bring(line["id"], "once more").status)

    scene.tree.executor.while_paused = play

    assert scene.read().json == {"output": "true"}
    assert answers == [204, 403, 204, 204]


def test_a_host_without_the_trait_is_not_asked(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.says = ["never"]

    assert code(scene.read()) == (409, "console_unsupported")
    assert scene.asked == 0


def test_a_driver_may_say_that_it_reads_none(scene: Scene) -> None:
    assert isinstance(scene.tree.executor, InlineExecutor)

    def refuse(seconds: float) -> None:
        for line in scene.agent.asked_consoles():
            scene.agent.bring(line["id"], "", "unsupported")

    scene.tree.executor.while_paused = refuse

    assert code(scene.read()) == (409, "console_unsupported")


def test_a_host_that_is_down_is_not_waited_for(scene: Scene) -> None:
    body = {"host": SECRET_HOST, "binary": "nova-compute", "forced_down": True}
    found = scene.leaf.client().call("PUT", "/os-services/force-down", body)
    assert found.status == 200, found.body
    before = scene.tree.clock.monotonic()

    assert code(scene.read()) == (503, "console_late")
    assert scene.tree.clock.monotonic() == before


def test_a_server_that_is_on_no_host_has_none(scene: Scene) -> None:
    scene.root.client("member").post(f"/servers/{scene.uuid}/action", {"shelve": None})
    for _ in range(3):
        scene.tree.settle(3)
        scene.agent.converge()

    assert code(scene.read()) == (409, "not_built")


@pytest.mark.parametrize("fault", [Dead(), LostReply(), Slow(delay_s=60.0), Replace(status=500)])
def test_a_zone_that_does_not_answer_is_as_good_as_a_late_agent(scene: Scene, fault: Fault) -> None:
    scene.says = ["in time"]
    scene.tree.network.fault(scene.leaf.url, fault)

    assert code(scene.read()) == (503, "console_late")


@pytest.mark.parametrize(
    "answer",
    [
        b"{}",
        b'{"state": "read"}',
        b'{"state": "shout", "output": ""}',
        b'{"state": "read", "output": 5}',
        json.dumps({"state": "read", "output": "x" * (MAX_CONSOLE_BYTES + 1)}).encode(),
        json.dumps({"state": "read", "output": "", "more": "x" * 2**20}).encode(),
    ],
)
def test_a_child_that_breaks_the_form_is_not_believed(scene: Scene, answer: bytes) -> None:
    scene.tree.network.fault(scene.tree.nodes["region"].url, Replace(body=answer, path="/console"))

    assert code(scene.read()) == (503, "console_late")


def test_a_zone_of_an_older_version_has_a_clear_answer(scene: Scene) -> None:
    unknown = json.dumps({"itemNotFound": {"code": 404, "error_code": "url_unknown", "message": "no"}})
    scene.tree.network.fault(scene.leaf.url, Replace(status=404, body=unknown.encode(), path="/console"))

    assert code(scene.read()) == (409, "action_unsupported_by_zone")


@pytest.mark.parametrize("zone", ["root", "region"])
def test_routing_that_is_off_is_said(scene: Scene, zone: str) -> None:
    scene.tree.nodes[zone].zone.conf.set_override("enable_zone_routing", False)

    assert code(scene.read()) == (409, "zone_routing_disabled")


def test_nothing_but_the_output_comes_up(scene: Scene) -> None:
    scene.says = ["hello"]
    parent = scene.leaf.client("parent-region")

    reply = parent.get(f"/servers/{scene.uuid}/console?budget_s=5")

    assert reply.json == {"state": "read", "output": "hello"}
    assert SECRET_HOST.encode() not in reply.body


def test_another_callers_server_and_other_roles(scene: Scene) -> None:
    scene.leaf.secrets["stranger"] = users.create(
        scene.leaf.zone.store, scene.leaf.zone.clock, "stranger", Role.PARENT, "-"
    ).secret
    path = f"/servers/{scene.uuid}/console?budget_s=5"

    assert code(scene.leaf.client("stranger").get(path)) == (404, "instance_not_found")
    assert code(scene.leaf.client("member").get(path)) == (403, "role_forbidden")
    assert code(scene.read(user="reader")) == (403, "role_forbidden")
    # The server is a parent's there.
    assert code(scene.read(zone="leaf")) == (404, "instance_not_found")


@pytest.mark.parametrize("query", ["", "?budget_s=0", "?budget_s=soon", "?budget_s=nan", "?budget_s=4000"])
def test_a_parent_names_how_long_it_waits(scene: Scene, query: str) -> None:
    reply = scene.leaf.client("parent-region").get(f"/servers/{scene.uuid}/console{query}")

    assert reply.status == 400


def test_a_parent_cannot_make_an_agent_be_waited_for_longer(scene: Scene) -> None:
    begun_at = scene.tree.clock.monotonic()

    reply = scene.leaf.client("parent-region").get(f"/servers/{scene.uuid}/console?budget_s=3600")

    assert reply.json == {"state": ConsoleState.LATE.value, "output": ""}
    assert scene.tree.clock.monotonic() - begun_at == pytest.approx(MAX_WAIT_S)


def test_a_project_reads_so_many_per_minute(scene: Scene) -> None:
    scene.says = ["x"] * PROJECT_CONSOLES_PER_MINUTE * 2

    # Time goes by while they are read.
    replies = [scene.read(user=user).status for user in ("member", "admin") * PROJECT_CONSOLES_PER_MINUTE]

    assert PROJECT_CONSOLES_PER_MINUTE <= replies.count(200) < 2 * PROJECT_CONSOLES_PER_MINUTE
    refused = scene.read()
    assert code(refused) == (429, "consoles_per_minute")
    assert int(refused.headers["Retry-After"]) > 0


def test_callers_that_wait_take_no_more_than_their_share(scene: Scene) -> None:
    scene.says = ["x"]
    slots = scene.root.zone.console_slots
    with ExitStack() as held, pytest.raises(ZoneBusy):
        while True:
            held.enter_context(slots.of_user("someone"))
            mine = scene.root.zone.conf.api_threads // 4
            assert slots.held < mine
    held_by_me = ExitStack()
    with held_by_me:
        with pytest.raises(ZoneBusy):
            while True:
                held_by_me.enter_context(slots.of_user(_user_id(scene)))
        assert code(scene.read()) == (503, "zone_busy")
    assert scene.read().status == 200


def test_a_caller_that_hangs_up_is_not_worked_for(scene: Scene) -> None:
    zone = scene.leaf.zone
    caller = users.authenticate(zone, "admin", scene.leaf.secrets["admin"])

    with pytest.raises(CallerGone):
        consoles.read(zone, caller, scene.uuid, is_wanted=lambda: False)

    assert scene.rows() == 0


def test_what_a_process_that_died_has_asked_goes_with_the_next_one(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(scene.tree.executor, InlineExecutor)
    zone = scene.leaf.zone
    caller = users.authenticate(zone, "admin", scene.leaf.secrets["admin"])

    def die(seconds: float) -> None:
        # Nothing of this process is written any more.
        scene.tree.clock.advance(seconds)
        monkeypatch.setattr(zone.store, "write", None)

    scene.tree.executor.while_paused = die
    with pytest.raises(TypeError):
        consoles.read(zone, caller, scene.uuid, budget_s=0.05)
    monkeypatch.undo()
    scene.tree.restart("leaf")
    scene.agent.node = scene.tree.nodes["leaf"]
    scene.tree.executor.while_paused = scene._go_on
    left = scene.rows()
    scene.tree.clock.advance(3 * MAX_WAIT_S)
    scene.says = ["again"]

    assert left == 1
    assert scene.read(user="admin", zone="leaf").json == {"output": "again"}
    assert scene.rows() == 0


def test_an_agents_output_is_bounded(scene: Scene) -> None:
    id = scene.tree.clock.new_uuid()

    assert scene.agent.bring(id, "x" * MAX_CONSOLE_BYTES).status == 204
    assert code(scene.agent.bring(id, "x" * (MAX_CONSOLE_BYTES + 1)))[0] == 400
    assert code(scene.agent.bring(id, "x" * 2**19)) == (413, "body_too_large")
    assert code(scene.agent.bring(id, "x", "late"))[0] == 400
    assert code(scene.agent.bring("no-uuid", "x"))[0] == 400


def test_it_is_of_one_server_and_not_of_a_boot(scene: Scene) -> None:
    shown = scene.root.client("member").get("/reservations").json["reservations"][0]
    path = f"/reservations/{shown['id']}/action"

    reply = scene.root.client("member").post(path, {"os-getConsoleOutput": {}})

    assert code(reply) == (400, "action_of_one_server")


def _user_id(scene: Scene) -> str:
    return users.authenticate(scene.root.zone, "member", scene.root.secrets["member"]).user_id
