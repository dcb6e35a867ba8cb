"""Attacks by a parent zone's user, on the zone that has another parent above it and a child below."""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Sequence
from typing import Any

from .attack import Attack
from .attacker import Answer, Attacker
from .bodies import MIB, bombs
from .wire import a_spec, build_body

CLEAN_UP_S = 8.0
LIVES = ("held", "confirmed", "pending")


def select(
    attacker: Attacker, count: int = 5, login: str | None = None, **changes: Any
) -> tuple[dict[str, Any], list[str]]:
    """A request's spec, and the blobs that it was offered."""
    spec = a_spec(num_instances=count, **changes)
    told = attacker.call("POST", "/zones/select", {"version": 1, "request_spec": spec}, login=login).json()
    return spec, [entry["blob"] for entry in told.get("weights", [])]


def hold(
    attacker: Attacker, spec: dict[str, Any], builds: Sequence[dict[str, Any]], hold_s: float = 5.0
) -> Answer:
    return attacker.call("POST", "/servers", build_body(spec, builds, hold_s))


def a_build(*blobs: str) -> dict[str, Any]:
    return {"uuid": str(uuid.uuid4()), "attempt": 1, "blobs": list(blobs)}


def states(answer: Answer) -> list[str]:
    return [str(line["state"]) for line in answer.json().get("builds", [])]


def key(build: dict[str, Any]) -> dict[str, Any]:
    return {"uuid": build["uuid"], "attempt": build["attempt"]}


def settle(attacker: Attacker, step: str, builds: Sequence[dict[str, Any]]) -> Answer:
    path = f"/reservations/{uuid.uuid4()}/{step}"
    return attacker.call("POST", path, {"builds": [key(build) for build in builds]})


def clean_up(attacker: Attacker) -> None:
    """Delete the attacker's own instances, as its operator would."""
    ends_at = time.monotonic() + CLEAN_UP_S
    cursor, more = "", True
    while more and time.monotonic() < ends_at:
        told = attacker.call("GET", f"/reservations?cursor={cursor}", zone="middle", login="parent").json()
        cursor, more = told.get("cursor", ""), bool(told.get("more"))
        for item in told.get("instances", []):
            if item["status"] != "DELETED" and item["state"] in LIVES:
                attacker.call("DELETE", f"/servers/{item['uuid']}", zone="middle", login="parent")


def select_storm(attacker: Attacker) -> None:
    """Selects with an hour each, more than a process has threads."""
    attacker.at_once(40, lambda number: select(attacker, 10, time_budget_s=3600.0))


def large_selects(attacker: Attacker) -> None:
    def step(number: int) -> None:
        spec = a_spec(num_instances=10_000, alternates=1000)
        attacker.call("POST", "/zones/select", {"version": 1, "request_spec": spec})

    attacker.at_once(8, step)


def select_and_leave(attacker: Attacker) -> None:
    body = json.dumps(
        {"version": 1, "request_spec": a_spec(num_instances=1000, time_budget_s=3600.0)}
    ).encode()
    head = attacker.head(
        "POST", "/zones/select", "Content-Type: application/json", f"Content-Length: {len(body)}"
    )

    def step(number: int) -> None:
        with attacker.socket() as sock:
            sock.sendall(head + body)
            attacker.pause(0.005)

    attacker.at_once(24, step)


def query_bombs(attacker: Attacker) -> None:
    wide: list[Any] = ["or", *[["=", "$free_ram_mb", number] for number in range(400)]]
    broad: list[Any] = ["and", *[["not", ["in", "$free_disk_mb", *range(40)]] for _ in range(40)]]
    queries = [json.dumps(wide), json.dumps(broad), '["not", ' * 30 + '[">", "$free_ram_mb", 0]' + "]" * 30]
    attacker.at_once(8, lambda number: select(attacker, 10, filter_query=attacker.rng.choice(queries)))


