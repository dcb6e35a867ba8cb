"""The dashboard of a real zone with a real child zone, in a real browser."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.builders.browser import a_browser, faults_of_access
from tests.builders.demo_tree import two_zones
from tests.builders.real_processes import eventually
from zonesched.compute.credentials import read_credentials
from zonesched.demo.processes import Processes
from zonesched.demo.run import FLAVOR, DemoRun

pytestmark = [pytest.mark.slow, pytest.mark.once]

WAIT_MS = 60_000
RED = "rgb(179, 21, 13)"
PAGES = (
    "tree",
    "hosts",
    "boots",
    "boot",
    "servers",
    "flavors",
    "limits",
    "aggregates",
    "users",
    "audit?run=1",
)


@dataclass
class Screen:
    """A page of the browser, what it asked for, and what it complained of."""

    page: Any
    base: str
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        self.page.goto(f"{self.base}/dashboard/{path}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with a_browser() as found:
        yield found


@pytest.fixture(scope="module")
def tree(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoRun]:
    """A root and a leaf, both with hosts and agents."""
    with two_zones(tmp_path_factory.mktemp("dashboard"), hosts=8) as run:
        run.admin(run.root).call("POST", "/flavors", {"flavor": FLAVOR})
        yield run


@pytest.fixture(scope="module")
def restarted(tree: DemoRun) -> Iterator[Processes]:
    """Processes of the tree that a test has ended and started again."""
    processes = Processes()
    yield processes
    processes.stop()


@pytest.fixture(scope="module")
def screen(browser: Any, tree: DemoRun) -> Iterator[Screen]:
    """A page that was signed in with a one-time link."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(WAIT_MS)
    shown = Screen(page, tree.root.url)
    page.on("request", lambda request: shown.asked.append(request.url))
    page.on("console", lambda line: shown.complaints.append(line.text) if line.type == "error" else None)
    page.on("pageerror", lambda error: shown.complaints.append(str(error)))
    link = tree.admin(tree.root).call("POST", "/sign-in-links")["sign_in_link"]["path"]
    page.goto(tree.root.url + link)
    page.click("text=Sign in >> nth=-1")
    page.wait_for_url("**/dashboard/tree")
    yield shown
    page.close()


ASKED = ("num_instances", "flavor", "image", "availability_zone", "hints", "filters", "filter_query")


def boots_of(database: Path) -> list[tuple[str, int, dict[str, Any]]]:
    """List the boots: first name, least number of instances, and members of the spec of each."""
    with closing(sqlite3.connect(database)) as rows:
        found = rows.execute(
            "SELECT min(i.name), r.min_count, r.spec FROM reservations r JOIN instances i"
            " ON i.reservation_id = r.id GROUP BY r.id ORDER BY r.id"
        ).fetchall()
    return [
        (name, least, {member: json.loads(spec)[member] for member in ASKED}) for name, least, spec in found
    ]


def pid_of_zone(tree: DemoRun, name: str) -> int:
    """The process that serves a zone of this tree, and of no other one on this machine."""
    (zone,) = (zone for zone in tree.zones if zone.name == name)
    served = str(tree.admin_file(zone).parent / "zone.conf")
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        pid = int(file.parent.name)
        if served in words and os.getpgid(pid) == pid:
            return pid
    raise AssertionError(f"zone {name} does not run")


def test_an_operator_boots_and_looks_why_and_disables_a_host(tree: DemoRun, screen: Screen) -> None:
    page = screen.page
    screen.go("boots")
    page.click("text=New boot")
    page.fill("[name=name]", "web")
    page.select_option("[name=flavor]", label=FLAVOR["name"])
    page.fill("[name=num_instances]", "50")
    page.click("button[value=dry_run]")
    page.wait_for_selector("text=50 of 50 would fit")
    assert "zonesched zone boot --flavor" in page.inner_text("#lines")
    page.click("button[value=boot]")
    page.wait_for_url(re.compile(r"/dashboard/boots/[0-9a-f-]{36}$"))

    # Nobody loads the page again: it does so by itself.
    page.wait_for_selector("#live p:has(.s-ACTIVE):has-text('50')")

    page.wait_for_selector("h2#why")
    assert page.inner_text("#why ~ .columns").count("offered") == 2
    page.fill("[name=host]", "root-general-1")
    page.click("#host button")
    page.wait_for_selector("text=could take an instance now")

    screen.go("hosts?name=root-general-1")
    page.click("td >> text=root-general-1")
    page.fill("[name=reason]", "new fans")
    page.click("button[value=disable]")
    page.wait_for_selector("text=Disabled: new fans")
    disabled = [host for host in tree.hypervisors(tree.root) if host["status"] == "disabled"]
    assert [host["hypervisor_hostname"] for host in disabled] == ["root-general-1"]


