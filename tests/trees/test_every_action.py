"""Every action of OpenStack's Compute API has a clear answer: it is taken, or refused with a stable code."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from tests.builders.boots import FLAVOR
from tests.builders.played_agent import PlayedAgent
from tests.builders.tree import Answer, Tree, a_host
from zonesched.api.schemas.actions import ActionBody
from zonesched.model.caller import Role
from zonesched.model.unsupported_action import LACK_OF
from zonesched.services.catalog import users

pytestmark = pytest.mark.once

NETWORKS, SNAPSHOT = "networks_unsupported", "snapshot_unsupported"
PASSWORD, RESCUE, SCREEN = "password_unsupported", "rescue_unsupported", "console_type_unavailable"

ANSWERS: list[tuple[str, Any, int, str]] = [
    ("addFixedIp", {"networkId": "n-1"}, 409, NETWORKS),
    ("addFloatingIp", {"address": "10.0.0.9"}, 409, NETWORKS),
    ("addSecurityGroup", {"name": "web"}, 409, NETWORKS),
    ("changePassword", {"adminPass": "secret"}, 409, PASSWORD),
    ("createBackup", {"name": "b", "backup_type": "daily", "rotation": 1}, 409, SNAPSHOT),
    ("createBackup", {"name": "b", "backup_type": "", "rotation": "1"}, 409, SNAPSHOT),
    ("createImage", {"name": "snap"}, 409, SNAPSHOT),
    ("forceDelete", {}, 202, ""),
    ("injectNetworkInfo", {}, 409, NETWORKS),
    ("lock", None, 202, ""),
    ("os-getConsoleOutput", {"length": 50}, 409, "console_unsupported"),
    ("os-getRDPConsole", {"type": "rdp-html5"}, 400, SCREEN),
    ("os-getSPICEConsole", {"type": "spice-html5"}, 400, SCREEN),
    ("os-getSerialConsole", {"type": "serial"}, 400, SCREEN),
    ("os-getVNCConsole", {"type": "novnc"}, 400, SCREEN),
    ("os-migrateLive", {"host": None, "block_migration": "auto"}, 403, "role_forbidden"),
    ("os-resetState", {"state": "active"}, 403, "role_forbidden"),
    ("os-start", None, 409, "wrong_status"),
    ("os-stop", None, 202, ""),
    ("pause", None, 202, ""),
    ("reboot", {"type": "SOFT"}, 202, ""),
    ("rebuild", {"imageRef": "linux"}, 202, ""),
    ("removeFixedIp", {"address": "10.0.0.9"}, 409, NETWORKS),
    ("removeFloatingIp", {"address": "10.0.0.9"}, 409, NETWORKS),
    ("removeSecurityGroup", {"name": "web"}, 409, NETWORKS),
    ("rescue", None, 409, RESCUE),
    ("resetNetwork", None, 409, NETWORKS),
    ("restore", {}, 409, "wrong_status"),
    ("resume", None, 409, "wrong_status"),
    ("shelveOffload", None, 403, "role_forbidden"),
    ("suspend", None, 202, ""),
    ("trigger_crash_dump", None, 409, "crash_dump_unsupported"),
    ("unlock", None, 202, ""),
    ("unpause", None, 409, "wrong_status"),
    ("unrescue", {}, 409, RESCUE),
]
MOVES: list[tuple[str, Any]] = [
    ("confirmResize", None),
    ("migrate", None),
    ("resize", {"flavorRef": "small"}),
    ("revertResize", None),
    ("shelve", None),
    ("unshelve", None),
]
"""Actions whose answers other modules test."""

ADMINS_ALONE = "evacuate"

WRONG: list[tuple[str, Any, str]] = [
    ("addFixedIp", {"networkId": 1}, "addFixedIp.networkId"),
    ("addFloatingIp", {"address": None}, "addFloatingIp.address"),
    ("addSecurityGroup", {}, "addSecurityGroup.name"),
    ("changePassword", {"adminPass": 5}, "changePassword.adminPass"),
    ("changePassword", None, "body"),
    ("createBackup", {"name": "b", "backup_type": "daily", "rotation": -1}, "createBackup.rotation"),
    ("createImage", {"name": ""}, "createImage.name"),
    ("createImage", {"name": "a", "metadata": []}, "createImage.metadata"),
    ("createImage", None, "body"),
    ("forceDelete", [], "forceDelete"),
    ("os-getConsoleOutput", {"length": "many"}, "os-getConsoleOutput.length"),
    ("os-getConsoleOutput", {"length": -2}, "os-getConsoleOutput.length"),
    ("os-getConsoleOutput", None, "body"),
    ("os-getRDPConsole", {"type": "x"}, "os-getRDPConsole.type"),
    ("os-getSPICEConsole", {}, "os-getSPICEConsole.type"),
    ("os-getSerialConsole", [], "os-getSerialConsole"),
    ("os-getVNCConsole", {"type": "novnc", "port": 1}, "os-getVNCConsole.port"),
    ("os-migrateLive", {"block_migration": "yes"}, "os-migrateLive.block_migration"),
    ("os-migrateLive", None, "body"),
    ("os-resetState", {"state": "ACTIVE"}, "os-resetState.state"),
    ("removeFixedIp", "10.0.0.9", "removeFixedIp"),
    ("removeFloatingIp", {}, "removeFloatingIp.address"),
    ("removeSecurityGroup", {"name": 1}, "removeSecurityGroup.name"),
    ("rescue", {"adminPass": 1}, "rescue.adminPass"),
    ("resetNetwork", 0, "resetNetwork"),
    ("trigger_crash_dump", "now", "trigger_crash_dump"),
    ("unrescue", False, "unrescue"),
]


class Scene:
    """A zone with a member's running server, and a member of another project."""

    def __init__(self, folder: Path) -> None:
        self.tree = Tree(folder)
        self.node = self.tree.add("zone", hosts_=[a_host("h1")])
        admin = self.node.client()
        admin.post("/flavors", FLAVOR)
        admin.post("/images", {"image": {"id": "linux", "name": "linux"}})
        store, clock = self.node.zone.store, self.node.zone.clock
        self.node.secrets["stranger"] = users.create(store, clock, "stranger", Role.MEMBER, "other").secret
        self.agent = PlayedAgent(self.node)
        self.gone = self.boot()
        self.node.client("member").delete(f"/servers/{self.gone}")

    def boot(self) -> str:
        body = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 1}}
        made = self.node.client("member").post("/zones/boot", body)
        self.reservation_id = made.json["reservation_id"]
        self.tree.settle()
        self.agent.converge()
        shown = self.node.client("member").get(f"/reservations/{self.reservation_id}").json["reservation"]
        return str(shown["instances"][0]["uuid"])

    def act(self, uuid: str, body: Any, user: str = "member") -> Answer:
        return self.node.client(user).post(f"/servers/{uuid}/action", body)

    def server(self, uuid: str) -> dict[str, Any]:
        found: dict[str, Any] = self.node.client("member").get(f"/servers/{uuid}").json["server"]
        return found


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("scene"))


