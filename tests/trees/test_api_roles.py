"""Every route x every role x nobody, at both mounts; and nothing is read before the sender is known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.routes import ROUTES, UUID, lines_of
from tests.builders.tree import Node, Tree
from zonesched.api.urls import URLS
from zonesched.model.caller import Role
from zonesched.services.catalog import users

pytestmark = pytest.mark.once

WHO = [*(role.value for role in Role), ""]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder: Path = tmp_path_factory.mktemp("roles")
    node = Tree(folder).add("leaf")
    node.secrets["parent"] = users.create(node.zone.store, node.zone.clock, "parent", Role.PARENT, "").secret
    yield node
    node.zone.stop()


def may(method: str, url: str, who: str) -> bool:
    return any(who in {role.value for role in route.roles} for route in lines_of(method, url))


@pytest.mark.parametrize("who", WHO, ids=lambda who: who or "nobody")
def test_each_route_is_for_its_roles_alone(node: Node, who: str) -> None:
    for method, url in sorted(ROUTES):
        is_for_its_roles_alone(node, method, url, who)


def is_for_its_roles_alone(node: Node, method: str, url: str, who: str) -> None:
    path = url.replace("{id}", UUID).replace("{key}", "k").replace("{name}", "nobody-of-this-name")
    reply = node.client(who).call(method, path, None if method in ("GET", "DELETE") else {})
    at = (method, url)
    if lines_of(method, url)[0].is_open:
        assert reply.status == 200, at
    elif not who:
        assert reply.status == 401, at
        assert reply.headers["WWW-Authenticate"].startswith("Basic "), at
        assert reply.json["unauthorized"]["error_code"] == "unauthorized", at
    elif may(method, url, who):
        assert reply.status not in (401, 403), at
        assert reply.status < 500, at
    else:
        assert reply.status == 403, at
        assert reply.json["forbidden"]["error_code"] == "role_forbidden", at


def test_the_roles_are_those_of_the_design() -> None:
    table = {(r.method, r.path, role.value) for r in URLS if not r.is_open for role in r.roles}
    of_parent = {(method, path) for method, path, role in table if role == "parent"}
    assert of_parent == {
        ("GET", "/servers/{id}/console"),
        ("GET", "/zones/info"),
        ("GET", "/audit"),
        ("GET", "/limits"),
        ("POST", "/zones/select"),
        ("POST", "/servers"),
        ("GET", "/servers"),
        ("GET", "/servers/{id}"),
        ("DELETE", "/servers/{id}"),
        ("POST", "/servers/desired"),
        ("POST", "/servers/named"),
        ("GET", "/servers/{id}/request"),
        ("GET", "/reservations"),
        ("GET", "/reservations/{id}"),
        ("POST", "/reservations/{id}/confirm"),
        ("POST", "/reservations/{id}/cancel"),
    }
    assert {(method, path) for method, path, role in table if role == "monitor"} == {("GET", "/metrics")}
    of_agent = {path for method, path, role in table if role == "compute"}
    assert of_agent == {"/hosts", "/hosts/beat", "/hosts/instances", "/hosts/reports"} | {
        "/hosts/claims",
        "/hosts/consoles",
        "/hosts/excesses",
        "/hosts/registrations",
        "/hosts/running",
    }
    read = ("servers", "reservations", "flavors", "images", "v2", "v3", "os-availability-zone",
            "os-server-groups", "limits", "os-keypairs", "os-quota-sets", "os-quota-class-sets", "extensions",
            "os-simple-tenant-usage")  # fmt: skip
    of_reader = {(method, path.split("/")[1]) for method, path, role in table if role == "reader"}
    own_password, own_link = ("POST", "users"), ("POST", "sign-in-links")
    assert of_reader == {("GET", noun) for noun in read} | {own_password, own_link}
    of_member = {line[:2] for line in table if line[2] == "member"}
    assert of_member - {line[:2] for line in table if line[2] == "reader"} == {
        ("POST", "/zones/boot"),
        ("POST", "/servers"),
        ("PUT", "/servers/{id}"),
        ("DELETE", "/servers/{id}"),
        ("POST", "/servers/{id}/action"),
        ("POST", "/servers/{id}/metadata"),
        ("PUT", "/servers/{id}/metadata"),
        ("PUT", "/servers/{id}/metadata/{key}"),
        ("DELETE", "/servers/{id}/metadata/{key}"),
        ("PUT", "/servers/{id}/tags"),
        ("DELETE", "/servers/{id}/tags"),
        ("PUT", "/servers/{id}/tags/{tag}"),
        ("DELETE", "/servers/{id}/tags/{tag}"),
        ("POST", "/servers/{id}/os-interface"),
        ("DELETE", "/servers/{id}/os-interface/{port_id}"),
        ("POST", "/servers/{id}/os-volume_attachments"),
        ("PUT", "/servers/{id}/os-volume_attachments/{volume_id}"),
        ("DELETE", "/servers/{id}/os-volume_attachments/{volume_id}"),
        ("POST", "/servers/{id}/shares"),
        ("DELETE", "/servers/{id}/shares/{share_id}"),
        ("DELETE", "/servers/{id}/migrations/{migration_id}"),
        ("POST", "/servers/{id}/migrations/{migration_id}/action"),
        ("DELETE", "/servers/{id}/os-server-password"),
        ("POST", "/servers/{id}/remote-consoles"),
        ("POST", "/os-keypairs"),
        ("DELETE", "/os-keypairs/{name}"),
        ("POST", "/reservations/{id}/action"),
        ("POST", "/os-server-groups"),
        ("DELETE", "/os-server-groups/{id}"),
    }
    of_boot = {role for method, path, role in table if path == "/zones/boot"}
    assert of_boot == {"admin", "member"}
    rest = {role for _, path, role in table if path.startswith("/zones")} - of_boot
    assert rest == {"parent"}


@pytest.mark.parametrize("credentials", [("admin", "wrong"), ("nobody", "x"), ("", ""), ("admin", "")])
def test_all_wrong_credentials_are_refused_alike(node: Node, credentials: tuple[str, str]) -> None:
    reply = node.app.test_client().get("/servers", auth=credentials)
    assert reply.status_code == 401
    assert reply.get_json()["unauthorized"]["error_code"] == "unauthorized"


@pytest.mark.parametrize(
    "header",
    [
        "Basic",
        "Basic !!!",
        "Basic YWRtaW4=",
        "Bearer x",
        "Digest a",
        "Basic /////w==",
        "Basic \xe9\xe9\xe9\xe9",
    ],
)
def test_a_malformed_header_is_just_not_known(node: Node, header: str) -> None:
    assert node.app.test_client().get("/servers", headers={"Authorization": header}).status_code == 401


@pytest.mark.parametrize("who", ["", "reader", "compute"])
def test_a_body_is_not_read_before_its_sender_may_send_it(node: Node, who: str) -> None:
    headers = {"Content-Type": "text/plain"}
    reply = node.client(who).call("POST", "/zones/boot", data=b"[" * 10_000, headers=headers)
    assert reply.status == (403 if who else 401)


def test_a_zone_can_close_its_admin_api(tmp_path: Path) -> None:
    node = Tree(tmp_path).add("closed", allow_admin_api=False)
    node.secrets["parent"] = users.create(node.zone.store, node.zone.clock, "parent", Role.PARENT, "").secret
    closed = [(method, url) for method, url in sorted(ROUTES) if "/zones" in url]
    assert len(closed) == 2 * 10
    for method, url in closed:
        for who in ("admin", "member", "parent"):
            reply = node.client(who).call(method, url.replace("{id}", UUID))
            assert (reply.status, reply.json["forbidden"]["error_code"]) == (403, "admin_api_off")
    assert node.client("member").get("/servers").status == 200


def test_without_authentication_everybody_is_admin_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Tree(tmp_path).add("open", auth_strategy="noauth")
    assert node.client("").get("/users").status == 200
    assert "noauth" in caplog.text