def body_bombs(attacker: Attacker) -> None:
    path = f"/reservations/{uuid.uuid4()}"
    routes = [
        (f"{path}/confirm", 1_000_000),
        (f"{path}/cancel", 16 * MIB),
        ("/zones/select", 500_000),
        ("/servers", 4 * MIB),
    ]

    def step(number: int) -> None:
        where, size = attacker.rng.choice(routes)
        answer = attacker.call("POST", where, attacker.rng.choice(bombs("builds", size)))
        attacker.expect(answer.status not in range(200, 300), f"a bomb is a {answer.status}")

    attacker.at_once(8, step)


def hold_expire_hold(attacker: Attacker) -> None:
    """Keep as much held as one may, and never confirm."""

    def step(number: int) -> None:
        spec, blobs = select(attacker, 100)
        hold(attacker, spec, [a_build(blob) for blob in blobs], hold_s=1.0)

    attacker.at_once(4, step)


def fill(attacker: Attacker) -> None:
    """Hold and confirm until a limit says no."""

    def step(number: int) -> None:
        spec, blobs = select(attacker, 200)
        builds = [a_build(blob) for blob in blobs]
        if builds and "held" in states(hold(attacker, spec, builds)):
            settle(attacker, "confirm", builds)

    attacker.at_once(4, step)


def early_cancels(attacker: Attacker) -> None:
    """Cancel attempts that were never made: each is remembered."""
    attacker.at_once(8, lambda number: settle(attacker, "cancel", [a_build() for _ in range(1000)]))


def replays(attacker: Attacker) -> None:
    """Repeat builds, confirms and cancels in any order; what is used or cancelled must not live again."""

    def step(number: int) -> None:
        spec, blobs = select(attacker, 4)
        if len(blobs) < 4:
            return
        builds = [a_build(blob) for blob in blobs]
        hold(attacker, spec, builds)
        settle(attacker, "cancel", builds[:2])
        again = states(hold(attacker, spec, builds))
        attacker.expect(not set(again[:2]) & set(LIVES), f"a cancelled build lives again: {again[:2]}")
        confirmed = states(settle(attacker, "confirm", builds[:2]))
        attacker.expect("confirmed" not in confirmed, "a cancelled build was confirmed")
        other = states(hold(attacker, spec, [a_build(blob) for blob in blobs]))
        attacker.expect(
            "held" not in other and "confirmed" not in other, "an entry that was used is held again"
        )
        settle(attacker, "cancel", builds)

    attacker.at_once(4, step)


def mutated_entries(attacker: Attacker) -> None:
    """Entries with a bit changed, cut, joined or swapped; another's kind of request, project or attempt."""

    def mutated(blob: str) -> str:
        raw = bytearray(base64.urlsafe_b64decode(blob + "=" * (-len(blob) % 4)))
        match attacker.rng.randrange(5):
            case 0:
                raw[attacker.rng.randrange(len(raw))] ^= 1 << attacker.rng.randrange(8)
            case 1:
                del raw[attacker.rng.randrange(1, len(raw)) :]
            case 2:
                raw += b"\0"
            case 3:
                raw[9:41] = attacker.rng.randbytes(32)
            case _:
                return blob + attacker.rng.choice(("=", "A", "!", "\N{SNOWMAN}", " "))
        return base64.urlsafe_b64encode(bytes(raw)).rstrip(b"=").decode()

    def step(number: int) -> None:
        spec, blobs = select(attacker, 20)
        builds = [a_build(mutated(blob)) for blob in blobs]
        if builds:
            found = states(hold(attacker, spec, builds))
            attacker.expect(not set(found) & set(LIVES), "a changed entry opened")

    attacker.at_once(4, step)


