"""`zonesched-zone`: serve one zone from its configuration, until SIGTERM.

One process of threads serves; it is forked after the configuration was checked, the database brought up to
date and, in a zone without users, a first admin made.
"""

from __future__ import annotations

import socket
from pathlib import Path

import click

from zonesched import conf as options
from zonesched import log_lines
from zonesched.api.audit_log import AuditLog
from zonesched.compute.credentials import Credentials, write_credentials
from zonesched.conf import Conf
from zonesched.conf.ports import check_port_is_free
from zonesched.conf.private_files import shared_keys, shared_secrets
from zonesched.errors import ConfigError, DatabaseFull
from zonesched.model.views import NewUser
from zonesched.seal.shortcomings import shortcomings
from zonesched.services.catalog import users
from zonesched.services.zone import Zone
from zonesched.serving import tls
from zonesched.serving.early_signals import EarlySignals
from zonesched.serving.server import Server
from zonesched.start_check import check_start
from zonesched.store.store import StoreError

NO_ADDRESS = ("0.0.0.0", "::", "")


@click.command()
@click.option(
    "--config-file",
    "files",
    multiple=True,
    type=click.Path(),
    help="Configuration file; repeatable, a later one wins.",
)
@click.version_option(package_name="zonesched")
@click.pass_obj
def main(early_signals: EarlySignals | None, files: tuple[str, ...]) -> None:
    """Serve one zone until SIGTERM; running requests are then finished."""
    early_signals = early_signals or EarlySignals()
    try:
        conf = options.load(files)
        log_lines.set_up(conf.log_format, conf.log_level)
        check_port_is_free(conf.bind_host, conf.bind_port, "bind_port")
        prepare(conf)
    except (ConfigError, DatabaseFull) as error:
        raise click.ClickException(error.message) from error
    except OSError as error:
        raise click.ClickException(str(error)) from error
    for line in (*shortcomings(conf), *shared_secrets(files), *shared_keys(conf)):
        say(line)
    say(f"Zone {conf.zone_name} listens on {zone_url(conf)}.")
    Server(files, conf, early_signals).run()


def say(line: str) -> None:
    """Print a line for the operator."""
    click.echo(f"zonesched-zone: {line}", err=True)


def zone_url(conf: Conf) -> str:
    """Return the URL of the zone: on this machine, or with TLS by the name that its certificate may have."""
    is_https = tls.is_served(conf)
    here = (conf.host or socket.gethostname()) if is_https else "127.0.0.1"
    host = here if conf.bind_host in NO_ADDRESS else conf.bind_host
    scheme = "https" if is_https else "http"
    return f"{scheme}://[{host}]:{conf.bind_port}" if ":" in host else f"{scheme}://{host}:{conf.bind_port}"


def prepare(conf: Conf) -> None:
    """Prepare the zone: check its options, migrate its database, make a first admin."""
    check_start(conf)
    state = Path(conf.state_path)
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"Option state_path: '{state}' cannot be made: {error.strerror}.") from error
    path = state / "admin.credentials"

    def keep(admin: NewUser) -> None:
        write_credentials(path, Credentials(zone_url(conf), admin.user.name, admin.secret))

    try:
        zone = Zone.open(conf)
    except StoreError as error:
        raise ConfigError(f"Option database_url: the database cannot be used: {error.orig}.") from error
    try:
        made = (
            users.create_first_admin(zone.store, zone.clock, keep)
            if conf.auth_strategy == "http_basic"
            else None
        )
    finally:
        zone.stop()
    AuditLog(conf.audit_log)
    if made:
        say(f"Made the first user, {made.user.name}; its password is in {path}.")


if __name__ == "__main__":
    main(prog_name="zonesched-zone")
