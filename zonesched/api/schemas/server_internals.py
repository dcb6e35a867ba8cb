"""Bodies of calls for a server's inside."""

from __future__ import annotations

from zonesched.api.schemas.fields import Name, Schema


class RemoteConsole(Schema):
    """A console by its protocol and type."""

    protocol: Name
    type: Name


class RemoteConsoleBody(Schema):
    """A console to open."""

    remote_console: RemoteConsole