def boot_by_button(page: Any) -> str:
    """The address of the boot to which the form leads."""
    page.click("button[value=boot]")
    page.wait_for_url(re.compile(r"/dashboard/boots/[0-9a-f-]{36}$"))
    return str(page.url)


@pytest.mark.parametrize("script", [True, False])
def test_back_and_boot_again_is_the_same_boot_and_a_new_form_another_one(
    browser: Any, tree: DemoRun, script: bool
) -> None:
    link = tree.admin(tree.root).call("POST", "/sign-in-links")["sign_in_link"]["path"]
    with browser.new_context(java_script_enabled=script) as context:
        page = context.new_page()
        page.goto(tree.root.url + link)
        page.click("button")
        page.wait_for_url("**/dashboard/tree")
        page.goto(f"{tree.root.url}/dashboard/boot")
        page.fill("[name=name]", "again")
        boots = [boot_by_button(page)]
        page.go_back()
        assert page.input_value("[name=name]") == "again"
        boots.append(boot_by_button(page))
        page.go_back()
        with page.expect_navigation():
            page.click("text=a new form")
        page.fill("[name=name]", "again")
        boots.append(boot_by_button(page))
        assert boots[0] == boots[1]
        assert boots[1] != boots[2]


def test_back_shows_no_form_of_whoever_has_signed_out(browser: Any, tree: DemoRun) -> None:
    link = tree.admin(tree.root).call("POST", "/sign-in-links")["sign_in_link"]["path"]
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(tree.root.url + link)
        page.click("button")
        page.wait_for_url("**/dashboard/tree")
        page.goto(f"{tree.root.url}/dashboard/boot")
        page.click("text=Sign out")
        page.wait_for_selector("h1 >> text=Sign in")
        page.go_back()
        page.wait_for_selector("h1 >> text=Sign in")


def test_the_commands_of_the_form_make_the_boot_that_it_would_make(tree: DemoRun, screen: Screen) -> None:
    page = screen.page
    screen.go("boot")
    page.fill("[name=name]", 'it\'s "one" $boot')
    page.select_option("[name=flavor]", label=FLAVOR["name"])
    page.fill("[name=num_instances]", "2")
    page.fill("[name=min_count]", "1")
    page.fill("[name=filters]", "RamFilter, CoreFilter")
    page.fill("[name=query]", '[">=", "$free_ram_mb", 64]')
    page.fill("[name=hint_name_0]", "rack")
    page.fill("[name=hint_value_0]", '{"a": ["b c", 1]}')
    page.click("button[value=show]")
    lines = page.eval_on_selector_all("#lines pre", "all => all.map(one => one.textContent)")
    page.click("button[value=boot]")
    page.wait_for_url(re.compile(r"/dashboard/boots/[0-9a-f-]{36}$"))

    secret = read_credentials(tree.admin_file(tree.root)).password
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": programs, "ZONESCHED_CREDENTIALS": str(tree.admin_file(tree.root))}
    for line in lines:
        # curl asks for the password on a terminal.
        subprocess.run(
            line.replace("-u admin", f"-u admin:{secret}"), shell=True, env=environment, check=True
        )

    boots = boots_of(tree.admin_file(tree.root).parent / "zone.sqlite")[-3:]
    name, least, spec = boots[0]
    assert boots[1:] == boots[:1] * 2
    assert (name, least, spec["num_instances"]) == ('it\'s "one" $boot-1', 1, 2)
    assert (spec["hints"], spec["filters"]) == ({"rack": {"a": ["b c", 1]}}, ["RamFilter", "CoreFilter"])


def test_the_heat_map_has_every_host_and_leads_to_one_by_the_keyboard(tree: DemoRun, screen: Screen) -> None:
    page = screen.page
    screen.go("hosts")
    page.wait_for_selector("canvas[data-hosts='8']")
    page.focus("canvas")
    page.keyboard.press("ArrowRight")
    assert re.match(r"root-\w+-\d: \d+ % used|root-\w+-\d: disabled", page.inner_text("#heat-label"))
    name = page.inner_text("#heat-label").partition(":")[0]
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/dashboard/hosts/[0-9a-f-]{36}$"))
    assert name in page.inner_text("h1")


