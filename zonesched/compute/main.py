"""`zonesched-compute`: the agent's command line."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path

import click

from zonesched.compute.agent import Agent, Rhythm
from zonesched.compute.client import AgentClient
from zonesched.compute.connection import ZoneConnection
from zonesched.compute.credentials import Credentials, CredentialsError, read_credentials
from zonesched.compute.driver import DriverSettings, DriverUnknown, load_driver
from zonesched.compute.inventory import read_inventory
from zonesched.compute.inventory_fields import InventoryError
from zonesched.seams import SystemClock, ThreadExecutor

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
SECONDS = click.FloatRange(min=0.01)


@click.command()
@click.option("--zone-url", envvar="ZONESCHED_URL", default="", help="The zone, e.g. http://127.0.0.1:8774.")
@click.option("--username", envvar="ZONESCHED_USERNAME", default="", help="A user of the role compute.")
@click.option(
    "--password-file",
    type=FILE,
    help="File that holds the password; it may stand in ZONESCHED_PASSWORD instead.",
)
@click.option(
    "--credentials", type=FILE, help="File with url, username and password in its section [zonesched]."
)
@click.option("--inventory", required=True, type=FILE, help="CSV or JSON file of the hosts.")
@click.option("--service", default="compute", show_default=True, help="Name of this agent in the zone.")
@click.option("--connection-type", default="fake", show_default=True, help="The driver.")
@click.option("--heartbeat-seconds", type=SECONDS, default=10.0, show_default=True)
@click.option("--poll-seconds", type=SECONDS, default=2.0, show_default=True, help="Between two looks.")
@click.option("--fake-build-seconds", type=click.FloatRange(min=0), default=0.0, show_default=True)
@click.option("--fake-failure-rate", type=click.FloatRange(0, 1), default=0.0, show_default=True)
@click.option("--fake-seed", default="", help="Chooses which builds of the failure rate fail.")
@click.version_option(package_name="zonesched")
def main(
    zone_url: str,
    username: str,
    password_file: Path | None,
    credentials: Path | None,
    inventory: Path,
    service: str,
    connection_type: str,
    heartbeat_seconds: float,
    poll_seconds: float,
    fake_build_seconds: float,
    fake_failure_rate: float,
    fake_seed: str,
) -> None:
    """Register the hosts of an inventory at a zone, and make run on them what the zone wants."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    clock = SystemClock()
    try:
        who = _credentials(credentials, zone_url, username, password_file)
        hosts = read_inventory(inventory)
        factory = load_driver(connection_type)
    except (CredentialsError, InventoryError, DriverUnknown) as error:
        raise click.UsageError(str(error)) from error
    driver = factory(DriverSettings(fake_build_seconds, fake_failure_rate, fake_seed), clock)
    client = AgentClient(ZoneConnection(who.url, who.username, who.password), service)
    _run_until_signal(Agent(client, driver, clock, hosts, Rhythm(heartbeat_seconds, poll_seconds)))


def _credentials(file: Path | None, zone_url: str, username: str, password_file: Path | None) -> Credentials:
    from_file = read_credentials(file) if file else Credentials()
    password = os.environ.get("ZONESCHED_PASSWORD", "") or from_file.password
    if password_file:
        password = password_file.read_text(encoding="utf-8").strip()
    url = zone_url or from_file.url
    if not url:
        raise CredentialsError("the zone's URL is missing: --zone-url, ZONESCHED_URL or --credentials")
    return Credentials(url, username or from_file.username, password)


def _run_until_signal(agent: Agent) -> None:
    # Blocked before the first thread starts, so that every thread leaves these to sigwait.
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    executor = ThreadExecutor()
    executor.start_loop("agent", agent.step)
    signal.sigwait(ends)
    executor.stop()


if __name__ == "__main__":
    main(prog_name="zonesched-compute")
