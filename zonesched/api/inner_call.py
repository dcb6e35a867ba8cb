"""A call to the zone's own API from inside its process, for a user who is authenticated already.

Role, query and body are checked as those of a call over HTTP: whoever asks this way is never shown more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from werkzeug.datastructures import Headers
from werkzeug.exceptions import HTTPException

from zonesched.api.body import parse_object
from zonesched.api.call import Call, Site
from zonesched.api.dispatch import check_args, permitted
from zonesched.api.links import Links
from zonesched.api.microversion import NEWEST
from zonesched.api.routing import routes_by_rule, url_map
from zonesched.api.validation import validate
from zonesched.errors import BadRequest, NotFound
from zonesched.model.caller import Caller
from zonesched.model.work_deadline import always

MAX_VALUES = 10_000
"""Maximum number of JSON values of a body."""


@dataclass(frozen=True)
class InnerCall:
    """One call; `body` is a JSON object, empty for a call without one."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    is_wanted: Callable[[], bool] = always


def perform(site: Site, caller: Caller, asked: InnerCall) -> Any:
    """Return the answer's JSON in the newest version, None without one. Raises ZoneschedError."""
    try:
        endpoint, args = url_map().bind("zone").match(asked.path, asked.method)
    except HTTPException:
        raise NotFound("There is no such URL.", code="url_unknown") from None
    route = permitted(site, routes_by_rule()[endpoint], caller)
    check_args(args)
    unverified_body = {} if route.body is None else _checked_object(asked.body)
    call = Call(
        site=site,
        caller=caller,
        args=args,
        body=None if route.body is None else validate(route.body, unverified_body, site.limits),
        query=validate(route.query, _as_read(asked.query, route.query.repeated), site.limits),
        unverified_body=unverified_body,
        headers=Headers(dict(asked.headers)),
        links=Links("", asked.path, asked.query),
        version=NEWEST,
        is_wanted=asked.is_wanted,
    )
    return route.handler(call).body


def _as_read(query: Mapping[str, str], repeated: frozenset[str]) -> dict[str, str | list[str]]:
    """Return the parameters as they are read of a URL: as lists those that may be repeated."""
    return {name: [value] if name in repeated else value for name, value in query.items()}


def _checked_object(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy as it would arrive by HTTP, with the same limits of depth and characters."""
    try:
        data = orjson.dumps(dict(body))
    except TypeError:
        raise BadRequest("The body is not JSON.", code="body_not_json", field="body") from None
    return parse_object(data, MAX_VALUES)
