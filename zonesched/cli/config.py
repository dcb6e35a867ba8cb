"""`zonesched config`: a zone's configuration before it starts."""

from __future__ import annotations

import click

from zonesched import conf
from zonesched.cli.output import print_json, print_rows
from zonesched.cli.session import Session, offline_options, pass_session
from zonesched.seal.shortcomings import shortcomings


@click.group()
def config() -> None:
    """A zone's configuration before it starts."""


@config.command()
@click.option(
    "--config-file", "files", multiple=True, type=click.Path(), help="Repeatable; a later one wins."
)
@offline_options
@pass_session
def check(session: Session, files: tuple[str, ...]) -> None:
    """Read a configuration as a zone would; exit 1 with the option's name if it cannot be used."""
    loaded = conf.load(files)
    values = {option.name: "***" if option.secret else loaded[option.dest] for option in conf.ALL}
    lacks = shortcomings(loaded)
    if session.as_json:
        print_json({"options": values, "shortcomings": lacks})
    else:
        print_rows(("option", "value"), list(values.items()))
        for line in lacks:
            click.echo(line, err=True)
