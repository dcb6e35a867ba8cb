"""Calls that /openapi.json describes, made by Schemathesis to a zone with hosts: the zone does as it says."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from schemathesis.core.result import Ok

from benchmarks.fuzzing.site import PARENT, ROLES, Site, a_site
from tests.builders.tree import Node
from zonesched.api import microversion
from zonesched.api.openapi_links import NAMED, Named
from zonesched.api.urls import URLS

with warnings.catch_warnings():
    # The packages that it brings along warn about themselves.
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis import checks, engine
    from schemathesis.config import SchemathesisConfig
    from schemathesis.engine import events

pytestmark = [pytest.mark.once, pytest.mark.slow]

CALLS_EACH = 3
SCENARIOS = 25
CALLS_IN_A_ROW = 6
LEFT_OUT = (
    # Wrong passwords are counted, and soon answered with 429.
    "ignored_auth",
    # A schema cannot say which names there are, or what only one role may ask for.
    "positive_data_acceptance",
    # A 404 may be about another name in the body: a new aggregate is asked to add a host that is not there.
    "ensure_resource_availability",
)


def success_is_described(context: Any, response: Any, case: Any) -> None:
    """A status that is no fault stands in the description by its number."""
    described = case.operation.definition.raw["responses"]
    assert response.status_code >= 400 or str(response.status_code) in described, response.status_code


@pytest.fixture(scope="module")
def first_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The site of which each test has copies."""
    made = a_site(tmp_path_factory.mktemp("site"))
    made.tree.stop()
    return made


def headers_of(node: Node, role: str) -> dict[str, str]:
    pair = base64.b64encode(f"{role}:{node.secrets[role]}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


def test_every_call_answers_as_it_is_described_whoever_makes_it(tmp_path: Path, first_site: Site) -> None:
    # given a zone of its own for each role: to think of a call takes longer than to make it as each of them
    sites = {role: first_site.copy_to(tmp_path / role).tree.nodes["zone"] for role in ROLES}
    left_out = [checks.CHECKS.get_one(name) for name in LEFT_OUT]
    described = schemathesis.openapi.from_wsgi("/openapi.json", sites["admin"].app)
    made = 0
    for result in described.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()

        # when each call is made as each role, then its answer is as described
        @settings(
            max_examples=CALLS_EACH,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy())
        def call(case: Any) -> None:
            nonlocal made
            made += 1
            for role, node in sites.items():
                case.call_and_validate(
                    app=node.app,
                    headers=headers_of(node, role),
                    additional_checks=[success_is_described],
                    excluded_checks=left_out,
                )

        call()
    assert made > CALLS_EACH * len(described.raw_schema["paths"])
    for node in sites.values():
        node.zone.stop()


def working(site: Site) -> Callable[..., Iterable[bytes]]:
    """The zone, which ends all background work that a change has begun before the next call."""
    zone = site.tree.nodes["zone"]

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        answer: Iterable[bytes] = zone.app(environ, start_response)
        if environ["REQUEST_METHOD"] != "GET":
            site.tree.step("zone")
        return answer

    return app


# Agents name hosts by themselves: no answer leads to another call.
@pytest.mark.parametrize("role", [role for role in ROLES if role != "compute"])
def test_calls_that_follow_from_answers_are_answered_as_described(
    tmp_path: Path, first_site: Site, role: str
) -> None:
    site = first_site.copy_to(tmp_path)
    config = SchemathesisConfig.from_dict(
        {
            "seed": 1,
            # In one version: in another each, few calls would follow from the answers of those before.
            "headers": {**headers_of(site.tree.nodes["zone"], role), microversion.HEADER: "compute 2.1"},
            "generation": {"mode": "positive", "max-examples": SCENARIOS, "database": "none"},
            "phases": {"enabled": False, "stateful": {"enabled": True, "max-steps": CALLS_IN_A_ROW}},
            "checks": {name: {"enabled": False} for name in LEFT_OUT},
        }
    )
    described = schemathesis.openapi.from_wsgi("/openapi.json", working(site), config=config).include(
        func=lambda context: role in context.operation.definition.raw["description"]
    )
    wrong: list[str] = []
    made = 0

    for event in engine.from_schema(described).execute():
        match event:
            case events.ScenarioFinished(recorder=recorder):
                faults = chain.from_iterable(recorder.checks.values())
                wrong += [str(fault.failure_info.failure) for fault in faults if fault.failure_info]
                made += len(recorder.cases)
            case events.NonFatalError() | events.FatalError():
                wrong.append(str(event))
    site.tree.nodes["zone"].zone.stop()

    assert wrong == []
    # How many of them follow from an answer is chance: ids are new in each run.
    assert made > SCENARIOS


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB0mXBqtF8n7WJtZrDqVrHKgkUzaGvSWoVtPHd6FYNH1"

# fmt: off
SOURCES: Mapping[tuple[str, str], tuple[str, Any]] = {
    ("POST", "/zones/boot"): ("member", {"server": {"name": "vm", "flavorRef": "small"}}),
    ("POST", "/servers"): ("member", {"server": {"name": "vm", "flavorRef": "small"}}),
    ("POST", "/os-server-groups"): ("member", {"server_group": {"name": "g", "policies": ["affinity"]}}),
    ("POST", "/flavors"): ("admin", {"flavor": {"name": "f", "vcpus": 1, "ram": 1, "disk": 0}}),
    ("POST", "/images"): ("admin", {"image": {"name": "i"}}),
    ("POST", "/os-keypairs"): ("admin", {"keypair": {"name": "k", "public_key": KEY}}),
    ("POST", "/os-aggregates"): ("admin", {"aggregate": {"name": "a"}}),
    ("POST", "/users"): ("admin", {"user": {"name": "u", "role": "member", "project_id": "p"}}),
}
"""Role and body of each call whose answer names an item; by default an admin, without a body."""
# fmt: on


def test_the_links_of_answers_lead_to_items_that_are_there(tmp_path: Path, first_site: Site) -> None:
    site = first_site.copy_to(tmp_path)
    boots = site.clients["member"].get("/reservations").json["reservations"]
    readable = {route.url for route in URLS if route.method == "GET"}
    found = dict[Named, int]()

    for named in NAMED:
        if named.url == "/zones" and named.method == "POST":
            # The zone below can be added once only; GET /zones names it too.
            continue
        role, body = SOURCES.get((named.method, named.url), ("admin", None))
        role = PARENT if named.pointer.startswith("/instances") else role
        client = site.clients[role]
        url = named.url.format(id=boots[0]["id"])
        answer = client.call(named.method, url, body).json
        site.tree.step("zone")
        for part in named.pointer.strip("/").split("/"):
            answer = answer[int(part) if part.isdigit() else part]
        assert answer
        if named.item_url in readable:
            found[named] = client.get(named.item_url.format(id=answer, name=answer)).status

    assert {named: status for named, status in found.items() if status != 200} == {}
