"""The answers of a zone have the members that the OpenAPI document says, at every depth, and no others.

`conftest.py` compares the answers of every test of this folder; here each call is made at least once.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.builders import parent_calls
from tests.builders.boots import FLAVOR
from tests.builders.described_answers import compared, described, mismatches
from tests.builders.inline_executor import InlineExecutor
from tests.builders.played_agent import agents_of
from tests.builders.tree import Answer, Node, Tree, a_host
from zonesched.api import answer as answers
from zonesched.api.openapi import document
from zonesched.api.openapi_answers.answers import ANSWERS
from zonesched.api.urls import URLS
from zonesched.model.console import CONSOLE_TRAIT
from zonesched.services.select import info

pytestmark = pytest.mark.once

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIR8NN31+uZVnUHOsErnpvtav8YLp4KkCLaIRa00BkHY x@y"
LARGER = {"flavor": {"name": "larger", "vcpus": 3, "ram": 2048, "disk": 10, "swap": 1, "description": "d"}}
host = partial(a_host, traits=(CONSOLE_TRAIT,))
FORMS = {key for route in URLS for key in described(route)}


class Tour:
    """A root and a leaf, both with hosts, and the ids of what was made there."""

    def __init__(self, folder: Path) -> None:
        self.tree = Tree(folder)
        self.node: Node = self.tree.add("root", hosts_=[host("r1"), host("r2")])
        below = [host("l1", zone="az-leaf"), host("l2", zone="az-leaf")]
        self.tree.add("leaf", parent="root", hosts_=below)
        self.tree.poll()
        self.agents = agents_of(self.tree)

    def call(self, method: str, path: str, body: Any = None, user: str = "admin", minor: int = 98) -> Any:
        """Make a call that succeeds; return its answer's JSON."""
        headers = {"OpenStack-API-Version": f"compute 2.{minor}"}
        answer: Answer = self.node.client(user).call(method, path, body, headers=headers)
        assert answer.status < 300, (method, path, answer.body)
        return answer.json

    def get(self, *paths: str, user: str = "admin") -> None:
        for path in paths:
            for minor in (1, 98):
                self.call("GET", path, user=user, minor=minor)

    def settle(self, rounds: int = 3) -> None:
        for _ in range(rounds):
            self.tree.clock.advance(10.0)
            self.tree.settle()
            for agent in self.agents.values():
                agent.converge()
        self.tree.settle()

    def boot(self, **members: Any) -> str:
        server = {"name": "vm", "flavorRef": "small", "imageRef": "", **members}
        made: str = self.call("POST", "/servers", {"server": server}, "member")["server"]["id"]
        self.settle()
        return made


def test_every_form_is_a_schema_of_a_call() -> None:
    assert ANSWERS.keys() == FORMS
    for form in ANSWERS.values():
        jsonschema_rs.meta.validate(dict(form))
    responses = [
        response
        for path in document(URLS)["paths"].values()
        for operation in path.values()
        if isinstance(operation, dict)
        for response in operation["responses"].values()
    ]
    described = [r["content"]["application/json"]["schema"] for r in responses if is_json(r)]
    assert len(described) > 100
    assert all(described)


def is_json(response: dict[str, Any]) -> bool:
    return "application/json" in response.get("content", {})


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({"keypairs": []}, ""),
        ({"keypairs": [], "more": 1}, "more"),
        ({}, "keypairs"),
        ({"keypairs": [{"keypair": {"name": "k", "public_key": 1, "fingerprint": ""}}]}, "public_key"),
        ({"keypairs": [{"keypair": {"name": "k", "public_key": "", "fingerprint": "", "x": 1}}]}, "'x'"),
    ],
)
def test_a_wrong_member_at_any_depth_is_found(body: Any, wrong: str) -> None:
    (route,) = [route for route in URLS if route.operation_id == "keypairs_list_all"]

    found = " ".join(mismatches(route, answers.ok(body)))

    assert bool(found) == bool(wrong)
    assert wrong in found


@pytest.mark.slow
def test_each_call_is_answered_as_it_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared.clear()
    tour = Tour(tmp_path)
    for part in (catalog, lives, hosts, projects, zones, parents):
        part(tour)
    monkeypatch.setattr(info, "is_ready", lambda store: False)
    assert tour.node.client("").get("/readiness").status == 503

    assert FORMS - compared.keys() == set()


