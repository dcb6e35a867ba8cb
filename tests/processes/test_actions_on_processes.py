"""Every action in every status, asked of the root of three zones: `ps` says the same as the API.

All servers are of one boot, and each plays one cell of the table in docs/actions.md, side by side.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from benchmarks.chaos_runs.link import Link, Way
from benchmarks.zone_trees.client import ZoneClient, ZoneFault
from benchmarks.zone_trees.tree import SERVICE, Tree, running_tree, sites
from tests.builders.real_processes import eventually
from tests.builders.zone_processes import launched

pytestmark = [pytest.mark.slow, pytest.mark.once]

PACE = {
    "retry_pause": "0.1",
    "zone_db_check_interval": "0.5",
    "boot_poll_interval": "0.2",
    "instance_sync_interval": "0.3",
    # Enough for a machine with much else to do.
    "select_timeout": "60",
    "reclaim_instance_interval": "3600",
}
HOSTS = "name,VCPU,MEMORY_MB,DISK_GB\nh1,100,65536,1000\nh2,100,65536,1000\n"
COMMAND = "sh -c 'echo up; exec sleep infinity'"
SMALL = {"name": "small", "vcpus": 1, "ram": 64, "disk": 1}
LARGE = {"name": "large", "vcpus": 2, "ram": 128, "disk": 1}
HUGE = {"name": "huge", "vcpus": 1000, "ram": 64, "disk": 1}
PAGE = Path(__file__).parents[2] / "docs" / "actions.md"


@dataclass(frozen=True)
class Process:
    """A process as `ps` prints it; `is_stopped`: in the state T."""

    pid: int
    is_stopped: bool
    host: str
    flavor: str
    image: str


def processes() -> Mapping[str, list[Process]]:
    """Ask `ps` for all processes with an instance's uuid in their environment, by that."""
    command = ["ps", "axeww", "-o", "pid=,stat=,command="]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found: defaultdict[str, list[Process]] = defaultdict(list)
    for line in lines:
        if uuid := re.search(r"ZONESCHED_INSTANCE_UUID=(\S+)", line):
            found[uuid[1]].append(_process(line.split()))
    return found


def _process(words: Sequence[str]) -> Process:
    variables = dict(word.split("=", 1) for word in words if word.startswith("ZONESCHED_"))
    pairs = [variables[f"ZONESCHED_{name}"] for name in ("HOST", "FLAVOR", "IMAGE")]
    return Process(int(words[0]), words[1].startswith("T"), *pairs)


# -- steps -------------------------------------------------------------------------------------------------

Change = Callable[[Process], Process]


def same(before: Process) -> Process:
    """The same process, which runs."""
    return replace(before, is_stopped=False)


def stopped(before: Process) -> Process:
    """The same process, in the state T."""
    return replace(before, is_stopped=True)


def another(*, flavor: str = "", image: str = "", host: str = "", is_stopped: bool = False) -> Change:
    """A process with another pid, and these where they are given; a host of "any" may be any."""

    def change(before: Process) -> Process:
        return Process(0, is_stopped, host or before.host, flavor or before.flavor, image or before.image)

    return change


@dataclass(frozen=True)
class Step:
    """An action, the status that it leads to, and what becomes of the process; None: there is none then.

    `code`: why it fails after it was accepted.
    """

    body: Mapping[str, Any]
    status: str
    process: Change | None
    code: str = ""
    user: str = "tenant"

    @property
    def action(self) -> str:
        """Name in the list of the server's actions."""
        return next(iter(self.body)).removeprefix("os-")


BODIES: Mapping[str, Mapping[str, Any]] = {
    "reboot SOFT": {"reboot": {"type": "SOFT"}},
    "reboot HARD": {"reboot": {"type": "HARD"}},
    "rebuild": {"rebuild": {"imageRef": "newer"}},
    "resize": {"resize": {"flavorRef": "large"}},
}


def body_of(action: str) -> Mapping[str, Any]:
    return BODIES.get(action, {action: None})


