"""P5: an entry opens only where, for whom and for what it was sealed, in time, and builds one instance."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.builders.crashes import inconsistencies
from tests.builders.sealed_builds import RESERVATION, UUID, Attempted, Stage, larger, offered
from tests.builders.tree import Answer
from zonesched.model.request_spec import Image


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
    assert inconsistencies(stage.tree) == [f"{UUID.format(1)} is placed and None"]


def test_a_hold_that_is_over_is_gone_for_confirm_and_repeat(stage: Stage) -> None:
    stage.send(stage.good())
    stage.tree.clock.advance(31)
    leaf = stage.tree.nodes["leaf"].client("parent-root")

    confirm = {"builds": [{"uuid": UUID.format(1), "attempt": 1}]}
    answer = leaf.post(f"/reservations/{RESERVATION}/confirm", confirm)

    assert answer.json["builds"][0]["state"] == "gone"
    assert answer.json["builds"][0]["reason"] == "hold_expired"
    assert stage.send(stage.good()).json["builds"][0]["state"] == "gone"
    assert inconsistencies(stage.tree) == []


def test_a_cancel_that_overtakes_its_build_wins(stage: Stage) -> None:
    leaf = stage.tree.nodes["leaf"].client("parent-root")
    cancel = {"builds": [{"uuid": UUID.format(1), "attempt": 1}]}

    assert leaf.post(f"/reservations/{RESERVATION}/cancel", cancel).json["builds"][0]["state"] == "gone"
    assert stage.send(stage.good()).json["builds"][0]["state"] == "gone"
    assert inconsistencies(stage.tree) == []


def test_a_later_attempt_uses_another_entry(stage: Stage) -> None:
    stage.send(stage.good())
    leaf = stage.tree.nodes["leaf"].client("parent-root")
    cancel = {"builds": [{"uuid": UUID.format(1), "attempt": 1}]}
    leaf.post(f"/reservations/{RESERVATION}/cancel", cancel)

    second = stage.send(replace(stage.good(number=1), attempt=2))

    assert second.json["builds"][0]["state"] == "held"


def test_an_admin_deletes_each_life_of_a_server_that_its_parent_sends_again(stage: Stage) -> None:
    # given a server of a parent that an admin has deleted, and that its parent has sent again
    admin = stage.tree.nodes["leaf"].client()
    stage.send(stage.good())
    first = admin.delete(f"/servers/{UUID.format(1)}")
    stage.send(replace(stage.good(number=1), attempt=2))
    # when an admin deletes it again
    second = admin.delete(f"/servers/{UUID.format(1)}")
    # then it is deleted, with both deletes in its history
    listed = admin.get(f"/servers/{UUID.format(1)}/os-instance-actions").json["instanceActions"]
    assert (first.status, second.status) == (204, 204)
    assert [one["action"] for one in listed] == ["delete", "delete", "create"]
    assert inconsistencies(stage.tree) == []


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