@pytest.fixture(scope="module")
def uuid(scene: Scene) -> str:
    """A server that takes no action: those that do get one of their own."""
    return scene.boot()


def code(reply: Answer) -> tuple[int, str]:
    if reply.status < 300:
        return reply.status, ""
    ((fault,),) = [reply.json.values()]
    return reply.status, fault["error_code"]


@pytest.mark.parametrize(("key", "value", "status", "expected"), ANSWERS)
def test_each_action_has_its_answer(
    scene: Scene, uuid: str, key: str, value: Any, status: int, expected: str
) -> None:
    one = scene.boot() if status == 202 else uuid
    before = scene.server(one)

    reply = scene.act(one, {key: value})

    assert code(reply) == (status, expected)
    if status != 202:
        assert scene.server(one) == before
    else:
        scene.node.client().delete(f"/servers/{one}")


@pytest.mark.parametrize(("key", "value"), [*MOVES, *((key, value) for key, value, _, _ in ANSWERS)])
def test_another_projects_server_and_a_deleted_one_are_not_found(
    scene: Scene, uuid: str, key: str, value: Any
) -> None:
    assert code(scene.act(uuid, {key: value}, "stranger")) == (404, "instance_not_found")
    assert code(scene.act(scene.gone, {key: value})) == (404, "instance_not_found")
    assert scene.act(uuid, {key: value}, "reader").status == 403


@pytest.mark.parametrize(("key", "value", "field"), WRONG)
def test_a_wrong_type_is_refused_by_its_field(
    scene: Scene, uuid: str, key: str, value: Any, field: str
) -> None:
    reply = scene.act(uuid, {key: value})

    assert (reply.status, reply.json["badRequest"]["field"]) == (400, field)


