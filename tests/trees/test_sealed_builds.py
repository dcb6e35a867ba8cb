"""P5: an entry opens only where, for whom and for what it was sealed, in time, and builds one instance."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders.crashes import differences
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


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    tree = Tree(tmp_path)
    tree.add("root")
    for name in ("leaf", "other"):
        tree.add(name, parent="root", hosts_=[a_host(f"{name}-1"), a_host(f"{name}-2")])
    leaf = tree.nodes["leaf"]
    leaf.secrets["stranger"] = users.create(leaf.zone, "stranger", Role.PARENT, "-").secret
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


def flipped(blob: str) -> str:
    raw = bytearray(base64.urlsafe_b64decode(blob + "=" * (-len(blob) % 4)))
    raw[len(raw) // 2] ^= 1
    return base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("=")


REFUSALS: dict[str, Callable[[Stage], Attempted]] = {
    "cut": lambda s: replace(s.good(), blob=s.blobs[0][:-4]),
    "flipped": lambda s: replace(s.good(), blob=flipped(s.blobs[0])),
    "made up": lambda s: replace(s.good(), blob="A" * len(s.blobs[0])),
    "of another project": lambda s: replace(s.good(), spec=replace(s.spec, project_id="project-2")),
    "of another caller": lambda s: replace(s.good(), user="stranger"),
    "of another zone": lambda s: replace(s.good(), zone="other"),
    "with a larger flavor": lambda s: replace(s.good(), spec=larger(s.spec)),
    "with another image": lambda s: replace(s.good(), spec=replace(s.spec, image=Image("i", "other"))),
    "with another hint": lambda s: replace(s.good(), spec=replace(s.spec, hints={"a": "b"})),
    "expired": lambda s: expired(s),
    "used by another instance": lambda s: used(s),
}


def larger(spec: RequestSpec) -> RequestSpec:
    return replace(spec, flavor=replace(spec.flavor, vcpus=4))


def expired(stage: Stage) -> Attempted:
    stage.tree.clock.advance(61)
    return stage.good()


def used(stage: Stage) -> Attempted:
    assert stage.send(stage.good()).status == 202
    return stage.good(uuid=2)


def comparable(answer: Answer) -> tuple[int, bytes, dict[str, str]]:
    own = ("date", "x-openstack-request-id", "x-compute-request-id")
    return answer.status, answer.body, {k: v for k, v in answer.headers.items() if k.lower() not in own}


def test_every_refusal_looks_the_same_and_creates_nothing(stage: Stage) -> None:
    answers: dict[str, Any] = {}
    for case, make in REFUSALS.items():
        attempted = make(stage)
        rows_before = row_count(stage)
        answers[case] = comparable(stage.send(attempted))
        assert row_count(stage) == rows_before, case
        if case == "expired":
            stage.blobs = offered(stage.tree, "leaf", "parent-root", stage.spec)

    first = next(iter(answers.values()))
    assert first[0] == 400
    assert b"blob_refused" in first[1]
    assert answers == dict.fromkeys(answers, first)


def row_count(stage: Stage) -> list[int]:
    counts = []
    for name in ("leaf", "other"):
        store = stage.tree.nodes[name].zone.store
        for table in ("instances", "placements", "inbound_builds", "reservations"):
            counts.append(
                store.read(lambda tx, t=table: tx.exec_driver_sql(f"SELECT count(*) FROM {t}").scalar_one())
            )
    return counts


def test_a_repeat_is_answered_with_what_is_stored_however_late(stage: Stage) -> None:
    first = stage.send(stage.good())
    assert first.json["builds"][0]["state"] == "held"

    stage.tree.clock.advance(20)
    again = stage.send(stage.good())
    assert again.json["builds"][0]["state"] == "held"
    assert again.json["builds"][0]["hold_s"] == first.json["builds"][0]["hold_s"] - 20

    confirm = {"builds": [{"uuid": UUID.format(1), "attempt": 1}]}
    leaf = stage.tree.nodes["leaf"].client("parent-root")
    assert (
        leaf.post(f"/reservations/{RESERVATION}/confirm", confirm).json["builds"][0]["state"] == "confirmed"
    )
    stage.tree.clock.advance(3000)
    late = stage.send(stage.good())
    assert late.json["builds"][0]["state"] == "confirmed"
    assert differences(stage.tree) == [f"{UUID.format(1)} is placed and None"]


def test_a_hold_that_is_over_is_gone_for_confirm_and_repeat(stage: Stage) -> None:
    stage.send(stage.good())
    stage.tree.clock.advance(31)
    leaf = stage.tree.nodes["leaf"].client("parent-root")

    confirm = {"builds": [{"uuid": UUID.format(1), "attempt": 1}]}
    answer = leaf.post(f"/reservations/{RESERVATION}/confirm", confirm)

    assert answer.json["builds"][0]["state"] == "gone"
    assert stage.send(stage.good()).json["builds"][0]["state"] == "gone"
    assert differences(stage.tree) == []


def test_a_cancel_that_overtakes_its_build_wins(stage: Stage) -> None:
    leaf = stage.tree.nodes["leaf"].client("parent-root")
    cancel = {"builds": [{"uuid": UUID.format(1), "attempt": 1}]}

    assert leaf.post(f"/reservations/{RESERVATION}/cancel", cancel).json["builds"][0]["state"] == "gone"
    assert stage.send(stage.good()).json["builds"][0]["state"] == "gone"
    assert differences(stage.tree) == []


def test_a_later_attempt_uses_another_entry(stage: Stage) -> None:
    stage.send(stage.good())
    leaf = stage.tree.nodes["leaf"].client("parent-root")
    cancel = {"builds": [{"uuid": UUID.format(1), "attempt": 1}]}
    leaf.post(f"/reservations/{RESERVATION}/cancel", cancel)

    second = stage.send(replace(stage.good(number=1), attempt=2))

    assert second.json["builds"][0]["state"] == "held"


def test_a_parents_builds_are_its_own(stage: Stage) -> None:
    stage.send(stage.good())
    leaf = stage.tree.nodes["leaf"]

    assert leaf.client("stranger").get(f"/servers/{UUID.format(1)}").status == 404
    assert leaf.client("stranger").delete(f"/servers/{UUID.format(1)}").status == 404
    assert leaf.client("member").get(f"/servers/{UUID.format(1)}").status == 404
    confirm = {"builds": [{"uuid": UUID.format(1), "attempt": 1}]}
    answer = leaf.client("stranger").post(f"/reservations/{RESERVATION}/confirm", confirm)
    assert answer.json["builds"][0]["state"] == "gone"
    shown = leaf.client("parent-root").get(f"/servers/{UUID.format(1)}")
    assert (shown.status, shown.json["server"]["status"]) == (200, "BUILD")
