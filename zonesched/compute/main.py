"""`zonesched-compute`: the agent's command line."""

from __future__ import annotations

import logging
import math
import os
import shlex
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from zonesched import log_lines
from zonesched.broker.contract import COMPUTE, Broker, key_of
from zonesched.broker.opening import for_agent, open_broker
from zonesched.compute import file_system
from zonesched.compute.agent import Agent, Rhythm
from zonesched.compute.client import AgentClient, ZoneIdentity
from zonesched.compute.connection import ZoneConnection
from zonesched.compute.credentials import Credentials, CredentialsError, read_credentials
from zonesched.compute.driver import (
    Driver,
    DriverSettings,
    HasHost,
    HasWork,
    LibvirtSettings,
    make_driver,
)
from zonesched.compute.inventory import InventoryHost, read_inventory
from zonesched.compute.inventory_fields import InventoryError
from zonesched.compute.membership import Membership
from zonesched.compute.state_folder import NO_IDENTITY, Owner, host_name, of_folder, take
from zonesched.compute.subscriber import Subscriber
from zonesched.compute.tracker import Tracker
from zonesched.errors import ConfigError
from zonesched.finite_float import FiniteFloat
from zonesched.remote_services import (
    check_protected,
    check_servicegroup_driver,
    check_transport_url,
    is_protected,
)
from zonesched.seams import SuspendAwareClock, ThreadExecutor
from zonesched.service_group.contract import ServiceGroup
from zonesched.service_group.opening import open_group

# Folders are taken as text: click would look into them, and wait where a file system does not answer.
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
SECONDS = FiniteFloat(min=0.01, max=86400.0)
ALLOW_FLAG = "--allow-unverified-services"

log = logging.getLogger(__name__)


