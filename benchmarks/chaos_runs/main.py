"""The command: its arguments, its rounds of faults and healing, its line of JSON."""

from __future__ import annotations

import json
import signal
import time
from contextlib import suppress
from types import FrameType

import click
from sqlalchemy.exc import OperationalError

from benchmarks.zone_trees.client import ZoneFault
from benchmarks.zone_trees.processes import StartFailed
from benchmarks.zone_trees.run_folder import run_folder

from .checker import outcome, unfinished
from .faults import Faults
from .life import claim_faults, life_faults, process_faults
from .load import Load
from .running import Watch, found_below
from .world import FLAVORS, World

FAULTS_PER_ROUND = 30
CONVERGES_WITHIN_S = 120.0
SAY_EVERY_S = 10.0
MOST_LINES = 50


@click.command()
@click.option("--faults", "count", type=click.IntRange(min=1), default=300, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="Chooses the faults and the load.")
@click.option("--database", type=click.Choice(["sqlite", "postgresql"]), default="sqlite", show_default=True)
@click.option("--broker", is_flag=True, help="With a RabbitMQ of its own, which is killed and hangs as well.")
@click.option("--keep", is_flag=True, help="Leave the folder with databases and logs.")
def main(count: int, seed: int, database: str, broker: bool, keep: bool) -> None:
    """Let things go wrong in a tree of seven zones under load; one line of JSON says what became of it.

    After every 30 faults all is repaired, and has to come to an end. Exit code 1 when it does not, or when an
    audit or the databases show an inconsistency.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with run_folder("chaos", keep, _say) as folder:
            world = World(folder, database, _say, broker=broker)
            try:
                line, wrong = _run(world, count, seed)
            finally:
                _uninterrupted(world)
    except (StartFailed, ZoneFault) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        _say("stopped, and all processes with it")
        raise SystemExit(128 + signal.SIGINT) from None
    for text in wrong[:MOST_LINES]:
        _say(text)
    click.echo(
        json.dumps({"benchmark": "chaos", "database": database, "broker": broker, "seed": seed, **line})
    )
    raise SystemExit(1 if wrong else 0)


def _run(world: World, count: int, seed: int) -> tuple[dict[str, object], list[str]]:
    for flavor in FLAVORS:
        world.admin(world.root).call("POST", "/flavors", {"flavor": flavor})
    tenant = world.user("tenant", "member", world.root, "project")
    admins = {leaf.name: world.admin(leaf) for leaf in world.leaves}
    watch = Watch(world.folder)
    load = Load(lambda: world.like(tenant), admins, seed)
    faults = Faults(world, seed)
    began_at = said_at = time.monotonic()
    slowest_s = 0.0
    wrong: list[str] = []

    def look_around() -> None:
        nonlocal said_at
        wrong.extend(_claims(world))
        if time.monotonic() - said_at > SAY_EVERY_S:
            said_at = time.monotonic()
            done = sum(faults.counts.values())
            _say(
                f"{said_at - began_at:5.0f} s: {done} of {count} faults, {len(load.accepted)} boots accepted"
            )

    left = count
    while left:
        some = min(left, FAULTS_PER_ROUND)
        left -= some
        faults.run(some, look_around)
        repaired_at = time.monotonic()
        world.heal()
        if left:
            load.rest()
        else:
            load.end()
        wrong += _converge(world)
        slowest_s = max(slowest_s, time.monotonic() - repaired_at)
        acted = {(world.root.name, uuid): count for uuid, count in load.acted.items()} | load.moved
        wrong += [*_audit(world), *life_faults(world.sites, acted, list(found_below(world.folder)))]
        wrong += watch.wrong
        if wrong:
            break
        load.go_on()
    load.end()
    watch.close()
    found = outcome(world.root, world.leaves, load.accepted, frozenset(load.deleted))
    wrong += [*load.refusals, *found.inconsistencies]
    line = {
        "faults": dict(sorted(faults.counts.items())),
        "boots": len(load.accepted),
        "accepted": sum(load.accepted.values()),
        "active": found.active,
        "deleted": len(load.deleted),
        "actions": dict(sorted(load.taken.items())),
        "migrations": sum(load.moved.values()),
        "looks_at_processes": watch.looks,
        "error": found.errors,
        "audit_inconsistencies": len(wrong),
        "slowest_convergence_s": round(slowest_s, 1),
        "seconds": round(time.monotonic() - began_at, 1),
    }
    return line, wrong


def _converge(world: World) -> list[str]:
    """Wait until nothing is under way any more; what then is."""
    ends_at = time.monotonic() + CONVERGES_WITHIN_S
    while under_way := _under_way(world):
        if time.monotonic() > ends_at:
            return under_way
        time.sleep(0.3)
    return []


def _under_way(world: World) -> list[str]:
    """List the unfinished work of zones, then what agents that come back late have yet to end."""
    if work := unfinished(world.sites):
        return [f"unfinished: {count} {what}" for what, count in work.items()]
    return list(process_faults(world.sites, list(found_below(world.folder))))


def _claims(world: World) -> list[str]:
    """Compare the claims of each leaf's hosts with their use, in the midst of everything."""
    found = []
    for leaf in world.leaves:
        # PostgreSQL may be stopped just now.
        with suppress(OperationalError):
            found += claim_faults(leaf)
    return found


def _audit(world: World) -> list[str]:
    """Run each zone's own audit, of its rows and of its children."""
    found = []
    for site in world.sites:
        told = world.admin(site).call("GET", "/audit")
        found += [f"{site.name}: {d['kind']}: {d['subject']}: {d['detail']}" for d in told["inconsistencies"]]
    return found


def _say(line: str) -> None:
    click.echo(f"chaos: {line}", err=True)


def _uninterrupted(world: World) -> None:
    """End everything, however often Ctrl-C is pressed meanwhile."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        world.close()
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
