"""Things by id or by name, as people give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zonesched.cli.session import Session
from zonesched.compute.connection import ZoneRefused

NAME_OF = {"hypervisors": "hypervisor_hostname"}


def find(session: Session, path: str, noun: str, wanted: str) -> Mapping[str, Any]:
    """The one of GET `path`'s list `noun` with this id, else with this name.

    Raises ZoneRefused with status 404 when there is none, 409 when several bear the name.
    """
    listed: Sequence[Mapping[str, Any]] = session.call("GET", path)[noun]
    same_id = [item for item in listed if str(item["id"]) == wanted]
    found = same_id or [item for item in listed if item[NAME_OF.get(noun, "name")] == wanted]
    what = noun.removesuffix("s")
    if not found:
        raise ZoneRefused(404, "not_found", f"there is no {what} {wanted!r}", what)
    if len(found) > 1:
        ids = ", ".join(str(item["id"]) for item in found)
        raise ZoneRefused(409, "ambiguous", f"several {noun} are named {wanted!r}: use an id of {ids}", what)
    return found[0]


def find_id(session: Session, path: str, noun: str, wanted: str) -> str:
    """The id of what `find` finds."""
    return str(find(session, path, noun, wanted)["id"])
