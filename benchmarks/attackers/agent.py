"""Attacks by a compute agent, on the zone that has its hosts and other agents' hosts."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from benchmarks.zone_trees.tree import SERVICE as OTHER_SERVICE

from .attack import Attack
from .attacker import Attacker
from .bodies import MIB, bombs

SERVICE = "hostile-agent"
INVENTORIES = {"VCPU": {"total": 4}, "MEMORY_MB": {"total": 4096}, "DISK_GB": {"total": 50}}


def a_host(name: str, **changes: Any) -> dict[str, Any]:
    return {"name": name, "inventories": INVENTORIES, **changes}


def register(attacker: Attacker, hosts: Sequence[dict[str, Any]], service: str = SERVICE) -> int:
    return attacker.call("PUT", "/hosts", {"service": service, "hosts": list(hosts)}).status


def others_reports(attacker: Attacker) -> None:
    """Report states of instances on other agents' hosts."""
    victim = attacker.scene.others["on_host"]

    def step(number: int) -> None:
        for state in ("gone", "error", "active"):
            report = {"uuid": victim, "attempt": attacker.rng.randrange(1, 4), "state": state, "reason": ""}
            if state == "error":
                report["reason"] = "broken"
            attacker.call("POST", "/hosts/reports", {"service": SERVICE, "reports": [report] * 200})
            own = attacker.call("POST", "/hosts/reports", {"service": OTHER_SERVICE, "reports": [report]})
            attacker.expect(
                own.status in (0, 403, 404, 503), f"a report for another's service is a {own.status}"
            )
        told = attacker.call("GET", f"/hosts/instances?service={OTHER_SERVICE}")
        attacker.expect(told.status in (0, 403, 404, 503), f"another service's instances are a {told.status}")

    attacker.at_once(4, step)


def others_hosts(attacker: Attacker) -> None:
    """Register other agents' hosts and services as one's own."""
    name = attacker.scene.others["host"]

    def step(number: int) -> None:
        status = register(attacker, [a_host(name)])
        attacker.expect(status in (0, 409, 503), f"another agent's host is a {status}")
        status = register(attacker, [a_host(f"own-{number}")], OTHER_SERVICE)
        attacker.expect(status in (0, 403, 503), f"another user's service is a {status}")
        for path in ("/hosts/beat", "/hosts/excesses"):
            attacker.call("POST", path, {"service": OTHER_SERVICE, "excesses": []})

    attacker.at_once(4, step)


def body_bombs(attacker: Attacker) -> None:
    routes = [("PUT", "/hosts", "hosts", 16 * MIB), ("POST", "/hosts/reports", "reports", MIB - 100)]
    routes += [("POST", "/hosts/excesses", "excesses", MIB - 100), ("PUT", "/hosts", "hosts", 4 * MIB)]

    def step(number: int) -> None:
        method, path, member, size = attacker.rng.choice(routes)
        answer = attacker.call(method, path, attacker.rng.choice(bombs(member, size)))
        attacker.expect(answer.status not in range(200, 300), f"a bomb is a {answer.status}")

    attacker.at_once(4, step)


def inventory_bombs(attacker: Attacker) -> None:
    """Hosts with as many classes, traits, metrics and capabilities as may be."""
    classes = {f"CUSTOM_C{n}": {"total": 2**31 - 1, "allocation_ratio": 1e6} for n in range(64)}
    hosts: list[dict[str, Any]] = [
        a_host("own-0", inventories=classes),
        a_host("own-0", traits=[f"T{n}" + "X" * 240 for n in range(512)]),
        a_host("own-0", capabilities={f"k{n}": "v" * 50 for n in range(900)}),
        a_host("own-0", capabilities={"k" * 60_000: 1}),
        a_host("own-0", metrics={f"m{n}": 1e308 for n in range(64)}),
        a_host("own-0", inventories={"VCPU": {"total": 0, "reserved": 2**31 - 1, "step_size": 2**31 - 1}}),
        a_host("own-0", address="not an address", availability_zone="z" * 255),
    ]
    many = [a_host(f"own-{n}", traits=[f"T{t}" for t in range(100)]) for n in range(100)]

    def step(number: int) -> None:
        register(attacker, many if number == 0 else [attacker.rng.choice(hosts)])

    attacker.at_once(3, step)
    register(attacker, [a_host(f"own-{n}") for n in range(100)])