OTHER = "the other host"
ANY = "any host"


def agreed(what: str, step: Step, before: Process, found: Sequence[Process]) -> Process:
    """Compare what `ps` says with what a step should do; return the process, the last one where none is."""
    if step.process is None:
        assert found == [], what
        return before
    (now,) = found
    expected = step.process(before)
    if expected.host == OTHER:
        assert now.host != before.host, what
    if expected.host in (OTHER, ANY):
        expected = replace(expected, host=now.host)
    if not expected.pid:
        assert now.pid != before.pid, what
        expected = replace(expected, pid=now.pid)
    assert now == expected, what
    return now


# -- the table ---------------------------------------------------------------------------------------------


def table() -> dict[tuple[str, str], str]:
    """Cells of the table: each action in each status."""
    page = PAGE.read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (.+) \|$", page.partition("<!-- actions -->")[2].partition("<!-- end -->")[0], re.M
    )
    (_, *statuses), _, *lines = (row.split(" | ") for row in rows)
    return {
        (action.strip("`"), status): cell
        for action, *cells in lines
        for status, cell in zip(statuses, cells, strict=True)
    }


TABLE = table()
DELETE = "delete"
ACTIONS = sorted({action for action, _ in TABLE} - {DELETE})
"""All that is refused in some status: where there is nothing to keep, a delete is final."""

STOP = Step(body_of("os-stop"), "SHUTOFF", None)
RESIZE = Step(body_of("resize"), "VERIFY_RESIZE", another(flavor="large", host=ANY))
REVERT = Step(body_of("revertResize"), "ACTIVE", another(flavor="small", host=ANY))
SUSPEND = Step(body_of("suspend"), "ACTIVE", same, code="suspend_unsupported")

WITHOUT_PROCESS = ("SHUTOFF", "SHELVED_OFFLOADED", "SOFT_DELETED")
BEFORE: Mapping[str, Sequence[Step]] = {
    "SHUTOFF": (STOP,),
    "PAUSED": (Step(body_of("pause"), "PAUSED", stopped),),
    "VERIFY_RESIZE": (RESIZE,),
    "REVERT_RESIZE": (RESIZE,),
    "SHELVED_OFFLOADED": (Step(body_of("shelve"), "SHELVED_OFFLOADED", None),),
    "SOFT_DELETED": (Step(body_of(DELETE), "SOFT_DELETED", None),),
}
"""Actions that lead to a status."""

HELD: Mapping[str, Step] = {
    "REBOOT": Step(body_of("reboot SOFT"), "ACTIVE", another()),
    "HARD_REBOOT": Step(body_of("reboot HARD"), "ACTIVE", another()),
    # A server is judged by the status to which its open actions lead.
    "SUSPENDED": SUSPEND,
    "REBUILD": Step(body_of("rebuild"), "ACTIVE", another(image="newer")),
    "RESIZE": RESIZE,
    "REVERT_RESIZE": REVERT,
}
"""Actions that lead to a status for as long as the agent does nothing, and what comes of them."""

AFTERWARDS: Mapping[tuple[str, str], Sequence[Step]] = {
    ("resize", "SHUTOFF"): (
        Step(body_of("confirmResize"), "SHUTOFF", None),
        Step(body_of("os-start"), "ACTIVE", another(flavor="large", host=ANY)),
    ),
    ("suspend", "REBOOT"): (Step(body_of("pause"), "PAUSED", stopped),),
    ("suspend", "HARD_REBOOT"): (Step(body_of("pause"), "PAUSED", stopped),),
    ("confirmResize", "VERIFY_RESIZE"): (
        Step({"resize": {"flavorRef": "small"}}, "VERIFY_RESIZE", another(flavor="small", host=ANY)),
    ),
}
"""Further actions on the server of a cell."""


