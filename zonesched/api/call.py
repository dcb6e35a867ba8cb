"""One call as a handler sees it: its caller and its input, all of it checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from werkzeug.datastructures import Headers

from zonesched.api.answer import Answer
from zonesched.api.audit_log import AuditLog
from zonesched.api.body_room import BodyRoom
from zonesched.api.links import Links
from zonesched.api.metrics import ApiMetrics
from zonesched.api.microversion import Microversion
from zonesched.api.profile import Profiling
from zonesched.api.schemas.fields import Limits
from zonesched.model.caller import Caller
from zonesched.model.work_deadline import always
from zonesched.services.zone import Zone

IS_WANTED = "zonesched.is_wanted"
"""Key of a request's WSGI environment under which a server may leave a function that tells whether the
caller still waits for the answer."""


@dataclass(frozen=True)
class Site:
    """The parts that all calls of one application share. `document` returns the OpenAPI description."""

    zone: Zone
    limits: Limits
    metrics: ApiMetrics
    document: Callable[[], bytes]
    audit_log: AuditLog
    profiling: Profiling
    bodies: BodyRoom = field(default_factory=BodyRoom)


@dataclass(frozen=True)
class Call:
    """`body` and `query` are values of the route's schemas; `args` are the parts of the URL's path.

    `unverified_body` is the JSON object as it came, for its fingerprint. `version` is the microversion that
    the answer is given in. `is_wanted` tells whether the caller still waits for the answer: only work without
    effects may end early for it.
    """

    site: Site
    caller: Caller
    args: Mapping[str, str]
    body: Any
    query: Any
    unverified_body: Mapping[str, Any]
    headers: Headers
    links: Links
    version: Microversion
    is_wanted: Callable[[], bool] = always

    @property
    def zone(self) -> Zone:
        return self.site.zone


Handler = Callable[[Call], Answer]
