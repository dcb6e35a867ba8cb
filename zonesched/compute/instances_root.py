"""Folder of all instances of one agent: which there are, and the agent's lock on it."""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

from zonesched.compute import removal
from zonesched.compute.instance_folder import UNFINISHED, InstanceFolder
from zonesched.compute.machine import Key

FOLDER = re.compile(r"[0-9A-Za-z-]+\.[0-9]+")
"""Name of an instance's folder: its uuid and attempt."""


def at(path: Path) -> InstanceFolder:
    """Return the folder of an instance at a path."""
    uuid, _, attempt = path.name.rpartition(".")
    return InstanceFolder(path.parent, Key(uuid, int(attempt)))


def complete_in(root: Path) -> list[InstanceFolder]:
    """List the instances that have a folder; files and folders of other names are not the driver's."""
    paths = [path for path in sorted(root.iterdir()) if FOLDER.fullmatch(path.name)]
    return [at(path) for path in paths if path.is_dir()]


def put_unfinished_aside(root: Path) -> list[Path]:
    """Rename the folders that an earlier agent left incomplete, and return what is to be removed."""
    for path in root.glob(f"{UNFINISHED}*"):
        if removal.ASIDE not in path.name:
            removal.put_aside(path, path)
    return list(root.glob(f"{UNFINISHED}*{removal.ASIDE}*"))


def take_for_this_process(root: Path) -> int:
    """Make the root and lock it until this process ends; return the lock. Raises BlockingIOError."""
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(root / "agent.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise
    return lock
