"""A database server that takes over without the last commits, while the processes of a zone run on."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
import pytest

from benchmarks.zone_trees.postgres import UNPRIVILEGED, Postgres
from benchmarks.zone_trees.processes import free_ports
from tests.builders.clock import FakeClock
from tests.builders.inline_executor import InlineExecutor
from tests.builders.one_zone import CHEAP_PASSWORDS, KEY, a_form, add_hosts, beat, boot_on
from tests.builders.options import loaded
from tests.processes.test_several_processes import HAS_POSTGRESQL
from zonesched.services.audit import audit
from zonesched.services.zone import Zone
from zonesched.serving import state_report
from zonesched.serving.gauges import Load
from zonesched.store import copies, feed, identity

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

    def fail_over(self, *, promoted: bool = False) -> None:
        """Let the standby answer instead; `promoted`: as one that has followed the other server."""
        self._server.stop("immediate")
        shutil.rmtree(self._data)
        shutil.move(self._standby, self._data)
        if promoted:
            (self._data / "standby.signal").touch()
        if os.geteuid() == 0:
            for path in (self._data, *self._data.rglob("*")):
                shutil.chown(path, UNPRIVILEGED)
        self._server.start()
        if promoted:
            self._run("SELECT pg_promote()")

    def crash(self) -> None:
        """End it as a power cut would, and start it again."""
        self._server.stop("immediate")
        self._server.start()

    def give_ids(self, count: int) -> None:
        """Let others on this server use up ids of transactions."""
        self._run(*["SELECT pg_current_xact_id()"] * count)

    def _run(self, *statements: str) -> None:
        with psycopg.connect(self._server.url("postgres").replace("+psycopg", ""), autocommit=True) as others:
            for statement in statements:
                others.execute(statement)

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


def kinds(zone: Zone) -> list[str]:
    return [found.kind for found in audit.run(zone)]


def reported(zone: Zone) -> bool:
    """Whether the process's report on itself names lost commits."""
    zone.lost_commits.look()
    lines = state_report.report(zone, Load(0, 0, 8, 0)).splitlines()
    return any(line.startswith("database: PostgreSQL lacks commits") for line in lines)


@pytest.mark.slow
@pytest.mark.sqlite
@pytest.mark.skipif(not HAS_POSTGRESQL, reason="needs PostgreSQL and psycopg")
@pytest.mark.parametrize(("promoted", "given"), [(False, 0), (True, 100)])
def test_a_server_that_lacks_known_commits_is_named_until_the_zone_is_told(
    tmp_path: Path, server: Failing, caplog: pytest.LogCaptureFixture, promoted: bool, given: int
) -> None:
    # given a server that lacks two boots of a process, and may have given the ids of their transactions again
    one, other = a_process(tmp_path / "one", server.url), a_process(tmp_path / "other", server.url)
    hosts = add_hosts(one, a_form("h", VCPU=100))
    server.make_standby()
    boots(one, hosts, 2)
    server.fail_over(promoted=promoted)
    server.give_ids(given)
    # when that process writes again
    beat(one)
    # then each process says so, again and again
    assert kinds(one) == kinds(other) == ["commits_lost"]
    assert (reported(one), reported(other)) == (True, True)
    assert caplog.text.count("PostgreSQL lacks commits that this zone was told of, such as change") == 3
    # until the operator has told the zone
    for zone in (one, other):
        zone.stop()
    copies.mark_restored(server.url, "5e" * 16)
    again = a_process(tmp_path / "again", server.url)
    assert (kinds(again), reported(again)) == (["neighbour_unheard"], False)
    again.stop()


@pytest.mark.slow
@pytest.mark.sqlite
@pytest.mark.skipif(not HAS_POSTGRESQL, reason="needs PostgreSQL and psycopg")
def test_a_server_that_has_all_commits_is_a_line_in_the_log(
    tmp_path: Path, server: Failing, caplog: pytest.LogCaptureFixture
) -> None:
    one = a_process(tmp_path / "one", server.url)
    hosts = add_hosts(one, a_form("h", VCPU=100))
    boots(one, hosts, 2)
    server.make_standby()
    server.fail_over(promoted=True)

    boots(one, hosts, 1)
    again = a_process(tmp_path / "again", server.url)

    assert (kinds(one), reported(one)) == ([], False)
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.startswith("PostgreSQL is on timeline 2, and was on 1: a standby has taken over")
    for zone in (one, again):
        zone.stop()


@pytest.mark.slow
@pytest.mark.sqlite
@pytest.mark.skipif(not HAS_POSTGRESQL, reason="needs PostgreSQL and psycopg")
def test_a_server_that_crashes_and_starts_again_is_no_line_at_all(
    tmp_path: Path, server: Failing, caplog: pytest.LogCaptureFixture
) -> None:
    one = a_process(tmp_path / "one", server.url)
    hosts = add_hosts(one, a_form("h", VCPU=100))
    boots(one, hosts, 2)
    server.crash()

    boots(one, hosts, 1)

    assert (kinds(one), reported(one)) == ([], False)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    one.stop()


@pytest.mark.slow
@pytest.mark.sqlite
@pytest.mark.skipif(not HAS_POSTGRESQL, reason="needs PostgreSQL and psycopg")
def test_a_process_that_starts_on_another_timeline_says_so(
    tmp_path: Path, server: Failing, caplog: pytest.LogCaptureFixture
) -> None:
    a_process(tmp_path / "one", server.url).stop()
    server.make_standby()
    server.fail_over(promoted=True)

    for folder in ("again", "once-more"):
        a_process(tmp_path / folder, server.url).stop()

    assert caplog.text.count("PostgreSQL is on timeline 2, and was on 1") == 1
