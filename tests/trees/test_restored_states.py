"""Images and flavors that servers got after the copy from which their zone was put back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import nothing_is_wrong
from tests.builders.real_agent import RealAgent, a_machine
from tests.builders.restored import Scene, a_scene
from tests.builders.wsgi_transport import Dead, Fault, Replace, Tamper
from zonesched.model.request_spec import Image
from zonesched.model.request_wire import image_to_wire
from zonesched.store import instances

pytestmark = pytest.mark.same_statements

LARGE = {"flavor": {"id": "large", "name": "large", "vcpus": 3, "ram": 3072, "disk": 20}}
LARGER = {"flavor": {"id": "larger", "name": "larger", "vcpus": 4, "ram": 4096, "disk": 20}}
NEWER = {"image": {"id": "newer", "name": "newer"}}
NEWEST = {"image": {"id": "newest", "name": "newest"}}
BODIES = (
    *(("/flavors", flavor) for flavor in (LARGE, LARGER)),
    *(("/images", image) for image in (NEWER, NEWEST)),
)
REBUILD, REBUILD_AGAIN = ({"rebuild": {"imageRef": name}} for name in ("newer", "newest"))
RESIZE, RESIZE_AGAIN = ({"resize": {"flavorRef": name}} for name in ("large", "larger"))
CONFIRM: dict[str, Any] = {"confirmResize": None}
ABOVE = ["root", "region"]
"""The zones that have a server in a child."""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = a_scene(tmp_path)
    for name in scene.tree.nodes:
        for url, body in BODIES:
            assert scene.admin(name).post(url, body).status in (200, 201)
    return scene


def ask(scene: Scene, uuid: str, action: dict[str, Any], zone: str = "root") -> None:
    answer = scene.admin(zone).post(f"/servers/{uuid}/action", action)
    assert answer.status in (202, 204), answer.body


def done(scene: Scene, uuid: str, *actions: dict[str, Any], zone: str = "root") -> None:
    for action in actions:
        ask(scene, uuid, action, zone)
        scene.work(8)


def shown(scene: Scene, uuid: str, zone: str) -> tuple[str, str, str]:
    """Status, image and flavor in a zone."""
    server = scene.admin(zone).get(f"/servers/{uuid}").json["server"]
    image = server["image"]["id"] if server["image"] else ""
    return (server["status"], image, server["flavor"]["original_name"])


def seen(scene: Scene, uuid: str) -> list[tuple[str, str, str]]:
    """Status, image and flavor in each zone, from the root down."""
    return [shown(scene, uuid, name) for name in scene.tree.nodes]


def counted_as(scene: Scene, uuid: str) -> set[tuple[str, str]]:
    """Flavor and image by which zones count the server, different ones alone."""
    zones = [node.zone for node in scene.tree.nodes.values()]
    rows = [zone.store.read(lambda tx: instances.read_by_uuid(tx, [uuid]))[uuid] for zone in zones]
    return {(row.flavor_id, row.image_key) for row in rows}


def at(status: str, image: str, flavor: str) -> list[tuple[str, str, str]]:
    return [(status, image, flavor)] * 3


def recovered_before_the_first_report(scene: Scene, zone: str, copy: Path) -> None:
    """Put the copy back and end the recovery; no child has been asked for its changes since."""
    scene.restore(zone, copy)
    scene.work(1)
    scene.agents["leaf"].work()
    scene.repair(zone)


def asked_what_it_has(scene: Scene) -> list[str]:
    return [sent.url for sent in scene.tree.network.sent if sent.url.endswith("/request")]


@pytest.mark.parametrize("zone", ABOVE)
def test_a_rebuild_after_the_copy_is_known_with_its_image(scene: Scene, zone: str) -> None:
    # given
    (uuid,) = scene.booted(1)
    copy = scene.copy(zone)
    done(scene, uuid, REBUILD)
    assert not asked_what_it_has(scene)
    # when
    scene.restore(zone, copy)
    scene.recovered(zone)
    # then
    assert seen(scene, uuid) == at("ACTIVE", "newer", "small")
    assert len(counted_as(scene, uuid)) == 1
    assert len(asked_what_it_has(scene)) == 1
    # and it is built with that image at its next place
    done(scene, uuid, {"shelve": None}, {"unshelve": None})
    assert seen(scene, uuid) == at("ACTIVE", "newer", "small")
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("zone", ABOVE)
def test_resizes_after_the_copy_are_known_with_their_flavor(scene: Scene, zone: str) -> None:
    # given a resize that was confirmed after the copy, and one that was not
    (uuid,) = scene.booted(1)
    copy = scene.copy(zone)
    done(scene, uuid, RESIZE, CONFIRM, RESIZE_AGAIN)
    # when
    scene.restore(zone, copy)
    scene.recovered(zone)
    # then
    assert seen(scene, uuid) == at("VERIFY_RESIZE", "", "larger")
    assert used_cores(scene) == 4
    # and a revert gives back what was confirmed
    done(scene, uuid, {"revertResize": None})
    assert seen(scene, uuid) == at("ACTIVE", "", "large")
    assert used_cores(scene) == 3
    assert len(counted_as(scene, uuid)) == 1
    nothing_is_wrong(scene.tree)


def used_cores(scene: Scene) -> int:
    """The sum of VCPUs that count for the quotas of the root's projects."""
    root = scene.admin("root")
    projects = {
        server["tenant_id"] for server in root.get("/servers/detail?all_tenants=true").json["servers"]
    }
    found = [root.get(f"/os-quota-sets/{name}/detail").json["quota_set"] for name in projects]
    return sum(int(one["cores"]["in_use"]) for one in found)


