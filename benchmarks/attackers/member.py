"""Attacks by a member of a project, on the zone that receives the boots of all projects."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from typing import Any

from .attack import Attack
from .attacker import Attacker
from .bodies import MIB, backslashes, bombs, deep, quotes, zeros_compressed

FLAVOR = "small"
BOOT = "/zones/boot"
GONE = (0, 404)
CLEAN_UP_CALLS = 2000


def boot_form(count: int = 1, **changes: Any) -> dict[str, Any]:
    """A boot's body; `changes` are keys of `server`."""
    return {"server": {"name": "hostile", "flavorRef": FLAVOR, "num_instances": count, **changes}}


def dry_run(count: int = 1, **hints: Any) -> dict[str, Any]:
    return {**boot_form(count), "dry_run": True, "os:scheduler_hints": hints}


def clean_up(attacker: Attacker) -> None:
    """Delete the attacker's own instances, as its owner would once the attack is noticed."""
    for _ in range(CLEAN_UP_CALLS):
        page = (
            attacker.call("GET", "/servers?limit=1000", zone="root", login="member").json().get("servers", [])
        )
        if not page:
            return
        for server in page:
            attacker.call("DELETE", f"/servers/{server['id']}", zone="root", login="member")


def body_bombs(attacker: Attacker) -> None:
    routes = [
        ("/zones/boot", 500_000),
        ("/servers", 500_000),
        ("/os-server-groups", 60_000),
        ("/servers", 3_900_000),
    ]
    routes += [("/users/hostile/password", 60_000), ("/servers", 16 * MIB)]

    def step(number: int) -> None:
        path, size = attacker.rng.choice(routes)
        answer = attacker.call("POST", path, attacker.rng.choice(bombs("server", size)))
        attacker.expect(answer.status not in range(200, 300), f"a bomb is a {answer.status}")

    attacker.at_once(8, step)


def quote_bombs(attacker: Attacker) -> None:
    made = [quotes(500_000), backslashes(500_000), deep(500_000), quotes(40_000)]
    attacker.at_once(4, lambda number: attacker.call("POST", BOOT, attacker.rng.choice(made)))


def gzip_bombs(attacker: Attacker) -> None:
    bomb = zeros_compressed(200 * MIB)
    headers = {"Content-Encoding": "gzip"}

    def step(number: int) -> None:
        answer = attacker.call("POST", BOOT, bomb, headers=headers)
        attacker.expect(answer.status not in range(200, 300), f"a gzip bomb is a {answer.status}")

    attacker.at_once(4, step)


def slow_long_bodies(attacker: Attacker) -> None:
    """Bodies above what a thread reads at once, whose last byte never comes."""
    head = attacker.head("POST", "/servers", "Content-Type: application/json", "Content-Length: 500000")
    # A sender is known by its first answer.
    attacker.call("GET", "/flavors")
    sockets = []
    with suppress(OSError):
        for _ in range(40):
            sockets.append(attacker.socket())
            sockets[-1].sendall(head + b" " * 40_000)
    while not attacker.is_over:
        for one in sockets:
            with suppress(OSError):
                one.send(b" ")
        attacker.pause(0.1)
    for one in sockets:
        one.close()


def dry_run_storm(attacker: Attacker) -> None:
    attacker.at_once(32, lambda number: attacker.call("POST", BOOT, dry_run(1000)))


def dry_run_and_leave(attacker: Attacker) -> None:
    """Ask for a select and close the connection before its answer."""
    body = json.dumps(dry_run(1000)).encode()
    head = attacker.head("POST", BOOT, "Content-Type: application/json", f"Content-Length: {len(body)}")

    def step(number: int) -> None:
        with attacker.socket() as sock:
            sock.sendall(head + body)
            attacker.pause(0.005)

    attacker.at_once(16, step)


def query_bombs(attacker: Attacker) -> None:
    wide: list[Any] = ["or", *[["=", "$free_ram_mb", number] for number in range(200)]]
    broad: list[Any] = ["and", *[["not", ["in", "$free_ram_mb", *range(30)]] for _ in range(30)]]
    nested: list[Any] = [">", "$free_ram_mb", 0]
    for _ in range(12):
        nested = (
            ["and", nested, ["or", nested, nested]] if len(json.dumps(nested)) < 5_000 else ["not", nested]
        )
    long_texts: list[Any] = ["or", *[["=", "$capabilities.a", "x" * 250] for _ in range(50)]]
    queries = [wide, broad, nested, long_texts, ["and"] * 4000, json.dumps(wide)]

    def step(number: int) -> None:
        attacker.call("POST", BOOT, dry_run(100, query=attacker.rng.choice(queries)))

    attacker.at_once(8, step)