def foreign_entries(attacker: Attacker) -> None:
    """Entries of another request, of another project, of another caller and of another zone."""
    swapped: list[dict[str, Any]] = [
        {"project_id": "another"},
        {"flavor": {**a_spec()["flavor"], "ram": 1}},
        {"image": {"id": "x", "name": "x", "properties": {}}},
        {"hints": {"same_host": str(uuid.uuid4())}},
        {"availability_zone": "another"},
        {"policy": "affinity"},
    ]

    def step(number: int) -> None:
        spec, blobs = select(attacker, 2)
        for change in swapped:
            if blobs:
                found = states(hold(attacker, {**spec, **change}, [a_build(blobs[0])]))
                attacker.expect(
                    not set(found) & set(LIVES), f"an entry opened for another {next(iter(change))}"
                )
        spec, stolen = select(attacker, 1, login="partner")
        if stolen:
            found = states(hold(attacker, spec, [a_build(stolen[0])]))
            attacker.expect(not set(found) & set(LIVES), "another caller's entry opened")

    attacker.at_once(4, step)


def expired_entries(attacker: Attacker) -> None:
    """Entries that are kept until they have expired."""
    spec, blobs = select(attacker, 50)
    attacker.pause(attacker.left_s - 0.5)
    if blobs:
        found = states(hold(attacker, spec, [a_build(blob) for blob in blobs]))
        attacker.expect(not set(found) & set(LIVES), "an expired entry opened")


def one_entry_many_builds(attacker: Attacker) -> None:
    """One entry in many builds of a call, and in calls that race."""

    def step(number: int) -> None:
        spec, blobs = select(attacker, 1)
        if not blobs:
            return
        builds = [a_build(blobs[0], blobs[0]) for _ in range(50)]
        found = states(hold(attacker, spec, builds))
        attacker.expect(found.count("held") <= 1, f"one entry is held {found.count('held')} times")
        attacker.expect("pending" not in found, "a build without an entry of its own is pending")
        settle(attacker, "cancel", builds)

    attacker.at_once(4, step)


def others_uuids(attacker: Attacker) -> None:
    """Instances of another caller: read, confirmed, cancelled, deleted, and their uuid used first."""
    others = attacker.scene.others

    def step(number: int) -> None:
        for method in ("GET", "DELETE"):
            answer = attacker.call(method, f"/servers/{others['server']}")
            is_none = answer.status in (0, 404, 429, 503)
            attacker.expect(is_none, f"{method} of another caller's is a {answer.status}")
        for verb in ("confirm", "cancel"):
            attempts = [{"uuid": others["server"], "attempt": number} for number in range(3)]
            path = f"/reservations/{others['reservation']}/{verb}"
            answer = attacker.call("POST", path, {"builds": attempts})
            attacker.expect("confirmed" not in states(answer), f"{verb} of another caller's says confirmed")
        attacker.call("GET", f"/reservations/{others['reservation']}")
        # A uuid that another caller uses names an instance of this caller's own, and nothing of the other's.
        spec, blobs = select(attacker, 1, request_id=others["reservation"])
        if blobs:
            build = {**a_build(blobs[0]), "uuid": others["held"], "attempt": attacker.rng.randrange(1, 5)}
            hold(attacker, spec, [build])
            settle(attacker, attacker.rng.choice(("confirm", "cancel")), [build])
        attacker.call("DELETE", f"/servers/{others['held']}")
        theirs = attacker.call("GET", f"/servers/{others['held']}", login="partner")
        is_whole = theirs.status in (0, 429, 503) or theirs.json().get("server", {}).get("attempt") == 1
        attacker.expect(is_whole, f"another caller's instance is a {theirs.status}, or another attempt")

    attacker.at_once(4, step)


def foreign_cursors(attacker: Attacker) -> None:
    """Cursors of another parent, of none, and changed ones."""
    stolen = attacker.scene.others["cursor"]
    own = str(attacker.call("GET", "/reservations?cursor=").json().get("cursor", ""))
    wrong = [stolen, stolen[::-1], own[:-2] + "AA", "A" * 255, "A" * 5000, "..", "0", "-1", "%00", "*"]

    def step(number: int) -> None:
        answer = attacker.call("GET", f"/reservations?cursor={attacker.rng.choice(wrong)}")
        attacker.expect(answer.status not in range(200, 300), "another parent's cursor was taken")

    attacker.at_once(4, step)


