"""Calls of one parent to a zone: select, hold, confirm, cancel; each instance has a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.builders.tree import Answer, Node
from zonesched.model.caller import Role
from zonesched.model.request_spec import Flavor, Image, RequestSpec, ScoreWeighing, WeigherScale
from zonesched.model.request_wire import spec_to_wire
from zonesched.services.catalog import users

RESERVATION = "22222222-2222-4222-8222-222222222222"
SMALL = Flavor("f-1", "small", 2, 2048, 10)


def uuid(number: int) -> str:
    return f"11111111-1111-4111-8111-{number:012d}"


def a_spec(count: int = 4, request_id: str = RESERVATION) -> RequestSpec:
    return RequestSpec(
        request_id=request_id,
        project_id="project-1",
        num_instances=count,
        flavor=SMALL,
        image=Image("", ""),
        weighing=ScoreWeighing((WeigherScale("RAMWeigher", 0.0, 65536.0, 1.0),)),
        path=("33333333-3333-4333-8333-333333333333",),
    )


def a_parent(node: Node, name: str) -> str:
    """A new parent of the zone; its user name."""
    node.secrets[name] = users.create(node.zone.store, node.zone.clock, name, Role.PARENT, "-").secret
    return name


def offered(node: Node, user: str, spec: RequestSpec) -> list[str]:
    """The entries that a select offers."""
    body = {"version": 1, "request_spec": spec_to_wire(spec)}
    answer = node.client(user).post("/zones/select", body)
    assert answer.status == 200, answer.body
    return [entry["blob"] for entry in answer.json["weights"]]


def send(
    node: Node,
    user: str,
    spec: RequestSpec,
    blob_of: Mapping[int, str],
    *,
    attempt: int = 1,
    hold_s: float = 30.0,
) -> Answer:
    """Hold the instances of these numbers, each by its entry."""
    blobs_of = {n: [blob] for n, blob in blob_of.items()}
    return send_choices(node, user, spec, blobs_of, attempt=attempt, hold_s=hold_s)


def send_choices(
    node: Node,
    user: str,
    spec: RequestSpec,
    blobs_of: Mapping[int, Sequence[str]],
    *,
    attempt: int = 1,
    hold_s: float = 30.0,
) -> Answer:
    """Hold the instances of these numbers, each by the first of its entries that can be used."""
    builds = [{"uuid": uuid(n), "attempt": attempt, "blobs": list(blobs)} for n, blobs in blobs_of.items()]
    server = {"reservation_id": spec.request_id, "hold_s": hold_s, "builds": builds}
    return node.client(user).post("/servers", {"server": server, "request_spec": spec_to_wire(spec)})


def hold(node: Node, user: str, numbers: Sequence[int], *, attempt: int = 1, hold_s: float = 30.0) -> Answer:
    """Select and hold as many instances as there are numbers."""
    spec = a_spec(len(numbers))
    blobs = offered(node, user, spec)
    assert len(blobs) == len(numbers)
    return send(node, user, spec, dict(zip(numbers, blobs, strict=True)), attempt=attempt, hold_s=hold_s)


def confirm(node: Node, user: str, numbers: Sequence[int], *, attempt: int = 1) -> Answer:
    return _second_step(node, user, "confirm", numbers, attempt)


def cancel(node: Node, user: str, numbers: Sequence[int], *, attempt: int = 1) -> Answer:
    return _second_step(node, user, "cancel", numbers, attempt)


def _second_step(node: Node, user: str, step: str, numbers: Sequence[int], attempt: int) -> Answer:
    builds = [{"uuid": uuid(n), "attempt": attempt} for n in numbers]
    return node.client(user).post(f"/reservations/{RESERVATION}/{step}", {"builds": builds})


def of_builds(answer: Answer, member: str) -> list[Any]:
    """One member of each line of an answer about builds."""
    assert answer.status in (200, 202), answer.body
    return [build[member] for build in answer.json["builds"]]


def refusal(answer: Answer) -> tuple[int, str]:
    """Status and code of a refused call."""
    (fault,) = answer.json.values()
    return answer.status, fault["error_code"]
