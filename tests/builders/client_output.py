"""Command lines of OpenStack's clients, and the fields that they print."""

from __future__ import annotations

import json
import shlex
from typing import Any

from tests.builders.openstack_clients import Clients, Reply


def printed(clients: Clients, line: str) -> Any:
    """Return the fields that a command line prints: of a table of `nova`, texts."""
    client, _, rest = line.partition(" ")
    match client:
        case "openstack":
            return json.loads(_ok(clients.openstack(*shlex.split(rest), "-f", "json")).out)
        case "nova":
            return _table(_ok(clients.nova(*shlex.split(rest))).out)
    name, _, words = rest.partition(" ")
    args, kwargs = json.loads(words) if words else ([], {})
    return _without_empty(clients.sdk(name, *args, **kwargs))


def run(clients: Clients, line: str) -> None:
    """Run a command line, which prints what it likes."""
    client, _, rest = line.partition(" ")
    if client == "sdk":
        name, _, words = rest.partition(" ")
        args, kwargs = json.loads(words)
        clients.sdk(name, *args, **kwargs)
    else:
        _ok(clients.openstack(*shlex.split(rest)))


def _ok(reply: Reply) -> Reply:
    assert reply.code == 0, reply
    return reply


def _table(text: str) -> Any:
    """Read a table: an object where it has the columns Property and Value, else its lines."""
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    names, *lines = cells
    if names == ["Property", "Value"]:
        return dict(lines)
    return [dict(zip(names, line, strict=True)) for line in lines]


def _without_empty(value: Any) -> Any:
    """Leave out what openstacksdk fills up with, and its own `location`."""
    if isinstance(value, dict):
        kept = {name: _without_empty(one) for name, one in value.items() if name != "location"}
        return {name: one for name, one in kept.items() if one not in (None, "", [], {})}
    return [_without_empty(one) for one in value] if isinstance(value, list) else value