def boots_at_quota(attacker: Attacker) -> None:
    """Boot on and on, of sizes that fill the quota and go beyond it."""

    def step(number: int) -> None:
        answer = attacker.call("POST", BOOT, boot_form(attacker.rng.choice((1, 20, 400, 10_000))))
        attacker.expect(answer.status in (0, 202, 429, 503), f"a boot at the quota is a {answer.status}")

    attacker.at_once(8, step)


def boots_and_deletes(attacker: Attacker) -> None:
    """Make and delete instances in turn: never above the quota, and always writing."""

    def step(number: int) -> None:
        made = attacker.call("POST", "/servers", {"server": {"name": "x", "flavorRef": FLAVOR}}).json()
        uuid_ = made.get("server", {}).get("id")
        if uuid_:
            attacker.call("DELETE", f"/servers/{uuid_}")

    attacker.at_once(8, step)


def idempotency_keys(attacker: Attacker) -> None:
    """One key for many bodies at once, and keys that are none."""
    key = str(uuid.uuid4())
    made: set[str] = set()

    def step(number: int) -> None:
        used = attacker.rng.choice((key, key, key, "x" * 255, "x" * 300, "a\tb", ""))
        body = boot_form(1, name=f"n{attacker.rng.randrange(2)}")
        answer = attacker.call("POST", BOOT, body, headers={"Idempotency-Key": used})
        if used == key and answer.status == 202:
            made.add(answer.json()["reservation_id"])
            attacker.expect(len(made) == 1, "one Idempotency-Key made two boots")

    attacker.at_once(8, step)


def foreign_markers(attacker: Attacker) -> None:
    """Pages that begin at another project's instance or boot."""
    others = attacker.scene.others

    def step(number: int) -> None:
        for path in ("/servers", "/servers/detail", "/reservations"):
            foreign = others["reservation" if path == "/reservations" else "server"]
            told = attacker.call("GET", f"{path}?marker={foreign}")
            unknown = attacker.call("GET", f"{path}?marker={uuid.uuid4()}")
            attacker.expect(
                told.status == unknown.status or 0 in (told.status, unknown.status),
                f"{path} tells that a marker exists",
            )
            for filters in ("all_tenants=1", "project_id=victim", f"reservation_id={others['reservation']}"):
                attacker.call("GET", f"{path}?{filters}")

    attacker.at_once(4, step)


def others_instances(attacker: Attacker) -> None:
    """Read and delete instances, boots and groups of another project, by their ids."""
    others = attacker.scene.others
    paths = [("GET", f"/servers/{others['server']}"), ("DELETE", f"/servers/{others['server']}")]
    paths += [
        ("GET", f"/reservations/{others['reservation']}"),
        ("GET", f"/reservations/{others['reservation']}/why?host=a"),
    ]
    paths += [
        ("GET", f"/os-server-groups/{others['group']}"),
        ("DELETE", f"/os-server-groups/{others['group']}"),
    ]
    paths += [("POST", f"/reservations/{others['reservation']}/confirm")]

    def step(number: int) -> None:
        method, path = attacker.rng.choice(paths)
        answer = attacker.call(method, path)
        attacker.expect(
            answer.status not in range(200, 300), f"{method} of another project's is a {answer.status}"
        )
        joined = attacker.call("POST", BOOT, dry_run(1, group=others["group"]))
        attacker.expect(joined.status in (0, 400, 429, 503), f"another project's group is a {joined.status}")

    attacker.at_once(4, step)


def admins_calls(attacker: Attacker) -> None:
    """Every call of an admin, a parent and an agent, and hints that only an admin may give."""
    calls = [
        ("GET", path)
        for path in ("/zones", "/zones/detail", "/users", "/audit", "/metrics", "/os-hypervisors/detail")
    ]
    calls += [
        ("GET", "/zones/info"),
        ("GET", "/os-services"),
        ("GET", "/limits/own"),
        ("POST", "/zones/select"),
    ]
    calls += [
        ("POST", "/users"),
        ("PUT", "/hosts"),
        ("POST", "/flavors"),
        ("DELETE", "/flavors/1"),
        ("POST", "/audit"),
    ]
    hints: list[dict[str, Any]] = [
        {"force_hosts": "a"},
        {"ignore_hosts": ["a"]},
        {"build_near_host_ip": "10.0.0.1"},
    ]

    def step(number: int) -> None:
        method, path = attacker.rng.choice(calls)
        answer = attacker.call(method, path, headers={"X-Zonesched-Role": "admin"})
        attacker.expect(answer.status not in range(200, 300), f"{method} {path} is a {answer.status}")
        refused = attacker.call("POST", BOOT, dry_run(1, **attacker.rng.choice(hints)))
        attacker.expect(
            refused.status in (0, 400, 403, 429, 503), f"a hint of an admin's is a {refused.status}"
        )
        attacker.call("POST", BOOT, {**dry_run(1), "record": True})

    attacker.at_once(4, step)


