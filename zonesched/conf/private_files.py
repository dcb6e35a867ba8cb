"""Files and folders that only the zone's own user may read."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Sequence
from pathlib import Path

from zonesched.conf.loading import Conf, secrets_in
from zonesched.errors import ConfigError

OTHERS = 0o077
"""Permissions of everybody but the owner."""


def refuse_if_shared(path: Path, option: str) -> None:
    """Raise ConfigError if other users may use the file or folder at `path`.

    The error has the command that repairs it. Paths that do not exist, or are neither file nor folder, pass.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or not mode & OTHERS:
        return
    wanted = "700" if stat.S_ISDIR(mode) else "600"
    raise ConfigError(
        f"Option {option}: other users of this machine may use {path} (mode {stat.S_IMODE(mode):o}). Run:"
        f" chmod {wanted} {shlex.quote(str(path))}",
        field=option,
    )


def shared_keys(conf: Conf) -> list[str]:
    """Return a warning for each file with a key of TLS that every user of this machine may read."""
    found = []
    for option, otherwise in (
        ("tls_key_file", "tls_certificate_file"),
        ("child_key_file", "child_certificate_file"),
    ):
        path = conf[option] or conf[otherwise]
        if path and Path(path).stat().st_mode & stat.S_IROTH:
            found.append(
                f"Option {option}: every user of this machine may read {path}. Run: chmod o= "
                + shlex.quote(path)
            )
    return found


def shared_secrets(config_files: Sequence[str]) -> list[str]:
    """Return a warning for each configuration file with secrets that every user of this machine may read."""
    return [
        f"{name} sets {', '.join(secrets)}, and every user of this machine may read it. Run: chmod o= "
        + shlex.quote(name)
        for name in config_files
        if Path(name).stat().st_mode & stat.S_IROTH and (secrets := secrets_in(name))
    ]
