"""`zonesched config`: check a zone's configuration, and print the samples that come with the package."""

from __future__ import annotations

import os
from pathlib import Path

import click

from zonesched import conf
from zonesched.cli.group import CommandGroup
from zonesched.cli.key import KEY_BYTES
from zonesched.cli.output import print_json
from zonesched.cli.session import Session, offline_options, pass_session
from zonesched.cli.table import plain, print_table
from zonesched.conf.private_files import shared_secrets
from zonesched.conf.samples import SAMPLES, text_of
from zonesched.seal.shortcomings import shortcomings
from zonesched.seams import SystemClock


@click.group(cls=CommandGroup)
def config() -> None:
    """Check a zone's configuration, and print samples."""


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
        print_table(session.screen, plain("option", "value"), list(values.items()), wide=True)
        for line in lacks:
            click.echo(line, err=True)


@config.command()
@click.argument("name", type=click.Choice([found.name for found in SAMPLES]), required=False)
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
    [chosen] = [found for found in SAMPLES if found.name == name]
    text = text_of(chosen, lambda: SystemClock().random_bytes(KEY_BYTES).hex())
    if save is None:
        click.echo(text, nl=False)
        return
    with os.fdopen(os.open(save, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