def test_the_heat_map_shows_the_class_that_was_chosen_last(screen: Screen) -> None:
    page = screen.page
    screen.go("hosts?class=MEMORY_MB")
    page.wait_for_selector("canvas[data-hosts='8']")
    picture = "document.querySelector('canvas').toDataURL()"
    memory = page.evaluate(picture)
    late: list[Any] = []
    page.route("**/heat?class=VCPU", lambda route: late.append(route))
    page.select_option("[name=class]", "VCPU")
    with page.expect_response("**/heat?class=MEMORY_MB"):
        page.select_option("[name=class]", "MEMORY_MB")
    full = bytes([200] * 8)
    tag = page.evaluate("fetch('/dashboard/hosts/heat?class=DISK_GB').then(it => it.text())")[:16]
    with page.expect_response("**/heat?class=VCPU"):
        late[0].fulfill(body=tag.encode() + full)
    # An answer later, the page has drawn what it draws of this one.
    page.evaluate("fetch('/dashboard/news').then(it => it.text())")
    page.unroute("**/heat?class=VCPU")
    assert page.evaluate(picture) == memory


def test_a_long_name_without_a_space_hides_nothing_of_others(tree: DemoRun, screen: Screen) -> None:
    page, root, name = screen.page, tree.admin(tree.root), "N" * 250
    root.call("POST", "/flavors", {"flavor": {**FLAVOR, "name": name}})
    root.call("POST", "/os-aggregates", {"aggregate": {"name": name}})
    boot_one(tree, name)
    (server,) = root.call("GET", f"/servers?name={name}")["servers"]
    for path in ("flavors", "aggregates", "boots", "servers", f"servers/{server['id']}", "tree"):
        screen.go(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280, path
        hidden = "all => all.filter(one => one.scrollWidth > one.clientWidth).length"
        assert page.eval_on_selector_all(".scroll", hidden) == 0, path
    page.set_viewport_size({"width": 360, "height": 740})
    try:
        screen.go("servers")
        state = page.locator("td .status").first.bounding_box()
        assert state["x"] + state["width"] <= 360
    finally:
        page.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious_and_no_page_is_wider_than_the_screen(
    screen: Screen, scheme: str, width: int
) -> None:
    page = screen.page
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    try:
        for path in PAGES:
            screen.go(path)
            assert faults_of_access(page) == [], path
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    finally:
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 1280, "height": 900})


def test_a_boot_that_failed_fits_a_narrow_screen_and_flavors_can_be_tapped(
    tree: DemoRun, screen: Screen
) -> None:
    page, root = screen.page, tree.admin(tree.root)
    root.call("POST", "/flavors", {"flavor": {"name": "huge", "vcpus": 4000, "ram": 64, "disk": 1}})
    asked = {"server": {"name": "too-large", "flavorRef": "huge"}}
    boot = root.call("POST", "/zones/boot", asked)["reservation_id"]
    eventually(
        "it failed", lambda: root.call("GET", "/servers/detail?name=too-large&status=ERROR")["servers"]
    )
    page.set_viewport_size({"width": 320, "height": 640})
    try:
        screen.go(f"boots/{boot}")
        page.wait_for_selector("caption >> text=Refused")
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        assert faults_of_access(page) == []
        screen.go("flavors")
        # As much as a finger needs (WCAG 2.2, 2.5.8).
        assert page.get_by_role("link", name="Boot with huge").bounding_box()["height"] >= 24
    finally:
        page.set_viewport_size({"width": 1280, "height": 900})


FOCUSED = "document.activeElement.innerText"


def test_the_focus_is_on_what_came_of_a_form(tree: DemoRun, screen: Screen) -> None:
    page = screen.page
    screen.go("boot")
    page.fill("[name=name]", "focus")
    page.fill("[name=filters]", "NoFilter")
    page.click("button[value=dry_run]")
    page.wait_for_selector(".alarm")
    assert page.evaluate(FOCUSED) == page.inner_text(".alarm")
    page.fill("[name=filters]", "")
    page.click("button[value=dry_run]")
    page.wait_for_selector("#dry-run")
    assert page.evaluate(FOCUSED).startswith("Dry run:")
    page.click("button[value=show]")
    page.wait_for_selector("#lines")
    page.wait_for_function(f"() => {FOCUSED} === 'The same call in a shell'")
    # On: the next key goes to what stands there.
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED).startswith("zonesched zone boot")
    screen.complaints.clear()


