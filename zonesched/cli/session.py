"""Session of a command: the zone that it calls, its user there, and the form of its output."""

from __future__ import annotations

import enum
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from zonesched.cli.screen import Screen, standard_output
from zonesched.compute.connection import API_PREFIX, ZoneConnection, ZoneUnavailable
from zonesched.compute.credentials import Credentials, read_credentials
from zonesched.finite_float import FiniteFloat

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
DEFAULT_TIMEOUT_S = 60.0
MAX_TIMEOUT_S = 604_800.0
Command = TypeVar("Command", bound=Callable[..., Any])


class Answer(dict[str, Any]):
    """An object that a zone answers; what is no object, or lacks a part, was sent by something else."""

    def __init__(self, zone_url: str, content: Any) -> None:
        self._not_a_zones = f"{zone_url} answered something that is not an answer of a zone"
        if content is not None and not isinstance(content, dict):
            raise ZoneUnavailable(self._not_a_zones)
        super().__init__(content or {})

    def __missing__(self, key: str) -> Any:
        raise ZoneUnavailable(f"{self._not_a_zones}: it has no {key!r}")


class OutputFormat(enum.Enum):
    """The forms of a list, or of one thing."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    VALUE = "value"


def connect(who: Credentials, timeout_s: float) -> ZoneConnection:
    """Calls to a zone over HTTP; `timeout_s` bounds each of them."""
    return ZoneConnection(who.url, who.username, who.password, timeout_s, cacert=who.cacert)


@dataclass
class Session:
    """Options common to all commands, collected while click parses them; a later one wins."""

    given: dict[str, Any] = field(default_factory=dict)
    pause: Callable[[float], None] = time.sleep
    connect: Callable[[Credentials, float], ZoneConnection] = connect
    screen: Screen = field(default_factory=standard_output)
    default_timeout_s: float = DEFAULT_TIMEOUT_S

    @property
    def as_json(self) -> bool:
        """Tell whether to print the zone's own JSON in place of a table."""
        return bool(self.given.get("as_json"))

    @property
    def output_format(self) -> OutputFormat:
        """Return the form of the output if it is not the zone's own JSON."""
        return OutputFormat(self.given.get("output_format", OutputFormat.TABLE.value))

    @property
    def is_plain_table(self) -> bool:
        """Tell whether the output is for people: a table of the command's own columns."""
        return not (self.as_json or self.columns) and self.output_format is OutputFormat.TABLE

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the selected columns or fields; empty for the defaults of the command."""
        return tuple(self.given.get("columns", ()))

    @property
    def sort_by(self) -> str:
        """Return the column to sort by, with `:desc` to reverse; "" for the order of the list."""
        return str(self.given.get("sort_by", ""))

    @property
    def is_wide(self) -> bool:
        """Tell whether tables are not fitted to the terminal."""
        return bool(self.given.get("wide"))

    @property
    def cacert(self) -> str:
        """Return the file of CA certificates that an option or the environment names, "" without one."""
        return str(self._text("cacert", "ZONESCHED_CACERT"))

    def credentials(self) -> Credentials:
        """Resolve credentials: options, environment, file. Raises CredentialsError or UsageError."""
        path = self.given.get("credentials") or os.environ.get("ZONESCHED_CREDENTIALS")
        from_file = read_credentials(Path(path)) if path else Credentials()
        url = self._text("zone_url", "ZONESCHED_URL") or from_file.url
        found = Credentials(
            # As a catalog or a line for curl has it.
            url.rstrip("/").removesuffix(API_PREFIX),
            self._text("username", "ZONESCHED_USERNAME") or from_file.username,
            self._password() or from_file.password,
            cacert=self.cacert or from_file.cacert,
        )
        if not found.url:
            raise click.UsageError("No zone is named: use --zone-url, ZONESCHED_URL or --credentials FILE.")
        return found

    def connection_to(self, who: Credentials) -> ZoneConnection:
        """A connection to a zone as this user."""
        return self.connect(who, float(self.given.get("timeout") or self.default_timeout_s))

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Call the zone once and return the object of its answer, which is empty without a body.

        Raises ZoneCallError, and UnicodeEncodeError for bytes of the command line that are no text.
        """
        # As JSON with escapes such bytes would reach the zone, which could not say whose fault they are.
        json.dumps(body, ensure_ascii=False).encode()
        if "connection" not in self.given:
            self.given["connection"] = self.connection_to(self.credentials())
        connection = self.given["connection"]
        return Answer(connection.zone_url, connection.call(method, path, body, params, headers))

    def _text(self, option: str, variable: str) -> str:
        return self.given.get(option) or os.environ.get(variable, "")

    def _password(self) -> str:
        if self.given.get("password_stdin"):
            return _password_of("standard input", sys.stdin.readline().rstrip("\r\n"))
        if file := self.given.get("password_file"):
            return _password_of(str(file), read_secret(file))
        return self._text("password", "ZONESCHED_PASSWORD")


