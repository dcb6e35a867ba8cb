"""Projects and users in the form of OpenStack's Identity API, version 3, to read.

A zone has its own users and no Keystone; a project has no name but its id. OpenStack's clients look a project
up there before they show its quotas or its usage, and a user before they list that user's servers.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.errors import NotFound
from zonesched.model.views import UserView
from zonesched.services.catalog import projects, users

MOUNT = "/identity"
DOMAIN = "default"


def list_versions(call: Call) -> Answer:
    """List the versions of the Identity API."""
    return ok({"versions": {"values": [_version(call)]}})


def show_version(call: Call) -> Answer:
    """Show the version of the Identity API."""
    return ok({"version": _version(call)})


def list_projects(call: Call) -> Answer:
    """List the projects that the caller may see: an admin all that users or quotas name."""
    found = projects.list_projects(call.zone.store, call.caller)
    asked = [project for project in found if call.query.name in ("", project)]
    return ok({"projects": [_json(call, project) for project in asked], "links": _whole(call, "projects")})


def show_project(call: Call) -> Answer:
    """Show one project."""
    if call.args["id"] not in projects.list_projects(call.zone.store, call.caller):
        raise NotFound("There is no such project.", code="project_not_found", field="id")
    return ok({"project": _json(call, call.args["id"])})


def list_users(call: Call) -> Answer:
    """List the users that the caller may see: an admin all, others themselves."""
    found = users.list_seen(call.zone.store, call.caller)
    asked = [user for user in found if call.query.name in ("", user.name)]
    return ok({"users": [_user_json(call, user) for user in asked], "links": _whole(call, "users")})


def show_user(call: Call) -> Answer:
    """Show one user by id."""
    for user in users.list_seen(call.zone.store, call.caller):
        if user.id == call.args["id"]:
            return ok({"user": _user_json(call, user)})
    raise NotFound("There is no such user.", code="user_not_found", field="id")


def _whole(call: Call, noun: str) -> dict[str, Any]:
    """Return the links of a list that has no other pages."""
    return {"self": f"{call.links.base}{MOUNT}/v3/{noun}", "previous": None, "next": None}


def _version(call: Call) -> dict[str, Any]:
    links = [{"rel": "self", "href": f"{call.links.base}{MOUNT}/v3/"}]
    return {"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z", "links": links}


def _json(call: Call, project: str) -> dict[str, Any]:
    return {
        "id": project,
        "name": project,
        "domain_id": DOMAIN,
        "parent_id": DOMAIN,
        "is_domain": False,
        "enabled": True,
        "description": "",
        "tags": [],
        "options": {},
        "links": {"self": f"{call.links.base}{MOUNT}/v3/projects/{quote(project, safe='')}"},
    }


def _user_json(call: Call, user: UserView) -> dict[str, Any]:
    return {
        "id": user.id,
        "name": user.name,
        "domain_id": DOMAIN,
        "default_project_id": user.project_id or None,
        "enabled": True,
        "password_expires_at": None,
        "options": {},
        "links": {"self": f"{call.links.base}{MOUNT}/v3/users/{user.id}"},
    }
