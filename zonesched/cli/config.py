"""`zonesched config`: check a zone's configuration, and print the samples that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zonesched import conf
from zonesched.cli.config_files import config_files
from zonesched.cli.group import CommandGroup
from zonesched.cli.output import print_json
from zonesched.cli.sample_files import sample_text, save_samples
from zonesched.cli.session import Session, offline_options, pass_session
from zonesched.cli.table import plain, print_table
from zonesched.conf.private_files import shared_secrets
from zonesched.conf.samples import SAMPLES
from zonesched.remote_services import masked
from zonesched.seal.shortcomings import shortcomings
from zonesched.start_check import check_start


@click.group(cls=CommandGroup)
def config() -> None:
    """Check a zone's configuration, and print samples."""


@config.command()
@config_files
@offline_options
@pass_session
def check(session: Session, files: tuple[str, ...]) -> None:
    """Read a configuration, and what it names, as a zone would; exit with 1 and the option if it is invalid.

    The plugins, keys and certificates are read too. Nothing is written, the database is not connected to, and
    a port that is in use passes.
    """
    loaded = conf.load(files)
    check_start(loaded)
    values = {option.name: _shown(option, loaded[option.dest]) for option in conf.ALL}
    lacks = [*shortcomings(loaded), *shared_secrets(files)]
    if session.as_json:
        print_json({"options": values, "shortcomings": lacks})
    else:
        print_table(session.screen, plain("option", "value"), list(values.items()), wide=True)
        for line in lacks:
            click.echo(line, err=True)


def _shown(option: Any, value: object) -> object:
    if option.secret and value != option.default:
        return "***"
    return masked(value) if isinstance(value, str) else value


@config.command()
@click.argument(
    "name", metavar="[NAME]", type=click.Choice([found.name for found in SAMPLES]), required=False
)
@click.option(
    "--save", type=click.Path(dir_okay=False, path_type=Path), help="Write a new file instead (mode 0600)."
)
@offline_options
@pass_session
def sample(session: Session, name: str | None, save: Path | None) -> None:
    """Print one of the sample files, or without a NAME list them.

    Each call generates new keys in the sample: keep it private, as --save does.
    """
    if name is None:
        listed = [{"name": found.name, "file": found.file, "help": found.help} for found in SAMPLES]
        if session.as_json:
            print_json({"samples": listed})
        else:
            print_table(
                session.screen, plain("name", "content"), [(found.name, found.help) for found in SAMPLES]
            )
        return
    if save is None:
        click.echo(sample_text(name), nl=False)
    else:
        save_samples({name: save})
