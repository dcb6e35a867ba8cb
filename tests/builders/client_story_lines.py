"""Lines of the stories that OpenStack's clients play, and what is expected of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

CREATE = "openstack server create --flavor small --image plain --no-network --wait -f value -c status"
BELOW = "--availability-zone leaf-rack-1"
"""Only hosts of the leaf are in this availability zone."""
AT_ROOT = "--availability-zone root-rack-1"
"""Only hosts of the root are in this availability zone."""
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIR8NN31+uZVnUHOsErnpvtav8YLp4KkCLaIRa00BkHY x@y"
NOTHING = r"\A\Z"


@dataclass(frozen=True)
class Refused:
    """A pattern of an error, on one line."""

    pattern: str


@dataclass(frozen=True)
class Printed:
    """The form of all fields that are printed; empty ones of openstacksdk are left out."""

    form: Any


Line = tuple[str, str | Refused | Printed]


def rows(what: str, pattern: str) -> Line:
    """Look at rows of the root."""
    return f"ROWS SELECT {what}", pattern


def server(columns: str, name: str, pattern: str) -> Line:
    """Look at the rows of a server: `i` its own, `s` its state, `l` its lock, `p` its place."""
    return rows(
        f"{columns} FROM instances i LEFT JOIN instance_states s USING (uuid)"
        " LEFT JOIN instance_locks l USING (uuid)"
        " LEFT JOIN placements p ON p.uuid = i.uuid AND p.number = i.attempt"
        f" WHERE i.name = '{name}' AND i.status != 'DELETED'",
        pattern,
    )
