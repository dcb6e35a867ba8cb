"""Bodies and queries of /os-server-groups."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from zonesched.api.schemas.fields import (
    LONGEST_PAGE,
    MAX_INT,
    GivenName,
    IntOrDigits,
    LenientQuery,
    PageLimit,
    QueryBool,
    QueryInt,
    Schema,
    Text,
)
from zonesched.errors import BadRequest
from zonesched.model.request_spec import GroupPolicy
from zonesched.model.views import ServerGroupForm

PolicyName = Literal["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"]


class Rules(Schema):
    """Parameters of a policy."""

    max_server_per_host: IntOrDigits = Field(default=1, ge=1, le=MAX_INT)


class NewServerGroup(Schema):
    """A group in OpenStack's newer form (`policy`, `rules`) or its older one (`policies`)."""

    name: GivenName
    policy: PolicyName | Literal[""] = ""
    policies: Annotated[list[PolicyName], Field(max_length=1)] = Field(default_factory=list)
    rules: Rules = Field(default_factory=Rules)


class ServerGroupBody(Schema):
    """A server group to add."""

    server_group: NewServerGroup

    def to_form(self) -> ServerGroupForm:
        """The group asked for; raises BadRequest for no policy, two, or rules of another policy."""
        new = self.server_group
        named = [*([new.policy] if new.policy else []), *new.policies]
        if not named:
            raise BadRequest(
                "server_group.policy: one of affinity, anti-affinity, soft-affinity, soft-anti-affinity.",
                code="missing_field",
                field="server_group.policy",
            )
        if len(named) > 1:
            raise BadRequest(
                "server_group.policies: a group has one policy, named by policy or by policies.",
                field="server_group.policies",
            )
        policy = GroupPolicy(named[0])
        if new.rules.model_fields_set and policy is not GroupPolicy.ANTI_AFFINITY:
            raise BadRequest(
                "server_group.rules: max_server_per_host is a rule of anti-affinity alone.",
                field="server_group.rules",
            )
        return ServerGroupForm(new.name, policy, new.rules.max_server_per_host)


class GroupsQuery(LenientQuery):
    """Which server groups to list; `marker` is the last one of the page before, and `offset` counts from it.

    OpenStack Nova has no marker here, and its clients send one for the page after the first.
    """

    all_projects: QueryBool = False
    limit: PageLimit = LONGEST_PAGE
    marker: Text = ""
    offset: QueryInt = Field(default=0, ge=0, le=MAX_INT)
