"""Which zone a command speaks to and as whom, from options, the environment or a file."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from zonesched.compute.connection import ZoneConnection
from zonesched.compute.credentials import Credentials, read_credentials

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass
class Session:
    """The options that every command takes, collected while click reads them; a later one wins."""

    given: dict[str, Any] = field(default_factory=dict)
    pause: Callable[[float], None] = time.sleep

    @property
    def as_json(self) -> bool:
        """Whether the answer's JSON is wanted instead of tables."""
        return bool(self.given.get("as_json"))

    def credentials(self) -> Credentials:
        """Options before the environment before the file. Raises CredentialsError or UsageError."""
        path = self.given.get("credentials") or os.environ.get("ZONESCHED_CREDENTIALS")
        from_file = read_credentials(Path(path)) if path else Credentials()
        found = Credentials(
            self._text("zone_url", "ZONESCHED_URL") or from_file.url,
            self._text("username", "ZONESCHED_USERNAME") or from_file.username,
            self._password() or from_file.password,
        )
        if not found.url:
            raise click.UsageError("No zone is named: use --zone-url, ZONESCHED_URL or --credentials FILE.")
        return found

    def connection(self) -> ZoneConnection:
        """The zone, ready to be called."""
        who = self.credentials()
        return ZoneConnection(who.url, who.username, who.password, float(self.given.get("timeout") or 60.0))

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """One call to the zone; the answer's JSON. Raises ZoneCallError."""
        if "connection" not in self.given:
            self.given["connection"] = self.connection()
        return self.given["connection"].call(method, path, body, params, headers)

    def _text(self, option: str, variable: str) -> str:
        return self.given.get(option) or os.environ.get(variable, "")

    def _password(self) -> str:
        if self.given.get("password_stdin"):
            return sys.stdin.readline().rstrip("\r\n")
        if self.given.get("password_file"):
            return read_secret(self.given["password_file"])
        return self._text("password", "ZONESCHED_PASSWORD")


def read_secret(path: Path) -> str:
    """The first line of a file that holds nothing else."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return lines[0].strip() if lines else ""


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    session = context.ensure_object(Session)
    if value:
        session.given[str(parameter.name)] = value


def _option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    return click.option(*names, expose_value=False, callback=_remember, is_eager=True, **settings)


_OPTIONS = (
    _option("--zone-url", metavar="URL", help="The zone. Environment: ZONESCHED_URL."),
    _option("--username", metavar="NAME", help="A user of it. Environment: ZONESCHED_USERNAME."),
    _option("--password", metavar="TEXT", help="Seen by all users of this machine; better are the next two."),
    _option("--password-file", type=FILE, help="File with the password. Environment: ZONESCHED_PASSWORD."),
    _option("--password-stdin", is_flag=True, help="Read the password from standard input."),
    _option("--credentials", type=FILE, help="File with all three. Environment: ZONESCHED_CREDENTIALS."),
    _option(
        "--timeout", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Longest wait for an answer."
    ),
)
_AS_JSON = _option("--json", "as_json", is_flag=True, help="Print the zone's answer as JSON.")


def offline_options(command: Command) -> Command:
    """Give a command --json."""
    return _AS_JSON(command)


def zone_options(command: Command) -> Command:
    """Give a command --json and the options that name the zone and the user."""
    for option in reversed((*_OPTIONS, _AS_JSON)):
        command = option(command)
    return command


pass_session = click.make_pass_decorator(Session, ensure=True)
