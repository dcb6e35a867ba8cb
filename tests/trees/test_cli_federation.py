"""`zonesched federation apply`, against zones that do not know each other yet."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.builders.command import TreeCommand
from tests.builders.scenes import built_once
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead, LostReply, Refuse
from zonesched import conf
from zonesched.cli.federation import NEXT
from zonesched.cli.federation_file import MAX_BYTES, MAX_DOTS, read_tree
from zonesched.compute.credentials import Credentials, read_credentials, write_credentials
from zonesched.errors import ConfigError
from zonesched.model.caller import Role
from zonesched.model.catalog import CatalogFlavor
from zonesched.model.request_spec import Flavor
from zonesched.services.catalog import users
from zonesched.store import flavors

pytestmark = pytest.mark.once

CHECKOUT = Path(__file__).parents[2]
TREE = """
[zones.root]
credentials = "root.credentials"
children = ["region"]

[zones.root.users.alice]
role = "member"
project = "p1"
password_file = "alice.txt"

[zones.region]
credentials = "region.credentials"
children = ["leaf"]

[zones.leaf]
credentials = "leaf.credentials"

[zones.leaf.users.agent]
role = "compute"
save = "agent.credentials"
"""
STEPS = [
    "leaf: create user agent (role compute)",
    "leaf: create user parent-region (role parent)",
    "region: add child leaf at http://127.0.0.1:7003",
    "root: create user alice (role member)",
    "region: create user parent-root (role parent)",
    "root: add child region at http://127.0.0.1:7002",
]


@built_once
def three_zones(folder: Path) -> Tree:
    """Zones that do not know each other; the last one has a host."""
    tree = Tree(folder)
    for name in ("root", "region", "leaf"):
        tree.add(name, hosts_=[a_host("l1")] if name == "leaf" else ())
    return tree


class Site:
    """Three zones, the files of a federation, and the command that applies them."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.tree = three_zones(folder)
        for name, node in self.tree.nodes.items():
            write_credentials(
                folder / f"{name}.credentials", Credentials(node.url, "admin", node.secrets["admin"])
            )
        (folder / "alice.txt").write_text("correct horse\n")
        self.command = TreeCommand(capsys, self.tree, "root")
        self.command.before = ()

    def apply(self, *options: str, text: str = TREE) -> int:
        (self.folder / "tree.toml").write_text(text)
        return self.command("federation", "apply", str(self.folder / "tree.toml"), *options)

    def states(self, zone: str) -> list[tuple[str, str]]:
        self.tree.poll()
        listed = self.tree.nodes[zone].client().get("/zones/detail").json["zones"]
        return [(child["name"], child["state"]) for child in listed]


@pytest.fixture
def site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Site:
    return Site(tmp_path, capsys)


def test_a_tree_is_made_leaves_first_and_a_second_run_changes_nothing(site: Site) -> None:
    assert site.apply() == 0
    assert site.command.lines == [*STEPS, "6 steps done"]
    assert (site.states("root"), site.states("region")) == ([("region", "ready")], [("leaf", "ready")])
    assert site.apply() == 0
    assert site.command.out == "3 zones are as the file says\n"


def test_a_user_whose_secret_cannot_be_saved_is_made_by_the_next_run(site: Site) -> None:
    in_the_way = site.folder / "agent.credentials"
    in_the_way.mkdir()
    assert site.apply() == 2
    assert "agent.credentials: cannot be written: Is a directory" in site.command.err
    in_the_way.rmdir()
    assert site.apply() == 0
    assert site.command.lines == [*STEPS, "6 steps done"]


@pytest.mark.parametrize(
    ("role", "keys"),
    [(Role.COMPUTE, ""), (Role.MEMBER, 'project = "p1"\npassword_file = "alice.txt"\n')],
)
def test_a_secret_that_nobody_heard_is_replaced_by_the_next_run(site: Site, role: Role, keys: str) -> None:
    leaf, text = site.tree.nodes["leaf"], TREE.replace('"compute"', f'"{role.value}"') + keys
    site.tree.network.fault(leaf.url, LostReply(method="POST", path="/users"))
    assert site.apply(text=text) == 3
    site.tree.network.heal(leaf.url)

    assert site.apply(text=text) == 0
    assert site.command.lines[0] == "leaf: give user agent a new secret"
    saved = read_credentials(site.folder / "agent.credentials")
    assert users.authenticate(leaf.zone, saved.username, saved.password).role is role
    assert site.apply(text=text) == 0
    assert site.command.out == "3 zones are as the file says\n"


