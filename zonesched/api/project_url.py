"""Project ids in URLs: as in OpenStack Nova, each call under /v2.1 is served under /v2.1/{project_id} too."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import quote

from flask import Request

from zonesched.api.auth import EVERYBODY
from zonesched.api.links import PREFIX
from zonesched.api.urls import URLS
from zonesched.errors import BadRequest
from zonesched.model.caller import Caller

PROJECT = "zonesched.url_project"
"""Key of a request's WSGI environment with the project id that its URL had."""

_BELOW = PREFIX + "/"
_PLAIN = "/!$&'()*+,;=:@"
"""Characters of a path, beside letters, digits and `-._~`, that stand for themselves in a URL."""

LONGEST_SHOWN = 255


def take_project(environ: dict[str, Any]) -> None:
    """Move the project id of a URL from the path to the environment, before the router sees the path.

    It is the first part below the prefix where no call has that part; alone it is an unknown URL.
    """
    path: str = environ["PATH_INFO"]
    if not path.startswith(_BELOW):
        return
    first, slash, rest = path[len(_BELOW) :].partition("/")
    if first in _first_parts() or not slash:
        return
    environ[PROJECT] = first.encode("latin-1").decode(errors="replace")
    environ["PATH_INFO"] = _BELOW + rest


def check_project(request: Request, caller: Caller) -> None:
    """Raise BadRequest for a URL with another project than the caller's."""
    project = request.environ.get(PROJECT, caller.project_id)
    if project != caller.project_id:
        alone = ", the only project of a zone with noauth" if caller.user_id == EVERYBODY.user_id else ""
        raise BadRequest(
            f"Malformed request URL: URL's project_id '{project[:LONGEST_SHOWN]}' doesn't match"
            f" Context's project_id '{caller.project_id}'{alone}",
            code="project_mismatch",
            field="project_id",
        )


def mount_of(request: Request) -> str:
    """Return the path below which the caller finds all calls of OpenStack's."""
    project = request.environ.get(PROJECT)
    return PREFIX if project is None else _BELOW + quote(project, safe="")


def path_of(request: Request) -> str:
    """Return the path as the caller wrote it."""
    path = quote(request.path, safe=_PLAIN)
    return path if PROJECT not in request.environ else mount_of(request) + path.removeprefix(PREFIX)


@cache
def _first_parts() -> frozenset[str]:
    # "" as well, of the version itself and of two slashes.
    return frozenset(route.path.split("/")[1] for route in URLS if PREFIX in route.mounts)