def click_twice(page: Any, selector: str) -> None:
    """Two clicks at once, as of somebody who is used to double clicks."""
    place = page.locator(selector).bounding_box()
    for _ in range(2):
        page.mouse.click(place["x"] + 9, place["y"] + 9)


def test_a_double_click_shows_the_secret_that_it_made(screen: Screen) -> None:
    page = screen.page
    screen.go("users")
    page.fill("[name=name]:not([type=hidden])", "twice")
    page.select_option("[name=role]", "parent")
    click_twice(page, "button[value=add]")
    page.wait_for_selector("h2 >> text=Secret of twice")


def test_a_form_that_comes_after_its_session_is_filled_in_after_the_sign_in(
    browser: Any, tree: DemoRun
) -> None:
    root = tree.admin(tree.root)
    root.call(
        "POST", "/users", {"user": {"name": "ada", "role": "admin", "project_id": "p", "password": "ada"}}
    )
    with browser.new_context() as context:
        page, other = context.new_page(), context.new_page()
        for one in (page, other):
            one.goto(f"{tree.root.url}/dashboard/sign-in?next=/dashboard/users")
            sign_in(one)
        page.fill("form.card [name=name]", "typed")
        page.select_option("form.card [name=role]", "parent")
        other.click("text=Sign out")
        other.wait_for_selector("h1 >> text=Sign in")
        page.click("button[value=add]")
        sign_in(page)
        page.wait_for_selector(".alarm >> text=The form was not carried out")
        assert page.input_value("form.card [name=name]") == "typed"
        page.click("button[value=add]")
        page.wait_for_selector("h2 >> text=Secret of typed")


def sign_in(page: Any) -> None:
    """Sign in as the admin of the test above."""
    page.fill("[name=user]", "ada")
    page.fill("[name=password]", "ada")
    page.click("text=Sign in >> nth=-1")


def test_a_double_click_on_the_sign_in_of_a_link_signs_in(browser: Any, tree: DemoRun) -> None:
    link = tree.admin(tree.root).call("POST", "/sign-in-links")["sign_in_link"]["path"]
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(tree.root.url + link)
        click_twice(page, "button")
        page.wait_for_url("**/dashboard/tree")


def test_a_page_follows_the_session_of_another_tab(browser: Any, tree: DemoRun) -> None:
    root, password = tree.admin(tree.root), "a long password of a member"
    member = {"name": "mia", "role": "member", "project_id": "mine", "password": password}
    root.call("POST", "/users", {"user": member})
    link = root.call("POST", "/sign-in-links")["sign_in_link"]["path"]
    with browser.new_context() as context:
        page, other = context.new_page(), context.new_page()
        page.goto(tree.root.url + link)
        page.click("button")
        page.wait_for_selector(".who >> text=admin")
        page.goto(f"{tree.root.url}/dashboard/servers")
        other.goto(f"{tree.root.url}/dashboard/sign-in")
        other.fill("[name=user]", "mia")
        other.fill("[name=password]", password)
        other.click("button")
        page.wait_for_selector(".who >> text=mia")


def boot_one(tree: DemoRun, name: str) -> None:
    server = {"name": name, "flavorRef": FLAVOR["name"]}
    tree.admin(tree.root).call("POST", "/zones/boot", {"server": server})


def test_news_change_neither_what_is_open_nor_where_the_focus_is(tree: DemoRun, screen: Screen) -> None:
    page = screen.page
    boot_one(tree, "before")
    screen.go("tree")
    page.wait_for_selector("td a >> text=before")
    page.click("summary")
    page.focus("td a >> nth=0")
    href = page.evaluate("document.activeElement.href")
    boot_one(tree, "news")
    page.wait_for_selector("td a >> text=news")
    page.wait_for_function("href => document.activeElement.href === href", arg=href)
    assert page.eval_on_selector_all("details[open]", "all => all.length") == 1


