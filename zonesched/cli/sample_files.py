"""Write samples of the package as new files that only their owner reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from zonesched.cli.key import KEY_BYTES
from zonesched.conf.samples import SAMPLES, text_of
from zonesched.errors import ConfigError
from zonesched.seams import SystemClock


def sample_text(name: str) -> str:
    """Return the content of a sample, with new keys."""
    [chosen] = [found for found in SAMPLES if found.name == name]
    return text_of(chosen, lambda: SystemClock().random_bytes(KEY_BYTES).hex())


def save_samples(path_of: Mapping[str, Path]) -> None:
    """Write samples, by name, into new files (mode 0600).

    Raises ConfigError, and writes none, where one of the files exists.
    """
    there = [str(path) for path in path_of.values() if path.exists()]
    if there:
        raise ConfigError(
            f"{', '.join(there)}: the file exists and is kept. Move it, or choose another place."
        )
    for name, path in path_of.items():
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "w", encoding="utf-8") as file:
            file.write(sample_text(name))
