"""The trace: nodes and tasks as their files record them, every variant of the columns.

Of a task only what it asks for is needed; `gpu_spec` and the times are read where a file has them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

CPU = "CUSTOM_CPU_MILLI"
MEMORY = "MEMORY_MB"
GPU = "CUSTOM_GPU_MILLI"
CLASSES = (CPU, MEMORY, GPU)
MILLI_PER_CARD = 1000
LARGEST = 2**31 - 1

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
TASK_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
TIME_COLUMNS = ("creation_time", "deletion_time")


class TraceError(Exception):
    """A file cannot be used; the message names it, the line and the column."""


@dataclass(frozen=True)
class Node:
    """A machine: thousandths of a CPU, MiB, whole cards and their model ("" without cards)."""

    name: str
    cpu_milli: int
    memory_mib: int
    cards: int
    model: str

    @property
    def capacity(self) -> Mapping[str, int]:
        """Amounts by resource class, without those that it has nothing of."""
        return _present(self.cpu_milli, self.memory_mib, self.cards * MILLI_PER_CARD)


@dataclass(frozen=True)
class Lifetime:
    """Seconds from the start of the trace; `ended_at` of a task that was never deleted is infinite."""

    began_at: float
    ended_at: float


@dataclass(frozen=True)
class Shape:
    """Request of one task. `card_milli` is per card; `models` lists the accepted ones; empty accepts any."""

    cpu_milli: int
    memory_mib: int
    cards: int
    card_milli: int
    models: tuple[str, ...] = ()

    @property
    def amounts(self) -> Mapping[str, int]:
        """Amounts by resource class, without those that it takes nothing of."""
        return _present(self.cpu_milli, self.memory_mib, self.cards * self.card_milli)


@dataclass(frozen=True)
class Task:
    """One line of the task file; `lifetime` is None where the file records no times."""

    name: str
    shape: Shape
    lifetime: Lifetime | None = None


def read_nodes(path: Path) -> tuple[Node, ...]:
    """The nodes of a file. Raises TraceError."""
    nodes = tuple(
        Node(
            name=line.text("sn"),
            cpu_milli=line.amount("cpu_milli"),
            memory_mib=line.amount("memory_mib"),
            cards=line.amount("gpu"),
            model=line.optional("model"),
        )
        for line in _lines(path, NODE_COLUMNS)
    )
    _check_names(path, [node.name for node in nodes])
    return nodes


def read_tasks(path: Path) -> tuple[Task, ...]:
    """The tasks of a file, in line order. Raises TraceError."""
    tasks = tuple(
        Task(line.text("name"), _shape(line), _lifetime(line)) for line in _lines(path, TASK_COLUMNS)
    )
    _check_names(path, [task.name for task in tasks])
    return tasks


@dataclass(frozen=True)
class _Line:
    path: Path
    number: int
    cells: Mapping[str, str | None]

    def optional(self, column: str) -> str:
        return (self.cells.get(column) or "").strip()

    def text(self, column: str) -> str:
        found = self.optional(column)
        if not found:
            raise self.fault(column, "is empty")
        return found

    def amount(self, column: str) -> int:
        found = self.text(column)
        if not (found.isascii() and found.isdigit()) or int(found) > LARGEST:
            raise self.fault(column, f"is {found!r}; it must be a whole number up to {LARGEST}")
        return int(found)

    def fault(self, column: str, what: str) -> TraceError:
        return TraceError(f"{self.path}, line {self.number}: {column} {what}")


def _lines(path: Path, needed: tuple[str, ...]) -> Iterator[_Line]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in needed if name not in (reader.fieldnames or ())]
            if missing:
                raise TraceError(f"{path}: its first line names no column {', '.join(missing)}")
            for cells in reader:
                yield _Line(path, reader.line_num, cells)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"{path}: cannot be read: {error}") from error


def _shape(line: _Line) -> Shape:
    models = tuple(name.strip() for name in line.optional("gpu_spec").split("|") if name.strip())
    shape = Shape(
        cpu_milli=line.amount("cpu_milli"),
        memory_mib=line.amount("memory_mib"),
        cards=line.amount("num_gpu"),
        card_milli=line.amount("gpu_milli"),
        models=models,
    )
    if shape.card_milli > MILLI_PER_CARD:
        raise line.fault("gpu_milli", f"is {shape.card_milli}; one card has {MILLI_PER_CARD}")
    return shape


def _lifetime(line: _Line) -> Lifetime | None:
    began, ended = (line.optional(column) for column in TIME_COLUMNS)
    if not began:
        return None
    return Lifetime(_seconds(line, TIME_COLUMNS[0], began), _seconds(line, TIME_COLUMNS[1], ended or "inf"))


def _seconds(line: _Line, column: str, text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not found >= 0:
        raise line.fault(column, f"is {text!r}; it must be seconds from the start")
    return found


def _check_names(path: Path, names: list[str]) -> None:
    if not names:
        raise TraceError(f"{path}: there is nothing in it but its first line")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise TraceError(f"{path}: {name} is there twice")
        seen.add(name)


def _present(cpu_milli: int, memory_mib: int, gpu_milli: int) -> Mapping[str, int]:
    amounts = zip(CLASSES, (cpu_milli, memory_mib, gpu_milli), strict=True)
    return {name: amount for name, amount in amounts if amount}
