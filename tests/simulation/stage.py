"""Shared state of one simulation: time, the faults, the network and the trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.simulation.baton import Baton
from tests.simulation.network import Network
from tests.simulation.reach import Reach
from tests.simulation.storm import Storm
from tests.simulation.trace import Trace


class Stage:
    """Made for one seed; `show` gets the lines of the trace.

    `writes`: transactions, by process. `troubled_until`: by zone, when its own processes are all right again.
    `full_until`: by zone, when the disk of its database has room again. `reach`: what of all that may happen
    has happened.
    """

    def __init__(self, seed: int, show: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.baton = Baton()
        self.trace = Trace(show)
        self.writes: Counter[str] = Counter()
        self.troubled_until: dict[str, float] = {}
        self.full_until: dict[str, float] = {}
        self.storm = Storm(seed, lambda kind: self.note("storm", kind))
        self.reach = Reach()
        self.network = Network(self.baton, self.storm, self.trace, self.reach, seed)

    def note(self, who: str, what: str) -> None:
        """An event of now."""
        self.trace.note(self.baton.now, who, what)

    def trouble(self, zone: str, until: float) -> None:
        """A process of a zone may not do its work before that moment."""
        self.troubled_until[zone] = max(until, self.troubled_until.get(zone, 0.0))