@pytest.mark.parametrize("zone", [*ABOVE, "leaf"])
@pytest.mark.parametrize("is_rebuilt", [True, False])
def test_an_action_before_the_first_report_leaves_the_image_and_the_flavor(
    scene: Scene, zone: str, is_rebuilt: bool
) -> None:
    # given a zone that has recovered, and was not told yet of a rebuild and a resize
    (uuid,) = scene.booted(1)
    copy = scene.copy(zone)
    done(scene, uuid, *([REBUILD] if is_rebuilt else []), RESIZE, CONFIRM)
    recovered_before_the_first_report(scene, zone, copy)
    # when its owner stops and starts the server
    done(scene, uuid, {"os-stop": None}, {"os-start": None})
    # then all know what it has
    assert seen(scene, uuid) == at("ACTIVE", "newer" if is_rebuilt else "", "large")
    assert len(counted_as(scene, uuid)) == 1
    nothing_is_wrong(scene.tree)


def test_a_resize_before_the_first_report_begins_after_those_that_the_copy_lacks(scene: Scene) -> None:
    # given a root that has recovered, and was not told yet of a resize
    (uuid,) = scene.booted(1)
    copy = scene.copy("root")
    done(scene, uuid, RESIZE, CONFIRM)
    recovered_before_the_first_report(scene, "root", copy)
    # when
    done(scene, uuid, RESIZE_AGAIN)
    resized = seen(scene, uuid)
    done(scene, uuid, {"revertResize": None})
    # then
    assert resized == at("VERIFY_RESIZE", "", "larger")
    assert seen(scene, uuid) == at("ACTIVE", "", "large")
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("zone", ABOVE)
def test_a_server_at_a_later_place_than_the_copy_has_is_known_as_it_is(scene: Scene, zone: str) -> None:
    # given a server that was rebuilt before the copy, and has another image, flavor and place since
    (uuid,) = scene.booted(1)
    done(scene, uuid, REBUILD)
    copy = scene.copy(zone)
    done(scene, uuid, REBUILD_AGAIN, RESIZE, CONFIRM, {"shelve": None}, {"unshelve": None})
    # when
    scene.restore(zone, copy)
    scene.recovered(zone)
    # then
    assert seen(scene, uuid) == at("ACTIVE", "newest", "large")
    assert len(counted_as(scene, uuid)) == 1
    assert used_cores(scene) == 3
    nothing_is_wrong(scene.tree)


def test_a_rebuild_under_way_at_the_copy_of_its_parent_is_known_with_its_image(scene: Scene) -> None:
    # given a rebuild that the child has accepted since the copy, and its agent has not heard of
    (uuid,) = scene.booted(1)
    copy = scene.copy("root")
    done(scene, uuid, REBUILD)
    ask(scene, uuid, REBUILD_AGAIN)
    scene.tree.poll(2)
    scene.tree.settle()
    # when
    scene.restore("root", copy)
    scene.recovered("root")
    scene.work(6)
    # then
    assert seen(scene, uuid) == at("ACTIVE", "newest", "small")
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("zone", ABOVE)
def test_a_resize_that_was_confirmed_after_the_copy_is_not_reverted(scene: Scene, zone: str) -> None:
    # given
    (uuid,) = scene.booted(1)
    done(scene, uuid, RESIZE)
    copy = scene.copy(zone)
    done(scene, uuid, CONFIRM)
    recovered_before_the_first_report(scene, zone, copy)
    # when its owner reverts it
    reverted = scene.admin("root").post(f"/servers/{uuid}/action", {"revertResize": None})
    scene.work(8)
    # then
    assert reverted.status == 409
    assert seen(scene, uuid) == at("ACTIVE", "", "large")
    assert used_cores(scene) == 3
    assert scene.claimed_vcpus("leaf") == 3
    nothing_is_wrong(scene.tree)


