"""P4: what is below a zone does not leave it upward, not even in a length.

Two trees with equal offers and other names live through the same story; all that their zones say upward is
kept. Then it is compared, and searched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders.clock import FakeClock
from tests.builders.migrated import everything_in
from tests.builders.overheard import LogsByZone, RecordingNetwork, Said
from tests.builders.tree import Answer, Node, Tree, a_host
from tests.builders.wsgi_transport import Dead, Replace
from zonesched.errors import ZoneschedError
from zonesched.model.agent_instances import AgentReport, AgentState
from zonesched.model.request_spec import Flavor, Image, Policy, RequestSpec
from zonesched.model.request_wire import spec_to_wire
from zonesched.model.views import HostForm
from zonesched.seal.entry_form import blob_from_text
from zonesched.services.catalog import users
from zonesched.services.children import children
from zonesched.services.hosts import hosts
from zonesched.services.select import select
from zonesched.store import children as child_rows

pytestmark = [pytest.mark.slow, pytest.mark.once]

TIE = re.compile(rb'"tie":\d+')
LENGTH = re.compile(rb"Content-Length: \d+")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
BLOB = re.compile(r'(?<=")[A-Za-z0-9_-]{342,}(?=")')
CURSOR = re.compile(r'(?<="cursor":")[A-Za-z0-9_-]{112}(?=")')
BROKEN = "tests.builders.own_plugins.BrokenFilter"
"""A filter that fails with the name of a host in its message."""


@dataclass(frozen=True)
class World:
    """Names below region; none of them may be seen above its zone."""

    seed: int
    hosts: str
    address: str
    service: str
    leaf: str
    other_leaf: str
    cellar: str


ONE = World(
    1, "quartz-{}-host.example", "10.11.12.{}", "agent-quartz", "onyx-leaf", "jade-of-quartz", "mica-cell"
)
OTHER_NAMES = World(1, "zz-opal{}", "fd00:aaaa::{}", "opal", "leaf-of-opal-a", "opal-b", "cellar-of-opal-c")
OTHER_IDS = replace(OTHER_NAMES, seed=99)


def service_of(world: World, node: Node) -> str:
    """Name of a zone's agent."""
    return f"{world.service}-of-{node.name}"


