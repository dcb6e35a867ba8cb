"""OpenStack's own clients, unmodified, drive a tree of two real zones through its root."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest

from tests.builders.client_stories import STORIES, Refused
from tests.builders.demo_tree import two_zones
from tests.builders.openstack_clients import Clients, Reply, admin_clients
from zonesched.demo.run import DemoRun

pytestmark = [pytest.mark.slow, pytest.mark.once]

IMAGES = [{"name": name, "properties": {"os": "linux"}} for name in ("plain", "newer")]
FLAVOR = {"name": "small", "vcpus": 1, "ram": 64, "disk": 1}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoRun]:
    """A root and a leaf, both with hosts and agents."""
    with two_zones(tmp_path_factory.mktemp("clients"), hosts=4) as run:
        root = run.admin(run.root)
        for image in IMAGES:
            root.call("POST", "/images", {"image": image})
        root.call("POST", "/flavors", {"flavor": FLAVOR})
        yield run


@pytest.fixture(scope="module")
def clients(tree: DemoRun, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """The clients as the root's admin."""
    with admin_clients(tree, tmp_path_factory.mktemp("clouds")) as found:
        yield found


def reply_to(clients: Clients, line: str) -> Reply:
    client, *words = shlex.split(line)
    match client:
        case "openstack":
            return clients.openstack(*words)
        case "nova":
            return clients.nova(*words)
        case "WAIT":
            clients.sdk("wait_for_server", clients.sdk("find_server", words[0])["id"], words[1])
            return Reply(0, "", "")
    raise AssertionError(line)


@pytest.mark.parametrize("story", STORIES)
def test_command_lines_do_what_they_say(tree: DemoRun, clients: Clients, story: str) -> None:
    image = clients.sdk("find_image", "plain")

    for line, expected in STORIES[story]:
        reply = reply_to(clients, line.format(image=image["id"]))

        match expected:
            case Refused(pattern):
                assert reply.code != 0, line
                assert re.search(pattern, reply.err), (line, reply)
            case pattern:
                assert reply.code == 0, (line, reply)
                assert re.search(pattern, reply.out.strip(), re.MULTILINE), (line, reply)


def test_openstacksdk_drives_a_server_in_the_lowest_zone(clients: Clients) -> None:
    image, newer = clients.sdk("find_image", "plain"), clients.sdk("find_image", "newer")
    flavor = clients.sdk("find_flavor", "small")
    made = clients.sdk(
        "create_server",
        name="sdk",
        flavor_id=flavor["id"],
        image_id=image["id"],
        networks="none",
        availability_zone="leaf-rack-1",
        metadata={"a": "b"},
    )
    id = made["id"]
    larger = clients.sdk("create_flavor", name="larger", vcpus=2, ram=128, disk=2)

    assert clients.sdk("wait_for_server", id)["status"] == "ACTIVE"
    for action, args, status in (
        ("stop_server", [], "SHUTOFF"),
        ("start_server", [], "ACTIVE"),
        ("reboot_server", ["HARD"], "ACTIVE"),
        ("pause_server", [], "PAUSED"),
        ("unpause_server", [], "ACTIVE"),
        ("rebuild_server", [newer["id"]], "ACTIVE"),
        ("resize_server", [larger["id"]], "VERIFY_RESIZE"),
        ("revert_server_resize", [], "ACTIVE"),
        ("resize_server", [larger["id"]], "VERIFY_RESIZE"),
        ("confirm_server_resize", [], "ACTIVE"),
        ("shelve_server", [], "SHELVED_OFFLOADED"),
        ("unshelve_server", [], "ACTIVE"),
    ):
        clients.sdk(action, id, *args)
        assert clients.sdk("wait_for_server", id, status)["status"] == status
    assert [one["name"] for one in clients.sdk("servers", name="sdk")] == ["sdk"]
    clients.sdk("set_server_metadata", id, c="d")
    clients.sdk("add_tag_to_server", id, "t")
    found = clients.sdk("get_server", id)
    assert (found["metadata"], found["tags"]) == ({"a": "b", "c": "d"}, ["t"])
    assert found["image"]["id"] == newer["id"]
    assert found["flavor"]["original_name"] == "larger"
    assert [one["action"] for one in clients.sdk("server_actions", id)][-1] == "create"
    clients.sdk("delete_server", id)
    clients.sdk("delete_flavor", larger["id"])
    assert clients.sdk("find_server", "sdk") is None
