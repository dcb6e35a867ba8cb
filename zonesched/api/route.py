"""One line of the table of all calls, and the groups of roles and places that its lines share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zonesched.api import glance, identity
from zonesched.api.answer import Answer
from zonesched.api.call import Handler
from zonesched.api.links import PREFIX
from zonesched.api.schemas.fields import LenientQuery, Schema
from zonesched.model.caller import Role

MOUNTS = ("", PREFIX)
IDENTITY = (identity.MOUNT,)
"""Where the calls of OpenStack's Identity API are served."""
IMAGE = (glance.MOUNT,)
"""Where the calls of OpenStack's Image API are served."""
IMAGE_LOOKUP = (glance.MOUNT, PREFIX)
"""Likewise for those that novaclient makes: without a catalog, it looks for images below the Compute API."""

ADMIN = frozenset({Role.ADMIN})
USERS = frozenset({Role.ADMIN, Role.MEMBER})
PEOPLE = USERS | {Role.READER}
PARENT = frozenset({Role.PARENT})
AGENT = frozenset({Role.COMPUTE})
MONITORS = frozenset({Role.ADMIN, Role.MONITOR})
REFUSED = "nothing: always refused"
"""Answer of a call that says why a zone cannot do it."""
OPEN: frozenset[Role] = frozenset(Role)
BEFORE_COMPARED = frozenset(
    {"/zones/info", "/servers/named", "/sign-in-links"}
    | {"/hosts", "/hosts/registrations", "/hosts/beat", "/hosts/running"}
)
"""Calls that a zone which was restored from a copy serves to everybody before its rows were compared."""

DRAIN = "/zones/{id}/action"
"""Call by which an admin moves the instances of a child zone."""


class NoQuery(Schema):
    """No parameters."""


class IgnoredQuery(LenientQuery):
    """No parameters of a list of OpenStack's, whose clients send a `limit` to each list."""


@dataclass(frozen=True)
class Route:
    """One call. `roles` of OPEN: no credentials are needed.

    `answer` says for readers what the call answers; `openapi_answers` has its form. `other_answers` has what
    else it answers, with the status, but for a fault in the API's form. `without_rows` makes the answer to
    whatever credentials come while the zone's rows cannot be read, and so nobody can be authenticated.
    """

    method: str
    path: str
    handler: Handler
    roles: frozenset[Role]
    answer: str
    body: type[Schema] | None = None
    query: type[Schema] = NoQuery
    status: int = 200
    other_answers: tuple[tuple[int, str], ...] = ()
    mounts: tuple[str, ...] = MOUNTS
    without_rows: Callable[[], Answer] | None = None

    @property
    def url(self) -> str:
        """Return the path under its first mount."""
        return self.mounts[0] + self.path

    @property
    def operation_id(self) -> str:
        """Return the name of the call in the OpenAPI description."""
        return f"{self.handler.__module__.rpartition('.')[2]}_{self.handler.__name__}"

    def is_served_to(self, role: Role) -> bool:
        """Tell whether a restored zone serves this call to a role.

        It moves no instance, but takes them from hosts that are gone for good, so that those can be removed.
        """
        if self.path in BEFORE_COMPARED:
            return True
        if role in PARENT | AGENT:
            return False
        return self.method == "GET" or (self.roles == ADMIN and self.path != DRAIN)

    @property
    def is_open(self) -> bool:
        return self.roles == OPEN

    @property
    def is_admin_api(self) -> bool:
        """True for a call that `allow_admin_api = false` closes."""
        return self.path == "/zones" or self.path.startswith("/zones/")
