"""File that describes a tree of zones: the zones, their children, and their users.

    [zones.root]
    credentials = "root/admin.credentials"
    children = ["leaf"]

    [zones.leaf]
    credentials = "leaf/admin.credentials"
    url = "https://leaf.example:8774"

    [zones.leaf.users.agent]
    role = "compute"
    save = "agent.credentials"

    [zones.root.flavors.small]
    vcpus = 1
    ram = 512

Paths are relative to the file. Nothing is read from the zones here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from zonesched.compute.credentials import Credentials, read_credentials
from zonesched.errors import ConfigError
from zonesched.model.json_shape import DEEPEST

MAX_BYTES = 2**20
MAX_DOTS = 16
"""Maximum number of dots in one key; the time to read a dotted key grows with their square."""

_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_DEEP_KEY = re.compile(rf"(?<![\w-])(?:{_PART}\.[ \t]*+){{{MAX_DOTS + 1}}}")

_BRACKETS = {"[": 1, "{": 1, "]": -1, "}": -1}
_BRACKET = re.compile(r"[][{}]")

_ZONE_KEYS = {
    "credentials": str,
    "url": str,
    "children": list,
    "weight_offset": (int, float),
    "weight_scale": (int, float),
    "users": dict,
    "flavors": dict,
}
_FLAVOR_KEYS = {"vcpus": int, "ram": int, "disk": int, "extra_specs": dict}
_USER_KEYS = {"role": str, "project": str, "password_file": str, "save": str}
ROLES = ("admin", "member", "reader", "compute")
PEOPLE = ("admin", "member", "reader")


@dataclass(frozen=True)
class WantedUser:
    """A user to make in a zone. `password_file` and `save` are None where the file names none."""

    name: str
    role: str
    project_id: str
    password_file: Path | None
    save: Path | None


@dataclass(frozen=True)
class WantedFlavor:
    """A flavor to make in a zone. `ram` is in MB and `disk` in GB, as in the API."""

    name: str
    vcpus: int
    ram: int
    disk: int
    extra_specs: Mapping[str, str]


@dataclass(frozen=True)
class WantedZone:
    """A zone of the tree. `admin`: how this command calls it; `api_url`: how its parent calls it."""

    name: str
    admin: Credentials
    api_url: str
    children: tuple[str, ...]
    weight_offset: float
    weight_scale: float
    users: tuple[WantedUser, ...]
    flavors: tuple[WantedFlavor, ...]


def read_tree(path: Path) -> tuple[WantedZone, ...]:
    """The zones of the file, each after its children. Raises ConfigError that names file and fault."""
    try:
        content = tomllib.loads(_bounded(path))
    # tomllib lets the plain ValueError of a number with too many digits through.
    except (OSError, ValueError, _Fault) as error:
        raise ConfigError(f"{path}: {error}") from None
    try:
        _check_keys("the file", content, {"zones": dict})
        zones = {name: _zone(path.parent, name, section) for name, section in content["zones"].items()}
        return _leaves_first(zones)
    except _Fault as fault:
        raise ConfigError(f"{path}: {fault}") from None


class _Fault(Exception):
    """The file is TOML, but describes no tree; the message has the reason."""


def _bounded(path: Path) -> str:
    """Read a text that takes a second at most to parse."""
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise _Fault(f"the file has more than {MAX_BYTES} bytes")
    text = content.decode("utf-8")
    if deep := _DEEP_KEY.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise _Fault(f"line {line}: a key has more than {MAX_DOTS} dots")
    levels = accumulate(_BRACKETS[bracket] for bracket in _BRACKET.findall(text))
    if max(levels, default=0) > DEEPEST:
        raise _Fault(f"brackets nest deeper than {DEEPEST} levels")
    return text


def _check_keys(where: str, section: Any, known: Mapping[str, Any], *required: str) -> None:
    if not isinstance(section, dict):
        raise _Fault(f"{where} must be a table")
    for key, value in section.items():
        if key not in known:
            raise _Fault(f"{where}: unknown key {key!r}; known are {', '.join(known)}")
        if not isinstance(value, known[key]) or isinstance(value, bool):
            raise _Fault(f"{where}: {key} has a value of the wrong type")
    for key in required or known:
        if key not in section:
            raise _Fault(f"{where}: {key} is missing")


def _zone(folder: Path, name: str, section: Any) -> WantedZone:
    where = f"zones.{name}"
    _check_keys(where, section, _ZONE_KEYS, "credentials")
    children = section.get("children", [])
    if not all(isinstance(child, str) for child in children):
        raise _Fault(f"{where}: children must be a list of names")
    admin = read_credentials(folder / section["credentials"])
    return WantedZone(
        name=name,
        admin=admin,
        api_url=section.get("url", admin.url).rstrip("/"),
        children=tuple(children),
        weight_offset=float(section.get("weight_offset", 0.0)),
        weight_scale=float(section.get("weight_scale", 1.0)),
        users=tuple(_user(folder, f"{where}.users", *user) for user in section.get("users", {}).items()),
        flavors=tuple(_flavor(f"{where}.flavors", *item) for item in section.get("flavors", {}).items()),
    )


def _user(folder: Path, where: str, name: str, section: Any) -> WantedUser:
    where = f"{where}.{name}"
    _check_keys(where, section, _USER_KEYS, "role")
    role, project_id = section["role"], section.get("project", "")
    if role not in ROLES:
        raise _Fault(f"{where}: role must be one of {', '.join(ROLES)}; parents are made for children")
    if role in PEOPLE and not project_id:
        raise _Fault(f"{where}: a user of role {role} needs a project")
    password_file, save = (
        folder / section[key] if key in section else None for key in ("password_file", "save")
    )
    if password_file is None and save is None:
        raise _Fault(f"{where}: name a password_file, or in save a file for a generated secret")
    return WantedUser(name, role, project_id, password_file, save)


def _flavor(where: str, name: str, section: Any) -> WantedFlavor:
    where = f"{where}.{name}"
    _check_keys(where, section, _FLAVOR_KEYS, "vcpus", "ram")
    extra_specs = section.get("extra_specs", {})
    if not all(isinstance(value, str) for value in extra_specs.values()):
        raise _Fault(f"{where}: extra_specs must be a table of texts")
    return WantedFlavor(name, section["vcpus"], section["ram"], section.get("disk", 0), extra_specs)


def _leaves_first(zones: Mapping[str, WantedZone]) -> tuple[WantedZone, ...]:
    parent_of: dict[str, str] = {}
    for zone in zones.values():
        for child in zone.children:
            if child not in zones:
                raise _Fault(f"zones.{zone.name}: there is no zone {child!r}")
            if child in parent_of:
                raise _Fault(f"zones.{child} is a child of {parent_of[child]} and of {zone.name}")
            parent_of[child] = zone.name
    ordered: list[WantedZone] = []

    def visit(name: str) -> None:
        for child in zones[name].children:
            visit(child)
        ordered.append(zones[name])

    for name in zones:
        if name not in parent_of:
            visit(name)
    if len(ordered) < len(zones):
        circle = sorted(zones.keys() - {zone.name for zone in ordered})
        raise _Fault(f"the zones {', '.join(circle)} are children of each other")
    return tuple(ordered)
