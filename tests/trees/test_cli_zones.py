"""Commands about child zones and users, against the zones of a tree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders.command import TreeCommand
from tests.builders.scenes import built_once
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead
from zonesched.cli.zone import FIELDS
from zonesched.compute.credentials import Credentials, write_credentials
from zonesched.model.caller import Role
from zonesched.services.catalog import users

pytestmark = pytest.mark.once


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    """Two zones that do not know each other; `eu` has a host and a user for the root."""
    tree = Tree(tmp_path)
    tree.add("root")
    eu = tree.add("eu", hosts_=[a_host("e1")])
    eu.secrets["parent-root"] = users.create(
        eu.zone.store, eu.zone.clock, "parent-root", Role.PARENT, ""
    ).secret
    return tree


@pytest.fixture
def root(tree: Tree, capsys: pytest.CaptureFixture[str]) -> TreeCommand:
    return TreeCommand(capsys, tree, "root")


def credentials(tree: Tree, user: str, secret: str = "") -> str:
    """A file with this user's credentials in eu."""
    path = tree.folder / f"{user}.credentials"
    eu = tree.nodes["eu"]
    write_credentials(path, Credentials(eu.url, user, secret or eu.secrets[user]))
    return str(path)


class TestAdd:
    def test_a_child_is_added_from_the_file_that_save_writes(self, tree: Tree, root: TreeCommand) -> None:
        file = credentials(tree, "parent-root")
        assert root("zone", "add", "eu", "--child-credentials", file, "-o", "json") == 0
        assert json.loads(root.out).keys() == set(FIELDS)
        tree.poll()
        assert root("zone", "list", "-o", "value", "-c", "name", "-c", "state", "-c", "api_url") == 0
        assert root.lines == [f"eu ready {tree.nodes['eu'].url}"]

    @pytest.mark.parametrize(
        ("user", "secret", "code"),
        [
            ("parent-root", "wrong", "child_credentials_refused"),
            ("nobody", "wrong", "child_credentials_refused"),
            ("admin", "", "child_user_no_parent"),
            ("member", "", "child_user_no_parent"),
            ("compute", "", "child_user_no_parent"),
        ],
    )
    def test_credentials_that_are_no_parents_are_refused_at_once(
        self, tree: Tree, root: TreeCommand, user: str, secret: str, code: str
    ) -> None:
        assert root("zone", "add", "eu", "--child-credentials", credentials(tree, user, secret)) == 1
        assert root.err.endswith(f"({code})\n")
        assert root("zone", "list", "-o", "value") == 0
        assert root.out == ""

    def test_a_change_to_wrong_credentials_changes_nothing(self, tree: Tree, root: TreeCommand) -> None:
        good = credentials(tree, "parent-root")
        assert root("zone", "add", "eu", "--child-credentials", good) == 0
        assert root("zone", "set", "eu", "--child-credentials", credentials(tree, "admin")) == 1
        assert root("zone", "set", "eu", "--child-credentials", credentials(tree, "parent-root")) == 0
        tree.poll()
        assert root("zone", "show", "eu", "-o", "value", "-c", "state") == 0
        assert root.out == "ready\n"

    def test_a_child_that_is_not_started_yet_is_added(self, tree: Tree, root: TreeCommand) -> None:
        tree.network.fault(tree.nodes["eu"].url, Dead())
        assert root("zone", "add", "eu", "--child-credentials", credentials(tree, "admin")) == 0

    def test_the_trial_writes_nothing_in_the_child(self, tree: Tree, root: TreeCommand) -> None:
        assert root("zone", "add", "eu", "--child-credentials", credentials(tree, "parent-root")) == 0
        listed = tree.nodes["eu"].client().get("/reservations?all_tenants=true").json
        assert listed == {"reservations": []}

    @pytest.mark.parametrize(
        "options", [[], ["http://x"], ["--child-credentials", "FILE", "--child-username", "u"]]
    )
    def test_a_user_is_named_once(self, tree: Tree, root: TreeCommand, options: list[str]) -> None:
        file = credentials(tree, "parent-root")
        assert root("zone", "add", "eu", *(file if option == "FILE" else option for option in options)) == 2


class TestOwnPassword:
    OLD, NEW = "correct horse battery", "another staple"

    @pytest.fixture
    def ann(self, tree: Tree, capsys: pytest.CaptureFixture[str]) -> TreeCommand:
        node = tree.nodes["root"]
        users.create(node.zone.store, node.zone.clock, "ann", Role.MEMBER, "p1", self.OLD)
        node.secrets["ann"] = self.OLD
        (tree.folder / "new").write_text(self.NEW + "\n")
        return TreeCommand(capsys, tree, "root", "ann")

    def test_a_member_changes_the_own_password(self, tree: Tree, ann: TreeCommand) -> None:
        assert ann("user", "password", "--new-password-file", str(tree.folder / "new")) == 0
        assert (ann.out, ann("server", "list")) == ("", 1)
        assert users.authenticate(tree.nodes["root"].zone, "ann", self.NEW).role is Role.MEMBER

    def test_the_present_password_is_needed(self, tree: Tree, ann: TreeCommand) -> None:
        (tree.folder / "old").write_text("guessed\n")
        files = ("--old-password-file", str(tree.folder / "old"))
        code = ann("user", "password", *files, "--new-password-file", str(tree.folder / "new"))
        assert (code, ann.err.endswith("(password_wrong)\n")) == (1, True)
        assert users.authenticate(tree.nodes["root"].zone, "ann", self.OLD)

    def test_nobody_changes_the_password_of_another(self, tree: Tree, ann: TreeCommand) -> None:
        root = tree.nodes["root"]
        form = {"user": {"original_password": self.OLD, "password": self.NEW}}
        for user, wanted in (("ann", "admin"), ("admin", "ann"), ("ann", "nobody")):
            answer = root.client(user).post(f"/users/{wanted}/password", form)
            assert (answer.status, answer.json["forbidden"]["error_code"]) == (403, "not_own_user")
        assert root.client("compute").post("/users/compute/password", form).status == 403
        assert users.authenticate(root.zone, "ann", self.OLD)
