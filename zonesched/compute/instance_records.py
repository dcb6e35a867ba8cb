"""Records in the folder of an instance: JSON files of the process driver that outlive its agent."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zonesched.compute.desired_state import Power


@dataclass(frozen=True)
class Reached:
    """State of a built instance: generation acted on, power state, reboots and rebuilds done.

    `reason`: why it is not in the state of that generation, a code; "" where it is.
    """

    generation: int = 0
    power: Power = Power.RUNNING
    reboots: int = 0
    rebuilds: int = 0
    reason: str = ""


class FolderDamaged(ValueError):
    """A file of an instance's folder is not as it was written; the message names it, and says what to do."""

    def __init__(self, path: Path, why: Exception) -> None:
        remedy = (
            "see that nothing of the instance runs, and remove the file"
            if path.name == "process.json"
            else "bring it back from a copy, or delete the server"
        )
        super().__init__(f"{path} is damaged ({why!r}): {remedy}")


def read(path: Path, **members: type) -> dict[str, Any]:
    """Read a record; empty where there is no file.

    Raises FolderDamaged where it cannot be read, or a member is missing or of another type.
    """
    try:
        found = dict(json.loads(path.read_text(encoding="utf-8")))
        for member, kind in members.items():
            if not isinstance(found[member], kind):
                raise TypeError(f"{member} is {found[member]!r}")
    except FileNotFoundError:
        return {}
    except (KeyError, OSError, TypeError, ValueError) as error:
        raise FolderDamaged(path, error) from None
    return found


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a record atomically; it is on disk when this returns."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}.new", path)


def read_reached(path: Path) -> Reached:
    """Read the last state of a built instance. Raises FolderDamaged."""
    line = read(path, generation=int, power=str, reboots=int, rebuilds=int)
    try:
        power = Power(line["power"])
    except ValueError as error:
        raise FolderDamaged(path, error) from None
    return Reached(line["generation"], power, line["reboots"], line["rebuilds"], line.get("reason", ""))


def write_reached(path: Path, reached: Reached) -> None:
    """Write the state of a built instance, as `write` does."""
    write(path, {**vars(reached), "power": reached.power.value})


def first_state(wanted: Mapping[str, Any]) -> Reached:
    """Return the state to start with: what an earlier attempt has done is done, and is not repeated."""
    return Reached(reboots=wanted.get("reboots", 0), rebuilds=wanted.get("rebuilds", 0))
