"""Every action, asked of the root of three zones: `ps` on the agent's machine says the same as the API."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from benchmarks.zone_trees.client import ZoneClient, ZoneFault
from benchmarks.zone_trees.tree import SERVICE, Tree, running_tree, sites
from tests.builders.real_processes import eventually
from tests.builders.zone_processes import launched

pytestmark = [pytest.mark.slow, pytest.mark.once]

PACE = {
    "retry_pause": "0.1",
    "zone_db_check_interval": "0.5",
    "boot_poll_interval": "0.2",
    # Enough for a machine with much else to do.
    "select_timeout": "60",
}
HOSTS = "name,VCPU,MEMORY_MB,DISK_GB\nh1,8,8192,100\nh2,8,8192,100\n"
COMMAND = "sh -c 'echo up; exec sleep infinity'"
SMALL = {"name": "small", "vcpus": 1, "ram": 64, "disk": 1}
LARGE = {"name": "large", "vcpus": 2, "ram": 128, "disk": 1}


@dataclass(frozen=True)
class Process:
    """A process as `ps` prints it; `is_stopped`: in the state T."""

    pid: int
    is_stopped: bool
    host: str
    flavor: str
    image: str


def processes_of(uuid: str) -> list[Process]:
    """Ask `ps` for all processes with this instance in their environment."""
    command = ["ps", "axeww", "-o", "pid=,stat=,command="]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [_process(line.split()) for line in lines if f"ZONESCHED_INSTANCE_UUID={uuid}" in line]


def _process(words: Sequence[str]) -> Process:
    variables = dict(word.split("=", 1) for word in words if word.startswith("ZONESCHED_"))
    pairs = [variables[f"ZONESCHED_{name}"] for name in ("HOST", "FLAVOR", "IMAGE")]
    return Process(int(words[0]), words[1].startswith("T"), *pairs)


Change = Callable[[Process], Process]


def running(before: Process) -> Process:
    """The same process, which runs."""
    return replace(before, is_stopped=False)


def stopped(before: Process) -> Process:
    """The same process, in the state T."""
    return replace(before, is_stopped=True)


def another(*, flavor: str = "", image: str = "") -> Change:
    """A process with another pid, and these where they are given."""
    return lambda before: replace(before, pid=0, flavor=flavor or before.flavor, image=image or before.image)


@dataclass(frozen=True)
class Step:
    """An action, the status that it leads to, and what becomes of the process; None: there is none then.

    `code`: why it is refused, or failed. `action`: its name in the list of actions, "" where it has none.
    """

    key: str
    value: Any
    status: str
    process: Change | None
    code: str = ""
    action: str = ""
    user: str = "tenant"


def done(key: str, status: str, process: Change | None, value: Any = None, **more: str) -> Step:
    return Step(key, value, status, process, action=key.removeprefix("os-"), **more)


def refused(key: str, code: str, status: str, process: Change | None, **more: Any) -> Step:
    return Step(key, more.pop("value", None), status, process, code=code, **more)


STORY = (
    done("pause", "PAUSED", stopped),
    refused("os-stop", "wrong_status", "PAUSED", stopped),
    done("unpause", "ACTIVE", running),
    done("suspend", "ACTIVE", running, code="suspend_unsupported"),
    refused("resume", "wrong_status", "ACTIVE", running),
    refused("changePassword", "password_unsupported", "ACTIVE", running, value={"adminPass": "x"}),
    refused("createImage", "snapshot_unsupported", "ACTIVE", running, value={"name": "x"}),
    refused("rescue", "rescue_unsupported", "ACTIVE", running),
    refused("os-resetState", "status_is_derived", "ACTIVE", running, value={"state": "error"}, user="root"),
    refused(
        "os-migrateLive",
        "live_migration_unsupported",
        "ACTIVE",
        running,
        value={"host": None, "block_migration": False},
        user="root",
    ),
    done("os-stop", "SHUTOFF", None),
    refused("pause", "wrong_status", "SHUTOFF", None),
    done("os-start", "ACTIVE", another()),
    done("reboot", "ACTIVE", another(), {"type": "SOFT"}),
    done("reboot", "ACTIVE", another(), {"type": "HARD"}),
    done("lock", "ACTIVE", running),
    refused("os-stop", "server_locked", "ACTIVE", running),
    done("unlock", "ACTIVE", running),
    done("rebuild", "ACTIVE", another(image="newer"), {"imageRef": "newer"}),
    done("resize", "VERIFY_RESIZE", another(flavor="large"), {"flavorRef": "large"}),
    refused("os-stop", "wrong_status", "VERIFY_RESIZE", running),
    done("revertResize", "ACTIVE", another(flavor="small")),
    done("resize", "VERIFY_RESIZE", another(flavor="large"), {"flavorRef": "large"}),
    done("confirmResize", "ACTIVE", running),
    done("os-stop", "SHUTOFF", None),
    done("resize", "VERIFY_RESIZE", None, {"flavorRef": "small"}),
    done("confirmResize", "SHUTOFF", None),
    done("os-start", "ACTIVE", another(flavor="small")),
    done("migrate", "ACTIVE", another(), user="leaf"),
    refused("evacuate", "host_is_up", "ACTIVE", running, value={}, user="leaf"),
    done("shelve", "SHELVED_OFFLOADED", None),
    refused("os-start", "wrong_status", "SHELVED_OFFLOADED", None),
    done("unshelve", "ACTIVE", another()),
    done("pause", "PAUSED", stopped),
    done("reboot", "ACTIVE", another(), {"type": "HARD"}),
)


@dataclass(frozen=True)
class Scene:
    """A server in the lowest of three zones, and the users who act on it."""

    tree: Tree
    uuid: str

    def client(self, user: str) -> ZoneClient:
        admins = {"root": self.tree.root_admin, "leaf": self.tree.admins["zone-2-0"]}
        return self.tree.tenant if user == "tenant" else admins[user]

    def act(self, step: Step) -> str:
        """Take the action, and wait until it has ended; return why it was refused or failed, or ""."""
        client = self.client(step.user)
        before = len(self.actions(client))
        try:
            client.call("POST", f"/servers/{self.uuid}/action", {step.key: step.value})
        except ZoneFault as fault:
            return fault.code
        taken = self.actions(client)
        assert [one["action"] for one in taken[: len(taken) - before]] == [step.action]
        eventually(f"{step.key} ends", lambda: self.actions(client)[0]["result"])
        return str(self.actions(client)[0]["error_code"])

    def actions(self, client: ZoneClient) -> list[dict[str, Any]]:
        found = client.call("GET", f"/servers/{self.uuid}/os-instance-actions")
        lines: list[dict[str, Any]] = found["instanceActions"]
        return lines

    def status(self) -> tuple[str, str | None]:
        server = self.tree.tenant.call("GET", f"/servers/{self.uuid}")["server"]
        return server["status"], server["OS-EXT-STS:task_state"]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A root, a region and a leaf whose agent runs processes on two hosts."""
    folder = tmp_path_factory.mktemp("three")

    def nobody(agent: ZoneClient, _number: int, _leaves: int) -> None:
        agent.call("PUT", "/hosts", {"service": SERVICE, "hosts": []})

    with running_tree(sites(folder, [1, 1, 1], lambda _: PACE), nobody, print) as tree:
        leaf, root = tree.admins["zone-2-0"], tree.root_admin
        user = leaf.call("POST", "/users", {"user": {"name": "machine", "role": "compute"}})["user"]
        (folder / "hosts.csv").write_text(HOSTS)
        (folder / "secret").write_text(user["secret"])
        for flavor in (SMALL, LARGE):
            root.call("POST", "/flavors", {"flavor": flavor})
        for name in ("plain", "newer"):
            root.call("POST", "/images", {"image": {"id": name, "name": name}})
        options = {
            "--zone-url": tree.zones[-1].site.url,
            "--username": "machine",
            "--password-file": str(folder / "secret"),
            "--inventory": str(folder / "hosts.csv"),
            "--connection-type": "process",
            "--state-folder": str(folder / "agent"),
            "--process-command": COMMAND,
            "--poll-seconds": "0.05",
        }
        with launched("zonesched.compute.main", *[word for pair in options.items() for word in pair]):
            uuid = _boot(tree.tenant)
            yield Scene(tree, uuid)
        for process in processes_of(uuid):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


