"""Operations of OpenStack's clients whose answers a test compares with a zone's rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tests.builders.client_fields import FIELDS
from tests.builders.client_stories import STORIES
from tests.builders.client_story_lines import Line, Printed


def compared(operations: Collection[str]) -> frozenset[str]:
    """Return those of these operations, such as `nova boot`, that `FIELDS` or a story compares."""
    lines = [*FIELDS, *(line for story in STORIES.values() for line in _compared_lines(story))]
    return frozenset(found for line in lines for found in operations if _is_of(line, found, operations))


def _compared_lines(story: tuple[Line, ...]) -> Iterator[str]:
    """Find the lines of a story of which all fields are compared, or after which rows are read."""
    after = [(line, expected) for line, expected in story if not line.startswith("WAIT ")]
    followers = [*(line for line, _ in after[1:]), ""]
    for (line, expected), next_line in zip(after, followers, strict=True):
        if isinstance(expected, Printed) or next_line.startswith("ROWS "):
            yield line


def _is_of(line: str, operation: str, operations: Collection[str]) -> bool:
    """Tell whether a line makes an operation: the longest that it begins with."""
    client, _, words = line.partition(" ")
    text = f"{client.partition('@')[0]} {words} "
    fitting = [one for one in operations if text.startswith(f"{one} ")]
    return bool(fitting) and operation == max(fitting, key=len)
