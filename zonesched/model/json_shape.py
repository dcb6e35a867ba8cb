"""Bounds on the depth and the number of values of a JSON text, checked before it is parsed.

The check is one linear pass over blocks of fixed size: about 10 ms per MiB for any content, and 1 ms for long
strings, such as sealed entries. The text need not be JSON: up to its first fault it is counted as a parser
would read it, so a parser builds no more values than were counted.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator
from dataclasses import dataclass

BLOCK_BYTES = 64 * 1024

DEEPEST = 32
"""The deepest nesting of a JSON text that a person or an operator writes."""

_IMMATERIAL = bytes(set(range(256)) - set(b'"[]{},:'))
"""Characters that change neither the depth nor the number of values, once no quote is escaped."""

_MINUS_ONE = 255
"""-1 as a byte."""

_DEPTH_CHANGE = bytes(1 if c in b"[{" else _MINUS_ONE if c in b"]}" else 0 for c in range(256))
_BEGINS_VALUE = bytes(c in b"[{,:" for c in range(256))


class Verdict(enum.Enum):
    """Verdict on a text: within its bounds, too deep, or too many values."""

    FITS = enum.auto()
    TOO_DEEP = enum.auto()
    TOO_MANY_VALUES = enum.auto()


@dataclass(frozen=True)
class Shape:
    """The deepest nesting of a text and its number of values; keys count, an empty container counts twice."""

    depth: int
    values: int


def judge(data: bytes, max_depth: int, max_values: int) -> Verdict:
    """Judge whether `data` has at most `max_depth` levels and `max_values` values; stop at an excess."""
    containers = data.count(b"[") + data.count(b"{")
    if containers <= max_depth and values_at_most(data) <= max_values:
        return Verdict.FITS
    for shape in _shapes(data):
        if shape.depth > max_depth:
            return Verdict.TOO_DEEP
        if shape.values > max_values:
            return Verdict.TOO_MANY_VALUES
    return Verdict.FITS


def nests_deeper(text: str | bytes, levels: int) -> bool:
    """Tell whether a JSON text has more than `levels` levels.

    Ask before Python's own parser reads a stranger's text: it recurses, and at the limit of recursion a
    finalizer that runs in this thread fails as well, whatever object it belongs to.
    """
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if data.count(b"[") + data.count(b"{") <= levels:
        return False
    return judge(data, levels, sys.maxsize) is Verdict.TOO_DEEP


def values_at_most(data: bytes) -> int:
    """Return a quick upper bound of the number of values; characters inside strings count too."""
    return 1 + sum(map(data.count, (b"[", b"{", b",", b":")))


def shape_of(data: bytes) -> Shape:
    """Measure the whole text."""
    shape = Shape(0, 1)
    for shape in _shapes(data):  # noqa: B007
        pass
    return shape


def _shapes(data: bytes) -> Iterator[Shape]:
    """Yield the shape of the text up to the end of each block."""
    # Agents and commands read texts that pass the quick bounds, and would start a fifth slower with numpy.
    import numpy as np  # noqa: PLC0415

    depth_change, begins_value = np.frombuffer(_DEPTH_CHANGE, np.int8), np.frombuffer(_BEGINS_VALUE, np.uint8)
    view = memoryview(data)
    carried = b""
    quotes = 0
    level = deepest = 0
    values = 1
    for start in range(0, len(data), BLOCK_BYTES):
        block, carried = _without_escapes(carried + view[start : start + BLOCK_BYTES])
        block = block.translate(None, _IMMATERIAL)
        if not block:
            yield Shape(deepest, values)
            continue
        characters = np.frombuffer(block, np.uint8)
        # The count of quotes is odd inside a string; the wrap-around of uint8 keeps its parity.
        parity = np.cumsum(characters == ord('"'), dtype=np.uint8)
        parity += quotes
        outside = 1 - (parity & 1)
        quotes = int(parity[-1]) & 1
        levels = np.cumsum(depth_change[characters] * outside.view(np.int8), dtype=np.int32)
        deepest = max(deepest, level + int(levels.max()))
        level += int(levels[-1])
        values += int(np.count_nonzero(begins_value[characters] & outside))
        yield Shape(deepest, values)


def _without_escapes(block: bytes) -> tuple[bytes, bytes]:
    """The block without escaped quotes and backslashes, and a last backslash that escapes the next block."""
    if b"\\" not in block:
        return block, b""
    block = block.replace(b"\\\\", b"")
    carried = b"\\" if block.endswith(b"\\") else b""
    return block.removesuffix(b"\\").replace(b'\\"', b""), carried