def test_news_wait_for_whoever_selects_a_text(tree: DemoRun, screen: Screen) -> None:
    page = screen.page
    boot_one(tree, "listed")
    screen.go("boots")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('td a'))")
    chosen = page.evaluate("String(getSelection())")
    boot_one(tree, "copied")
    page.wait_for_selector("#liveness >> text=There is news")
    assert page.evaluate("String(getSelection())") == chosen
    page.evaluate("getSelection().removeAllRanges()")
    page.wait_for_selector("td a >> text=copied")


def test_the_page_of_a_server_that_somebody_has_deleted_says_so(tree: DemoRun, screen: Screen) -> None:
    root, found = tree.admin(tree.root), "/servers/detail?status=ACTIVE&name=short-lived"
    boot_one(tree, "short-lived")
    eventually("the server runs", lambda: root.call("GET", found)["servers"], 60)
    (server,) = root.call("GET", found)["servers"]
    screen.go(f"servers/{server['id']}")
    root.call("DELETE", f"/servers/{server['id']}")
    screen.page.wait_for_selector("h1 >> text=There is no such instance")
    screen.complaints.clear()


def test_a_page_says_that_its_zone_hangs_until_it_answers_again(tree: DemoRun, screen: Screen) -> None:
    page, pid = screen.page, pid_of_zone(tree, "root")
    screen.go("boots")
    page.wait_for_selector("#liveness >> text=Live")
    os.killpg(pid, signal.SIGSTOP)
    try:
        page.wait_for_selector("#liveness.alarm >> text=The zone does not answer")
        assert faults_of_access(page) == []
    finally:
        os.killpg(pid, signal.SIGCONT)
    page.wait_for_selector("#liveness:not(.alarm) >> text=Live")


@pytest.fixture
def leaf_ends(tree: DemoRun, restarted: Processes) -> Iterator[None]:
    """The leaf may be killed: it runs again after the test."""
    yield
    home = tree.admin_file(tree.zones[1]).parent
    restarted.start(
        "zone leaf", "zonesched.serving", ["--config-file", str(home / "zone.conf")], home / "log"
    )

    def is_back() -> bool:
        (child,) = tree.admin(tree.root).call("GET", "/zones/detail")["zones"]
        return bool(child["state"] == "ready")

    eventually("the leaf is back", is_back, 180)


@pytest.mark.usefixtures("leaf_ends")
def test_a_killed_child_goes_red_while_the_tree_is_looked_at(tree: DemoRun, screen: Screen) -> None:
    page = screen.page
    screen.go("tree")
    page.wait_for_selector(".node.ready")
    os.killpg(pid_of_zone(tree, "leaf"), signal.SIGKILL)
    # The zone polls its child, then the page the zone: on a busy machine each takes its time.
    page.wait_for_selector(".node.offline", timeout=180_000)
    page.wait_for_selector(".alarm")
    # In one step: news may replace the element between two.
    look = "it => [it.innerText, getComputedStyle(it).backgroundColor]"
    words, colour = page.eval_on_selector(".alarm", look)
    assert "leaf is offline" in words
    assert colour == RED
    assert page.title().startswith("(!)")
    assert faults_of_access(page) == []


def test_an_audit_shows_this_zone_while_a_child_zone_hangs_and_the_child_once_it_answers(
    tree: DemoRun, screen: Screen
) -> None:
    page, pid = screen.page, pid_of_zone(tree, "leaf")
    screen.go("audit")
    os.killpg(pid, signal.SIGSTOP)
    try:
        page.click("text=Run")
        page.wait_for_selector("text=No inconsistency here.", timeout=10_000)
        page.wait_for_selector("#children >> text=It is being asked", timeout=10_000)
        assert faults_of_access(page) == []
    finally:
        os.killpg(pid, signal.SIGCONT)
    page.wait_for_selector("#children >> text=/^No inconsistency.$/")


def test_nothing_was_asked_of_anybody_else_and_nothing_broke_a_rule(screen: Screen) -> None:
    assert {url for url in screen.asked if not url.startswith(screen.base + "/dashboard")} == set()
    assert screen.complaints == []


def test_a_page_that_nobody_looks_at_asks_for_nothing(browser: Any, tree: DemoRun, screen: Screen) -> None:
    page = screen.page
    with page.expect_request("**/dashboard/news"):
        screen.go("boots")
    page.evaluate("Object.defineProperty(document, 'hidden', {get: () => true})")
    page.wait_for_timeout(6000)
    before = len(screen.asked)
    page.wait_for_timeout(6000)
    assert len(screen.asked) == before
