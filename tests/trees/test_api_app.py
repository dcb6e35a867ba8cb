"""Common parts of every answer of a zone, and the calls that need no hosts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.tree import Node, Tree
from tests.builders.wsgi_transport import answer_of, environ_of
from zonesched.api.microversion import NEWEST, OLDEST
from zonesched.api.urls import URLS
from zonesched.model.caller import Role
from zonesched.services.catalog import users
from zonesched.services.select import info

pytestmark = pytest.mark.once

UUID = "00000000-0000-4000-8000-00000000dead"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Tree(tmp_path_factory.mktemp("app")).add("leaf", max_body_bytes=4096)
    node.secrets["parent"] = users.create(node.zone.store, node.zone.clock, "parent", Role.PARENT, "").secret
    yield node
    node.zone.stop()


def fault_of(reply: Any) -> dict[str, Any]:
    (content,) = reply.json.values()
    assert content["code"] == reply.status
    return dict(content)


# -- every answer ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/health", "/servers", "/nowhere", "/servers/" + UUID])
def test_every_answer_carries_a_request_id_and_the_version(node: Node, path: str) -> None:
    headers = node.client().get(path).headers
    assert headers["x-openstack-request-id"].startswith("req-")
    assert headers["x-openstack-request-id"] == headers["x-compute-request-id"]
    assert headers["OpenStack-API-Version"].startswith("compute 2.")
    assert "Server" not in headers


HOSTS = [
    ("zone.example", "zone.example"),
    ("zone_a:8774", "zone_a:8774"),
    ("Zone_A.example:80", "Zone_A.example"),
    ("[::1]:8774", "[::1]:8774"),
]


@pytest.mark.parametrize(("host", "named"), HOSTS)
def test_links_lead_to_the_host_that_was_called(node: Node, host: str, named: str) -> None:
    reply = node.client().call("GET", "/v2.1/", headers={"Host": host})

    assert reply.json["version"]["links"][0]["href"] == f"http://{named}/v2.1/"


@pytest.mark.parametrize(
    "host", ["", "[", "[_]", "a b", "a@b", "a/b", "a:b", "a:99999", "zone.example:0", "<b>", "\xff", "a,b"]
)
@pytest.mark.parametrize("path", ["/", "/flavors", "/nowhere"])
def test_a_host_that_is_none_is_refused(node: Node, path: str, host: str) -> None:
    reply = node.client().call("GET", path, headers={"Host": host})

    fault = fault_of(reply)
    assert (reply.status, fault["error_code"], fault["field"]) == (400, "request_malformed", "Host")


@pytest.mark.parametrize(("protocol", "status"), [("HTTP/1.0", 200), ("HTTP/1.1", 400)])
def test_a_host_may_be_left_out_in_http_1_0_alone(node: Node, protocol: str, status: int) -> None:
    environ = environ_of("GET", "http://localhost/health", {}, b"") | {"SERVER_PROTOCOL": protocol}
    del environ["HTTP_HOST"]

    assert answer_of(node.app, environ)[0] == status


def test_request_ids_differ(node: Node) -> None:
    client = node.client()
    assert len({client.get("/health").headers["x-openstack-request-id"] for _ in range(5)}) == 5


@pytest.mark.parametrize(
    "path", ["/nowhere", "/v2.1/nowhere", "/v2/servers", "/zones//x", "/..", "/servers/a/b"]
)
def test_an_unknown_url_is_not_found(node: Node, path: str) -> None:
    reply = node.client().get(path)
    assert reply.status == 404
    assert fault_of(reply)["error_code"] == "url_unknown"


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "DELETE"])
def test_a_method_that_a_url_does_not_take_is_named(node: Node, method: str) -> None:
    reply = node.client().call(method, "/servers")
    assert reply.status == 405
    assert fault_of(reply)["error_code"] == "method_unknown"
    assert reply.headers["Allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize("id", ["x" * 256, "a%00b", "a%0Ab", "a%E2%80%AEb"])
def test_an_id_that_no_item_can_have_is_not_found(node: Node, id: str) -> None:
    for path in (f"/servers/{id}", f"/flavors/{id}", f"/reservations/{id}", f"/images/{id}", f"/zones/{id}"):
        reply = node.client().get(path)
        assert (reply.status, fault_of(reply)["error_code"]) == (404, "not_found")


def test_a_trailing_slash_makes_no_difference(node: Node) -> None:
    assert node.client().get("/servers/").json == node.client().get("/servers").json


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "body_not_json"),
        (b"{", 400, "body_not_json"),
        (b"[]", 400, "body_not_json"),
        (b'{"a":' * 1000 + b"1" + b"}" * 1000, 413, "body_too_large"),
        (b'{"a":' * 600 + b"1" + b"}" * 600, 400, "body_too_deep"),
        (b'{"server": "' + b"x" * 5000 + b'"}', 413, "body_too_large"),
        (b"{}", 400, "missing_field"),
        (b'{"server": {}, "x": 1}', 400, "missing_field"),
    ],
)
def test_a_bad_body_has_a_stable_code(node: Node, body: bytes, status: int, code: str) -> None:
    reply = node.client("member").call(
        "POST", "/servers", data=body, headers={"Content-Type": "application/json"}
    )
    assert reply.status == status
    assert fault_of(reply)["error_code"] == code


def test_an_unknown_parameter_is_named(node: Node) -> None:
    reply = node.client().get("/reservations?colour=red")
    assert (reply.status, fault_of(reply)["field"]) == (400, "colour")


def test_a_crash_is_told_by_its_id_only(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def crash(zone: object) -> None:
        raise RuntimeError("secret-of-the-zone")

    monkeypatch.setattr(users, "list_users", crash)
    reply = node.client().get("/users")
    assert reply.status == 500
    assert b"secret-of-the-zone" not in reply.body
    assert fault_of(reply)["error_code"] == "internal_error"
    assert reply.headers["x-openstack-request-id"] in caplog.text


# -- versions, health, metrics -----------------------------------------------------------------------------


def test_versions_are_found_at_the_root(node: Node) -> None:
    (version,) = node.client("").get("/").json["versions"]
    assert (version["id"], version["status"]) == ("v2.1", "CURRENT")
    assert (version["version"], version["min_version"]) == (str(NEWEST), str(OLDEST))
    assert version["links"][0] == {"rel": "self", "href": "http://localhost/v2.1/"}


@pytest.mark.parametrize("path", ["/v2.1/", "/v2.1"])
def test_a_version_describes_itself(node: Node, path: str) -> None:
    version = node.client("").get(path).json["version"]
    assert (version["version"], version["min_version"]) == (str(NEWEST), str(OLDEST))
    assert version["media-types"][0]["base"] == "application/json"


@pytest.mark.parametrize("prefix", ["", "/v2.1"])
def test_the_description_is_served_at_both_mounts(node: Node, prefix: str) -> None:
    document = node.client("").get(f"{prefix}/openapi.json").json
    assert {route.url for route in URLS} == set(document["paths"])


def test_a_zone_says_that_it_lives_and_is_ready(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    assert node.client("").get("/health").json == {"status": "ok"}
    assert node.client("").get("/readiness").status == 200
    monkeypatch.setattr(info, "is_ready", lambda zone: False)
    assert node.client("").get("/readiness").status == 503


def test_calls_are_counted_by_route(node: Node) -> None:
    node.client().get(f"/servers/{UUID}")
    node.client().call("BREW", "/coffee-of-project-7")
    text = node.client().get("/metrics").body.decode()
    line = 'zonesched_api_requests_total{method="GET",route="/servers/{id}",status="404"}'
    assert line in text
    assert 'method="other",route=""' in text
    assert "zonesched_api_request_seconds_bucket" in text


def test_metrics_name_nobody(node: Node) -> None:
    text = node.client().get("/metrics").body.decode()
    assert UUID not in text
    assert "coffee" not in text
    assert "project" not in text


def test_two_zones_count_for_themselves(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    first, second = tree.add("first"), tree.add("second")
    first.client().get("/servers")
    assert 'route="/servers"' not in second.client().get("/metrics").body.decode()


def test_a_probe_is_logged_only_where_it_is_refused(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="zonesched"):
        for path in ("/health", "/readiness", "/metrics", "/zones"):
            assert node.client().get(path).status == 200
        assert node.client("parent").get("/metrics").status == 403

    lines = [record.getMessage().rpartition(" ms")[0].rpartition(" ")[0] for record in caplog.records]
    assert lines == ["GET /zones 200", "GET /metrics 403"]


def test_log_lines_hold_no_names_and_no_secrets(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="zonesched"):
        made = node.client().post("/users", {"user": {"name": "spy", "role": "parent"}}).json["user"]
        node.client().get(f"/servers/{UUID}?name=needle")
    assert "/servers/{id}" in caplog.text
    for secret in (made["secret"], node.secrets["admin"], UUID, "needle"):
        assert secret not in caplog.text


# -- users -------------------------------------------------------------------------------------------------


def test_a_generated_secret_is_told_once_and_works(node: Node) -> None:
    made = node.client().post("/users", {"user": {"name": "agent-1", "role": "compute"}})
    assert made.status == 201
    secret = made.json["user"]["secret"]
    assert secret.encode() not in node.client().get("/users").body
    reply = node.app.test_client().get("/hosts/instances?service=none", auth=("agent-1", secret))
    assert reply.status_code not in (401, 403)


def test_a_chosen_password_is_not_told(node: Node) -> None:
    body = {"user": {"name": "ann", "role": "reader", "project_id": "p", "password": "correct horse"}}
    made = node.client().post("/users", body)
    assert b"correct horse" not in made.body
    assert "secret" not in made.json["user"]
    assert node.app.test_client().get("/servers", auth=("ann", "correct horse")).status_code == 200


def test_a_deleted_user_is_out_at_once(node: Node) -> None:
    secret = (
        node.client().post("/users", {"user": {"name": "gone", "role": "compute"}}).json["user"]["secret"]
    )
    path = "/hosts/instances?service=none"
    assert node.app.test_client().get(path, auth=("gone", secret)).status_code != 401
    assert node.client().delete("/users/gone").status == 204
    assert node.app.test_client().get(path, auth=("gone", secret)).status_code == 401
    assert node.client().delete("/users/gone").status == 404


def test_a_name_is_given_once(node: Node) -> None:
    reply = node.client().post("/users", {"user": {"name": "admin", "role": "parent"}})
    assert (reply.status, fault_of(reply)["field"]) == (409, "user.name")


# -- flavors and images ------------------------------------------------------------------------------------


def test_a_flavor_goes_round(node: Node) -> None:
    admin, reader = node.client(), node.client("reader")
    body = {"flavor": {"id": "f1", "name": "small", "vcpus": 1, "ram": 512, "disk": 5}}
    assert admin.post("/flavors", body).status == 200
    assert admin.post("/flavors", body).status == 409
    assert reader.get("/flavors/f1").json["flavor"]["ram"] == 512
    assert [f["id"] for f in reader.get("/flavors").json["flavors"]] == ["f1"]
    assert reader.get("/flavors/detail").json["flavors"][0]["vcpus"] == 1
    specs = {"extra_specs": {"resources:CUSTOM_X": "2", "trait:SSD": "required"}}
    assert admin.post("/flavors/f1/os-extra_specs", specs).json == specs
    assert reader.get("/flavors/f1/os-extra_specs").json == specs
    assert reader.get("/flavors/f1/os-extra_specs/trait:SSD").json == {"trait:SSD": "required"}
    assert admin.delete("/flavors/f1/os-extra_specs/trait:SSD").status == 200
    for who, method in ((reader, "GET"), (admin, "DELETE")):
        gone = who.call(method, "/flavors/f1/os-extra_specs/trait:SSD")
        assert (gone.status, gone.json["itemNotFound"]["error_code"]) == (404, "extra_spec_unknown")
    assert admin.delete("/flavors/f1").status == 202
    assert reader.get("/flavors/f1").status == 404
    assert admin.delete("/flavors/f1").status == 404


def test_an_image_goes_round(node: Node) -> None:
    admin, reader = node.client(), node.client("reader")
    body = {"image": {"id": "i1", "name": "linux", "properties": {"architecture": "x86_64"}}}
    assert admin.post("/images", body).status == 201
    image = reader.get("/images/i1").json["image"]
    assert image["metadata"] == image["properties"] == {"architecture": "x86_64"}
    assert [i["name"] for i in reader.get("/images").json["images"]] == ["linux"]
    assert reader.get("/images/detail").json["images"] == [image]
    assert admin.delete("/images/i1").status == 204
    assert reader.get("/images/i1").status == 404


# -- zones -------------------------------------------------------------------------------------------------

A_ZONE = {
    "name": "south",
    "api_url": "http://127.0.0.1:7999/v2.1",
    "username": "parent-of-south",
    "password": "hush-hush",
}


def test_a_child_zone_goes_round_without_its_credential(node: Node) -> None:
    admin = node.client()
    made = admin.post("/zones", {"zone": A_ZONE})
    assert made.status == 201
    path = f"/zones/{made.json['zone']['id']}"
    again = admin.post("/zones", {"zone": A_ZONE})
    assert again.json["zone"]["id"] != made.json["zone"]["id"]
    changed = admin.call("PUT", path, {"zone": {"weight_scale": 2, "password": "hush-again"}})
    assert changed.json["zone"]["weight_scale"] == 2.0
    assert changed.json["zone"]["name"] == "south"
    seen = [made, changed, admin.get(path), admin.get("/zones"), admin.get("/zones/detail")]
    assert all(b"hush" not in reply.body for reply in seen)
    assert len(admin.get("/zones/detail").json["zones"]) == 2
    assert admin.delete(path).status == 204
    assert admin.get(path).status == 404
    assert admin.delete(f"/zones/{again.json['zone']['id']}?force=true").status == 204


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "http://u:p@127.0.0.1:7999/", "http://169.254.169.254/", "ftp://127.0.0.1/", "x"],
)
def test_a_child_may_not_be_anywhere(node: Node, url: str) -> None:
    reply = node.client().post("/zones", {"zone": {**A_ZONE, "api_url": url}})
    assert reply.status == 400
    assert "api_url" in fault_of(reply)["field"]
    assert node.client().get("/zones").json["zones"] == []


def test_a_zone_tells_of_itself(node: Node) -> None:
    for who in ("admin", "parent"):
        zone = node.client(who).get("/zones/info").json["zone"]
        assert zone["name"] == "leaf"
        assert {"zone_capabilities", "services", "weighers", "blob_size", "can_seal"} <= set(zone)


def test_the_audit_of_an_empty_zone_finds_nothing(node: Node) -> None:
    assert node.client().get("/audit").json == {"inconsistencies": []}
