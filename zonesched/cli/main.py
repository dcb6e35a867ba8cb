"""`zonesched`: one command with a group for each noun. Exit codes:

0 done; 1 the zone refused, or a check found something; 2 wrong usage; 3 the zone cannot be reached or fails;
4 not found.
"""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence

import click

from zonesched.cli.group import CommandGroup
from zonesched.cli.session import Session, zone_options
from zonesched.cli.table import cell
from zonesched.compute.connection import ZoneRefused, ZoneUnavailable
from zonesched.compute.credentials import CredentialsError
from zonesched.errors import ZoneschedError

NOUNS = {
    "zone": "zonesched.cli.zone:zone",
    "federation": "zonesched.cli.federation:federation",
    "server": "zonesched.cli.server:server",
    "server-group": "zonesched.cli.server_group:server_group",
    "reservation": "zonesched.cli.reservation:reservation",
    "flavor": "zonesched.cli.flavor:flavor",
    "image": "zonesched.cli.image:image",
    "host": "zonesched.cli.host:host",
    "aggregate": "zonesched.cli.aggregate:aggregate",
    "service": "zonesched.cli.service:service",
    "availability-zone": "zonesched.cli.availability_zone:availability_zone",
    "user": "zonesched.cli.user:user",
    "limit": "zonesched.cli.limit:limit",
    "quota": "zonesched.cli.quota:quota",
    "keypair": "zonesched.cli.keypair:keypair",
    "audit": "zonesched.cli.audit:audit",
    "replay": "zonesched.cli.replay:replay",
    "key": "zonesched.cli.key:key",
    "config": "zonesched.cli.config:config",
    "db": "zonesched.cli.database:db",
    "client-config": "zonesched.cli.client_config:client_config",
    "completion": "zonesched.cli.completion:completion",
}

REFUSED, USAGE, UNREACHABLE, MISSING = 1, 2, 3, 4


class LazyGroup(CommandGroup):
    """Imports the module of a noun on first use, so that a command does not load the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(NOUNS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in NOUNS:
            return None
        module, _, name = NOUNS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.command(cls=LazyGroup)
@zone_options
@click.version_option(package_name="zonesched")
def zonesched() -> None:
    """Use and operate a zone, and the tree of its child zones.

    The zone and the user come from options, from ZONESCHED_URL, ZONESCHED_USERNAME and ZONESCHED_PASSWORD,
    or from a file (--credentials, ZONESCHED_CREDENTIALS) with url, username and password in its section
    [zonesched]. Options may stand anywhere after the command's name.

    Exit codes: 0 done; 1 the zone refused, or a check found something; 2 wrong usage; 3 the zone cannot be
    reached; 4 not found; 130 stopped by Ctrl-C or SIGTERM.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit. SIGTERM ends it as Ctrl-C does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _complete_streams()
    sys.exit(run(arguments, Session()))


def _complete_streams() -> None:
    """Open closed standard streams, and let no character that one cannot encode end a command."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def run(arguments: Sequence[str] | None, session: Session) -> int:
    """Run one command and return its exit code. Errors are one line on standard error."""
    try:
        code = zonesched.main(arguments, prog_name="zonesched", standalone_mode=False, obj=session)
        return code if isinstance(code, int) else 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else REFUSED
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "zonesched"
        message = error.format_message()
        stop = "" if message.endswith((".", "?")) else "."
        return _say(f"{message}{stop} Try '{path} --help'.", "", USAGE)
    except click.Abort:
        return _say("stopped", "", 130)
    except CredentialsError as error:
        return _say(str(error), "", USAGE)
    except ZoneUnavailable as error:
        return _say(str(error), "zone_unreachable", UNREACHABLE)
    except ZoneRefused as error:
        return _say(error.message, error.code or str(error.status), _code_of(error))
    except ZoneschedError as error:
        return _say(error.message, error.code, REFUSED)
    except UnicodeError:
        said = "a text on the command line, in the environment or on standard input is not UTF-8"
        return _say(said, "", USAGE)
    except OSError as error:
        said = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return _say(said, "", REFUSED)


def _code_of(error: ZoneRefused) -> int:
    if error.status == 404:
        return MISSING
    return UNREACHABLE if error.status >= 500 else REFUSED


def _say(message: str, code: str, exit_code: int) -> int:
    click.echo(cell(f"zonesched: {message} ({code})" if code else f"zonesched: {message}"), err=True)
    return exit_code