def feed_storm(attacker: Attacker) -> None:
    attacker.at_once(32, lambda number: attacker.call("GET", "/reservations?cursor="))


def audit_storm(attacker: Attacker) -> None:
    attacker.at_once(16, lambda number: attacker.call("GET", "/audit?budget_s=3600"))


def wrong_specs(attacker: Attacker) -> None:
    """Specs with values that the schema allows and no scheduler expects."""
    changes: list[dict[str, Any]] = [
        {"weighing": {"name": "score", "scales": [scale(1e308, -1e308, 1e308)]}},
        {"weighing": {"name": "score", "scales": [scale(0.0, 5e-324, 1e308)] * 64}},
        {"weighing": {"name": "cost", "driver": "os.system", "functions": [{"name": "x", "weight": 1e308}]}},
        {"filters": ["SameHostFilter"] * 32},
        {"filters": ["os.system"]},
        {"hints": {"same_host": [str(uuid.uuid4())] * 128, "x": ["y"] * 5000}},
        {"flavor": {**a_spec()["flavor"], "vcpus": 0, "ram": 0, "disk": 0}},
        {"flavor": {**a_spec()["flavor"], "extra_specs": {f"resources:CUSTOM_{n}": "1" for n in range(128)}}},
        {"flavor": {**a_spec()["flavor"], "extra_specs": {"capabilities:a": "<all-in> " + "x " * 120}}},
        {
            "group": {"name": "anti-affinity", "id": "g", "max_server_per_host": 2**31 - 1},
            "num_instances": 10_000,
        },
        {"policy": "affinity", "num_instances": 10_000},
        {"path": [str(uuid.uuid4())] * 16},
        {"time_budget_s": 1e-9},
        {"image": {"id": "i", "name": "i", "properties": {f"hw_{n}": "x" * 200 for n in range(128)}}},
    ]

    def step(number: int) -> None:
        given = attacker.rng.choice(changes)
        select(
            attacker,
            given.get("num_instances", 100),
            **{k: v for k, v in given.items() if k != "num_instances"},
        )

    attacker.at_once(8, step)


def scale(low: float, high: float, multiplier: float) -> dict[str, Any]:
    return {"weigher": "RAMWeigher", "low": low, "high": high, "multiplier": multiplier}


ATTACKS = (
    Attack("parent-select-storm", "asks 40 selects at a time with an hour each", select_storm),
    Attack("parent-large-selects", "asks for 10,000 instances and 1,000 alternates", large_selects),
    Attack("parent-select-and-leave", "asks for selects and closes the connection", select_and_leave),
    Attack("parent-query-bombs", "sends queries that are costly to evaluate", query_bombs),
    Attack("parent-body-bombs", "sends bodies of many values or keys, per call", body_bombs),
    Attack("parent-wrong-specs", "sends specs with extreme values", wrong_specs),
    Attack("parent-hold-expire-hold", "holds, lets expire and holds again", hold_expire_hold),
    Attack("parent-fill", "holds and confirms until a limit says no", fill),
    Attack("parent-early-cancels", "cancels attempts that were never made", early_cancels),
    Attack("parent-replays", "repeats builds, confirms and cancels in any order", replays),
    Attack("parent-mutated-entries", "changes bits of sealed entries, cuts and joins them", mutated_entries),
    Attack("parent-foreign-entries", "uses entries of other requests, projects and callers", foreign_entries),
    Attack("parent-expired-entries", "uses entries after their time", expired_entries, min_seconds=4.0),
    Attack("parent-one-entry-many-builds", "puts one entry into many builds", one_entry_many_builds),
    Attack(
        "parent-others-uuids",
        "reads, confirms, cancels, deletes and takes other callers' uuids",
        others_uuids,
    ),
    Attack("parent-foreign-cursors", "reads changes from another parent's cursor", foreign_cursors),
    Attack("parent-feed-storm", "reads all changes, 32 at a time", feed_storm),
    Attack("parent-audit-storm", "asks for audits of an hour, 16 at a time", audit_storm),
)
