"""Servers that were resized since the copy from which their zone is put back, once or more."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, nothing_is_wrong
from tests.builders.restored import Scene, a_scene
from zonesched.store import instances

pytestmark = pytest.mark.same_statements

NAMES = ("large", "larger")
RESIZE, RESIZE_AGAIN = ({"resize": {"flavorRef": name}} for name in NAMES)
CONFIRM: dict[str, Any] = {"confirmResize": None}
REVERT: dict[str, Any] = {"revertResize": None}
REBUILD: dict[str, Any] = {"rebuild": {"imageRef": "newer"}}
SHELVE, UNSHELVE = ({name: None} for name in ("shelve", "unshelve"))
VCPUS = {"small": 2, "large": 4, "larger": 6}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = a_scene(tmp_path)
    for zone in scene.tree.nodes:
        for name in NAMES:
            flavor = {**FLAVOR["flavor"], "id": name, "name": name, "vcpus": VCPUS[name]}
            assert scene.admin(zone).post("/flavors", {"flavor": flavor}).status in (200, 201)
        newer = {"image": {"id": "newer", "name": "newer"}}
        assert scene.admin(zone).post("/images", newer).status == 201
    return scene


def done(scene: Scene, zone: str, uuid: str, *actions: dict[str, Any]) -> None:
    for action in actions:
        answer = scene.admin(zone).post(f"/servers/{uuid}/action", action)
        assert answer.status in (202, 204), answer.body
        scene.work(8)


def shown(scene: Scene, zone: str, uuid: str) -> tuple[str, str]:
    server = scene.admin(zone).get(f"/servers/{uuid}").json["server"]
    return (server["status"], server["flavor"]["original_name"])


def restored_twice(scene: Scene, zone: str, copy: Path, uuid: str) -> list[tuple[int, tuple[str, str], str]]:
    """Claims, status and flavor, and the flavor that counts, after each of two restores of one copy."""
    flavors = [one for name in scene.tree.nodes for one in scene.admin(name).get("/flavors").json["flavors"]]
    names = {one["id"]: one["name"] for one in flavors}
    found = []
    for _ in range(2):
        once = Path(shutil.copy(copy, copy.with_suffix(".once")))
        scene.restore(zone, once)
        scene.recovered(zone)
        scene.work(8)
        row = scene.tree.nodes["leaf"].zone.store.read(lambda tx: instances.read_by_uuid(tx, [uuid]))[uuid]
        found.append((scene.claimed_vcpus("leaf"), shown(scene, "leaf", uuid), names[row.flavor_id]))
    return found


@pytest.mark.parametrize(
    ("since", "flavor"),
    [
        ((RESIZE, CONFIRM), "large"),
        ((REBUILD, RESIZE, CONFIRM), "large"),
        ((RESIZE, CONFIRM, RESIZE_AGAIN), "larger"),
        ((RESIZE, CONFIRM, SHELVE, UNSHELVE), "large"),
        ((RESIZE, REVERT), "small"),
        ((RESIZE,), "large"),
    ],
    ids=lambda given: given if isinstance(given, str) else ",".join(next(iter(one)) for one in given),
)
@pytest.mark.parametrize("owner", ["root", "leaf"])
def test_a_server_that_was_resized_keeps_its_claims_and_its_flavor_after_each_restore_of_its_zone(
    scene: Scene, owner: str, since: tuple[dict[str, Any], ...], flavor: str
) -> None:
    # given
    (uuid,) = scene.booted(1, owner)
    copy = scene.copy("leaf")
    done(scene, owner, uuid, *since)
    # when
    found = restored_twice(scene, "leaf", copy, uuid)
    # then a resize that the copy lacks is over
    assert found == [(VCPUS[flavor], ("ACTIVE", flavor), flavor)] * 2
    # and it has that flavor at its next place
    if owner == "leaf":
        done(scene, owner, uuid, SHELVE, UNSHELVE)
        assert (scene.claimed_vcpus("leaf"), shown(scene, "leaf", uuid)[1]) == (VCPUS[flavor], flavor)
        nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("zone", ["root", "region"])
def test_a_server_that_was_resized_keeps_its_flavor_after_each_restore_of_a_zone_above(
    scene: Scene, zone: str
) -> None:
    # given
    (uuid,) = scene.booted(1)
    copy = scene.copy(zone)
    done(scene, "root", uuid, RESIZE, CONFIRM)
    # when
    found = restored_twice(scene, zone, copy, uuid)
    # then
    assert found == [(4, ("ACTIVE", "large"), "large")] * 2
    assert [shown(scene, name, uuid) for name in scene.tree.nodes] == [("ACTIVE", "large")] * 3
    nothing_is_wrong(scene.tree)


def test_an_adopted_server_has_the_flavor_of_its_agent_and_not_of_its_boot(scene: Scene) -> None:
    # given a server that was booted and resized after the copy
    copy = scene.copy("leaf")
    (uuid,) = scene.booted(1)
    done(scene, "root", uuid, RESIZE, CONFIRM)
    # when
    found = restored_twice(scene, "leaf", copy, uuid)
    # then
    assert found == [(4, ("ACTIVE", "large"), "large")] * 2
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("zones", [("leaf", "region"), ("leaf", "region", "root")])
def test_zones_that_were_restored_together_learn_the_flavor_from_below(
    scene: Scene, zones: tuple[str, ...]
) -> None:
    # given
    (uuid,) = scene.booted(1)
    copies = {zone: scene.copy(zone) for zone in zones}
    done(scene, "root", uuid, RESIZE, CONFIRM)
    # when
    for zone, copy in copies.items():
        scene.restore(zone, copy)
    for zone in zones:
        scene.recovered(zone)
    scene.work(8)
    # then
    assert [shown(scene, name, uuid) for name in scene.tree.nodes] == [("ACTIVE", "large")] * 3
    assert scene.claimed_vcpus("leaf") == 4
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("is_open", [True, False])
def test_a_flavor_that_no_resize_of_the_copy_has_is_known(scene: Scene, is_open: bool) -> None:
    # given a copy in which a resize waits for its owner, or was just asked for
    (uuid,) = scene.booted(1, "leaf")
    assert scene.admin("leaf").post(f"/servers/{uuid}/action", RESIZE).status == 202
    scene.work(8) if is_open else scene.tree.settle()
    copy = scene.copy("leaf")
    scene.work(8)
    # and another resize since
    done(scene, "leaf", uuid, CONFIRM, RESIZE_AGAIN, CONFIRM)
    # when
    found = restored_twice(scene, "leaf", copy, uuid)
    # then
    assert found == [(6, ("ACTIVE", "larger"), "larger")] * 2
    nothing_is_wrong(scene.tree)


def test_a_resize_that_is_built_after_the_first_restore_keeps_its_claims_after_the_second(
    scene: Scene,
) -> None:
    # given a resize that the copy lacks, whose new place is being built
    (uuid,) = scene.booted(1, "leaf")
    copy = scene.copy("leaf")
    scene.agents["leaf"].builds(seconds=300.0)
    assert scene.admin("leaf").post(f"/servers/{uuid}/action", RESIZE).status == 202
    scene.work(2)
    scene.restore("leaf", Path(shutil.copy(copy, copy.with_suffix(".first"))))
    scene.recovered("leaf")
    scene.agents["leaf"].builds()
    scene.tree.clock.advance(300.0)
    scene.work(8)
    assert (scene.claimed_vcpus("leaf"), len(scene.agents["leaf"].running)) == (4, 1)
    # when
    scene.restore("leaf", copy)
    scene.recovered("leaf")
    # then
    assert scene.claimed_vcpus("leaf") == 4
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("owner", ["root", "region", "leaf"])
@pytest.mark.parametrize("is_built", [True, False], ids=["built at the copy", "being built at the copy"])
def test_a_resize_that_was_confirmed_since_the_copy_is_over_and_is_not_reverted(
    scene: Scene, owner: str, is_built: bool
) -> None:
    # given a copy of when both places of a resized server were kept, and a confirm since
    (uuid,) = scene.booted(1, owner)
    if not is_built:
        scene.agents["leaf"].builds(seconds=300.0)
    assert scene.admin(owner).post(f"/servers/{uuid}/action", RESIZE).status == 202
    scene.work(2 if not is_built else 8)
    copy = scene.copy("leaf")
    scene.agents["leaf"].builds()
    scene.tree.clock.advance(300.0)
    scene.work(8)
    done(scene, owner, uuid, CONFIRM)
    (there,) = scene.agents["leaf"].running
    # when
    found = restored_twice(scene, "leaf", copy, uuid)
    # then
    assert found == [(4, ("ACTIVE", "large"), "large")] * 2
    assert shown(scene, owner, uuid) == ("ACTIVE", "large")
    # and its owner cannot revert it to what its old host has deleted
    assert scene.admin(owner).post(f"/servers/{uuid}/action", REVERT).status == 409
    scene.work(8)
    assert scene.agents["leaf"].running == {there}
    done(scene, owner, uuid, RESIZE_AGAIN, CONFIRM)
    assert shown(scene, owner, uuid) == ("ACTIVE", "larger")
    nothing_is_wrong(scene.tree)


def test_what_a_restored_zone_keeps_for_a_resize_that_is_over_claims_nothing_after_its_recovery(
    scene: Scene,
) -> None:
    # given a copy of when a resize waited for its owner, who confirmed it, and another one that waits now
    (uuid,) = scene.booted(1, "leaf")
    done(scene, "leaf", uuid, RESIZE)
    copy = scene.copy("leaf")
    done(scene, "leaf", uuid, CONFIRM, RESIZE_AGAIN)
    # when
    scene.restore("leaf", copy)
    found = scene.recovered("leaf")[0]
    scene.work(8)
    # then the operator reads on which host it is
    host = scene.admin("leaf").get(f"/servers/{uuid}").json["server"]["OS-EXT-SRV-ATTR:host"]
    assert found["detail"] == f"agent agent on host {host} has it"
    assert (scene.claimed_vcpus("leaf"), shown(scene, "leaf", uuid)) == (6, ("ACTIVE", "larger"))
    assert scene.audit("leaf") == []
    nothing_is_wrong(scene.tree)