def _password_of(source: str, password: str) -> str:
    # Without it the call would be made with a password that the caller did not choose.
    if not password:
        raise click.UsageError(f"{source} has no password in its first line")
    return password


def read_secret(path: Path) -> str:
    """Read the only line of a file. Raises UsageError as `read_text`."""
    lines = read_text(path).splitlines()
    return lines[0].strip() if lines else ""


def read_text(path: Path) -> str:
    """Read a file of text. Raises UsageError if it is none."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError(f"{path} is not a text in UTF-8") from None


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    session = context.ensure_object(Session)
    if value:
        session.given[str(parameter.name)] = value


def _option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    return click.option(*names, expose_value=False, callback=_remember, is_eager=True, **settings)


_OPTIONS = (
    _option("--zone-url", metavar="URL", help="URL of the zone. Environment: ZONESCHED_URL."),
    _option("--username", metavar="NAME", help="User to call it as. Environment: ZONESCHED_USERNAME."),
    _option(
        "--password", metavar="TEXT", help="Password; visible to all users of this machine: prefer a file."
    ),
    _option("--password-file", type=FILE, help="File with the password. Environment: ZONESCHED_PASSWORD."),
    _option("--password-stdin", is_flag=True, help="Read the password from standard input."),
    _option(
        "--credentials",
        type=FILE,
        help="File with URL, user and password. Environment: ZONESCHED_CREDENTIALS.",
    ),
    _option(
        "--cacert",
        type=FILE,
        help="File of the CA certificates that verify the zone's https. Environment: ZONESCHED_CACERT.",
    ),
    _option(
        "--timeout",
        type=FiniteFloat(min=0.1, max=MAX_TIMEOUT_S),
        metavar="SECONDS",
        help=f"Time limit of each call.  [default: {DEFAULT_TIMEOUT_S:g}; 3600 for an audit]",
    ),
)
_AS_JSON = _option("--json", "as_json", is_flag=True, help="Print the zone's own answer, as JSON.")
_FORM = (
    _option(
        "-c",
        "--column",
        "columns",
        multiple=True,
        metavar="COLUMN",
        help="Print this column (or field of one object); repeatable, in this order.",
    ),
    _option(
        "-o",
        "--format",
        "output_format",
        type=click.Choice([form.value for form in OutputFormat]),
        help="Form of the output; only tables shorten values.  [default: table]",
    ),
)
_LIST_FORM = (
    *_FORM,
    _option("--sort", "sort_by", metavar="COLUMN", help="Sort by this column; COLUMN:desc reverses."),
    _option("--wide", is_flag=True, help="Print every column and whole ids, whatever the terminal's width."),
)


def offline_options(command: Command) -> Command:
    """Give a command --json."""
    return _AS_JSON(command)


def federation_options(command: Command) -> Command:
    """Give a command --json, --cacert and --timeout; its zones and users come from a file."""
    return _given(command, (*_OPTIONS[-2:], _AS_JSON))


def zone_options(command: Command) -> Command:
    """Give a command --json and the options that name the zone and the user."""
    return _given(command, (*_OPTIONS, _AS_JSON))


def item_options(command: Command) -> Command:
    """Give a command that prints one object the options of its form, and those of `zone_options`."""
    return _given(command, (*_FORM, *_OPTIONS, _AS_JSON))


def list_options(command: Command) -> Command:
    """Give a command that prints a list the options of its form, and those of `zone_options`."""
    return _given(command, (*_LIST_FORM, *_OPTIONS, _AS_JSON))


def _given(command: Command, options: tuple[Callable[[Command], Command], ...]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


pass_session = click.make_pass_decorator(Session, ensure=True)
