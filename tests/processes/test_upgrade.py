"""Zones of this version and of one before it in one tree, and a zone that is upgraded with its instances."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.zone_trees.client import ZoneClient
from tests.builders.real_processes import eventually, free_port
from tests.builders.zone_processes import answers
from zonesched.compute.credentials import Credentials, read_credentials, write_credentials

pytestmark = [pytest.mark.slow, pytest.mark.sqlite]
CHECKOUT = Path(__file__).parents[2]
BEFORE = "c14ba45ffd0cc9b232c5ef3c2c495f2fc946955c"
"""The oldest commit that speaks the wire of this version; one before it refuses the `attempt` of a delete."""

START_S = 180.0


@dataclass(frozen=True)
class Version:
    """The package in a folder of its own."""

    folder: Path

    @contextmanager
    def run(self, log: Path, module: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a module of it; it is told to end when the block ends."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder)}
        # -P: the working folder would come first.
        command = [sys.executable, "-P", "-m", module, *arguments]
        with log.open("a") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file, cwd=log.parent, env=environment)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


PRESENT = Version(CHECKOUT)


@pytest.fixture(scope="module")
def before(request: pytest.FixtureRequest) -> Version:
    """The version before, from a wheel that is built once."""
    known = subprocess.run(
        ["git", "cat-file", "-e", f"{BEFORE}^{{commit}}"], cwd=CHECKOUT, capture_output=True
    )
    if known.returncode:
        pytest.skip(f"commit {BEFORE} is not in this clone, which may be a shallow one")
    kept = request.config.cache.mkdir("version-before") / BEFORE
    if not kept.is_dir():
        build(kept)
    return Version(kept)


def build(kept: Path) -> None:
    """Build the wheel of the commit, and unpack it into a folder that is there wholly or not at all."""
    work = kept.with_name(f"{kept.name}.{os.getpid()}")
    (work / "source").mkdir(parents=True)
    archive = subprocess.run(["git", "archive", BEFORE], cwd=CHECKOUT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "x", "-C", str(work / "source")], input=archive, check=True)
    options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-q", "-w", str(work)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(work / "source")], check=True)
    [wheel] = work.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(work / "package")
    with suppress(OSError):
        (work / "package").rename(kept)


class Zone:
    """A zone of some version, in its folder."""

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        self.folder = folder
        self.url = f"http://127.0.0.1:{self._port}"
        folder.mkdir(mode=0o700)
        keys = [f"{name}_encryption_key = {os.urandom(32).hex()}" for name in ("build_plan", "secret")]
        paces = ["zone_db_check_interval = 1", "instance_sync_interval = 2", "retry_pause = 0.5"]
        state = [f"state_path = {folder}", f"bind_port = {self._port}", "child_networks = loopback"]
        (folder / "zone.conf").write_text("\n".join(["[DEFAULT]", *state, *keys, *paces, ""]))
        (folder / "zone.conf").chmod(0o600)

    @contextmanager
    def served_by(self, version: Version) -> Iterator[None]:
        config = str(self.folder / "zone.conf")
        log = self.folder / "zone.log"
        with version.run(log, "zonesched.serving.run_zone", "--config-file", config) as process:
            eventually(f"{self.url} answers", lambda: answers(self.url) or process.poll(), START_S)
            assert process.poll() is None, log.read_text()
            yield

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """A call of its admin."""
        known = read_credentials(self.folder / "admin.credentials")
        client = ZoneClient(self.url, known.username, known.password)
        try:
            return client.call(method, path, body)
        finally:
            client.close()

    def new_user(self, name: str, role: str) -> Credentials:
        made = self.call("POST", "/users", {"user": {"name": name, "role": role}})
        return Credentials(self.url, name, made["user"]["secret"])

    def statuses(self) -> Mapping[str, str]:
        """The status of each server by its id."""
        return {
            one["id"]: one["status"] for one in self.call("GET", "/servers/detail?all_tenants=1")["servers"]
        }


@contextmanager
def agent_of(zone: Zone, version: Version) -> Iterator[None]:
    file, hosts = zone.folder / "agent.credentials", zone.folder / "hosts.csv"
    if not file.exists():
        write_credentials(file, zone.new_user("agent", "compute"))
        hosts.write_text("name,VCPU,MEMORY_MB,DISK_GB\nh1,8,65536,100\nh2,8,65536,100\n")
    options = ["--credentials", str(file), "--inventory", str(hosts), "--poll-seconds", "0.2"]
    with version.run(zone.folder / "agent.log", "zonesched.compute.main", *options, "--service", "agent"):
        yield


def join(parent: Zone, child: Zone) -> None:
    known = child.new_user("parent", "parent")
    form = {"name": "leaf", "api_url": child.url, "username": known.username, "password": known.password}
    parent.call("POST", "/zones", {"zone": form})


def inconsistencies(*zones: Zone) -> list[Any]:
    return [found for zone in zones for found in zone.call("GET", "/audit")["inconsistencies"]]


@pytest.mark.parametrize("parent_is_new", [True, False], ids=["newer above older", "older above newer"])
def test_two_versions_boot_and_delete_together_and_the_older_is_upgraded_with_its_instances(
    tmp_path: Path, before: Version, parent_is_new: bool
) -> None:
    # given a root without hosts and a leaf, of two versions
    root, leaf = Zone(tmp_path / "root"), Zone(tmp_path / "leaf")
    of_root, of_leaf = (PRESENT, before) if parent_is_new else (before, PRESENT)
    older = leaf if parent_is_new else root
    with ExitStack() as running, ExitStack() as aging:
        (aging if older is root else running).enter_context(root.served_by(of_root))
        (aging if older is leaf else running).enter_context(leaf.served_by(of_leaf))
        running.enter_context(agent_of(leaf, of_leaf))
        join(root, leaf)
        root.call("POST", "/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 512, "disk": 1}})
        # when instances are booted over both, and one is deleted
        boot(root, 6)
        [deleted, *kept] = sorted(root.statuses())
        root.call("DELETE", f"/servers/{deleted}")
        eventually("one is deleted in the leaf", lambda: set(leaf.statuses()) == set(kept))
        # then neither zone finds anything wrong
        assert inconsistencies(root, leaf) == []

        # when the older is replaced on its rows, and its agent is not
        aging.close()
        running.enter_context(older.served_by(PRESENT))
        # then its instances are still there and end, and it boots again
        eventually("all are known", lambda: root.statuses() == dict.fromkeys(kept, "ACTIVE"))
        for id in kept:
            root.call("DELETE", f"/servers/{id}")
        eventually("all are deleted", lambda: leaf.statuses() == {})
        boot(root, 2)
        assert inconsistencies(root, leaf) == []


def boot(root: Zone, instances: int) -> None:
    """Boot so many; wait until all are ACTIVE."""
    form = {"name": "vm", "flavorRef": "small", "num_instances": instances}

    def are_accepted() -> bool:
        info = root.call("GET", "/zones/info")["zone"]
        return bool(info["complete"] and "VCPU" in info["services"]["compute"])

    eventually("the root knows the leaf's hosts", are_accepted)
    id = root.call("POST", "/zones/boot", {"server": form})["reservation_id"]

    def are_active() -> bool:
        return bool(root.call("GET", f"/reservations/{id}")["reservation"]["counts"] == {"ACTIVE": instances})

    eventually("all are ACTIVE", are_active)
