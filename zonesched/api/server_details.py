"""Name, settings, metadata and tags of a server, in OpenStack's shapes; and what it never has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from zonesched.api.answer import Answer, no_content, ok
from zonesched.api.call import Call
from zonesched.api.metadata_item import item_of, value_of, without
from zonesched.api.schemas.fields import MAX_ITEMS
from zonesched.api.schemas.server_details import MAX_TAGS, TAG
from zonesched.api.server_json import shown_json
from zonesched.errors import BadRequest, NotFound
from zonesched.model.server_hostname import with_hostname_kept
from zonesched.services.owners import server_details, servers
from zonesched.services.owners.server_details import Details


def change(call: Call) -> Answer:
    """Change a server's name, description, addresses, disk configuration or host name."""
    asked = call.body.server
    given = asked.changes()

    def changed(details: Details) -> Details:
        name = asked.name or details.name
        kept = with_hostname_kept(details.name, name, details.passthrough)
        return replace(details, name=name, passthrough={**kept, **given})

    _change(call, changed)
    view = servers.show(call.zone, call.caller, call.args["id"])
    return ok({"server": shown_json(view, call.links, call.version)})


# -- metadata ----------------------------------------------------------------------------------------------


def list_metadata(call: Call) -> Answer:
    """List a server's metadata."""
    return ok({"metadata": _metadata(_read(call))})


def add_metadata(call: Call) -> Answer:
    """Add metadata, or change some; the rest stays."""
    return _set_metadata(call, lambda present: {**present, **call.body.metadata})


def replace_metadata(call: Call) -> Answer:
    """Replace all metadata of a server."""
    return _set_metadata(call, lambda present: call.body.metadata)


def show_metadata(call: Call) -> Answer:
    """Show one item of a server's metadata."""
    key = call.args["key"]
    return ok({"meta": {key: value_of(_metadata(_read(call)), key)}})


def set_metadata(call: Call) -> Answer:
    """Add or change one item of a server's metadata, which URL and body name."""
    meta = item_of(call)
    _set_metadata(call, lambda present: {**present, **meta})
    return ok({"meta": meta})


def remove_metadata(call: Call) -> Answer:
    """Remove one item of a server's metadata."""
    _set_metadata(call, lambda present: without(present, call.args["key"]))
    return no_content()


def _metadata(details: Details) -> Mapping[str, str]:
    found: Mapping[str, str] = details.passthrough.get("metadata", {})
    return found


def _set_metadata(call: Call, changed: Callable[[Mapping[str, str]], Mapping[str, str]]) -> Answer:
    def fn(details: Details) -> Details:
        metadata = changed(_metadata(details))
        if len(metadata) > MAX_ITEMS:
            message = f"metadata: a server has at most {MAX_ITEMS} items."
            raise BadRequest(message, code="too_long", field="metadata")
        return _with(details, "metadata", dict(metadata))

    # Of an owner's details OpenStack keeps these alone from members while the server is locked.
    return ok({"metadata": _metadata(_change(call, fn, heeds_lock=True))})


# -- tags --------------------------------------------------------------------------------------------------


def list_tags(call: Call) -> Answer:
    """List a server's tags."""
    return ok({"tags": list(_tags(_read(call)))})


def replace_tags(call: Call) -> Answer:
    """Replace all tags of a server."""
    tags = list(dict.fromkeys(call.body.tags))
    return ok({"tags": list(_tags(_change(call, lambda details: _with(details, "tags", tags))))})


def remove_tags(call: Call) -> Answer:
    """Remove all tags of a server."""
    _change(call, lambda details: _with(details, "tags", []))
    return no_content()


def has_tag(call: Call) -> Answer:
    """Tell whether a server has a tag."""
    _tagged(_read(call), call.args["tag"])
    return no_content()


def add_tag(call: Call) -> Answer:
    """Add a tag; 204 where the server has it."""
    tag = call.args["tag"]
    if not TAG.fullmatch(tag):
        raise BadRequest("tag: must be 1 to 60 characters, without comma and slash.", field="tag")
    had = tag in _tags(_read(call))

    def changed(details: Details) -> Details:
        tags = [name for name in _tags(details) if name != tag]
        if len(tags) >= MAX_TAGS:
            raise BadRequest(f"tag: a server has at most {MAX_TAGS} tags.", code="too_long", field="tag")
        return details if tag in _tags(details) else _with(details, "tags", [*tags, tag])

    _change(call, changed)
    links = call.links.of(f"servers/{call.args['id']}/tags", quote(tag, safe=""))
    return no_content() if had else Answer(201, None, {"Location": links[0]["href"]})


def remove_tag(call: Call) -> Answer:
    """Remove a tag of a server."""
    tag = call.args["tag"]

    def changed(details: Details) -> Details:
        _tagged(details, tag)
        return _with(details, "tags", [name for name in _tags(details) if name != tag])

    _change(call, changed)
    return no_content()


def _tagged(details: Details, tag: str) -> None:
    if tag not in _tags(details):
        raise NotFound("The server has no such tag.", code="tag_not_found", field="tag")


def _tags(details: Details) -> Sequence[str]:
    found: Sequence[str] = details.passthrough.get("tags", [])
    return found


# -- parts that a zone does not keep -----------------------------------------------------------------------


def list_security_groups(call: Call) -> Answer:
    """List the security groups that a server was booted with; a zone passes them through."""
    found = _read(call)
    names = [group["name"] for group in found.passthrough.get("security_groups") or [{"name": "default"}]]
    return ok({"security_groups": [_security_group_json(name, found.project_id) for name in names]})


def _security_group_json(name: str, project_id: str) -> dict[str, Any]:
    # A zone knows a group by its name alone, and none of its rules.
    return {"id": name, "name": name, "description": "", "tenant_id": project_id, "rules": []}


def list_addresses(call: Call) -> Answer:
    """List a server's addresses, of which a zone keeps none."""
    return _none_of(call, {"addresses": {}})


def list_interfaces(call: Call) -> Answer:
    """List a server's network interfaces, of which a zone keeps none."""
    return _none_of(call, {"interfaceAttachments": []})


def list_volumes(call: Call) -> Answer:
    """List a server's volumes, of which a zone keeps none."""
    return _none_of(call, {"volumeAttachments": []})


def _none_of(call: Call, nothing: dict[str, Any]) -> Answer:
    _read(call)
    return ok(nothing)


def _read(call: Call) -> Details:
    return server_details.read(call.zone, call.caller, call.args["id"])


def _change(call: Call, changed: Callable[[Details], Details], *, heeds_lock: bool = False) -> Details:
    return server_details.change(call.zone, call.caller, call.args["id"], changed, heeds_lock=heeds_lock)


def _with(details: Details, member: str, value: Any) -> Details:
    return replace(details, passthrough={**details.passthrough, member: value})
