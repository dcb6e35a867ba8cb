"""Honest users and their instances, the users of attackers, and the texts that no attacker may read."""

from __future__ import annotations

import base64
import json
import os
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from benchmarks.zone_trees.client import ZoneClient, ZoneFault
from benchmarks.zone_trees.processes import StartFailed, free_ports
from benchmarks.zone_trees.tree import SERVICE

from .attack import Role
from .scene import Scene
from .tree import NAMES, Tree
from .wire import a_spec, build_body

INSTANCES = 6
ACTIVE_WITHIN_S = 30.0
PLAYED = "played"
MANY_DRY_RUNS = {"project_dry_runs_per_minute": 10_000_000}
"""Quota of those who make dry runs all the time: attackers too, so that what is behind it is attacked."""

QUOTA = {"project_instances": 100, "project_open_boots": 20, **MANY_DRY_RUNS}
"""Quota of the hostile project, as an operator sets one: rows within it are no harm."""

PARENT_QUOTA = {"parent_instances": 100, "parent_tombstones": 1000}
MEASURED = {"parent_selects_per_hour": 10_000_000}
"""Quota of the measured callers, who select all the time."""


@dataclass(frozen=True)
class Setting:
    """The scene of the attackers, and the logins of the callers who are measured by name of their zone."""

    scene: Scene
    victims: dict[str, tuple[str, str]]


def set_the_scene(tree: Tree) -> Setting:
    """Make users and instances, and add the played child to the root."""
    root, middle, leaf = (tree.zones[name] for name in NAMES)
    user_data = f"user-data-{os.urandom(6).hex()}"
    password = f"password-{os.urandom(6).hex()}"
    victim = (root.name, root.secret_of("victim", "member", "victim"))
    secrets = {
        "victim": victim[1],
        "member": root.secret_of("hostile", "member", "hostile"),
        "parent": middle.secret_of("hostile", "parent"),
        "partner": middle.secret_of("partner", "parent"),
        "partner-of-leaf": leaf.secret_of("partner", "parent"),
        "agent": leaf.secret_of("hostile-agent", "compute"),
        "admin": leaf.secret_of("hostile-admin", "admin", "hostile"),
        "person": middle.secret_of("person", "member", "people", password),
    }
    root.admin.call("PUT", "/limits/projects/hostile", {"limits": QUOTA})
    root.admin.call("PUT", "/limits/projects/victim", {"limits": MANY_DRY_RUNS})
    middle.admin.call("PUT", "/limits/parents/hostile", {"limits": PARENT_QUOTA})
    for zone, parents in ((middle, ("partner", "user-of-root")), (leaf, ("partner", "user-of-middle"))):
        for parent in parents:
            zone.admin.call("PUT", f"/limits/parents/{parent}", {"limits": MEASURED})
    tenant = root.processes[0].site.client("victim", secrets["victim"])
    others = _boot(tree, tenant, user_data)
    others |= _hold(middle.processes[0].site.client("partner", secrets["partner"]))
    hosts = {name: _host_texts(tree, name) for name in NAMES}
    others["host"] = hosts["leaf"][0]
    common = [base64.b64encode(user_data.encode()).decode(), user_data, password]
    common += [uuid_ for uuid_ in others.pop("uuids").split() if uuid_ not in others.values()]
    for zone in tree.zones.values():
        options = zone.processes[0].site.options
        common += [options["build_plan_encryption_key"], options["secret_encryption_key"]]
    all_hosts = [text for texts in hosts.values() for text in texts]
    titles = {zone.name: zone.title for zone in tree.zones.values()}
    forbidden = {
        Role.STRANGER: [*common, *secrets.values(), *all_hosts, *titles.values()],
        # The dashboard names its own zone to its users.
        Role.MEMBER: [*common, *_but(secrets, "member"), *all_hosts, titles["middle"], titles["leaf"]],
        Role.PARENT: [*common, *_but(secrets, "parent"), *all_hosts, titles["root"], titles["leaf"]],
        Role.AGENT: [
            *common,
            *_but(secrets, "agent"),
            *(t for t in all_hosts if t != others["host"]),
            titles["root"],
        ],
        Role.ADMIN: [*common, *_but(secrets, "admin"), *hosts["root"], *hosts["middle"], titles["root"]],
        Role.CHILD: [*common, *secrets.values(), *all_hosts, *titles.values()],
    }
    kept = {role.value: texts for role, texts in forbidden.items()}
    child_url = _play_child(tree, kept["child"], [others["server"], others["held"]])
    logins = {
        "member": ("hostile", secrets["member"]),
        "parent": ("hostile", secrets["parent"]),
        "partner": ("partner", secrets["partner"]),
        "agent": ("hostile-agent", secrets["agent"]),
        "admin": ("hostile-admin", secrets["admin"]),
        "person": ("person", ""),
    }
    urls = {zone.name: zone.url for zone in tree.zones.values()}
    scene = Scene(urls, child_url, tree.ca_file, logins, kept, others)
    victims = {
        "root": ("victim", secrets["victim"]),
        "middle": ("partner", secrets["partner"]),
        "leaf": ("partner", secrets["partner-of-leaf"]),
    }
    tenant.close()
    return Setting(scene, victims)


