"""The folder that a demo keeps its zones in: made new, taken over from an earlier demo, or refused."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import IO

from zonesched.errors import ConfigError

MARK = "made-by-zonesched-demo"


def hold_folder(folder: Path) -> IO[str]:
    """Hold `folder` for this demo, until the returned file is closed; nothing in it is changed yet.

    Raises ConfigError for a folder that is not a demo's, and for one whose demo runs.
    """
    mark = folder / MARK
    if folder.exists() and not mark.is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} was not made by the demo and is left as it is: name another --dir.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    held = mark.open("a+", encoding="utf-8")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.seek(0)
        holder = held.read().strip() or "unknown"
        held.close()
        raise ConfigError(
            f"A demo runs in {folder} (process {holder}): stop it with Ctrl-C, or name another --dir and"
            " --base-port."
        ) from None
    held.truncate(0)
    held.write(f"{os.getpid()}\n")
    held.flush()
    return held


def clear_folder(folder: Path) -> bool:
    """Remove what an earlier demo left in a folder that is held; whether there was anything."""
    found = [entry for entry in folder.iterdir() if entry.name != MARK]
    for entry in found:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    return bool(found)