def catalog(tour: Tour) -> None:
    """Flavors, images, key pairs and server groups."""
    call = tour.call
    for body in (FLAVOR, LARGER):
        flavor = call("POST", "/flavors", body)["flavor"]["id"]
    call("PUT", f"/flavors/{flavor}", {"flavor": {"description": "other"}})
    specs = f"/flavors/{flavor}/os-extra_specs"
    call("POST", specs, {"extra_specs": {"a:b": "c"}})
    call("PUT", f"{specs}/a:b", {"a:b": "d"})
    secret = call(
        "POST", "/flavors", {"flavor": {**LARGER["flavor"], "name": "x", "os-flavor-access:is_public": False}}
    )
    access = f"/flavors/{secret['flavor']['id']}"
    call("POST", f"{access}/action", {"addTenantAccess": {"tenant": "p"}})
    tour.get(specs, f"{specs}/a:b", f"{access}/os-flavor-access", f"/flavors/{flavor}")
    tour.get("/flavors?limit=1", "/flavors/detail?limit=1")

    image = call("POST", "/images", {"image": {"name": "plain", "properties": {"os": "linux"}}})["image"][
        "id"
    ]
    call("POST", "/images", {"image": {"id": "newer", "name": "newer"}})
    metadata = f"/images/{image}/metadata"
    call("POST", metadata, {"metadata": {"a": "b"}})
    call("PUT", metadata, {"metadata": {"os": "linux"}})
    call("PUT", f"{metadata}/os", {"meta": {"os": "linux"}})
    tour.get(metadata, f"{metadata}/os", "/images", "/images/detail", f"/images/{image}")
    tour.get("/image/v2/images?limit=1", f"/image/v2/images/{image}", "/image/", "/image/v2")

    call("POST", "/os-keypairs", {"keypair": {"name": "made"}}, minor=1)
    call("POST", "/os-keypairs", {"keypair": {"name": "k", "public_key": KEY}})
    tour.get("/os-keypairs?limit=1", "/os-keypairs/k")
    for policy in ("anti-affinity", "soft-affinity"):
        group = call("POST", "/os-server-groups", {"server_group": {"name": "g", "policy": policy}})
    tour.get("/os-server-groups", f"/os-server-groups/{group['server_group']['id']}")


def lives(tour: Tour) -> None:
    """Servers on hosts of the root and of the leaf, in many a state."""
    call = tour.call
    named = {"key_name": "k", "metadata": {"a": "b"}, "tags": ["t"], "imageRef": "newer"}
    here, below = tour.boot(availability_zone="az1", **named), tour.boot(availability_zone="az-leaf")
    call("POST", "/servers", {"server": {"name": "r", "flavorRef": "small", "return_reservation_id": True}})
    tour.boot(
        flavorRef=call("POST", "/flavors", {"flavor": {"name": "huge", "vcpus": 999, "ram": 1, "disk": 1}})[
            "flavor"
        ]["id"]
    )
    look(tour, here, below)
    for server in (here, below):
        for action in (
            {"os-stop": None},
            {"os-start": None},
            {"rebuild": {"imageRef": "plain"}},
            {"lock": {"locked_reason": "why"}},
            {"unlock": None},
            {"suspend": None},
        ):
            image = call("GET", "/images")["images"][-1]["id"]
            body = {"rebuild": {"imageRef": image}} if "rebuild" in action else action
            call("POST", f"/servers/{server}/action", body)
            tour.settle()
        look(tour, here, below)
    call("POST", f"/servers/{here}/action", {"resume": None})
    tour.settle()
    call("POST", f"/servers/{here}/action", {"resize": {"flavorRef": "larger"}})
    tour.tree.settle()
    tour.get(f"/servers/{here}/migrations", "/os-migrations")
    (migration,) = call("GET", f"/servers/{here}/migrations")["migrations"]
    tour.get(f"/servers/{here}/migrations/{migration['id']}")
    tour.settle()
    look(tour, here, below)
    console(tour, below)
    details(tour, here)
    call("POST", f"/servers/{below}/action", {"shelve": None})
    tour.settle()
    look(tour, here, below)
    events = [{"name": "network-changed", "server_uuid": uuid} for uuid in (here, "0" * 8 + here[8:])]
    for some in (events[:1], events):
        call("POST", "/os-server-external-events", {"events": some})
    reservation = call("GET", f"/servers/{here}")["server"]["reservation_id"]
    call("POST", f"/reservations/{reservation}/action", {"confirmResize": None})
    call("POST", f"/reservations/{reservation}/action", {"confirmResize": None})
    tour.settle()
    tour.get(
        "/reservations?limit=1", f"/reservations/{reservation}", f"/reservations/{reservation}/why?host=r1"
    )


