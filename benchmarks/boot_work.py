"""Processor time of boots in one zone: benchmarks/boot_work.py --clients 8 --instances 1 (see --help)."""

from __future__ import annotations

import base64
import sys
import time
from contextlib import ExitStack
from pathlib import Path

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import click
import orjson
import sqlalchemy as sa
from flask import Flask

from benchmarks.many_hosts.stored import AGENT, a_stored_zone
from benchmarks.zone_trees.postgres import Postgres
from benchmarks.zone_trees.processes import free_ports
from benchmarks.zone_trees.run_folder import run_folder
from zonesched.api.app import create_app
from zonesched.model.caller import Role
from zonesched.services import background
from zonesched.services.catalog import users
from zonesched.services.hosts import hosts
from zonesched.services.zone import Zone

WARM_ROUNDS = 3
FLAVOR = {"flavor": {"name": "small", "vcpus": 1, "ram": 512, "disk": 1}}
_CLAIMED = sa.text("SELECT count(*) FROM placements WHERE state = 'confirmed'")


@click.command()
@click.option("--hosts", "host_count", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option(
    "--instances", type=click.IntRange(1, 10_000), default=1, show_default=True, help="Of one boot."
)
@click.option(
    "--clients",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    help="Boots that wait when the worker begins.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=40, show_default=True)
@click.option("--database", type=click.Choice(["sqlite", "postgresql"]), default="sqlite", show_default=True)
def main(host_count: int, instances: int, clients: int, rounds: int, database: str) -> None:
    """Boot in one thread: as many calls as there are clients, then the worker, again and again.

    `call_ms` is processor time of a call through the HTTP app, `work_ms` of the worker's part, each for one
    boot: of this process, so without PostgreSQL's own. Other work on the machine changes them little.
    """
    with ExitStack() as ending:
        folder = ending.enter_context(run_folder("boot-work", False, click.echo))
        url = ""
        if database == "postgresql":
            server = Postgres(folder / "postgres", free_ports(1)[0])
            server.start()
            ending.callback(server.stop)
            server.create("zone")
            url = server.url("zone")
        line = measure(folder / "zone", host_count, clients, instances, rounds, url)
    click.echo(orjson.dumps(line).decode())


def measure(
    folder: Path, host_count: int, clients: int, instances: int, rounds: int, database_url: str
) -> dict[str, object]:
    """Measure a new zone with so many hosts; returns the output line."""
    zone = a_stored_zone(folder, host_count, database_url=database_url)
    try:
        line = _measure(zone, clients, instances, rounds)
    finally:
        zone.stop()
    return {
        "benchmark": "boot_work",
        "database": zone.store.engine.dialect.name,
        "hosts": host_count,
        "instances": instances,
        "clients": clients,
        "rounds": rounds,
        **line,
    }


def _measure(zone: Zone, clients: int, instances: int, rounds: int) -> dict[str, object]:
    app = create_app(zone)
    zone.children.poll()
    admin, tenant = (
        users.create(zone.store, zone.clock, name, role, "benchmark").secret
        for name, role in (("boss", Role.ADMIN), ("tenant", Role.MEMBER))
    )
    flavor = _call(app, "boss", admin, "/flavors", FLAVOR)["flavor"]["id"]
    server = {"name": "vm", "flavorRef": flavor, "min_count": instances, "max_count": instances}
    body = {"server": {**server, "return_reservation_id": True}}
    call_s = work_s = 0.0
    for number in range(WARM_ROUNDS + rounds):
        if number == WARM_ROUNDS:
            call_s = work_s = 0.0
        hosts.beat(zone, AGENT, "agent")
        zone.heartbeats.write()
        before_s = time.process_time()
        for _ in range(clients):
            _call(app, "tenant", tenant, "/servers", body)
        accepted_s = time.process_time()
        while background.work_on_boots(zone) == 0.0:
            pass
        call_s += accepted_s - before_s
        work_s += time.process_time() - accepted_s
    wanted = (WARM_ROUNDS + rounds) * clients * instances
    claimed = zone.store.read(lambda tx: tx.execute(_CLAIMED).scalar_one())
    boots = rounds * clients
    return {
        "call_ms": round(call_s / boots * 1e3, 3),
        "work_ms": round(work_s / boots * 1e3, 3),
        "unplaced": wanted - claimed,
    }


def _call(app: Flask, user: str, secret: str, path: str, body: object) -> dict[str, dict[str, str]]:
    pair = base64.b64encode(f"{user}:{secret}".encode()).decode()
    headers = {"Authorization": f"Basic {pair}", "Content-Type": "application/json"}
    answer = app.test_client().post("/v2.1" + path, data=orjson.dumps(body), headers=headers)
    if answer.status_code not in (200, 202):
        raise click.ClickException(
            f"{path} was answered {answer.status_code}: {answer.get_data(as_text=True)}"
        )
    found: dict[str, dict[str, str]] = orjson.loads(answer.data)
    return found


if __name__ == "__main__":
    main()