@click.command()
@click.option(
    "--zone-url", envvar="ZONESCHED_URL", default="", help="URL of the zone, e.g. http://127.0.0.1:8790."
)
@click.option("--username", envvar="ZONESCHED_USERNAME", default="", help="User with the role compute.")
@click.option(
    "--password-file",
    type=FILE,
    help="File with the password; ZONESCHED_PASSWORD may be set instead.",
)
@click.option(
    "--credentials", type=FILE, help="INI file with url, username and password in the section [zonesched]."
)
@click.option(
    "--cacert",
    envvar="ZONESCHED_CACERT",
    type=FILE,
    help="File of the CA certificates that verify the zone's https; may be set in --credentials instead.",
)
@click.option(
    "--inventory",
    type=FILE,
    help="CSV or JSON file of the hosts. The driver `libvirt` describes its own host where it is left out.",
)
@click.option(
    "--service",
    default="compute",
    show_default=True,
    help="Name of this agent in the zone; each agent of a zone needs its own.",
)
@click.option(
    "--connection-type",
    default="fake",
    show_default=True,
    help="The driver: `fake`, `process`, `libvirt`, one of an installed package, or package.module:Name.",
)
@click.option(
    "--heartbeat-seconds",
    type=SECONDS,
    default=10.0,
    show_default=True,
    help="Time without another call to the zone until a heartbeat.",
)
@click.option("--poll-seconds", type=SECONDS, default=2.0, show_default=True, help="Interval between polls.")
@click.option(
    "--fence-after",
    type=FiniteFloat(min=1.0, max=86400.0),
    help="Seconds without an answer of the zone after which all instances of this agent are ended, also while"
    " the agent itself is dead or stopped. Then the zone may place them anew.  [default: never]",
)
@click.option(
    "--transport-url",
    envvar="ZONESCHED_TRANSPORT_URL",
    default="",
    help="URL of the zone's RabbitMQ, amqp://user:password@host:5672/vhost, for wake-ups; may be set in the"
    " environment or in --credentials instead. Without it the agent only polls every --poll-seconds.",
)
@click.option(
    "--servicegroup-driver",
    envvar="ZONESCHED_SERVICEGROUP_DRIVER",
    default="",
    help="URL of the zone's service group, e.g. redis://host:6379, for heartbeats; may be set in the"
    " environment or in --credentials instead. Without it the agent sends heartbeats to the zone itself.",
)
@click.option(
    ALLOW_FLAG,
    is_flag=True,
    envvar="ZONESCHED_ALLOW_UNVERIFIED_SERVICES",
    help="Allow a broker or service group on another machine without TLS that checks the server's name.",
)
@click.option(
    "--state-folder",
    default="",
    help="Folder of the drivers `process` and `libvirt` for their instances; not shared with other agents.",
)
@click.option(
    "--shared-folder",
    default="",
    help="Folder that agents on several machines reach under this path; the driver `process` passes instances"
    " that move between them through it.",
)
@click.option("--process-command", default="", help="Command of each instance.  [default: sleep infinity]")
@click.option(
    "--process-stop-seconds",
    type=FiniteFloat(min=0, max=86400.0),
    default=5.0,
    show_default=True,
    help="Time between SIGTERM and SIGKILL.",
)
@click.option(
    "--libvirt-uri", default="qemu:///system", show_default=True, help="URI of the machine's own libvirt."
)
@click.option(
    "--libvirt-virt-type",
    type=click.Choice(["kvm", "qemu", "test"]),
    default="kvm",
    show_default=True,
    help="Type of domains: `qemu` emulates processors, for machines without KVM; `test` goes with test:///default.",
)
@click.option(
    "--libvirt-image-folder",
    default="",
    help="Folder with a file NAME.qcow2 or NAME.raw for each image, by its id or name; without it disks begin"
    " empty.",
)
@click.option(
    "--libvirt-stop-seconds",
    type=FiniteFloat(min=0, max=86400.0),
    default=60.0,
    show_default=True,
    help="Time that a guest may take to shut down before it is powered off.",
)
@click.option(
    "--log-format",
    type=click.Choice(log_lines.FORMATS),
    default="text",
    show_default=True,
    help="Form of the log lines.",
)
@click.option(
    "--fake-build-seconds",
    type=FiniteFloat(min=0, max=86400.0),
    default=0.0,
    show_default=True,
    help="How long the driver `fake` takes to build.",
)
@click.option(
    "--fake-failure-rate",
    type=FiniteFloat(0, 1),
    default=0.0,
    show_default=True,
    help="Share of builds that fail, from 0 to 1.",
)
@click.option(
    "--fake-action-seconds",
    type=FiniteFloat(min=0, max=86400.0),
    default=0.0,
    show_default=True,
    help="How long an action takes.",
)
@click.option(
    "--fake-action-failure-rate",
    type=FiniteFloat(0, 1),
    default=0.0,
    show_default=True,
    help="Share of actions that fail, from 0 to 1.",
)
@click.option("--fake-seed", default="", help="Seed that selects the builds and actions that fail.")
@click.version_option(package_name="zonesched")
def main(
    zone_url: str,
    username: str,
    password_file: Path | None,
    credentials: Path | None,
    cacert: Path | None,
    inventory: Path | None,
    service: str,
    connection_type: str,
    heartbeat_seconds: float,
    poll_seconds: float,
    fence_after: float | None,
    transport_url: str,
    servicegroup_driver: str,
    allow_unverified_services: bool,
    state_folder: str,
    shared_folder: str,
    process_command: str,
    process_stop_seconds: float,
    libvirt_uri: str,
    libvirt_virt_type: str,
    libvirt_image_folder: str,
    libvirt_stop_seconds: float,
    log_format: str,
    fake_build_seconds: float,
    fake_failure_rate: float,
    fake_action_seconds: float,
    fake_action_failure_rate: float,
    fake_seed: str,
) -> None:
    """Register the hosts of an inventory with a zone, and run the instances that the zone wants on them."""
    log_lines.set_up(log_format)
    clock = SuspendAwareClock()
    try:
        who = _credentials(credentials, zone_url, username, password_file)
        who = replace(who, cacert=str(cacert or who.cacert))
        listed = read_inventory(inventory) if inventory is not None else None
        broker_url = transport_url or who.transport_url
        check_transport_url(broker_url, "--transport-url")
        group_url = servicegroup_driver or who.servicegroup_driver
        check_servicegroup_driver(group_url, "--servicegroup-driver")
        _check_protected(broker_url, group_url, allow_unverified_services)
        settings = DriverSettings(
            build_seconds=fake_build_seconds,
            failure_rate=fake_failure_rate,
            action_seconds=fake_action_seconds,
            action_failure_rate=fake_action_failure_rate,
            seed=fake_seed,
            state_folder=state_folder,
            shared_folder=shared_folder,
            command=tuple(shlex.split(process_command)),
            stop_seconds=process_stop_seconds,
            libvirt=LibvirtSettings(
                libvirt_uri, libvirt_virt_type, libvirt_image_folder, libvirt_stop_seconds
            ),
        )
        _look_at(state_folder)
        driver = make_driver(connection_type, settings, clock)
        hosts = listed if listed is not None else _own_host(driver, state_folder)
        hosts = [host.with_traits(driver.traits) for host in hosts]
        fence_after_s = math.inf if fence_after is None else fence_after
        rhythm = Rhythm(heartbeat_seconds, poll_seconds, fence_after_s=fence_after_s)
        # After the driver, which has the state folder for itself.
        identity = of_folder(Path(state_folder), clock) if state_folder else NO_IDENTITY
        client = AgentClient(_connection(who), service, identity, partial(_admit, state_folder, service))
        agent = Agent(client, driver, clock, hosts, rhythm)
    except (CredentialsError, InventoryError, ConfigError, ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error
    # A connection of its own: it runs in another thread than the agent.
    tracker = Tracker(agent, AgentClient(_connection(who), service, identity))
    member = key_of(COMPUTE, service)
    _run_until_signal(
        agent,
        driver,
        tracker,
        lambda zone_name: open_broker(broker_url, zone_name, for_agent(zone_name, service)),
        lambda zone_uuid: open_group(group_url, zone_uuid, member, 3 * heartbeat_seconds),
        heartbeat_seconds,
    )


def _look_at(state_folder: str) -> None:
    """Log that the start waits for a state folder that does not answer: nothing else would say so."""
    folder = Path(state_folder)
    if state_folder and not file_system.answers(folder, folder / "instances"):
        log.error("the state folder %s does not answer: the start waits for it", folder)


def _own_host(driver: Driver, state_folder: str) -> list[InventoryHost]:
    if not isinstance(driver, HasHost):
        raise ConfigError("This driver does not know its hosts: --inventory is missing.", field="inventory")
    host = driver.host()
    name = host_name(Path(state_folder), host.name) if state_folder else host.name
    if name != host.name:
        log.warning("the machine is called %s now; its host stays %s, as it was registered", host.name, name)
    return [replace(host, name=name)]


def _admit(state_folder: str, service: str, zone: ZoneIdentity) -> None:
    """Raise OtherOwner where the instances in the state folder are not those of this service of the zone."""
    if state_folder:
        take(Path(state_folder), Owner(service, zone.uuid, zone.name))


def _connection(who: Credentials) -> ZoneConnection:
    return ZoneConnection(who.url, who.username, who.password, cacert=who.cacert)


def _check_protected(broker_url: str, group_url: str, allows_unverified: bool) -> None:
    """Raise ConfigError for a service without TLS that checks names, or warn where that is allowed."""
    for option, url in (("transport_url", broker_url), ("servicegroup_driver", group_url)):
        flag = f"--{option.replace('_', '-')}"
        if not allows_unverified:
            check_protected(option, url, flag, ALLOW_FLAG)
        elif not is_protected(url):
            log.warning("%s is not protected by TLS that checks the server's name", flag)


def _credentials(file: Path | None, zone_url: str, username: str, password_file: Path | None) -> Credentials:
    from_file = read_credentials(file) if file else Credentials()
    password = os.environ.get("ZONESCHED_PASSWORD", "") or from_file.password
    if password_file:
        try:
            password = password_file.read_text(encoding="utf-8-sig").strip()
        except UnicodeDecodeError:
            raise CredentialsError(f"{password_file} is not a text in UTF-8") from None
        if not password:
            raise CredentialsError(f"{password_file} has no password")
    url = zone_url or from_file.url
    if not url:
        raise CredentialsError("the zone's URL is missing: --zone-url, ZONESCHED_URL or --credentials")
    return replace(from_file, url=url, username=username or from_file.username, password=password)


def _run_until_signal(
    agent: Agent,
    driver: Driver,
    tracker: Tracker,
    broker_of: Callable[[str], Broker],
    group_of: Callable[[str], ServiceGroup],
    heartbeat_s: float,
) -> None:
    ended = _signals_heard()
    executor = ThreadExecutor()
    if isinstance(driver, HasWork):
        for number in range(driver.workers):
            executor.start_loop(f"driver-{number}", driver.work)
    loop = executor.start_loop("agent", agent.step)
    hearing, membership = Subscriber(agent, broker_of, loop.wake), Membership(agent, group_of, heartbeat_s)
    executor.start_loop("hints", hearing.step)
    executor.start_loop("membership", membership.step)
    executor.start_loop("tracker", tracker.step)
    os.read(ended, 1)
    executor.stop()
    hearing.close()
    membership.close()


def _signals_heard() -> int:
    """Return the end of a pipe that gets a byte for each SIGTERM and SIGINT, in whichever thread it arrives.

    Blocking the signals would not do: a library may have threads that do not, and the agent would end there.
    """
    ended, heard = os.pipe()
    os.set_blocking(heard, False)
    signal.set_wakeup_fd(heard, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return ended


if __name__ == "__main__":
    main(prog_name="zonesched-compute")
