"""P8: an instance runs at one place, of one machine or of several, whenever one begins to run."""

from __future__ import annotations

from typing import Protocol

from zonesched.compute.machine import Key


class Runner(Protocol):
    """A machine by its name, with all that may run on it just now."""

    name: str

    def may_run(self) -> set[Key]: ...


class Running:
    """All machines whose zones are honest; `wrong` is what ran at two places."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.machines: list[Runner] = []

    def starts(self, machine: Runner, key: Key) -> None:
        """Look at an instance that begins to run on a machine."""
        if machine in self.machines:
            for other in self.machines:
                for there in other.may_run():
                    if there.uuid == key.uuid and (other is not machine or there != key):
                        self._note(machine.name, key, other.name, there)

    def look(self) -> None:
        """Look at all instances: a machine that is cut off may have begun to run one meanwhile."""
        at: dict[str, tuple[str, Key]] = {}
        for machine in self.machines:
            for key in sorted(machine.may_run()):
                if key.uuid in at:
                    self._note(machine.name, key, *at[key.uuid])
                at[key.uuid] = machine.name, key

    def _note(self, one: str, key: Key, other: str, there: Key) -> None:
        where = f"on {one} at {key.attempt} and on {other} at {there.attempt}"
        self.wrong.append(f"P8: {key.uuid} runs {where}")