def step_of(action: str, status: str) -> Step:
    """Result of a legal action in a status, as the table says and as the driver can."""
    body, has_rebooted = body_of(action), status in ("REBOOT", "HARD_REBOOT")
    match TABLE[action, status]:
        case "running" if action in ("unpause", "resume"):
            return Step(body, "ACTIVE", same)
        case "running":
            image, host = ("newer" if action == "rebuild" else ""), (ANY if action == "unshelve" else "")
            return Step(body, "ACTIVE", another(image=image, host=host))
        case "stopped":
            return Step(body, "SOFT_DELETED" if action == DELETE else "SHUTOFF", None)
        case "paused":
            return Step(body, "PAUSED", another(is_stopped=True) if has_rebooted else stopped)
        case "suspended":
            # With the suspend fails what it has superseded: a reboot that was not done is done no more.
            return SUSPEND
        case "offloaded":
            return Step(body, "SHELVED_OFFLOADED", None)
        case "moves" if action == "migrate":
            is_off = status in WITHOUT_PROCESS
            return Step(body, status, None if is_off else another(host=OTHER), user="leaf")
        case "moves":
            return replace(RESIZE, process=None if status == "SHUTOFF" else RESIZE.process)
        case "stays":
            return Step(body, "ACTIVE", same)
        case "moves back":
            return REVERT
    raise AssertionError(f"the table says {TABLE[action, status]} of {action} in {status}")


@dataclass(frozen=True)
class Part:
    """Part of one server: a status, and there the actions that are refused, or one that is not."""

    status: str
    refused: Sequence[str] = ()
    steps: Sequence[Step] = ()

    @property
    def name(self) -> str:
        return f"{[next(iter(step.body)) for step in self.steps]} in {self.status}"


def parts() -> list[Part]:
    """A part for each legal cell, and one of each status for all that is refused there."""
    statuses = dict.fromkeys([*(status for _, status in TABLE), *HELD])
    legal = [cell for cell, what in TABLE.items() if what != "-"]
    return [
        *(Part(s, refused=[a for a in ACTIONS if TABLE.get((a, s), "-") == "-"]) for s in statuses),
        *(Part(s, steps=(step_of(a, s), *AFTERWARDS.get((a, s), ()))) for a, s in legal),
    ]


# -- the servers -------------------------------------------------------------------------------------------


@dataclass
class Player:
    """The server that plays a part, and its process."""

    uuid: str
    part: Part
    process: Process


