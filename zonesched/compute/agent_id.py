"""The id of an agent, by which its zone tells it from another one that was given the name of its service."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from zonesched.seams import Clock

FILE = "agent-id"


def of_folder(folder: Path, clock: Clock) -> str:
    """Read the id in an agent's state folder; write a new one where there is none. Raises OSError."""
    path = folder / FILE
    try:
        return str(uuid.UUID(path.read_text(encoding="utf-8").strip()))
    except (FileNotFoundError, ValueError):
        # None, or one that a power cut has left empty. With a new one it is another agent to its zone, which
        # takes it once the one before is down.
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = clock.new_uuid()
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(f"{made}\n")
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}.new", path)
    return made
