"""In which order tasks are created and deleted: pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .trace import Lifetime, Task


@dataclass(frozen=True)
class Create:
    """Boot the task."""

    task: Task


@dataclass(frozen=True)
class Delete:
    """Delete the task, if it was placed."""

    task: Task


@dataclass(frozen=True)
class Trim:
    """Delete the oldest placed tasks until `count` are left."""

    count: int


@dataclass(frozen=True)
class Check:
    """Compare what the zones' databases say with what is known."""


Step = Create | Delete | Trim | Check


@dataclass(frozen=True)
class KeepAll:
    """Nothing is deleted until all tasks were created; then everything is."""


@dataclass(frozen=True)
class KeepSome:
    """At most `count` are alive: the oldest is deleted before the next is created."""

    count: int


@dataclass(frozen=True)
class AsRecorded:
    """Created and deleted at the recorded times; what ends in the same second goes first."""


Live = KeepAll | KeepSome | AsRecorded


def steps(tasks: Sequence[Task], live: Live, check_every: int) -> Iterator[Step]:
    """Order the operations, with a check after every `n` creations and before everything is deleted."""
    created = 0
    for step in _unchecked(tasks, live):
        if step == Trim(0):
            yield Check()
        yield step
        created += isinstance(step, Create)
        if isinstance(step, Create) and created % check_every == 0:
            yield Check()


def _unchecked(tasks: Sequence[Task], live: Live) -> Iterator[Step]:
    """Tasks without times come in line order and, unless a number is to be kept alive, are not deleted."""
    timed = all(task.lifetime is not None for task in tasks)
    match live:
        case KeepSome(count):
            for task in _by_creation(tasks):
                yield Trim(count - 1)
                yield Create(task)
            yield Trim(0)
        case AsRecorded() if timed:
            yield from _as_recorded(tasks)
        case _:
            yield from (Create(task) for task in _by_creation(tasks))
            if timed:
                yield Trim(0)


def _by_creation(tasks: Sequence[Task]) -> Sequence[Task]:
    timed = [(task.lifetime.began_at, task) for task in tasks if task.lifetime is not None]
    if len(timed) < len(tasks):
        return tasks
    return [task for _, task in sorted(timed, key=lambda pair: pair[0])]


def _as_recorded(tasks: Sequence[Task]) -> Iterator[Step]:
    events: list[tuple[tuple[float, int, int], Step]] = []
    for line, task in enumerate(tasks):
        lifetime = task.lifetime or Lifetime(0.0, float("inf"))
        events.append(((lifetime.began_at, 1, 2 * line), Create(task)))
        if lifetime.ended_at > lifetime.began_at:
            events.append(((lifetime.ended_at, 0, line), Delete(task)))
        else:
            events.append(((lifetime.began_at, 1, 2 * line + 1), Delete(task)))
    yield from (step for _, step in sorted(events, key=lambda event: event[0]))