def _but(secrets: dict[str, str], own: str) -> list[str]:
    return [secret for name, secret in secrets.items() if name != own]


def _boot(tree: Tree, tenant: ZoneClient, user_data: str) -> dict[str, str]:
    """Boot the victim's instances, and have the honest agents build them."""
    server = {
        "name": "victims",
        "flavorRef": "small",
        "num_instances": INSTANCES,
        "user_data": base64.b64encode(user_data.encode()).decode(),
    }
    reservation = str(tenant.call("POST", "/zones/boot", {"server": server})["reservation_id"])
    group = tenant.call(
        "POST", "/os-server-groups", {"server_group": {"name": "g", "policy": "anti-affinity"}}
    )
    ends_at = time.monotonic() + ACTIVE_WITHIN_S
    on_host = ""
    while True:
        for agent in tree.agents:
            on_host = _build(agent) or on_host
        told = tenant.call("GET", f"/reservations/{reservation}")["reservation"]
        if told["state"] == "ACTIVE":
            break
        if time.monotonic() > ends_at:
            raise StartFailed(f"the victim's instances do not become ACTIVE: {told}")
        time.sleep(0.2)
    uuids = [instance["uuid"] for instance in told["instances"]]
    return {
        "reservation": reservation,
        "server": uuids[0],
        "group": str(group["server_group"]["id"]),
        "on_host": on_host or uuids[0],
        "uuids": " ".join(uuids),
    }


def _build(agent: ZoneClient) -> str:
    """Report everything that should run as active; return the uuid of an instance."""
    with suppress(ZoneFault):
        told = agent.call("GET", f"/hosts/instances?service={SERVICE}")["instances"]
        reports = [
            {"uuid": i["uuid"], "attempt": i["attempt"], "state": "active", "reason": ""} for i in told
        ]
        if reports:
            agent.call("POST", "/hosts/reports", {"service": SERVICE, "reports": reports})
            return str(reports[0]["uuid"])
    return ""


def _hold(partner: ZoneClient) -> dict[str, str]:
    """Hold and confirm an instance as another parent; return what attackers may know of it."""
    spec = a_spec(num_instances=1)
    told = partner.call("POST", "/zones/select", {"version": 1, "request_spec": spec})
    build = {"uuid": str(uuid.uuid4()), "attempt": 1, "blobs": [told["weights"][0]["blob"]]}
    body: dict[str, Any] = build_body(spec, [build], hold_s=5.0)
    state = ""
    ends_at = time.monotonic() + ACTIVE_WITHIN_S
    partner.call("POST", "/servers", body)
    while state != "confirmed":
        path = f"/reservations/{body['server']['reservation_id']}/confirm"
        answer = partner.call("POST", path, {"builds": [{"uuid": build["uuid"], "attempt": 1}]})
        state = str(answer["builds"][0]["state"])
        if time.monotonic() > ends_at:
            raise StartFailed(f"the partner's instance is not confirmed: {answer}")
    cursor = str(partner.call("GET", "/reservations?cursor=")["cursor"])
    partner.close()
    return {"held": str(build["uuid"]), "cursor": cursor}


def _host_texts(tree: Tree, name: str) -> list[str]:
    """Names, addresses and ids of a zone's hosts."""
    told = tree.zones[name].admin.call("GET", "/os-hypervisors/detail")["hypervisors"]
    texts = [str(host["hypervisor_hostname"]) for host in told]
    return texts + [str(host["host_ip"]) for host in told] + [str(host["id"]) for host in told]


def _play_child(tree: Tree, forbidden: list[str], others: list[str]) -> str:
    """Start the played child and make it one of the root; return the URL of its controls."""
    port = free_ports(1)[0]
    files = {"forbidden": forbidden, "others": others}
    for name, texts in files.items():
        path = tree.folder / f"{name}.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(texts))
    given = [part for name in files for part in (f"--{name}", str(tree.folder / f"{name}.json"))]
    if tree.certificates is not None:
        given += ["--certificate", str(tree.certificates.server)]
    tree.help_by("process", "child", "--port", str(port), *given)
    tree.link("root", PLAYED, tree.url(port), password="played")
    return f"http://127.0.0.1:{port}"
