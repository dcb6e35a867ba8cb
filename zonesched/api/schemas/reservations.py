"""The queries of /reservations; confirm and cancel name attempts as in schemas/servers.py."""

from __future__ import annotations

from zonesched.api.schemas.fields import (
    LONGEST_PAGE,
    Name,
    PageLimit,
    QueryBool,
    Schema,
    Text,
)


class ChangesQuery(Schema):
    """`cursor`: what the last answer gave; without one, from the beginning."""

    cursor: Text = ""


class BootsQuery(Schema):
    """Which boots to list: newest first, after the boot `marker`; all projects' for an admin."""

    limit: PageLimit = LONGEST_PAGE
    marker: Text = ""
    all_tenants: QueryBool = False


class BootQuery(Schema):
    """`caller`: of an admin, the sender of the boot, where several have one of this id."""

    caller: Text = ""


class WhyQuery(BootQuery):
    """`host`: name or id of a host of this zone."""

    host: Name
