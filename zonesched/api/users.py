"""Users of this zone: people, compute agents and parent zones."""

from __future__ import annotations

from zonesched.api.answer import Answer, no_content, ok
from zonesched.api.call import Call
from zonesched.model.caller import Role
from zonesched.model.views import NewUser, UserView
from zonesched.services import users


def list_users(call: Call) -> Answer:
    """All users of this zone."""
    return ok({"users": [_user_json(user) for user in users.list_users(call.zone)]})


def create(call: Call) -> Answer:
    """Add a user; a generated secret is told here and never again."""
    asked = call.body.checked()
    made = users.create(call.zone, asked.name, Role(asked.role), asked.project_id, asked.password)
    return Answer(201, {"user": _with_secret(made)})


def change(call: Call) -> Answer:
    """Give a user another password or a new secret, told here and never again; the old one ends at once."""
    made = users.set_secret(call.zone, call.args["name"], call.body.checked_password())
    return ok({"user": _with_secret(made)})


def delete(call: Call) -> Answer:
    """Remove a user; its credentials end at once."""
    users.delete(call.zone, call.args["name"], call.query.force)
    return no_content()


def _user_json(user: UserView) -> dict[str, str]:
    return {"id": user.id, "name": user.name, "role": user.role.value, "project_id": user.project_id}


def _with_secret(made: NewUser) -> dict[str, str]:
    return {**_user_json(made.user), **({"secret": made.secret} if made.secret else {})}
