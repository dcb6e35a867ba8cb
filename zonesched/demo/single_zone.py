"""`./run_zone.sh` without a command: one zone, and an agent with a few hosts."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from zonesched import conf as options
from zonesched.compute.connection import ZoneCallError, ZoneConnection, ZoneRefused
from zonesched.compute.credentials import Credentials, read_credentials, write_credentials
from zonesched.conf import Conf
from zonesched.conf.ports import check_port_is_free
from zonesched.conf.zone import DEFAULT_PORT
from zonesched.demo.folder import ZONE, hold_folder
from zonesched.demo.left_running import lines_about, running_in
from zonesched.demo.processes import ProcessEnded, Processes
from zonesched.demo.report import pasteable, print_dashboard, print_shell_lines
from zonesched.demo.run import KEY_BYTES, is_ready, write_inventory
from zonesched.demo.tree import DemoZone, config_text
from zonesched.demo.waiting import TookTooLong, Waiter
from zonesched.errors import ConfigError
from zonesched.seal.shortcomings import shortcomings
from zonesched.seams import SystemClock

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
AGENT = "agent"
HOSTS = 5
START_S = 60.0


@click.command()
@click.option(
    "--port", type=click.IntRange(1, 65_535), help=f"Port of the zone on loopback.  [default: {DEFAULT_PORT}]"
)
@click.option("--hosts", type=click.IntRange(1, 100_000), default=HOSTS, show_default=True)
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder of the zone's configuration and state.  [default: zone-state]",
)
@click.option("--connection-type", type=click.Choice(["fake", "process"]), default="fake", hidden=True)
@click.option("--checkout", type=click.Path(path_type=Path), default=Path(), hidden=True)
def main(port: int | None, hosts: int, folder: Path | None, connection_type: str, checkout: Path) -> None:
    """Run one zone named nova with a few hosts on loopback, until Ctrl-C.

    The folder keeps the configuration and the state for the next start.
    """
    for number in ENDING:
        signal.signal(number, _interrupt)
    processes = Processes()
    home = (folder or checkout / "zone-state").absolute()
    try:
        with hold_folder(home, ZONE):
            zone = DemoZone("nova", "", 0, port or DEFAULT_PORT, hosts)
            conf = write_conf(zone, home, port, SystemClock().random_bytes)
            check_port_is_free(conf.bind_host, conf.bind_port, "--port")
            for line in shortcomings(conf):
                click.echo(line)
            _run(replace(zone, port=conf.bind_port), home, processes, connection_type)
    except KeyboardInterrupt:
        click.echo("\nStopping the zone and its agent.")
    except (ConfigError, ProcessEnded, TookTooLong, ZoneCallError) as error:
        raise click.ClickException(str(error)) from error
    finally:
        processes.stop()
        for line in lines_about(running_in(home / AGENT)):
            click.echo(line)


def write_conf(zone: DemoZone, home: Path, port: int | None, random_bytes: Callable[[int], bytes]) -> Conf:
    """Write the zone's configuration into `home`, or set the port of an existing one.

    Everything else in an existing configuration is kept. Raises ConfigError.
    """
    path = home / "zone.conf"
    if path.is_file():
        text = path.read_text(encoding="utf-8")
        if port is not None:
            text = re.sub(r"(?m)^bind_port = .*$", f"bind_port = {port}", text)
    else:
        text = config_text(zone, str(home), lambda: random_bytes(KEY_BYTES).hex())
        path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return options.load([str(path)])


def _run(zone: DemoZone, home: Path, processes: Processes, connection_type: str) -> None:
    admin_file, agent_file = home / "admin.credentials", home / "agent.credentials"
    for file in (admin_file, agent_file):
        _move_to(zone.url, file)
    arguments = ["--config-file", str(home / "zone.conf")]
    processes.start("the zone", "zonesched.serving", arguments, home / "zone.log")
    waiter = Waiter(SystemClock(), time.sleep, processes.check)
    waiter.until(
        "starting the zone", lambda: "" if is_ready(zone.url, admin_file) else "waiting for it", START_S
    )
    _make_agent_user(admin_file, agent_file)
    arguments = ["--credentials", str(agent_file), "--inventory", str(write_inventory(zone, home))]
    arguments += ["--service", AGENT, "--connection-type", connection_type]
    arguments += ["--state-folder", str(home / AGENT)]
    processes.start("the agent", "zonesched.compute.main", arguments, home / "agent.log")
    _print_commands(zone, home, admin_file)
    print_dashboard(read_credentials(admin_file))
    waiter.forever(processes.check)


def _print_commands(zone: DemoZone, home: Path, admin_file: Path) -> None:
    click.echo(f"\nThe zone listens on {zone.url}. Its configuration, state and logs are in\n{home}.")
    click.echo("\nAsk it in another shell:\n")
    print_shell_lines(
        admin_file,
        "host list",
        "flavor create small --vcpus 1 --ram 512",
        "zone boot --flavor small --name one --watch",
    )
    click.echo(f"\nIt runs until Ctrl-C. Remove {pasteable(home)} to begin anew.")


def _move_to(url: str, file: Path) -> None:
    """Update the URL in the credentials file of an earlier start."""
    if file.is_file() and (known := read_credentials(file)).url != url:
        write_credentials(file, replace(known, url=url))


def _make_agent_user(admin_file: Path, agent_file: Path) -> None:
    """Make the agent's user, or give an earlier one another secret where its file is lost."""
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
    # A second one would end this before it has named the instances that run on.
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    main(prog_name="run_zone.sh process" if "process" in sys.argv else "run_zone.sh")
