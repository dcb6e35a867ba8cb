"""Users of this zone: people, compute agents and parent zones."""

from __future__ import annotations

from zonesched.api.answer import Answer, no_content, ok
from zonesched.api.call import Call
from zonesched.model.caller import Explained, Role
from zonesched.model.views import NewUser, UserView
from zonesched.services.catalog import users


def list_users(call: Call) -> Answer:
    """All users of this zone."""
    return ok({"users": [_user_json(user) for user in users.list_users(call.zone.store)]})


def create(call: Call) -> Answer:
    """Add a user; a generated secret is shown in this answer only."""
    asked = call.body.checked()
    explained = Explained(asked.explain_to_parent)
    made = users.create(
        call.zone.store,
        call.zone.clock,
        asked.name,
        Role(asked.role),
        asked.project_id,
        asked.password,
        explained,
        cost=call.zone.passwords.cost,
    )
    return Answer(201, {"user": _with_secret(made)})


def change(call: Call) -> Answer:
    """Set a password or a new secret, which is shown once, or the level of detail for a parent."""
    asked = call.body.checked()
    name = call.args["name"]
    if asked.explain_to_parent:
        changed = users.set_explained(call.zone.store, name, Explained(asked.explain_to_parent))
        return ok({"user": _user_json(changed)})
    return ok({"user": _with_secret(users.set_secret(call.zone, name, asked.password))})


def set_own(call: Call) -> Answer:
    """Give the caller another password; the present one is needed once more."""
    asked = call.body.user
    name = call.args["name"]
    users.change_own_password(call.zone, call.caller, name, asked.original_password, asked.password)
    return no_content()


def delete(call: Call) -> Answer:
    """Remove a user; its credentials end at once."""
    users.delete(call.zone.store, call.zone.verified, call.args["name"], call.query.force)
    return no_content()


def _user_json(user: UserView) -> dict[str, str]:
    level = {"explain_to_parent": user.explained.value} if user.role is Role.PARENT else {}
    return {"id": user.id, "name": user.name, "role": user.role.value, "project_id": user.project_id, **level}


def _with_secret(made: NewUser) -> dict[str, str]:
    return {**_user_json(made.user), **({"secret": made.secret} if made.secret else {})}
