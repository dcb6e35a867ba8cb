"""Options of the form KEY=VALUE."""

from __future__ import annotations

from collections.abc import Sequence

import click


def read_pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Parse the pairs; a value may have further `=`. Raises UsageError that names the option."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not key or not separator:
            raise click.UsageError(f"{option} {text!r} is not KEY=VALUE")
        pairs[key] = value
    return pairs
