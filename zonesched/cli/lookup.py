"""Look-ups by id, by name, or by the prefix of an id that tables show."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from zonesched.cli.session import Session
from zonesched.compute.connection import ZoneRefused
from zonesched.model.name_pattern import literal
from zonesched.model.page_link import next_marker

Item = Mapping[str, Any]
Params = Mapping[str, str | int]

NAME_OF = {"hypervisors": "hypervisor_hostname"}
PAGE = 1000
LONGEST_NAME = 255
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BEGINNING = re.compile(r"[0-9a-f-]{4,35}")
_BEYOND_A_PART = ("", ".", "..")
"""Texts that a URL does not keep as a part of its path."""


def find(session: Session, path: str, noun: str, wanted: str) -> Item:
    """Find one of GET `path`'s list `noun` by id, else by name, else by a prefix of its id.

    Raises ZoneRefused with status 404 when there is none, 409 when there are several.
    """
    listed: Sequence[Item] = whole_list(session, path, noun)[noun]
    return _only(listed, noun, wanted, NAME_OF.get(noun, "name"))


def find_id(session: Session, path: str, noun: str, wanted: str) -> str:
    """Return the id of the element that `find` returns."""
    return str(find(session, path, noun, wanted)["id"])


def find_host(session: Session, wanted: str) -> Item:
    """Find a host, in brief, as `find` does; the zone reads others only for a prefix of an id."""
    if not _UUID.fullmatch(wanted):
        named: Params = {"hypervisor_hostname_pattern": wanted, "limit": PAGE}
        listed: Sequence[Item] = []
        try:
            listed = whole_list(session, "/os-hypervisors", "hypervisors", named)["hypervisors"]
        except ZoneRefused as error:
            # None has such a name, or none can.
            if error.status not in (400, 404):
                raise
        for item in listed:
            if item["hypervisor_hostname"] == wanted:
                return item
    return find(session, "/os-hypervisors", "hypervisors", wanted)


def find_server_id(session: Session, wanted: str) -> str:
    """Find the id of an instance by its id, its name, or a prefix of its id; raises as `find`.

    The instances of the user's own project come first; an admin finds those of others too.
    """
    if _UUID.fullmatch(wanted):
        return wanted
    return _find_owned(session, "/servers", "servers", wanted, {"name": literal(wanted, LONGEST_NAME)})


def find_deleted_server_id(session: Session, wanted: str) -> str:
    """Find the id of an instance whose delete can be taken back, as `find_server_id` finds others."""
    if _UUID.fullmatch(wanted):
        return wanted
    deleted = {"status": "SOFT_DELETED"}
    return _find_owned(
        session, "/servers", "servers", wanted, {"name": literal(wanted, LONGEST_NAME)}, deleted
    )


def find_reservation_id(session: Session, wanted: str) -> str:
    """Find the id of a boot by its id or a prefix of it; raises as `find`."""
    if not _BEGINNING.fullmatch(wanted):
        return part_of_path("reservations", wanted)
    return _find_owned(session, "/reservations", "reservations", wanted, {})


def whole_list(session: Session, path: str, noun: str, params: Params | None = None) -> dict[str, Any]:
    """Return the answer of a list with the elements of all its pages."""
    return all_pages(lambda more: session.call("GET", path, params={**(params or {}), **more}), noun)


def all_pages(read: Callable[[Params], Mapping[str, Any]], noun: str) -> dict[str, Any]:
    """Return the last answer with the elements of all pages; `read` gets a page by its parameters."""
    answer = read({})
    listed = list(answer[noun])
    while more := _next_page(answer, noun, len(listed)):
        answer = read(more)
        listed += answer[noun]
    return {**answer, noun: listed}


def _next_page(answer: Mapping[str, Any], noun: str, seen: int) -> Params:
    """Return the parameters of the page behind this one; empty behind the last."""
    if marker := next_marker(answer, noun):
        return {"marker": marker}
    # As in OpenStack, lists of server groups have no link.
    is_full = noun == "server_groups" and len(answer[noun]) == PAGE
    return {"offset": seen} if is_full else {}


def pages(session: Session, path: str, noun: str, params: Params) -> Iterator[Item]:
    """Iterate over all elements of a paged list."""
    marker: dict[str, str | int] = {}
    while True:
        answer = session.call("GET", path, params={**params, **marker, "limit": PAGE})
        yield from answer[noun]
        if not (behind := next_marker(answer, noun)):
            return
        marker = {"marker": behind}


def part_of_path(noun: str, wanted: str) -> str:
    """Return a name or an id as one part of a URL's path.

    Raises ZoneRefused with status 404 for one that no path can have, which would be another URL.
    """
    if wanted in _BEYOND_A_PART:
        raise _missing(noun, wanted)
    return quote(wanted, safe="", errors="surrogateescape")


def _find_owned(
    session: Session,
    path: str,
    noun: str,
    wanted: str,
    by_name: dict[str, str],
    among: Params = MappingProxyType({}),
) -> str:
    for scope in ({**among}, {**among, "all_tenants": "true"}):
        try:
            listed = list(pages(session, path, noun, {**by_name, **scope})) if by_name else []
            found = [item for item in listed if item.get("name") == wanted]
            if not found and _BEGINNING.fullmatch(wanted):
                found = [item for item in pages(session, path, noun, scope) if item["id"].startswith(wanted)]
        except ZoneRefused as error:
            if "all_tenants" in scope and error.status == 403:
                break
            raise
        if found:
            return str(_only(found, noun, wanted, "name")["id"])
    raise _missing(noun, wanted)


def _only(listed: Sequence[Item], noun: str, wanted: str, name: str) -> Item:
    found = [item for item in listed if str(item["id"]) == wanted]
    found = found or [item for item in listed if item.get(name) == wanted]
    if not found and _BEGINNING.fullmatch(wanted):
        found = [item for item in listed if str(item["id"]).startswith(wanted)]
    if not found:
        raise _missing(noun, wanted)
    if len(found) > 1:
        ids = ", ".join(str(item["id"]) for item in found)
        message = f"{len(found)} {_words(noun)} match {wanted!r}: use one of the ids {ids}"
        raise ZoneRefused(409, "ambiguous", message, _singular(noun))
    return found[0]


def _missing(noun: str, wanted: str) -> ZoneRefused:
    return ZoneRefused(404, "not_found", f"there is no {_words(_singular(noun))} {wanted!r}", _singular(noun))


def _singular(noun: str) -> str:
    return noun.removesuffix("s")


def _words(noun: str) -> str:
    return noun.replace("hypervisor", "host").replace("_", " ")
