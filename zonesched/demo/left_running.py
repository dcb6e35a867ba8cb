"""Instances of the driver `process` that outlive their agent: which there are, and how to end them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zonesched.compute import instances_root, process_table


@dataclass(frozen=True)
class Running:
    """An instance whose process runs; `pid` leads the session of all its processes."""

    name: str
    pid: int


def running_in(state_folder: Path) -> list[Running]:
    """Return the running instances of an agent that has ended, by its state folder."""
    root = state_folder / "instances"
    folders = instances_root.complete_in(root) if root.is_dir() else []
    processes = [(folder, folder.process()) for folder in folders]
    return [
        Running(folder.name(), process.pid)
        for folder, process in processes
        if process is not None and process_table.is_alive(process)
    ]


def lines_about(running: Sequence[Running]) -> list[str]:
    """Name the instances, and the command that ends them; no line for none."""
    if not running:
        return []
    names = ", ".join(f"{one.name} (process {one.pid})" for one in running)
    pids = " ".join(f"-{one.pid}" for one in running)
    return [
        f"Instances outlive their agent, and the next start finds them: {names}.",
        "To end them now:",
        "",
        # One that is paused takes no other signal before it goes on.
        f"  kill -s CONT -- {pids}; kill -- {pids}",
    ]
