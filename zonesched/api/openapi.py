"""The OpenAPI 3.1 description of a zone, made from the URL table and the schemas that validate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from zonesched import __version__
from zonesched.api import openapi_headers
from zonesched.api.links import PREFIX
from zonesched.api.openapi_answers.answers import form_of
from zonesched.api.openapi_links import links_of
from zonesched.api.route import MOUNTS, REFUSED, Route
from zonesched.api.schemas.fields import Schema
from zonesched.errors import Kind

SCHEMAS = "#/components/schemas/"
_PARAMETER = re.compile(r"{(\w+)}")
NOTHING = "nothing"
TEXT = "Prometheus text"


class _JsonSchemas(GenerateJsonSchema):
    """Leave out a default of "", which stands for a missing field."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        made = super().default_schema(schema)
        if made.get("default") == "":
            del made["default"]
        return made


@cache
def document(routes: tuple[Route, ...], *, with_users: bool = True) -> dict[str, Any]:
    """Return the description of these calls; `with_users`: callers authenticate as users of the zone."""
    bodies = sorted({r.body for r in routes if r.body is not None}, key=lambda body: body.__name__)
    _, definitions = models_json_schema(
        [(body, "validation") for body in bodies],
        ref_template=SCHEMAS + "{model}",
        schema_generator=_JsonSchemas,
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "zonesched",
            "version": __version__,
            "description": "One zone of a tree of zones. Every URL is served at / and under /v2.1.",
        },
        "servers": [{"url": "/"}, {"url": PREFIX}],
        "security": [{"basic": []}] if with_users else [],
        "paths": _paths(routes, with_users),
        "components": {
            "schemas": {**definitions.get("$defs", {}), "Fault": _fault_schema()},
            "responses": {"Fault": _fault_response()},
            "parameters": openapi_headers.parameters(with_users=with_users),
            "headers": openapi_headers.components(),
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}} if with_users else {},
        },
    }


def _paths(routes: Sequence[Route], with_users: bool) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    headers = openapi_headers.read_by_all(with_users=with_users)
    for route in routes:
        same = [r for r in routes if (r.url, r.method) == (route.url, route.method)]
        item = paths.setdefault(route.url, {"parameters": headers})
        operation = item[route.method.lower()] = _operation(same)
        if found := links_of(_first_of_each(routes), route):
            operation["responses"][str(route.status)]["links"] = found
        if route.mounts != MOUNTS:
            item["servers"] = [{"url": "/"}]
    return paths


def _first_of_each(routes: Sequence[Route]) -> Sequence[Route]:
    """Return one route of each URL and method: the one whose operation id the description has."""
    return list({(route.url, route.method): route for route in reversed(routes)}.values())[::-1]


def _operation(routes: Sequence[Route]) -> dict[str, Any]:
    first = routes[0]
    roles = sorted({role.value for route in routes for role in route.roles})
    operation: dict[str, Any] = {
        "operationId": first.operation_id,
        "tags": [first.url.split("/")[1] or "versions"],
        "summary": " / ".join((route.handler.__doc__ or "").partition("\n")[0] for route in routes),
        "description": "Open to everybody." if first.is_open else f"Roles: {', '.join(roles)}.",
        "parameters": [
            *_path_parameters(first.path),
            *_query_parameters(routes),
            *openapi_headers.read_by(routes),
        ],
        "responses": {**_answers(routes), "default": {"$ref": "#/components/responses/Fault"}},
    }
    if first.is_open:
        operation["security"] = []
    bodies = [route.body for route in routes if route.body is not None]
    if bodies:
        operation["requestBody"] = {"required": True, "content": {"application/json": _one_of(bodies)}}
    return operation


def _answers(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the answers of all routes of a URL, by status, but for faults."""
    found: dict[int, list[tuple[Route, str]]] = {}
    for route in routes:
        for status, text in ((route.status, route.answer), *route.other_answers):
            if text != REFUSED:
                found.setdefault(status, []).append((route, text))
    return {str(status): _answer(status, some) for status, some in found.items()}


def _answer(status: int, found: Sequence[tuple[Route, str]]) -> dict[str, Any]:
    """Return the answer with a status of these routes, each with the text that says what it answers."""
    texts = [text for _, text in found]
    answer: dict[str, Any] = {
        "description": "; or ".join(dict.fromkeys(texts)),
        "headers": openapi_headers.answered_by(found[0][0], status),
    }
    if TEXT in texts:
        return {**answer, "content": {"text/plain": {"schema": {"type": "string"}}}}
    if NOTHING in texts:
        return answer
    of_routes = [form_of(route, status) for route in dict.fromkeys(route for route, _ in found)]
    forms = [one for form in of_routes for one in form.get("anyOf", [form])]
    form = forms[0] if len(forms) == 1 else {"anyOf": forms}
    return {**answer, "content": {"application/json": {"schema": form}}}


def _one_of(bodies: Iterable[type[Schema]]) -> dict[str, Any]:
    references = [{"$ref": SCHEMAS + body.__name__} for body in bodies]
    return {"schema": references[0] if len(references) == 1 else {"oneOf": references}}


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "maxLength": 255}}
        for name in _PARAMETER.findall(path)
    ]


def _query_parameters(routes: Sequence[Route]) -> list[dict[str, Any]]:
    """Return the parameters of all routes of a URL; one that each of them requires is required."""
    schemas = [route.query.model_json_schema(schema_generator=_JsonSchemas) for route in routes]
    found = {name: content for schema in schemas for name, content in schema.get("properties", {}).items()}
    required = set.intersection(*(set(schema.get("required", ())) for schema in schemas))
    return [
        {"name": name, "in": "query", "required": name in required, "schema": content}
        for name, content in found.items()
    ]


def _fault_schema() -> dict[str, Any]:
    content = {
        "type": "object",
        "required": ["code", "message", "error_code", "field"],
        "properties": {
            "code": {"type": "integer", "description": "The HTTP status."},
            "message": {"type": "string"},
            "error_code": {"type": "string", "description": "Stable."},
            "field": {"type": "string", "description": "What of the input it is about; may be empty."},
        },
    }
    names = [kind.body_name for kind in Kind]
    return {"type": "object", "properties": dict.fromkeys(names, content), "maxProperties": 1}


def _fault_response() -> dict[str, Any]:
    return {
        "description": "A fault, under OpenStack's name for it.",
        "headers": openapi_headers.answered_by_faults(),
        "content": {"application/json": {"schema": {"$ref": SCHEMAS + "Fault"}}},
    }