def test_a_refused_user_leaves_nothing_that_a_later_run_would_replace(site: Site) -> None:
    site.tree.network.fault(site.tree.nodes["leaf"].url, Refuse(409, method="POST", path="/users"))
    assert site.apply() == 1
    assert [path.name for path in site.folder.glob("agent.credentials*")] == []


def test_the_users_of_the_file_can_call_their_zones(site: Site) -> None:
    assert site.apply() == 0
    root, leaf = site.tree.nodes["root"], site.tree.nodes["leaf"]
    assert users.authenticate(root.zone, "alice", "correct horse").project_id == "p1"
    saved = read_credentials(site.folder / "agent.credentials")
    assert saved.url == leaf.url
    assert users.authenticate(leaf.zone, saved.username, saved.password).role is Role.COMPUTE


def test_a_dry_run_says_the_steps_and_takes_none(site: Site) -> None:
    assert site.apply("--dry-run") == 0
    assert site.command.lines == [*(f"would {step}" for step in STEPS), "6 steps to do"]
    assert site.apply("--dry-run", "--json") == 0
    assert json.loads(site.command.out) == {"dry_run": True, "steps": STEPS}
    assert (site.states("root"), site.states("region")) == ([], [])
    assert not (site.folder / "agent.credentials").exists()


def test_a_run_that_stopped_half_way_is_finished_by_the_next(site: Site) -> None:
    made = users.create(
        site.tree.nodes["leaf"].zone.store,
        site.tree.nodes["leaf"].zone.clock,
        "parent-region",
        Role.PARENT,
        "",
    )
    assert site.apply() == 0
    assert "leaf: give user parent-region a new secret" in site.command.lines
    assert site.states("region") == [("leaf", "ready")]
    assert made.secret


def test_a_child_that_refuses_its_parent_gets_a_new_secret(site: Site) -> None:
    assert site.apply() == 0
    users.set_secret(site.tree.nodes["leaf"].zone, "parent-region")
    assert site.states("region") == [("leaf", "offline")]
    assert site.apply() == 0
    assert site.command.lines == [
        "leaf: give user parent-region a new secret",
        "region: change child leaf: credentials",
        "2 steps done",
    ]
    assert site.states("region") == [("leaf", "ready")]


def test_a_parent_whose_user_was_removed_gets_another(site: Site) -> None:
    assert site.apply() == 0
    users.delete(site.tree.nodes["leaf"].zone.store, site.tree.nodes["leaf"].zone.verified, "parent-region")
    assert site.apply() == 0
    assert site.command.lines[0] == "leaf: create user parent-region (role parent)"
    assert site.states("region") == [("leaf", "ready")]


def test_a_changed_weight_is_changed_without_a_new_secret(site: Site) -> None:
    assert site.apply() == 0
    changed = TREE.replace(
        'credentials = "leaf.credentials"', 'credentials = "leaf.credentials"\nweight_scale = 2'
    )
    assert site.apply(text=changed) == 0
    assert site.command.lines == ["region: change child leaf: weight_scale", "1 step done"]
    assert site.states("region") == [("leaf", "ready")]


def test_nothing_is_changed_while_a_zone_cannot_be_reached(site: Site) -> None:
    site.tree.network.fault(site.tree.nodes["root"].url, Dead())
    assert site.apply() == 3
    assert site.command.err.startswith("zonesched: root: http://127.0.0.1:7001 cannot be reached")
    listed = users.list_users(site.tree.nodes["leaf"].zone.store)
    assert "agent" not in {user.name for user in listed}


def test_a_user_of_another_role_is_named_and_nothing_changed(site: Site) -> None:
    users.create(
        site.tree.nodes["root"].zone.store,
        site.tree.nodes["root"].zone.clock,
        "alice",
        Role.READER,
        "p1",
        "secret",
    )
    assert site.apply() == 1
    assert "root: the user alice has the role reader, not member" in site.command.err
    assert site.states("region") == []


