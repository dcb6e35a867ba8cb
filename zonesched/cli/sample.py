"""`python -m zonesched.cli.sample` writes etc/zonesched/zonesched.conf; with --check it only compares."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from zonesched import conf
from zonesched.conf.checks import accepted_values

SAMPLE = Path("etc/zonesched/zonesched.conf")
WIDTH = 100
HEAD = """\
# The options of a zone, each with its default. Remove the # before an option to set it.
# This file is made from the options themselves: python -m zonesched.cli.sample

[DEFAULT]
"""


def sample_text() -> str:
    """Return the whole sample: every option with its help, accepted values and default."""
    return HEAD + "".join(_group(title, options) for title, options in conf.SAMPLE_GROUPS)


def _group(title: str, options: Any) -> str:
    return f"\n# ---- {title} ----\n" + "".join("\n" + "\n".join(_lines(option)) + "\n" for option in options)


def _lines(option: Any) -> Iterator[str]:
    yield from (f"# {line}" for line in textwrap.wrap(option.help, WIDTH, break_long_words=False))
    yield f"# Accepted: {accepted_values(option)}."
    yield f"#{option.name} = {_written(option.default)}".rstrip()


def _written(default: Any) -> str:
    match default:
        case bool():
            return "true" if default else "false"
        case list():
            return ",".join(default)
        case _:
            return str(default)


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if the file is out of date.")
def main(check: bool) -> None:
    """Write the commented sample of all options into the checkout in the working folder."""
    text = sample_text()
    if not check:
        SAMPLE.parent.mkdir(parents=True, exist_ok=True)
        SAMPLE.write_text(text, encoding="utf-8")
    elif not SAMPLE.is_file() or SAMPLE.read_text(encoding="utf-8") != text:
        click.echo(f"{SAMPLE} is not current: run python -m zonesched.cli.sample", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
