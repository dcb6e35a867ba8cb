"""The command: its arguments, its line of JSON, its exit code."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from benchmarks.zone_trees.client import ZoneClient, ZoneFault
from benchmarks.zone_trees.level_sizes import level_sizes
from benchmarks.zone_trees.processes import StartFailed
from benchmarks.zone_trees.run_folder import run_folder
from benchmarks.zone_trees.tree import SERVICE, Tree, running_tree, sites

from .checker import hosts_of
from .forms import host_form
from .history import retrace
from .order import AsRecorded, KeepAll, KeepSome, Live, steps
from .replay import Replay
from .report import faults, report
from .trace import Node, Task, TraceError, read_nodes, read_tasks
from .watch import Watch

CHECK_EVERY = 500
MOST_LINES = 100
DURABILITY = "SQLite WAL, synchronous=FULL"


def _live(_ctx: click.Context, _param: click.Parameter, text: str) -> Live:
    if text == "all":
        return KeepAll()
    if text == "trace":
        return AsRecorded()
    if text.isascii() and text.isdigit() and int(text) > 0:
        return KeepSome(int(text))
    raise click.BadParameter(f"{text!r} is neither all nor trace nor a number above 0.")


FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--nodes", "node_file", type=FILE, required=True, help="The trace's nodes (CSV).")
@click.option("--pods", "task_file", type=FILE, required=True, help="The trace's tasks (CSV).")
@click.option(
    "--tree",
    "sizes",
    metavar="1,N,M",
    callback=level_sizes,
    default="1,3,9",
    show_default=True,
    help="Zones on each level, from the root to the leaves.",
)
@click.option(
    "--live",
    metavar="all|N|trace",
    callback=_live,
    default="all",
    show_default=True,
    help="Delete all after the last creation, keep N alive, or do as recorded.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Take the first so many tasks only.")
@click.option("--keep", is_flag=True, help="Leave the folder with databases and logs.")
def main(
    node_file: Path, task_file: Path, sizes: Sequence[int], live: Live, limit: int | None, keep: bool
) -> None:
    """Replay a recorded cluster through a tree of real zones; one line of JSON says how it went.

    Exit code 1 when anything was over-committed, lost or placed twice, or an audit found an inconsistency.
    """
    try:
        nodes, tasks = read_nodes(node_file), read_tasks(task_file)[:limit]
    except TraceError as error:
        raise click.UsageError(str(error)) from error
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with run_folder("openb", keep, _say) as folder, _tree(folder, sizes, nodes) as tree:
            line, found = _run(tree, nodes, tasks, live)
    except (StartFailed, ZoneFault) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        _say("stopped, and all zones with it")
        raise SystemExit(128 + signal.SIGINT) from None
    for text in found[:MOST_LINES]:
        _say(text)
    click.echo(json.dumps({"benchmark": "replay_openb", "zones": sum(sizes), **line}))
    raise SystemExit(1 if found else 0)


def _tree(folder: Path, sizes: Sequence[int], nodes: Sequence[Node]) -> AbstractContextManager[Tree]:
    def register(agent: ZoneClient, number: int, leaves: int) -> None:
        own = [host_form(node) for node in nodes[number::leaves]]
        agent.call("PUT", "/hosts", {"service": SERVICE, "hosts": own})

    return running_tree(sites(folder, sizes), register, _say)


def _run(
    tree: Tree, nodes: Sequence[Node], tasks: Sequence[Task], live: Live
) -> tuple[dict[str, Any], list[str]]:
    """The report, and everything that must not be."""
    began_at = time.monotonic()
    by_name = {node.name: node for node in nodes}
    replay = Replay(tree.tenant, tree.root_admin)
    record = replay.record
    watch = Watch(tree, by_name, record, len(tasks), _say)
    replay.run(steps(tasks, live, CHECK_EVERY), watch.check, watch.look_around)
    watch.settle()
    history = retrace(record.events, hosts_of(watch.rows()), by_name)
    line = report(record, history, watch.findings, nodes, len(watch.inconsistencies))
    more = {
        "hosts": len(nodes),
        "tasks": len(tasks),
        "seconds": round(time.monotonic() - began_at, 1),
        "durability": DURABILITY,
    }
    return line | more, faults(record, history, watch.findings, watch.inconsistencies)


def _say(line: str) -> None:
    click.echo(f"replay_openb: {line}", err=True)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
