"""Bodies of /users."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from zonesched.api.schemas.fields import Schema, Text
from zonesched.errors import BadRequest

UserName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,254}$")]
PEOPLE = ("admin", "member", "reader")


class NewUser(Schema):
    """A user of this zone; without a password it gets a generated secret, told once in the answer."""

    name: UserName
    role: Literal["admin", "member", "reader", "compute", "parent"]
    project_id: Text = ""
    password: str = Field(default="", min_length=1, max_length=1024, repr=False)


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
