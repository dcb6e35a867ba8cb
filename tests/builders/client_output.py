"""Command lines of OpenStack's clients, and the fields that they print."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from tests.builders.openstack_clients import NEWEST, NEWEST_OF_NOVA, Clients, Reply


def printed(clients: Clients, line: str) -> Any:
    """Return the fields that a command line prints: of a table of `nova`, texts."""
    client = line.partition(" ")[0].partition("@")[0]
    reply = _ok(reply_to(clients, f"{line} -f json" if client == "openstack" else line))
    match client:
        case "nova":
            return _table(reply.out)
        case "openstack":
            return json.loads(reply.out)
    return _without_empty(json.loads(reply.out))


def reply_to(clients: Clients, line: str) -> Reply:
    """Run a command line: `CLIENT[@MICROVERSION] WORDS`, the newest microversion by default.

    After `sdk` come a method and its arguments in JSON.
    """
    named, _, rest = line.partition(" ")
    client, _, version = named.partition("@")
    match client:
        case "openstack":
            return clients.openstack(*shlex.split(rest), version=version or NEWEST)
        case "nova":
            return clients.nova(*shlex.split(rest), version=version or NEWEST_OF_NOVA)
        case "sdk":
            name, _, words = rest.partition(" ")
            args, kwargs = json.loads(words) if words else ([], {})
            return clients.sdk_reply(name, *args, **kwargs)
    raise AssertionError(line)


def run(clients: Clients, line: str) -> None:
    """Run a command line, which prints what it likes."""
    _ok(reply_to(clients, line))


def _ok(reply: Reply) -> Reply:
    assert reply.code == 0, reply
    return reply


def _table(text: str) -> Any:
    """Read a table: an object where it has the columns Property and Value, else its lines.

    Of several tables, which follow each other, all lines.
    """
    found: list[dict[str, str]] = []
    for lines in re.findall(r"^\+-.*\n(\|.*\n)\+-.*\n((?:\|.*\n)*)\+-", text, re.MULTILINE):
        (names, *cells) = [_cells(line) for part in lines for line in part.splitlines()]
        if names == ["Property", "Value"]:
            return dict(cells)
        found += [dict(zip(names, line, strict=True)) for line in cells]
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def _without_empty(value: Any) -> Any:
    """Leave out what openstacksdk fills up with, and its own `location`."""
    if isinstance(value, dict):
        kept = {name: _without_empty(one) for name, one in value.items() if name != "location"}
        return {name: one for name, one in kept.items() if one not in (None, "", [], {})}
    return [_without_empty(one) for one in value] if isinstance(value, list) else value
