"""The zone that calls are made to: hosts of its own and a child's, users of every role, and instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.builders.tree import Client, Tree, a_host
from zonesched.model.caller import Role
from zonesched.model.request_spec import Flavor, Image, RequestSpec, ScoreWeighing, WeigherScale
from zonesched.model.request_wire import spec_to_wire
from zonesched.services.catalog import users

PARENT = "parent"
PASSWORD = "correct horse battery staple"
PERSON = "person"
ROLES = ("admin", "member", "reader", "compute", PARENT)
RESERVATION = "22222222-2222-4222-8222-222222222222"
ABOVE = "33333333-3333-4333-8333-333333333333"
UNKNOWN = "00000000-0000-4000-8000-00000000dead"
HOSTS = ("secret-host-a", "secret-host-b")
CHILD = "secret-child"
NEVER_UPWARD = (*HOSTS, CHILD, "secret-host-below", "10.9.8.7")
"""Texts of this zone that no answer to a parent may have."""


@dataclass(frozen=True)
class Site:
    """A running zone. `words`: ids and names in it that mean something in a call."""

    tree: Tree
    clients: Mapping[str, Client]
    words: tuple[str, ...]
    blobs: tuple[str, ...]

    def copy_to(self, folder: Path) -> Site:
        """Another site: new processes on copies of the databases. To make one takes four times as long."""
        tree = self.tree.copy_to(folder)
        tree.poll(1)
        zone = tree.nodes["zone"]
        return replace(self, tree=tree, clients={name: zone.client(name) for name in self.clients})


def a_request(num_instances: int = 4, **changes: Any) -> RequestSpec:
    """A parent's request that the zone can meet."""
    fields: dict[str, Any] = {
        "request_id": RESERVATION,
        "project_id": "project-1",
        "num_instances": num_instances,
        "flavor": Flavor("f-1", "small", 1, 512, 1, {"kind": "<or> a <or> b", "trait:SSD": "required"}),
        "image": Image("", "", {}),
        "weighing": ScoreWeighing((WeigherScale("RAMWeigher", 0.0, 65536.0, 1.0),)),
        "path": (ABOVE,),
        **changes,
    }
    return RequestSpec(**fields)


def a_site(folder: Path) -> Site:
    """A zone with a child, a flavor, an image, a group, an aggregate, a boot, and a parent's held builds."""
    tree = Tree(folder)
    facts: dict[str, Any] = {
        "capabilities": {"kind": "a", "cpu_info": {"features": ["aes"]}},
        "traits": ["SSD"],
    }
    node = tree.add(
        "zone",
        hosts_=[a_host(name, address="10.9.8.7", **facts) for name in HOSTS],
        max_instances_per_request=64,
        project_instances=1_000_000,
    )
    tree.add(CHILD, hosts_=[a_host("secret-host-below", address="10.9.8.7", **facts)], parent="zone")
    tree.poll()
    node.secrets[PARENT] = users.create(node.zone.store, node.zone.clock, PARENT, Role.PARENT, "-").secret
    users.create(node.zone.store, node.zone.clock, PERSON, Role.MEMBER, "project-1", PASSWORD)
    node.secrets[PERSON] = PASSWORD
    clients = {role: node.client(role) for role in (*ROLES, PERSON)} | {"": node.client("")}
    words, blobs = _filled(tree, clients)
    return Site(tree, clients, words, blobs)


def _filled(tree: Tree, clients: Mapping[str, Client]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Make what calls name; the words, and a parent's sealed entries."""
    admin, member, parent = clients["admin"], clients["member"], clients[PARENT]
    made = [
        admin.post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 512, "disk": 1}}),
        admin.post("/images", {"image": {"name": "linux"}}),
        admin.post("/os-aggregates", {"aggregate": {"name": "fast"}}),
        member.post("/os-server-groups", {"server_group": {"name": "group", "policies": ["anti-affinity"]}}),
    ]
    ids = [str(next(iter(answer.json.values()))["id"]) for answer in made]
    fast = admin.post(f"/os-aggregates/{ids[2]}/action", {"add_host": {"host": HOSTS[0]}})
    boot = member.post("/zones/boot", {"server": {"name": "vm", "flavorRef": "small", "num_instances": 3}})
    tree.settle()
    servers = [server["id"] for server in member.get("/servers").json["servers"]]
    offer = parent.post("/zones/select", {"version": 1, "request_spec": spec_to_wire(a_request())})
    blobs = tuple(entry["blob"] for entry in offer.json["weights"])
    held = parent.post("/servers", a_build(blobs[:1]))
    answers = (*made, fast, boot, offer, held)
    assert all(answer.status < 300 for answer in answers), [answer.body for answer in answers]
    hypervisors = [str(item["id"]) for item in admin.get("/os-hypervisors").json["hypervisors"]]
    child_ids = [str(item["id"]) for item in admin.get("/zones").json["zones"]]
    reservation_id = boot.json["reservation_id"]
    names = ("small", "linux", "fast", "group", "agent", "az1", "nova-compute", "project-1", PERSON, *ROLES)
    words = (*ids, *names, *servers, *hypervisors, *child_ids, reservation_id, RESERVATION, UNKNOWN, *HOSTS)
    return words, blobs


def a_build(blobs: tuple[str, ...], number: int = 1) -> dict[str, Any]:
    """A parent's build of one instance that has these entries."""
    uuid = f"11111111-1111-4111-8111-{number:012d}"
    server = {
        "reservation_id": RESERVATION,
        "hold_s": 30.0,
        "builds": [{"uuid": uuid, "attempt": 1, "blobs": list(blobs)}],
    }
    return {"server": server, "request_spec": spec_to_wire(a_request())}
