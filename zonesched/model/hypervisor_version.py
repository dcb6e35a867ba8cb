"""Versions of hypervisors as numbers that can be compared, as OpenStack Compute stores them.

>>> version_number("7.1.123"), version_number("8.2"), version_number(2012000), version_number("newest")
(7001123, 8002000, 2012000, 0)
"""

from __future__ import annotations

import re

_DOTTED = re.compile(r"(\d{1,9})\.(\d{1,3})(?:\.(\d{1,3}))?(?!\d)", re.ASCII)


def version_number(reported: object) -> int:
    """Return a reported version as a number: 1000000 * major + 1000 * minor + micro.

    A whole number from 0 to 2**53-1 stays unchanged; any other value becomes 0.
    """
    match reported:
        case bool():
            return 0
        case int():
            number = reported
        case str() if dotted := _DOTTED.match(reported.strip()):
            major, minor, micro = (int(part or 0) for part in dotted.groups())
            number = major * 1_000_000 + minor * 1_000 + micro
        case str() if reported.isascii() and reported.strip().isdecimal() and len(reported) < 20:
            number = int(reported)
        case _:
            return 0
    return number if 0 <= number < 2**53 else 0
