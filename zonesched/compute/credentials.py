"""Credentials for a zone, kept in a small file:

[zonesched]
url = http://127.0.0.1:8790
username = admin
password = ...
transport_url = amqp://...
servicegroup_driver = redis://...

The last two are an agent's alone, and may be left out.
"""

from __future__ import annotations

import configparser
import os
from dataclasses import dataclass, field, fields
from pathlib import Path

SECTION = "zonesched"


class CredentialsError(Exception):
    """The file cannot be used; the message names it and never what is secret in it."""


@dataclass(frozen=True)
class Credentials:
    """A zone's URL and a user of it, its broker and its service group; "" where a thing is not given."""

    url: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    transport_url: str = field(default="", repr=False)
    servicegroup_driver: str = field(default="", repr=False)


def read_credentials(path: Path) -> Credentials:
    """Read the file. Raises CredentialsError."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
        section = parser[SECTION]
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsError(f"{path}: cannot be read: {error}") from None
    except (configparser.Error, KeyError):
        raise CredentialsError(f"{path}: must be [{SECTION}] with url, username and password") from None
    return Credentials(**{known.name: section.get(known.name, "") for known in fields(Credentials)})


def write_credentials(path: Path, credentials: Credentials) -> None:
    """Write the file anew, durably; readable by its owner only from its first byte on."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(
        os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(f"[{SECTION}]\nurl = {credentials.url}\nusername = {credentials.username}\n")
        file.write(f"password = {credentials.password}\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
