"""`./run_zone.sh demo`: a root, two regions and four leaves as real processes, and one boot over all."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from zonesched.compute.connection import ZoneCallError
from zonesched.compute.credentials import read_credentials
from zonesched.conf.ports import check_port_is_free
from zonesched.demo.folder import clear_folder, hold_folder
from zonesched.demo.processes import ProcessEnded, Processes
from zonesched.demo.report import print_audits, print_commands, print_dashboard, print_outcome, print_tree
from zonesched.demo.run import DemoRun
from zonesched.demo.tree import SHAPE, DemoZone, plan_tree
from zonesched.demo.waiting import TookTooLong, Waiter
from zonesched.errors import ConfigError
from zonesched.seams import SystemClock

LAST_BASE_PORT = 65_536 - len(SHAPE)


@click.command()
@click.option(
    "--once", is_flag=True, help="End after the boot; exit 0 only if all is ACTIVE and every audit clean."
)
@click.option(
    "--hosts", type=click.IntRange(1, 100_000), default=400, show_default=True, help="Fake hosts in all."
)
@click.option(
    "--instances",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="Instances of the boot.",
)
@click.option(
    "--base-port",
    type=click.IntRange(1, LAST_BASE_PORT),
    default=18_770,
    show_default=True,
    help=f"First of {len(SHAPE)} ports.",
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder of the zones' configurations and state.  [default: demo-state]",
)
@click.option("--checkout", type=click.Path(path_type=Path), default=Path(), hidden=True)
def main(once: bool, hosts: int, instances: int, base_port: int, folder: Path | None, checkout: Path) -> None:
    """Start a tree of seven zones on this machine, boot instances over it, and stay until Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _interrupt)
    home = (folder or checkout / "demo-state").absolute()
    try:
        with hold_folder(home):
            sys.exit(_run_in(home, plan_tree(hosts, base_port), instances, once))
    except KeyboardInterrupt:
        sys.exit(130 if once else 0)
    except (ConfigError, ProcessEnded, TookTooLong, ZoneCallError) as error:
        raise click.ClickException(str(error)) from error


def _run_in(home: Path, zones: Sequence[DemoZone], instances: int, once: bool) -> int:
    for zone in zones:
        check_port_is_free("127.0.0.1", zone.port, "--base-port")
    if clear_folder(home):
        click.echo(f"Replacing the state of an earlier demo in {home}.")
    clock, processes = SystemClock(), Processes()
    waiter = Waiter(clock, time.sleep, processes.check)
    try:
        return _run(DemoRun(zones, home, clock, processes, waiter), instances, processes, waiter, once)
    finally:
        click.echo("\nStopping all zones and agents.")
        processes.stop()


def _run(run: DemoRun, instances: int, processes: Processes, waiter: Waiter, once: bool) -> int:
    run.start_zones()
    run.start_agents()
    run.join()
    run.wait_until_ready()
    found = run.boot(instances)
    print_tree(run)
    print_outcome(found)
    audits = run.audits()
    print_audits(audits)
    is_good = found["counts"] == {"ACTIVE": instances} and not any(audits.values())
    if once:
        return 0 if is_good else 1
    print_commands(run, found["id"])
    print_dashboard(read_credentials(run.admin_file(run.root)))
    click.echo("\nThe zones run until Ctrl-C.")
    waiter.forever(lambda: _report_ended(processes))
    return 0


def _report_ended(processes: Processes) -> None:
    for one in processes.ended():
        click.echo(f"\n{one.obituary}\nThe others go on. Start it again in another shell:\n", err=True)
        click.echo(f"  {one.restart}", err=True)


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main(prog_name="run_zone.sh demo")
