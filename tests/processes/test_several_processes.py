"""Four processes of one zone on one database, which are stopped and killed under load."""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from benchmarks.zone_trees.client import ZoneClient, ZoneFault
from benchmarks.zone_trees.postgres import Postgres
from benchmarks.zone_trees.processes import ZoneProcess, ZoneSite, free_ports, make_folder
from tests.builders.real_processes import eventually
from tests.builders.tree import Tree, a_host
from zonesched.services import background

PROCESSES = 3
BOOT_PAUSE_S = 0.1
"""Between two boots of one user, so that a slow restart does not fill the hosts."""

ENDS_WITHIN_S = 15.0
"""Seconds that a process without calls left may take to stop."""

HAS_POSTGRESQL = importlib.util.find_spec("psycopg") and (
    shutil.which("initdb") or list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
)
POSTGRESQL = pytest.param(
    "postgresql", marks=pytest.mark.skipif(not HAS_POSTGRESQL, reason="needs PostgreSQL and psycopg")
)


class OneZone:
    """Processes of one zone, its hosts, and a user who boots."""

    def __init__(self, folder: Path, database_url: str, **options: str) -> None:
        keys = {
            "build_plan_encryption_key": os.urandom(32).hex(),
            "secret_encryption_key": os.urandom(32).hex(),
        }
        shared = {"database_url": database_url, "boot_poll_interval": "0.5", **keys, **options}
        self.processes: list[ZoneProcess] = []
        self.database_url = database_url
        self._clients: list[ZoneClient] = []
        self._over = threading.Event()
        for number, port in enumerate(free_ports(PROCESSES)):
            site = ZoneSite(f"process-{number}", folder / f"process-{number}", port, shared)
            make_folder(site)
            self.processes.append(ZoneProcess(site))
            # The first one makes the database and its admin.
            self.processes[-1].wait_until_ready()
        self.admin = self.processes[0].admin()
        self._clients.append(self.admin)
        self.admin.call("POST", "/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 512, "disk": 1}})
        self._agent_secret = self._user("agent", "compute")
        self._tenant_secret = self._user("tenant", "member", "project")
        self._register_hosts()
        self._heart = threading.Thread(target=self._beat, daemon=True)
        self._heart.start()

    def tenant(self, number: int) -> ZoneClient:
        """The user, at one of the processes."""
        return self._client(number, "tenant", self._tenant_secret)

    def signal(self, number: int, what: signal.Signals) -> None:
        """Send a signal to all there is of one process."""
        os.killpg(self.processes[number].pid, what)

    def ended(self, number: int, timeout_s: float) -> int:
        """The exit code of a process that was told to end."""
        return self.processes[number].wait(timeout_s)

    def restart(self, number: int) -> None:
        """Stop a process as an operator would, and start it again."""
        site = self.processes[number].site
        os.kill(self.processes[number].pid, signal.SIGTERM)
        assert self.ended(number, 60.0) == 0
        self.processes[number] = ZoneProcess(site)
        self.processes[number].wait_until_ready()

    def count(self, statement: str, **values: object) -> int:
        """Rows of the database, read without the zone's own code."""
        engine = sa.create_engine(self.database_url)
        with engine.connect() as connection:
            found = connection.execute(sa.text(statement), values).scalar_one()
        engine.dispose()
        return int(found)

    def confirmed(self) -> int:
        return self.count("SELECT count(*) FROM placements WHERE state = 'confirmed'")

    def undecided(self) -> int:
        return self.count("SELECT count(*) FROM reservations WHERE state = 'open'")

    def report(self) -> str:
        """Some of the boots that are not decided, and the warnings of all logs, to explain a failed test."""
        engine = sa.create_engine(self.database_url)
        with engine.connect() as connection:
            found = connection.execute(sa.text("SELECT * FROM reservations WHERE state = 'open' LIMIT 5"))
            rows = [str({**row, "spec": "", "why": ""}) for row in found.mappings()]
        engine.dispose()
        lines = [line for p in self.processes for line in p.site.log.read_text().splitlines()]
        warnings = [line for line in lines if "level=INFO" not in line]
        return "\n".join((f"now: {time.time()}", *rows, *warnings[-200:]))

    def stop(self) -> None:
        self._over.set()
        self._heart.join()
        for number, process in enumerate(self.processes):
            with suppress(ProcessLookupError):
                self.signal(number, signal.SIGKILL)
            process.wait(10)
        for client in self._clients:
            client.close()

    def _user(self, name: str, role: str, project: str = "") -> str:
        user = {"name": name, "role": role, "project_id": project}
        return str(self.admin.call("POST", "/users", {"user": user})["user"]["secret"])

    def _client(self, number: int, name: str, secret: str) -> ZoneClient:
        self._clients.append(ZoneClient(self.processes[number].site.url, name, secret))
        return self._clients[-1]

    def _register_hosts(self) -> None:
        hosts = [
            {"name": f"h{n}", "inventories": {c: {"total": t} for c, t in TOTALS.items()}} for n in range(20)
        ]
        agent = self._client(0, "agent", self._agent_secret)
        agent.call("PUT", "/hosts", {"service": "agent", "hosts": hosts})

    def _beat(self) -> None:
        agents = [self._client(number, "agent", self._agent_secret) for number in range(PROCESSES)]
        while not self._over.wait(1.0):
            for agent in agents:
                with suppress(ZoneFault):
                    agent.call("POST", "/hosts/beat", {"service": "agent"})
                    break


TOTALS: Mapping[str, int] = {"VCPU": 10_000, "MEMORY_MB": 5_120_000, "DISK_GB": 10_000}
Start = Callable[..., OneZone]


@pytest.fixture(params=["sqlite", POSTGRESQL])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Starts a zone of three processes; they end with the test."""
    with ExitStack() as ending:
        url = f"sqlite:///{tmp_path}/zone.sqlite"
        if request.param == "postgresql":
            # Not in pytest's own folder, which only its owner may enter.
            folder = ending.enter_context(tempfile.TemporaryDirectory(prefix="zonesched-postgres-"))
            server = Postgres(Path(folder) / "server", free_ports(1)[0])
            server.start()
            ending.callback(server.stop)
            server.create("zone")
            url = server.url("zone")

        def started(**options: str) -> OneZone:
            zone = OneZone(tmp_path, url, **options)
            ending.callback(zone.stop)
            return zone

        yield started


def boot(tenant: ZoneClient, instances: int) -> None:
    form = {"name": "vm", "flavorRef": "small", "min_count": instances, "max_count": instances}
    tenant.call("POST", "/servers", {"server": form})


@pytest.mark.slow
@pytest.mark.once
def test_a_process_told_to_stop_under_load_leaves_its_boots_to_the_others_at_once(
    start: Start,
) -> None:
    # given a lease that nobody waits for the end of, and a process with more boots than it has begun
    zone = start(boot_lease="3600", boot_workers="1")
    tenant, accepted = zone.tenant(1), 0
    stopping = threading.Timer(1.0, zone.signal, [1, signal.SIGTERM])
    # when it is told to stop while it accepts more
    stopping.start()
    told_at = time.monotonic() + 1.0
    with suppress(ZoneFault):
        while time.monotonic() < told_at + ENDS_WITHIN_S:
            boot(tenant, 5)
            accepted += 1
    # then it ends well and in time, and what it accepted is all built by the others
    code = zone.ended(1, ENDS_WITHIN_S)
    assert (code, time.monotonic() < told_at + ENDS_WITHIN_S) == (0, True)
    assert accepted > 3
    eventually("all that was accepted is built", lambda: zone.confirmed() >= 5 * accepted, 30.0)
    eventually("nothing is left over", lambda: zone.undecided() == 0, 30.0)
    # A boot whose answer was cut off by the end may be one more.
    assert zone.confirmed() in (5 * accepted, 5 * accepted + 5)
    # A connection that was kept may lead to a process that was restarted.
    zone.admin.close()
    assert zone.admin.call("GET", "/audit")["inconsistencies"] == []


class Load:
    """A user at each process who boots without a pause; `keys` are those of the accepted boots."""

    def __init__(self, zone: OneZone) -> None:
        self.keys: set[str] = set()
        self._zone = zone
        self._over = threading.Event()
        self._users = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(PROCESSES)]
        for user in self._users:
            user.start()

    def goes_on(self, what: str) -> None:
        """Wait until more boots are accepted."""
        more = len(self.keys) + PROCESSES
        eventually(what, lambda: len(self.keys) >= more)

    def end(self) -> None:
        """Accept what is under way, then no more."""
        self._over.set()
        for user in self._users:
            user.join(30.0)

    def _run(self, number: int) -> None:
        at, tenant = number, self._zone.tenant(number)
        for turn in itertools.count():
            if self._over.wait(BOOT_PAUSE_S):
                return
            key = f"{number}-{turn}"
            # Repeated under its key at the next process until it is accepted.
            while True:
                try:
                    form = {"name": "vm", "flavorRef": "small", "min_count": 3, "max_count": 3}
                    tenant.call("POST", "/servers", {"server": form}, headers={"Idempotency-Key": key})
                    break
                except ZoneFault:
                    at = (at + 1) % PROCESSES
                    tenant = self._zone.tenant(at)
            self.keys.add(key)


def assert_all_is_built_once(zone: OneZone, load: Load) -> None:
    with suppress(AssertionError):
        eventually("all is decided", lambda: zone.undecided() == 0, 60.0)
    assert zone.undecided() == 0, zone.report()
    assert zone.count("SELECT count(*) FROM reservations") == len(load.keys)
    assert zone.confirmed() == 3 * len(load.keys)
    assert zone.count("SELECT count(*) FROM instances WHERE status = 'ERROR'") == 0
    # A connection that was kept may lead to a process that was restarted.
    zone.admin.close()
    assert zone.admin.call("GET", "/audit")["inconsistencies"] == []


@pytest.mark.slow
@pytest.mark.once
def test_processes_that_are_killed_under_load_lose_nothing_and_build_nothing_twice(start: Start) -> None:
    # given three processes under the load of three users
    zone = start(boot_lease="3")
    load = Load(zone)
    # when two of them are killed
    for number in (1, 2):
        load.goes_on("boots are accepted")
        zone.signal(number, signal.SIGKILL)
        zone.ended(number, 5.0)
    load.goes_on("the other accepts boots")
    load.end()
    # then all that was accepted is decided, once, when the leases of the dead are over
    assert_all_is_built_once(zone, load)


@pytest.mark.slow
@pytest.mark.once
def test_a_rolling_restart_under_load_loses_nothing(start: Start) -> None:
    # given leases that nobody waits for the end of
    zone = start(boot_lease="3600")
    load = Load(zone)
    # when the processes are restarted one after the other
    for number in range(PROCESSES):
        load.goes_on("boots are accepted")
        zone.restart(number)
    load.goes_on("all of them accept boots")
    load.end()
    # then each of them ended well, and all that was accepted is decided, once
    assert_all_is_built_once(zone, load)


def test_a_zone_that_stops_gives_back_the_boots_that_it_has_not_begun(tmp_path: Path) -> None:
    # given a boot that waits for its worker
    tree = Tree(tmp_path)
    root = tree.add("root", hosts_=[a_host("h1")], boot_lease=3600.0)
    root.client().post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 512, "disk": 1}})
    assert root.client().post("/servers", {"server": {"name": "vm", "flavorRef": "small"}}).status == 202
    # when its process stops, and another one looks
    root.zone.stop()
    tree.restart("root")
    tree.beat()
    zone = tree.nodes["root"].zone
    background.work_on_boots(zone)
    # then that goes on at once
    rows = zone.store.read(lambda tx: tx.exec_driver_sql("SELECT state FROM placements").scalars().all())
    assert rows == ["confirmed"]