def look(tour: Tour, *servers: str) -> None:
    for user in ("admin", "member"):
        tour.get("/servers?limit=1", "/servers/detail", user=user)
        for server in servers:
            tour.get(f"/servers/{server}", f"/servers/{server}/os-instance-actions", user=user)
            for action in tour.call("GET", f"/servers/{server}/os-instance-actions")["instanceActions"]:
                tour.get(f"/servers/{server}/os-instance-actions/{action['request_id']}", user=user)


def console(tour: Tour, server: str) -> None:
    """Read the console of a server while its agent brings it."""
    executor = tour.tree.executor
    assert isinstance(executor, InlineExecutor)
    pause = executor.while_paused

    def bring(seconds: float) -> None:
        pause(seconds)
        tour.agents["leaf"].bring_consoles({server: "output\n"})

    executor.while_paused = bring
    tour.call("POST", f"/servers/{server}/action", {"os-getConsoleOutput": {}})
    executor.while_paused = pause


def details(tour: Tour, server: str) -> None:
    call, path = tour.call, f"/servers/{server}"
    call("PUT", path, {"server": {"name": "other"}}, "member")
    call("POST", f"{path}/metadata", {"metadata": {"c": "d"}}, "member")
    call("PUT", f"{path}/metadata", {"metadata": {"e": "f"}}, "member")
    call("PUT", f"{path}/metadata/e", {"meta": {"e": "g"}}, "member")
    call("PUT", f"{path}/tags", {"tags": ["one"]}, "member")
    lists = ("metadata", "metadata/e", "tags", "ips", "os-security-groups", "os-interface", "shares")
    more = ("os-volume_attachments", "diagnostics", "topology", "os-server-password")
    tour.get(*(f"{path}/{name}" for name in (*lists, *more)))


def hosts(tour: Tour) -> None:
    """Hypervisors, services, aggregates and availability zones; and an agent's calls."""
    call = tour.call
    id = next(
        one["id"]
        for one in call("GET", "/os-hypervisors")["hypervisors"]
        if one["hypervisor_hostname"] == "r2"
    )
    hypervisor = f"/os-hypervisors/{id}"
    call("PUT", hypervisor, {"hypervisor": {"resources": {"VCPU": {"allocation_ratio": 2.0, "reserved": 1}}}})
    tour.get("/os-hypervisors?limit=1&with_servers=1", "/os-hypervisors/detail?limit=1&with_servers=1")
    tour.get(
        "/os-hypervisors/statistics", "/os-hypervisors/r/search", "/os-hypervisors/r/servers", hypervisor
    )
    tour.get(f"{hypervisor}/uptime", f"{hypervisor}?with_servers=1")

    aggregate = (
        f"/os-aggregates/{call('POST', '/os-aggregates', {'aggregate': {'name': 'a'}})['aggregate']['id']}"
    )
    call("PUT", aggregate, {"aggregate": {"name": "b", "availability_zone": "az1"}})
    call("POST", f"{aggregate}/action", {"add_host": {"host": "r2"}})
    tour.get("/os-aggregates", aggregate, "/os-availability-zone", "/os-availability-zone/detail")

    service = {"host": "r2", "binary": "nova-compute"}
    call("PUT", "/os-services/disable", service)
    call("PUT", "/os-services/disable-log-reason", {**service, "disabled_reason": "why"})
    tour.get("/os-services", "/os-hosts", "/os-hosts/r2", "/os-instance_usage_audit_log")
    tour.get("/os-instance_usage_audit_log/2026-01-01 00:00:00")
    call("PUT", "/os-services/enable", service)
    call("PUT", "/os-hosts/r2", {"status": "enable"})
    call("PUT", "/os-services/force-down", {**service, "forced_down": True})
    call("POST", f"/os-services/{id}/action", {"evacuate": {"fenced": True}})
    call("PUT", f"/os-services/{id}", {"forced_down": False})
    tour.call("GET", "/hosts/claims?service=agent", user="compute")
    tour.call("GET", "/hosts/registrations?service=agent", user="compute")
    inventories = {"VCPU": {"total": 4}}
    body = {"service": "other", "hosts": [{"name": "r3", "inventories": inventories}]}
    call("PUT", "/hosts", body, "compute")
    tour.settle()


