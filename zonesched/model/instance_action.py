"""Actions on instances between the API and the services: what is asked for, and what was taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid5

from zonesched.model.action_table import Action
from zonesched.model.desired_state import Result


@dataclass(frozen=True)
class ActionView:
    """An action on an instance as its owner sees it; times are epoch seconds.

    Until it ends, `finished_at` is 0 and `result` None. `reason` is a code where it ended as ERROR, else "".
    `details` says more of a move to this zone's admin: its hosts, or how many hosts each filter refused.
    """

    uuid: str
    action: str
    request_id: str
    user_id: str
    project_id: str
    started_at: float
    finished_at: float
    result: Result | None
    reason: str
    details: str = ""


def own_request_id(uuid: str, number: int) -> str:
    """Return the id of an action that has none, since no request asked for it: the zone did it by itself."""
    return f"req-{uuid5(UUID(uuid), str(number))}"


@dataclass(frozen=True)
class RefusedAction:
    """An instance of a boot on which an action is illegal now, and the stable code of the reason."""

    uuid: str
    code: str
    message: str


@dataclass(frozen=True)
class LockServer:
    """Lock an instance; `reason` is "" for none."""

    reason: str = ""


@dataclass(frozen=True)
class UnlockServer:
    """Remove the lock of an instance."""


@dataclass(frozen=True)
class RebuildServer:
    """Rebuild an instance from an image, given by id, name or link.

    `name`: "" keeps it. `passthrough`: the given members of what its owner keeps with it; None removes one.
    """

    image_ref: str
    name: str = ""
    passthrough: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ResizeServer:
    """Give an instance another flavor, named by id, name or link; a `disk_config` of "" stays."""

    flavor_ref: str
    disk_config: str = ""


@dataclass(frozen=True)
class EvacuateServer:
    """Place an instance anew whose host is down; `fenced`: nothing can run on that host any more."""

    fenced: bool = False


@dataclass(frozen=True)
class MigrateServer:
    """Move an instance to another host of its zone; `host`: the host's name, "" for any."""

    host: str = ""


@dataclass(frozen=True)
class UnsupportedAction:
    """An action of OpenStack that no zone can do, by the key of its body."""

    name: str


@dataclass(frozen=True)
class DeleteServer:
    """Delete an instance, as the call of that name does."""


AskedAction = (
    Action | LockServer | UnlockServer | RebuildServer | ResizeServer | MigrateServer | UnsupportedAction
)
