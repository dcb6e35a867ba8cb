"""The command: a zone with so many free slots, processes that race for them, and a check of its rows."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from benchmarks.races.writers import Prize, Result, race
from benchmarks.zone_trees.postgres import Postgres
from benchmarks.zone_trees.processes import free_ports
from zonesched import conf as options
from zonesched.model.caller import Caller, Role
from zonesched.model.views import HostForm, InventoryForm
from zonesched.services.hosts import hosts
from zonesched.services.zone import Zone
from zonesched.store import tables as t

RESOURCES = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
AGENT = Caller("agent", "agent", Role.COMPUTE, "")


def main() -> None:
    """Run the race; exit with 1 on a deadlock, or if the number of won claims is not the number of slots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument(
        "--slots", type=int, nargs="+", default=[1000], help="free slots on all hosts together"
    )
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--batch", type=int, default=10, help="instances that one transaction wants")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--writers", type=int, default=16, help="in all processes together")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    right = True
    with (
        tempfile.TemporaryDirectory(prefix="zonesched-race-") as folder,
        _databases(Path(folder), args.database) as urls,
    ):
        for slots in args.slots:
            line = _run(args, slots, next(urls))
            right = right and line["won"] == line["slots"] == line["claimed"] and line["deadlocks"] == 0
            print(json.dumps(line), flush=True)
    sys.exit(0 if right else 1)


@contextmanager
def _databases(folder: Path, database: str) -> Iterator[Iterator[str]]:
    """One URL of an empty database after the other."""
    if database == "sqlite":
        yield (f"sqlite:///{folder}/race-{n}.sqlite" for n in range(sys.maxsize))
        return
    server = Postgres(folder / "postgres", free_ports(1)[0])
    server.start()

    def fresh() -> Iterator[str]:
        for n in range(sys.maxsize):
            server.create(f"race_{n}")
            yield server.url(f"race_{n}")

    try:
        yield fresh()
    finally:
        server.stop()


def _run(args: argparse.Namespace, slots: int, url: str) -> dict[str, object]:
    zone = Zone.open(options.load(overrides={"database_url": url, "state_path": "."}))
    registered = hosts.register(zone, AGENT, "agent", _forms(args.hosts, slots))
    ids = [host_id for host_id, _ in registered.hosts]
    prize = Prize(url, zone.uuid, zone.clock.new_uuid(), tuple(ids), RESOURCES, args.batch)
    results = _race(args, prize)
    taken = {name: _used(zone, name) for name in RESOURCES}
    claimed = {amount // RESOURCES[name] for name, amount in taken.items()}
    seconds = max(r.ended_at for r in results) - min(r.began_at for r in results)
    transactions = sum(r.transactions for r in results)
    line = {
        "database": args.database,
        "processes": args.processes,
        "writers": args.writers,
        "hosts": args.hosts,
        "batch": args.batch,
        "slots": slots,
        "won": sum(r.won for r in results),
        # What the hosts' rows say, the same of each resource class.
        "claimed": claimed.pop() if len(claimed) == 1 else sorted(claimed),
        "deadlocks": _deadlocks(zone, sum(r.met for r in results)),
        "run_again": sum(r.met for r in results),
        "transactions": transactions,
        "claims_per_s": round(sum(r.won for r in results) / seconds),
        "transactions_per_s": round(transactions / seconds),
        "durability": "fsync=on, synchronous_commit=on"
        if args.database == "postgresql"
        else "WAL, synchronous=FULL",
    }
    zone.stop()
    return line


def _race(args: argparse.Namespace, prize: Prize) -> Sequence[Result]:
    context = multiprocessing.get_context("spawn")
    each = [
        args.writers // args.processes + (n < args.writers % args.processes) for n in range(args.processes)
    ]
    with context.Manager() as manager, ProcessPoolExecutor(args.processes, mp_context=context) as pool:
        start = manager.Barrier(args.processes)
        running = [
            pool.submit(race, prize, writers, args.seed * 1000 + n * 100, start)
            for n, writers in enumerate(each)
        ]
        return [one.result() for one in running]


def _forms(count: int, slots: int) -> list[HostForm]:
    """Return hosts with this number of slots together, spread as evenly as possible."""
    forms = []
    for n in range(count):
        own = slots // count + (n < slots % count)
        inventories = {name: InventoryForm(total=own * amount) for name, amount in RESOURCES.items() if own}
        forms.append(HostForm(f"host-{n}", "10.0.0.1", "az1", inventories))
    return forms


def _used(zone: Zone, name: str) -> int:
    row = t.inventories.c
    statement = sa.select(sa.func.sum(row.used)).where(row.resource_class == name)
    return int(zone.store.read(lambda tx: tx.execute(statement).scalar()) or 0)


def _deadlocks(zone: Zone, met: int) -> int:
    """Counters of the server; for a SQLite file, which has one lock, the writers that found it locked."""
    if zone.store.engine.dialect.name == "sqlite":
        return met
    statement = sa.text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return int(zone.store.read(lambda tx: tx.execute(statement).scalar_one()))
