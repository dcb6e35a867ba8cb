"""The form of a tree on the command line: how many zones each level has, such as 1,3,9."""

from __future__ import annotations

from collections.abc import Sequence

import click

MOST_ZONES = 64


def level_sizes(_ctx: click.Context, _param: click.Parameter, text: str) -> Sequence[int]:
    """The sizes of a tree's levels. Raises BadParameter."""
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise click.BadParameter(f"{text!r} is not a list of numbers such as 1,3,9.")
    sizes = [int(part) for part in parts]
    if sizes[0] != 1 or sizes != sorted(sizes):
        raise click.BadParameter(f"{text!r} must begin with 1, and no level may be smaller than the last.")
    if sum(sizes) > MOST_ZONES:
        raise click.BadParameter(f"{text!r} has {sum(sizes)} zones; at most {MOST_ZONES}.")
    return sizes
