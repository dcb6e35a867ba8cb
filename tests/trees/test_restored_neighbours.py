"""The neighbours of a restored zone: those that lie, those that are two, and its own loops."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import nothing_is_wrong
from tests.builders.child_app import ChildApp, an_info
from tests.builders.inline_executor import InlineExecutor
from tests.builders.restored import Scene, a_scene
from tests.builders.tree import Node
from zonesched.model.views import ChildForm
from zonesched.seams import ThreadExecutor
from zonesched.services import background
from zonesched.services.children import children

LIAR = "http://127.0.0.1:7999"
ANOTHER = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return a_scene(tmp_path)


def test_two_zones_that_answer_as_one_are_refused_by_parent_and_agent(scene: Scene) -> None:
    """A machine was cloned with its zone, and requests reach now one, now the other."""
    (uuid,) = scene.booted(1)
    network, leaf = scene.tree.network, scene.tree.nodes["leaf"]
    clone = scene.tree.copy_to(scene.tree.folder / "clone").nodes["leaf"]
    region = scene.tree.nodes["region"].client()

    def answers_as(node: Node) -> str:
        network.mount(leaf.url, node.app)
        scene.tree.poll(1)
        return str(region.get("/zones/detail").json["zones"][0]["last_error"])

    said = [answers_as(node) for node in (leaf, clone, leaf, clone, leaf)]
    running = scene.agents["leaf"].running
    for node in (leaf, clone, leaf, clone):
        network.mount(leaf.url, node.app)
        scene.agents["leaf"].work()
    assert clone.client().delete(f"/servers/{uuid}").status == 204
    scene.agents["leaf"].work()

    assert said == ["", "", "child_cloned", "child_cloned", "child_cloned"]
    assert scene.agents["leaf"].running == running
    scene.tree.restart("leaf")
    scene.work()
    assert region.get("/zones/detail").json["zones"][0]["last_error"] == ""
    assert scene.agents["leaf"].running == running
    assert scene.servers() == {uuid: "ACTIVE"}


def test_a_zone_that_starts_again_is_no_clone(scene: Scene) -> None:
    for _ in range(3):
        scene.tree.restart("leaf")
        scene.work(1)

    scene.booted(1)


@pytest.mark.parametrize("is_parent_restored", [False, True])
def test_a_child_that_hangs_in_a_talk_about_a_restore_keeps_one_thread_and_no_poll(
    scene: Scene, is_parent_restored: bool
) -> None:
    # given a child that says it was restored, or is to say what it has, and hangs
    liar, over, executor = ChildApp(), threading.Event(), ThreadExecutor()
    children.add(scene.tree.nodes["region"].zone, ChildForm("liar", LIAR, "parent", "secret"))
    if is_parent_restored:
        scene.restore("region", scene.copy("region"))
    region = scene.tree.nodes["region"].zone
    liar.answers("GET", "/zones/info", 200, an_info(1, recovering=not is_parent_restored))

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        told = liar(environ, start_response)
        if environ["PATH_INFO"] != "/zones/info":
            over.wait(30)
        return told

    scene.tree.network.mount(LIAR, answer)
    region.conf.set_override("retry_pause", 0.05)
    zone = replace(region, executor=executor)
    # when
    for _ in range(4):
        background.poll_children(zone)
    asked = Counter(one.path for one in liar.asked)
    over.set()
    executor.stop()
    # then
    hanging = "/reservations" if is_parent_restored else "/servers/named"
    assert asked == {"/zones/info": 4, hanging: 1}


def test_no_loop_of_a_restored_zone_acts_before_its_operator_says_so(scene: Scene) -> None:
    scene.booted(1, "leaf")
    scene.restore("leaf", scene.copy("leaf"))
    zone = scene.tree.nodes["leaf"].zone
    executor = InlineExecutor()
    background.start(replace(zone, executor=executor))
    told = {loop.name: loop.step() for loop in executor.loops}

    assert {name for name, pause_s in told.items() if pause_s == background.RESTORED_PAUSE_S} >= {
        "boot-0",
        "calls",
        "build-timeouts",
        "moves",
        "resize-confirms",
        "pruning",
        "fences",
        "sync",
    }
    # These ask or tell only what is true of the zone now.
    assert told.keys() - {"children", "clock-difference", "heartbeats", "own-service"} <= {
        name for name, pause_s in told.items() if pause_s == background.RESTORED_PAUSE_S
    }


def test_an_instance_that_two_parents_name_is_given_to_neither(scene: Scene) -> None:
    """A parent that lies knows a uuid that it should not know."""
    scene.tree.add("liar")
    scene.tree.join("liar", "leaf")
    copy = scene.copy("leaf")
    (uuid,) = scene.booted(1)
    scene.restore("leaf", copy)
    for agent in scene.agents.values():
        agent.work()
    spec = json.loads(scene.sent_builds("leaf")[-1].body)["request_spec"]
    named = {"reservation_id": ANOTHER, "request_spec": spec, "builds": [{"uuid": uuid, "attempt": 1}]}
    liar = scene.tree.nodes["leaf"].client("parent-liar")

    answer = liar.post("/servers/named", {"boots": [named], "last": True})
    scene.recovered("leaf")

    assert (answer.status, answer.json) == (200, {"taken": True})
    assert liar.get(f"/servers/{uuid}").status == 404
    assert scene.agents["leaf"].uuids() == {uuid}
    assert {line["kind"] for line in scene.audit("leaf")} == {"instance_unknown_here"}


def test_what_does_not_fit_any_more_runs_on_and_is_listed(scene: Scene) -> None:
    copy = scene.copy("leaf")
    new = scene.booted(2)
    scene.restore("leaf", copy)
    scene.work(1)
    for host in scene.tree.nodes["leaf"].client().get("/os-hypervisors/detail").json["hypervisors"]:
        shrunk = {"hypervisor": {"resources": {"VCPU": {"reserved": 15}}}}
        assert scene.admin("leaf").call("PUT", f"/os-hypervisors/{host['id']}", shrunk).status == 200
    scene.repair("leaf")
    scene.work()

    assert scene.agents["leaf"].uuids() == new
    assert scene.claimed_vcpus("leaf") == 0
    assert {line["kind"] for line in scene.audit("leaf")} == {"instance_unknown_here"}
    assert {line["kind"] for line in scene.audit("region")} == {"child_lacks_instance"}


@pytest.mark.parametrize("zone", ["root", "region", "leaf"])
def test_an_action_that_was_done_after_the_copy_counts_as_done(scene: Scene, zone: str) -> None:
    (uuid,) = scene.booted(1)
    copy = scene.copy(zone)
    scene.act(uuid, "os-stop")
    assert scene.servers() == {uuid: "SHUTOFF"}

    scene.restore(zone, copy)
    scene.recovered(zone)

    assert {name: scene.servers(name) for name in scene.tree.nodes} == {
        key: {uuid: "SHUTOFF"} for key in scene.tree.nodes
    }
    scene.act(uuid, "os-start")
    assert scene.servers() == {uuid: "ACTIVE"}
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("zone", ["root", "region", "leaf"])
def test_an_attempt_that_was_made_after_the_copy_is_the_one_that_runs(scene: Scene, zone: str) -> None:
    """Shelved and unshelved, it runs under another attempt in every zone."""
    (uuid,) = scene.booted(1)
    copy = scene.copy(zone)
    scene.act(uuid, "shelve")
    scene.act(uuid, "unshelve")
    running = scene.agents["leaf"].running
    assert [key.attempt for key in running] == [2]

    scene.restore(zone, copy)
    scene.recovered(zone)

    assert scene.agents["leaf"].running == running
    assert scene.servers() == {uuid: "ACTIVE"}
    assert scene.claimed_vcpus("leaf") == 2
    nothing_is_wrong(scene.tree)
    scene.delete({uuid})
    assert scene.agents["leaf"].running == set()
    assert scene.claimed_vcpus("leaf") == 0
