"""`zonesched config`: a zone's configuration before it starts."""

from __future__ import annotations

import click

from zonesched import conf
from zonesched.cli.group import CommandGroup
from zonesched.cli.output import print_json
from zonesched.cli.session import Session, offline_options, pass_session
from zonesched.cli.table import plain, print_table
from zonesched.conf.private_files import shared_secrets
from zonesched.seal.shortcomings import shortcomings


@click.group(cls=CommandGroup)
def config() -> None:
    """Check a zone's configuration before it starts."""


@config.command()
@click.option(
    "--config-file",
    "files",
    multiple=True,
    type=click.Path(),
    help="Configuration file; repeatable, a later one wins.",
)
@offline_options
@pass_session
def check(session: Session, files: tuple[str, ...]) -> None:
    """Read a configuration as a zone would; exit with 1 and the option's name if it is invalid."""
    loaded = conf.load(files)
    values = {option.name: "***" if option.secret else loaded[option.dest] for option in conf.ALL}
    lacks = [*shortcomings(loaded), *shared_secrets(files)]
    if session.as_json:
        print_json({"options": values, "shortcomings": lacks})
    else:
        print_table(session.screen, plain("option", "value"), list(values.items()))
        for line in lacks:
            click.echo(line, err=True)
