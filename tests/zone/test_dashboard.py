"""The dashboard: who is let in, what a page may show and to whom, and what a form may do."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import psycopg
import pytest
import sqlalchemy as sa

from tests.builders.audited_tree import a_booted_tree, plant
from tests.builders.migrated import url_of
from tests.builders.played_agent import PlayedAgent
from tests.builders.postgresql import SERVER
from tests.builders.tree import Node, Tree, a_host
from tests.builders.visitor import Visitor
from tests.builders.wsgi_transport import Dead
from zonesched.api import inner_call
from zonesched.dashboard import render, visit
from zonesched.dashboard.headers import POLICY
from zonesched.dashboard.pages import boots
from zonesched.dashboard.pages.servers import SHOWN_STATUSES
from zonesched.dashboard.table import PAGES
from zonesched.dashboard.unsent import PASSWORD
from zonesched.model.caller import Role
from zonesched.model.catalog import CatalogFlavor, CatalogImage
from zonesched.model.request_spec import Flavor, Image
from zonesched.services.catalog import users
from zonesched.services.owners import servers
from zonesched.store import copies, flavors, images
from zonesched.store.tables import unheard

FLAVOR = {"flavor": {"name": "small", "vcpus": 1, "ram": 64, "disk": 1}}
HOSTILE = '"><script>alert(1)</script>'
FOR_ADMINS = ("/tree", "/hosts", "/aggregates", "/users", "/audit", "/hosts/layout", "/hosts/heat?class=VCPU")
FOR_PEOPLE = ("/boots", "/servers", "/flavors", "/limits", "/boot")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    node = tree.add(
        "zone", hosts_=[a_host("host-1"), a_host("host-2", zone="az2")], audit_log=str(tmp_path / "audit.log")
    )
    assert node.client().post("/flavors", FLAVOR).status == 200
    return tree


@pytest.fixture
def node(tree: Tree) -> Node:
    return tree.nodes["zone"]


@pytest.fixture
def admin(node: Node) -> Visitor:
    return signed_in(node, "admin")


def signed_in(node: Node, user: str) -> Visitor:
    visitor = Visitor(node)
    assert visitor.sign_in(user).status_code == 303
    return visitor


def boot(tree: Tree, node: Node, name: str = "web", count: int = 2, user: str = "admin") -> str:
    server = {"name": name, "flavorRef": "small", "num_instances": count}
    made = node.client(user).post("/zones/boot", {"server": server})
    assert made.status == 202, made.json
    tree.settle()
    PlayedAgent(node).converge()
    return str(made.json["reservation_id"])


def key_of(page: str) -> str:
    """The key by which the form of a boot boots once."""
    found = re.search(r'name="key" value="(\w+)"', page)
    assert found is not None
    return found[1]


def last_entry(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(node.zone.conf.audit_log).read_text().splitlines()[-1])
    return found


# -- signing in --------------------------------------------------------------------------------------------


def test_without_a_session_every_page_leads_to_the_sign_in(node: Node) -> None:
    visitor = Visitor(node)
    for page in PAGES:
        path = page.path.removeprefix("/dashboard").replace("<id>", "x")
        answer = visitor.get(path) if page.method == "GET" else visitor.send(path, {"do": "add"})
        assert answer.status_code == 303, path
        assert answer.headers["Location"].startswith("/dashboard/sign-in"), path


def test_a_session_is_a_cookie_that_no_script_and_no_other_site_gets(node: Node) -> None:
    answer = Visitor(node).sign_in()
    cookie = answer.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/dashboard", "Max-Age=43200"} <= set(cookie.split("; "))
    assert "Secure" not in cookie


def test_over_tls_the_cookie_is_for_tls_alone(node: Node) -> None:
    visitor = Visitor(node)
    form = {"user": "admin", "password": node.secrets["admin"]}
    answer = visitor._client.post("/dashboard/sign-in", data=form, base_url="https://localhost")
    assert "Secure" in answer.headers["Set-Cookie"].split("; ")


def test_a_reader_goes_on_to_the_page_that_was_asked_for(node: Node) -> None:
    visitor = Visitor(node)
    asked = visitor.get("/servers?status=ACTIVE").headers["Location"]
    assert asked == "/dashboard/sign-in?next=%2Fdashboard%2Fservers%3Fstatus%3DACTIVE"
    assert (
        visitor.sign_in(next="/dashboard/servers?status=ACTIVE").headers["Location"].endswith("status=ACTIVE")
    )


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.example", "//evil.example", "/dashboard/\\evil", "/servers"]
)
def test_nobody_is_sent_elsewhere_after_the_sign_in(node: Node, elsewhere: str) -> None:
    assert Visitor(node).sign_in(next=elsewhere).headers["Location"] == "/dashboard/"


def test_a_wrong_password_is_refused_and_kept_in_the_audit_log(node: Node) -> None:
    answer = Visitor(node).sign_in("admin", password="wrong")
    assert answer.status_code == 401
    assert "Set-Cookie" not in answer.headers
    entry = last_entry(node)
    assert (entry["path"], entry["action"], entry["status"], entry["code"]) == (
        "/dashboard/sign-in",
        "sign_in",
        401,
        "unauthorized",
    )
    # Whose password it was, by what the form claims, and nobody's role.
    assert (entry["user"], entry["role"]) == ("admin", "")


def test_wrong_passwords_of_the_form_count_with_those_of_the_api(node: Node) -> None:
    users.create(
        node.zone.store, node.zone.clock, "ann", Role.READER, "p", "hello", cost=node.zone.passwords.cost
    )
    visitor = Visitor(node)
    for _ in range(5):
        visitor.sign_in("ann", password="wrong")
    answer = visitor.sign_in("ann", password="hello")
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1
    assert "too_many_wrong_passwords" in answer.text


@pytest.mark.parametrize("role", ["compute", "monitor"])
def test_machines_have_no_dashboard(node: Node, role: str) -> None:
    answer = Visitor(node).sign_in(role)
    assert (answer.status_code, "Set-Cookie" in answer.headers) == (403, False)


def test_a_session_ends_by_time(tree: Tree, node: Node, admin: Visitor) -> None:
    tree.clock.advance(node.zone.conf.dashboard_session + 1)
    assert admin.get("/boots").status_code == 303


def with_the_cookie_of(other: Visitor, node: Node) -> Visitor:
    """Another browser, with the session that this one has now."""
    name = f"zonesched-{node.zone.uuid[:8]}"
    cookie = other._client.get_cookie(name, path="/dashboard")
    assert cookie is not None
    visitor = Visitor(node)
    visitor._client.set_cookie(name, cookie.value, path="/dashboard")
    return visitor


def test_a_session_ends_when_its_browser_signs_in_again(node: Node, admin: Visitor) -> None:
    copied = with_the_cookie_of(admin, node)
    assert admin.sign_in("admin", password="wrong").status_code == 401
    assert copied.get("/boots").status_code == 200

    assert admin.sign_in().status_code == 303

    assert copied.get("/boots").status_code == 303
    assert admin.get("/boots").status_code == 200


def test_a_form_of_a_boot_that_comes_after_the_session_is_filled_in_again_once_its_reader_signs_in(
    tree: Tree, node: Node, admin: Visitor
) -> None:
    form = {"name": "it's & more", "flavor": "small", "num_instances": "7", "hint_name_2": "rack"}
    sent = {**form, "do": "boot", "key": "k", "form_token": admin.form_token("/boot")}
    tree.clock.advance(node.zone.conf.dashboard_session + 1)

    to_sign_in = admin.send("/boot", sent).headers["Location"]
    page = signed_in_again(admin, to_sign_in)

    for shown in ('value="it\'s & more"', " selected>small<", 'value="7"', 'value="rack"'):
        assert shown in page
    back = parse_qs(urlsplit(to_sign_in).query)["next"][0]
    assert not {"key", "do", "form_token"} & parse_qs(urlsplit(back).query).keys()
    assert node.client().get("/reservations").json["reservations"] == []


def signed_in_again(visitor: Visitor, to_sign_in: str) -> str:
    """Sign in where a form has led to, and return the page that is shown then."""
    asked = re.search(r'name="next" value="([^"]+)"', visitor.text(to_sign_in.removeprefix("/dashboard")))
    assert asked is not None
    back = visitor.sign_in(next=unescape(asked[1])).headers["Location"]
    return unescape(visitor.text(back.removeprefix("/dashboard")))


FORMS = [
    ("/flavors", {"do": "add", "name": "it's & more", "vcpus": "3"}, ['value="it\'s & more"', 'value="3"']),
    ("/flavors", {"do": "remove", "id": "1"}, []),
    ("/aggregates", {"do": "add", "name": "rack", "zone": "az9"}, ['value="rack"', 'value="az9"']),
    ("/aggregates", {"do": "add_host", "id": "1", "host": "host-7"}, ['value="host-7"']),
    ("/aggregates", {"do": "add_host", "id": "1", "host": ""}, []),
    ("/users", {"do": "add", "name": "ann", "role": "reader"}, ['value="ann"', " selected>reader<"]),
    ("/hosts/{host}", {"do": "disable", "reason": "new fans"}, ['value="new fans"']),
    ("/servers/{server}", {"do": "pause"}, [" selected>pause<"]),
]


@pytest.mark.parametrize(("path", "form", "shown"), FORMS)
@pytest.mark.parametrize("is_over", [True, False])
def test_a_form_that_was_not_carried_out_is_shown_again_as_it_was_sent(
    tree: Tree, node: Node, admin: Visitor, path: str, form: dict[str, str], shown: list[str], is_over: bool
) -> None:
    assert node.client().post("/os-aggregates", {"aggregate": {"name": "row"}}).status == 200
    boot(tree, node)
    host = node.client().get("/os-hypervisors").json["hypervisors"][0]["id"]
    server = node.client().get("/servers").json["servers"][0]["id"]
    path = path.format(host=host, server=server)
    sent = {**form, "form_token": admin.form_token(path)}
    tree.clock.advance(node.zone.conf.dashboard_session + 1)
    admin.sign_in("nobody" if is_over else "admin")

    answer = admin.send(path, sent)
    if is_over:
        page = signed_in_again(admin, answer.headers["Location"])
    else:
        # In another tab.
        assert answer.status_code == 403
        back = re.search(r'href="/dashboard([^"]+)">Back to the form', answer.text)
        assert back is not None
        page = unescape(admin.text(unescape(back[1])))

    assert "The form was not carried out" in page
    assert [one for one in shown if one not in page] == []
    assert admin.send(path, {**form, "form_token": admin.form_token(path)}).status_code != 403


def test_a_form_that_the_api_refuses_can_be_corrected(admin: Visitor) -> None:
    refused = admin.post("/flavors", do="add", name="small", vcpus="7")
    assert refused.status_code == 409
    back = re.search(r'href="/dashboard([^"]+)">Back to the form', refused.text)
    assert back is not None and 'value="7"' in admin.text(unescape(back[1]))


def test_a_form_that_is_too_long_for_an_url_leads_to_its_page_empty(node: Node) -> None:
    answer = Visitor(node).send("/boot", {"name": "x" * 1000, "do": "boot"})
    assert answer.headers["Location"] == "/dashboard/sign-in?next=%2Fdashboard%2Fboot%3Funsent%3Dboot"


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Sec_Fetch_Site": "cross-site"}, {"Content_Type": "text/plain"}],
)
def test_a_form_of_another_site_fills_in_nothing(node: Node, headers: dict[str, str]) -> None:
    answer = Visitor(node).send("/users", {"do": "add", "name": "mallory", "role": "admin"}, **headers)
    assert answer.headers["Location"] == "/dashboard/sign-in?next=%2Fdashboard%2Fusers"


def test_no_password_goes_through_the_sign_in(node: Node, admin: Visitor) -> None:
    answer = Visitor(node).send("/users", {"do": "add", "name": "ann", "password": "secret"})
    assert "secret" not in answer.headers["Location"]
    assert "type it again" in signed_in_again(Visitor(node), answer.headers["Location"])
    for page in (Path(render.__file__).parent / "templates").glob("*.html"):
        for field in re.findall(r"<input[^>]*type=.password[^>]*>", page.read_text()):
            assert f'name="{PASSWORD}"' in field


def test_who_signs_out_of_a_session_that_has_ended_can_sign_in_again(
    tree: Tree, node: Node, admin: Visitor
) -> None:
    token = admin.form_token("/boots")
    tree.clock.advance(node.zone.conf.dashboard_session + 1)
    assert admin.send("/sign-out", {"form_token": token}).headers["Location"] == "/dashboard/sign-in"


def test_a_session_ends_by_signing_out_in_the_zone_too(node: Node, admin: Visitor) -> None:
    copied = with_the_cookie_of(admin, node)
    assert copied.get("/boots").status_code == 200
    assert admin.post("/sign-out", on="/boots").status_code == 303
    assert copied.get("/boots").status_code == 303


def test_another_password_ends_the_sessions_of_its_user_alone(node: Node, admin: Visitor) -> None:
    member = signed_in(node, "member")
    assert node.client().call("PUT", "/users/member", {"user": {"new_secret": True}}).status == 200
    assert (member.get("/boots").status_code, admin.get("/boots").status_code) == (303, 200)


def during_the_next_token(node: Node, monkeypatch: pytest.MonkeyPatch, then: Callable[[], object]) -> None:
    """Let something happen while a call that has been authenticated makes its token."""
    clock = node.zone.clock

    def random_bytes(count: int) -> bytes:
        monkeypatch.undo()
        then()
        return clock.random_bytes(count)

    monkeypatch.setattr(clock, "random_bytes", random_bytes)


@pytest.mark.parametrize("end", ["replaced", "removed"])
def test_no_session_outlasts_its_password_that_ends_during_the_sign_in(
    node: Node, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    def then() -> None:
        if end == "replaced":
            users.set_secret(node.zone, "member")
        else:
            users.delete(node.zone.store, node.zone.verified, "member")

    visitor = Visitor(node)
    during_the_next_token(node, monkeypatch, then)

    assert visitor.sign_in("member").status_code == 401
    assert visitor.get("/boots").status_code == 303


def test_no_link_outlasts_its_password_that_is_replaced_while_it_is_made(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    during_the_next_token(node, monkeypatch, lambda: users.set_secret(node.zone, "member"))

    assert node.client("member").post("/sign-in-links", None).status == 401


def test_a_password_has_the_spaces_that_it_was_given_with(node: Node, admin: Visitor) -> None:
    made = admin.post("/users", do="add", name="carol", role="member", project="p", password=" two words ")
    assert made.status_code == 303

    assert Visitor(node).sign_in("carol", password=" two words ").status_code == 303
    assert Visitor(node).sign_in("carol", password="two words").status_code == 401


def test_a_stranger_does_not_read_the_name_of_the_zone(tmp_path: Path) -> None:
    visitor = Visitor(Tree(tmp_path).add("secret-zone"))
    assert "secret-zone" not in visitor.get("/sign-in").text
    assert "secret-zone" not in visitor.sign_in("admin", password="wrong").text
    assert "secret-zone" not in visitor.get("/nothing").text


def test_a_removed_user_is_out_at_once(node: Node) -> None:
    reader = signed_in(node, "reader")
    assert node.client().delete("/users/reader").status == 204
    assert reader.get("/boots").status_code == 303


def test_a_link_signs_in_once(tree: Tree, node: Node) -> None:
    made = node.client("member").post("/sign-in-links", None)
    assert made.status == 201
    path = made.json["sign_in_link"]["path"].removeprefix("/dashboard")
    link = path.partition("link=")[2]
    first, second = Visitor(node), Visitor(node)
    assert link in first.text(path)
    assert first.send("/sign-in", {"link": link}).status_code == 303
    assert "<b>member</b>" in first.text("/boots")
    assert second.send("/sign-in", {"link": link}).status_code == 401


def test_a_link_expires_and_is_no_session(tree: Tree, node: Node) -> None:
    link = node.client().post("/sign-in-links", None).json["sign_in_link"]["path"].partition("link=")[2]
    as_cookie = {"Cookie": f"zonesched-{node.zone.uuid[:8]}={link}"}
    assert Visitor(node).get("/boots", **as_cookie).status_code == 303
    tree.clock.advance(3601)
    assert Visitor(node).send("/sign-in", {"link": link}).status_code == 401


@pytest.mark.parametrize(("step_s", "is_valid"), [(-4.0, True), (-6.0, False), (-86_400.0, False)])
def test_a_clock_that_is_set_back_lengthens_no_link_and_no_session(
    tree: Tree, node: Node, step_s: float, is_valid: bool
) -> None:
    # given
    link = node.client().post("/sign-in-links", None).json["sign_in_link"]["path"].partition("link=")[2]
    visitor = signed_in(node, "admin")
    # when
    tree.clock.set_to(tree.clock.now() + step_s)
    # then
    assert visitor.get("/boots").status_code == (200 if is_valid else 303)
    assert Visitor(node).send("/sign-in", {"link": link}).status_code == (303 if is_valid else 401)


def test_after_a_clock_was_set_back_the_newest_sessions_stay(tree: Tree, node: Node) -> None:
    # given
    for _ in range(100):
        Visitor(node).sign_in()
    tree.clock.set_to(tree.clock.now() - 86_400.0)
    # when
    first, second = signed_in(node, "admin"), signed_in(node, "admin")
    # then
    assert (first.get("/boots").status_code, second.get("/boots").status_code) == (200, 200)


def test_sessions_of_one_user_are_bounded(node: Node) -> None:
    first = signed_in(node, "admin")
    for _ in range(100):
        node.zone.clock.advance(1)  # type: ignore[attr-defined]
        Visitor(node).sign_in()
    assert first.get("/boots").status_code == 303


def test_without_the_option_there_is_no_dashboard(tmp_path: Path) -> None:
    node = Tree(tmp_path).add("zone", allow_dashboard=False)
    assert Visitor(node).get("/sign-in").status_code == 404
    assert node.client().post("/sign-in-links", None).json["itemNotFound"]["error_code"] == "dashboard_off"


def test_a_zone_without_users_has_one_button_and_its_forms_their_token(tmp_path: Path) -> None:
    node = Tree(tmp_path).add("zone", auth_strategy="noauth")
    visitor = Visitor(node)
    assert visitor.get("/boots").status_code == 303
    assert visitor.send("/sign-in", {"next": ""}).status_code == 303
    assert "<b>noauth</b>" in visitor.text("/tree")
    assert visitor.send("/flavors", {"do": "add", "name": "x"}).status_code == 403


# -- forms -------------------------------------------------------------------------------------------------


def test_a_form_without_the_token_of_its_session_changes_nothing(node: Node, admin: Visitor) -> None:
    other = signed_in(node, "admin")
    add = {"do": "add", "name": "large", "vcpus": "1", "ram": "64", "disk": "1"}
    for token in ("", "0" * 64, other.form_token("/flavors")):
        answer = admin.send("/flavors", {**add, "form_token": token})
        assert (answer.status_code, "form_refused" in answer.text) == (403, True)
    assert "large" not in admin.text("/flavors")
    assert admin.post("/flavors", **add).status_code == 303
    assert "large" in admin.text("/flavors")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Sec_Fetch_Site": "cross-site"},
    ],
)
def test_a_form_of_another_site_is_refused_also_the_sign_in(
    node: Node, admin: Visitor, headers: dict[str, str]
) -> None:
    form = {"form_token": admin.form_token("/flavors"), "do": "remove", "id": "x"}
    assert admin.send("/flavors", form, **headers).status_code == 403
    assert Visitor(node).send("/sign-in", {"user": "admin"}, **headers).status_code == 403


def test_a_zone_may_be_called_by_the_name_of_its_container(node: Node) -> None:
    visitor = Visitor(node)
    headers = {"Host": "zone_1:8790", "Origin": "http://zone_1:8790"}

    assert visitor.send("/sign-in", {"user": "x"}, **headers).status_code == 401


def test_a_write_stands_in_the_audit_log_with_its_call(node: Node, admin: Visitor) -> None:
    admin.post("/flavors", do="add", name="large", vcpus="1", ram="64", disk="1")
    entry = last_entry(node)
    assert (
        entry["user"],
        entry["role"],
        entry["method"],
        entry["path"],
        entry["action"],
        entry["status"],
    ) == (
        "admin",
        "admin",
        "POST",
        "/dashboard/flavors",
        "POST /flavors",
        303,
    )


def test_large_and_malformed_forms_are_refused(admin: Visitor) -> None:
    token = admin.form_token("/flavors")
    assert admin.send("/flavors", {"form_token": token, "name": "x" * 70_000}).status_code == 413
    assert admin.send("/flavors", {"form_token": token, "name": "\0"}).status_code == 400
    many = {"form_token": token, **{f"f{n}": "" for n in range(300)}}
    assert admin.send("/flavors", many).status_code == 400
    as_json = admin._client.post("/dashboard/flavors", json={"form_token": token})
    assert as_json.status_code == 400


# -- who sees what -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["member", "reader"])
def test_pages_of_admins_are_refused_to_others_as_the_api_refuses_them(node: Node, role: str) -> None:
    visitor = signed_in(node, role)
    for path in FOR_ADMINS:
        answer = visitor.get(path)
        assert (answer.status_code, "role_forbidden" in answer.text) == (403, True), path
    for path in FOR_PEOPLE:
        assert visitor.get(path).status_code == 200, path


def test_a_reader_changes_nothing(tree: Tree, node: Node) -> None:
    boot(tree, node, user="member")
    reader = signed_in(node, "reader")
    server = node.client("member").get("/servers").json["servers"][0]["id"]
    token = reader.form_token("/boots")
    for path, form in {
        "/boot": {"do": "boot", "name": "x", "flavor": "small", "num_instances": "1"},
        f"/servers/{server}": {"do": "delete"},
        "/flavors": {"do": "remove", "id": "small"},
        "/users": {"do": "remove", "name": "member"},
    }.items():
        assert reader.send(path, {"form_token": token, **form}).status_code == 403, path
    assert "New boot" not in reader.text("/boots")


def test_nothing_of_another_project_is_shown(tree: Tree, node: Node) -> None:
    node.secrets["other"] = users.create(
        node.zone.store, node.zone.clock, "other", Role.MEMBER, "project-2"
    ).secret
    reservation = boot(tree, node, name="secret-name", user="member")
    server = node.client("member").get("/servers").json["servers"][0]["id"]
    other = signed_in(node, "other")
    for path in ("/boots", "/servers", f"/servers?reservation_id={reservation}", "/limits"):
        assert "secret-name" not in other.text(path), path
    for path in (f"/boots/{reservation}", f"/servers/{server}"):
        assert other.get(path).status_code == 404, path
    assert (
        other.send(
            f"/servers/{server}", {"form_token": other.form_token("/boots"), "do": "delete"}
        ).status_code
        == 404
    )


def test_a_member_sees_no_host_and_no_child(tree: Tree, node: Node) -> None:
    tree.add("leaf", hosts_=[a_host("below-1")], parent="zone")
    tree.poll()
    reservation = boot(tree, node, user="member")
    member = signed_in(node, "member")
    for path in ("/boots", f"/boots/{reservation}", f"/boots/{reservation}?host=host-1", "/servers"):
        assert not re.search(
            r"\b(host-1|host-2|below-1|leaf)\b", member.text(path).replace("host=host-1", "")
        ), path


def test_a_member_reads_that_servers_in_child_zones_are_placed(tree: Tree, node: Node) -> None:
    leaf = tree.add("leaf", hosts_=[a_host("below-1", zone="below")], parent="zone")
    tree.poll()
    for host in ("host-1", "host-2"):
        node.client().call("PUT", "/os-services/disable", {"host": host})
    reservation = boot(tree, node, user="member")
    PlayedAgent(leaf).converge()
    tree.settle()
    member = signed_in(node, "member")
    page = member.text(f"/boots/{reservation}")
    assert "ACTIVE</span> 2" in page
    assert "<span>other zones</span>" in page
    assert "Nothing is placed" not in page
    (server,) = node.client("member").get("/servers?limit=1").json["servers"]
    assert "<dt>where</dt><dd>another zone</dd>" in member.text(f"/servers/{server['id']}")


def test_an_admin_sees_a_boot_with_its_funnel_and_asks_about_one_host(
    tree: Tree, node: Node, admin: Visitor
) -> None:
    reservation = boot(tree, node, count=3)
    page = admin.text(f"/boots/{reservation}?host=host-2")
    assert "Why not this host?" in page
    assert "could take an instance now" in page
    assert "ComputeFilter" in page
    assert "There is no such host" in admin.text(f"/boots/{reservation}?host=host-9")


def test_a_large_boot_says_of_how_many_servers_it_shows_places_and_times(
    tree: Tree, node: Node, admin: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    reservation = boot(tree, node, count=3)
    page = admin.text(f"/boots/{reservation}")
    assert "3 of 3 ACTIVE after" in page
    assert "of its" not in page
    monkeypatch.setattr(boots, "MOST_SERVERS", 2)
    page = admin.text(f"/boots/{reservation}")
    assert "2 of 2 ACTIVE after" in page
    assert page.count("Of 2 of its 3 servers.") == 2


@pytest.mark.parametrize("path", ["/boots", "/servers", "/flavors", "/users", "/boot", "/tree"])
def test_hostile_names_are_text(tree: Tree, node: Node, admin: Visitor, path: str) -> None:
    large = {"flavor": {"name": HOSTILE, "vcpus": 1, "ram": 64, "disk": 1}}
    assert node.client().post("/flavors", large).status == 200
    made = node.client().post("/servers", {"server": {"name": HOSTILE, "flavorRef": "small"}})
    assert made.status == 202
    tree.settle()
    page = admin.text(path)
    assert "<script>alert" not in page
    assert ("&lt;script&gt;alert" in page) == (path != "/users")
    assert "<script>alert" not in admin.text(f"/servers/{made.json['server']['id']}")


def test_hostile_input_comes_back_as_text(admin: Visitor) -> None:
    assert "<script>alert" not in admin.text("/servers?name=" + HOSTILE)
    answer = admin.post("/boot", do="dry_run", name=HOSTILE, flavor=HOSTILE, num_instances="1")
    assert answer.status_code == 400
    assert "<script>alert" not in answer.text
    assert "<script>alert" not in admin.get("/hosts/" + HOSTILE.replace("/", "")).text


def test_every_answer_has_the_policy_and_no_page_has_script_or_style_in_it(
    tree: Tree, node: Node, admin: Visitor
) -> None:
    reservation = boot(tree, node)
    assert "unsafe" not in POLICY
    for path in (
        "/sign-in",
        "/nowhere",
        "/assets/style.css",
        f"/boots/{reservation}",
        *FOR_ADMINS,
        *FOR_PEOPLE,
    ):
        answer = admin.get(path)
        assert answer.headers["Content-Security-Policy"] == POLICY, path
        assert (
            not re.search(
                r"<script(?![^>]* src=\"/dashboard/)|<style|\sstyle=|\son\w+=|https?://(?!localhost)",
                answer.text,
            )
            or "assets" in path
        ), path


def test_pages_can_be_read_without_script(tree: Tree, node: Node, admin: Visitor) -> None:
    boot(tree, node, name="web", count=2)
    assert "2&nbsp;ACTIVE" in admin.text("/boots")
    assert "web-1" in admin.text("/servers")
    assert "host-1" in admin.text("/hosts")


# -- pages -------------------------------------------------------------------------------------------------


def test_a_child_that_is_offline_stands_on_top_of_every_page(tree: Tree, node: Node, admin: Visitor) -> None:
    child = tree.add("leaf", parent="zone", hosts_=[a_host("x1")])
    tree.poll()
    assert "is offline" not in admin.text("/tree")
    tree.network.fault(child.url, Dead())
    tree.poll()
    for path in ("/tree", "/boots", "/flavors"):
        page = admin.text(path)
        assert "Child zone leaf is offline" in page, path
        assert "<title>(!)" in page


def test_many_children_that_are_offline_have_one_alarm(tree: Tree, node: Node, admin: Visitor) -> None:
    for number in range(24):
        child = {"name": f"leaf-{number:02}", "api_url": f"http://127.0.0.1:{7100 + number}"}
        body = {"zone": {**child, "username": "x", "password": "0" * 64}}
        assert node.client().post("/zones", body).status == 201
    for _ in range(2 * node.zone.conf.zone_failures_to_offline):
        tree.poll()
    page = unescape(admin.text("/servers"))
    assert page.count('class="alarm"') == 1
    assert "24 child zones are offline" in page
    assert "leaf-19 and 4 more" in page
    assert admin.text("/tree").count("No answer: ") == 24


def test_a_zone_that_was_restored_says_so_on_every_page(tree: Tree, node: Node) -> None:
    # given a zone whose rows were put back, and whose agent has not said what it has
    node.zone.store.close()
    copies.mark_restored(url_of(tree.folder / "zone.sqlite"), "5e" * 16)
    tree.restart("zone")
    admin, member = (signed_in(tree.nodes["zone"], name) for name in ("admin", "member"))
    # when an admin and a member read pages
    for path in ("/tree", "/boots", "/flavors"):
        page = admin.text(path)
        # then an admin reads for whom the zone waits
        assert "This zone was restored from a copy" in page, path
        assert "It has not heard agent " in page
        assert "<title>(!)" in page
    assert "was restored from a copy</b> and changes nothing yet.</p>" in member.text("/boots")
    # and once all were heard, what ends it
    store = tree.nodes["zone"].zone.store
    store.write(lambda tx: tx.execute(sa.delete(unheard).where(unheard.c.kind != "operator")))
    assert "<code>zonesched audit --repair</code> ends the recovery" in admin.text("/tree")


def test_the_form_boots_once_however_often_it_is_sent(tree: Tree, node: Node, admin: Visitor) -> None:
    key = key_of(admin.text("/boot"))
    form = {"do": "boot", "name": "web", "flavor": "small", "num_instances": "3", "key": key}
    answers = [admin.post("/boot", **form) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [303, 303]
    assert answers[0].headers["Location"] == answers[1].headers["Location"]
    tree.settle()
    assert len(node.client().get("/servers").json["servers"]) == 3


def test_the_form_boots_once_when_it_is_sent_again_after_a_lost_answer(
    tree: Tree, node: Node, admin: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = {"do": "boot", "name": "web", "flavor": "small", "key": key_of(admin.text("/boot"))}
    write = node.zone.store.write

    def lose(fn: Callable[[Any], Any], *args: Any, **kwargs: Any) -> Any:
        write(fn, *args, **kwargs)
        raise sa.exc.OperationalError("COMMIT", {}, Exception("the answer is lost"))

    token = admin.form_token("/boot")
    with monkeypatch.context() as lost:
        lost.setattr(node.zone.store, "write", lose)
        page = admin.send("/boot", {**form, "form_token": token})
    again = admin.post("/boot", **{**form, "key": key_of(page.text)})

    assert (page.status_code, again.status_code) == (503, 303)
    assert len(node.client().get("/reservations").json["reservations"]) == 1


def test_a_form_that_was_changed_after_its_boot_gets_another_key(admin: Visitor) -> None:
    form = {"do": "boot", "flavor": "small", "key": key_of(admin.text("/boot"))}
    assert admin.post("/boot", name="one", **form).status_code == 303

    page = admin.post("/boot", name="two", **form)

    assert (page.status_code, key_of(page.text) != form["key"]) == (409, True)


def test_every_flavor_and_image_can_be_chosen_and_every_flavor_is_listed(node: Node, admin: Visitor) -> None:
    def fn(tx: sa.Connection) -> None:
        for n in range(1001):
            flavors.insert(tx, CatalogFlavor(Flavor(f"f{n}", f"f{n}", vcpus=1, ram_mb=1, disk_gb=0), n != 0))
            images.insert(tx, CatalogImage(Image(id=f"i{n}", name=f"i{n}")))

    node.zone.store.write(fn)
    form = admin.text("/boot?flavor=f999&image=i1000")
    assert form.count('<option value="f') == 1001
    assert form.count('<option value="i') == 1001
    assert '<option value="f999" selected>' in form
    listed, path = "", "/flavors"
    while path:
        page = admin.text(path)
        listed += page
        found = re.search(r'href="/dashboard(/flavors\?marker=[^"]+)">Next', page)
        path = found[1] if found else ""
    assert listed.count("/dashboard/boot?flavor=f") == 1001
    assert listed.count("<td>no</td>") == 1


def test_a_dry_run_boots_nothing_and_shows_the_same_call_as_commands(node: Node, admin: Visitor) -> None:
    page = admin.post(
        "/boot",
        do="dry_run",
        name="it's",
        flavor="small",
        num_instances="100",
        min_count="2",
        filters="RamFilter, CoreFilter",
        hint_name_0="force_hosts",
        hint_value_0='["host-1"]',
    ).text
    assert "16 of 100 would fit" in page
    assert "zonesched zone boot --flavor small --name" in page
    assert "--min-count 2 --filter RamFilter --filter CoreFilter" in page
    assert "curl -u admin" in page
    assert node.client().get("/reservations").json["reservations"] == []


def test_a_refused_boot_keeps_what_was_typed(admin: Visitor) -> None:
    answer = admin.post("/boot", do="boot", name="web", flavor="none", num_instances="x")
    assert (answer.status_code, 'value="web"' in answer.text) == (400, True)


def test_a_host_is_disabled_and_enabled_again(node: Node, admin: Visitor) -> None:
    id = node.client().get("/os-hypervisors").json["hypervisors"][0]["id"]
    assert admin.post(f"/hosts/{id}", do="disable", reason="new fans").status_code == 303
    assert "Disabled: new fans" in admin.text(f"/hosts/{id}")
    assert admin.post(f"/hosts/{id}", do="enable").status_code == 303
    assert "new fans" not in admin.text(f"/hosts/{id}")


def test_a_host_whose_agent_is_silent_can_be_forced_down_and_released(
    tree: Tree, node: Node, admin: Visitor
) -> None:
    path = f"/hosts/{node.client().get('/os-hypervisors').json['hypervisors'][0]['id']}"
    tree.clock.advance(node.zone.conf.service_down_time + 1)
    admin.sign_in()
    page = admin.text(path)
    assert 'class="status s-down"' in page
    assert 'value="force_down"' in page
    assert "Forced down" not in page
    assert admin.post(path, do="force_down").status_code == 303
    page = admin.text(path)
    assert "Forced down" in page
    assert 'value="release"' in page
    assert 'value="force_down"' not in page


def test_a_host_is_emptied(tree: Tree, node: Node, admin: Visitor) -> None:
    boot(tree, node, count=4)
    id = node.client().get("/os-hypervisors").json["hypervisors"][0]["id"]
    page = admin.post(f"/hosts/{id}", do="drain")
    assert page.status_code == 200
    before, _, live = page.text.partition('<div id="live"')
    assert "resize_migrating" in live
    # News replace what is live; nobody could read there what stays, and why.
    assert "2 instances were asked to move away." in before


def test_a_host_that_is_emptied_gets_and_keeps_its_reason(node: Node, admin: Visitor) -> None:
    id = node.client().get("/os-hypervisors").json["hypervisors"][0]["id"]
    assert "Disabled: new fans" in admin.post(f"/hosts/{id}", do="drain", reason="new fans").text
    assert "Disabled: new fans" in admin.post(f"/hosts/{id}", do="drain").text


def test_all_instances_of_a_host_move_while_there_is_time(tree: Tree, node: Node, admin: Visitor) -> None:
    tree.register("zone", [a_host("large", vcpus=64)])
    boot(tree, node, count=40)
    hypervisors = node.client().get("/os-hypervisors/detail").json["hypervisors"]
    (large,) = [one for one in hypervisors if one["hypervisor_hostname"] == "large"]
    assert large["running_vms"] > 22
    page = admin.post(f"/hosts/{large['id']}", do="drain")
    assert f"{large['running_vms']} instances were asked to move away." in page.text
    assert f"{large['running_vms']} servers are on their way to other hosts." in page.text
    assert "stays" not in admin.post(f"/hosts/{large['id']}", do="drain").text


def test_a_second_request_leaves_all_alone_that_move_already(tree: Tree, node: Node, admin: Visitor) -> None:
    for host in ("host-1", "host-2"):
        node.client().call("PUT", "/os-services/disable", {"host": host})
    tree.register("zone", [a_host("large", vcpus=300)])
    boot(tree, node, count=205)
    tree.register("zone", [a_host("other", vcpus=300)])
    node.zone.conf.set_override("reclaim_instance_interval", 600.0)
    (deleted, *_) = node.client().get("/servers").json["servers"]
    assert node.client().delete(f"/servers/{deleted['id']}").status == 204
    (large,) = node.client().get("/os-hypervisors?hypervisor_hostname_pattern=large").json["hypervisors"]
    page = admin.post(f"/hosts/{large['id']}", do="drain").text
    assert "205 instances were asked to move away." in page
    page = admin.post(f"/hosts/{large['id']}", do="drain").text
    assert "205 servers are on their way to other hosts." in page
    assert "stays" not in page


def test_a_move_for_which_there_is_no_time_is_named(
    tree: Tree, node: Node, admin: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.register("zone", [a_host("large", vcpus=64)])
    boot(tree, node, count=40)
    hypervisors = node.client().get("/os-hypervisors/detail").json["hypervisors"]
    (large,) = [one for one in hypervisors if one["hypervisor_hostname"] == "large"]
    store, at_first = node.zone.store, node.zone.store.write

    def late(*args: Any, **kwargs: Any) -> Any:
        tree.clock.advance(0.45)
        return at_first(*args, **kwargs)

    monkeypatch.setattr(store, "write", late)
    page = admin.post(f"/hosts/{large['id']}", do="drain").text
    monkeypatch.undo()
    asked, left = (
        int(re.search(pattern, page)[1])  # type: ignore[index]
        for pattern in (r"(\d+) instances were asked", r"For (\d+) more there was no time")
    )
    assert asked > 0
    assert asked + left == large["running_vms"]


def test_memory_of_less_than_a_gibibyte_is_not_0(tree: Tree, node: Node, admin: Visitor) -> None:
    boot(tree, node, count=2)
    id = node.client().get("/servers").json["servers"][0]["id"]
    assert "1 VCPU, 64 MiB, 1 GB" in admin.text(f"/servers/{id}")
    assert "64 MiB / 32 GiB" in admin.text("/hosts")
    assert [render.amount(mb, "MEMORY_MB") for mb in (0, 1024, 1536, 10_700)] == [
        "0 GiB",
        "1 GiB",
        "1\u202f536 MiB",
        "10 GiB",
    ]


def test_hosts_of_a_name_are_paged(tree: Tree, admin: Visitor) -> None:
    tree.register("zone", [a_host(f"rack-{number}") for number in range(52)])
    first = admin.get("/hosts?name=rack-").text
    link = re.search(r'href="/dashboard(/hosts\?[^"]+)">Next page', first)
    assert link is not None
    second = admin.get(unescape(link[1])).text
    shown = [set(re.findall(r">(rack-\d+)</a>", page)) for page in (first, second)]
    assert [len(names) for names in shown] == [50, 2]
    assert len(shown[0] | shown[1]) == 52
    assert "Next page" not in second
    assert "Next page" not in admin.text("/hosts?name=rack-1")


def test_the_first_page_shows_offers_and_refusals_by_minute(tree: Tree, node: Node, admin: Visitor) -> None:
    leaf = tree.add("leaf", parent="zone", hosts_=[a_host("x1")])
    tree.poll()
    assert "Not asked in the last hour." in admin.text("/tree")
    boot(tree, node, count=1)
    tree.clock.advance(120)
    leaf.client().call("PUT", "/os-services/disable", {"host": "x1"})
    boot(tree, node, count=1)
    page = admin.text("/tree")
    assert "1 offers and 1 refusals in the last hour" in page
    assert "2 minutes ago: 1 offers" in page
    assert "0 minutes ago: 1 refusals" in page
    assert "<tr><td>2</td>" in page


def test_a_server_is_stopped_and_deleted(tree: Tree, node: Node, admin: Visitor) -> None:
    boot(tree, node, count=1)
    id = node.client().get("/servers").json["servers"][0]["id"]
    assert admin.post(f"/servers/{id}", do="os-stop").status_code == 303
    assert "<td>stop</td>" in admin.text(f"/servers/{id}")
    assert admin.post(f"/servers/{id}", do="delete").status_code == 303
    assert node.client().get("/servers").json["servers"] == []


def test_a_delete_of_a_server_is_taken_back_or_made_final(tree: Tree, node: Node, admin: Visitor) -> None:
    # given a server that its owner may still restore
    node.zone.conf.set_override("reclaim_instance_interval", 600.0)
    boot(tree, node, count=1)
    (server,) = node.client().get("/servers").json["servers"]
    path = f"/servers/{server['id']}"
    assert 'value="delete"' in admin.text(path)
    assert admin.post(path, do="delete").status_code == 303
    settle_with_agent(tree, node)
    assert server["id"] in admin.text("/servers?status=SOFT_DELETED")
    # when
    assert "<option>restore</option>" in admin.text(path)
    assert admin.post(path, do="restore").status_code == 303
    settle_with_agent(tree, node)
    # then
    assert node.client().get(path).json["server"]["status"] == "ACTIVE"
    # and
    admin.post(path, do="delete")
    assert 'value="forceDelete"' in admin.text(path) and 'value="delete"' not in admin.text(path)
    assert admin.post(path, do="forceDelete").headers["Location"] == "/dashboard/servers"
    assert node.client().get(path).status == 404


def test_each_filter_of_the_servers_finds_them(tree: Tree, node: Node, admin: Visitor) -> None:
    reservation = boot(tree, node, count=1)
    (server,) = node.client().get("/servers/detail").json["servers"]
    asked = {
        "status": "ACTIVE",
        "name": "we",
        "host": server["OS-EXT-SRV-ATTR:host"],
        "project_id": server["tenant_id"],
        "reservation_id": reservation,
    }
    assert server["id"] in admin.text("/servers?" + urlencode(asked))
    for name, value in asked.items():
        assert server["id"] in admin.text(f"/servers?{name}={value}"), name
    for status in SHOWN_STATUSES:
        page = admin.text(f"/servers?status={status}")
        assert (server["id"] in page) == (status == "ACTIVE")
        assert f"<option selected>{status}</option>" in page


def test_a_page_of_servers_that_is_empty_leads_to_the_next_one(
    tree: Tree, node: Node, admin: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot(tree, node, count=3)
    monkeypatch.setattr(servers, "SEARCHED_AT_ONCE", 1)
    monkeypatch.setattr(servers, "MOST_SEARCHED", 2)

    last = node.client().get("/servers").json["servers"][-1]["name"]
    page = admin.text(f"/servers?name={last}$")
    behind = re.search(r'href="/dashboard(/servers[^"]+)">Next page', page)

    assert "No servers." in page and behind is not None
    assert f">{last}</a>" in admin.text(unescape(behind[1]))


@pytest.mark.parametrize(("ending", "flavor"), [("confirmResize", "large"), ("revertResize", "small")])
def test_a_resized_server_is_found_and_its_resize_ended(
    tree: Tree, node: Node, admin: Visitor, ending: str, flavor: str
) -> None:
    boot(tree, node, count=1)
    large = {"name": "large", "vcpus": 2, "ram": 128, "disk": 1}
    assert node.client().post("/flavors", {"flavor": large}).status == 200
    (server,) = node.client().get("/servers").json["servers"]
    path = f"/servers/{server['id']}"
    node.client().post(f"{path}/action", {"resize": {"flavorRef": "large"}})
    settle_with_agent(tree, node)
    page = admin.text("/servers?status=VERIFY_RESIZE")
    assert server["id"] in page
    assert "<option selected>VERIFY_RESIZE</option>" in page
    assert f"<option>{ending}</option>" in admin.text(path)
    assert admin.post(path, do=ending).status_code == 303
    settle_with_agent(tree, node)
    shown = node.client().get(path).json["server"]
    assert (shown["status"], shown["flavor"]["original_name"]) == ("ACTIVE", flavor)


def settle_with_agent(tree: Tree, node: Node) -> None:
    """Let a move between two hosts of the zone end."""
    for _ in range(4):
        tree.settle()
        PlayedAgent(node).converge()


def test_the_heat_map_has_a_byte_for_each_host_in_the_order_of_the_layout(
    tree: Tree, node: Node, admin: Visitor
) -> None:
    boot(tree, node, count=1)
    node.client().call("PUT", "/os-services/disable", {"host": "host-2"})
    layout = admin.get("/hosts/layout").get_json()
    heat = admin.get("/hosts/heat?class=VCPU").data
    assert heat[:16].decode() == layout["layout"]
    levels = dict(zip(layout["names"], heat[16:], strict=True))
    assert levels == {"host-1": round(200 / 16), "host-2": 254}
    assert set(layout["groups"]) == {"az1", "az2"}
    assert admin.get("/hosts/heat?class=NONE").status_code == 400


def test_news_change_with_a_boot_and_with_nothing_else(tree: Tree, node: Node, admin: Visitor) -> None:
    before = admin.get("/news").data
    tree.settle()
    assert admin.get("/news").data == before
    boot(tree, node)
    assert admin.get("/news").data != before


def test_a_member_has_no_news_of_what_others_do(tree: Tree, node: Node) -> None:
    # given: two tenants
    for name in ("ann", "eve"):
        node.secrets[name] = users.create(
            node.zone.store, node.zone.clock, name, Role.MEMBER, f"project-of-{name}"
        ).secret
    boot(tree, node, "first", user="eve")
    eve = signed_in(node, "eve")
    before = eve.get("/news").text

    # when, then
    boot(tree, node, user="ann")
    node.client().call("PUT", "/os-services/disable", {"host": "host-1"})
    assert eve.get("/news").text == before
    boot(tree, node, "second", user="eve")
    assert eve.get("/news").text != before


def test_the_news_are_no_hash_of_numbers_that_somebody_could_try(
    tree: Tree, node: Node, admin: Visitor
) -> None:
    boot(tree, node)
    told = admin.get("/news").text
    form_token = re.search(r'name="form_token" value="([0-9a-f]+)"', admin.text("/servers"))[1]  # type: ignore[index]
    for number, removals in itertools.product(range(200), range(3)):
        tried = repr(((number, number, removals), [], form_token)).encode()
        assert hashlib.sha256(tried).hexdigest()[:16] != told


@pytest.mark.parametrize("path", ["/tree", "/hosts", "/boots", "/servers"])
def test_what_changes_while_a_page_is_read_is_news_to_it(
    node: Node, admin: Visitor, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seen_by(admin.text(path)) == admin.get("/news").text
    perform, changed = inner_call.perform, list[Any]()

    def late(site: Any, caller: Any, asked: Any) -> Any:
        answer = perform(site, caller, asked)
        if asked.path != "/zones/detail" and not changed:
            changed.append(node.client().call("PUT", "/os-services/disable", {"host": "host-1"}))
        return answer

    monkeypatch.setattr(visit, "perform", late)
    page = admin.text(path)
    monkeypatch.undo()
    assert seen_by(page) != admin.get("/news").text


def seen_by(page: str) -> str:
    """The text of the news that a page knows."""
    return re.search(r'data-live="([0-9a-f]+)"', page)[1]  # type: ignore[index]


@pytest.mark.postgresql
def test_what_another_database_of_the_server_writes_is_no_news(
    tree: Tree, node: Node, admin: Visitor
) -> None:
    boot(tree, node)
    before = admin.get("/news").data
    with psycopg.connect(SERVER.replace("+psycopg", "")) as elsewhere:
        elsewhere.execute("SELECT pg_current_xact_id()")
    assert admin.get("/news").data == before


@pytest.mark.postgresql
def test_a_change_that_ends_after_a_later_one_is_news(tree: Tree, node: Node, admin: Visitor) -> None:
    boot(tree, node)
    uuid = node.client().get("/servers").json["servers"][0]["id"]
    path = tree.folder / "zone.sqlite"
    with psycopg.connect(url_of(path).replace("+psycopg", "")) as slow:
        ((number,),) = slow.execute("SELECT pg_current_xact_id()::text::bigint")
        slow.execute("UPDATE instances SET changed_seq = %s WHERE uuid = %s", [number, uuid])
        boot(tree, node, name="later")
        before = admin.get("/news").data
        slow.commit()
        assert admin.get("/news").data != before


def test_a_script_without_a_session_leaves_its_page(node: Node) -> None:
    answer = Visitor(node).get("/news", HX_Request="true")
    # HX-Refresh would have the browser send the form again, where the page is the answer to one.
    assert (answer.status_code, answer.headers.get("HX-Refresh")) == (401, None)


def test_the_form_of_a_user_offers_no_admin_first(admin: Visitor) -> None:
    first = re.search(r'<select name="role"><option[^>]*>(\w+)', admin.text("/users"))
    assert first is not None and first[1] == "member"


def test_users_and_aggregates_have_their_forms(node: Node, admin: Visitor) -> None:
    made = admin.post("/users", do="add", name="agent-2", role="compute")
    assert (made.status_code, "Secret of agent-2" in made.text) == (200, True)
    assert admin.post("/users", do="remove", name="agent-2").status_code == 303
    assert admin.post("/aggregates", do="add", name="ssd", zone="az7").status_code == 303
    number = str(node.client().get("/os-aggregates").json["aggregates"][0]["id"])
    assert admin.post("/aggregates", do="add_host", id=number, host="host-1").status_code == 303
    assert "host-1" in admin.text("/aggregates")


def test_assets_are_kept_by_their_content(admin: Visitor) -> None:
    for name in render.ASSETS:
        answer = admin.get(f"/assets/{name}")
        assert (answer.status_code, "immutable" in answer.headers["Cache-Control"]) == (200, True)
    assert admin.get("/assets/NOTICE").status_code == 404


RIGHT_TO_LEFT, NOTHING_TO_SEE = "\u05e9\u05e8\u05ea 5", "\u200b\u2060"


@pytest.mark.parametrize(
    ("name", "shown"),
    [(RIGHT_TO_LEFT, f"<bdi>{RIGHT_TO_LEFT}</bdi>"), (NOTHING_TO_SEE, "<bdi>U+200B U+2060</bdi>")],
)
def test_a_name_in_any_script_keeps_what_is_beside_it_in_place_and_has_something_to_click_on(
    tree: Tree, node: Node, admin: Visitor, name: str, shown: str
) -> None:
    flavor = {"name": name, "vcpus": 1, "ram": 64, "disk": 1}
    assert node.client().post("/flavors", {"flavor": flavor}).status == 200
    assert node.client().post("/os-aggregates", {"aggregate": {"name": name}}).status == 200
    boot(tree, node, name, 1)
    (server,) = node.client().get("/servers").json["servers"]

    for path in ("/servers", "/boots", "/tree", f"/servers/{server['id']}", "/flavors", "/aggregates"):
        assert shown in admin.text(path), path


def test_a_name_of_nothing_to_see_is_shown_by_its_first_characters_alone() -> None:
    assert render.named("\u3164" * 9) == f"<bdi>{'U+3164 ' * 8}…</bdi>"


def test_the_browser_keeps_the_form_of_a_boot_with_its_key_until_its_reader_signs_out(admin: Visitor) -> None:
    shown = admin.get("/boot")
    sent = admin.post("/boot", do="show", name="x", flavor="small")
    others = {admin.get(path).headers["Cache-Control"] for path in ("/boots", "/users", "/tree")}
    action = re.search(r'method="post" action="(/dashboard/boot\?[^"]+)"', shown.text)
    ended = admin.post("/sign-out", on="/boots")

    assert {answer.headers["Cache-Control"] for answer in (shown, sent)} == {"private, max-age=0"}
    # A browser forgets the page at the address to which a form is sent.
    assert action is not None
    assert others == {"no-store"}
    assert ended.headers["Clear-Site-Data"] == '"cache"'


def test_an_audit_shows_this_zone_at_once_and_asks_its_child_zones_at_the_same_time(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    root = tree.add("root")
    for name in ("hung", "sound"):
        tree.add(name, parent="root", hosts_=[a_host("h1")])
    tree.poll()
    admin = signed_in(root, "admin")
    tree.network.fault(tree.nodes["hung"].url, Dead())
    for _ in range(root.zone.conf.zone_failures_to_offline):
        tree.poll()
    asked = len(tree.network.sent)

    page = unescape(admin.text("/audit?run=1&tree=1"))

    assert len(tree.network.sent) == asked
    assert "No inconsistency here." in page
    parts = re.findall(r'hx-get="/dashboard(/audit[^"]+)"', page)
    # The one that is likely to answer soon comes first.
    sound, hung = (admin.text(part) for part in parts)
    assert "No inconsistency." in sound
    assert "child_not_compared" not in sound
    assert "child_not_compared" in hung
    assert "Not all of its subtree has answered." in hung
    assert len(set(re.findall(r'hx-sync="#(lane-[0-9]):queue all"', page))) == 2
    assert all(f'<span id="lane-{number}"' in page for number in range(2))
    assert admin.get("/audit?run=1&child=none").status_code == 404


def test_an_audit_shows_what_a_child_zone_reports(tmp_path: Path) -> None:
    tree = a_booted_tree(tmp_path, 1)
    plant(tree, "leaf", "update placements set state = 'gone'")
    admin = signed_in(tree.nodes["root"], "admin")

    (part,) = re.findall(r'hx-get="/dashboard(/audit[^"]+)"', unescape(admin.text("/audit?run=1&tree=1")))

    assert "<code>instance_without_place</code>" in admin.text(part)


def test_a_flavor_has_the_units_that_its_servers_and_hosts_have(node: Node, admin: Visitor) -> None:
    flavor = {"name": "large", "vcpus": 1, "ram": 16384, "disk": 1}
    assert node.client().post("/flavors", {"flavor": flavor}).status == 200

    page = admin.text("/flavors")

    assert '<td class="num">16 GiB</td>' in page
    assert '<td class="num">64 MiB</td>' in page
    assert "RAM in MiB" in page
