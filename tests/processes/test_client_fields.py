"""OpenStack's own clients print of a server what the zone's rows say, field by field."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.builders.client_fields import BOOT, FIELDS, KEY, MAKE, THEN
from tests.builders.client_output import printed, run
from tests.builders.client_rows import Rows, read_rows
from tests.builders.client_server_fields import USER_DATA
from tests.builders.demo_tree import two_zones
from tests.builders.forms import mismatches
from tests.builders.openstack_clients import Clients, admin_clients

pytestmark = [pytest.mark.slow, pytest.mark.once]


@dataclass(frozen=True)
class Scene:
    """The clients, the zone's rows, and the ids that command lines name."""

    clients: Clients
    rows: Rows
    ids: dict[str, str]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A root and a leaf, and a server on a host of the root."""
    folder = tmp_path_factory.mktemp("fields")
    key = folder / "key.pub"
    key.write_text(KEY)
    data = folder / "data"
    data.write_bytes(base64.b64decode(USER_DATA))
    with two_zones(folder, hosts=4) as tree, admin_clients(tree, folder) as clients:
        root = tree.admin(tree.root)
        root.call("POST", "/images", {"image": {"name": "plain", "properties": {"os": "linux"}}})
        for line in MAKE:
            run(clients, line.format(key=key))
        group = clients.sdk("find_server_group", "g-fields")["id"]
        run(clients, BOOT.format(group=group, data=data))
        server = clients.sdk("find_server", "fields")["id"]
        for line in THEN:
            run(clients, line.format(server=server))
        rows = read_rows(folder / "root" / "zone.sqlite", tree.root.url, server)
        ids = {
            "server": server,
            "group": group,
            "host": rows.host["name"],
            "host_id": rows.host["id"],
            "flavor": rows.flavor["id"],
            "image": rows.image["id"],
            "project": rows.server["project_id"],
            "request": rows.action["request_id"],
        }
        yield Scene(clients, rows, ids)


@pytest.mark.parametrize("line", FIELDS)
def test_a_command_prints_what_the_rows_say(scene: Scene, line: str) -> None:
    found = printed(scene.clients, line.format(**scene.ids))

    assert [*mismatches(FIELDS[line](scene.rows), found)] == [], json.dumps(found, indent=1)
