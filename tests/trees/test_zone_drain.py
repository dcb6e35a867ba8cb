"""Disabled child zones, and their drain: servers leave, are placed anew once they are gone, or are listed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import a_running_tree, boot, counts, delete_all, settle_until_killed, the_boot
from tests.builders.command import TreeCommand
from tests.builders.crashes import Seams
from tests.builders.scenes import built_once
from tests.builders.tree import Answer, Tree, a_host
from tests.builders.wsgi_transport import Dead, LostReply, Tamper
from tests.trees.test_actions_in_tree import Scene, a_scene
from tests.trees.test_migrate import a_server_below
from tests.trees.test_shelve_in_tree import differences, full, places, zone_of
from zonesched.cli.session import Session
from zonesched.services.children import draining
from zonesched.services.children.pending_calls import PendingCalls
from zonesched.services.zone import Zone
from zonesched.store.store import Transaction

pytestmark = pytest.mark.same_statements

IN_REGION = 8


@built_once
def a_tree_with_room(folder: Path, vcpus: int) -> Tree:
    """Twelve servers, eight of them in the child zone `region`; the root has hosts with room for all."""
    tree = a_running_tree(folder)
    tree.register("root", [a_host("r1", vcpus=vcpus), a_host("r2", vcpus=4)])
    return tree


def with_room(folder: Path, vcpus: int = 24) -> Scene:
    tree = a_tree_with_room(folder, vcpus)
    return Scene(tree, the_boot(tree))


def child(scene: Scene) -> dict[str, Any]:
    return dict(scene.root.client().get("/zones/detail").json["zones"][0])


def set_state(scene: Scene, state: str) -> Answer:
    return scene.root.client().call("PUT", f"/zones/{child(scene)['id']}", {"zone": {"state": state}})


def drain(scene: Scene, count: int = 100) -> Answer:
    return scene.root.client().post(f"/zones/{child(scene)['id']}/action", {"drain": {"count": count}})


def there(scene: Scene) -> list[str]:
    """The servers in the child zone."""
    return [uuid for zone, uuid in places(scene) if zone == "leaf-a"]


def test_a_disabled_child_gets_no_boots_and_an_enabled_one_does(tmp_path: Path) -> None:
    scene = with_room(tmp_path)

    assert set_state(scene, "disabled").json["zone"]["state"] == "disabled"
    scene.tree.poll()
    first = boot(scene.tree, num_instances=2)
    scene.go_on(3)
    assert counts(scene.tree, first) == {"ACTIVE": 2}
    assert len(there(scene)) == IN_REGION
    assert child(scene)["is_active"] is False

    set_state(scene, "enabled")
    second = boot(scene.tree, num_instances=12)
    scene.go_on(3)

    assert child(scene)["state"] == "ready"
    assert counts(scene.tree, second) == {"ACTIVE": 12}
    assert len(there(scene)) > IN_REGION


def refused_to_shelve(scene: Scene) -> str:
    """Shelve a server, which the region refuses; return its uuid."""
    uuid = scene.in_zone("leaf-a")
    conf = scene.tree.nodes["region"].zone.conf
    conf.set_override("enable_zone_routing", False)
    scene.act(uuid, {"shelve": None})
    scene.go_on()
    conf.set_override("enable_zone_routing", True)
    return uuid


def test_a_server_whose_shelve_a_zone_below_refused_is_acted_on_and_drained_as_any_other(
    tmp_path: Path,
) -> None:
    # given
    scene = with_room(tmp_path)
    uuid = refused_to_shelve(scene)
    assert scene.results(uuid) == [("shelve", "error", "zone_routing_disabled")]
    # when
    scene.act(uuid, {"os-stop": None})
    scene.go_on()
    stopped = scene.results(uuid)[-1]
    scene.act(uuid, {"os-start": None})
    scene.go_on()
    set_state(scene, "disabled")
    drained = drain(scene).json["drain"]
    scene.go_on(6)
    # then
    assert stopped == ("stop", "done", "")
    assert uuid in drained["asked"]
    assert there(scene) == []
    assert scene.statuses() == {"ACTIVE": 12}


def test_an_evacuation_does_not_complete_a_shelve_that_was_refused(tmp_path: Path) -> None:
    # given
    scene = with_room(tmp_path)
    uuid = refused_to_shelve(scene)
    # when
    leaf = scene.tree.nodes["leaf-a"].client()
    for host in leaf.get("/os-services?binary=nova-compute").json["services"]:
        leaf.call("PUT", f"/os-services/{host['id']}", {"forced_down": True})
        leaf.post(f"/os-services/{host['id']}/action", {"evacuate": {"fenced": True}})
    scene.go_on(6)
    # then
    assert scene.results(uuid)[-1] == ("evacuate", "done", "")
    assert scene.statuses() == {"ACTIVE": 12}


def test_a_child_that_is_not_disabled_is_not_drained(tmp_path: Path) -> None:
    scene = with_room(tmp_path)

    reply = drain(scene)

    assert (reply.status, reply.json["conflictingRequest"]["error_code"]) == (409, "child_not_disabled")
    assert len(there(scene)) == IN_REGION


def test_servers_leave_and_run_elsewhere_once_the_child_has_nothing_left_of_them(tmp_path: Path) -> None:
    scene = with_room(tmp_path)
    stopped = there(scene)[0]
    scene.act(stopped, {"os-stop": None})
    scene.go_on(2)
    set_state(scene, "disabled")

    reply = drain(scene, 5)
    asked = reply.json["drain"]
    scene.tree.settle()
    # They run nowhere else as long as their agent has not ended them.
    elsewhere = [zone for zone, uuid in places(scene) if uuid in asked["asked"] and zone != "leaf-a"]
    scene.go_on(6)

    assert (reply.status, len(asked["asked"]), asked["leaving"], asked["waiting"]) == (202, 5, 5, 3)
    assert elsewhere == []
    assert len(there(scene)) == 3
    assert {zone_of(scene, uuid) for uuid in asked["asked"]} <= {"root", "leaf-b"}
    drain(scene)
    scene.go_on(6)
    assert there(scene) == []
    assert scene.statuses() == {"ACTIVE": 11, "SHUTOFF": 1}
    assert scene.results(stopped)[-2:] == [("drain stopped", "done", ""), ("evacuate", "done", "")]
    assert drain(scene).json["drain"] == {
        "asked": [],
        "on_their_way": [],
        "leaving": 0,
        "waiting": 0,
        "held_up": 0,
        "staying": [],
        "staying_count": 0,
    }
    assert differences(scene.tree) == []


@pytest.mark.parametrize("zone", ["region", "leaf-a"])
@pytest.mark.parametrize("is_drained", [True, False])
def test_a_leaving_server_that_an_admin_below_deletes_runs_nowhere_else_beside_its_agent(
    tmp_path: Path, zone: str, is_drained: bool
) -> None:
    # given a server that leaves, on a host whose agent is cut off and has not ended it
    scene = with_room(tmp_path)
    if is_drained:
        set_state(scene, "disabled")
        uuid = drain(scene, 1).json["drain"]["asked"][0]
    else:
        uuid = there(scene)[0]
        scene.act(uuid, {"shelve": None})
    scene.tree.settle()
    cut_off = scene.agents.pop("leaf-a")
    # when
    assert scene.tree.nodes[zone].client().delete(f"/servers/{uuid}").status == 204
    scene.go_on(6)
    unshelved = scene.act(uuid, {"unshelve": None})
    scene.go_on(6)
    # then
    assert [name for name, one in places(scene) if one == uuid] == []
    assert unshelved.status == 409
    shown = scene.root.client().get(f"/servers/{uuid}").json["server"]
    assert (shown["status"], shown["fault"]["error_code"]) == ("ERROR", "deleted_in_child")
    # and its action has ended
    assert scene.results(uuid)[-1][1:] == ("error", "deleted_in_child")
    scene.agents["leaf-a"] = cut_off
    scene.go_on()
    assert scene.statuses() == {"ACTIVE": 11, "ERROR": 1}
    assert differences(scene.tree) == []


def test_a_server_that_an_admin_below_deletes_while_it_is_unshelved_there_runs_nowhere_else(
    tmp_path: Path,
) -> None:
    # given a server whose new agent builds it, and is cut off before it says so
    scene = with_room(tmp_path)
    uuid = there(scene)[0]
    scene.act(uuid, {"shelve": None})
    scene.go_on()
    full(scene, "root")
    full(scene, "leaf-b")
    scene.act(uuid, {"unshelve": None})
    scene.tree.settle()
    assert uuid in there(scene)
    cut_off = scene.agents.pop("leaf-a")
    # when
    assert scene.tree.nodes["region"].client().delete(f"/servers/{uuid}").status == 204
    scene.go_on(6)
    unshelved = scene.act(uuid, {"unshelve": None})
    # then
    assert unshelved.status == 409
    assert scene.results(uuid)[-1] == ("unshelve", "error", "deleted_in_child")
    scene.agents["leaf-a"] = cut_off
    scene.go_on()
    assert scene.statuses() == {"ACTIVE": 11, "ERROR": 1}
    assert differences(scene.tree) == []


def test_those_that_cannot_leave_are_listed_with_the_reason(tmp_path: Path) -> None:
    scene = with_room(tmp_path)
    paused, kept, *_ = there(scene)
    scene.act(paused, {"pause": None})
    scene.root.client().post(f"/servers/{kept}/metadata", {"metadata": {"rebuild_elsewhere": "false"}})
    scene.go_on(2)
    set_state(scene, "disabled")

    staying = {one["id"]: one for one in drain(scene).json["drain"]["staying"]}
    scene.go_on(6)

    assert {uuid: (one["error_code"], one["message"]) for uuid, one in staying.items()} == {
        paused: ("wrong_status", "Only servers that are ACTIVE or SHUTOFF are drained."),
        kept: (
            "rebuild_elsewhere_refused",
            "The server's owner wants no rebuild elsewhere (rebuild_elsewhere: false).",
        ),
    }
    assert sorted(there(scene)) == sorted([paused, kept])


def test_one_that_moves_within_the_child_is_waited_for_and_leaves_then(tmp_path: Path) -> None:
    tree, uuid, old, new = a_server_below(tmp_path)
    root, leaf = tree.nodes["root"], tree.nodes["leaf"]
    assert leaf.client().post(f"/servers/{uuid}/action", {"migrate": None}).status == 202
    tree.settle()
    (zone,) = root.client().get("/zones/detail").json["zones"]
    root.client().call("PUT", f"/zones/{zone['id']}", {"zone": {"state": "disabled"}})

    def drained() -> dict[str, Any]:
        answer = root.client().post(f"/zones/{zone['id']}/action", {"drain": {"count": 1}})
        return dict(answer.json["drain"])

    meanwhile = drained()
    for agent in (old, new):
        agent.converge()
    tree.settle()
    afterwards = drained()

    assert (meanwhile["asked"], meanwhile["waiting"], meanwhile["staying"]) == ([], 1, [])
    assert afterwards["asked"] == [uuid]


def test_a_zone_drains_its_own_servers_and_none_of_its_parent(tmp_path: Path) -> None:
    scene = with_room(tmp_path)
    region = scene.tree.nodes["region"].client()
    leaf = next(one for one in region.get("/zones/detail").json["zones"] if one["name"] == "leaf-a")
    region.call("PUT", f"/zones/{leaf['id']}", {"zone": {"state": "disabled"}})

    found = region.post(f"/zones/{leaf['id']}/action", {"drain": {"count": 100}}).json["drain"]

    assert found["asked"] == []
    assert {one["error_code"] for one in found["staying"]} == {"server_of_parent"}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"drain": {}},
        {"drain": None},
        {"drain": {"count": -1}},
        {"drain": {"count": 101}},
        {"drain": {"count": "4"}},
        {"drain": {"count": 1}, "evacuate": {}},
    ],
)
def test_a_drain_that_is_none_is_refused_and_changes_nothing(tmp_path: Path, body: Any) -> None:
    scene = with_room(tmp_path)
    set_state(scene, "disabled")

    reply = scene.root.client().post(f"/zones/{child(scene)['id']}/action", body)

    assert reply.status == 400
    assert len(there(scene)) == IN_REGION


@pytest.mark.parametrize("state", ["away", "", 1, None, True])
def test_a_state_that_is_none_is_refused(tmp_path: Path, state: Any) -> None:
    scene = with_room(tmp_path)

    assert set_state(scene, state).status == 400
    assert child(scene)["state"] == "ready"


class Drains:
    """The command at the root; the tree works whenever it pauses."""

    def __init__(self, scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
        self.command = TreeCommand(capsys, scene.tree, "root", "admin")
        connect = self.command.session

        def session() -> Session:
            made = connect()
            made.pause = self._pause
            return made

        self.command.session = session  # type: ignore[method-assign]
        self.meanwhile: Callable[[], None] = lambda: None
        self._scene = scene

    def __call__(self, *words: str) -> int:
        return self.command("zone", "drain", "region", *words)

    def _pause(self, pause_s: float) -> None:
        self.meanwhile()
        self._scene.go_on(1)


def test_the_command_disables_the_child_and_ends_with_it_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = with_room(tmp_path)
    run = Drains(scene, capsys)

    code = run("--watch", "--parallel", "5")

    assert (code, run.command.out) == (0, "region is empty\n")
    last = run.command.err.splitlines()[-1]
    assert last == "region: 8 instances placed elsewhere, 0 on their way, 0 wait, 0 stay"
    assert there(scene) == []
    assert child(scene)["state"] == "disabled"
    assert differences(scene.tree) == []


def test_without_room_the_command_ends_and_says_which_has_no_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = a_scene(tmp_path)
    full(scene, "leaf-b")
    full(scene, "root")
    run = Drains(scene, capsys)

    code = run("--watch", "--parallel", "1", "-o", "json")
    rows = json.loads(run.command.out)

    assert code == 1
    assert [row["error_code"] for row in rows] == ["no_valid_host"]
    assert len(there(scene)) == IN_REGION - 1


def test_without_room_no_more_leave_than_may_at_a_time_and_the_next_run_places_those_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # given
    scene = a_scene(tmp_path)
    full(scene, "leaf-b")
    full(scene, "root")
    run = Drains(scene, capsys)
    # when
    listed = []
    for _ in range(2):
        assert run("--watch", "--parallel", "2", "-o", "json") == 1
        listed.append({(row["id"], row["error_code"]) for row in json.loads(run.command.out)})
    stayed = len(there(scene))
    scene.tree.register("root", [a_host("r9", vcpus=24)])
    code = run("--watch", "--parallel", "2")
    # then
    assert listed[0] == listed[1]
    assert [reason for _, reason in listed[0]] == ["no_valid_host"] * 2
    assert stayed == IN_REGION - 2
    assert code == 0
    assert there(scene) == []
    assert differences(scene.tree) == []


def with_unplaced(folder: Path, count: int) -> tuple[Scene, set[str]]:
    """A child with servers for which there is room, and some that have left it and fit nowhere else."""
    scene = with_room(folder)
    root = scene.root.client()
    delete_all(scene.tree)
    scene.go_on(4)
    scene.tree.register("leaf-a", [a_host("rare", CUSTOM_RARE=count)])
    scene.tree.poll()
    rare = root.post("/flavors", {"flavor": {"name": "rare", "vcpus": 1, "ram": 1, "disk": 1}}).json["flavor"]
    root.post(f"/flavors/{rare['id']}/os-extra_specs", {"extra_specs": {"resources:CUSTOM_RARE": "1"}})
    boot(scene.tree, flavorRef=rare["id"], num_instances=count, name="rare")
    scene.go_on(4)
    set_state(scene, "disabled")
    assert len(drain(scene, count).json["drain"]["asked"]) == count
    scene.go_on(6)
    unplaced = {one["id"] for one in drain(scene, 0).json["drain"]["staying"]}
    assert len(unplaced) == count
    set_state(scene, "enabled")
    scene.tree.poll()
    boot(scene.tree)
    scene.go_on(4)
    assert there(scene)
    return scene, unplaced


@pytest.mark.parametrize("parallel", ["1", "4"])
def test_servers_that_fit_nowhere_hold_up_no_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], parallel: str
) -> None:
    # given more that fit nowhere than may be on their way at a time
    scene, unplaced = with_unplaced(tmp_path, 5)
    run = Drains(scene, capsys)
    # when
    code = run("--watch", "--parallel", parallel, "-o", "json")
    # then
    assert there(scene) == []
    assert (code, {row["id"] for row in json.loads(run.command.out)}) == (1, unplaced)
    assert differences(scene.tree) == []


def test_letting_one_leave_does_not_read_all_others_while_writers_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    scene = with_room(tmp_path)
    set_state(scene, "disabled")
    judged: list[int] = []
    judge = draining._judged

    def watched(zone: Zone, tx: Transaction, here: Sequence[draining._Here]) -> Any:
        judged.append(len(here))
        return judge(zone, tx, here)

    monkeypatch.setattr(draining, "_judged", watched)
    # when
    drain(scene, 1)
    # then the look reads all of them, and the transaction that writes the one that leaves
    assert judged == [IN_REGION, 1]


def test_the_like_of_those_that_fit_nowhere_stays_where_it_is(tmp_path: Path) -> None:
    # given servers in the child, and one without a place that asks for the same
    scene = with_room(tmp_path)
    full(scene, "leaf-b")
    full(scene, "root")
    set_state(scene, "disabled")
    drain(scene, 1)
    scene.go_on(6)
    # when more may leave
    found = scene.root.client().post(
        f"/zones/{child(scene)['id']}/action", {"drain": {"count": 100, "retry": False}}
    )
    # then none does
    said = found.json["drain"]
    assert (said["leaving"], said["waiting"], said["held_up"]) == (0, IN_REGION - 1, IN_REGION - 1)
    assert len(there(scene)) == IN_REGION - 1


def test_one_that_has_left_and_has_no_place_yet_is_on_its_way(tmp_path: Path) -> None:
    # given
    scene = with_room(tmp_path)
    set_state(scene, "disabled")
    first = drain(scene, 2).json["drain"]["asked"]
    # and a child that is not told yet that the zone needs the old places no more
    PendingCalls(scene.root.zone).step()
    for uuid in first:
        scene.tree.network.fault(scene.tree.nodes["region"].url, Dead(path=f"/servers/{uuid}"))
    while len(there(scene)) == IN_REGION:
        scene.go_on(1)
    # when
    found = drain(scene, 2).json["drain"]
    # then
    assert len(first) == 2
    assert (sorted(found["asked"] + found["on_their_way"]), found["waiting"]) == (first, IN_REGION - 2)


def test_a_drain_whose_answer_is_lost_follows_those_that_leave_and_lets_no_more_leave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # given a child, one server of which its owner has shelved
    scene = with_room(tmp_path)
    scene.act(there(scene)[0], {"shelve": None})
    servers = there(scene)
    run, most = Drains(scene, capsys), 0

    def count() -> None:
        nonlocal most
        # Those in the child that leave it, and those that have left it and have no place yet.
        under_way = [uuid for uuid in servers if any(result is None for _, result, _ in scene.results(uuid))]
        most = max(most, len(under_way))

    run.meanwhile = count
    # when the answer to a drain does not arrive, and the command is given again
    scene.tree.network.fault(scene.tree.nodes["root"].url, LostReply(path="/action", times=1))
    assert run("--watch", "--parallel", "3") == 3
    code = run("--watch", "--parallel", "3")
    # then
    assert (code, run.command.out) == (0, "region is empty\n")
    last = run.command.err.splitlines()[-1]
    assert last == "region: 7 instances placed elsewhere, 0 on their way, 0 wait, 0 stay"
    assert most == 3


def test_a_drain_ends_whatever_the_owners_of_its_servers_do_meanwhile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = with_room(tmp_path)
    run = Drains(scene, capsys)
    drained = there(scene)

    def work() -> None:
        for uuid in drained:
            scene.act(uuid, {"lock": None})
            scene.act(uuid, {"reboot": {"type": "HARD"}})

    run.meanwhile = work

    assert run("--watch", "--parallel", "5") == 0
    last = run.command.err.splitlines()[-1]
    assert last == "region: 8 instances placed elsewhere, 0 on their way, 0 wait, 0 stay"


def test_a_drain_lists_those_whose_leave_a_zone_below_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = with_room(tmp_path)
    scene.tree.nodes["region"].zone.conf.set_override("enable_zone_routing", False)
    run = Drains(scene, capsys)

    code = run("--watch", "--parallel", "1", "-o", "json")
    rows = json.loads(run.command.out)

    assert code == 1
    assert [row["error_code"] for row in rows] == ["zone_routing_disabled"]


def test_a_drain_of_a_child_that_is_away_does_not_end_until_it_is_stopped_and_goes_on_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = with_room(tmp_path)
    run = Drains(scene, capsys)
    url = scene.tree.nodes["region"].url
    scene.tree.network.fault(url, Dead())
    looks = iter(range(3))

    def until_stopped() -> None:
        scene.tree.poll()
        if next(looks, None) is None:
            raise KeyboardInterrupt

    run.meanwhile = until_stopped
    stopped = run("--watch", "--parallel", "5")
    shown = run.command.err
    there_still = len(there(scene))
    run.meanwhile = lambda: None
    scene.tree.network.heal(url)
    scene.tree.poll()

    assert stopped == 130
    assert "zonesched zone drain region --watch goes on" in shown
    assert "(last error of the child: child_unreachable)" in shown
    assert there_still == IN_REGION
    assert run("--watch", "--parallel", "5") == 0
    assert (there(scene), differences(scene.tree)) == ([], [])


def test_a_zone_that_goes_away_meanwhile_leaves_the_word_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = with_room(tmp_path)
    run = Drains(scene, capsys)
    url = scene.tree.nodes["root"].url
    run.meanwhile = lambda: scene.tree.network.fault(url, Dead())

    assert run("--watch", "--parallel", "1") == 3
    assert "zonesched zone drain region --watch goes on" in run.command.err
    assert "cannot be reached (zone_unreachable)" in run.command.err
    scene.tree.network.heal(url)
    run.meanwhile = lambda: None
    assert run("--watch", "--parallel", "5") == 0


@pytest.mark.parametrize("is_interrupted", [True, False], ids=["Ctrl-C", "no answer"])
def test_a_child_that_was_disabled_without_an_answer_leaves_the_word_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_interrupted: bool
) -> None:
    scene = with_room(tmp_path)
    run = Drains(scene, capsys)
    url = scene.tree.nodes["root"].url

    def interrupt(body: bytes) -> bytes:
        raise KeyboardInterrupt

    fault = Tamper(method="PUT", change=interrupt) if is_interrupted else LostReply(method="PUT")
    scene.tree.network.fault(url, fault)
    code = run("--watch", "--parallel", "5")
    scene.tree.network.heal(url)

    assert (code, child(scene)["state"]) == (130 if is_interrupted else 3, "disabled")
    assert "region may be disabled: zonesched zone drain region --watch goes on" in run.command.err
    assert run("--watch", "--parallel", "5") == 0


def test_a_drain_given_again_follows_those_that_have_left_and_have_no_place_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # given a child that all its servers have just left
    scene = with_room(tmp_path)
    set_state(scene, "disabled")
    drain(scene)
    while there(scene):
        scene.go_on(1)
    assert scene.statuses() != {"ACTIVE": 12}
    # when
    code = Drains(scene, capsys)("--watch")
    # then
    assert code == 0
    assert scene.statuses() == {"ACTIVE": 12}


def test_without_watching_the_command_says_how_many_are_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = with_room(tmp_path)
    run = Drains(scene, capsys)

    assert run("--parallel", "2") == 0
    assert run.command.out == "region has 8 instances left: --watch goes on\n"
    scene.go_on(6)
    assert len(there(scene)) == IN_REGION - 2


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["root", "region"])
def test_a_zone_killed_at_any_step(tmp_path: Path, victim: str) -> None:
    before = with_room(tmp_path)
    set_state(before, "disabled")
    kill_at, killed = 0, True
    while killed:
        kill_at += 3
        scene = Scene(before.tree.copy_to(tmp_path / str(kill_at)), before.reservation_id)
        scene.tree.poll()
        drain(scene, 2)
        seams = Seams(scene.tree, victim, kill_at)

        killed = settle_until_killed(scene.tree, seams)

        scene.recover()
        assert scene.statuses() == {"ACTIVE": 12}, f"killed at {kill_at}"
        assert len(there(scene)) == IN_REGION - 2, f"killed at {kill_at}"
        assert differences(scene.tree) == [], f"killed at {kill_at}"
    assert kill_at > 3


@pytest.mark.parametrize("action", [{"lock": None}, {"unlock": None}], ids=["lock", "unlock"])
def test_a_server_that_is_locked_while_it_leaves_is_placed_anew_all_the_same(
    tmp_path: Path, action: dict[str, None]
) -> None:
    # Given
    scene = with_room(tmp_path)
    set_state(scene, "disabled")
    scene.tree.poll()
    leaving = there(scene)
    drain(scene)

    # When its owner locks each server before the child has answered
    for uuid in leaving:
        assert scene.root.client().post(f"/servers/{uuid}/action", action).status == 202
    scene.go_on(4)

    # Then
    assert there(scene) == []
    assert counts(scene.tree, scene.reservation_id) == {"ACTIVE": 12}
