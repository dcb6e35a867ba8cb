"""An environment of its own with the `nova` package, made once and kept."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

REQUIREMENT = "nova~=34.0"
"""The release whose classes `nova_side.py` calls."""


class NoEnvironment(Exception):
    """The environment cannot be made; the text says why."""


def default_folder() -> Path:
    """A folder of the user's cache, outside of any checkout."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "zonesched-benchmarks" / "nova"


def nova_python(folder: Path) -> Path:
    """The interpreter of the environment in `folder`; makes it first if it is not complete.

    Raises NoEnvironment.
    """
    python, stamp = folder / "bin" / "python", folder / "complete"
    if stamp.is_file() and stamp.read_text() == REQUIREMENT and python.exists():
        return python
    _say(f"installing {REQUIREMENT} and what it needs into {folder}; this takes a few minutes, once")
    try:
        venv.create(folder, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run(
            [*pip, REQUIREMENT], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        if done.returncode != 0:
            said = "\n".join(done.stderr.strip().splitlines()[-5:])
            raise NoEnvironment(f"{REQUIREMENT} cannot be installed: is a package index in reach?\n{said}")
        stamp.write_text(REQUIREMENT)
    except (OSError, subprocess.SubprocessError) as error:
        raise NoEnvironment(f"no environment could be made in {folder}: {error}") from error
    return python


def _say(text: str) -> None:
    print(f"vs_nova: {text}", file=sys.stderr, flush=True)