def test_credentials_that_are_no_admins_are_named(site: Site) -> None:
    leaf = site.tree.nodes["leaf"]
    write_credentials(
        site.folder / "leaf.credentials", Credentials(leaf.url, "member", leaf.secrets["member"])
    )
    assert site.apply() == 1
    assert site.command.err.startswith("zonesched: leaf: The role member may not make this call.")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[zones", "Expected"),
        ("[zone.root]", "unknown key 'zone'"),
        ("", "zones is missing"),
        ("[zones.a]", "credentials is missing"),
        ('[zones.a]\ncredentials = "root.credentials"\nchild = ["b"]', "unknown key 'child'"),
        ('[zones.a]\ncredentials = "root.credentials"\nchildren = "b"', "wrong type"),
        ('[zones.a]\ncredentials = "root.credentials"\nchildren = ["b"]', "there is no zone 'b'"),
        ('[zones.a]\ncredentials = "root.credentials"\nchildren = ["a"]', "children of each other"),
        (TREE.replace('children = ["leaf"]', 'children = ["root"]'), "children of each other"),
        (TREE.replace('["region"]', '["region", "leaf"]'), "a child of root and of region"),
        (TREE.replace('role = "compute"', 'role = "parent"'), "role must be one of"),
        (TREE.replace('project = "p1"\n', ""), "needs a project"),
        (TREE.replace('save = "agent.credentials"', ""), "password_file"),
        ("x = " + "[" * 5000, "brackets nest deeper than 32 levels"),
        ("x = " + "1" * 5000, "Exceeds the limit (4300 digits)"),
        (TREE + "#" * MAX_BYTES, f"the file has more than {MAX_BYTES} bytes"),
        ("\n" + ".".join("a" * 30_000) + " = 1", "line 2: a key has more than 16 dots"),
        ("x = {" + " . ".join(["'a'", '"b"', "c"] * 6) + " = 1}", "line 1: a key has more than 16 dots"),
    ],
)
def test_a_file_that_describes_no_tree_is_refused_with_the_reason(site: Site, text: str, said: str) -> None:
    assert site.apply(text=text) == 1
    assert said in site.command.err
    assert str(site.folder / "tree.toml") in site.command.err


