"""Rebuilds: the same server on the same host from another image, judged where the host is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.builders.boots import FLAVOR, boot
from tests.builders.played_agent import PlayedAgent, agents_of
from tests.builders.scenes import built_once
from tests.builders.tree import Answer, Node, Tree, a_host
from tests.builders.wsgi_transport import Dead, Duplicate, Fault, LostReply
from zonesched.model.caller import Role
from zonesched.services.audit import audit, audit_edges
from zonesched.services.catalog import users
from zonesched.services.hosts import hosts
from zonesched.services.state import stored_secrets
from zonesched.store import children, instance_states, instances
from zonesched.store import tables as t

pytestmark = pytest.mark.same_statements

OLD, NEW, ARM, TRAIT, LARGE = "old", "new", "arm", "trait", "large"
STOP = {"os-stop": None}


def rebuild(image: str, **more: Any) -> dict[str, Any]:
    return {"rebuild": {"imageRef": image, **more}}


@built_once
def a_tree(folder: Path, **leaf: Any) -> Tree:
    """A tree of three levels with one server from the image `old` in the lowest zone."""
    tree = Tree(folder)
    tree.add("root")
    tree.add("region", parent="root")
    tree.add("leaf", parent="region", hosts_=[a_host("h1", capabilities=X86)], **leaf)
    tree.poll()
    admin = tree.nodes["root"].client()
    admin.post("/flavors", FLAVOR)
    for name, more in IMAGES.items():
        image = {"id": f"id-{name}", "name": name, **more}
        assert admin.post("/images", {"image": image}).status == 201
    boot(tree, imageRef=OLD, num_instances=1, metadata={"a": "1"})
    tree.settle()
    go_on(tree, agents_of(tree)["leaf"])
    return tree


def go_on(tree: Tree, agent: PlayedAgent) -> None:
    for _ in range(3):
        tree.clock.advance(10.0)
        tree.settle(2)
        agent.converge()
    tree.settle(3)


class Scene:
    """Such a tree, with the agent of the lowest zone."""

    def __init__(self, folder: Path, **leaf: Any) -> None:
        self.tree = a_tree(folder, **leaf)
        self.root, self.leaf = self.tree.nodes["root"], self.tree.nodes["leaf"]
        self.agent = agents_of(self.tree)["leaf"]
        (line,) = self.agent.work()
        self.uuid = str(line["uuid"])

    def act(self, body: Any, user: str = "admin") -> Answer:
        return self.root.client(user).post(f"/servers/{self.uuid}/action", body)

    def go_on(self) -> None:
        go_on(self.tree, self.agent)

    def server(self) -> dict[str, Any]:
        found: dict[str, Any] = self.root.client().get(f"/servers/{self.uuid}").json["server"]
        return found

    def shown(self) -> tuple[str, str | None, str]:
        """Status, task and the name of the image."""
        found = self.server()
        return found["status"], found["OS-EXT-STS:task_state"], found["image"]["name"]

    def ended(self) -> tuple[str, str | None, str]:
        """The last action."""
        path = f"/servers/{self.uuid}/os-instance-actions"
        line = self.root.client().get(path).json["instanceActions"][0]
        return line["action"], line["result"], line["error_code"]


X86 = {"supported_instances": [["x86_64", "qemu", "hvm"]]}
AARCH64 = {"supported_instances": [["aarch64", "qemu", "hvm"]]}
IMAGES: dict[str, dict[str, Any]] = {
    OLD: {},
    NEW: {"properties": {"hw_architecture": "x86_64"}},
    ARM: {"properties": {"hw_architecture": "aarch64"}},
    TRAIT: {"properties": {"trait:CUSTOM_X": "required"}},
    LARGE: {"min_ram": 4096},
}


def code(reply: Answer) -> tuple[int, str]:
    ((fault,),) = [reply.json.values()]
    return reply.status, fault["error_code"]


def test_a_server_in_the_lowest_zone_is_rebuilt_from_the_root(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    claimed = [view.resources["VCPU"].used for view in hosts.list_hypervisors(scene.leaf.zone)]

    reply = scene.act(rebuild(NEW))
    under_way = scene.shown()
    refused = scene.act(STOP)
    scene.go_on()

    assert (reply.status, reply.json["server"]["id"]) == (202, scene.uuid)
    assert reply.json["server"]["status"] == "REBUILD"
    assert under_way == ("REBUILD", "rebuilding", OLD)
    assert code(refused) == (409, "wrong_status")
    assert scene.agent.rebuilds == {scene.uuid: [NEW]}
    assert scene.shown() == ("ACTIVE", None, NEW)
    assert scene.ended() == ("rebuild", "done", "")
    assert [view.resources["VCPU"].used for view in hosts.list_hypervisors(scene.leaf.zone)] == claimed
    assert scene.leaf.client().get(f"/servers/{scene.uuid}").json["server"]["image"]["name"] == NEW


def test_the_answer_to_a_rebuild_has_the_members_of_the_server_as_it_is_shown(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    answer = scene.act(rebuild(NEW)).json["server"]

    assert answer.keys() == {*scene.server(), "adminPass", "user_data"}
    assert answer["server_groups"] == []


def test_the_answer_to_a_rebuild_has_the_image_asked_for(tmp_path: Path) -> None:
    # given a server
    scene = Scene(tmp_path)

    # when it is rebuilt, and once more from the image that it had at first
    first = scene.act(rebuild(NEW)).json["server"]
    still = scene.shown()
    scene.go_on()
    second = scene.act(rebuild(OLD)).json["server"]

    # then each answer has the new image, as openstack server rebuild prints it; the server has it at the end
    assert (first["image"]["name"], second["image"]["name"]) == (NEW, OLD)
    assert still == ("REBUILD", "rebuilding", OLD)


def test_a_rebuild_changes_the_settings_that_it_gives(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    first = scene.server()["OS-EXT-SRV-ATTR:hostname"]
    names = ("name", "accessIPv4", "OS-DCF:diskConfig", "OS-EXT-SRV-ATTR:hostname")

    scene.act(rebuild(NEW, name="new", accessIPv4="192.0.2.1", **{"OS-DCF:diskConfig": "AUTO"}))
    scene.go_on()
    renamed = scene.server()
    scene.act(rebuild(NEW, hostname="own"))

    assert [renamed[name] for name in names] == ["new", "192.0.2.1", "AUTO", first]
    assert scene.server()["OS-EXT-SRV-ATTR:hostname"] == "own"


def test_a_rebuild_stays_rebuilt_whatever_follows(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    for body in (rebuild(NEW), STOP, rebuild(OLD), {"os-start": None}):
        assert scene.act(body).status == 202
        scene.go_on()

    assert scene.agent.rebuilds == {scene.uuid: [NEW, OLD]}
    assert scene.shown() == ("ACTIVE", None, OLD)


def test_a_stopped_server_is_rebuilt_and_stays_stopped(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.act(STOP)
    scene.go_on()

    scene.act(rebuild(NEW))
    under_way = scene.shown()
    scene.go_on()

    assert (under_way, scene.shown()) == (("REBUILD", "rebuilding", OLD), ("SHUTOFF", None, NEW))


@pytest.mark.parametrize(
    ("leaf", "image"),
    [
        ({"enabled_filters": ["ImagePropertiesFilter"]}, ARM),
        ({"enabled_filters": ["TraitsFilter"]}, TRAIT),
        ({"enabled_filters": ["ComputeFilter"], "host_source": "sql"}, TRAIT),
    ],
)
def test_an_image_that_the_host_does_not_take_is_refused_where_the_host_is(
    tmp_path: Path, leaf: dict[str, Any], image: str
) -> None:
    scene = Scene(tmp_path, **leaf)

    reply = scene.act(rebuild(image))
    scene.go_on()
    refused = scene.ended()
    scene.act(STOP)
    scene.go_on()

    assert reply.status == 202
    assert refused == ("rebuild", "error", "image_unfit")
    assert scene.agent.rebuilds == {scene.uuid: []}
    assert scene.shown() == ("SHUTOFF", None, OLD)
    assert scene.act(rebuild(NEW)).status == 202
    scene.go_on()
    assert scene.shown() == ("SHUTOFF", None, NEW)


@pytest.mark.parametrize("edge", ["region", "leaf"])
def test_a_refused_rebuild_that_is_told_again_is_not_taken_for_another_action(
    tmp_path: Path, edge: str
) -> None:
    # given two processes that tell the same: the second answer comes after the refusal
    scene = Scene(tmp_path, enabled_filters=["ImagePropertiesFilter"])
    scene.tree.network.fault(scene.tree.nodes[edge].url, Duplicate(path="desired"))

    # when
    scene.act(rebuild(ARM))
    scene.go_on()

    # then
    stored = scene.root.zone.store.read(lambda tx: instance_states.read(tx, [scene.uuid]))[scene.uuid]
    assert scene.ended() == ("rebuild", "error", "image_unfit")
    assert scene.shown() == ("ACTIVE", None, OLD)
    assert (stored.state.desired.generation, stored.state.observed.generation) == (1, 1)


@pytest.mark.parametrize("enabled", [["CoreFilter"], ["AvailabilityZoneFilter", "ComputeFilter"]])
def test_filters_that_do_not_hold_for_a_rebuild_are_not_asked(tmp_path: Path, enabled: list[str]) -> None:
    scene = Scene(tmp_path, enabled_filters=enabled)
    assert scene.leaf.compute is not None
    hosts.register(scene.leaf.zone, scene.leaf.compute, "agent", [a_host("h1", vcpus=1)])

    scene.act(rebuild(ARM))
    scene.go_on()

    assert (scene.ended()[1], scene.shown()[2]) == ("done", ARM)


def test_what_the_driver_cannot_leaves_the_server_as_it_was(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.agent.refuses["rebuild"] = "rebuild_unsupported"

    scene.act(rebuild(NEW))
    scene.go_on()

    assert scene.ended() == ("rebuild", "error", "rebuild_unsupported")
    assert scene.shown() == ("ACTIVE", None, OLD)


@pytest.mark.parametrize("kind", [LostReply, Duplicate, Dead])
@pytest.mark.parametrize("edge", ["region", "leaf"])
def test_a_rebuild_happens_once_whatever_becomes_of_the_call(
    tmp_path: Path, edge: str, kind: type[Fault]
) -> None:
    scene = Scene(tmp_path)
    scene.tree.network.fault(scene.tree.nodes[edge].url, kind(times=2, path="desired"))

    scene.act(rebuild(NEW))
    scene.go_on()

    assert scene.agent.rebuilds == {scene.uuid: [NEW]}
    assert (scene.shown(), scene.ended()) == (("ACTIVE", None, NEW), ("rebuild", "done", ""))
    for node in scene.tree.nodes.values():
        assert list(audit.run(node.zone)) == []
        assert list(audit_edges.across_edges(node.zone)) == []


def test_the_parts_that_an_owner_keeps_change_with_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    more = {"name": "renamed", "metadata": {"b": "2"}, "description": "second", "user_data": "c2Vjb25k"}

    scene.act(rebuild(NEW, **more))
    scene.go_on()
    found = scene.server()
    row = scene.root.zone.store.read(lambda tx: instances.read_by_uuid(tx, [scene.uuid]))[scene.uuid]

    assert (found["name"], found["metadata"], found["description"]) == ("renamed", {"b": "2"}, "second")
    box = scene.root.zone.secret_box
    assert stored_secrets.user_data(box, row.reservation_id, row.passthrough) == "c2Vjb25k"
    scene.act(rebuild(NEW, description=None, user_data=None))
    assert scene.server()["description"] is None


@pytest.mark.parametrize(("minor", "user_data"), [(56, []), (57, [None])])
def test_the_answer_to_a_rebuild_has_what_openstacks_clients_look_for(
    tmp_path: Path, minor: int, user_data: list[None]
) -> None:
    scene = Scene(tmp_path)

    version = {"OpenStack-API-Version": f"compute 2.{minor}"}
    reply = scene.root.client().post(f"/servers/{scene.uuid}/action", rebuild(NEW), headers=version)

    server = reply.json["server"]
    assert (reply.status, len(server["adminPass"])) == (202, 12)
    assert [server[name] for name in server if name == "user_data"] == user_data


def test_a_lower_zone_is_told_an_image_once_and_only_with_its_rebuild(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.tree.network.sent.clear()

    scene.act(rebuild(NEW))
    scene.go_on()
    scene.act(STOP)
    scene.go_on()

    told = [one.body for one in scene.tree.network.sent if one.url.endswith("/servers/desired")]
    assert [b'"images"' in body for body in told] == [True, True, False, False]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (rebuild("nowhere"), (400, "image_unknown")),
        (rebuild(LARGE), (400, "flavor_too_small")),
        ({"rebuild": None}, (400, "invalid_value")),
        ({"rebuild": {}}, (400, "missing_field")),
        (rebuild(NEW, adminPass="x"), (409, "password_unsupported")),
        (rebuild(NEW, trusted_image_certificates=["c"]), (400, "image_certificates_unsupported")),
        (rebuild(NEW, hostname="-"), (400, "invalid_value")),
        (rebuild(NEW, preserve_ephemeral=True), (400, "invalid_value")),
        (rebuild(NEW, user_data="not base64"), (400, "invalid_value")),
        (rebuild(NEW, metadata={"a": 1}), (400, "wrong_type")),
    ],
)
def test_a_rebuild_that_cannot_be_is_refused_and_changes_nothing(
    scene: Scene, body: Any, expected: tuple[int, str]
) -> None:
    before = scene.server()

    reply = scene.act(body)

    assert code(reply) == expected
    assert scene.server() == before


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("scene"))


def test_a_rebuild_while_another_action_is_under_way_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.act(STOP)

    assert code(scene.act(rebuild(NEW))) == (409, "action_under_way")


def test_another_projects_server_and_a_deleted_one_are_not_found(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    store, clock = scene.root.zone.store, scene.root.zone.clock
    scene.root.secrets["stranger"] = users.create(store, clock, "stranger", Role.MEMBER, "other").secret

    assert code(scene.act(rebuild(NEW), "stranger")) == (404, "instance_not_found")
    assert scene.act(rebuild(NEW), "reader").status == 403
    scene.root.client().delete(f"/servers/{scene.uuid}")
    assert code(scene.act(rebuild(NEW))) == (404, "instance_not_found")


@built_once
def a_zone(folder: Path) -> Tree:
    tree = Tree(folder)
    node = tree.add("zone", hosts_=[a_host(name, capabilities=X86) for name in ("h1", "h2")])
    node.client().post("/flavors", FLAVOR)
    for name, more in IMAGES.items():
        node.client().post("/images", {"image": {"id": f"id-{name}", "name": name, **more}})
    return tree


def one_zone(folder: Path) -> tuple[Tree, Node, PlayedAgent]:
    tree = a_zone(folder)
    return tree, tree.nodes["zone"], PlayedAgent(tree.nodes["zone"])


@pytest.mark.own_statements
def test_all_servers_of_a_boot_are_rebuilt(tmp_path: Path) -> None:
    tree, node, agent = one_zone(tmp_path)
    body = {"server": {"name": "vm", "flavorRef": "small", "imageRef": OLD, "num_instances": 5}}
    made = node.client().post("/zones/boot", body)
    tree.settle()
    agent.converge()

    reply = node.client().post(f"/reservations/{made.json['reservation_id']}/action", rebuild(NEW))
    rebuilding = node.client().get("/servers?status=REBUILD").json["servers"]
    active = node.client().get("/servers?status=ACTIVE").json["servers"]
    agent.converge()

    assert (reply.status, reply.json) == (202, {"accepted": 5, "refused": []})
    assert (len(rebuilding), len(active)) == (5, 0)
    assert list(agent.rebuilds.values()) == [[NEW]] * 5
    servers = node.client().get("/servers/detail?status=ACTIVE").json["servers"]
    assert [one["image"]["id"] for one in servers] == ["id-new"] * 5


def test_hosts_count_the_images_that_their_servers_have(tmp_path: Path) -> None:
    tree, node, agent = one_zone(tmp_path)
    node.client().post("/servers", {"server": {"name": "vm", "flavorRef": "small", "imageRef": OLD}})
    tree.settle()
    agent.converge()
    ((uuid),) = agent.rebuilds

    node.client().post(f"/servers/{uuid}/action", rebuild(NEW))
    agent.converge()

    with node.zone.hosts.current() as table:
        assert list(table.images.keys()) == ['{"hw_architecture":"x86_64"}']


def test_a_server_that_comes_back_is_counted_by_the_image_that_it_is_built_from(tmp_path: Path) -> None:
    # given a server that was rebuilt in the lowest zone, and shelved
    scene = Scene(tmp_path)
    for body in (rebuild(NEW), {"shelve": None}):
        scene.act(body)
        scene.go_on()

    def counted() -> list[Any]:
        rows, _ = scene.leaf.zone.hosts.snapshot()
        with scene.leaf.zone.hosts.current() as table:
            return [table.images.of_row(0), *(dict(row.use.images) for row in rows)]

    # when it gets a place in the same zone again
    scene.act({"unshelve": None})
    scene.tree.settle(2)
    placed = counted()
    scene.agent.rebuilds.clear()
    scene.go_on()

    # then its host counts that image from then on, in memory as in its rows
    assert placed == counted() == [{'{"hw_architecture":"x86_64"}': 1}] * 2


@pytest.mark.parametrize("zones", [1, 3])
def test_a_rebuilt_server_is_unshelved_where_its_image_runs_and_built_from_that_alone(
    tmp_path: Path, zones: int
) -> None:
    # given a server that was rebuilt on the x86 host, where no image was asked for at first
    tree = Tree(tmp_path)
    hosts_ = [a_host("x86", capabilities=X86), a_host("arm", capabilities=AARCH64, ram_mb=1_000_000)]
    names = ["root", "region", "leaf"][:zones]
    for number, name in enumerate(names):
        tree.add(name, parent=names[number - 1] if number else "", hosts_=hosts_ if name == names[-1] else ())
    tree.poll()
    root, leaf = tree.nodes["root"].client(), tree.nodes[names[-1]]
    root.post("/flavors", FLAVOR)
    for name in (OLD, NEW):
        root.post("/images", {"image": {"id": f"id-{name}", "name": name, **IMAGES[name]}})
    agent = PlayedAgent(leaf)

    def act(path: str, body: Any) -> list[tuple[str, str | None, str]]:
        assert root.post(path, body).status == 202
        go_on(tree, agent)
        (server,) = root.get("/servers/detail").json["servers"]
        return [(server["status"], server["image"]["id"], line["host"]) for line in agent.work()]

    def enable(host: str, status: str) -> None:
        assert leaf.client().call("PUT", f"/os-hosts/{host}", {"status": status}).status == 200

    enable("arm", "disable")
    act("/servers", {"server": {"name": "vm", "flavorRef": "small", "imageRef": OLD}})
    (uuid,) = agent.rebuilds
    path = f"/servers/{uuid}/action"
    act(path, rebuild(NEW))
    act(path, {"shelve": None})
    # when the x86 host takes no servers, then it rests on, and no other host gets it
    enable("arm", "enable")
    enable("x86", "disable")
    assert act(path, {"unshelve": None}) == []
    (resting,) = root.get("/servers/detail").json["servers"]
    assert (resting["status"], resting["image"]["id"]) == ("SHELVED_OFFLOADED", "id-new")
    # and when that host takes servers again, it is built there once
    enable("x86", "enable")
    agent.rebuilds.clear()
    assert act(path, {"unshelve": None}) == [("ACTIVE", "id-new", "x86")]
    assert [line["image"]["id"] for line in agent.work()] == ["id-new"]
    assert agent.rebuilds == {uuid: []}
    actions = root.get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"]
    assert [line["error_code"] for line in actions[:2]] == ["", "no_valid_host"]
    # and it can be rebuilt again
    act(path, rebuild(OLD))
    assert (agent.rebuilds, root.get(f"/servers/{uuid}").json["server"]["image"]["id"]) == (
        {uuid: [OLD]},
        "id-old",
    )
    for node in tree.nodes.values():
        assert list(audit.run(node.zone)) == list(audit_edges.across_edges(node.zone)) == []


def test_an_image_named_before_such_names_were_refused_is_taken_down_the_tree_and_back(scene: Scene) -> None:
    name = "\u202adisk\u009b"
    root = scene.root.zone
    renamed = sa.update(t.images).where(t.images.c.name == NEW).values(name=name)
    root.store.write(lambda tx: tx.execute(renamed))
    (child,) = root.store.read(children.read_all)

    assert scene.act(rebuild(f"id-{NEW}")).status == 202
    scene.go_on()
    given_back = root.child_client(child.id).request_of(scene.uuid, 5.0)

    assert (scene.ended(), scene.shown()) == (("rebuild", "done", ""), ("ACTIVE", None, name))
    assert given_back is not None and getattr(given_back.settled.image, "name", None) == name
