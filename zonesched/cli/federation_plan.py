"""Plan of the changes from the present state of each zone to the wanted tree: pure.

A zone comes after its children, and each child gets its user for the parent before the parent adds it. A
secret cannot be read again: where the parent lacks it, the user gets a new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zonesched.cli.federation_file import WantedFlavor, WantedUser, WantedZone
from zonesched.errors import ConfigError

PARENT = "parent"
REFUSED = "child_refused"


@dataclass(frozen=True)
class Present:
    """Present users, child zones and flavors of a zone by name, in the form of its API.

    `unsaved`: users of the file whose credentials an earlier run was about to save when it stopped.
    """

    users: Mapping[str, Mapping[str, Any]]
    children: Mapping[str, Mapping[str, Any]]
    flavors: Mapping[str, Mapping[str, Any]]
    unsaved: frozenset[str]


@dataclass(frozen=True)
class CreateUser:
    """Make a user of the file."""

    zone: str
    user: WantedUser

    def __str__(self) -> str:
        return f"{self.zone}: create user {self.user.name} (role {self.user.role})"


@dataclass(frozen=True)
class RenewUser:
    """Give a user of the file a new secret, since nobody has the present one."""

    zone: str
    user: WantedUser

    def __str__(self) -> str:
        return f"{self.zone}: give user {self.user.name} a new secret"


@dataclass(frozen=True)
class CreateFlavor:
    """Make a flavor of the file."""

    zone: str
    flavor: WantedFlavor

    def __str__(self) -> str:
        return f"{self.zone}: create flavor {self.flavor.name}"


@dataclass(frozen=True)
class CreateParent:
    """Make the user of a parent in its child."""

    zone: str
    name: str

    def __str__(self) -> str:
        return f"{self.zone}: create user {self.name} (role {PARENT})"


@dataclass(frozen=True)
class RenewSecret:
    """Give the user of a parent a new secret, since the parent does not have the present one."""

    zone: str
    name: str

    def __str__(self) -> str:
        return f"{self.zone}: give user {self.name} a new secret"


@dataclass(frozen=True)
class AddChild:
    """Add a child zone with the secret of the step before."""

    zone: str
    child: WantedZone
    username: str

    def __str__(self) -> str:
        return f"{self.zone}: add child {self.child.name} at {self.child.api_url}"


@dataclass(frozen=True)
class ChangeChild:
    """Change what differs of a child zone; with its credentials, the secret of the step before is used."""

    zone: str
    id: str
    child: WantedZone
    username: str
    with_credentials: bool
    changes: Mapping[str, Any]

    def __str__(self) -> str:
        names = [*(["credentials"] if self.with_credentials else []), *self.changes]
        return f"{self.zone}: change child {self.child.name}: {', '.join(names)}"


Step = CreateUser | RenewUser | CreateFlavor | CreateParent | RenewSecret | AddChild | ChangeChild


def plan(zones: Sequence[WantedZone], present: Mapping[str, Present]) -> list[Step]:
    """Return the steps in their order; none for a tree that is as wanted. `zones`: each after its children.

    Raises ConfigError for a user that exists with another role, and a flavor that exists with other values.
    """
    by_name = {zone.name: zone for zone in zones}
    steps: list[Step] = []
    for zone in zones:
        steps += _users(zone, present[zone.name])
        steps += _flavors(zone, present[zone.name])
        for child in zone.children:
            steps += _join(zone, by_name[child], present[zone.name], present[child])
    return steps


def _users(zone: WantedZone, present: Present) -> Iterator[Step]:
    for user in zone.users:
        if _is_missing(zone.name, user.name, user.role, present):
            yield CreateUser(zone.name, user)
        elif user.name in present.unsaved:
            yield RenewUser(zone.name, user)


def _flavors(zone: WantedZone, present: Present) -> Iterator[Step]:
    for flavor in zone.flavors:
        found = present.flavors.get(flavor.name)
        if found is None:
            yield CreateFlavor(zone.name, flavor)
            continue
        for key in ("vcpus", "ram", "disk", "extra_specs"):
            wanted = getattr(flavor, key)
            if found[key] != wanted:
                differs = f"{key} of the flavor {flavor.name} is {found[key]}, not {wanted}"
                raise ConfigError(f"{zone.name}: {differs}: remove it first.")


def _is_missing(zone: str, name: str, role: str, present: Present) -> bool:
    found = present.users.get(name)
    if found is not None and found["role"] != role:
        raise ConfigError(
            f"{zone}: the user {name} has the role {found['role']}, not {role}: remove it first."
        )
    return found is None


def _join(parent: WantedZone, child: WantedZone, above: Present, below: Present) -> Iterator[Step]:
    """Return the steps that make one zone the child of another: first the user there, then the child here."""
    username = f"{PARENT}-{parent.name}"
    is_new_user = _is_missing(child.name, username, PARENT, below)
    row = above.children.get(child.name)
    needs_secret = row is None or is_new_user or row["username"] != username or row["last_error"] == REFUSED
    if needs_secret:
        yield CreateParent(child.name, username) if is_new_user else RenewSecret(child.name, username)
    if row is None:
        yield AddChild(parent.name, child, username)
        return
    wanted = {
        "api_url": child.api_url,
        "weight_offset": child.weight_offset,
        "weight_scale": child.weight_scale,
    }
    changes = {name: value for name, value in wanted.items() if row[name] != value}
    if needs_secret or changes:
        yield ChangeChild(parent.name, row["id"], child, username, needs_secret, changes)
