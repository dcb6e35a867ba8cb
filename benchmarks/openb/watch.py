"""Progress of a replay, and checks of the zones' databases along the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from benchmarks.zone_trees.tree import Tree

from .checker import Findings, Rows, check, read_rows
from .replay import Record
from .trace import Node

SAY_EVERY_S = 10.0
SETTLED_WITHIN_S = 90.0
"""Longer than a hold that nobody confirmed can take."""


class Watch:
    """Findings so far, of the checker and of the zones' own audits."""

    def __init__(
        self,
        tree: Tree,
        nodes: Mapping[str, Node],
        record: Record,
        total: int,
        say: Callable[[str], None],
    ) -> None:
        self.findings = Findings()
        self.inconsistencies: set[tuple[str, ...]] = set()
        self._tree = tree
        self._nodes = nodes
        self._record = record
        self._total = total
        self._say = say
        self._began_at = self._said_at = time.monotonic()

    def look_around(self) -> None:
        """Now and then, say how far it is. Raises StartFailed when a zone has ended."""
        now = time.monotonic()
        if now - self._said_at < SAY_EVERY_S:
            return
        self._said_at = now
        self._tree.check()
        record = self._record
        recent = sorted(record.seconds[-200:])
        middle_ms = recent[len(recent) // 2] * 1000 if recent else 0.0
        self._say(
            f"{now - self._began_at:5.0f} s: {len(record.seconds)} of {self._total} booted,"
            f" {record.placed} placed, {record.refused.total()} refused, {record.deleted} deleted;"
            f" lately {middle_ms:.0f} ms a boot"
        )

    def check(self) -> None:
        """Compare databases with what was told; a claim may still be on its way to be given back."""
        found = check(self.rows(), self._nodes, self._record.living)
        self.findings += Findings(found.over_committed, found.lost, found.double_placed)
        self._audit()

    def settle(self) -> None:
        """Wait until nothing is on its way any more; what still stands then is a finding."""
        ends_at = time.monotonic() + SETTLED_WITHIN_S
        while (found := check(self.rows(), self._nodes, self._record.living)).stray:
            if time.monotonic() > ends_at:
                break
            self.look_around()
            time.sleep(0.5)
        self.findings += found
        self._audit()

    def rows(self) -> list[Rows]:
        """All databases, each in one snapshot."""
        return [read_rows(zone.site.name, zone.site.database) for zone in self._tree.zones]

    def _audit(self) -> None:
        for zone in self._tree.zones:
            told = self._tree.admins[zone.site.name].call("GET", "/audit")["inconsistencies"]
            for inconsistency in told:
                line = (zone.site.name, inconsistency["kind"], inconsistency["subject"])
                if line not in self.inconsistencies:
                    self.inconsistencies.add(line)
                    self._say(f"audit of {line[0]}: {line[1]}: {line[2]}: {inconsistency['detail']}")
