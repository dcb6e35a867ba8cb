"""`./run_zone.sh` alone: one zone with the sample configuration, and an agent with a few fake hosts."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

import click

from zonesched import conf as options
from zonesched.cli.sample import SAMPLE
from zonesched.cli.waiting import TookTooLong, Waiter
from zonesched.compute.connection import ZoneCallError, ZoneConnection, ZoneRefused
from zonesched.compute.credentials import Credentials, read_credentials, write_credentials
from zonesched.conf.ports import check_port_is_free
from zonesched.demo.processes import ProcessEnded, Processes
from zonesched.errors import ConfigError
from zonesched.seal.shortcomings import shortcomings
from zonesched.seams import SystemClock

INVENTORY = Path("etc/zonesched/hosts.csv")
AGENT = "agent"
START_S = 60.0


@click.command()
@click.argument("checkout", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--connection-type", type=click.Choice(["fake", "process"]), default="fake", show_default=True)
def main(checkout: Path, connection_type: str) -> None:
    """Run one zone named nova and a few hosts on loopback, until Ctrl-C; its instances stay if processes."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _interrupt)
    os.chdir(checkout)
    processes = Processes()
    try:
        conf = options.load([str(SAMPLE)])
        check_port_is_free(conf.bind_host, conf.bind_port, "bind_port and --config-file")
        for line in shortcomings(conf):
            click.echo(line)
        _run(Path(conf.state_path), processes, connection_type)
    except KeyboardInterrupt:
        click.echo("\nstopping the zone and its agent")
    except (ConfigError, ProcessEnded, TookTooLong, ZoneCallError) as error:
        raise click.ClickException(str(error)) from error
    finally:
        processes.stop()


def _run(state: Path, processes: Processes, connection_type: str) -> None:
    admin_file = state / "admin.credentials"
    state.mkdir(mode=0o700, exist_ok=True)
    processes.start(
        "the zone", "zonesched.serving.run_zone", ["--config-file", str(SAMPLE)], state / "zone.log"
    )
    waiter = Waiter(SystemClock(), time.sleep, processes.check)
    waiter.until("starting the zone", lambda: _missing(admin_file), START_S)
    agent_file = state / "agent.credentials"
    _make_agent_user(admin_file, agent_file)
    arguments = ["--credentials", str(agent_file), "--inventory", str(INVENTORY), "--service", AGENT]
    arguments += ["--connection-type", connection_type, "--state-folder", str(state / AGENT)]
    processes.start("the agent", "zonesched.compute.main", arguments, state / "agent.log")
    _print_commands(state, admin_file)
    waiter.forever(processes.check)


def _print_commands(state: Path, admin_file: Path) -> None:
    program = shlex.quote(os.path.relpath(Path(sys.executable).with_name("zonesched")))
    click.echo(f"\nIts log is {state / 'zone.log'}. Ask it, in another shell, from {Path.cwd()}:\n")
    for words in (
        "host list",
        "flavor create small --vcpus 1 --ram 512",
        "zone boot --flavor small --name one --watch",
    ):
        click.echo(f"  {program} --credentials {admin_file} {words}")
    click.echo("\nIt stays until Ctrl-C.")


def _missing(admin_file: Path) -> str:
    if not admin_file.is_file():
        return "waiting"
    ZoneConnection(read_credentials(admin_file).url, "", "").call("GET", "/readiness")
    return ""


def _make_agent_user(admin_file: Path, agent_file: Path) -> None:
    """Give the agent a user, or an earlier one another secret if its file is lost."""
    if agent_file.is_file():
        return
    who = read_credentials(admin_file)
    zone = ZoneConnection(who.url, who.username, who.password)
    try:
        made = zone.call("PUT", f"/users/{AGENT}", {"user": {"new_secret": True}})
    except ZoneRefused as error:
        if error.status != 404:
            raise
        made = zone.call("POST", "/users", {"user": {"name": AGENT, "role": "compute"}})
    write_credentials(agent_file, Credentials(who.url, AGENT, made["user"]["secret"]))


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