def large_fields(attacker: Attacker) -> None:
    """Boots whose fields are each as large as they may be, or larger."""
    fields: list[dict[str, Any]] = [
        {"user_data": "QUFB" * 16_000},
        {"user_data": "QUFB" * 60_000},
        {"metadata": {f"k{n}": "v" * 255 for n in range(128)}},
        {"metadata": {f"k{n}": "v" for n in range(5_000)}},
        {"tags": ["t" * 60] * 50},
        {"name": "n" * 100_000},
        {"security_groups": [{"name": "g" * 255}] * 64},
        {"networks": [{"uuid": str(uuid.uuid4()), "fixed_ip": "f" * 45, "tag": "t" * 60}] * 64},
        {"filters": ["CoreFilter"] * 32},
        {"filters": ["os.system", "../etc/passwd", "zonesched.services.zone.Zone"]},
    ]
    hints: list[dict[str, Any]] = [
        {"x": ["y" * 100] * 600},
        {"same_host": [str(uuid.uuid4())] * 128},
        {"cidr": "/0"},
    ]

    def step(number: int) -> None:
        body = {
            **boot_form(1, **attacker.rng.choice(fields)),
            "os:scheduler_hints": attacker.rng.choice(hints),
        }
        attacker.call("POST", BOOT, body)

    attacker.at_once(8, step)


def group_churn(attacker: Attacker) -> None:
    """Server groups without end, and selects that join them."""

    def step(number: int) -> None:
        form = {"server_group": {"name": "g", "policy": attacker.rng.choice(("affinity", "anti-affinity"))}}
        made = attacker.call("POST", "/os-server-groups", form).json().get("server_group", {})
        if made:
            attacker.call("POST", BOOT, dry_run(100, group=made["id"]))
        attacker.call("GET", "/os-server-groups?limit=1000")

    attacker.at_once(8, step)


def list_storm(attacker: Attacker) -> None:
    paths = [
        "/servers/detail?limit=1000",
        "/reservations?limit=1000",
        "/flavors/detail",
        "/images/detail",
        "/limits",
    ]
    paths += ["/servers/detail?name=" + "a" * 200, "/os-availability-zone", "/servers?status=DELETED"]
    attacker.at_once(32, lambda number: attacker.call("GET", attacker.rng.choice(paths)))


ATTACKS = (
    Attack("member-body-bombs", "sends bodies of many values or keys, per call", body_bombs),
    Attack("member-quote-bombs", "sends bodies that are slow to check for depth", quote_bombs),
    Attack("member-gzip-bombs", "sends a compressed body of 200 MiB", gzip_bombs),
    Attack("member-slow-long-bodies", "sends 40 long bodies byte by byte", slow_long_bodies),
    Attack("member-dry-run-storm", "asks for 32 selects of 1,000 instances at a time", dry_run_storm),
    Attack("member-dry-run-and-leave", "asks for selects and closes the connection", dry_run_and_leave),
    Attack("member-query-bombs", "sends JSONFilter queries that are costly to evaluate", query_bombs),
    Attack("member-boots-at-quota", "boots beyond its quota", boots_at_quota),
    Attack("member-boots-and-deletes", "makes and deletes instances in turn", boots_and_deletes),
    Attack(
        "member-idempotency-keys", "sends many bodies under one key, and keys that are none", idempotency_keys
    ),
    Attack("member-foreign-markers", "begins pages at other projects' instances", foreign_markers),
    Attack(
        "member-others-instances", "reads and deletes other projects' instances and groups", others_instances
    ),
    Attack("member-admins-calls", "makes calls and gives hints that are for others", admins_calls),
    Attack("member-large-fields", "fills each field of a boot, and more", large_fields),
    Attack("member-group-churn", "makes server groups without end", group_churn),
    Attack("member-list-storm", "lists everything, 32 at a time", list_storm),
)
