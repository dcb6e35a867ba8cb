"""Files of an agent's state folder that say whose the folder is.

agent-id    the agent's id: its zone tells by it two agents that were given the name of one service
host-name   the name of the first host that the agent's driver described
owner.json  the zone and the service whose instances are in the folder
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from zonesched.compute import instances_root, process_table
from zonesched.seams import Clock

log = logging.getLogger(__name__)

ID, HOST_NAME, OWNER = "agent-id", "host-name", "owner.json"


@dataclass(frozen=True)
class AgentIdentity:
    """Id of an agent, and its state folder on this boot of its machine; "" for one without a state folder.

    A driver has that folder for itself. So an agent of the same home is a later process of the same agent,
    and one of another home has a copy of the folder, or its machine has started again.
    """

    id: str = ""
    home: str = ""


NO_IDENTITY = AgentIdentity()
"""Identity of an agent without a state folder."""


@dataclass(frozen=True)
class Owner:
    """A service of a zone; the zone's name is for people."""

    service: str
    zone_uuid: str
    zone_name: str


class OtherOwner(Exception):
    """The instances in the state folder are another one's; the message says whose, and what to do."""


def of_folder(folder: Path, clock: Clock) -> AgentIdentity:
    """Read the id in an agent's state folder; write a new one where there is none. Raises OSError."""

    def read(text: str) -> str:
        return str(uuid.UUID(text))

    # Where a power cut has left it empty, it is another agent to its zone, which takes it once the one before
    # is down.
    agent_id = _kept(folder / ID, read, clock.new_uuid)
    file = os.stat(folder / ID)
    home = uuid.uuid5(uuid.UUID(process_table.boot_id()), f"{file.st_dev}:{file.st_ino}")
    return AgentIdentity(agent_id, str(home))


def host_name(folder: Path, present: str) -> str:
    """Return the name of the agent's own host: the first one, whatever its machine is called now.

    By another name it would be a second host to its zone, with all the capacity of the first. Raises OSError.
    """

    def read(text: str) -> str:
        if not text.isprintable() or not text:
            raise ValueError("a power cut has left it empty")
        return text

    return _kept(folder / HOST_NAME, read, lambda: present)


def take(folder: Path, owner: Owner) -> None:
    """Write whose instances are in a folder. Raises OtherOwner while it has those of another one; OSError.

    The zone would not list them, so that its agent would end them all. Without room it goes on: only a delete
    that it hears of may make some.
    """
    path, instances = folder / OWNER, folder / "instances"
    try:
        before = Owner(**json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        # None yet, or one that a power cut has left empty.
        before = replace(owner, zone_name="")
    if before == owner:
        return
    is_other = (before.service, before.zone_uuid) != (owner.service, owner.zone_uuid)
    if is_other and instances.is_dir() and instances_root.complete_in(instances):
        raise OtherOwner(
            f"the instances in {folder} are those of the agent {before.service} of the zone"
            f" {before.zone_name} ({before.zone_uuid}), and this is {owner.service} of {owner.zone_name}"
            f" ({owner.zone_uuid}): nothing is built or ended. Start it with --service {before.service} and"
            f" the credentials of that zone, or remove {path} to have the instances ended"
        )
    try:
        _write(path, json.dumps(asdict(owner)))
    except OSError as error:
        log.error("whose instances are in %s cannot be written: %s", folder, error)


def _kept(path: Path, read: Callable[[str], str], make: Callable[[], str]) -> str:
    """Read a file of one line; write it anew where it is not there, or not usable."""
    try:
        return read(path.read_text(encoding="utf-8").strip())
    except (FileNotFoundError, ValueError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = make()
    _write(path, f"{made}\n")
    return made


def _write(path: Path, text: str) -> None:
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}.new", path)
