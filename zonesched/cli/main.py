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
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

from zonesched.cli.group import CommandGroup
from zonesched.cli.session import Session, zone_options
from zonesched.cli.table import cell
from zonesched.compute.connection import ZoneRefused, ZoneUnavailable
from zonesched.compute.credentials import CredentialsError
from zonesched.errors import ZoneschedError


class Noun(NamedTuple):
    """Place of a noun's group of commands, as module:name, and the first sentence of its help."""

    place: str
    help: str


NOUNS = {
    "zone": Noun("zonesched.cli.zone:zone", "Show a zone, boot over its tree, manage its children."),
    "federation": Noun("zonesched.cli.federation:federation", "Make a tree of zones from a file."),
    "server": Noun("zonesched.cli.server:server", "List, show, start, stop and delete instances."),
    "server-group": Noun(
        "zonesched.cli.server_group:server_group", "Manage groups of instances placed together or apart."
    ),
    "reservation": Noun("zonesched.cli.reservation:reservation", "List, follow, explain and cancel boots."),
    "flavor": Noun("zonesched.cli.flavor:flavor", "Manage flavors: sizes of instances."),
    "image": Noun("zonesched.cli.image:image", "Manage images: names, and properties for filters."),
    "host": Noun("zonesched.cli.host:host", "Manage the local hosts of this zone (admin)."),
    "aggregate": Noun(
        "zonesched.cli.aggregate:aggregate", "Manage groups of local hosts and their metadata."
    ),
    "service": Noun("zonesched.cli.service:service", "Enable, disable or remove hosts and agents (admin)."),
    "availability-zone": Noun(
        "zonesched.cli.availability_zone:availability_zone",
        "List the availability zones that a boot may name.",
    ),
    "user": Noun("zonesched.cli.user:user", "Manage people, agents and parents that call this zone."),
    "limit": Noun("zonesched.cli.limit:limit", "Show and override quotas of projects and parents."),
    "quota": Noun("zonesched.cli.quota:quota", "Show and set the quotas of a project; -1 is no limit."),
    "keypair": Noun("zonesched.cli.keypair:keypair", "Manage the key pairs that a boot may name."),
    "audit": Noun("zonesched.cli.audit:audit", "Find inconsistencies of a zone, and repair them."),
    "replay": Noun("zonesched.cli.replay:replay", "Repeat a recorded decision offline."),
    "key": Noun("zonesched.cli.key:key", "Generate keys for a zone's configuration."),
    "config": Noun("zonesched.cli.config:config", "Check a zone's configuration, and print samples."),
    "db": Noun("zonesched.cli.database:db", "Manage a zone's database, and copies of it."),
    "client-config": Noun(
        "zonesched.cli.client_config:client_config", "Print a clouds.yaml for OpenStack's clients."
    ),
    "completion": Noun("zonesched.cli.completion:completion", "Print the completion script of a shell."),
}

REFUSED, USAGE, UNREACHABLE, MISSING = 1, 2, 3, 4


class Listing(click.Group):
    """The nouns with the first sentence of their help, and no commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(NOUNS)


LISTING = Listing(commands={name: click.Command(name, help=noun.help) for name, noun in NOUNS.items()})


class LazyGroup(CommandGroup):
    """Imports the module of a noun when it is used, so that a command does not load the others.

    Neither the list of commands nor the completion of a noun loads any.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(NOUNS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in NOUNS:
            return None
        module, _, name = NOUNS[cmd_name].place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        LISTING.format_commands(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        nouns = LISTING.shell_complete(click.Context(LISTING), incomplete)
        return [*nouns, *click.Command.shell_complete(self, ctx, incomplete)]


@click.command(cls=LazyGroup)
@zone_options
@click.version_option(package_name="zonesched")
def zonesched() -> None:
    """Use and operate a zone, and the tree of its child zones.

    The zone and the user come from options, from ZONESCHED_URL, ZONESCHED_USERNAME and ZONESCHED_PASSWORD,
    or from a file (--credentials, ZONESCHED_CREDENTIALS) with url, username and password in its section
    [zonesched]. Options may stand anywhere after the command's name.

    Exit codes: 0 done; 1 the zone refused, or a check found something; 2 wrong usage; 3 the zone cannot be
    reached, or cannot serve the call now (5xx); 4 not found; 130 stopped by Ctrl-C or SIGTERM.
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
