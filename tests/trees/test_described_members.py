"""The answers of a zone have the members that the OpenAPI document says, in the types that it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders.tree import Node, Tree
from zonesched.api.openapi import document
from zonesched.api.route import REFUSED
from zonesched.api.urls import URLS
from zonesched.model.caller import Role

pytestmark = pytest.mark.once

TYPES = {"array": list, "object": dict, "string": str}
ANSWERED = [route for route in URLS if route.method == "GET" and route.answer != REFUSED]
LISTS = sorted({r.url for r in ANSWERED if Role.ADMIN in r.roles and "{" not in r.url})


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Tree(tmp_path_factory.mktemp("described")).add("leaf")
    yield node
    node.zone.stop()


def mismatches(url: str, method: str, status: int, answer: dict[str, Any]) -> list[str]:
    """Compare an answer with the nearest description; return missing members and those of other types."""
    content = document(URLS)["paths"][url][method]["responses"][str(status)]["content"]["application/json"]
    choices = content["schema"].get("anyOf", [content["schema"]])
    return min((mismatches_with(schema, answer) for schema in choices), key=len)


def mismatches_with(schema: dict[str, Any], answer: dict[str, Any]) -> list[str]:
    missing = [name for name in schema.get("required", ()) if name not in answer]
    typed = schema.get("properties", {}).items()
    return missing + [
        name for name, one in typed if name in answer and not isinstance(answer[name], TYPES[one["type"]])
    ]


@pytest.mark.parametrize("url", [url for url in LISTS if url != "/metrics"])
def test_a_call_without_parameters_answers_as_described(node: Node, url: str) -> None:
    answer = node.client().get(url)

    assert answer.status == 200
    assert mismatches(url, "get", 200, answer.json) == []


def test_changes_of_a_flavor_are_answered_as_described(node: Node) -> None:
    client = node.client()
    made = client.call("POST", "/flavors", {"flavor": {"name": "f", "vcpus": 1, "ram": 1, "disk": 0}})
    specs = f"/flavors/{made.json['flavor']['id']}/os-extra_specs"

    answers = {
        ("/flavors", "post"): made,
        ("/flavors/{id}/os-extra_specs", "post"): client.call("POST", specs, {"extra_specs": {"a": "b"}}),
        ("/flavors/{id}/os-extra_specs", "get"): client.get(specs),
    }

    found = {call: mismatches(*call, answer.status, answer.json) for call, answer in answers.items()}
    assert not any(found.values()), found