def test_a_server_that_the_copy_lacks_is_known_with_its_image_and_flavor(scene: Scene) -> None:
    copy = scene.copy("root")
    (uuid,) = scene.booted(1)
    done(scene, uuid, REBUILD, RESIZE, CONFIRM)

    scene.restore("root", copy)
    scene.recovered("root")

    assert seen(scene, uuid) == at("ACTIVE", "newer", "large")
    assert len(counted_as(scene, uuid)) == 1
    assert used_cores(scene) == 3
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize(
    "fault",
    [
        Dead(path="/request"),
        Replace(path="/request", status=404, body=b"<html>Not Found</html>"),
        Tamper(path="/request", change=lambda body: body.replace(b'"settled"', b'"set"')),
    ],
)
def test_a_recovery_waits_until_the_child_says_what_its_server_has(scene: Scene, fault: Fault) -> None:
    # given a rebuild since the copy, and a child that does not answer what the server has
    (uuid,) = scene.booted(1)
    copy = scene.copy("root")
    done(scene, uuid, REBUILD)
    url = scene.tree.nodes["region"].url
    scene.tree.network.fault(url, fault)
    scene.restore("root", copy)
    scene.recovered("root")
    waiting = (scene.health("root"), seen(scene, uuid)[0])
    # when
    scene.tree.network.heal(url)
    scene.recovered("root")
    # then
    assert waiting == ("recovering", ("ACTIVE", "", "small"))
    assert seen(scene, uuid) == at("ACTIVE", "newer", "small")


def test_a_server_that_went_to_another_child_is_known_with_the_flavor_of_its_request_there(
    scene: Scene,
) -> None:
    # given a server that was resized after the copy, and was unshelved in another child since
    scene.tree.add("other", parent="root")
    scene.tree.poll()
    (uuid,) = scene.booted(1)
    copy = scene.copy("root")
    done(scene, uuid, RESIZE, CONFIRM, {"shelve": None})
    leaf = scene.admin("leaf")
    for host in leaf.get("/os-hypervisors").json["hypervisors"]:
        leaf.call("PUT", f"/os-services/{host['id']}", {"status": "disabled"})
    scene.agents["other"] = RealAgent(scene.tree, "other", [a_machine("o1")])
    scene.work()
    done(scene, uuid, {"unshelve": None})
    assert scene.agents["other"].uuids() == {uuid}
    # when
    scene.restore("root", copy)
    scene.recovered("root")
    # then
    shown = scene.admin("root").get(f"/servers/{uuid}").json["server"]
    assert (shown["status"], shown["flavor"]["original_name"]) == ("ACTIVE", "large")
    assert used_cores(scene) == 3


@pytest.mark.parametrize("zone", ["root", "leaf"])
def test_the_end_of_a_recovery_knows_what_was_done_since_the_copy(scene: Scene, zone: str) -> None:
    # given a server, in a child or on an own host, that was stopped after the copy
    (uuid,) = scene.booted(1, zone)
    copy = scene.copy(zone)
    done(scene, uuid, {"os-stop": None}, zone=zone)
    # when
    recovered_before_the_first_report(scene, zone, copy)
    # then
    assert shown(scene, uuid, zone) == ("SHUTOFF", "", "small")
    # and it may be started at once
    done(scene, uuid, {"os-start": None}, zone=zone)
    assert shown(scene, uuid, zone) == ("ACTIVE", "", "small")
    nothing_is_wrong(scene.tree)