def projects(tour: Tour) -> None:
    """Quotas, usage, projects and users."""
    call = tour.call
    call("PUT", "/limits/projects/project-1", {"limits": {"project_instances": 50}})
    call("POST", "/users", {"user": {"name": "above", "role": "parent"}})
    call("PUT", "/limits/parents/above", {"limits": {"parent_instances": 50}})
    call("PUT", "/users/above", {"user": {"explain_to_parent": "counts"}})
    call("PUT", "/os-quota-sets/project-1", {"quota_set": {"instances": 60}})
    call("PUT", "/os-quota-class-sets/default", {"quota_class_set": {}})
    call("POST", "/sign-in-links", {})
    quotas = "/os-quota-sets/project-1"
    tour.get("/limits", "/limits/overrides", "/limits/projects/project-1", "/limits/parents/above")
    tour.get(quotas, f"{quotas}/defaults", f"{quotas}/detail", "/os-quota-class-sets/default", "/users")
    usage = "/os-simple-tenant-usage"
    tour.get(f"{usage}?detailed=1&limit=1", f"{usage}/project-1?limit=1", f"{usage}/nobody")
    tour.get("/identity/", "/identity/v3", "/identity/v3/projects", "/identity/v3/projects/project-1")
    [admin] = call("GET", "/identity/v3/users?name=admin")["users"]
    tour.get("/identity/v3/users", f"/identity/v3/users/{admin['id']}")


def zones(tour: Tour) -> None:
    """Child zones, boots that are only tried, audits, versions and probes."""
    call = tour.call
    (child,) = call("GET", "/zones")["zones"]
    boot = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 2}}
    for user in ("admin", "member"):
        call("POST", "/zones/boot", {**boot, "dry_run": True}, user)
    call("POST", "/zones/boot", {**boot, "dry_run": True, "record": True})
    call("POST", "/zones/boot", boot, "member")
    tour.settle()
    tour.get("/zones", "/zones/detail", "/zones/info", f"/zones/{child['id']}", "/", "/v2.1/", "/health")
    tour.get(
        "/readiness", "/openapi.json", "/extensions", "/extensions/os-keypairs", "/audit", "/audit?tree=1"
    )
    call("POST", "/audit", {"repair": {"dry_run": True}})
    call("PUT", f"/zones/{child['id']}", {"zone": {"state": "disabled"}})
    call("POST", f"/zones/{child['id']}/action", {"drain": {"count": 5}})
    tour.tree.add("spare")
    form = {"name": "spare", "api_url": tour.tree.nodes["spare"].url, "username": "root"}
    made = tour.tree.nodes["spare"].client().post("/users", {"user": {"name": "root", "role": "parent"}})
    call("POST", "/zones", {"zone": {**form, "password": made.json["user"]["secret"]}})


def parents(tour: Tour) -> None:
    """Calls of a parent that no zone of this tree makes of itself."""
    node = tour.node
    parent_calls.a_parent(node, "p")
    parent_calls.hold(node, "p", [1, 2])
    parent_calls.cancel(node, "p", [1])
    parent_calls.confirm(node, "p", [2])
    tour.settle()
    (server,) = tour.call("GET", "/servers", user="p")["servers"]
    tour.get(
        f"/servers/{server['id']}", f"/servers/{server['id']}/request", "/limits", "/zones/info", user="p"
    )
    tour.call("POST", "/servers/named", {"boots": [], "last": True}, "p")
