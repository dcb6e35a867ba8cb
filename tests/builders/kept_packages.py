"""Packages that only some tests need: installed once for each list of pins, and kept for the next run."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

OUT_OF_REACH = ("No matching distribution found", "Max retries exceeded", "Failed to establish")
"""Parts of what pip says where no index answers."""


def kept_folder(name: str, pins: Path, make: Callable[[Path], None]) -> Path:
    """Return the folder of these pins; `make` fills it the first time."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zonesched"
    wanted = hashlib.sha256((sys.version + pins.read_text()).encode()).hexdigest()
    folder = cache / f"{name}-{wanted[:16]}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=cache))
        try:
            make(made)
            # Another run may have been first.
            with suppress(OSError):
                made.rename(folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return folder


def pip_install(python: str, pins: Path, what: str, options: Sequence[str] = ()) -> None:
    """Install pinned packages. Skips the test where no index is in reach; `what` names the packages."""
    pip = [python, "-m", "pip", "install", "-q", "--retries", "1", *options]
    done = subprocess.run(
        [*pip, "--require-hashes", "--no-deps", "-r", str(pins)], capture_output=True, text=True
    )
    if done.returncode and any(said in done.stderr for said in OUT_OF_REACH):
        pytest.skip(f"{what} cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