def test_an_action_is_numbered_above_one_that_was_under_way_in_the_child(scene: Scene) -> None:
    # given a reboot after the copy that the child has taken, and its agent not
    (uuid,) = scene.booted(1)
    copy = scene.copy("root")
    done(scene, uuid, REBUILD)
    ask(scene, uuid, {"reboot": {"type": "HARD"}})
    scene.tree.poll(2)
    scene.tree.settle()
    recovered_before_the_first_report(scene, "root", copy)
    # when
    done(scene, uuid, {"os-stop": None})
    # then
    assert seen(scene, uuid) == at("SHUTOFF", "newer", "small")
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("zone", ["root", "leaf"])
def test_an_action_is_numbered_above_those_that_the_copy_lacks(scene: Scene, zone: str) -> None:
    # given a server that was rebuilt after the copy
    (uuid,) = scene.booted(1, zone)
    copy = scene.copy(zone)
    done(scene, uuid, REBUILD, zone=zone)
    recovered_before_the_first_report(scene, zone, copy)
    # when its first rebuild by these rows is asked for
    done(scene, uuid, REBUILD_AGAIN, zone=zone)
    # then it is the second
    assert shown(scene, uuid, zone) == ("ACTIVE", "newest", "small")
    assert scene.agents["leaf"].rebuilds(uuid) == 2
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("is_reported_first", [False, True])
def test_a_restored_leaf_is_told_the_image_of_a_rebuild_that_its_parent_has_not_seen(
    scene: Scene, is_reported_first: bool
) -> None:
    # given a rebuild after the copy, of which the leaf has not reported that it is done
    (uuid,) = scene.booted(1)
    copy = scene.copy("leaf")
    ask(scene, uuid, REBUILD)
    scene.tree.settle(1)
    scene.agents["leaf"].work()
    # when it recovers, and its agent reports before its parent tells it, or after that
    recovered_before_the_first_report(scene, "leaf", copy)
    if is_reported_first:
        scene.agents["leaf"].work()
    scene.work(6)
    # then
    assert seen(scene, uuid) == at("ACTIVE", "newer", "small")
    assert len(counted_as(scene, uuid)) == 1
    nothing_is_wrong(scene.tree)


def test_a_restored_leaf_takes_such_an_image_whatever_else_the_call_tells(scene: Scene) -> None:
    # given a rebuild of which a restored leaf knows the count, and a server on which nobody has acted
    uuid, other = scene.booted(2)
    copy = scene.copy("leaf")
    ask(scene, uuid, REBUILD)
    scene.tree.settle(1)
    scene.agents["leaf"].work()
    recovered_before_the_first_report(scene, "leaf", copy)
    scene.agents["leaf"].work()
    # when its parent tells both
    common = {"attempt": 1, "generation": 1, "power": "running", "reboots": 0, "reboot_type": "SOFT"}
    lines = [{"uuid": other, **common}, {"uuid": uuid, **common, "rebuilds": 1, "image": 0}]
    body = {"servers": lines, "images": [image_to_wire(Image("newer", "newer"))]}
    answer = scene.tree.nodes["leaf"].client("parent-region").post("/servers/desired", body)
    # then
    assert answer.status == 200, answer.body
    assert shown(scene, uuid, "leaf") == ("ACTIVE", "newer", "small")


@pytest.mark.parametrize("before_the_copy", [[], [REBUILD_AGAIN]])
@pytest.mark.parametrize("zones", [["leaf"], ["region", "leaf"]])
def test_a_restored_leaf_is_told_the_image_of_a_rebuild_that_it_lacks(
    scene: Scene, zones: list[str], before_the_copy: list[dict[str, Any]]
) -> None:
    # given a rebuild after the copy, of which those above know that it is done, and a server without one
    _, uuid = sorted(scene.booted(2))
    done(scene, uuid, *before_the_copy)
    copies = {zone: scene.copy(zone) for zone in zones}
    done(scene, uuid, REBUILD)
    # when
    for zone, copy in copies.items():
        scene.restore(zone, copy)
    for zone in reversed(zones):
        scene.recovered(zone)
    scene.work(6)
    # then
    assert seen(scene, uuid) == at("ACTIVE", "newer", "small")
    assert len(counted_as(scene, uuid)) == 1
    # and its agent has rebuilt it no second time
    assert scene.agents["leaf"].rebuilds(uuid) == 1 + len(before_the_copy)
    nothing_is_wrong(scene.tree)


def test_a_second_resize_waits_for_the_end_of_one_that_the_copy_lacks(scene: Scene) -> None:
    # given a resize after the copy that is neither confirmed nor reverted
    (uuid,) = scene.booted(1)
    copy = scene.copy("root")
    done(scene, uuid, RESIZE)
    recovered_before_the_first_report(scene, "root", copy)
    # when
    refused = scene.admin("root").post(f"/servers/{uuid}/action", RESIZE_AGAIN)
    # then
    assert (refused.status, seen(scene, uuid)) == (409, at("VERIFY_RESIZE", "", "large"))
    # and
    done(scene, uuid, CONFIRM, RESIZE_AGAIN, CONFIRM)
    assert seen(scene, uuid) == at("ACTIVE", "", "larger")
    nothing_is_wrong(scene.tree)
