"""P8 as the simulation looks at it: machines that run one instance at two places."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.running import Running
from zonesched.compute.machine import Key

HERE, THERE = Key("a", 1), Key("a", 2)


@dataclass
class Runs:
    """A machine with these instances."""

    name: str
    keys: set[Key] = field(default_factory=set)

    def may_run(self) -> set[Key]:
        return self.keys


def machines(*keys: Key) -> tuple[Running, list[Runs]]:
    """A machine for each instance, and one without any."""
    made = [*(Runs(f"m{number}", {key}) for number, key in enumerate(keys)), Runs("empty")]
    running = Running()
    running.machines += made
    return running, made


def test_an_instance_that_begins_where_it_does_not_run_elsewhere_is_right() -> None:
    running, (first, empty) = machines(HERE)

    running.starts(first, HERE)
    running.starts(empty, Key("b", 1))
    running.look()

    assert running.wrong == []


def test_an_instance_that_begins_while_another_machine_may_run_it_is_wrong() -> None:
    running, (_, empty) = machines(HERE)

    running.starts(empty, THERE)

    assert running.wrong == ["P8: a runs on empty at 2 and on m0 at 1"]


def test_two_attempts_on_one_machine_are_two_places() -> None:
    running, (first, _) = machines(HERE)

    running.starts(first, THERE)

    assert running.wrong == ["P8: a runs on m0 at 2 and on m0 at 1"]


def test_what_two_machines_run_is_seen_later_too() -> None:
    running, _ = machines(HERE, THERE)

    running.look()

    assert running.wrong == ["P8: a runs on m1 at 2 and on m0 at 1"]
