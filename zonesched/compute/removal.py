"""Removal of what an instance leaves, as far as that is possible.

An instance may have made folders that nobody may write to, as Go's module cache, or may have put something
else in the place of a folder.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

ASIDE = ".removed."
"""Part of the name of what was put aside to be removed; a number follows."""

_REMOVES = 'rm -rf -- "$@" || { chmod -R u+rwx -- "$@"; rm -rf -- "$@"; }'


def start(paths: Sequence[Path]) -> subprocess.Popen[bytes]:
    """Remove in a process of its own: a disk may have very many files, and the agent has other instances."""
    return subprocess.Popen(
        ["sh", "-c", _REMOVES, "sh", *map(str, paths)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def put_aside(path: Path, name: Path) -> list[Path]:
    """Rename what is to be removed to `name` and a number, out of everybody's way; return where it is."""
    if not os.path.lexists(path):
        return []
    if not path.is_symlink():
        # One that may not be written to cannot be moved to another folder.
        with suppress(OSError):
            path.chmod(0o700)
    numbered = (Path(f"{name}{ASIDE}{number}") for number in itertools.count())
    aside = next(path for path in numbered if not os.path.lexists(path))
    path.rename(aside)
    return [aside]


def remove_tree(path: Path) -> None:
    """Remove what is there before this returns."""
    if os.path.islink(path) or os.path.isfile(path):
        with suppress(OSError):
            path.unlink()
    shutil.rmtree(path, ignore_errors=True)
    if os.path.isdir(path):
        for folder in _folders_in(path):
            with suppress(OSError):
                folder.chmod(0o700)
        shutil.rmtree(path, ignore_errors=True)


def _folders_in(path: Path) -> Iterator[Path]:
    """Name the folders of a tree, each before it is looked into; no link is followed."""
    yield path
    for at, names, _ in os.walk(path):
        yield from (folder for name in names if not (folder := Path(at, name)).is_symlink())
