"""Numbers in texts that people write: digits of ASCII, a sign, a point and an exponent, and nothing else.

Python's own `float` and `int` also take `1_000`, ` 1.5 `, `nan`, `inf` and the digits of all scripts.

>>> decimal_number("1.5"), decimal_number("1e3"), decimal_number("1_000"), decimal_number("nan")
(1.5, 1000.0, None, None)
>>> whole_number("-12"), whole_number("12.0"), whole_number(" 12")
(-12, None, None)
"""

from __future__ import annotations

import math
import re

_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LONGEST_WHOLE = 4000
"""Python refuses to read whole numbers of more than 4300 digits."""


def whole_number(text: str) -> int | None:
    """Return the whole number that the text is; None for any other text."""
    return int(text) if len(text) <= _LONGEST_WHOLE and _WHOLE.fullmatch(text) else None


def decimal_number(text: str) -> float | None:
    """Return the finite number that the text is; None for any other text."""
    number = float(text) if _DECIMAL.fullmatch(text) else math.inf
    return number if math.isfinite(number) else None
