"""Folder of a demo or of a single zone: created, reused from an earlier run, or refused."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import IO

from zonesched.errors import ConfigError

DEMO = "demo"
ZONE = "zone"


def mark_of(noun: str) -> str:
    """Name of the file that marks a folder as made by zonesched."""
    return f"made-by-zonesched-{noun}"


def hold_folder(folder: Path, noun: str = DEMO) -> IO[str]:
    """Lock `folder` for this run until the returned file is closed. Its content is not changed.

    Raises ConfigError for a folder that something else made, that cannot be written, or whose run goes on.
    """
    mark = folder / mark_of(noun)
    try:
        if folder.exists() and not mark.is_file() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError(f"{folder} was not made by a {noun} and is left as it is: name another --dir.")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = mark.open("a+", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be used: {error.strerror}. Name another --dir.") from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.seek(0)
        holder = held.read().strip() or "unknown"
        held.close()
        raise ConfigError(
            f"A {noun} already runs in {folder} (process {holder}): stop it with Ctrl-C, or start another"
            f" with --dir and {'--base-port' if noun == DEMO else '--port'}."
        ) from None
    held.truncate(0)
    held.write(f"{os.getpid()}\n")
    held.flush()
    return held


def clear_folder(folder: Path) -> bool:
    """Remove everything but the marks from a locked folder; return whether there was anything."""
    found = [entry for entry in folder.iterdir() if entry.name != mark_of(DEMO)]
    for entry in found:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    return bool(found)