def _boot(tenant: ZoneClient) -> str:
    server = {"name": "one", "flavorRef": "small", "imageRef": "plain"}
    wanted = {"server": {**server, "num_instances": 1}}
    eventually(
        "there is room",
        lambda: tenant.call("POST", "/zones/boot", {**wanted, "dry_run": True})["dry_run"]["fits"],
    )
    uuid = str(tenant.call("POST", "/servers", {"server": server})["server"]["id"])
    eventually("it runs", lambda: tenant.call("GET", f"/servers/{uuid}")["server"]["status"] == "ACTIVE")
    return uuid


def test_after_each_action_ps_agrees_with_the_api(scene: Scene) -> None:
    (process,) = processes_of(scene.uuid)
    assert (process.flavor, process.image, process.is_stopped) == ("small", "plain", False)
    for step in STORY:
        code = scene.act(step)
        eventually(f"{step.key} is seen", lambda: scene.status()[1] is None)

        assert (code, scene.status()) == (step.code, (step.status, None)), step
        process = agreed(step, process, processes_of(scene.uuid))
    console = scene.tree.tenant.call("POST", f"/servers/{scene.uuid}/action", {"os-getConsoleOutput": {}})
    assert console["output"].endswith("up\n")

    scene.tree.tenant.call("DELETE", f"/servers/{scene.uuid}")

    eventually("nothing is left", lambda: processes_of(scene.uuid) == [])
    with pytest.raises(ZoneFault, match="instance_not_found"):
        scene.status()


def agreed(step: Step, before: Process, found: Sequence[Process]) -> Process:
    """Compare what `ps` says with what a step should do; return the process, the last one where none is."""
    if step.process is None:
        assert found == [], step
        return before
    (now,) = found
    expected = step.process(before)
    if not expected.pid:
        assert now.pid != before.pid, step
        is_elsewhere = now.host != before.host
        assert is_elsewhere or step.key != "migrate", step
        assert not is_elsewhere or step.key not in ("reboot", "rebuild"), step
        expected = replace(expected, pid=now.pid, host=now.host, is_stopped=False)
    assert now == expected, step
    return now
