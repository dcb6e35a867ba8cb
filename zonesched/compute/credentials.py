"""Credentials for a zone, in an INI file:

[zonesched]
url = http://127.0.0.1:8790
username = admin
password = ...
cacert = /etc/zonesched/ca.pem
transport_url = amqp://...
servicegroup_driver = redis://...

The last three are optional, and the last two only for agents. `cacert`: the file of CA certificates that
verify the zone's https; without it, the usual authorities do.
"""

from __future__ import annotations

import configparser
import errno
import os
from dataclasses import dataclass, field, fields
from pathlib import Path

SECTION = "zonesched"
SPACE_BYTES = 4096
"""Size of what `check_writable` writes: more than any credentials."""


class CredentialsError(Exception):
    """The file cannot be used; the message has its path and no secrets."""


@dataclass(frozen=True)
class Credentials:
    """URL of a zone, a user there, whom to trust, its broker and its service group; "" where not given."""

    url: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    transport_url: str = field(default="", repr=False)
    servicegroup_driver: str = field(default="", repr=False)
    cacert: str = ""


def read_credentials(path: Path) -> Credentials:
    """Read the file. Raises CredentialsError."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text(encoding="utf-8-sig"))
        section = parser[SECTION]
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise CredentialsError(f"{path}: cannot be read: {said}") from None
    except (configparser.Error, KeyError):
        raise CredentialsError(f"{path}: must be [{SECTION}] with url, username and password") from None
    return Credentials(**{known.name: section.get(known.name, "") for known in fields(Credentials)})


def check_writable(path: Path) -> None:
    """Raise CredentialsError if `write_credentials` cannot write the file; nothing is left behind.

    A secret that nobody could keep is thus never made.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        _write_beside(path, " " * SPACE_BYTES).unlink()
    except OSError as error:
        raise CredentialsError(f"{path}: cannot be written: {error.strerror}") from None


def check_replaceable(path: Path, username: str) -> None:
    """Raise CredentialsError if the file is there and has anything else than credentials of this user.

    What it has would be lost: another user's only secret, or the keys of a configuration.
    """
    if not path.exists() or not path.stat().st_size:
        return
    try:
        is_own = read_credentials(path).username == username
    except CredentialsError:
        is_own = False
    if not is_own:
        raise CredentialsError(
            f"{path}: it has no credentials of {username}, and is kept. Move it, or choose another place."
        )


def begin_credentials(path: Path) -> None:
    """Write durably that the file is about to be written: until it is, `are_begun` says so.

    Whoever was stopped in between has made a secret that nobody has. Raises CredentialsError.
    """
    check_writable(path)
    _write_beside(path, "")
    _flush_names(path.parent)


def are_begun(path: Path) -> bool:
    """Tell whether the file was about to be written, and was not."""
    return _beside(path).exists()


def give_up_credentials(path: Path) -> None:
    """Forget that the file was to be written: there is no secret for it."""
    _beside(path).unlink(missing_ok=True)


def write_credentials(path: Path, credentials: Credentials) -> None:
    """Write the file durably, with access for its owner alone from the first byte on."""
    text = f"[{SECTION}]\nurl = {credentials.url}\nusername = {credentials.username}\n"
    text += f"password = {credentials.password}\n"
    if credentials.cacert:
        # The file may be read in another folder, such as that of a service.
        text += f"cacert = {Path(credentials.cacert).absolute()}\n"
    _write_beside(path, text).replace(path)
    _flush_names(path.parent)


def _flush_names(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".new")


def _write_beside(path: Path, text: str) -> Path:
    """Write the text durably into a new file beside `path`, which is left out where that fails."""
    fresh = _beside(path)
    fresh.unlink(missing_ok=True)
    opened = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(opened, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        fresh.unlink()
        raise
    return fresh
