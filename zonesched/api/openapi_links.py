"""Links of the OpenAPI description: which answers name an item, and which calls take that name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from zonesched.api.route import Route


class Named(NamedTuple):
    """A call whose answer names an item at this JSON pointer, and the URL in which the name stands."""

    method: str
    url: str
    pointer: str
    item_url: str


NAMED = (
    Named("POST", "/zones", "/zone/id", "/zones/{id}"),
    Named("GET", "/zones", "/zones/0/id", "/zones/{id}"),
    Named("POST", "/zones/boot", "/reservation_id", "/reservations/{id}"),
    Named("GET", "/reservations", "/reservations/0/id", "/reservations/{id}"),
    Named("GET", "/reservations", "/instances/0/uuid", "/servers/{id}"),
    Named("GET", "/reservations/{id}", "/reservation/instances/0/uuid", "/servers/{id}"),
    Named("POST", "/servers", "/server/id", "/servers/{id}"),
    Named("GET", "/servers", "/servers/0/id", "/servers/{id}"),
    Named("POST", "/os-server-groups", "/server_group/id", "/os-server-groups/{id}"),
    Named("POST", "/flavors", "/flavor/id", "/flavors/{id}"),
    Named("POST", "/images", "/image/id", "/images/{id}"),
    Named("POST", "/os-keypairs", "/keypair/name", "/os-keypairs/{name}"),
    Named("GET", "/os-hypervisors", "/hypervisors/0/id", "/os-hypervisors/{id}"),
    Named("POST", "/os-aggregates", "/aggregate/id", "/os-aggregates/{id}"),
    Named("GET", "/os-services", "/services/0/id", "/os-services/{id}"),
    Named("POST", "/users", "/user/name", "/users/{name}"),
)


BOOTED = (
    Named("GET", "/flavors", "/flavors/0/id", "/zones/boot"),
    Named("GET", "/flavors", "/flavors/0/id", "/servers"),
)
"""Calls that take the name of a flavor in their body."""


def links_of(routes: Sequence[Route], call: Route) -> Mapping[str, Any]:
    """Return the links of a call's answer, by the id of the call that each leads to."""
    found = {}
    for named in NAMED:
        if (named.method, named.url) == (call.method, call.url):
            parameter = named.item_url.partition("{")[2].rstrip("}")
            for route in routes:
                if route.url == named.item_url or route.url.startswith(named.item_url + "/"):
                    found[route.operation_id] = {
                        "operationId": route.operation_id,
                        "parameters": {parameter: f"$response.body#{named.pointer}"},
                    }
    for named in BOOTED:
        if (named.method, named.url) == (call.method, call.url):
            for route in routes:
                if (route.method, route.url) == ("POST", named.item_url):
                    server = {"name": "server", "flavorRef": f"$response.body#{named.pointer}"}
                    found[route.operation_id] = {
                        "operationId": route.operation_id,
                        "requestBody": {"server": server},
                    }
    return found
