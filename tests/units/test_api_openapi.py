"""The OpenAPI document is valid, complete, and of the schemas that validate."""

from __future__ import annotations

import orjson
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from zonesched.api.openapi import document
from zonesched.api.urls import URLS, Route

DOCUMENT = orjson.loads(orjson.dumps(document(URLS)))


def test_the_document_is_valid_openapi() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()
    assert DOCUMENT["openapi"].startswith("3.1")


@pytest.mark.parametrize("route", URLS, ids=lambda route: f"{route.method} {route.path}")
def test_every_call_is_described(route: Route) -> None:
    operation = DOCUMENT["paths"][route.path][route.method.lower()]
    assert str(route.status) in operation["responses"]
    assert (route.handler.__doc__ or "").splitlines()[0] in operation["summary"]
    if route.body is not None:
        assert route.body.__name__ in orjson.dumps(operation["requestBody"]).decode()
    names = {parameter["name"] for parameter in operation["parameters"]}
    assert names >= set(route.query.model_fields)


def test_the_limits_stand_in_the_document() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["Server"]["properties"]["name"]["maxLength"] == 255
    assert schemas["Server"]["properties"]["metadata"]["maxProperties"] == 128
    assert schemas["BuildItem"]["properties"]["blobs"]["maxItems"] == 16
    assert schemas["RequestSpecBody"]["properties"]["path"]["maxItems"] == 16
    assert schemas["Server"]["additionalProperties"] is False


def test_operation_ids_differ() -> None:
    ids = [op["operationId"] for path in DOCUMENT["paths"].values() for op in path.values()]
    assert len(ids) == len(set(ids))


def test_one_url_with_two_bodies_names_both() -> None:
    schema = DOCUMENT["paths"]["/servers"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert [reference["$ref"].rpartition("/")[2] for reference in schema["oneOf"]] == [
        "CreateBody",
        "BuildBody",
    ]
