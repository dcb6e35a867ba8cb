"""Commands about instances and boots, against the zones of a tree."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders.command import TreeCommand
from tests.builders.scenes import built_once
from tests.builders.tree import Tree, a_host
from zonesched.cli.screen import Terminal
from zonesched.services.owners import servers

pytestmark = pytest.mark.once

FLAVOR = {"flavor": {"name": "small", "vcpus": 1, "ram": 1024, "disk": 1}}
As = Callable[..., TreeCommand]


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    """A root with one host and a child zone `eu` with two: four instances fit on the root, twelve in eu."""
    tree = Tree(tmp_path)
    tree.add("root", hosts_=[a_host("r1", vcpus=4, ram_mb=4096)], cpu_allocation_ratio=1.0)
    hosts = [a_host(name, vcpus=6, ram_mb=6144) for name in ("eu-host-1", "eu-host-2")]
    tree.add("eu", parent="root", hosts_=hosts, cpu_allocation_ratio=1.0)
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    return tree


@pytest.fixture
def as_(tree: Tree, capsys: pytest.CaptureFixture[str]) -> As:
    return lambda user="admin", width=0: TreeCommand(
        capsys, tree, "root", user, Terminal(width) if width else None
    )


def boot(tree: Tree, command: TreeCommand, name: str = "web", count: int = 3) -> str:
    assert command("zone", "boot", "--flavor", "small", "--name", name, "-n", str(count)) == 0
    tree.settle()
    return command.out.strip()


def names(command: TreeCommand) -> set[str]:
    assert command("server", "list", "-o", "value", "-c", "name") == 0
    return set(command.lines)


class TestList:
    def test_a_page_may_be_empty_and_not_the_last(
        self, tree: Tree, as_: As, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        command = as_()
        boot(tree, command, "a.b", 1)
        tree.clock.advance(1)
        boot(tree, command)
        monkeypatch.setattr(servers, "SEARCHED_AT_ONCE", 1)
        monkeypatch.setattr(servers, "MOST_SEARCHED", 2)
        asked = ("server", "list", "--name", "a.b", "-o", "value", "-c", "name")

        assert command(*asked) == 0
        assert command.lines == []
        assert command(*asked, "--marker", command.err.split()[-1]) == 0
        assert command.lines == ["a.b"]
        assert command("server", "show", "a.b") == 0

    def test_every_row_is_one_line_of_80_columns(self, tree: Tree, as_: As) -> None:
        command = as_(width=80)
        boot(tree, command)
        assert command("server", "list") == 0
        assert len(command.lines) == 4
        assert max(map(len, command.lines)) <= 80
        assert command.lines[0].split()[:4] == ["id", "name", "status", "zone"]

    def test_an_admin_reads_which_child_zone_has_an_instance(self, tree: Tree, as_: As) -> None:
        boot(tree, as_(), count=16)
        command = as_()
        assert command("server", "list", "-o", "value", "-c", "zone") == 0
        assert sorted(command.lines) == ["eu"] * 12 + ["this zone"] * 4

    def test_the_zone_is_an_admins_alone_and_no_host_in_it_is_named(self, tree: Tree, as_: As) -> None:
        boot(tree, as_("member"), count=16)
        root = tree.nodes["root"]
        of_admin = root.client().get("/servers/detail?all_tenants=true").json["servers"]
        of_member = root.client("member").get("/servers/detail").json["servers"]
        assert sum(server.get("child_zone") == "eu" for server in of_admin) == 12
        assert not any("child_zone" in server for server in of_member)
        assert "eu-host" not in json.dumps([of_admin, of_member])

    def test_columns_format_and_order_are_chosen(self, tree: Tree, as_: As) -> None:
        command = as_()
        boot(tree, command, count=11)
        chosen = ("-c", "Name", "-c", "flavor")
        assert command("server", "list", *chosen, "--sort", "name:desc", "-o", "csv") == 0
        assert command.lines[:3] == ["name,flavor", "web-11,small", "web-10,small"]
        assert command("server", "list", *chosen, "--sort", "name", "-o", "json") == 0
        assert json.loads(command.out)[1] == {"name": "web-2", "flavor": "small"}

    @pytest.mark.parametrize("option", [("-c", "nmae"), ("--sort", "nmae"), ("--sort", "name:up")])
    def test_a_column_that_there_is_not_is_wrong_usage(self, as_: As, option: tuple[str, str]) -> None:
        command = as_()
        assert command("server", "list", *option) == 2
        assert "name" in command.err

    def test_json_is_whole_on_the_narrowest_terminal(self, tree: Tree, as_: As) -> None:
        command = as_(width=40)
        boot(tree, command)
        for form in (["--json"], ["-o", "json"], ["--wide"]):
            assert command("server", "list", *form) == 0
            assert all(
                s["id"] in command.out for s in tree.nodes["root"].client().get("/servers").json["servers"]
            )


class TestShow:
    def test_an_instance_is_found_by_its_name_and_by_the_id_that_the_table_shows(
        self, tree: Tree, as_: As
    ) -> None:
        command = as_(width=80)
        boot(tree, command)
        command("server", "list", "-c", "id", "-c", "name", "-o", "table")
        short, name = command.lines[1].split()
        assert len(short) == 8
        for wanted in (short, name):
            assert command("server", "show", wanted) == 0
            assert name in command.out
        assert command("server", "show", "web") == 4

    @pytest.mark.parametrize("name", ["c++", "(old) web", "a[1", "web.*", "\\", "(" * 255])
    def test_an_instance_is_found_by_a_name_that_means_something_else_as_an_expression(
        self, tree: Tree, as_: As, name: str
    ) -> None:
        command = as_()
        boot(tree, command, name, 1)
        boot(tree, command, "old web.com", 1)

        assert command("server", "show", name, "-c", "name", "-o", "value") == 0
        assert command.lines == [name]

    def test_flavor_and_zone_are_shown_by_name(self, tree: Tree, as_: As) -> None:
        command = as_()
        boot(tree, command, count=1)
        assert command("server", "show", "web", "-o", "value", "-c", "flavor", "-c", "zone") == 0
        flavor, zone = command.lines
        assert flavor == "small"
        assert zone == "eu"

    def test_an_admin_finds_the_instances_of_other_projects_and_a_member_does_not(
        self, tree: Tree, as_: As
    ) -> None:
        tree.nodes["root"].client().post(
            "/users", {"user": {"name": "bob", "role": "member", "project_id": "p2", "password": "b" * 12}}
        )
        tree.nodes["root"].secrets["bob"] = "b" * 12
        boot(tree, as_("bob"), "theirs", 1)
        assert as_("admin")("server", "show", "theirs") == 0
        assert as_("member")("server", "show", "theirs") == 4


class TestDelete:
    def test_what_is_known_is_deleted_and_what_is_unknown_is_named(self, tree: Tree, as_: As) -> None:
        command = as_()
        boot(tree, command, "web", 2)
        assert command("server", "delete", "web-1", "unknown", "web-2") == 1
        assert command.err == "zonesched: unknown: there is no server 'unknown' (not_found)\n"
        assert names(command) == set()

    def test_one_that_is_unknown_is_not_found(self, as_: As) -> None:
        command = as_()
        for unknown in ("unknown", "00000000-0000-4000-8000-000000000000"):
            assert command("server", "delete", unknown) == 4
            assert f"'{unknown}'" in command.err

    def test_a_name_of_several_deletes_none(self, tree: Tree, as_: As) -> None:
        command = as_()
        boot(tree, command, "twin", 1)
        boot(tree, command, "twin", 1)
        assert command("server", "delete", "twin") == 1
        assert "2 servers match 'twin'" in command.err
        assert len(names(command)) == 1

    def test_a_whole_boot_is_deleted(self, tree: Tree, as_: As) -> None:
        command = as_()
        gone = boot(tree, command, "gone", 3)
        boot(tree, command, "stays", 1)
        assert command("server", "delete", "--reservation", gone[:8]) == 0
        assert names(command) == {"stays"}

    @pytest.mark.parametrize("arguments", [[], ["a", "--reservation", "b"]])
    def test_instances_or_a_boot_are_named(self, as_: As, arguments: list[str]) -> None:
        assert as_()("server", "delete", *arguments) == 2


class TestReservations:
    def test_boots_are_listed_newest_first_with_their_counts(self, tree: Tree, as_: As) -> None:
        command = as_(width=80)
        boot(tree, command, "old", 2)
        tree.clock.advance(10)
        boot(tree, command, "new", 1)
        assert command("reservation", "list") == 0
        assert [line.split()[1:4] for line in command.lines[1:]] == [
            ["new", "BUILD", "1"],
            ["old-1", "BUILD", "2"],
        ]
        assert command("reservation", "list", "-o", "value", "-c", "counts") == 0
        assert command.lines == ["BUILD=1", "BUILD=2"]
        assert command("reservation", "show", command_short_id(command)) == 0

    def test_a_list_goes_on_after_its_last_boot(self, tree: Tree, as_: As) -> None:
        command = as_()
        for name in ("a", "b", "c"):
            boot(tree, command, name, 1)
            tree.clock.advance(1)
        assert command("reservation", "list", "--limit", "2", "-o", "value", "-c", "name") == 0
        assert command.lines == ["c", "b"]
        marker = command.err.split()[-1]
        assert command("reservation", "list", "--marker", marker, "-o", "value", "-c", "name") == 0
        assert (command.lines, command.err) == (["a"], "")

    def test_a_deleted_boot_is_not_listed(self, tree: Tree, as_: As) -> None:
        command = as_()
        gone = boot(tree, command)
        command("server", "delete", "--reservation", gone)
        assert command("reservation", "list") == 0
        assert (command.out, command.err) == ("", "none\n")

    def test_other_projects_are_listed_to_an_admin_alone(self, tree: Tree, as_: As) -> None:
        boot(tree, as_("member"), "mine", 1)
        assert as_("reader")("reservation", "list", "--all-tenants") == 1
        assert as_("admin")("reservation", "list", "--all-tenants") == 0
        eu = tree.nodes["eu"]
        assert len(eu.client().get("/reservations?all_tenants=true").json["reservations"]) == 1
        assert eu.client().get("/reservations").json["reservations"] == []

    def test_a_cancelled_boot_keeps_what_is_built(self, tree: Tree, as_: As) -> None:
        command = as_()
        id = boot(tree, command, "web", 5)
        report_active(tree, "eu", 2)
        assert command("reservation", "cancel", id[:8]) == 0
        assert command.out == f"{id[:8]}: 3 instances cancelled\n"
        assert len(names(command)) == 2
        assert command("reservation", "cancel", "unknown") == 4

    def test_each_boot_is_cancelled_though_another_cannot_be(self, tree: Tree, as_: As) -> None:
        command = as_()
        locked = boot(tree, command, "locked", 2)
        assert command("server", "lock", "locked-1") == 0
        other = boot(tree, command, "other", 3)
        member = as_("member")
        assert member("reservation", "cancel", "unknown", locked, other) == 1
        assert member.out == f"{locked}: 1 instances cancelled\n{other}: 3 instances cancelled\n"
        assert "zonesched: unknown: " in member.err
        assert names(command) == {"locked-1"}
        assert member("reservation", "cancel", "unknown", locked, other, "--json") == 1
        assert json.loads(member.out) == {"reservations": [{"id": other, "cancelled": 0, "refused": 0}]}

    def test_why_names_no_step_without_hosts_and_says_that_a_child_is_disabled(
        self, tree: Tree, as_: As
    ) -> None:
        command = as_()
        assert command("zone", "set", "eu", "--state", "disabled") == 0
        assert command("flavor", "create", "huge", "--vcpus", "1", "--ram", "999999") == 0
        assert command("zone", "boot", "--flavor", "huge", "--name", "web") == 0
        id = command.out.strip()
        tree.settle()
        assert command("reservation", "why", id) == 0
        assert "eu: not asked: an admin has disabled it (child_disabled)\n" in command.out
        funnel = command.out.partition("this zone: offered 0\n")[2].partition("\n\n")[0].splitlines()
        assert [line.split()[-2:] for line in funnel[1:] if line.split()[-2] != "1"] == []
        assert funnel[-1].split() == ["RamFilter", "not_enough_ram", "1", "0"]

    def test_why_of_a_boot_that_went_well_counts_its_instances_by_zone(self, tree: Tree, as_: As) -> None:
        command = as_()
        id = boot(tree, command, "web", 16)
        assert command("reservation", "why", id) == 0
        assert "eu                12\nthis zone          4\n" in command.out


def command_short_id(command: TreeCommand) -> str:
    assert command("reservation", "list", "-c", "id") == 0
    return command.lines[1]


def report_active(tree: Tree, zone: str, count: int) -> None:
    """Let the zone's agent report so many of its instances as running, and the root read of it."""
    agent = tree.nodes[zone].client("compute")
    wanted = agent.get("/hosts/instances?service=agent").json["instances"][:count]
    reports = [{"uuid": w["uuid"], "attempt": w["attempt"], "state": "active"} for w in wanted]
    assert agent.post("/hosts/reports", {"service": "agent", "reports": reports}).status == 204
    tree.clock.advance(60)
    tree.settle()
