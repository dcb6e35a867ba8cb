"""A server or boot that is another's is answered for as if it were not there, and nothing of it is read.

What was read would show in the time of the answer: how large the metadata and hints of another tenant are.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.one_zone import sql
from tests.builders.tree import Node, Tree, a_host
from zonesched.model.caller import Role
from zonesched.services.catalog import users

MISSING = "00000000-0000-4000-8000-000000000000"
Calls = tuple[tuple[str, str, dict[str, object] | None], ...]
CALLS: Calls = (
    ("GET", "/servers/{server}", None),
    ("DELETE", "/servers/{server}", None),
    ("GET", "/servers/{server}/metadata", None),
    ("GET", "/servers/{server}/os-instance-actions", None),
    ("GET", "/servers/{server}/migrations", None),
    ("POST", "/servers/{server}/action", {"os-stop": None}),
    ("POST", "/servers/{server}/action", {"os-getConsoleOutput": {}}),
    ("GET", "/reservations/{boot}", None),
    ("POST", "/reservations/{boot}/action", {"os-stop": None}),
)
CALLS_OF_PARENTS: Calls = (
    ("GET", "/servers/{server}", None),
    ("DELETE", "/servers/{server}", None),
    ("GET", "/reservations/{boot}", None),
)


@pytest.fixture
def zone(tmp_path: Path) -> Node:
    """A zone with two tenants, a parent, and flavors."""
    node = Tree(tmp_path).add("root", hosts_=[a_host("h1")])
    made = (("ann", Role.MEMBER), ("eve", Role.MEMBER), ("above", Role.PARENT))
    for name, role in made:
        project = "-" if role is Role.PARENT else f"project-of-{name}"
        node.secrets[name] = users.create(node.zone.store, node.zone.clock, name, role, project).secret
    flavor = {"name": "small", "vcpus": 1, "ram": 512, "disk": 1, "id": "small"}
    assert node.client().post("/flavors", {"flavor": flavor}).status == 200
    return node


@pytest.mark.parametrize(
    ("who", "calls"), [("eve", CALLS), ("above", CALLS_OF_PARENTS)], ids=["a tenant", "a parent"]
)
def test_nothing_of_anothers_server_or_boot_is_read(zone: Node, who: str, calls: Calls) -> None:
    # given: a boot of Ann's whose rows nobody can read
    body = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 1}}
    boot = zone.client("ann").post("/zones/boot", body).json["reservation_id"]
    [server] = zone.client("ann").get(f"/servers?reservation_id={boot}").json["servers"]
    sql(zone.zone, "UPDATE reservations SET spec = 'unreadable', why = 'unreadable'")
    sql(zone.zone, "UPDATE instances SET passthrough = 'unreadable'")

    for method, path, asked in calls:
        theirs = zone.client(who).call(method, path.format(server=server["id"], boot=boot), asked)
        missing = zone.client(who).call(method, path.format(server=MISSING, boot=MISSING), asked)
        assert theirs.status == 404, path
        assert theirs.body == missing.body
