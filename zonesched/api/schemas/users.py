"""Bodies of /users."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from zonesched.api.schemas.fields import USER_NAME, ProjectId, QueryBool, Schema
from zonesched.errors import BadRequest

UserName = Annotated[str, Field(pattern=USER_NAME)]
Password = Annotated[str, Field(min_length=1, max_length=1024, repr=False)]
HowMuch = Literal["default", "none", "reasons", "counts"]
PEOPLE = ("admin", "member", "reader")


class NewUser(Schema):
    """A user of this zone; without a password it gets a generated secret, shown once in the answer."""

    name: UserName
    role: Literal["admin", "member", "reader", "compute", "parent", "monitor"]
    project_id: ProjectId = ""
    password: Password = ""
    explain_to_parent: HowMuch = "default"


class UserBody(Schema):
    user: NewUser

    def checked(self) -> NewUser:
        """The user; raises BadRequest for a person without a project."""
        if self.user.role in PEOPLE and not self.user.project_id:
            raise BadRequest(
                f"user.project_id: the roles {', '.join(PEOPLE)} need one.",
                code="missing_field",
                field="user.project_id",
            )
        return self.user


class UserChange(Schema):
    """A new password or a generated secret of a user, or the level of detail for a parent."""

    password: Password = ""
    new_secret: bool = False
    explain_to_parent: HowMuch | Literal[""] = ""


class ChangeUserBody(Schema):
    user: UserChange

    def checked(self) -> UserChange:
        """The change; raises BadRequest unless exactly one is asked for."""
        asked = self.user
        if bool(asked.password) + asked.new_secret + bool(asked.explain_to_parent) != 1:
            raise BadRequest(
                "user.password: exactly one of password, new_secret and explain_to_parent is needed.",
                code="missing_field",
                field="user.password",
            )
        return asked


class OwnPassword(Schema):
    """A user's new password, and the present one as a proof."""

    password: Annotated[str, Field(min_length=1, max_length=1024, repr=False)]
    original_password: Annotated[str, Field(min_length=1, max_length=1024, repr=False)]


class OwnPasswordBody(Schema):
    user: OwnPassword


class RemoveUserQuery(Schema):
    """`force`: remove a parent although it has instances here; they stay, for this zone's admin to end."""

    force: QueryBool = False
