"""The OpenAPI document is valid, complete, and of the schemas that validate."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from zonesched.api.openapi import document
from zonesched.api.openapi_headers import LOCATED
from zonesched.api.route import REFUSED, Route
from zonesched.api.urls import URLS

DOCUMENT = orjson.loads(orjson.dumps(document(URLS)))


def parameters_of(operation: dict[str, Any]) -> list[dict[str, Any]]:
    """The parameters of an operation or of a URL, with what their references name."""
    components = DOCUMENT["components"]["parameters"]
    return [
        components[one["$ref"].rpartition("/")[2]] if "$ref" in one else one
        for one in operation["parameters"]
    ]


@pytest.mark.slow
def test_the_document_is_valid_openapi() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()
    assert DOCUMENT["openapi"].startswith("3.1")


@pytest.mark.parametrize("route", URLS, ids=lambda route: f"{route.method} {route.path}")
def test_every_call_is_described(route: Route) -> None:
    operation = DOCUMENT["paths"][route.url][route.method.lower()]
    assert (str(route.status) in operation["responses"]) is (route.answer != REFUSED)
    assert (route.handler.__doc__ or "").splitlines()[0] in operation["summary"]
    if route.body is not None:
        assert route.body.__name__ in orjson.dumps(operation["requestBody"]).decode()
    names = {parameter["name"] for parameter in parameters_of(operation)}
    assert names >= {field.alias or name for name, field in route.query.model_fields.items()}


def test_the_limits_stand_in_the_document() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["Server"]["properties"]["name"]["maxLength"] == 255
    assert schemas["Server"]["properties"]["metadata"]["maxProperties"] == 128
    assert schemas["BuildItem"]["properties"]["blobs"]["maxItems"] == 16
    assert schemas["RequestSpecBody"]["properties"]["path"]["maxItems"] == 16
    assert schemas["Server"]["additionalProperties"] is False


def test_operation_ids_differ() -> None:
    operations = [op for path in DOCUMENT["paths"].values() for op in path.values() if isinstance(op, dict)]
    ids = [operation["operationId"] for operation in operations]
    assert len(ids) == len(set(ids))


def test_one_url_with_two_bodies_names_both() -> None:
    schema = DOCUMENT["paths"]["/servers"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert [reference["$ref"].rpartition("/")[2] for reference in schema["oneOf"]] == [
        "CreateBody",
        "BuildBody",
    ]


def answers_of(path: str, method: str) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["paths"][path][method]["responses"]
    return found


def test_an_answer_names_the_members_of_its_object() -> None:
    answer = answers_of("/reservations", "get")["200"]

    assert members_of(answer) == [["instances", "cursor", "more"], ["reservations"]]
    _, of_people = answer["content"]["application/json"]["schema"]["anyOf"]
    line = of_people["properties"]["reservations"]["items"]
    assert line["properties"]["counts"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert not line["additionalProperties"]


def test_every_status_that_is_no_fault_is_described() -> None:
    assert answers_of("/zones/boot", "post").keys() == {"202", "200", "default"}
    assert answers_of("/readiness", "get").keys() == {"200", "503", "default"}


def test_what_a_boot_answers_depends_on_what_is_asked_for() -> None:
    boot, create = answers_of("/zones/boot", "post"), answers_of("/servers", "post")

    assert members_of(boot["202"]) == [["reservation_id"]]
    assert members_of(boot["200"]) == [["dry_run"]]
    assert members_of(create["202"]) == [["server"], ["reservation_id"], ["builds"]]


def members_of(answer: dict[str, Any]) -> list[list[str]]:
    schema = answer["content"]["application/json"]["schema"]
    return [one["required"] for one in schema.get("anyOf", [schema])]


@pytest.mark.parametrize("with_users", [True, False])
def test_every_url_reads_the_headers_that_the_zone_reads(with_users: bool) -> None:
    described = document(URLS, with_users=with_users)

    read = [described["components"]["parameters"][name]["name"] for name in header_names(described)]

    of_noauth = [] if with_users else ["X-Zonesched-Role"]
    assert read == ["OpenStack-API-Version", "X-OpenStack-Nova-API-Version", "X-Request-Id", *of_noauth]


def header_names(described: dict[str, Any]) -> list[str]:
    (same,) = {tuple(one["$ref"] for one in item["parameters"]) for item in described["paths"].values()}
    return [reference.rpartition("/")[2] for reference in same]


def test_only_boots_read_an_idempotency_key() -> None:
    keyed = {
        (url, method)
        for url, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
        if isinstance(operation, dict)
        if "Idempotency-Key" in {one["name"] for one in parameters_of(operation)}
    }
    assert keyed == {("/servers", "post"), ("/zones/boot", "post")}


def test_every_answer_names_its_headers() -> None:
    answered = [route for route in URLS if route.answer != REFUSED]
    answers = [answers_of(route.url, route.method.lower())[str(route.status)] for route in answered]

    for answer in (*answers, DOCUMENT["components"]["responses"]["Fault"]):
        assert answer["headers"].keys() >= {"x-openstack-request-id", "OpenStack-API-Version", "Vary"}


@pytest.mark.parametrize(("method", "path", "status"), sorted(LOCATED))
def test_an_answer_about_something_new_may_say_where_it_is(method: str, path: str, status: int) -> None:
    assert "Location" in answers_of(path, method.lower())[str(status)]["headers"]
    assert "Location" not in answers_of("/servers/{id}", "get")["200"]["headers"]


def test_an_answer_without_a_body_has_no_content() -> None:
    answer = answers_of("/servers/{id}", "delete")["204"]
    assert (answer["description"], "content" in answer) == ("nothing", False)
    assert answers_of("/metrics", "get")["200"]["content"].keys() == {"text/plain"}


def test_a_zone_without_users_claims_no_credentials() -> None:
    described = document(URLS, with_users=False)
    assert (described["security"], described["components"]["securitySchemes"]) == ([], {})
    assert DOCUMENT["security"] == [{"basic": []}]


def links_of(url: str, method: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for answer in answers_of(url, method).values():
        found |= answer.get("links", {})
    return found


def test_a_link_leads_to_a_call_that_takes_its_parameter_or_its_body() -> None:
    calls = {(r.url, r.method.lower()) for r in URLS}
    by_id = {op["operationId"]: op for op in (DOCUMENT["paths"][url][method] for url, method in calls)}

    linked = [link for url, method in calls for link in links_of(url, method).values()]

    for link in linked:
        operation = by_id[link["operationId"]]
        names = {parameter["name"] for parameter in parameters_of(operation) if parameter["in"] == "path"}
        assert names.issuperset(link.get("parameters", {}))
        assert ("requestBody" in link) <= ("requestBody" in operation)
    assert len(linked) > 100


def test_a_boot_leads_to_its_reservation_and_that_to_its_servers() -> None:
    boot, shown = links_of("/zones/boot", "post"), links_of("/reservations/{id}", "get")

    assert boot["reservations_show"]["parameters"] == {"id": "$response.body#/reservation_id"}
    assert shown["servers_show"]["parameters"] == {"id": "$response.body#/reservation/instances/0/uuid"}
