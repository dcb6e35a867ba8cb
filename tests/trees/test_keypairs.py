"""Key pairs of users: made or imported, and only the public half kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from tests.builders.tree import Node, Tree
from zonesched.model.caller import Role
from zonesched.services.catalog import keypairs, users

WITH_TYPE = {"OpenStack-API-Version": "compute 2.91"}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB0mXBqtF8n7WJtZrDqVrHKgkUzaGvSWoVtPHd6FYNH1 someone"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Tree(tmp_path).add("leaf")
    for name in ("ann", "ben"):
        node.secrets[name] = users.create(node.zone.store, node.zone.clock, name, Role.MEMBER, "p").secret
    yield node
    node.zone.stop()


@pytest.mark.sqlite
def test_a_key_pair_is_made_and_its_private_half_shown_once(node: Node, tmp_path: Path) -> None:
    client = node.client("ann")

    made = client.post("/os-keypairs", {"keypair": {"name": "mine"}}, headers=WITH_TYPE).json["keypair"]
    shown = client.get("/os-keypairs/mine").json["keypair"]

    private = serialization.load_ssh_private_key(made["private_key"].encode(), None)
    public = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    assert shown["public_key"] == made["public_key"] == public.decode()
    assert shown["fingerprint"].count(":") == 15
    assert "private_key" not in shown
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    kept = made["private_key"].splitlines()[2].encode()
    assert files and not any(kept in path.read_bytes() for path in files)


def test_an_imported_key_has_the_fingerprint_that_ssh_keygen_shows(node: Node) -> None:
    reply = node.client("ann").post("/os-keypairs", {"keypair": {"name": "k", "public_key": KEY}})

    assert reply.status == 201
    assert reply.json["keypair"]["public_key"] == KEY
    assert reply.json["keypair"]["fingerprint"] == "d9:bb:3d:eb:86:05:85:22:37:ae:e4:74:02:46:88:8e"


def test_the_key_pairs_of_a_user_are_their_own(node: Node) -> None:
    node.client("ann").post("/os-keypairs", {"keypair": {"name": "k", "public_key": KEY}})

    assert node.client("ben").get("/os-keypairs").json == {"keypairs": []}
    assert node.client("ben").get("/os-keypairs/k").status == 404
    assert node.client("ben").delete("/os-keypairs/k").status == 404
    ann = node.client("ann").get("/os-keypairs/k").json["keypair"]["user_id"]
    assert node.client("ben").get(f"/os-keypairs?user_id={ann}").status == 403
    assert len(node.client().get(f"/os-keypairs?user_id={ann}").json["keypairs"]) == 1


def test_a_name_is_taken_once(node: Node) -> None:
    client, form = node.client("ann"), {"keypair": {"name": "k", "public_key": KEY}}
    assert client.post("/os-keypairs", form).status == 201

    reply = client.post("/os-keypairs", form)

    assert (reply.status, reply.json["conflictingRequest"]["error_code"]) == (409, "keypair_exists")


def test_key_pairs_are_listed_by_name_in_pages(node: Node) -> None:
    client = node.client("ann")
    for name in "cab":
        client.post("/os-keypairs", {"keypair": {"name": name, "public_key": KEY}})

    first = client.get("/os-keypairs?limit=2").json
    second = client.get("/os-keypairs?limit=2&marker=b").json

    assert [one["keypair"]["name"] for one in first["keypairs"]] == ["a", "b"]
    assert first["keypairs_links"][0]["href"].endswith("limit=2&marker=b")
    assert [one["keypair"]["name"] for one in second["keypairs"]] == ["c"]
    assert "keypairs_links" not in second
    assert client.get("/os-keypairs?marker=none").status == 400


def test_a_user_has_so_many_key_pairs(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keypairs, "MAX_PER_USER", 1)
    client = node.client("ann")
    client.post("/os-keypairs", {"keypair": {"name": "a", "public_key": KEY}})

    reply = client.post("/os-keypairs", {"keypair": {"name": "b", "public_key": KEY}})

    assert (reply.status, reply.json["forbidden"]["error_code"]) == (403, "keypair_limit")


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"name": ""}, "keypair.name"),
        ({"name": "a/b"}, "keypair.name"),
        ({"name": 7}, "keypair.name"),
        ({"name": "k", "type": "x509"}, "keypair.type"),
        ({"name": "k", "public_key": "not a key"}, "keypair.public_key"),
        ({"name": "k", "public_key": "ssh-ed25519 AAAA"}, "keypair.public_key"),
        ({"name": "k", "public_key": "ssh-ed25519"}, "keypair.public_key"),
        ({"name": "k", "public_key": "ssh-ed25519 \u00e4"}, "keypair.public_key"),
        ({"name": "k", "what": 1}, "keypair.what"),
    ],
)
def test_bad_input_names_its_field_and_changes_nothing(node: Node, form: object, field: str) -> None:
    reply = node.client("ann").post("/os-keypairs", {"keypair": form})

    assert (reply.status, reply.json["badRequest"]["field"]) == (400, field)
    assert node.client("ann").get("/os-keypairs").json == {"keypairs": []}


def test_the_key_pairs_of_a_removed_user_go_too(node: Node) -> None:
    ann = node.client("ann")
    ann.post("/os-keypairs", {"keypair": {"name": "k", "public_key": KEY}})
    owner = ann.get("/os-keypairs/k").json["keypair"]["user_id"]

    node.client().delete("/users/ann")

    assert node.client().get(f"/os-keypairs?user_id={owner}").json == {"keypairs": []}
