"""A database server that takes over without the last commits, while the processes of a zone run on."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.zone_trees.postgres import UNPRIVILEGED, Postgres
from benchmarks.zone_trees.processes import free_ports
from tests.builders.clock import FakeClock
from tests.builders.inline_executor import InlineExecutor
from tests.builders.one_zone import CHEAP_PASSWORDS, KEY, a_form, add_hosts, beat, boot_on
from tests.builders.options import loaded
from tests.processes.test_several_processes import HAS_POSTGRESQL
from zonesched.services.zone import Zone
from zonesched.store import feed, identity

PARENT = "parent-user"


class Failing:
    """A server of PostgreSQL with a standby that has what was there when it was made."""

    def __init__(self, folder: Path) -> None:
        self._data, self._standby = folder / "server" / "data", folder / "standby"
        self._server = Postgres(folder / "server", free_ports(1)[0])
        self._server.start()
        self._server.create("zone")
        self.url = self._server.url("zone")

    def make_standby(self) -> None:
        self._server.stop("fast")
        shutil.copytree(self._data, self._standby)
        self._server.start()

    def fail_over(self) -> None:
        self._server.stop("immediate")
        shutil.rmtree(self._data)
        shutil.move(self._standby, self._data)
        if os.geteuid() == 0:
            for path in (self._data, *self._data.rglob("*")):
                shutil.chown(path, UNPRIVILEGED)
        self._server.start()

    def stop(self) -> None:
        self._server.stop()


@pytest.fixture
def server() -> Iterator[Failing]:
    # Not in pytest's own folder, which only its owner may enter.
    with tempfile.TemporaryDirectory(prefix="zonesched-postgres-") as folder:
        server = Failing(Path(folder))
        yield server
        server.stop()


def a_process(folder: Path, url: str) -> Zone:
    """A process of the zone, without its background work."""
    conf = loaded(
        {
            "state_path": str(folder),
            "database_url": url,
            "build_plan_encryption_key": [KEY],
            "secret_encryption_key": KEY,
        }
    )
    return Zone.open(conf, clock=FakeClock(), executor=InlineExecutor(), password_cost=CHEAP_PASSWORDS)


def used(zone: Zone) -> int:
    """The cores in use on all hosts, as a select of this process sees them."""
    with zone.hosts.current() as table:
        return int(table.used("VCPU").sum())


def cursor(zone: Zone) -> tuple[int, str]:
    """The end of the parent's feed, and the epoch by which a cursor is known."""
    watermark = zone.store.read(identity.low_watermark)
    window = zone.store.read(lambda tx: feed.next_window(tx, PARENT, 0, watermark))
    assert window is not None
    return window.until, zone.store.read(lambda tx: identity.epoch_of(tx, window.until))


def boots(zone: Zone, hosts: Sequence[str], count: int) -> None:
    for number in range(count):
        boot_on(zone, hosts[number % len(hosts)], caller_id=PARENT)


@pytest.mark.sqlite
@pytest.mark.skipif(not HAS_POSTGRESQL, reason="needs PostgreSQL and psycopg")
def test_the_changes_of_a_server_that_lacks_the_last_commits_are_seen(
    tmp_path: Path, server: Failing
) -> None:
    one, other = a_process(tmp_path / "one", server.url), a_process(tmp_path / "other", server.url)
    hosts = add_hosts(one, *[a_form(f"h{number}", VCPU=100) for number in range(3)])
    beat(one)
    server.make_standby()
    boots(one, hosts, 10)
    before = used(one), used(other)
    until, epoch = cursor(one)

    server.fail_over()
    boots(one, hosts, 4)
    after = used(one), used(other)
    boots(one, hosts, 12)

    assert (before, after) == ((10, 10), (4, 4))
    last = one.store.read(identity.last_change)
    assert last > until
    # So the parent's cursor is none of this server's, and the parent reads its changes from the beginning.
    assert one.store.read(lambda tx: identity.epoch_of(tx, until)) != epoch
    for zone in (one, other):
        zone.stop()
