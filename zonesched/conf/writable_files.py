"""Files and folders that a zone writes: whether it can, found out without writing anything."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from zonesched.errors import ConfigError


def check_folder(path: Path, option: str) -> None:
    """Raise ConfigError unless the folder can be written to, or made with those above it."""
    above = path.absolute()
    _check_entries_of(next(at for at in (above, *above.parents) if os.path.lexists(at)), path, option)


def check_file(path: Path, option: str, made: Path) -> None:
    """Raise ConfigError unless the file can be appended to, or made in a folder that is there.

    `made`: a folder that the zone makes before.
    """
    if path.is_dir():
        raise _refused(path, option, errno.EISDIR)
    if path.exists():
        if not os.access(path, os.R_OK | os.W_OK):
            raise _refused(path, option, errno.EACCES)
    elif path.parent.absolute() != made.absolute():
        _check_entries_of(path.parent, path, option)


def _check_entries_of(folder: Path, path: Path, option: str) -> None:
    if not folder.exists():
        raise _refused(path, option, errno.ENOENT)
    if not folder.is_dir():
        raise _refused(path, option, errno.ENOTDIR)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _refused(path, option, errno.EACCES)


def _refused(path: Path, option: str, number: int) -> ConfigError:
    return ConfigError(f"Option {option}: {path} cannot be written: {os.strerror(number)}.", field=option)
