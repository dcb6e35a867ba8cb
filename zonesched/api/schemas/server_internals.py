"""Bodies and queries of calls for a server's inside."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from zonesched.api.schemas.fields import MAX_INT, Name, Schema, Seconds
from zonesched.model.console import ReadConsole


def _number(value: object) -> object:
    """Take a number also as a text, as OpenStack's clients send it."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,10}", value) else value


class ConsoleOutput(Schema):
    """`length`: lines from the end; null and -1 are all."""

    length: (
        Annotated[int, BeforeValidator(_number, json_schema_input_type=int | str), Field(ge=-1, le=MAX_INT)]
        | None
    ) = None

    def to_action(self) -> ReadConsole:
        return ReadConsole(None if self.length == -1 else self.length)


class ConsoleQuery(Schema):
    """`budget_s`: seconds that a parent waits."""

    budget_s: Seconds


class RemoteConsole(Schema):
    """A console by its protocol and type."""

    protocol: Name
    type: Name


class RemoteConsoleBody(Schema):
    """A console to open."""

    remote_console: RemoteConsole
