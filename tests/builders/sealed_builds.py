"""A parent's sealed builds in one zone, sent step by step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.builders.scenes import built_once
from tests.builders.tree import Answer, Tree, a_host
from zonesched.model.caller import Role
from zonesched.model.request_spec import Flavor, Image, RequestSpec, ScoreWeighing, WeigherScale
from zonesched.model.request_wire import spec_to_wire
from zonesched.services.catalog import users

UUID = "11111111-1111-4111-8111-{:012d}"


RESERVATION = "22222222-2222-4222-8222-222222222222"


SMALL = Flavor("f-1", "small", 2, 2048, 10)


@dataclass(frozen=True)
class Attempted:
    """One build as a parent sends it."""

    blob: str
    spec: RequestSpec
    uuid: str = UUID.format(1)
    attempt: int = 1
    user: str = "parent-root"
    zone: str = "leaf"


@dataclass
class Stage:
    """A root with two leaves, and what one of them offered."""

    tree: Tree
    spec: RequestSpec
    blobs: list[str]

    def send(self, a: Attempted) -> Answer:
        body = {
            "server": {
                "reservation_id": RESERVATION,
                "hold_s": 30.0,
                "builds": [{"uuid": a.uuid, "attempt": a.attempt, "blobs": [a.blob]}],
            },
            "request_spec": spec_to_wire(a.spec),
        }
        return self.tree.nodes[a.zone].client(a.user).post("/servers", body)

    def good(self, number: int = 0, uuid: int = 1) -> Attempted:
        return Attempted(self.blobs[number], self.spec, uuid=UUID.format(uuid))


@built_once
def two_leaves(folder: Path) -> Tree:
    """A root over two zones with hosts, one of which has another parent."""
    tree = Tree(folder)
    tree.add("root")
    for name in ("leaf", "other"):
        tree.add(name, parent="root", hosts_=[a_host(f"{name}-1"), a_host(f"{name}-2")])
    leaf = tree.nodes["leaf"]
    leaf.secrets["stranger"] = users.create(
        leaf.zone.store, leaf.zone.clock, "stranger", Role.PARENT, "-"
    ).secret
    return tree


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    tree = two_leaves(tmp_path)
    spec = RequestSpec(
        request_id=RESERVATION,
        project_id="project-1",
        num_instances=4,
        flavor=SMALL,
        image=Image("", ""),
        weighing=ScoreWeighing((WeigherScale("RAMWeigher", 0.0, 65536.0, 1.0),)),
        path=("33333333-3333-4333-8333-333333333333",),
    )
    return Stage(tree, spec, offered(tree, "leaf", "parent-root", spec))


def offered(tree: Tree, zone: str, user: str, spec: RequestSpec) -> list[str]:
    body = {"version": 1, "request_spec": spec_to_wire(spec)}
    answer = tree.nodes[zone].client(user).post("/zones/select", body)
    assert answer.status == 200, answer.body
    return [entry["blob"] for entry in answer.json["weights"]]


def larger(spec: RequestSpec) -> RequestSpec:
    return replace(spec, flavor=replace(spec.flavor, vcpus=4))
