"""A hostile neighbour in the simulation: when it begins and ends, and the changes it must not cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.simulation.journal import Change


class Liar:
    """One that does nothing. `suspects`: zones of which its neighbours may believe anything.

    `name`: of the zone that lies to its parent, "" for none. `believed`: lies that somebody has believed.
    """

    def __init__(self, name: str = "", suspects: Iterable[str] = ()) -> None:
        self.name = name
        self.suspects = frozenset(suspects)
        self.believed: list[str] = []

    @property
    def is_lying(self) -> bool:
        """Tell whether its neighbours may still be told lies."""
        return False

    def begin(self, storm_s: float) -> None:
        """Lie from now on; `storm_s`: seconds that the storm lasts."""

    def look(self, zone: str, changes: tuple[Change, ...]) -> Iterator[str]:
        """Find what a commit of a zone has changed on a liar's word alone and should not have."""
        yield from ()

    def end(self) -> None:
        """Lie no more."""