def test_two_actions_in_one_body_and_an_unknown_one_are_refused(scene: Scene, uuid: str) -> None:
    two = {"createImage": {"name": "snap"}, "os-stop": None}

    assert code(scene.act(uuid, two)) == (400, "invalid_value")
    assert code(scene.act(uuid, {"evaporate": None})) == (400, "unknown_field")
    assert scene.server(uuid)["status"] == "ACTIVE"


def test_a_member_is_refused_what_admins_alone_do_whosever_server_it_is(scene: Scene, uuid: str) -> None:
    for one in (uuid, scene.gone):
        assert code(scene.act(one, {ADMINS_ALONE: {}})) == (403, "forbidden")
        assert code(scene.act(one, {ADMINS_ALONE: {}}, "stranger")) == (403, "forbidden")


def test_every_action_is_played() -> None:
    played = {key for key, *_ in ANSWERS} | {key for key, _ in MOVES} | {ADMINS_ALONE}
    assert played == {field.alias or name for name, field in ActionBody.model_fields.items()}


def test_every_action_that_no_zone_can_do_is_played() -> None:
    assert LACK_OF.keys() <= {key for key, *_ in ANSWERS}


def test_a_status_is_set_by_nobody(scene: Scene, uuid: str) -> None:
    for state in ("active", "error"):
        reply = scene.act(uuid, {"os-resetState": {"state": state}}, "admin")

        assert code(reply) == (409, "status_is_derived")
        assert scene.server(uuid)["status"] == "ACTIVE"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("os-migrateLive", {"host": "h1", "block_migration": True}, "live_migration_unsupported"),
        ("shelveOffload", None, "offloads_by_itself"),
    ],
)
def test_what_only_admins_ask_for_is_refused_to_them_by_its_name(
    scene: Scene, uuid: str, key: str, value: Any, expected: str
) -> None:
    assert code(scene.act(uuid, {key: value}, "admin")) == (409, expected)
    assert scene.server(uuid)["status"] == "ACTIVE"


def test_a_server_is_deleted_by_force_unless_it_is_locked(scene: Scene) -> None:
    one = scene.boot()
    scene.act(one, {"lock": None}, "admin")

    locked = scene.act(one, {"forceDelete": None})
    deleted = scene.act(one, {"forceDelete": None}, "admin")

    assert code(locked) == (409, "server_locked")
    assert deleted.status == 202
    assert scene.node.client("member").get(f"/servers/{one}").status == 404


def test_a_server_is_deleted_by_force_with_the_empty_text_that_gophercloud_sends(scene: Scene) -> None:
    one = scene.boot()

    deleted = scene.act(one, {"forceDelete": ""})

    assert code(deleted) == (202, "")
    assert scene.node.client("member").get(f"/servers/{one}").status == 404


@pytest.mark.parametrize("key", ["forceDelete", "createImage"])
def test_a_boot_takes_no_action_that_is_of_one_server(scene: Scene, key: str) -> None:
    one = scene.boot()
    value = {"name": "snap"} if key == "createImage" else None

    reply = scene.node.client("member").post(f"/reservations/{scene.reservation_id}/action", {key: value})

    if key == "forceDelete":
        assert code(reply) == (400, "invalid_value")
    else:
        assert [line["error_code"] for line in reply.json["refused"]] == [SNAPSHOT]
    assert scene.server(one)["status"] == "ACTIVE"


# -- wrong types, from the schemas -------------------------------------------------------------------------


WRONG_VALUES: tuple[Any, ...] = (True, 7, "text", [])


def wrong_bodies() -> list[tuple[str, Any]]:
    """For each action, values of no type that it takes, and its members one by one with such a value."""
    found: list[tuple[str, Any]] = []
    for name, field in ActionBody.model_fields.items():
        key = field.alias or name
        found += [(key, value) for value in WRONG_VALUES]
        for schema in filter(is_schema, get_args(field.annotation)):
            members = schema.model_json_schema(by_alias=True)["properties"]
            found += [(key, {member: {"a": {}}}) for member in members]
            found.append((key, {"no_such_member": None}))
    return found


def is_schema(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def test_no_member_of_any_action_takes_a_value_of_another_type(scene: Scene, uuid: str) -> None:
    before = scene.server(uuid)
    for key, value in wrong_bodies():
        reply = scene.act(uuid, {key: value}, "admin")

        assert reply.status == 400, (key, value, reply.body)
        field = reply.json["badRequest"]["field"]
        assert field == "body" or field.split(".")[0] == key, (key, value, field)
    assert len(wrong_bodies()) > 4 * len(ActionBody.model_fields)
    assert scene.server(uuid) == before
