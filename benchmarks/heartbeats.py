"""Cost of heartbeats to a zone: benchmarks/heartbeats.py --agents 1 --agents 10000 (see --help)."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import click
import orjson
import sqlalchemy as sa

from zonesched import conf as options
from zonesched.model.caller import Caller, Role
from zonesched.model.views import HostForm, InventoryForm
from zonesched.services.hosts import hosts
from zonesched.services.zone import Zone
from zonesched.store import tables

AGENT = Caller("agent-user", "agent", Role.COMPUTE, "")
PER_REPORT = 500


@click.command()
@click.option("--agents", multiple=True, type=click.IntRange(min=1), default=(1, 10_000), show_default=True)
@click.option("--hosts", "host_count", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option("--threads", type=click.IntRange(min=1), default=8, show_default=True, help="That call.")
@click.option("--database-url", default="", help="An empty database; by default a file of SQLite.")
def main(agents: tuple[int, ...], host_count: int, threads: int, database_url: str) -> None:
    """Let every agent of a zone beat once, in process, and write that down; a line of JSON for each number.

    `call_us` is processor time of one call, authentication and HTTP left out; `write_ms` what it takes to
    write down all who called, in wall clock.
    """
    if max(agents) > host_count:
        raise click.UsageError(
            f"--hosts: each of {max(agents)} agents needs one, and there are {host_count}."
        )
    for count in sorted(agents):
        with tempfile.TemporaryDirectory() as folder:
            line = measure(Path(folder), count, host_count, threads, database_url)
        click.echo(orjson.dumps(line).decode())


def measure(folder: Path, agents: int, host_count: int, threads: int, database_url: str) -> dict[str, object]:
    """One round of beats of so many agents, which share the hosts."""
    overrides = {"state_path": str(folder), **({"database_url": database_url} if database_url else {})}
    zone = Zone.open(options.load(overrides=overrides))
    names = [f"agent-{number}" for number in range(agents)]
    try:
        for number, name in enumerate(names):
            _register(zone, name, range(number, host_count, agents))
        cpu_s, started_at = time.process_time(), time.monotonic()
        with ThreadPoolExecutor(threads) as pool:
            # A share for each thread: to hand over each call by itself takes as long as the call.
            list(pool.map(lambda share: _beat(zone, share), [names[at::threads] for at in range(threads)]))
        called_s, called_cpu_s = time.monotonic() - started_at, time.process_time() - cpu_s
        started_at = time.monotonic()
        zone.heartbeats.write()
        written_s = time.monotonic() - started_at
        column = tables.services.c
        written = zone.store.read(
            lambda tx: tx.execute(sa.select(sa.func.sum(column.report_count))).scalar_one()
        )
    finally:
        zone.stop()
    return {
        "benchmark": "heartbeats",
        "database": zone.store.engine.dialect.name,
        "agents": agents,
        "hosts": host_count,
        "threads": threads,
        "call_us": round(called_cpu_s / agents * 1e6, 1),
        "calls_per_s": round(agents / called_s),
        "write_ms": round(written_s * 1e3, 1),
        "rows_written": int(written),
    }


def _beat(zone: Zone, names: Sequence[str]) -> None:
    for name in names:
        hosts.beat(zone, AGENT, name)


def _register(zone: Zone, name: str, numbers: range) -> None:
    inventories = {"VCPU": InventoryForm(total=32), "MEMORY_MB": InventoryForm(total=131_072)}
    forms = [HostForm(f"host-{number}", "10.0.0.1", "az1", inventories) for number in numbers]
    for at in range(0, len(forms), PER_REPORT):
        hosts.register(zone, AGENT, name, forms[at : at + PER_REPORT])


if __name__ == "__main__":
    main()
