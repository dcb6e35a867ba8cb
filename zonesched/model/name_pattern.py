"""Regular expressions of strangers for names, matched in time linear in the name's length.

Python's own engine can be made to run for years by one expression; RE2 has no backtracking.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

MOST_MEMORY_BYTES = 1 << 20
SPECIAL = frozenset("\\^$.|?*+()[]{}")


def is_pattern(text: str) -> bool:
    """Tell whether a text means something else as a regular expression than as itself."""
    return not SPECIAL.isdisjoint(text)


def literal(text: str, most: int) -> str:
    """Return an expression of at most `most` characters that texts with this one match.

    It is of the text's beginning alone where it would be longer.
    """
    whole = ["\\" + character if character in SPECIAL else character for character in text]
    lengths = accumulate(map(len, whole))
    return "".join(part for part, length in zip(whole, lengths, strict=True) if length <= most)


def searching(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether an expression matches somewhere in a text.

    Raises ValueError, with the reason, for one that RE2 does not know or that takes too much memory.
    """
    # Loaded for the first expression: most zones never get one.
    import re2  # noqa: PLC0415

    options = re2.Options()
    options.max_mem, options.log_errors = MOST_MEMORY_BYTES, False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        raise ValueError(reason.decode() if isinstance(reason, bytes) else str(reason)) from None
    return lambda text: compiled.search(text) is not None