def heartbeat_storm(attacker: Attacker) -> None:
    register(attacker, [a_host("own-0")])
    attacker.at_once(32, lambda number: attacker.call("POST", "/hosts/beat", {"service": SERVICE}))


def work_storm(attacker: Attacker) -> None:
    """Fetch instances and claims as fast as one can."""
    register(attacker, [a_host("own-0")])
    paths = [f"/hosts/instances?service={SERVICE}", f"/hosts/claims?service={SERVICE}"]
    attacker.at_once(16, lambda number: attacker.call("GET", paths[number % 2]))


def excess_reports(attacker: Attacker) -> None:
    """Report excesses of own and of other agents' hosts, as large as may be."""
    register(attacker, [a_host(f"own-{n}") for n in range(100)])
    names = [f"own-{n}" for n in range(100)] + [attacker.scene.others["host"], "unknown"]

    def step(number: int) -> None:
        excesses = [
            {
                "host": name,
                "resource_class": "VCPU",
                "excess": attacker.rng.choice((2**31 - 1, -(2**31) + 1, 0)),
            }
            for name in names
        ]
        attacker.call("POST", "/hosts/excesses", {"service": SERVICE, "excesses": excesses})

    attacker.at_once(4, step)


def unknown_reports(attacker: Attacker) -> None:
    """Report on instances that do not exist, 2,000 at a time."""

    def step(number: int) -> None:
        reports = [
            {
                "uuid": str(uuid.UUID(int=attacker.rng.getrandbits(128))),
                "attempt": 1,
                "state": "active",
                "reason": "",
            }
            for _ in range(2000)
        ]
        attacker.call("POST", "/hosts/reports", {"service": SERVICE, "reports": reports})

    register(attacker, [a_host("own-0")])
    attacker.at_once(4, step)


def console_storm(attacker: Attacker) -> None:
    """Bring console outputs that nobody asked for, as large as may be and larger."""
    register(attacker, [a_host("own-0")])
    outputs = ["x" * 32_768, "\x00" * 32_768, "\ud7ff" * 32_768, "x" * 200_000]

    def step(number: int) -> None:
        brought = {
            "service": attacker.rng.choice((SERVICE, OTHER_SERVICE)),
            "id": str(uuid.UUID(int=attacker.rng.getrandbits(128))),
            "state": "read",
            "output": attacker.rng.choice(outputs),
        }
        answer = attacker.call("POST", "/hosts/consoles", brought)
        attacker.expect(
            brought["service"] == SERVICE or answer.status in (0, 400, 403, 404, 413, 503),
            f"a console for another's service is a {answer.status}",
        )

    attacker.at_once(8, step)


ATTACKS = (
    Attack("agent-others-reports", "reports states of instances on other agents' hosts", others_reports),
    Attack("agent-others-hosts", "registers other agents' hosts and services", others_hosts),
    Attack("agent-body-bombs", "sends bodies of many values, up to 16 MiB", body_bombs),
    Attack("agent-inventory-bombs", "reports hosts with as many facts as may be", inventory_bombs),
    Attack("agent-heartbeat-storm", "sends heartbeats, 32 at a time", heartbeat_storm),
    Attack("agent-work-storm", "fetches instances and claims, 16 at a time", work_storm),
    Attack("agent-excess-reports", "reports excesses of own and of others' hosts", excess_reports),
    Attack("agent-console-storm", "brings console outputs that nobody asked for", console_storm),
    Attack("agent-unknown-reports", "reports on instances that do not exist", unknown_reports),
)
