"""Calls of pages from other origins: those that are listed may call, and nobody else learns anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.builders.tree import Node, Tree, a_host

pytestmark = pytest.mark.once

PANEL = "https://panel.example"
ASKS = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}


def a_zone(folder: Path, *origins: str) -> Node:
    return Tree(folder).add("zone", hosts_=[a_host("h1")], cors_allowed_origins=list(origins))


def cors_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith("Access-Control-")}


def test_a_page_of_a_listed_origin_may_read_the_answer(tmp_path: Path) -> None:
    reply = a_zone(tmp_path, PANEL).client().call("GET", "/flavors", headers={"Origin": PANEL})

    assert reply.status == 200
    assert reply.headers["Access-Control-Allow-Origin"] == PANEL
    assert "x-openstack-request-id" in reply.headers["Access-Control-Expose-Headers"]


def test_it_may_read_why_it_was_refused(tmp_path: Path) -> None:
    reply = a_zone(tmp_path, PANEL).client("").call("GET", "/servers", headers={"Origin": PANEL})

    assert (reply.status, reply.headers["Access-Control-Allow-Origin"]) == (401, PANEL)


def test_what_a_browser_sends_by_itself_is_never_allowed(tmp_path: Path) -> None:
    node = a_zone(tmp_path, PANEL)

    for reply in (
        node.client().call("GET", "/flavors", headers={"Origin": PANEL}),
        node.client("").call("OPTIONS", "/servers", headers={"Origin": PANEL, **ASKS}),
    ):
        assert "Access-Control-Allow-Credentials" not in reply.headers


def test_a_browser_may_ask_before_a_call_without_credentials(tmp_path: Path) -> None:
    client = a_zone(tmp_path, PANEL).client("")

    reply = client.call("OPTIONS", "/v2.1/zones/boot", headers={"Origin": PANEL, **ASKS})

    assert (reply.status, reply.body) == (204, b"")
    assert reply.headers["Access-Control-Allow-Origin"] == PANEL
    assert "POST" in reply.headers["Access-Control-Allow-Methods"].split(", ")
    allowed = reply.headers["Access-Control-Allow-Headers"].split(", ")
    assert {"Authorization", "Content-Type", "OpenStack-API-Version", "X-Request-Id"} <= set(allowed)


@pytest.mark.parametrize("origins", [(), (PANEL,)])
@pytest.mark.parametrize(
    "origin", ["https://other.example", "null", "", "*", PANEL + ".evil.example", "http://panel.example"]
)
def test_every_other_page_is_told_nothing(tmp_path: Path, origins: tuple[str, ...], origin: str) -> None:
    client = a_zone(tmp_path, *origins).client()

    read = client.call("GET", "/flavors", headers={"Origin": origin})
    asked = client.call("OPTIONS", "/flavors", headers={"Origin": origin, **ASKS})

    assert (read.status, asked.status) == (200, 405)
    assert cors_headers(read.headers) == cors_headers(asked.headers) == {}


def test_caches_are_told_that_the_answer_depends_on_the_origin(tmp_path: Path) -> None:
    listed = a_zone(tmp_path / "listed", PANEL).client().get("/flavors")
    without = a_zone(tmp_path / "without").client().get("/flavors")

    assert "Origin" in listed.headers["Vary"].split(", ")
    assert "Origin" not in without.headers["Vary"]


def test_options_without_the_question_is_a_method_that_no_call_has(tmp_path: Path) -> None:
    reply = a_zone(tmp_path, PANEL).client().call("OPTIONS", "/flavors", headers={"Origin": PANEL})

    assert reply.status == 405


class TestPagesOfOtherOrigins:
    """A browser adds the password that its user once typed, and asks nobody before a POST without a body."""

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": PANEL, "Sec-Fetch-Site": "cross-site"},
            {"Origin": PANEL, "Sec-Fetch-Site": "same-site"},
            # Over plain HTTP browsers say no more than this.
            {"Origin": PANEL},
            {"Origin": "http://localhost:7002"},
            {"Origin": "null"},
            {"Origin": "http://["},
        ],
    )
    def test_they_change_nothing(self, tmp_path: Path, headers: Mapping[str, str]) -> None:
        node = a_zone(tmp_path)

        reply = node.client().call("POST", "/sign-in-links", headers=headers)

        assert (reply.status, reply.json["forbidden"]["error_code"]) == (403, "origin_not_allowed")

    def test_nor_do_those_without_a_password_at_a_zone_that_asks_for_none(self, tmp_path: Path) -> None:
        node = Tree(tmp_path).add("zone", hosts_=[a_host("h1")], auth_strategy="noauth", noauth_force=True)

        reply = node.client("").call("DELETE", "/servers/x", headers={"Sec-Fetch-Site": "cross-site"})

        assert (reply.status, reply.json["forbidden"]["error_code"]) == (403, "origin_not_allowed")

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": PANEL, "Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-origin"},
            {"Sec-Fetch-Site": "none"},
            {"Origin": PANEL},
            {"Origin": "http://localhost"},
            {},
        ],
    )
    def test_a_listed_origin_the_own_one_and_programs_may(
        self, tmp_path: Path, headers: Mapping[str, str]
    ) -> None:
        reply = a_zone(tmp_path, PANEL).client().call("POST", "/sign-in-links", headers=headers)

        assert reply.status == 201
