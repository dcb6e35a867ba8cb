"""Folder of the databases and logs of a benchmark's zones."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def run_folder(name: str, keep: bool, say: Callable[[str], None]) -> Iterator[Path]:
    """A new folder, removed at the end unless it is to be kept, which is said."""
    folder = Path(tempfile.mkdtemp(prefix=f"zonesched-{name}-"))
    try:
        yield folder
    finally:
        if keep:
            say(f"databases and logs are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
