"""The routes of the API as README lists them."""

from __future__ import annotations

from zonesched.api.route import Route
from zonesched.api.urls import URLS

UUID = "00000000-0000-4000-8000-00000000dead"


ROUTES = {(route.method, mount + route.path) for route in URLS for mount in route.mounts}


def lines_of(method: str, url: str) -> list[Route]:
    return [
        route
        for route in URLS
        for mount in route.mounts
        if (route.method, mount + route.path) == (method, url)
    ]