@dataclass(frozen=True)
class Scene:
    """The three zones, the users who act, and the agent's way to its zone."""

    tree: Tree
    way: Link
    booted: list[str] = field(default_factory=list)

    def client(self, user: str) -> ZoneClient:
        admins = {"root": self.tree.root_admin, "leaf": self.tree.admins["zone-2-0"]}
        return self.tree.tenant if user == "tenant" else admins[user]

    @contextmanager
    def agent_held(self) -> Iterator[None]:
        """Let no answer of its zone reach the agent for the block, and none to what it asked in it."""
        self.way.set(Way.HANG)
        try:
            yield
        finally:
            self.way.set(Way.PASS)

    def boot(self, flavor: str, count: int) -> list[str]:
        """Boot so many servers in one call; return their ids."""
        server = {"name": "one", "flavorRef": flavor, "imageRef": "plain", "num_instances": count}
        made = self.tree.tenant.call("POST", "/zones/boot", {"server": server})
        found = self.tree.tenant.call("GET", f"/reservations/{made['reservation_id']}")
        uuids = [one["uuid"] for one in found["reservation"]["instances"]]
        self.booted.extend(uuids)
        return uuids

    def fits(self) -> bool:
        """Tell whether the hosts are there."""
        server = {"name": "one", "flavorRef": "small", "imageRef": "plain", "num_instances": 1}
        found = self.tree.tenant.call("POST", "/zones/boot", {"server": server, "dry_run": True})
        return bool(found["dry_run"]["fits"])

    def seen(self) -> dict[str, tuple[str, str | None]]:
        """Status and task state of each server."""
        paths = ("/servers/detail", "/servers/detail?status=SOFT_DELETED")
        servers = [one for path in paths for one in self.tree.tenant.call("GET", path)["servers"]]
        return {one["id"]: (one["status"], one["OS-EXT-STS:task_state"]) for one in servers}

    def wait_for(self, status_of: Mapping[str, str]) -> None:
        """Wait until these servers have these statuses."""
        eventually(
            f"statuses are {sorted(set(status_of.values()))}",
            lambda: status_of.items() <= {(uuid, one[0]) for uuid, one in self.seen().items()},
        )

    def code_of(self, uuid: str, body: Mapping[str, Any], user: str = "tenant") -> str:
        """Ask for an action, or a delete; return why it was refused, "" where it was accepted."""
        path = f"/servers/{uuid}"
        try:
            if DELETE in body:
                self.client(user).call("DELETE", path)
            else:
                self.client(user).call("POST", f"{path}/action", body)
        except ZoneFault as fault:
            assert fault.status == 409, fault
            return fault.code
        return ""

    def refuse(self, uuid: str, actions: Sequence[str], code: str, status: str) -> None:
        for action in actions:
            user = "root" if action == "migrate" else "tenant"
            assert self.code_of(uuid, body_of(action), user) == code, f"{action} in {status}"

    def play(self, steps: Sequence[tuple[Player, Step]]) -> None:
        """Take an action on each of these servers, and compare once all of them have ended."""
        for player, step in steps:
            assert self.code_of(player.uuid, step.body, step.user) == "", player.part.name
        self.compare(steps)

    def compare(self, steps: Sequence[tuple[Player, Step]]) -> None:
        """Wait for the actions on these servers; compare their ends, statuses and processes."""
        waiting = {player.uuid for player, _ in steps}
        eventually("no task is left", lambda: all(self.seen()[uuid][1] is None for uuid in waiting))
        for player, step in steps:
            eventually(f"{player.part.name} ends", lambda p=player, s=step: self.last(p, s)[1])
        seen, found = self.seen(), processes()
        for player, step in steps:
            what = f"{step.action}: {player.part.name}"
            name, _, code = self.last(player, step)
            assert (name, code, seen[player.uuid]) == (step.action, step.code, (step.status, None)), what
            player.process = agreed(what, step, player.process, found.get(player.uuid, []))

    def last(self, player: Player, step: Step) -> tuple[str, str | None, str]:
        """The newest action on a server: name, result and code."""
        path = f"/servers/{player.uuid}/os-instance-actions"
        line = self.client(step.user).call("GET", path)["instanceActions"][0]
        return line["action"], line["result"], line["error_code"]


@pytest.fixture
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
        for flavor in (SMALL, LARGE, HUGE):
            root.call("POST", "/flavors", {"flavor": flavor})
        for name in ("plain", "newer"):
            root.call("POST", "/images", {"image": {"id": name, "name": name}})
        way = Link(tree.zones[-1].site.port)
        options = {
            "--zone-url": way.url,
            "--username": "machine",
            "--password-file": str(folder / "secret"),
            "--inventory": str(folder / "hosts.csv"),
            "--connection-type": "process",
            "--state-folder": str(folder / "agent"),
            "--process-command": COMMAND,
            "--poll-seconds": "0.1",
        }
        words = [word for pair in options.items() for word in pair]
        with launched("zonesched.compute.main", *words), closing(way):
            scene = Scene(tree, way)
            yield scene
        for process in [p for uuid, found in processes().items() if uuid in scene.booted for p in found]:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


def cast(scene: Scene) -> list[Player]:
    """Boot a server for each part, and bring it into its status, as far as the agent goes on."""
    eventually("there is room", lambda: scene.fits())
    cast_ = parts()
    uuids = scene.boot("small", len(cast_))
    scene.wait_for(dict.fromkeys(uuids, "ACTIVE"))
    found = processes()
    players = []
    for uuid, part in zip(uuids, cast_, strict=True):
        (process,) = found[uuid]
        assert (process.flavor, process.image, process.is_stopped) == ("small", "plain", False)
        players.append(Player(uuid, part, process))
    rounds = zip_longest(*([(p, step) for step in BEFORE.get(p.part.status, ())] for p in players))
    for together in rounds:
        scene.play([one for one in together if one is not None])
    return players


