"""The form of a boot: it boots, it asks what would fit, and it shows the same call as commands."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from flask import g

from zonesched.api import errors
from zonesched.api.body import parse_object
from zonesched.dashboard.visit import Form, Page, Redirect, Result, Visit
from zonesched.errors import BadRequest, ZoneschedError

KEY, KEY_BYTES = "key", 16
ROWS = 3
"""Rows for hints without a field of their own."""

MAX_HINT_VALUES = 1000
KEY_REUSED = "idempotency_key_reused"
HINTS = ("group", "group_policy", "same_host", "different_host", "query")
LISTS = frozenset({"same_host", "different_host"})
FIELDS = ("name", "flavor", "image", "num_instances", "min_count", "availability_zone", "filters")


def show(visit: Visit) -> Page:
    """Show the empty form; parameters of the query fill its fields."""
    given = {name: [value] for name, value in visit.query.items() if name != KEY}
    return _page(visit, Form(given))


def send(visit: Visit) -> Result:
    """Boot, or show on the same page what would fit, or the commands."""
    form, asked = visit.form, visit.form.get("do")
    try:
        body = boot_body(form, by_admin=visit.is_admin)
        if asked == "boot":
            key = {"Idempotency-Key": form.get(KEY)} if form.get(KEY) else {}
            made = visit.write("POST", "/zones/boot", body, headers=key)
            return Redirect(f"/dashboard/boots/{made['reservation_id']}")
        if asked == "dry_run":
            found = visit.write("POST", "/zones/boot", {**body, "dry_run": True})["dry_run"]
            return _page(visit, form, lines=equal_lines(visit, body), dry_run=found)
    except ZoneschedError as fault:
        return _page(visit, form, fault=fault)
    except Exception as error:
        # The boot may have been accepted: the form that is sent again has its key.
        return _page(visit, form, fault=errors.fault_of(error, g.request_id))
    return _page(visit, form, lines=equal_lines(visit, body))


def boot_body(form: Form, *, by_admin: bool) -> dict[str, Any]:
    """Return the body of POST /zones/boot. Raises BadRequest for a count that is no number."""
    server: dict[str, Any] = {
        "name": form.get("name"),
        "flavorRef": form.get("flavor"),
        "num_instances": _count(form, "num_instances"),
    }
    given = {
        "imageRef": form.get("image"),
        "min_count": _count(form, "min_count") if form.get("min_count") else None,
        "availability_zone": form.get("availability_zone"),
        "filters": _names(form.get("filters")),
        "enabled_filters": _names(form.get("enabled_filters")) if by_admin else [],
    }
    body: dict[str, Any] = {"server": server | {name: value for name, value in given.items() if value}}
    hints = _hints(form)
    return {**body, "os:scheduler_hints": hints} if hints else body


def equal_lines(visit: Visit, body: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the lines of a shell that make the same call, by their program."""
    server = body["server"]
    words = ["zonesched", "zone", "boot", "--flavor", server["flavorRef"], "--name", server["name"]]
    words += ["-n", str(server["num_instances"])]
    options = {"imageRef": "--image", "min_count": "--min-count", "availability_zone": "--availability-zone"}
    for name, option in options.items():
        words += [option, str(server[name])] if name in server else []
    for name, option in {"filters": "--filter", "enabled_filters": "--enabled-filter"}.items():
        words += [word for value in server.get(name, ()) for word in (option, value)]
    for name, value in body.get("os:scheduler_hints", {}).items():
        words += ["--hint", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    curl = ["curl", "-u", visit.caller.name, "-H", "Content-Type: application/json"]
    curl += ["-d", json.dumps(body), f"{visit.base_url}/v2.1/zones/boot"]
    return {"zonesched": shlex.join(words), "curl": shlex.join(curl)}


def _page(
    visit: Visit,
    form: Form,
    *,
    lines: Mapping[str, str] | None = None,
    dry_run: Mapping[str, Any] | None = None,
    fault: ZoneschedError | None = None,
) -> Page:
    return Page(
        "boot_form.html",
        {
            "given": {name: form.get(name) for name in (*FIELDS, *HINTS, "enabled_filters")},
            "hint_rows": _hint_rows(form),
            "flavors": visit.read_all("/flavors", "flavors", is_public="none"),
            "images": visit.read_all("/images", "images"),
            "zones": [one["zoneName"] for one in _availability_zones(visit)],
            "key": _key(visit, form, fault),
            "lines": lines or {},
            "dry_run": dry_run,
            "fault": fault,
            "is_used": _is_used(fault),
        },
        status=fault.kind.status if fault is not None else 200,
        # Gone back to, the form has its key: it boots nothing twice.
        is_kept=True,
    )


def _key(visit: Visit, form: Form, fault: ZoneschedError | None) -> str:
    """Return the key by which the form boots once, however often it is sent.

    It stays the same after a fault, which may come after the boot was accepted.
    """
    return (not _is_used(fault) and form.get(KEY)) or visit.zone.clock.random_bytes(KEY_BYTES).hex()


def _is_used(fault: ZoneschedError | None) -> bool:
    """Tell whether the form has booted something else before."""
    return fault is not None and fault.code == KEY_REUSED


def _availability_zones(visit: Visit) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = visit.read("/os-availability-zone")["availabilityZoneInfo"]
    return found


def _count(form: Form, name: str) -> int:
    text = form.get(name) or "1"
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise BadRequest(f"{name}: must be a whole number.", field=name)
    return int(text)


def _names(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _hints(form: Form) -> dict[str, Any]:
    found: dict[str, Any] = {name: form.get(name) for name in HINTS if form.get(name)}
    found |= {name: _names(value) for name, value in found.items() if name in LISTS}
    return found | {name: _json_or_text(value) for name, value in _hint_rows(form) if name}


def _hint_rows(form: Form) -> list[tuple[str, str]]:
    """Return names and values of the hints without a field of their own."""
    return [(form.get(f"hint_name_{row}"), form.get(f"hint_value_{row}")) for row in range(ROWS)]


def _json_or_text(text: str) -> Any:
    """Return the value as the command reads it: JSON where it is JSON."""
    try:
        return parse_object(b'{"value": ' + text.encode() + b"}", MAX_HINT_VALUES)["value"]
    except (BadRequest, KeyError):
        return text