@pytest.mark.parametrize("unit", ["a", '"', "'", "a ", "a.", '"a', "a" + " " * 200, ("a." * MAX_DOTS) + " "])
def test_a_file_of_the_most_bytes_is_read_in_time(tmp_path: Path, unit: str) -> None:
    file = tmp_path / "tree.toml"
    file.write_text("# " + unit * ((MAX_BYTES - 2) // len(unit)))
    began_at = time.process_time()

    with pytest.raises(ConfigError):
        read_tree(file)

    assert time.process_time() - began_at < 2.0


def test_a_key_of_the_most_dots_is_read(tmp_path: Path) -> None:
    file = tmp_path / "tree.toml"
    file.write_text(".".join(["zones"] * (MAX_DOTS + 1)) + ' = 1\nurl = "https://a.b.c.example"')

    with pytest.raises(ConfigError, match="unknown key 'url'"):
        read_tree(file)


def test_a_file_without_credentials_is_named(site: Site) -> None:
    (site.folder / "leaf.credentials").unlink()
    assert site.apply() == 2
    assert "leaf.credentials" in site.command.err


def test_the_example_is_the_tree_of_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    read = "zonesched.cli.federation_file.read_credentials"
    monkeypatch.setattr(read, lambda path: Credentials(str(path)))
    zones = read_tree(CHECKOUT / "etc/federation/tree.toml")
    assert [(zone.name, zone.children) for zone in zones] == [
        ("leaf", ()),
        ("region", ("leaf",)),
        ("root", ("region",)),
    ]
    for zone in zones:
        assert f"zone_name = {zone.name}\n" in (CHECKOUT / f"etc/federation/{zone.name}.conf").read_text()
        assert zone.api_url == str(CHECKOUT / f"etc/federation/{zone.name}-state/admin.credentials")


def test_a_missing_file_is_a_fault_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tree\.toml"):
        read_tree(tmp_path / "tree.toml")


SMALL = '[zones.root.flavors.small]\nvcpus = 2\nram = 512\nextra_specs = { "trait:CUSTOM_A" = "required" }\n'


def test_flavors_of_the_file_are_made_once(site: Site) -> None:
    assert site.apply(text=TREE + SMALL) == 0
    assert "root: create flavor small" in site.command.lines
    [made] = site.tree.nodes["root"].client().get("/flavors/detail").json["flavors"]
    assert (made["name"], made["vcpus"], made["ram"], made["disk"]) == ("small", 2, 512, 0)
    assert made["extra_specs"] == {"trait:CUSTOM_A": "required"}
    assert site.apply(text=TREE + SMALL) == 0
    assert site.command.out == "3 zones are as the file says\n"


@pytest.mark.parametrize("others", [0, 1000])
def test_a_flavor_is_found_that_is_not_public_or_on_a_later_page(site: Site, others: int) -> None:
    root = site.tree.nodes["root"]
    root.zone.store.write(lambda tx: [flavors.insert(tx, a_flavor(f"a{n}")) for n in range(others)])
    small = {"name": "small", "vcpus": 2, "ram": 512, "disk": 0}
    secret = {"extra_specs": {"trait:CUSTOM_A": "required"}, "os-flavor-access:is_public": others > 0}
    assert root.client().post("/flavors", {"flavor": {**small, **secret}}).status == 200

    first = site.apply(text=TREE + SMALL)

    assert first == 0, site.command.err
    assert site.command.lines == [*STEPS, "6 steps done"]


def a_flavor(name: str) -> CatalogFlavor:
    return CatalogFlavor(Flavor(id=name, name=name, vcpus=1, ram_mb=1, disk_gb=0))


def test_a_flavor_with_other_values_is_refused_and_nothing_is_changed(site: Site) -> None:
    assert site.apply(text=TREE + SMALL) == 0
    assert site.apply(text=TREE.replace("alice", "bob") + SMALL.replace("512", "1024")) == 1
    assert "root: ram of the flavor small is 512, not 1024: remove it first." in site.command.err
    names = [user["name"] for user in site.tree.nodes["root"].client().get("/users").json["users"]]
    assert "bob" not in names


@pytest.mark.parametrize(
    ("flavor", "fault"),
    [
        ("ram = 1\n", "zones.root.flavors.small: vcpus is missing"),
        ('vcpus = "1"\nram = 1\n', "zones.root.flavors.small: vcpus has a value of the wrong type"),
        ("vcpus = 1\nram = 1\nswap = 1\n", "unknown key 'swap'; known are vcpus, ram, disk, extra_specs"),
        ("vcpus = 1\nram = 1\nextra_specs = { a = 1 }\n", "extra_specs must be a table of texts"),
    ],
)
def test_a_flavor_that_is_none_is_refused(site: Site, flavor: str, fault: str) -> None:
    assert site.apply(text=f"{TREE}\n[zones.root.flavors.small]\n{flavor}") == 1
    assert fault in site.command.err


def test_the_files_of_a_first_tree_are_written_with_the_next_commands(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my tree"
    assert site.command("federation", "init", str(folder)) == 0
    made = sorted(path.name for path in folder.iterdir())
    assert made == ["hosts.csv", "leaf.conf", "region.conf", "root.conf", "tree.toml"]
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert f"  cd '{folder}'" in site.command.lines
    assert "  zonesched federation apply tree.toml" in site.command.lines
    [key] = conf.load([str(folder / "region.conf")]).build_plan_encryption_key
    assert len(key) == 64


def test_files_that_exist_are_kept_and_none_is_written(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "leaf.conf").write_text("mine")
    assert site.command("federation", "init", str(folder)) == 1
    assert f"{folder / 'leaf.conf'}: the file exists and is kept" in site.command.err
    assert [path.read_text() for path in folder.iterdir()] == ["mine"]


def test_the_next_commands_are_those_of_the_chapter() -> None:
    chapter = (CHECKOUT / "docs/install.md").read_text()
    assert [step for step in NEXT if f"\n{step}\n" not in chapter] == []