def test_in_each_status_each_action_does_what_the_table_says_and_ps_agrees(scene: Scene) -> None:
    players = cast(scene)
    (failed,) = scene.boot("huge", 1)
    scene.wait_for({failed: "ERROR"})
    scene.refuse(failed, ACTIONS, "has_ended", "ERROR")

    with scene.agent_held():
        (unbuilt,) = scene.boot("small", 1)
        scene.wait_for({unbuilt: "BUILD"})
        scene.refuse(unbuilt, ACTIONS, "not_built", "BUILD")
        between = [p for p in players if p.part.status in HELD]
        for player in between:
            assert scene.code_of(player.uuid, HELD[player.part.status].body) == ""
        shown = {p.uuid: "ACTIVE" if p.part.status == "SUSPENDED" else p.part.status for p in between}
        scene.wait_for(shown)
        take_first_steps(scene, between)
    take_first_steps(scene, [p for p in players if p.part.status not in HELD])

    first = {p.uuid: p.part.steps[0] if p.part.steps else HELD.get(p.part.status) for p in players}
    scene.compare([(p, step) for p in players if (step := first[p.uuid]) is not None])
    nothing_happened(scene, [p for p in players if first[p.uuid] is None])
    for number in (1, 2):
        scene.play([(p, p.part.steps[number]) for p in players if len(p.part.steps) > number])
    what_no_driver_can(scene, next(p for p in players if first[p.uuid] is None and p.part.status == "ACTIVE"))

    for uuid in scene.booted:
        scene.tree.tenant.call("POST", f"/servers/{uuid}/action", {"forceDelete": None})
    eventually("nothing is left", lambda: not processes().keys() & set(scene.booted))
    assert scene.seen() == {}


def take_first_steps(scene: Scene, players: Sequence[Player]) -> None:
    """Ask these servers for all that is refused in their status, or for the action of their cell."""
    for player in players:
        scene.refuse(player.uuid, player.part.refused, "wrong_status", player.part.status)
        for step in player.part.steps[:1]:
            assert scene.code_of(player.uuid, step.body, step.user) == "", player.part.name


def nothing_happened(scene: Scene, players: Sequence[Player]) -> None:
    """Check that servers which refused all they were asked for are as they were."""
    seen, found = scene.seen(), processes()
    for player in players:
        status = player.part.status
        assert seen[player.uuid] == (status, None)
        assert found.get(player.uuid, []) == ([] if status in WITHOUT_PROCESS else [player.process]), status


def what_no_driver_can(scene: Scene, player: Player) -> None:
    """Ask an ACTIVE server for all else that there is."""
    live = {"host": None, "block_migration": False}
    for body, user, code in (
        ({"changePassword": {"adminPass": "x"}}, "tenant", "password_unsupported"),
        ({"createImage": {"name": "x"}}, "tenant", "snapshot_unsupported"),
        ({"rescue": None}, "tenant", "rescue_unsupported"),
        ({"os-resetState": {"state": "error"}}, "root", "status_is_derived"),
        ({"os-migrateLive": live}, "root", "live_migration_unsupported"),
        ({"evacuate": {}}, "leaf", "host_is_up"),
        ({"lock": None}, "tenant", ""),
        ({"os-stop": None}, "tenant", "server_locked"),
        ({"unlock": None}, "tenant", ""),
    ):
        assert scene.code_of(player.uuid, body, user) == code, body
    nothing_happened(scene, [player])
    console = scene.tree.tenant.call("POST", f"/servers/{player.uuid}/action", {"os-getConsoleOutput": {}})
    assert console["output"].endswith("up\n")
