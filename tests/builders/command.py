"""The `zonesched` command in one process: against a stub, or against the zones of a tree."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders.tree import Tree
from zonesched.cli.main import run
from zonesched.cli.screen import Screen, Unbounded
from zonesched.cli.session import Session
from zonesched.compute.connection import ZoneConnection
from zonesched.compute.credentials import Credentials


class Command:
    """Runs commands with the same options before each; keeps the pauses that were asked for."""

    def __init__(
        self, capsys: pytest.CaptureFixture[str], *before: str, screen: Screen | None = None
    ) -> None:
        self.capsys = capsys
        self.before = before
        self.screen = screen or Unbounded()
        self.pauses: list[float] = []
        self.out = self.err = ""

    def session(self) -> Session:
        """A new session, as each process would have."""
        return Session(pause=self.pauses.append, screen=self.screen)

    def __call__(self, *arguments: str) -> int:
        code = run([*self.before, *arguments], self.session())
        self.out, self.err = self.capsys.readouterr()
        return code

    @property
    def lines(self) -> Sequence[str]:
        """The lines on standard output."""
        return self.out.splitlines()


class TreeCommand(Command):
    """Runs commands against one zone of a tree, as one of its users."""

    def __init__(
        self,
        capsys: pytest.CaptureFixture[str],
        tree: Tree,
        zone: str,
        user: str = "admin",
        screen: Screen | None = None,
    ) -> None:
        node = tree.nodes[zone]
        secret = node.secrets.get(user, "")
        super().__init__(
            capsys, "--zone-url", node.url, "--username", user, "--password", secret, screen=screen
        )
        self.tree = tree

    def session(self) -> Session:
        session = super().session()
        session.connect = self.connect
        return session

    def connect(self, who: Credentials, timeout_s: float) -> ZoneConnection:
        """A connection over the tree's network."""
        return ZoneConnection(who.url, who.username, who.password, timeout_s, adapter=self.tree.network)
