"""Cost of a scrape of a zone's metrics: benchmarks/metrics.py --instances 2000000 (see --help)."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import click
import orjson
import sqlalchemy as sa

from zonesched import conf as options
from zonesched.api.app import METRICS, create_app
from zonesched.model.caller import Caller, Role
from zonesched.model.views import HostForm, InventoryForm
from zonesched.services.gauges import PAUSES_PER_COUNT
from zonesched.services.hosts import hosts
from zonesched.services.zone import Zone
from zonesched.store import tables as t

AGENT = Caller("agent-user", "agent", Role.COMPUTE, "")
PER_REPORT = 500
PER_INSERT = 20_000
STATUSES = ("ACTIVE",) * 90 + ("DELETED",) * 8 + ("BUILD", "ERROR")


@click.command()
@click.option("--instances", type=click.IntRange(min=1), default=2_000_000, show_default=True)
@click.option("--hosts", "host_count", type=click.IntRange(min=1), default=100_000, show_default=True)
@click.option("--scrapes", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--database-url", default="", help="An empty database; by default a file of SQLite.")
def main(instances: int, host_count: int, scrapes: int, database_url: str) -> None:
    """Scrape a zone with many rows, in process and without HTTP; one line of JSON.

    `first_ms` is a scrape that counts the rows (`first_cpu_ms`: processor time of this process), `later_ms`
    the median of those that follow at once.
    """
    with tempfile.TemporaryDirectory() as folder:
        line = measure(Path(folder), instances, host_count, scrapes, database_url)
    click.echo(orjson.dumps(line).decode())


def measure(folder: Path, instances: int, host_count: int, scrapes: int, database_url: str) -> dict[str, Any]:
    """Fill a zone and scrape it."""
    overrides = {"state_path": str(folder), **({"database_url": database_url} if database_url else {})}
    zone = Zone.open(options.load(overrides=overrides))
    try:
        metrics = create_app(zone).extensions[METRICS]
        _register(zone, host_count)
        for first in range(0, instances, PER_INSERT):
            some = range(first, min(first + PER_INSERT, instances))
            zone.store.write(lambda tx, some=some: _insert(tx, some))  # type: ignore[misc]
        took_s = []
        for _ in range(scrapes + 1):
            begun_at, cpu_s = time.perf_counter(), time.process_time()
            text = metrics.text()
            took_s.append((time.perf_counter() - begun_at, time.process_time() - cpu_s))
    finally:
        zone.stop()
    (first_s, first_cpu_s), *later = took_s
    later_s = sorted(wall_s for wall_s, _ in later)[scrapes // 2]
    return {
        "benchmark": "metrics",
        "database": zone.store.engine.dialect.name,
        "instances": instances,
        "hosts": host_count,
        "bytes": len(text),
        "first_ms": round(first_s * 1e3, 1),
        "first_cpu_ms": round(first_cpu_s * 1e3, 1),
        "later_ms": round(later_s * 1e3, 2),
        "counts_again_after_s": round(first_s * PAUSES_PER_COUNT, 1),
    }


def _register(zone: Zone, host_count: int) -> None:
    totals = {"VCPU": 32, "MEMORY_MB": 131_072, "DISK_GB": 1000}
    inventories = {name: InventoryForm(total=total) for name, total in totals.items()}
    forms = [HostForm(f"host-{number}", "10.0.0.1", "az1", inventories) for number in range(host_count)]
    for first in range(0, host_count, PER_REPORT):
        hosts.register(zone, AGENT, "agent", forms[first : first + PER_REPORT])


def _insert(tx: sa.Connection, numbers: range) -> None:
    tx.execute(
        sa.insert(t.instances),
        [
            {
                "uuid": f"{number:032x}",
                "caller_id": "user",
                "project_id": "p",
                "user_id": "u",
                "reservation_id": f"r{number // 1000}",
                "position": number % 1000,
                "name": "vm",
                "passthrough": "{}",
                "flavor_id": "f",
                "image_key": "",
                "group_id": "",
                "status": STATUSES[number % len(STATUSES)],
                "reason": "",
                "attempt": 1,
                "created_at": 1.0,
                "updated_at": float(number),
                "changed_seq": number,
            }
            for number in numbers
        ],
    )


if __name__ == "__main__":
    main()
