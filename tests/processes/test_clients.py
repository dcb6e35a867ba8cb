"""OpenStack's own clients, unmodified, drive a tree of two real zones through its root."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.builders.client_output import printed, reply_to
from tests.builders.client_rows import ZoneRows
from tests.builders.client_stories import STORIES
from tests.builders.client_story_lines import Printed, Refused
from tests.builders.demo_tree import two_zones
from tests.builders.forms import mismatches
from tests.builders.openstack_clients import Clients, Reply, admin_clients
from zonesched.demo.run import DemoRun

pytestmark = [pytest.mark.slow, pytest.mark.once]

IMAGES = [{"name": name, "properties": {"os": "linux"}} for name in ("plain", "newer", "spare")]
FLAVOR = {"name": "small", "vcpus": 1, "ram": 64, "disk": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clients")


@pytest.fixture(scope="module")
def tree(folder: Path) -> Iterator[DemoRun]:
    """A root and a leaf, both with hosts and agents."""
    with two_zones(folder, hosts=4) as run:
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


@pytest.fixture(scope="module")
def zone_rows(folder: Path) -> Iterator[ZoneRows]:
    """The rows of the root."""
    with closing(ZoneRows(folder / "root" / "zone.sqlite")) as found:
        yield found


def said(clients: Clients, zone_rows: ZoneRows, line: str) -> Reply:
    """Return what a line of a story prints."""
    client, _, rest = line.partition(" ")
    match client:
        case "WAIT":
            name, status = rest.split()
            clients.sdk("wait_for_server", clients.sdk("find_server", name)["id"], status)
            return Reply(0, "", "")
        case "ROWS":
            return Reply(0, zone_rows.text(rest), "")
    return reply_to(clients, line)


@pytest.mark.parametrize("story", STORIES)
def test_command_lines_do_what_they_say(
    tree: DemoRun, clients: Clients, zone_rows: ZoneRows, story: str
) -> None:
    image = clients.sdk("find_image", "plain")

    for raw_line, expected in STORIES[story]:
        line = raw_line.format(image=image["id"], **zone_rows.ids())
        if isinstance(expected, Printed):
            found = printed(clients, line)
            assert [*mismatches(expected.form, found)] == [], (line, found)
            continue
        reply = said(clients, zone_rows, line)
        match expected:
            case Refused(pattern):
                assert reply.code != 0, line
                assert re.search(pattern, reply.err), (line, reply)
            case pattern:
                assert reply.code == 0, (line, reply)
                assert re.search(pattern, reply.out.strip(), re.MULTILINE), (line, reply)