class Story:
    """root -> region -> (leaf -> cellar, other leaf), and what happens to it."""

    def __init__(self, folder: Path, world: World) -> None:
        self.world = world
        self.network = RecordingNetwork()
        self.tree = Tree(folder, FakeClock(seed=world.seed), network=self.network)
        self.logs = LogsByZone(self.network)
        self.direct: list[tuple[str, Answer]] = []
        self.admins_saw: list[tuple[str, bytes]] = []
        self._hosts = 0
        self._add("root", "", 0)
        self._add("region", "root", 1)
        self._add(world.leaf, "region", 3, explain_to_parent="counts")
        self._add(world.other_leaf, "region", 2)
        self._add(world.cellar, world.leaf, 2)
        self.tree.poll(1)
        self.root = self.tree.nodes["root"]
        self.region = self.tree.nodes["region"]
        for name, vcpus in (("small", 1), ("large", 9), ("huge", 99)):
            flavor = {"name": name, "vcpus": vcpus, "ram": 512, "disk": 1, "id": name}
            self.root.client().post("/flavors", {"flavor": flavor})

    def _add(self, name: str, parent: str, count: int, **overrides: Any) -> Node:
        node = self.tree.add(name, parent=parent, **overrides)
        forms = [self._host(number) for number in range(self._hosts, self._hosts + count)]
        self._hosts += count
        self.register(node, forms)
        return node

    def _host(self, number: int) -> HostForm:
        # In both worlds the hosts are alike; their names do not even sort the same way.
        label = number if self.world is ONE else 50 - number
        return a_host(
            self.world.hosts.format(label),
            vcpus=8,
            # No two ever weigh the same: what is picked does not hang on ids.
            ram_mb=8192 + 7 * number,
            address=self.world.address.format(label + 100),
            traits=["CUSTOM_FAST"] if number % 2 else [],
        )

    def register(self, node: Node, forms: Sequence[HostForm]) -> None:
        assert node.compute is not None
        service = service_of(self.world, node)
        hosts.register(node.zone, node.compute, service, list(forms))
        hosts.beat(node.zone, node.compute, service)

    # -- what happens ------------------------------------------------------------------------------------

    def work(self, rounds: int = 3) -> None:
        """Each zone's background work, each known to be at work."""
        for _ in range(rounds):
            for node in self.tree.nodes.values():
                with self.network.working(node.url):
                    self.tree.step(node.name)

    def agents_report(self, state: AgentState, *names: str, reason: str = "") -> None:
        """The agents of these zones (all, if none is named) say the same of all that should run there."""
        for name in names or tuple(self.tree.nodes):
            node = self.tree.nodes[name]
            assert node.compute is not None
            wanted = hosts.desired(
                node.zone.store, node.zone.heartbeats, node.compute, service_of(self.world, node)
            )
            found = [AgentReport(i.uuid, i.attempt, state, reason) for i in wanted]
            with self.network.working(node.url):
                hosts.report(node.zone, node.compute, service_of(self.world, node), found)

    def user(self, method: str, path: str, body: Any = None) -> Answer:
        """A call of a user of the root."""
        with self.network.working(self.root.url):
            return self.root.client().call(method, path, body)

    def boot(self, flavor: str, count: int, **more: Any) -> list[str]:
        """A user's boot at the root, carried on as far as it goes; the instances' ids."""
        server = {"name": "vm", "flavorRef": flavor, "num_instances": count, **more.pop("server", {})}
        answer = self.user("POST", "/zones/boot", {"server": server, **more})
        self.work()
        shown = self.user("GET", f"/reservations/{answer.json['reservation_id']}").json["reservation"]
        return [line["uuid"] for line in shown["instances"]]

    def decide(self, **changes: Any) -> None:
        """A select of the root's own, whatever comes of it."""
        with self.network.working(self.root.url), suppress(ZoneschedError):
            select.decide(self.root.zone, a_spec(**changes), self.root.zone.uuid)

    def ask(self, name: str, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        """A call to a zone with its parent's credentials."""
        node = self.tree.nodes[name]
        parent = next(user for user in node.secrets if user.startswith("parent-"))
        with self.network.working(node.url):
            answer = node.client(parent).call(method, path, body, **more)
        self.direct.append((name, answer))
        return answer

    def admins_look(self) -> None:
        """Views of each zone's admin on its children, and on instances that are there."""
        for name, node in self.tree.nodes.items():
            for path in ("/zones/detail", "/servers/detail?all_tenants=1", "/audit?tree=true"):
                self.admins_saw.append((name, node.client().get(path).body))

    # -- what was said -----------------------------------------------------------------------------------

    def said_by(self, name: str) -> list[bytes]:
        """All that a zone has said to its parent, in order, as bytes."""
        node = self.tree.nodes[name]
        direct = [
            Said(node.url, "", "", a.status, tuple(sorted(a.headers.items())), a.body).bytes
            for zone, a in self.direct
            if zone == name
        ]
        return [said.bytes for said in self.network.said if said.url == node.url] + direct

    def below(self, name: str) -> list[Node]:
        """The zones below a zone."""
        world = self.world
        names = {
            "root": ["region", world.leaf, world.other_leaf, world.cellar],
            "region": [world.leaf, world.other_leaf, world.cellar],
            world.leaf: [world.cellar],
        }
        return [self.tree.nodes[below] for below in names.get(name, [])]


def a_spec(count: int = 3, **changes: Any) -> RequestSpec:
    spec = RequestSpec(
        request_id="11111111-1111-4111-8111-111111111111",
        project_id="project-1",
        num_instances=count,
        flavor=Flavor("f1", "small", 1, 512, 1),
        image=Image("", ""),
        alternates=3,
    )
    return replace(spec, **changes)


WEIGHING = {
    "name": "score",
    "scales": [{"weigher": "RAMWeigher", "low": 0.0, "high": 9000.0, "multiplier": 1.0}],
}


def wire_spec(**changes: Any) -> dict[str, Any]:
    path = {"path": ["10101010-1010-4010-8010-101010101010"], "weighing": WEIGHING}
    return {**spec_to_wire(a_spec()), **path, **changes}


def selects(story: Story) -> None:
    """Requests that fit, fit partly, and do not."""
    story.decide()
    story.decide(count=500)
    story.decide(policy=Policy.AFFINITY, count=4)
    for specs in ({"trait:CUSTOM_FAST": "required"}, {"trait:CUSTOM_SLOW": "required"}, {"zone:a": "b"}):
        story.decide(flavor=Flavor("f", "f", 1, 512, 1, specs))
    story.decide(filters=("JSONFilter",), filter_query='[">", "$free_ram_mb", 9000]')
    story.decide(filters=("Unknown",))
    story.decide(availability_zone="az9")


def boots(story: Story) -> None:
    """Boots that come true, fail half-way, are deleted, and find the zones full."""
    world = story.world
    first = story.boot("small", 12)
    story.agents_report(AgentState.ACTIVE, "region", world.leaf)
    story.agents_report(AgentState.ERROR, world.other_leaf, reason=f"{world.leaf}_broke".replace("-", "_"))
    story.work()
    story.boot("small", 3, **{"os:scheduler_hints": {"group_policy": "affinity"}})
    story.boot("large", 2)
    story.boot("huge", 2)
    story.boot("small", 500)
    rest = story.boot("small", 500, server={"min_count": 1})
    story.agents_report(AgentState.ACTIVE)
    story.work()
    for uuid in (*first[:6], *rest[:30]):
        story.user("GET", f"/servers/{uuid}")
        story.user("DELETE", f"/servers/{uuid}")
    story.agents_report(AgentState.GONE, world.cellar)
    story.work()


RESERVATION = "55555555-5555-4555-8555-555555555555"


def contention(story: Story) -> None:
    """The same room is offered twice, and taken; a zone is gone between what it offered and what is built."""
    leaf = story.tree.nodes[story.world.leaf]
    first, second, third = (_offers(story, 60) for _ in range(3))
    for prefix, blobs in (("a", first), ("b", second)):
        _build(story, prefix, blobs)
    story.network.fault(leaf.url, Dead())
    pending = _build(story, "c", third)
    story.ask("region", "POST", f"/reservations/{RESERVATION}/confirm", {"builds": pending})
    for attempt in pending[:3]:
        story.ask("region", "GET", f"/servers/{attempt['uuid']}")
    story.ask("region", "GET", "/reservations?cursor=")
    story.network.heal(leaf.url)
    for prefix, blobs in (("a", first), ("b", second), ("c", third)):
        attempts = _attempts(prefix, len(blobs))
        story.ask("region", "POST", f"/reservations/{RESERVATION}/cancel", {"builds": attempts})
    held = _build(story, "d", _offers(story, 60))
    story.network.fault(leaf.url, Dead())
    story.ask("region", "POST", f"/reservations/{RESERVATION}/confirm", {"builds": held})
    for attempt in held:
        story.ask("region", "GET", f"/servers/{attempt['uuid']}")
        story.ask("region", "DELETE", f"/servers/{attempt['uuid']}")
    story.network.heal(leaf.url)
    story.tree.clock.advance(40)
    story.work()


def _offers(story: Story, count: int) -> list[str]:
    body = {"version": 1, "request_spec": wire_spec(num_instances=count, alternates=0)}
    offered = story.ask("region", "POST", "/zones/select", body)
    return [entry["blob"] for entry in offered.json["weights"]]


def _attempts(prefix: str, count: int) -> list[dict[str, Any]]:
    return [
        {"uuid": f"{prefix}{n:0{8 - len(prefix)}}-0000-4000-8000-000000000000", "attempt": 1}
        for n in range(count)
    ]


def _build(story: Story, prefix: str, blobs: Sequence[str]) -> list[dict[str, Any]]:
    attempts = _attempts(prefix, len(blobs))
    builds = [{**attempt, "blobs": [blob]} for attempt, blob in zip(attempts, blobs, strict=True)]
    server = {"reservation_id": RESERVATION, "builds": builds}
    story.ask("region", "POST", "/servers", {"server": server, "request_spec": wire_spec()})
    return attempts


def calls_of_a_parent(story: Story) -> None:
    """Whatever else a parent may call, well and badly, in each zone."""
    for name in ("region", story.world.leaf, story.world.other_leaf, story.world.cellar):
        _sound_calls(story, name)
        _refused_calls(story, name)


def _sound_calls(story: Story, name: str) -> None:
    offered = story.ask(name, "POST", "/zones/select", {"version": 1, "request_spec": wire_spec()}).json
    blobs = [entry["blob"] for entry in (*offered.get("weights", ()), *offered.get("alternates", ()))]
    uuids = [f"{number:08}-0000-4000-8000-000000000000" for number in range(1, 5)]
    reservation_id = "22222222-2222-4222-8222-222222222222"
    held, rest = blobs[:2], blobs[2:]
    for uuid, some in zip(uuids, [held[:1], held[1:], [*rest, "x"], held[:1]], strict=False):
        builds = [{"uuid": uuid, "attempt": 1, "blobs": some}] if some else []
        server = {"reservation_id": reservation_id, "builds": builds}
        story.ask(name, "POST", "/servers", {"server": server, "request_spec": wire_spec()})
    attempts = [{"uuid": uuid, "attempt": 1} for uuid in uuids]
    story.ask(name, "POST", f"/reservations/{reservation_id}/confirm", {"builds": attempts[:1]})
    story.ask(name, "POST", f"/reservations/{reservation_id}/cancel", {"builds": attempts[1:]})
    story.ask(name, "POST", f"/reservations/{reservation_id}/confirm", {"builds": attempts})
    story.ask(name, "GET", f"/reservations/{reservation_id}")
    # All of them: which come first hangs on their ids.
    story.ask(name, "GET", "/servers")
    for uuid in uuids:
        story.ask(name, "GET", f"/servers/{uuid}")
        story.ask(name, "DELETE", f"/servers/{uuid}")
    changes = story.ask(name, "GET", "/reservations?cursor=").json
    story.ask(name, "GET", f"/reservations?cursor={changes['cursor']}")
    story.ask(name, "GET", "/zones/info")


def _refused_calls(story: Story, name: str) -> None:
    bad_builds = [{"uuid": "00000009-0000-4000-8000-000000000000", "attempt": 1, "blobs": ["A" * 342]}]
    server = {"reservation_id": "33333333-3333-4333-8333-333333333333", "builds": bad_builds}
    story.ask(name, "POST", "/servers", {"server": server, "request_spec": wire_spec()})
    for changes in (
        {"num_instances": 0},
        {"hints": {"force_hosts": story.world.hosts}},
        {"filters": ["Unknown"]},
        {"filter_query": '["=", "$hostname", "x"]'},
        {"filter_query": '["nonsense"]'},
        {"weighing": {"name": "cost", "driver": "Unknown", "functions": []}},
        {"path": [f"{n:08}-0000-4000-8000-000000000000" for n in range(16)]},
        {"flavor": {"id": "f", "name": "f", "vcpus": 1, "ram": -1, "disk": 1, "extra_specs": {}}},
    ):
        body = {"version": 1, "request_spec": {**wire_spec(), **changes}}
        # The text of a hint that is refused is the parent's own.
        text = json.dumps(body).replace(json.dumps(story.world.hosts), '"x"')
        story.ask(name, "POST", "/zones/select", data=text, headers={"Content-Type": "application/json"})
    story.ask(name, "POST", "/zones/select", data=b"{", headers={"Content-Type": "application/json"})
    story.ask(name, "POST", "/zones/boot", {"server": {}})
    for path in (
        "/servers/detail",
        "/zones",
        "/os-hypervisors",
        "/os-hypervisors/detail",
        "/users",
        "/audit",
        "/audit?budget_s=5",
        "/hosts/instances?service=x",
        "/flavors",
        "/metrics",
        "/health",
        "/readiness",
        "/nowhere",
        "/reservations/44444444-4444-4444-8444-444444444444",
        "/servers/44444444-4444-4444-8444-444444444444",
        "/reservations?cursor=17.x",
    ):
        story.ask(name, "GET", path)
    with story.network.working(story.tree.nodes[name].url):
        story.direct.append((name, story.tree.nodes[name].client("").get("/zones/info")))


def faults_below(story: Story) -> None:
    """Zones without a key, zones that fail, zones that are not there."""
    leaf = story.tree.nodes[story.world.leaf]
    other = story.tree.nodes[story.world.other_leaf]
    other.zone.conf.set_override("build_plan_encryption_key", [])
    story.tree.restart(other.name)
    story.decide()
    story.ask(other.name, "POST", "/zones/select", {"version": 1, "request_spec": wire_spec()})
    story.tree.poll(1)
    story.decide()
    leaf.zone.conf.set_override("enabled_filters", [BROKEN])
    story.tree.restart(leaf.name)
    story.tree.poll(1)
    story.decide()
    story.ask(leaf.name, "POST", "/zones/select", {"version": 1, "request_spec": wire_spec()})
    last = story.boot("small", 1, server={"min_count": 1})
    _something_between_talks(story)
    story.network.fault(story.tree.nodes[story.world.cellar].url, Dead())
    story.network.fault(leaf.url, Dead())
    story.tree.poll(3)
    story.decide()
    for uuid in (*story.boot("small", 2), *last):
        story.user("GET", f"/servers/{uuid}")
        story.user("DELETE", f"/servers/{uuid}")
    story.tree.clock.advance(120)
    story.work()
    calls_of_a_parent(story)


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Mapping[World, Story]:
    """The same story in each world."""
    folder = tmp_path_factory.mktemp("worlds")
    return {world: told(folder / str(n), world) for n, world in enumerate((ONE, OTHER_NAMES, OTHER_IDS))}


def _something_between_talks(story: Story) -> None:
    """A proxy before the leaf fails, and shows in full whom it could not reach."""
    leaf = story.tree.nodes[story.world.leaf]
    names = ", ".join(sorted(secrets_of(leaf, story.world) | {story.world.cellar}))
    error = {"computeFault": {"code": 500, "message": names, "error_code": names, "field": names}}
    held = _build(story, "e", _offers(story, 60))
    for status, body in ((502, names.encode()), (500, json.dumps(error).encode()), (200, names.encode())):
        story.network.fault(leaf.url, Replace(status=status, body=body, headers={"X-Upstream": names}))
        story.tree.poll(1)
        story.decide()
        story.ask("region", "POST", f"/reservations/{RESERVATION}/confirm", {"builds": held})
        story.ask("region", "GET", f"/servers/{held[0]['uuid']}")
        _build(story, f"f{status % 10}", _offers(story, 60))
        story.work(1)
        story.admins_look()
        story.network.heal(leaf.url)
    story.tree.poll(1)


def told(folder: Path, world: World) -> Story:
    """The whole story in one world."""
    folder.mkdir()
    story = Story(folder, world)
    with story.logs.listening():
        for chapter in (selects, boots, contention, calls_of_a_parent, faults_below):
            chapter(story)
    return story


def test_the_story_has_what_can_happen(stories: Mapping[World, Story]) -> None:
    said = b"\n".join(stories[ONE].said_by("region")).decode()

    def all_of(member: str) -> set[str]:
        return set(re.findall(rf'"{member}":"?(\w+)', said))

    assert {"held", "confirmed", "gone", "failed", "pending"} <= all_of("state")
    assert {"BUILD", "ACTIVE", "ERROR", "DELETED", "UNKNOWN"} <= all_of("status")
    assert {"claim_lost", "blob_refused", "build_failed", "lost_by_host", "cancelled"} <= all_of("reason")
    assert {"blob_refused", "hint_refused", "role_forbidden"} <= all_of("error_code")
    assert {"filter_unknown"} <= all_of("code")
    assert {"true", "false"} <= all_of("complete")
    below = b"\n".join(said for name in names_below(ONE) for said in stories[ONE].said_by(name))
    assert b"zone_has_no_key" in below and b"filter_failed" in below and b"internal_error" not in below


# -- the same bytes ----------------------------------------------------------------------------------------


def without_own_name(story: Story, name: str) -> list[bytes]:
    """Bytes that a zone sent, without its own name."""
    own = f'"name":"{name}"'.encode()
    return [LENGTH.sub(b"", said).replace(own, b"") if own in said else said for said in story.said_by(name)]


def test_other_names_below_change_no_byte_of_what_is_said_upward(stories: Mapping[World, Story]) -> None:
    one, other = stories[ONE], stories[OTHER_NAMES]

    assert len(one.said_by("region")) > 200
    assert one.said_by("region") == other.said_by("region")
    for name in ("leaf", "other_leaf", "cellar"):
        ours = without_own_name(one, getattr(ONE, name))
        assert len(ours) > 100
        assert ours == without_own_name(other, getattr(OTHER_NAMES, name))


def without_ties(said: bytes) -> bytes:
    """An answer without its tie keys, which are keyed hashes of host ids, and without its length."""
    return LENGTH.sub(b"Content-Length: n", TIE.sub(b'"tie":0', said))


def masked(said: bytes) -> Any:
    """An answer without ids, ties, entries and cursors; lists of instances, in order of ids, are sorted."""
    head, _, body = without_ties(said).partition(b"\r\n\r\n")
    text = UUID.sub("<id>", body.decode())
    text = BLOB.sub(lambda found: f"<blob {len(found[0])}>", CURSOR.sub("<cursor>", text))
    content = json.loads(text) if text[:1] == "{" else text
    for key in ("instances", "servers"):
        if isinstance(content, dict) and isinstance(content.get(key), list):
            content[key].sort(key=json.dumps)
    return UUID.sub("<id>", head.decode()), content


def test_other_ids_below_change_nothing_but_ids_and_entries_and_no_length(
    stories: Mapping[World, Story],
) -> None:
    one, other = stories[ONE].said_by("region"), stories[OTHER_IDS].said_by("region")

    assert [masked(said) for said in one] == [masked(said) for said in other]
    assert [len(without_ties(said)) for said in one] == [len(without_ties(said)) for said in other]
    assert one != other


# -- nothing planted ---------------------------------------------------------------------------------------


def secrets_of(node: Node, world: World) -> set[str]:
    """Names, addresses and ids that are a zone's own business."""
    zone = node.zone
    found = {
        service_of(world, node),
        zone.host_id_secret,
        *zone.conf.build_plan_encryption_key,
        *node.secrets.values(),
    }
    for host in hosts.list_hypervisors(zone):
        found |= {host.id, host.name, host.address, zone.tenant_host_id("project-1", host.id)}
    for child in children.list_children(zone.store, zone.children):
        found |= {child.id, child.name, child.api_url}
    return found | {user.id for user in users.list_users(zone.store)}


def secrets_below(story: Story, name: str) -> set[str]:
    """Secrets that nobody at this zone may learn."""
    found = {node.zone.uuid for node in story.below(name)}
    for node in story.below(name):
        found |= secrets_of(node, story.world)
        if not any(
            child.api_url == node.url
            for child in children.list_children(
                story.tree.nodes[name].zone.store, story.tree.nodes[name].zone.children
            )
        ):
            found |= {node.name, node.url}
    return found


def names_below(world: World) -> list[str]:
    return ["region", world.leaf, world.other_leaf, world.cellar]


@pytest.mark.parametrize("world", [ONE, OTHER_IDS], ids=["one", "other"])
def test_nothing_of_a_zone_or_below_it_is_said_upward(stories: Mapping[World, Story], world: World) -> None:
    story = stories[world]
    for name in names_below(world):
        said = b"\n".join(story.said_by(name))
        assert said, name
        for secret in secrets_of(story.tree.nodes[name], world) | secrets_below(story, name):
            assert secret.encode() not in said, (name, secret)


@pytest.mark.parametrize("world", [ONE, OTHER_IDS], ids=["one", "other"])
def test_nothing_of_below_a_child_is_in_its_parents_log(stories: Mapping[World, Story], world: World) -> None:
    story = stories[world]
    for name in ("root", *names_below(world)):
        url = story.tree.nodes[name].url
        lines = "\n".join(line for at_work, line in story.logs.lines if at_work == url)
        assert lines
        for secret in secrets_below(story, name) - {story.tree.nodes[name].zone.uuid}:
            assert secret not in lines, (name, secret)


@pytest.mark.parametrize("world", [ONE, OTHER_IDS], ids=["one", "other"])
def test_nothing_of_below_a_child_is_stored_or_shown_by_its_parent(
    stories: Mapping[World, Story], world: World
) -> None:
    story = stories[world]
    for name in ("root", *names_below(world)):
        stored = everything_in(story.tree.folder / f"{name}.sqlite")
        stored += "".join(seen.decode() for zone, seen in story.admins_saw if zone == name)
        # A child is known by its zone's uuid, so that nobody can add it twice.
        known = {row.zone_uuid for row in story.tree.nodes[name].zone.store.read(child_rows.read_all)}
        for secret in secrets_below(story, name) - known:
            assert secret not in stored, (name, secret)


# -- lengths -----------------------------------------------------------------------------------------------


def test_all_entries_of_a_zone_have_one_length_whatever_they_are_for(stories: Mapping[World, Story]) -> None:
    sizes = {"region": 768, "leaf": 512, "other_leaf": 256, "cellar": 256}
    for world, story in stories.items():
        for label, size in sizes.items():
            name = getattr(world, label, label)
            said = b"\n".join(story.said_by(name)).decode()
            found = {len(blob_from_text(blob)) for blob in BLOB.findall(said)}
            assert found == {size}, (name, found)
